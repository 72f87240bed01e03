"""Blocks: Arrow record batches of consecutive rows of one lane, each row with its origin.

A block is an execution detail. Where one ends and the next begins may never show in a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon import random

#: Columns of an origin, with their dtypes; the order is part of the checkpoint format.
ORIGIN_DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "component": np.dtype(np.int16),
    "dataset": np.dtype(np.int16),
    "shard": np.dtype(np.int32),
    "row": np.dtype(np.int64),
    "epoch": np.dtype(np.int64),
    "part": np.dtype(np.uint64),
    "phase": np.dtype(np.int32),
}

#: Prefix of the columns that carry origins when a block is written down as one record batch.
RESERVED_PREFIX: Final = "__zephon."

#: Column of packed rows: the documents of each row, in order, with their token ranges.
DOCUMENTS_FIELD: Final = "documents"

#: Arrow type of one entry of :data:`DOCUMENTS_FIELD`. ``start`` is the offset *within the document* of the
#: first token taken, ``length`` the number of tokens taken; entries of a row follow each other without gap.
DOCUMENT_TYPE: Final = pa.struct(
    [
        ("component", pa.int16()),
        ("dataset", pa.int16()),
        ("shard", pa.int32()),
        ("row", pa.int64()),
        ("epoch", pa.int64()),
        ("part", pa.uint64()),
        ("phase", pa.int32()),
        ("start", pa.int32()),
        ("length", pa.int32()),
    ]
)

#: No column of a block passes this many bytes.
MAX_COLUMN_BYTES: Final = 1 << 30

# Keys of field metadata (Arrow field metadata is bytes -> bytes). They tell views how to pad a ragged column.
META_PAD_ID: Final = b"zephon.pad_id"  # decimal integer: the value rows are padded with
META_PAD_SIDE: Final = b"zephon.pad_side"  # b"right" or b"left"
META_PAD_LENGTH: Final = b"zephon.pad_length"  # decimal integer: pad to this; absent: to the longest row
META_ROLE: Final = b"zephon.role"  # b"tokens", b"positions", b"loss_mask", b"attention_mask"
META_EOS_ID: Final = b"zephon.eos_id"  # decimal integer: the tokenizer's end-of-sequence id


def _column(name: str) -> Any:
    dtype = ORIGIN_DTYPES[name]

    def convert(value: npt.ArrayLike) -> npt.NDArray[Any]:
        return np.ascontiguousarray(value, dtype=dtype)

    return attrs.field(converter=convert, eq=attrs.cmp_using(eq=np.array_equal))


@attrs.frozen(slots=True, kw_only=True)
class Origins:
    """Where rows come from: parallel numpy arrays of one length, and, with ``part`` 0, pointers not yet read.

    ``component`` and ``dataset`` index the work source's lists; ``shard`` the dataset's shards; ``row`` the
    shard's rows. ``part`` tells apart the rows split from one sample. ``phase`` is the curriculum phase the row
    was drawn in. A row made of several samples (a packed row) has component -1, dataset -1, ``shard`` = lane and
    ``row`` = its ordinal in the lane, so that randomness keyed by origin is keyed by (lane, ordinal) after packing.
    """

    component: npt.NDArray[np.int16] = _column("component")
    dataset: npt.NDArray[np.int16] = _column("dataset")
    shard: npt.NDArray[np.int32] = _column("shard")
    row: npt.NDArray[np.int64] = _column("row")
    epoch: npt.NDArray[np.int64] = _column("epoch")
    part: npt.NDArray[np.uint64] = _column("part")
    phase: npt.NDArray[np.int32] = _column("phase")

    def __attrs_post_init__(self) -> None:
        lengths = {len(column) for column in self.columns().values()}
        if len(lengths) != 1:
            raise ValueError(f"origin columns differ in length: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.row)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, in the order of :data:`ORIGIN_DTYPES`."""
        return {name: getattr(self, name) for name in ORIGIN_DTYPES}

    def slice(self, start: int, stop: int) -> Origins:
        """Rows ``start:stop`` as views."""
        return Origins(**{name: column[start:stop] for name, column in self.columns().items()})

    def take(self, indices: npt.NDArray[Any]) -> Origins:
        """The rows at ``indices`` (integers or a boolean mask), copied."""
        return Origins(**{name: column[indices] for name, column in self.columns().items()})

    def children(self, parents: npt.NDArray[np.int64]) -> Origins:
        """Origins of rows made from these: row ``i`` of the result is a child of ``parents[i]``.

        Children of one parent must be neighbours. The first keeps its parent's ``part``; the k-th gets a mix of it
        and k, which depends on nothing else and so not on where a block ends.

        Args:
            parents: int64 ``[n]``, non-decreasing.
        """
        parents = np.asarray(parents, dtype=np.int64)
        taken = self.take(parents)
        if len(parents) < 2:
            return taken
        first = np.empty(len(parents), dtype=bool)
        first[0] = True
        np.not_equal(parents[1:], parents[:-1], out=first[1:])
        if first.all():
            return taken
        starts = np.flatnonzero(first)
        nth = np.arange(len(parents)) - np.repeat(starts, np.diff(np.append(starts, len(parents))))
        part = taken.part.copy()
        part[~first] = random.combine(part[~first], nth[~first])
        return attrs.evolve(taken, part=part)

    @staticmethod
    def concat(pieces: Sequence[Origins]) -> Origins:
        """One after the other; no pieces give no rows."""
        if len(pieces) == 1:
            return pieces[0]
        return Origins(
            **{
                name: np.concatenate([np.empty(0, dtype), *(getattr(p, name) for p in pieces)])
                for name, dtype in ORIGIN_DTYPES.items()
            }
        )

    @staticmethod
    def empty() -> Origins:
        """No rows."""
        return Origins.concat([])

    @staticmethod
    def of_lane(lane: int, ordinals: npt.NDArray[np.int64]) -> Origins:
        """Origins of rows made of several samples: addressed by lane and ordinal."""
        n = len(ordinals)
        return Origins(
            component=np.full(n, -1),
            dataset=np.full(n, -1),
            shard=np.full(n, lane),
            row=ordinals,
            epoch=np.zeros(n, dtype=np.int64),
            part=np.zeros(n, dtype=np.uint64),
            phase=np.full(n, -1),
        )


