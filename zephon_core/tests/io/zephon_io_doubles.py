"""A format and two storages, as small as they can be, for testing ``zephon.io`` by itself.

A ``.rows`` file begins with the line ``#rows``; each further line is one row, a JSON object. Lines that are none are:

- ``?reason``: a row that cannot be decoded, found when it is read;
- ``!reason``: reading any row of its unit (or this row alone, where there are no units) raises a ``ShardError``.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import FileInfo, Shard, ShardFormat, ShardIndex, ShardReader, StorageBackend
from zephon.block import canonical_schema, empty_batch
from zephon.errors import BadRow, BadRowsError, ShardError
from zephon.plugins import ShardFormatDescriptor, StorageDescriptor, register

MAGIC = b"#rows"


def rows_file(rows):
    """The content of a ``.rows`` file: dicts, or the special lines as they are."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    return b"\n".join([MAGIC, *(line.encode() for line in lines)]) + b"\n"


@attrs.frozen(slots=True)
class RowsFormat(ShardFormat):
    """Reads ``.rows`` files.

    Args:
        unit: rows per decode unit; 0: rows can be read one by one.
        known_bad: whether bad rows are found when indexing already.
    """

    unit: int = 0
    known_bad: bool = False

    def recognise(self, head):
        return head.head.startswith(MAGIC) or (not head.head and head.info.name.endswith(".rows"))

    def discover(self, files):
        for f in files:
            if f.name.endswith((".rows", ".txt")) or "." not in f.name:
                yield Shard(url=f.url, name=f.name, file=f)

    def index(self, shard, context):
        data = context.read_ranges(shard.url, [(0, context.size(shard.url))])[0].to_pybytes()
        if data and not data.startswith(MAGIC):
            raise ShardError(f"{shard.name} is no rows file", found=repr(data[:10]), code="not-rows")
        lines = data.split(b"\n")[1:-1]
        COUNTS["indexed"].append(shard.name)
        starts = np.cumsum([len(MAGIC) + 1, *(len(line) + 1 for line in lines)])
        good = [json.loads(line) for line in lines if line[:1] not in (b"?", b"!")]
        names = dict.fromkeys(name for row in good for name in row)
        schema = canonical_schema(pa.schema([(n, pa.array([row.get(n) for row in good]).type) for n in names]))
        bad = [(i, int(starts[i]), line[1:].decode()) for i, line in enumerate(lines) if line.startswith(b"?")]
        units = None
        if self.unit:
            units = np.append(np.arange(0, len(lines), self.unit), len(lines)).astype(np.int64)
        return ShardIndex(
            rows=len(lines),
            units=units,
            schema=schema,
            blob=pa.record_batch({"offset": starts}),
            bad_rows=tuple(bad) if self.known_bad else (),
        )

    def open(self, shard, index, context):
        COUNTS["opened"].append(shard.name)
        return _RowsReader(shard, index, context)


