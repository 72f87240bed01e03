"""Where tokens, padding and document boundaries lie in ``[rows, width]``.

What is padding is known from lengths, never from the pad id: the pad id may be an ordinary token too. Where documents
begin is known from the ``documents`` column or from positions that restart, never from the end-of-sequence id: it may
be absent from the inputs.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.batch.padding import Layout, Ragged, is_ragged, lay_out, layout_of, role
from zephon.batch.window import Window
from zephon.block import DOCUMENT_TYPE, DOCUMENTS_FIELD, list_parts
from zephon.errors import ConfigError

#: Columns taken for tokens where none has the role, best first.
TOKEN_NAMES = ("input_ids", "tokens", "token_ids", "ids")

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@attrs.frozen(slots=True)
class Grid:
    """The tokens of a window, laid out.

    Attributes:
        ragged: the token column, with all real rows of the microbatch.
        layout: width, side and pad value.
        window: the rows seen.
        starts: int64 ``[rows]``, column of each row's first token; 0 for rows without any.
        lengths: int64 ``[rows]``, real tokens of each row; 0 for fill rows.
    """

    ragged: Ragged
    layout: Layout
    window: Window
    starts: Ints
    lengths: Ints

    @property
    def width(self) -> int:
        """Columns."""
        return self.layout.width

    def tokens(self) -> npt.NDArray[np.integer]:
        """The padded tokens, ``[rows, width]``."""
        return lay_out(self.ragged, self.window, self.layout)

    def mask(self) -> Bools:
        """Where the real tokens are, ``[rows, width]``."""
        places = self.places()
        return (places >= 0) & (places < self.lengths[:, None])

    def places(self) -> Ints:
        """Each column's distance from the row's first token, ``[rows, width]``: negative in padding on the left."""
        return np.arange(self.width) - self.starts[:, None]


def grid_of(data: pa.RecordBatch, window: Window, tokens_field: str = "auto") -> Grid:
    """Lay out the token column of a microbatch.

    Raises:
        ConfigError: ``no-tokens-field``, ``field-type``, ``ragged-field``, ``row-too-wide``, ``documents-too-long``.
    """
    name = find_tokens(data.schema) if tokens_field == "auto" else tokens_field
    if name is None or name not in data.schema.names:
        raise ConfigError(
            "this batch has no token column" if name is None else f"this batch has no field {name!r}",
            found=f"fields: {', '.join(data.schema.names) or 'none'}",
            fix='name the column of token ids: tokens_field="..."',
            code="no-tokens-field",
        )
    field = data.schema.field(name)
    if not (is_ragged(field.type) and pa.types.is_integer(field.type.value_type)):
        nested = pa.types.is_list(field.type) and pa.types.is_list(field.type.value_type)
        raise ConfigError(
            f"the field {name!r} does not hold token ids",
            found=f"{field.type}; expected list<int32>",
            fix="use pack_flat, which makes one row of tokens of the documents of a bin"
            if nested
            else 'name the column of token ids: tokens_field="..."',
            code="field-type",
        )
    ragged = Ragged.of(field, data.column(name))
    layout = layout_of(ragged)
    listed = _padded(ragged.lengths, window)
    starts = layout.width - listed if layout.left else np.zeros_like(listed)
    lengths = listed
    documents = document_lengths(data, window)
    if documents is not None:
        lengths = _padded(_sums(*documents), Window(window.real, 0, window.rows))
        if (lengths > listed).any():
            row = int(np.flatnonzero(lengths > listed)[0])
            raise ConfigError(
                f"the documents of a row are longer than its tokens in {name!r}",
                found=f"row {row}: documents of {lengths[row]} tokens in a row of {listed[row]}",
                fix=f"drop the column {DOCUMENTS_FIELD!r} where tokens are changed after packing",
                code="documents-too-long",
            )
    return Grid(ragged, layout, window, np.where(lengths > 0, starts, 0), lengths)


def find_tokens(schema: pa.Schema) -> str | None:
    """The token column: the one with that role, else one of the usual names that holds lists of integers."""
    marked = [field.name for field in schema if role(field) == b"tokens"]
    if marked:
        return next((name for name in TOKEN_NAMES if name in marked), marked[0])
    for name in TOKEN_NAMES:
        if _holds_integers(schema, name):
            return name
    return None


def find_role(schema: pa.Schema, wanted: bytes) -> str | None:
    """The column with a role, else one of that name that holds lists of numbers (of integers, if positions)."""
    for field in schema:
        if role(field) == wanted:
            return str(field.name)
    name = wanted.decode()
    if wanted == b"positions":
        return name if _holds_integers(schema, name) else None
    index = schema.get_field_index(name)
    return name if index >= 0 and is_ragged(schema.field(index).type) else None


def _holds_integers(schema: pa.Schema, name: str) -> bool:
    index = schema.get_field_index(name)
    if index < 0 or not is_ragged(schema.field(index).type):
        return False
    return bool(pa.types.is_integer(schema.field(index).type.value_type))


def documents_field(schema: pa.Schema) -> str | None:
    """The column that names the documents of packed rows; one of that name but another type is the user's own."""
    index = schema.get_field_index(DOCUMENTS_FIELD)
    if index < 0:
        return None
    kind = schema.field(index).type
    return DOCUMENTS_FIELD if pa.types.is_list(kind) and kind.value_type.equals(DOCUMENT_TYPE) else None