@attrs.frozen(slots=True)
class Block:
    """Consecutive rows of one lane.

    Attributes:
        data: the rows as columns.
        origins: one origin per row.
        lane: which lane they belong to.
        index: ordinal, within its lane and stage, of the block's first row. After ``batch``: the microbatch's number.
    """

    data: pa.RecordBatch
    origins: Origins
    lane: int = 0
    index: int = 0

    def __attrs_post_init__(self) -> None:
        if self.data.num_rows != len(self.origins):
            raise ValueError(f"{self.data.num_rows} rows but {len(self.origins)} origins")

    def __len__(self) -> int:
        return len(self.origins)

    @property
    def schema(self) -> pa.Schema:
        """The schema of ``data``."""
        return self.data.schema

    @property
    def nbytes(self) -> int:
        """Bytes of the distinct Arrow buffers the block keeps alive, parents included, plus its origins."""
        return retained_bytes([self.data]) + sum(c.nbytes for c in self.origins.columns().values())

    def with_data(self, data: pa.RecordBatch) -> Block:
        """The same rows with other columns."""
        return attrs.evolve(self, data=data)

    def derive(self, data: pa.RecordBatch, parents: npt.ArrayLike) -> Block:
        """The rows a row operator made of this block's rows.

        Args:
            data: the new rows.
            parents: int64 ``[data.num_rows]``, non-decreasing: the row of this block each new row was made from.
        """
        return attrs.evolve(self, data=data, origins=self.origins.children(np.asarray(parents, dtype=np.int64)))

    def slice(self, start: int, stop: int) -> Block:
        """Rows ``start:stop``, sharing memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        return Block(
            self.data.slice(start, stop - start), self.origins.slice(start, stop), self.lane, self.index + start
        )

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """The rows at ``indices`` in that order, copied."""
        return attrs.evolve(self, data=take_batch(self.data, indices), origins=self.origins.take(indices))

    def filter(self, mask: npt.NDArray[np.bool_]) -> Block:
        """The rows where ``mask`` is true. Returns the block itself when nothing is dropped."""
        return self if bool(np.all(mask)) else self.take(np.flatnonzero(mask))

    def empty(self) -> Block:
        """No rows of the same schema and lane."""
        return self.slice(0, 0)

    @staticmethod
    def concat(blocks: Sequence[Block]) -> Block:
        """One block of all rows; lane and index are the first block's.

        Raises:
            ValueError: no block, or schemas that differ.
        """
        if not blocks:
            raise ValueError("no block to concatenate")
        if len(blocks) == 1:
            return blocks[0]
        data = concat_batches([b.data for b in blocks])
        return attrs.evolve(blocks[0], data=data, origins=Origins.concat([b.origins for b in blocks]))

    def compact(self) -> Block:
        """The same rows in memory of their own: frees the parents that slices keep alive."""
        return self.take(np.arange(len(self), dtype=np.int64))

    def to_record_batch(self) -> pa.RecordBatch:
        """Rows and origins as one record batch, for IPC and checkpoints."""
        columns = list(self.data.columns)
        fields = list(self.data.schema)
        for name, values in self.origins.columns().items():
            array = pa.array(values)
            columns.append(array)
            fields.append(pa.field(RESERVED_PREFIX + name, array.type, nullable=False))
        metadata = dict(self.data.schema.metadata or {})
        metadata[b"zephon.lane"] = str(self.lane).encode()
        metadata[b"zephon.index"] = str(self.index).encode()
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=metadata))

    @staticmethod
    def from_record_batch(batch: pa.RecordBatch) -> Block:
        """Inverse of :meth:`to_record_batch`."""
        n = len(batch.schema.names) - len(ORIGIN_DTYPES)
        metadata = dict(batch.schema.metadata or {})
        lane, index = int(metadata.pop(b"zephon.lane")), int(metadata.pop(b"zephon.index"))
        schema = pa.schema(list(batch.schema)[:n], metadata=metadata or None)
        origins = Origins(**{name: batch.column(n + i).to_numpy() for i, name in enumerate(ORIGIN_DTYPES)})
        if n == 0:
            data = empty_columns(batch.num_rows)
        else:
            data = pa.RecordBatch.from_arrays(batch.columns[:n], schema=schema)
        return Block(data, origins, lane, index)


def empty_columns(rows: int) -> pa.RecordBatch:
    """A record batch of ``rows`` rows and no column (Arrow can only make one by dropping columns)."""
    return pa.record_batch({"_": pa.nulls(rows)}).select([])


def take_batch(batch: pa.RecordBatch, indices: npt.NDArray[Any]) -> pa.RecordBatch:
    """``batch.take`` that also works without columns."""
    if batch.num_columns == 0:
        return empty_columns(len(indices))
    return batch.take(pa.array(indices, type=pa.int64()))


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch of all rows, whatever their number, with the first batch's schema metadata.

    Raises:
        ValueError: schemas differ, or a column would pass :data:`MAX_COLUMN_BYTES`.
    """
    if len(batches) == 1:
        return batches[0]
    schema = batches[0].schema
    for other in batches[1:]:
        if not other.schema.equals(schema):
            raise ValueError(f"schemas differ:\n{schema}\n---\n{other.schema}")
    if schema.names == []:
        return empty_columns(sum(b.num_rows for b in batches))
    columns = []
    for i, field in enumerate(schema):
        pieces = [b.column(i) for b in batches]
        if sum(p.nbytes for p in pieces) > MAX_COLUMN_BYTES:
            raise ValueError(f"column {field.name!r} of one block would pass {MAX_COLUMN_BYTES} bytes")
        columns.append(pa.concat_arrays(pieces))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def retained_bytes(batches: Iterable[pa.RecordBatch]) -> int:
    """Bytes of the distinct Arrow buffers behind these batches: a slice counts as the whole it keeps alive."""
    seen: dict[int, int] = {}

    def visit(array: pa.Array) -> None:
        for buffer in array.buffers():
            if buffer is None:
                continue
            root = buffer
            while root.parent is not None:
                root = root.parent
            seen[root.address] = max(seen.get(root.address, 0), root.size)
        if isinstance(array, pa.DictionaryArray):
            visit(array.dictionary)

    for batch in batches:
        for column in batch.columns:
            visit(column.storage if isinstance(column, pa.ExtensionArray) else column)
    return sum(seen.values())


