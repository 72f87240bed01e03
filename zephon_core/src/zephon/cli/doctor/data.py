"""Whether data can be reached: listed, recognised, and its first bytes read."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from zephon.errors import ZephonError
from zephon.io import Dataset
from zephon.io.listing import OWN_DIRECTORY, list_files
from zephon.io.storage import StorageContext, Storages
from zephon.io.urls import display

#: Bytes that are read of the first file.
FIRST_BYTES: Final = 64 << 10


def look_at(path: str) -> Iterator[dict[str, Any]]:
    """What there is at a path, or at those of a recipe's datasets."""
    if not path.endswith(".toml"):
        yield _checked({"name": "data", "path": path})
        return
    error = _recipe_error(path)
    if error:
        yield {**_nothing(path), "error": error}
        return
    recipe = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    for dataset in recipe.get("source", {}).get("datasets", []):
        yield _checked(dataset)


def _recipe_error(path: str) -> str:
    """What is wrong with a recipe, apart from its data."""
    from zephon import Pipeline

    try:
        Pipeline.from_spec(path).close()
    except Exception as error:  # noqa: BLE001 - functions that a recipe names are imported, and may raise anything
        return _told(error)
    return ""


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    paths = settings["path"] if isinstance(settings["path"], list) else [settings["path"]]
    found = _nothing(", ".join(display(path) for path in paths))
    context = StorageContext(Storages())
    try:
        begun = time.perf_counter()
        listing = list_files(paths, context)
        found["list_seconds"] = time.perf_counter() - begun
        dataset = Dataset.from_plain(settings)
        found.update(format=dataset.format_name, shards=dataset.shard_count(), bytes=dataset.total_bytes())
        found["index"] = _index(listing.root, context)
        begun = time.perf_counter()
        file = next((file for file in listing.files if file.size), None)
        if file is not None:
            context.read_ranges(file.url, [(0, min(file.size, FIRST_BYTES))])
        found["read_seconds"] = time.perf_counter() - begun
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs into the report
        found["error"] = _told(error)
    finally:
        context.close()
    return found


def _index(root: str | None, context: StorageContext) -> str:
    """The index that lies beside local data, and whether it can be read; "" where there is none."""
    folder = context.local_path(root) if root is not None else None
    saved = sorted(Path(folder, OWN_DIRECTORY).glob("index-*.arrow")) if folder is not None else []
    return ", ".join(f"{place.name} {_state_of(place)}" for place in saved)


def _state_of(place: Path) -> str:
    try:
        with pa.memory_map(str(place)) as mapped:
            index = pa.ipc.open_file(mapped)
            return f"of {sum(index.get_batch(i).num_rows for i in range(index.num_record_batches))} shards"
    except (OSError, pa.ArrowException):
        return "cannot be read and will be built anew"


def _nothing(path: str) -> dict[str, Any]:
    return {
        "path": path,
        "format": "",
        "shards": 0,
        "bytes": 0,
        "list_seconds": 0.0,
        "read_seconds": 0.0,
        "index": "",
        "error": "",
    }


def _told(error: Exception) -> str:
    if not isinstance(error, ZephonError):
        return f"{type(error).__name__}: {error}"
    return f"[{error.code}] {error.what}" + (f"; found: {error.found}" if error.found else "")
