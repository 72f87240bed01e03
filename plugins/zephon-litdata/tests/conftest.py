"""Golden directories as the format sees them: a listing, and the smallest context that could serve it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from zephon.abc import FileInfo, Shard
from zephon_litdata.format import LitDataFormat

GOLDEN = Path(__file__).parent / "golden"


class DiskContext:
    """Files on this machine's disk, read by range and remembered."""

    def __init__(self) -> None:
        self.reads: list[tuple[str, int, int]] = []

    def size(self, url: str) -> int:
        return Path(url).stat().st_size

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        content = Path(url).read_bytes()
        self.reads += [(Path(url).name, start, stop) for start, stop in ranges]
        if any(stop > len(content) for _, stop in ranges):
            raise EOFError(f"{url} ends before")
        return [pa.py_buffer(content[start:stop]) for start, stop in ranges]

    def read_all(self, url: str) -> pa.Buffer:
        content = Path(url).read_bytes()
        self.reads.append((Path(url).name, 0, len(content)))
        return pa.py_buffer(content)

    def local_path(self, url: str) -> str | None:
        return None


def listing(folder: Path) -> list[FileInfo]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [FileInfo(url=str(p), name=p.relative_to(folder).as_posix(), size=p.stat().st_size) for p in paths]


def shards(folder: Path, fmt: LitDataFormat | None = None) -> list[Shard]:
    return sorted((fmt or LitDataFormat()).discover(listing(folder)), key=lambda shard: shard.name)


def read(
    shard: Shard, columns: Sequence[str] | None = None, fmt: LitDataFormat | None = None, context: Any = None
) -> pa.RecordBatch:
    """All rows of a shard."""
    fmt, context = fmt or LitDataFormat(), context or DiskContext()
    index = fmt.index(shard, context)
    return fmt.open(shard, index, context).read(np.arange(index.rows), columns)


def read_all(
    folder: Path, fmt: LitDataFormat | None = None, columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """All rows of a folder, chunk after chunk."""
    return [row for shard in shards(folder, fmt) for row in read(shard, columns, fmt).to_pylist()]


def expected(name: str = "expected.jsonl") -> dict[str, list[Any]]:
    """Rows by golden folder, as the format's own library read them: arrays as lists, bytes as bytes."""
    with (GOLDEN / name).open(encoding="utf-8") as lines:
        return {entry["folder"]: _plain(entry["rows"]) for entry in map(json.loads, lines)}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"base64"}:
            return base64.b64decode(value["base64"])
        if set(value) == {"array", "dtype"}:
            return value["array"]
        return {key: _plain(item) for key, item in value.items()}
    return value
