"""Whether rows are what their types say.

Arrow takes the file's word for it; damaged offsets would lead into foreign memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard
from zephon.errors import BadRow, BadRowsError
from zephon_arrow.errors import corrupt

_NOT_UTF8 = "UTF8"


def check_shape(shard: Shard, batch: pa.RecordBatch, place: str) -> bool:
    """Check every offset, index and text of some rows.

    Returns:
        Whether some text is not UTF-8, everything else being sound.

    Raises:
        ShardError: ``shard-corrupt``, naming the field.
    """
    doubtful = False
    for field, column in zip(batch.schema, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
            if _NOT_UTF8 not in str(error) or not _is_sound_as_bytes(column):
                raise corrupt(shard, f"field {field.name!r} of {place}: {error}") from error
            doubtful = True
    return doubtful


def check_rows(pieces: Sequence[pa.RecordBatch], rows: npt.NDArray[np.int64]) -> None:
    """Find the rows whose text is not UTF-8, if it is these at all.

    Args:
        pieces: batches whose shape is sound.
        rows: the shard's number of each of their rows.

    Raises:
        BadRowsError: ``bad-row``, naming all of them.
    """
    reasons: dict[int, str] = {}
    first = 0
    for piece in pieces:
        for field, column in zip(piece.schema, piece.columns, strict=True):
            if not _is_valid(column):
                for place in _invalid(column, 0, len(column)):
                    reasons.setdefault(int(rows[first + place]), f"text that is not UTF-8 in field {field.name!r}")
        first += piece.num_rows
    if reasons:
        raise BadRowsError(BadRow(row, reasons[row]) for row in sorted(reasons))


def _is_sound_as_bytes(column: pa.Array) -> bool:
    """Whether a column is valid but for what its texts hold."""
    try:
        column.view(_bytes_for_text(column.type)).validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _bytes_for_text(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_string(kind):
        return pa.binary()
    if types.is_large_string(kind):
        return pa.large_binary()
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_bytes_for_text(kind.value_type)))
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_bytes_for_text(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_bytes_for_text(field.type)) for field in kind])
    return kind


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _invalid(column: pa.Array, start: int, stop: int) -> Iterator[int]:
    """Places of the rows that are not valid, by halving: few rows are bad, if any."""
    if stop == start or _is_valid(column.take(pa.array(range(start, stop), pa.int64()))):
        return
    if stop - start == 1:
        yield start
        return
    middle = (start + stop) // 2
    yield from _invalid(column, start, middle)
    yield from _invalid(column, middle, stop)
