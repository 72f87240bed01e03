"""Where the first-party plugins live, for the line that installs one.

Other people's plugins need no entry here: what is installed is found by its entry points, and nothing but the text of
an error depends on this table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zephon import __version__

#: First-party plugins of this version by extension point and name, with the distribution that provides each.
KNOWN: Final[dict[str, dict[str, str]]] = {
    "shard_format": {
        "arrow": "zephon-arrow",
        "csv": "zephon-csv",
        "jsonl": "zephon-jsonl",
        "litdata": "zephon-litdata",
        "mds": "zephon-mds",
        "megatron": "zephon-megatron",
        "parquet": "zephon-parquet",
        "text": "zephon-csv",
        "webdataset": "zephon-webdataset",
    },
    "storage": {
        "fsspec": "zephon-fsspec",
        "local": "zephon-fsspec",
        "obstore": "zephon-obstore",
    },
    "operator": {
        "batch": "zephon-ops",
        "decode_text": "zephon-text",
        "ensure_mixture": "zephon-ops",
        "filter": "zephon-ops",
        "map_batch": "zephon-ops",
        "map_transform": "zephon-ops",
        "pack_flat": "zephon-pack",
        "shuffle": "zephon-ops",
        "stateful_transform": "zephon-ops",
        "tokenize": "zephon-text",
    },
    "runner": {
        "inline": "zephon-core",
        "processes": "zephon-processes",
        "ray": "zephon-ray",
        "threads": "zephon-threads",
    },
    "work_source": {
        "static_mixture": "zephon-core",
    },
    "tokenizer": {
        "hf": "zephon-text",
    },
    "checkpoint_store": {
        "directory": "zephon-core",
    },
    "hooks": {},
}


def checkout() -> Path | None:
    """The source tree this core runs from, or None where it is an installed wheel."""
    parents = Path(__file__).resolve().parents
    if len(parents) < 5:
        return None
    root = parents[4]  # <root>/zephon_core/src/zephon/plugins/known.py
    is_tree = (root / "zephon_core" / "pyproject.toml").is_file() and (root / "plugins").is_dir()
    return root if is_tree else None


def install_line(distribution: str, root: Path | None = None) -> str:
    """The command that installs a first-party distribution, ready to paste.

    It never leads to a public index: another project holds the name ``zephon`` there. The version is pinned for the
    same reason, and because first-party distributions share one.

    Args:
        distribution: e.g. ``"zephon-parquet"``.
        root: the source tree the core runs from, or None.
    """
    if root is not None:
        elsewhere = {"zephon-core": "zephon_core", "zephon-testkit": "tests/zephon-testkit"}
        folder = root / elsewhere.get(distribution, f"plugins/{distribution}")
        if folder.is_dir():
            return f"pip install -e {folder}"
    return f"pip install --find-links <folder with the wheels> {distribution}=={__version__}"
