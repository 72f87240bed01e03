"""Any Arrow column as a numpy array of one entry per row seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon.batch.grid import documents_field, find_tokens, grid_of
from zephon.batch.padding import Layout, Ragged, is_ragged, lay_out, layout_of
from zephon.batch.window import Window
from zephon.block import META_ATTENTION_MASK
from zephon.errors import ConfigError

ATTENTION_MASK = "attention_mask"


def unknown_field(name: str, schema: pa.Schema) -> ConfigError:
    """The error for a field that is not there."""
    return ConfigError(
        f"this batch has no field {name!r}",
        found=f"fields: {', '.join(schema.names) or 'none'}",
        fix="name one of these; what an operator makes replaces what came in unless it is told to keep it",
        code="field-missing",
    )


def attention_field(schema: pa.Schema) -> str | None:
    """The token column an ``attention_mask`` is made of, if one is wanted and there is none."""
    name = find_tokens(schema)
    if name is None or ATTENTION_MASK in schema.names:
        return None
    return name if META_ATTENTION_MASK in (schema.field(name).metadata or {}) else None


def to_arrays(data: pa.RecordBatch, window: Window, fields: Sequence[str] | None) -> dict[str, npt.NDArray[Any]]:
    """Columns as read-only arrays; see :meth:`zephon.batch.Batch.to_numpy`."""
    masked = attention_field(data.schema)
    available = [*data.schema.names, *([ATTENTION_MASK] if masked else [])]
    if fields is None:
        fields = [name for name in available if name != documents_field(data.schema)]
    missing = [name for name in fields if name not in available]
    if missing:
        raise unknown_field(missing[0], data.schema)
    arrays = {}
    for name in fields:
        if name == ATTENTION_MASK and masked:
            array: npt.NDArray[Any] = grid_of(data, window, masked).mask().astype(np.int32)
        elif is_ragged(data.schema.field(name).type):
            ragged = Ragged.of(data.schema.field(name), data.column(name))
            array = lay_out(ragged, window, layout_of(ragged, _token_layout(data, ragged)))
        else:
            array = _to_array(data.schema.field(name).type, data.column(name), window)
        view = array.view()
        view.flags.writeable = False
        arrays[name] = view
    return arrays


def _token_layout(data: pa.RecordBatch, ragged: Ragged) -> Layout | None:
    """The layout of the token column, for another column with as many values in every row."""
    name = find_tokens(data.schema)
    if name is None or name == ragged.field.name:
        return None
    tokens = Ragged.of(data.schema.field(name), data.column(name))
    return layout_of(tokens) if np.array_equal(tokens.lengths, ragged.lengths) else None


def _to_array(kind: pa.DataType, column: pa.Array, window: Window) -> npt.NDArray[Any]:
    seen = column.slice(window.start, window.real)
    if isinstance(kind, pa.FixedShapeTensorType):
        shape = [window.real, *kind.shape]
        values = _fixed_values(seen.storage).reshape(shape)
        if kind.permutation:
            values = values.transpose([0, *(1 + np.array(kind.permutation))])
        return _filled(values, seen, window)
    if pa.types.is_fixed_size_list(kind) and _is_plain(kind.value_type):
        return _filled(_fixed_values(seen).reshape(window.real, kind.list_size), seen, window)
    if _is_plain(kind):
        values = _plain(seen)
        return _filled(values, seen, window)
    return _objects(seen, window)


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_timestamp,
        types.is_date,
        types.is_duration,
    )
    return any(test(kind) for test in tests)


def _plain(values: pa.Array) -> npt.NDArray[Any]:
    """Numbers, with 0, NaN or NaT for null: the dtype never depends on whether there are nulls."""
    kind = values.type
    if values.null_count and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        values = pc.fill_null(values, pa.scalar(0, pa.int8()).cast(kind))
    return values.to_numpy(zero_copy_only=False)


def _fixed_values(lists: pa.Array) -> npt.NDArray[Any]:
    """The values of a fixed-size list array, those of null rows included (``flatten`` would leave them out)."""
    size = lists.type.list_size
    return _plain(lists.values.slice(lists.offset * size, len(lists) * size))


def _filled(values: npt.NDArray[Any], column: pa.Array, window: Window) -> npt.NDArray[Any]:
    """Add fill rows, and mask what is null where the dtype has no value for that."""
    if window.rows > window.real:
        empty = np.zeros((window.rows - window.real, *values.shape[1:]), dtype=values.dtype)
        if values.dtype.kind in "mM":
            empty[...] = np.array("NaT", dtype=values.dtype)
        values = np.concatenate([values, empty])
    if column.null_count and (values.ndim > 1 or values.dtype.kind in "iub"):
        null = np.zeros(window.rows, dtype=bool)
        null[: window.real] = column.is_null().to_numpy(zero_copy_only=False)
        shaped = null.reshape(-1, *[1] * (values.ndim - 1))
        return np.ma.MaskedArray(np.where(shaped, values.dtype.type(0), values), np.broadcast_to(shaped, values.shape))
    return values


def _objects(column: pa.Array, window: Window) -> npt.NDArray[Any]:
    """Text, bytes, structs and lists of these, as Python objects; None for null and in fill rows."""
    result = np.full(window.rows, None, dtype=object)
    # numpy would try to make a matrix of a list of lists: each value is put in its place on its own.
    for row, value in enumerate(column.to_pylist()):
        result[row] = value
    return result
