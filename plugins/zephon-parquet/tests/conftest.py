"""Storage that counts what is read, and tables of every kind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon.abc import FileInfo, Shard, ShardIndex
from zephon.block import canonical_schema, conform
from zephon_parquet.format import ParquetFormat
from zephon_parquet.reader import ParquetReader


class CountingContext:
    """A ShardContext over local files, or over files that are somewhere else (``local=False``)."""

    def __init__(self, *, local: bool = True) -> None:
        self.local = local
        self.reads: list[tuple[int, int]] = []
        self.requests = 0

    def size(self, url: str) -> int:
        return Path(url).stat().st_size

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        self.requests += 1
        self.reads += ranges
        data = Path(url).read_bytes()
        for start, stop in ranges:
            if stop > len(data):
                raise EOFError(f"{start} to {stop} of {len(data)}")
        return [pa.py_buffer(data[start:stop]) for start, stop in ranges]

    def read_all(self, url: str) -> pa.Buffer:
        return self.read_ranges(url, [(0, self.size(url))])[0]

    def local_path(self, url: str) -> str | None:
        return url if self.local else None

    def open_random_access(self, url: str) -> pa.NativeFile:
        self.requests += 1
        return pa.OSFile(url) if self.local else pa.PythonFile(open(url, "rb"), mode="r")


def shard_at(path: Path) -> Shard:
    info = FileInfo(url=str(path), name=path.name, size=path.stat().st_size, mtime=path.stat().st_mtime)
    return Shard(url=str(path), name=path.name, file=info)


def opened(path: Path, context: Any = None) -> tuple[ParquetReader, ShardIndex]:
    context = context or CountingContext()
    shard = shard_at(path)
    index = ParquetFormat().index(shard, context)
    return ParquetFormat().open(shard, index, context), index


def canonical(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The whole file as pyarrow reads it, in canonical types."""
    table = pq.read_table(path, memory_map=False)
    schema = canonical_schema(table.schema)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    batches = [conform(batch, schema) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, schema)


def everything(reader: ParquetReader, index: ShardIndex, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    return reader.read(np.arange(index.rows), columns)


def write_groups(path: Path, table: pa.Table, sizes: Sequence[int], **options: Any) -> None:
    """A file with row groups of exactly these sizes."""
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        start = 0
        for size in sizes:
            writer.write_table(table.slice(start, size), row_group_size=max(size, 1))
            start += size
    assert start == table.num_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "part.parquet"