def document_lengths(data: pa.RecordBatch, window: Window) -> tuple[Ints, Ints] | None:
    """Offsets ``[real + 1]`` into, and lengths of, the documents of the real rows seen; None without such a column."""
    name = documents_field(data.schema)
    if name is None:
        return None
    offsets, entries = list_parts(data.column(name).slice(window.start, window.real))
    return offsets, entries.field("length").to_numpy(zero_copy_only=False).astype(np.int64)


def begins(grid: Grid, data: pa.RecordBatch) -> Bools | None:
    """Where documents begin, and where padding does: bool ``[rows, width]``.

    The first column always begins something. None where the data do not say: there is neither a ``documents``
    column nor one of positions.

    Raises:
        ConfigError: ``length-mismatch``, ``bad-positions``.
    """
    documents = document_lengths(data, grid.window)
    positions = find_role(data.schema, b"positions")
    if documents is None and positions is None:
        return None
    result = np.zeros((grid.window.rows, grid.width), dtype=bool)
    if grid.width == 0:
        return result
    rows = np.arange(grid.window.rows)
    result[:, 0] = True
    ends = grid.starts + grid.lengths
    padded = ends < grid.width
    result[rows[padded], ends[padded]] = True
    if documents is not None:
        offsets, lengths = documents
        before = np.concatenate([[0], np.cumsum(lengths)])[:-1]
        owner = np.repeat(rows[: grid.window.real], np.diff(offsets))
        within = before - before[offsets[:-1][owner]] if len(before) else before
        there = lengths > 0
        result[owner[there], (grid.starts[owner] + within)[there]] = True
    else:
        assert positions is not None
        values, mask = aligned(grid, data, positions), grid.mask()
        result |= mask & (values == 0)
        _check_restarts(values, mask, result, positions)
    return result


def aligned(grid: Grid, data: pa.RecordBatch, name: str) -> npt.NDArray[np.generic]:
    """A column with one value per token, laid out like the tokens: ``[rows, width]``; 0 where there is padding.

    Raises:
        ConfigError: ``length-mismatch`` if its rows are not as long as the tokens'; ``field-type``.
    """
    field = data.schema.field(name)
    if not is_ragged(field.type):
        raise ConfigError(
            f"the field {name!r} does not hold one value per token",
            found=f"{field.type}; expected a list of numbers",
            fix=f"leave {name!r} out, or make it list<int32>",
            code="field-type",
        )
    ragged = Ragged.of(field, data.column(name))
    if not np.array_equal(ragged.lengths, grid.ragged.lengths):
        row = int(np.flatnonzero(ragged.lengths != grid.ragged.lengths)[0])
        raise ConfigError(
            f"the rows of field {name!r} are not as long as the tokens in {grid.ragged.field.name!r}",
            found=f"row {row} of the microbatch: {ragged.lengths[row]} values for {grid.ragged.lengths[row]} tokens",
            fix=f"change both together, or leave {name!r} out",
            code="length-mismatch",
        )
    return lay_out(ragged, grid.window, layout_of(ragged, like=grid.layout))


def _check_restarts(values: npt.NDArray[np.generic], mask: Bools, begin: Bools, name: str) -> None:
    """Positions start at 0 and count up by one until they restart."""
    expected = counted(begin)
    wrong = mask & (values != expected)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise ConfigError(
            f"the positions in field {name!r} do not tell where documents begin",
            found=f"row {row}, token {column}: position {values[row, column]}; expected {expected[row, column]} or 0",
            fix="let positions of each document count up from 0",
            code="bad-positions",
        )


def counted(begin: Bools) -> Ints:
    """Positions that count up from 0 from each beginning: int64 ``[rows, width]``."""
    places = np.arange(begin.shape[1])
    return places - np.maximum.accumulate(np.where(begin, places, 0), axis=1)


def _padded(lengths: Ints, window: Window) -> Ints:
    """Lengths of the rows seen, 0 for fill rows."""
    result = np.zeros(window.rows, dtype=np.int64)
    result[: window.real] = lengths[window.start : window.last]
    return result


def _sums(offsets: Ints, lengths: Ints) -> Ints:
    total = np.concatenate([[0], np.cumsum(lengths)])
    return total[offsets[1:]] - total[offsets[:-1]]
