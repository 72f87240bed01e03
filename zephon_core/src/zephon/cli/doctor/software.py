"""Distributions, plugins, observers and the cache."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Final

from zephon.engine.plan import versions
from zephon.io.indexing import cache_directory
from zephon.plugins import hooks_manager, status

#: What else matters when something is slow or wrong.
BESIDE: Final = ("numpy", "pyarrow", "fsspec", "tokenizers", "torch", "jax", "ray", "cloudpickle")


def distributions() -> dict[str, str]:
    """Our distributions and those they work with, as far as installed."""
    from importlib import metadata

    found = dict(versions())
    for name in BESIDE:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def plugins() -> list[dict[str, str]]:
    """Every plugin and whether it works."""
    return [
        {"plugin": p.address, "distribution": p.distribution, "version": p.version, "status": p.status}
        for p in status()
    ]


def observers() -> dict[str, Any]:
    """Who hears of events; installed ones that are broken are left out by a run, and told here."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = hooks_manager().observers()
    return {"observers": found, "error": "; ".join(str(w.message) for w in caught)}


def cache() -> dict[str, Any]:
    """Where indexes are kept that cannot lie beside their data."""
    path = Path(cache_directory())
    sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()] if path.is_dir() else []
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    return {
        "path": str(path),
        "exists": path.is_dir(),
        "writable": there.is_dir() and os.access(there, os.W_OK | os.X_OK),
        "files": len(sizes),
        "bytes": sum(sizes),
    }
