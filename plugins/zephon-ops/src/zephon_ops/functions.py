"""Calling the user's functions: what they may return, and what is told when they fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.block import Block, conform, unify_schemas
from zephon.errors import BadRow, BadRowsError, DataError
from zephon.spec import callable_reference
from zephon_ops.values import MisfitError, MisfitRowsError, Row, schema_line

Int64Array = npt.NDArray[np.int64]


class Outcomes(NamedTuple):
    """What became of calling a function once per row.

    Attributes:
        values: what it returned, None where it raised.
        failures: what it raised, by position.
    """

    values: list[Any]
    failures: dict[int, Exception]


def call_on_rows(fn: Callable[[Row], Any], rows: Sequence[Row]) -> Outcomes:
    """Call a function once per row."""
    values: list[Any] = []
    failures: dict[int, Exception] = {}
    for i, row in enumerate(rows):  # a Python function sees one row at a time: this is the slow path
        try:
            values.append(fn(row))
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises concerns its row alone
            values.append(None)
            failures[i] = error
    return Outcomes(values, failures)


def described(operator: str, fn: Callable[..., Any]) -> str:
    """``map_transform(module:name)``."""
    return f"{operator}({callable_reference(fn)})"


class Refusal(NamedTuple):
    """Why the result for a row cannot be used."""

    reason: str
    code: str
    fix: str = ""


def bad_rows(label: str, failures: Mapping[int, Exception], refusals: Mapping[int, Refusal]) -> BadRowsError:
    """The error for rows a function raised on, and rows whose result cannot be used.

    Args:
        label: operator and function.
        failures: what the function raised, by position.
        refusals: what is wrong with other results, by position.

    Returns:
        An error that names all of them; its code is that of the first, its ``__cause__`` the first exception raised.
    """
    told = {i: Refusal(f"{type(e).__name__}: {e}", "function-failed") for i, e in failures.items()}
    told.update(refusals)
    first = told[min(told)]
    skip = 'to drop and count such rows, pass .options(on_error="skip") or "quarantine"'
    error = BadRowsError(
        [BadRow(i, told[i].reason) for i in sorted(told)],
        what=f"{label} cannot process {'a row' if len(told) == 1 else f'{len(told)} rows'} of a block",
        code=first.code,
        fix=f"{first.fix}; {skip}" if first.fix else skip,
    )
    error.__cause__ = failures[min(failures)] if failures else None
    return error


def misfits(error: MisfitRowsError, positions: Sequence[int] | None = None) -> dict[int, Refusal]:
    """Refusals of rows that do not fit the schema; row ``i`` of the error stands at ``positions[i]``."""
    fix = f"if such rows are right, pass {schema_line(error.schema)}"
    return {
        i if positions is None else positions[i]: Refusal(reason, "row-does-not-fit", fix)
        for i, reason in error.rows.items()
    }


def wrong_result(label: str, result: Any, expected: str) -> DataError:
    """The error for a function that returned something it may not return, whatever the row."""
    found = f"a {type(result).__qualname__}" if result is not None else "None"
    return DataError(
        f"{label} returned something that cannot be used",
        found=f"{found}; expected {expected}",
        fix="see the operator's documentation for what the function returns",
        code="function-result",
    )


def split_parents(
    label: str, result: Any, rows: int, *, may_change_rows: bool
) -> tuple[pa.RecordBatch, Int64Array | None]:
    """Take apart what a vectorised function returned: a record batch, alone or with the parent of each row.

    Returns:
        The batch, and int64 ``[batch.num_rows]`` parents, or None where row ``i`` was made from row ``i``.

    Raises:
        DataError: ``function-result``.
    """
    expected = f"a pyarrow.RecordBatch of {rows} rows" + (", or (RecordBatch, parents)" if may_change_rows else "")
    batch, parents = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(batch, pa.RecordBatch):
        raise wrong_result(label, batch, expected)
    if parents is None:
        if batch.num_rows != rows:
            raise _wrong_rows(label, f"{batch.num_rows} rows", expected)
        return batch, None
    made_from = np.asarray(parents)
    if made_from.shape != (batch.num_rows,) or (made_from.dtype.kind not in "iu" and made_from.size):
        raise _wrong_rows(label, f"{batch.num_rows} rows with parents {parents!r:.80}", expected)
    made_from = made_from.astype(np.int64)
    if made_from.size and (made_from[0] < 0 or made_from[-1] >= rows or (np.diff(made_from) < 0).any()):
        raise _wrong_rows(label, f"parents {parents!r:.80}", f"non-decreasing positions in 0..{rows - 1}")
    if not may_change_rows and not np.array_equal(made_from, np.arange(rows)):
        raise _wrong_rows(label, f"{batch.num_rows} rows made from {rows}", expected)
    return batch, made_from


def _wrong_rows(label: str, found: str, expected: str) -> DataError:
    return DataError(
        f"{label} returned rows that cannot be traced to the rows it was given",
        found=f"{found}; expected {expected}",
        fix="return as many rows as came in, or (RecordBatch, parents) with the row each one was made from",
        code="function-result",
    )


def conformed(label: str, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A record batch a function returned, in exactly the columns of the schema.

    Raises:
        MisfitError: a column the schema lacks, or one of another type; names both types and the ``schema=`` line.
            Not an error of Zephon's own, so that a runner narrows it down to the rows it is about.
    """
    extra = [name for name in batch.schema.names if name not in schema.names]
    try:
        if not extra:
            return conform(batch, schema)
        reason = f"column {extra[0]!r} ({batch.schema.field(extra[0]).type}) is not in the schema"
    except DataError as error:
        reason = f"{error.what}: {error.found}"
    united, conflicts = unify_schemas({"schema": schema, "result": batch.schema})
    line = "" if conflicts else f"; if it is right, pass {schema_line(united)}"
    raise MisfitError(f"{label} returned {reason}{line}")


def derived(block: Block, data: pa.RecordBatch, parents: Int64Array | None) -> Block:
    """The block of what was made from another block's rows."""
    return block.with_data(data) if parents is None else block.derive(data, parents)
