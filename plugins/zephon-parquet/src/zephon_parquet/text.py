"""Text has to be UTF-8. Parquet readers take the writer's word for it; a tokenizer then fails far from the file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.errors import BadRow, BadRowsError


def check_text(batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> None:
    """Check every text of a batch, at any depth.

    Args:
        batch: canonical types.
        rows: the shard's number of each row.

    Raises:
        BadRowsError: ``bad-row``, naming every row with a text that is not UTF-8.
    """
    reasons: dict[int, str] = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if _has_text(field.type) and not _is_valid(column):
            for place in _invalid(column, 0, len(column)):
                reasons.setdefault(place, f"text that is not UTF-8 in field {field.name!r}")
    if reasons:
        raise BadRowsError(BadRow(int(rows[place]), reasons[place]) for place in sorted(reasons))


def _invalid(column: pa.Array, start: int, stop: int) -> Iterator[int]:
    """Places of the rows that are not valid, by halving: few rows are bad, if any."""
    if stop == start or _is_valid(column.take(pa.array(range(start, stop)))):
        return
    if stop - start == 1:
        yield start
        return
    middle = (start + stop) // 2
    yield from _invalid(column, start, middle)
    yield from _invalid(column, middle, stop)


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _has_text(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_text(kind.storage_type)
    if pa.types.is_nested(kind):
        return any(_has_text(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_string(kind))
