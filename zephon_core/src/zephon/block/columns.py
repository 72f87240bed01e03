"""Whole-column helpers over Arrow record batches and list arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: No column of a block passes this many bytes.
MAX_COLUMN_BYTES: Final = 1 << 30


def empty_columns(rows: int) -> pa.RecordBatch:
    """A record batch of ``rows`` rows and no column (Arrow can only make one by dropping columns)."""
    return pa.record_batch({"_": pa.nulls(rows)}).select([])


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A record batch of no rows."""
    return pa.RecordBatch.from_pylist([], schema=schema)


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