def list_parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Offsets and flat values of a list column, slices resolved: row ``i`` is ``values[offsets[i]:offsets[i + 1]]``.

    Args:
        column: ``list<T>`` or ``large_list<T>`` array; null rows count as empty (their range has length 0 by format).

    Returns:
        int64 offsets ``[n + 1]`` starting at 0, and the values array cut to what the rows cover.
    """
    if len(column) == 0:
        return np.zeros(1, dtype=np.int64), column.values.slice(0, 0)
    offsets = column.offsets.to_numpy().astype(np.int64)
    if column.null_count:
        # A null row may cover values by format; drop them so that lengths and values agree.
        column = pa.array(column.to_pylist(), type=column.type) if _null_rows_cover_values(column, offsets) else column
        offsets = column.offsets.to_numpy().astype(np.int64)
    values = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return offsets - offsets[0], values


def _null_rows_cover_values(column: pa.Array, offsets: npt.NDArray[np.int64]) -> bool:
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    return bool((np.diff(offsets)[nulls] != 0).any())


def list_column(offsets: npt.NDArray[np.int64], values: pa.Array | npt.NDArray[Any]) -> pa.Array:
    """Inverse of :func:`list_parts`: a ``list<T>`` array with int32 offsets.

    Raises:
        ValueError: the values do not fit int32 offsets.
    """
    if len(offsets) and int(offsets[-1]) > np.iinfo(np.int32).max:
        raise ValueError("a list column holds at most 2**31 - 1 values; use smaller blocks")
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), array)


def per_row(fn: Callable[[dict[str, Any]], Any], batch: pa.RecordBatch) -> list[Any]:
    """Call a Python function on every row as a dict: the slow path, for per-sample user functions."""
    return [fn(row) for row in batch.to_pylist()]
