"""Shards in memory and on disk, read through the smallest context that could be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pytest

from zephon.abc import FileInfo, Shard, ShardIndex, ShardReader
from zephon_jsonl.shards import JsonlFormat


class MemoryContext:
    """A store elsewhere: no local path, reads by range; remembers what was read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def size(self, url: str) -> int:
        return len(self.data)

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        self.reads += ranges
        if any(stop > len(self.data) for _, stop in ranges):
            raise EOFError
        return [pa.py_buffer(self.data[start:stop]) for start, stop in ranges]

    def read_all(self, url: str) -> pa.Buffer:
        raise AssertionError("a whole file from elsewhere")

    def local_path(self, url: str) -> str | None:
        return None


class DiskContext:
    """A file on this machine's disk."""

    def size(self, url: str) -> int:
        return Path(url).stat().st_size

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        with open(url, "rb") as file:
            return [pa.py_buffer((file.seek(start), file.read(stop - start))[1]) for start, stop in ranges]

    def read_all(self, url: str) -> pa.Buffer:
        raise AssertionError("a whole file copied")

    def local_path(self, url: str) -> str | None:
        return url


@attrs.frozen
class Indexed:
    """A shard with its index."""

    shard: Shard
    context: MemoryContext | DiskContext
    index: ShardIndex

    def open(self) -> ShardReader:
        return JsonlFormat().open(self.shard, self.index, self.context)

    def read(self, rows: Sequence[int] | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        rows = range(self.index.rows) if rows is None else rows
        return self.open().read(np.array(rows, dtype=np.int64), columns)


def in_memory(data: bytes, name: str = "rows.jsonl") -> Indexed:
    context = MemoryContext(data)
    shard = Shard(url=f"memory://{name}", name=name, file=FileInfo(url=f"memory://{name}", name=name, size=len(data)))
    return Indexed(shard, context, JsonlFormat().index(shard, context))


def on_disk(path: Path) -> Indexed:
    context = DiskContext()
    shard = Shard(url=str(path), name=path.name, file=FileInfo(url=str(path), size=path.stat().st_size))
    return Indexed(shard, context, JsonlFormat().index(shard, context))


@pytest.fixture(name="in_memory", scope="session")
def _in_memory():
    return in_memory


@pytest.fixture(name="on_disk", scope="session")
def _on_disk():
    return on_disk
