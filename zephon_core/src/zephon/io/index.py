"""The index of a dataset: what indexing found out about each shard, as an Arrow IPC file.

One record batch holds some shards, in order of their names; no column has nulls:

============  =========================  ================================================================
column        type                       meaning
============  =========================  ================================================================
name, part    string                     the shard
size, mtime   int64, double              its file's, with ``etag``: the entry is valid while they stay
etag          string
rows          int64
units         large_list<int64>          row boundaries, empty where the format gave none
schema        int32                      number of its schema, counted through the file
schema_def    binary                     the serialised schema where its number appears first, else empty
bad_rows      large_list<struct>         row, byte offset, reason
layout        int32                      number of the blob's schema, -1 without blob
layout_def    binary                     as ``schema_def``
blob_crc      uint32                     CRC-32 of ``blob``
blob          large_binary               the format's own record batch, serialised
============  =========================  ================================================================

The file's schema metadata says what it is an index of; each batch carries a CRC-32 of its columns but ``blob``, which
is large and is checked when it is used. Loaded, the file is memory-mapped.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon.abc import Shard, ShardIndex
from zephon.io.shards import ShardTable
from zephon.spec import canonical_json

VERSION: Final = 1

_BAD_ROW: Final = pa.struct([("row", pa.int64()), ("offset", pa.int64()), ("reason", pa.string())])
_COLUMNS: Final[dict[str, pa.DataType]] = {
    "name": pa.string(),
    "part": pa.string(),
    "size": pa.int64(),
    "mtime": pa.float64(),
    "etag": pa.string(),
    "rows": pa.int64(),
    "units": pa.large_list(pa.int64()),
    "schema": pa.int32(),
    "schema_def": pa.binary(),
    "bad_rows": pa.large_list(_BAD_ROW),
    "layout": pa.int32(),
    "layout_def": pa.binary(),
    "blob_crc": pa.uint32(),
    "blob": pa.large_binary(),
}
_KEY: Final = b"zephon.index"
#: A batch is written once its blobs pass this, or it holds so many shards.
_BATCH_BYTES: Final = 32 << 20
_BATCH_SHARDS: Final = 4096


class DamagedIndexError(Exception):
    """An index file is not what it was when it was written."""


@attrs.frozen(slots=True, eq=False)
class Index:
    """An index in memory: arrays over the shards, the rest read where it lies.

    Attributes:
        batches: the record batches of the file.
        rows: int64 ``[shards]``.
        schema_ids: int32 ``[shards]``, into ``schemas``.
        schemas: the distinct schemas of shards, in order of first appearance.
        layouts: the distinct schemas of blobs.
        starts: int64 ``[batches]``: number of each batch's first shard.
        path: the file, or "" where there is none.
    """

    batches: Sequence[pa.RecordBatch]
    rows: npt.NDArray[np.int64]
    schema_ids: npt.NDArray[np.int32]
    schemas: Sequence[pa.Schema]
    layouts: Sequence[pa.Schema]
    starts: npt.NDArray[np.int64]
    path: str

    def __len__(self) -> int:
        return len(self.rows)

    def entry(self, shard: int) -> ShardIndex:
        """What is known of one shard; arrays are views of the index.

        Raises:
            DamagedIndexError: the blob is not what was written.
        """
        k = int(np.searchsorted(self.starts, shard, side="right")) - 1
        batch, i = self.batches[k], shard - int(self.starts[k])
        units = batch.column("units")[i].values
        layout = batch.column("layout")[i].as_py()
        blob = None
        if layout >= 0:
            buffer = batch.column("blob")[i].as_buffer()
            if zlib.crc32(buffer) != batch.column("blob_crc")[i].as_py():
                raise DamagedIndexError(f"the entry of {batch.column('name')[i].as_py()}")
            blob = pa.ipc.read_record_batch(buffer, self.layouts[layout])
        bad = batch.column("bad_rows")[i].as_py()
        return ShardIndex(
            rows=int(self.rows[shard]),
            units=units.to_numpy() if len(units) else None,
            schema=self.schemas[self.schema_ids[shard]],
            blob=blob,
            bad_rows=tuple((b["row"], b["offset"], b["reason"]) for b in bad),
        )

    def matches(self, shards: ShardTable) -> bool:
        """Whether every entry is valid for these very shards."""
        if len(shards) != len(self):
            return False
        for start, batch in zip(self.starts.tolist(), self.batches, strict=True):
            span = slice(start, start + batch.num_rows)
            texts = (("name", shards.names), ("part", shards.parts), ("etag", shards.etags))
            numbers = (("size", shards.sizes), ("mtime", shards.mtimes))
            if not all(batch.column(c).equals(values[span]) for c, values in texts):
                return False
            if not all(np.array_equal(batch.column(c).to_numpy(), values[span]) for c, values in numbers):
                return False
        return True

    def valid_entries(self, shards: ShardTable) -> dict[int, int]:
        """Which of these shards have a valid entry: number of the shard -> number of its entry."""
        known: dict[tuple[Any, ...], int] = {}
        for start, batch in zip(self.starts.tolist(), self.batches, strict=True):
            kept = [batch.column(c).to_pylist() for c in ("name", "part", "size", "mtime", "etag")]
            known.update((facts, start + i) for i, facts in enumerate(zip(*kept, strict=True)))
        present = (
            shards.names.to_pylist(),
            shards.parts.to_pylist(),
            shards.sizes.tolist(),
            shards.mtimes.tolist(),
            shards.etags.to_pylist(),
        )
        found = ((i, known.get(facts)) for i, facts in enumerate(zip(*present, strict=True)))
        return {i: entry for i, entry in found if entry is not None}


class IndexWriter:
    """Writes entries, in order of the shards' names, to an Arrow IPC file.

    Args:
        sink: where to: a path or an Arrow output stream.
        subject: plain data that says what this is an index of.
    """

    def __init__(self, sink: Any, subject: Any) -> None:
        described = canonical_json({"version": VERSION, "subject": subject})
        self._schema = _schema_of({_KEY: described})
        self._writer = pa.ipc.new_file(sink, self._schema)
        self._schemas = _Numbers()
        self._layouts = _Numbers()
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0

    def append(self, shard: Shard, entry: ShardIndex) -> None:
        """Add one shard's entry."""
        units: Sequence[int] | npt.NDArray[np.int64] = [] if entry.units is None else entry.units
        schema, schema_def = self._schemas.of(entry.schema)
        layout, layout_def = (-1, b"") if entry.blob is None else self._layouts.of(entry.blob.schema)
        blob = pa.py_buffer(b"") if entry.blob is None else entry.blob.serialize()
        bad = [{"row": row, "offset": offset, "reason": reason} for row, offset, reason in entry.bad_rows]
        file = shard.file
        facts = (shard.name, shard.part, file.size, file.mtime, file.etag, entry.rows)
        self._rows.append(
            (*facts, units, schema, schema_def, bad, layout, layout_def, zlib.crc32(blob), blob.to_pybytes())
        )
        self._bytes += blob.size + 8 * len(units) + 64 * len(bad)
        if self._bytes > _BATCH_BYTES or len(self._rows) >= _BATCH_SHARDS:
            self._flush()

    def close(self) -> None:
        """Write what is left and the end of the file."""
        self._flush()
        self._writer.close()

    def abort(self) -> None:
        """Give up: what was written is no index."""
        self._rows.clear()
        self._writer.close()

    def _flush(self) -> None:
        if not self._rows:
            return
        arrays = []
        for i, kind in enumerate(_COLUMNS.values()):
            array = pa.array([row[i] for row in self._rows], type=kind)
            if isinstance(array, pa.ChunkedArray):  # bad rows with gigabytes of reasons
                raise OSError("an index batch does not fit one Arrow array")
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._writer.write_batch(batch, custom_metadata={"crc": str(_checksum(batch))})
        self._rows.clear()
        self._bytes = 0


