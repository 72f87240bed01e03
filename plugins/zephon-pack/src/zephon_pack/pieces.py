"""Pieces: the documents of a block, or the parts they are cut into, as parallel arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.block import DOCUMENT_TYPE, Block, Origins, list_parts
from zephon.errors import BadRow, BadRowsError

Int64Array = npt.NDArray[np.int64]
Overflow = Literal["split", "truncate", "drop", "error"]

#: One entry of ``DOCUMENT_TYPE`` as a numpy record.
RECORD: Final = np.dtype([(field.name, field.type.to_pandas_dtype()) for field in DOCUMENT_TYPE])

_INT32: Final = np.iinfo(np.int32)


@attrs.frozen(slots=True)
class Pieces:
    """Parts of documents, in order of arrival.

    Attributes:
        document: row of the block the piece is taken from, int64 ``[n]``, non-decreasing.
        start: offset within the document, int64 ``[n]``.
        length: number of tokens, int64 ``[n]``, each at least 1.
    """

    document: Int64Array
    start: Int64Array
    length: Int64Array

    def __len__(self) -> int:
        return len(self.length)

    def records(self, origins: Origins) -> npt.NDArray[Any]:
        """The pieces as :data:`RECORD` ``[n]``, given the origins of the block's rows."""
        records = np.empty(len(self), dtype=RECORD)
        for name, column in origins.columns().items():
            records[name] = column[self.document]
        records["start"] = self.start
        records["length"] = self.length
        return records


@attrs.frozen(slots=True)
class Documents:
    """The documents of a block: row ``i`` is ``values[offsets[i]:offsets[i + 1]]`` of every packed column.

    Attributes:
        offsets: int64 ``[rows + 1]``.
        columns: flat values of the packed columns, the int32 tokens first.
    """

    offsets: Int64Array
    columns: tuple[pa.Array, ...]


def read_documents(block: Block, fields: Sequence[str], longest: int | None) -> Documents:
    """Take the packed columns out of a block and check them.

    Args:
        block: rows with the columns ``fields``.
        fields: list columns of equal row lengths; the first holds the tokens.
        longest: refuse documents of more tokens, if given.

    Raises:
        BadRowsError: ``pack-bad-tokens`` for a null token list, a null or not 32-bit token, a loss mask of another
            length than its tokens; ``pack-document-too-long``. Names all bad rows of the block.
    """
    tokens_name, *other_names = fields
    column = block.data.column(tokens_name)
    offsets, values = list_parts(column)
    lengths = np.diff(offsets)
    reasons: dict[int, str] = {}
    if longest is not None:
        for row in np.flatnonzero(lengths > longest).tolist():
            reasons[row] = f"{lengths[row]} tokens, but max_length is {longest}"
    code = "pack-document-too-long"
    malformed: dict[int, str] = {}
    if column.null_count:
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            malformed[row] = f"{tokens_name!r} is null"
    for position, reason in _bad_values(values):
        malformed.setdefault(int(np.searchsorted(offsets, position, side="right")) - 1, reason)
    columns = []
    for name in other_names:
        other_offsets, other_values = list_parts(block.data.column(name))
        if not np.array_equal(other_offsets, offsets):
            other_lengths = np.diff(other_offsets)
            for row in np.flatnonzero(other_lengths != lengths).tolist():
                malformed.setdefault(row, f"{other_lengths[row]} entries of {name!r} for {lengths[row]} tokens")
        columns.append(other_values)
    if malformed:
        reasons |= malformed
        code = "pack-bad-tokens"
    if reasons:
        raise BadRowsError(
            [BadRow(row, reasons[row]) for row in sorted(reasons)],
            what=f"{len(reasons)} documents cannot be packed",
            code=code,
            fix="pass overflow='split', 'truncate' or 'drop' to pack_flat"
            if code == "pack-document-too-long"
            else 'to drop and count such rows, pass .options(on_error="skip") or "quarantine"',
        )
    return Documents(offsets, (values.cast(pa.int32()), *columns))


def whole_documents(lengths: Int64Array) -> Pieces:
    """One piece per document that has any token."""
    document = np.flatnonzero(lengths).astype(np.int64, copy=False)
    return Pieces(document, np.zeros(len(document), dtype=np.int64), lengths[document])


def apply_overflow(pieces: Pieces, limit: int, overflow: Overflow) -> Pieces:
    """Make every piece at most ``limit`` tokens long, by the policy for documents that are longer.

    ``split``: pieces of ``limit`` tokens and the remainder. ``truncate``: the first ``limit`` tokens. ``drop``: none.
    ``error``: :func:`read_documents` has refused them.
    """
    too_long = pieces.length > limit
    if not too_long.any():
        return pieces
    if overflow == "truncate":
        return attrs.evolve(pieces, length=np.minimum(pieces.length, limit))
    if overflow == "drop":
        kept = ~too_long
        return Pieces(pieces.document[kept], pieces.start[kept], pieces.length[kept])
    count = -(-pieces.length // limit)
    of = np.repeat(np.arange(len(pieces)), count)
    start = (np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)) * limit
    return Pieces(pieces.document[of], pieces.start[of] + start, np.minimum(pieces.length[of] - start, limit))


def records_to_array(records: npt.NDArray[Any]) -> pa.StructArray:
    """Records ``[n]`` as an array of ``DOCUMENT_TYPE``, copied."""
    columns = [pa.array(np.ascontiguousarray(records[field.name])) for field in DOCUMENT_TYPE]
    return pa.StructArray.from_arrays(columns, fields=list(DOCUMENT_TYPE))


def records_from_array(array: pa.StructArray) -> npt.NDArray[Any]:
    """Inverse of :func:`records_to_array`."""
    records = np.empty(len(array), dtype=RECORD)
    for field in DOCUMENT_TYPE:
        records[field.name] = array.field(field.name).to_numpy()
    return records


def _bad_values(values: pa.Array) -> list[tuple[int, str]]:
    """Position and fault of every token that is null or not a 32-bit integer."""
    bad = [(int(i), "a token is null") for i in np.flatnonzero(_nulls(values))] if values.null_count else []
    if values.type.bit_width < 32 or values.type == pa.int32():
        return bad
    numbers = (values.fill_null(0) if values.null_count else values).to_numpy()
    if len(numbers) and (numbers.max() > _INT32.max or numbers.min() < _INT32.min):
        beyond = np.flatnonzero((numbers > _INT32.max) | (numbers < _INT32.min))
        bad += [(int(i), f"token {numbers[i]} is no 32-bit integer") for i in beyond]
    return bad


def _nulls(values: pa.Array) -> npt.NDArray[np.bool_]:
    return values.is_null().to_numpy(zero_copy_only=False)