class _RowsReader(ShardReader):
    def __init__(self, shard, index, context):
        self.shard, self.index, self.context = shard, index, context
        self.busy = threading.Lock()
        COUNTS["open"] += 1

    def close(self):
        COUNTS["open"] -= 1

    def read(self, rows, columns):
        assert self.busy.acquire(blocking=False), "a reader was used by two threads at once"
        try:
            return self._read(np.asarray(rows), columns)
        finally:
            self.busy.release()

    def _read(self, rows, columns):
        assert (np.diff(rows) > 0).all()
        assert not len(rows) or (rows[0] >= 0 and rows[-1] < self.index.rows)
        offsets = self.index.blob.column("offset").to_numpy()
        needed = rows
        if self.index.units is not None and len(rows):
            # a unit is decoded from its start up to the last row wanted
            units = self.index.units
            starts = units[np.searchsorted(units, rows, side="right") - 1]
            needed = np.unique(np.concatenate([np.arange(s, r + 1) for s, r in zip(starts, rows, strict=True)]))
        ranges = [(int(offsets[i]), int(offsets[i + 1]) - 1) for i in needed]
        lines = dict(zip(needed.tolist(), self.context.read_ranges(self.shard.url, ranges), strict=True))
        lines = {i: b.to_pybytes() for i, b in lines.items()}
        for line in lines.values():
            if line.startswith(b"!"):
                raise ShardError(f"{self.shard.name} is torn", found=line[1:].decode(), code="torn")
        wanted = {i: lines[i] for i in rows.tolist()}
        bad = [BadRow(i, line[1:].decode(), int(offsets[i])) for i, line in wanted.items() if line.startswith(b"?")]
        if bad:
            raise BadRowsError(bad)
        schema = self.index.schema if columns is None else pa.schema([self.index.schema.field(c) for c in columns])
        if not len(rows):
            return empty_batch(schema)
        if not len(schema):
            return pa.record_batch({"_": pa.nulls(len(rows))}).select([])
        read = [json.loads(line) for line in wanted.values()]
        columns = [pa.array([row.get(f.name) for row in read], f.type) for f in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


@attrs.frozen(slots=True)
class OtherFormat(RowsFormat):
    """Claims the same content."""


class DiskStorage(StorageBackend):
    """Plain paths."""

    def stat(self, url):
        found = os.stat(url)
        if os.path.isdir(url):
            raise IsADirectoryError(url)
        return FileInfo(url=url, size=found.st_size, mtime=found.st_mtime)

    def list(self, url):
        if not os.path.isdir(url):
            raise NotADirectoryError(url) if os.path.exists(url) else FileNotFoundError(url)
        COUNTS["listed"].append(url)
        for directory, _, names in os.walk(url):
            for name in names:
                yield self.stat(os.path.join(directory, name))

    def read_ranges(self, url, ranges):
        with open(url, "rb") as f:
            return [self._one(f, *r) for r in ranges]

    def _one(self, f, start, stop):
        f.seek(start)
        data = f.read(stop - start)
        if len(data) < stop - start:
            raise EOFError(f"{len(data)} bytes where {start} to {stop} were wanted")
        return pa.py_buffer(data)

    def local_path(self, url):
        return url


#: The files of ``fake://`` URLs, what goes wrong with them, and what has been done.
FILES: dict[str, bytes] = {}
FAULTS: list[BaseException] = []
COUNTS: dict[str, object] = {}


class FakeStorage(StorageBackend):
    """``fake://`` URLs over a dict. Every call first raises the next of ``FAULTS``, if any."""

    def __init__(self, **options):
        unknown = set(options) - {"secret"}
        if unknown:
            raise TypeError(f"unexpected options {options}")

    def stat(self, url):
        self._stumble()
        if url in FILES:
            return FileInfo(url=url, size=len(FILES[url]), etag=f"v{hash(FILES[url]) & 0xFFFF}")
        if any(known.startswith(url.rstrip("/") + "/") for known in FILES):
            raise IsADirectoryError(url)
        raise FileNotFoundError(url)

    def list(self, url):
        self._stumble()
        return iter([self.stat(known) for known in FILES if known.startswith(url.rstrip("/") + "/")])

    def read_ranges(self, url, ranges):
        self._stumble()
        COUNTS["requests"] += 1
        if url not in FILES:
            raise FileNotFoundError(url)
        if any(stop > len(FILES[url]) for _, stop in ranges):
            raise EOFError(url)
        return [pa.py_buffer(FILES[url][start:stop]) for start, stop in ranges]

    def _stumble(self):
        if FAULTS:
            raise FAULTS.pop(0)


def _reset():
    FILES.clear()
    FAULTS.clear()
    COUNTS.update(indexed=[], opened=[], listed=[], open=0, requests=0)


@contextmanager
def installed():
    """Everything above, registered and empty."""
    _reset()
    rows = ShardFormatDescriptor(
        name="rows",
        summary="Test rows",
        impl="zephon_io_doubles:RowsFormat",
        suffixes=(".rows",),
        magic=(MAGIC,),
        index_files=("rows.index",),
    )
    disk = StorageDescriptor(
        name="test_disk", summary="Paths", impl="zephon_io_doubles:DiskStorage", schemes=("", "file"), priority=100
    )
    fake = StorageDescriptor(
        name="test_fake", summary="A dict", impl="zephon_io_doubles:FakeStorage", schemes=("fake", "http"), priority=100
    )
    with (
        register("shard_format", rows, RowsFormat),
        register("storage", disk, DiskStorage),
        register("storage", fake, FakeStorage),
    ):
        yield
    _reset()