def read_index(source: pa.Buffer, subject: Any, path: str = "") -> Index:
    """The index in a buffer.

    Args:
        source: the content of an index file.
        subject: what it should be an index of.
        path: the file it comes from.

    Raises:
        DamagedIndexError: it is no index, or one of something else, or damaged.
    """
    try:
        reader = pa.ipc.open_file(source)
        described = json.loads((reader.schema.metadata or {}).get(_KEY, b"null"))
        if canonical_json(described) != canonical_json({"version": VERSION, "subject": subject}):
            raise DamagedIndexError("it is the index of something else")
        if not reader.schema.equals(_schema_of(None)):
            raise DamagedIndexError("its columns are others")
        batches = []
        for i in range(reader.num_record_batches):
            batch, metadata = reader.get_batch_with_custom_metadata(i)
            batch.validate()
            if not metadata or str(_checksum(batch)) != metadata[b"crc"].decode():
                raise DamagedIndexError(f"batch {i} has another checksum")
            batches.append(batch)
        return _assemble(batches, path)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DamagedIndexError(f"{type(error).__name__}: {error}") from error


def _schema_of(metadata: Mapping[bytes, bytes] | None) -> pa.Schema:
    return pa.schema([pa.field(n, t, nullable=False) for n, t in _COLUMNS.items()], metadata)


def _assemble(batches: Sequence[pa.RecordBatch], path: str) -> Index:
    def column(name: str, dtype: Any) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, dtype), *(b.column(name).to_numpy() for b in batches)])

    starts = np.cumsum([0, *(b.num_rows for b in batches)], dtype=np.int64)[:-1]
    return Index(
        batches=batches,
        rows=column("rows", np.int64),
        schema_ids=column("schema", np.int32),
        schemas=list(_definitions(batches, "schema_def")),
        layouts=list(_definitions(batches, "layout_def")),
        starts=starts,
        path=path,
    )


def _definitions(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[pa.Schema]:
    for batch in batches:
        for definition in batch.column(column).filter(pc.not_equal(batch.column(column), b"")):
            yield pa.ipc.read_schema(definition.as_buffer())


def _checksum(batch: pa.RecordBatch) -> int:
    """CRC-32 of all columns but ``blob``, over exactly the bytes that hold values."""
    crc = 0
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name != "blob":
            for piece in _value_bytes(column):
                crc = zlib.crc32(piece, crc)
    return crc


def _value_bytes(array: pa.Array) -> Iterator[Any]:
    """The bytes of an array without nulls that starts at offset 0."""
    kind = array.type
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _value_bytes(array.field(i))
    elif pa.types.is_large_list(kind):
        yield from _value_bytes(array.offsets)
        yield from _value_bytes(array.values)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        _, offsets, data = array.buffers()
        used = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1) if offsets and len(array) else [0]
        yield np.ascontiguousarray(used)
        if data is not None:
            yield memoryview(data)[: int(used[-1])]
    else:
        yield np.ascontiguousarray(array.to_numpy())


class _Numbers:
    """Numbers schemas in order of first appearance."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._last: pa.Schema | None = None
        self._last_number = -1

    def of(self, schema: pa.Schema) -> tuple[int, bytes]:
        """The schema's number, and its definition if it is new, else nothing."""
        if schema is self._last:
            return self._last_number, b""
        definition = schema.serialize().to_pybytes()
        known = definition in self._numbers
        self._last, self._last_number = schema, self._numbers.setdefault(definition, len(self._numbers))
        return self._last_number, b"" if known else definition
