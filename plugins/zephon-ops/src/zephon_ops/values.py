"""Python values to Arrow columns, strictly: a value fits its column's type or it is refused.

pyarrow alone is lenient in ways that lose data in silence (``1.5`` becomes ``1`` in an integer column, unknown keys of
nested dictionaries vanish, ``"abc"`` becomes a list of characters, sets come out in hash order), and it infers the type
of a column from all its values (``[1.5, True]`` is double). Here every value is judged by its own class against the
type, so whether a row fits never depends on the rows beside it. Nothing is ever pickled.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zephon.block import canonical_schema, empty_columns, unify_types
from zephon.errors import DataError
from zephon.spec.codec import schema_from_plain, type_from_plain

Row = dict[str, Any]

_types = pa.types

#: What pyarrow raises for a value it cannot convert.
CONVERSION_ERRORS: Final = (TypeError, ValueError, OverflowError, NotImplementedError, pa.ArrowException)


class MisfitError(ValueError):
    """A value does not fit the type of its field.

    Attributes:
        reason: field, value and both types.
        found: the type the value would have had alone, or None.
    """

    def __init__(self, reason: str, found: pa.DataType | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.found = found


class MisfitRowsError(Exception):
    """Some rows do not fit the schema. Internal: operators turn it into what they promise.

    Attributes:
        rows: reason by position.
        schema: the schema with the types that would hold the first bad row, as far as there are any.
    """

    def __init__(self, rows: Mapping[int, str], schema: pa.Schema) -> None:
        super().__init__(f"{len(rows)} rows do not fit")
        self.rows = rows
        self.schema = schema


def schema_argument(value: pa.Schema | Mapping[str, Any] | None) -> pa.Schema | None:
    """A ``schema=`` argument as a canonical schema: an Arrow schema, or field names with types or their names.

    Raises:
        ConfigError: ``bad-spec`` for a name that is no Arrow type.
    """
    return None if value is None else canonical_schema(schema_from_plain(value))


def schema_line(schema: pa.Schema) -> str:
    """``schema={...}``, ready to paste."""
    return "schema={" + ", ".join(f'"{f.name}": {_type_code(f.type, quoted=True)}' for f in schema) + "}"


def _type_code(t: pa.DataType, *, quoted: bool) -> str:
    if isinstance(t, pa.FixedShapeTensorType):
        return f"pa.fixed_shape_tensor({_type_code(t.value_type, quoted=False)}, {list(t.shape)})"
    if _types.is_struct(t):
        return "pa.struct([" + ", ".join(f'("{f.name}", {_type_code(f.type, quoted=False)})' for f in t) + "])"
    if quoted and _parses(t):
        return f'"{t}"'
    if _types.is_list(t):
        return f"pa.list_({_type_code(t.value_type, quoted=False)})"
    if _types.is_timestamp(t) and t.tz is not None:
        return f'pa.timestamp("{t.unit}", tz="{t.tz}")'
    if _types.is_fixed_size_binary(t):
        return f"pa.binary({t.byte_width})"
    return f'pa.type_for_alias("{t}")' if _parses(t) else f"pa.{t}"


def _parses(t: pa.DataType) -> bool:
    try:
        return bool(type_from_plain(str(t)) == t)
    except ValueError:
        return False


# -- rows out of columns --------------------------------------------------------------------------------------------


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The rows as dictionaries of Python values, nulls as None, tensors as read-only numpy arrays."""
    if batch.num_columns == 0:
        return [{} for _ in range(batch.num_rows)]
    columns = [_python_values(column) for column in batch.columns]
    names = batch.schema.names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _python_values(column: pa.Array) -> list[Any]:
    if isinstance(column.type, pa.FixedShapeTensorType):
        return [scalar.to_numpy() if scalar.is_valid else None for scalar in column]
    return column.to_pylist()


# -- columns out of rows --------------------------------------------------------------------------------------------


def build_batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as columns of exactly this schema; a missing key is null.

    Raises:
        MisfitRowsError: naming all rows with a key the schema lacks or a value that does not fit.
        DataError: ``column-too-large``.
    """
    bad: dict[int, str] = {}
    wanted = schema
    known = frozenset(schema.names)
    if not known.issuperset(chain.from_iterable(rows)):
        for i, row in enumerate(rows):
            if extra := [key for key in row if key not in known]:
                bad[i] = f"the field {extra[0]!r} is not in the schema ({', '.join(schema.names) or 'no field'})"
                wanted = _widened(wanted, extra[0], row[extra[0]])
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        try:
            columns.append(build_column(values, field.type))
        except CONVERSION_ERRORS:
            singles = []
            for i, value in enumerate(values):
                try:
                    singles.append(build_column([value], field.type))
                except CONVERSION_ERRORS as error:
                    if i not in bad:
                        bad[i] = _misfit(field, value, error)
                        wanted = _widened(wanted, field.name, value)
            if not bad:
                columns.append(pa.concat_arrays(singles))
    if bad:
        raise MisfitRowsError(dict(sorted(bad.items())), wanted)
    return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else empty_columns(len(rows))


def build_column(values: Sequence[Any], t: pa.DataType) -> pa.Array:
    """Values as an Arrow array of type ``t`` (canonical), None as null.

    Raises:
        MisfitError: a value of another class than the type's.
        TypeError, ValueError, OverflowError, pyarrow.ArrowException: a value the type cannot hold.
        DataError: ``column-too-large``.
    """
    if isinstance(t, pa.FixedShapeTensorType):
        return _build_tensors(values, t)
    values = [_unwrapped(value) for value in values]
    _check(values, t)
    array = pa.array(values, type=t)
    if isinstance(array, pa.ChunkedArray):
        raise DataError(
            "the values a function returned for one block do not fit into one column",
            found=f"over 2 GiB in {len(values)} rows",
            fix="return smaller values, or lower memory_limit so that blocks get smaller",
            code="column-too-large",
        )
    return array


def _build_tensors(values: Sequence[Any], t: pa.FixedShapeTensorType) -> pa.Array:
    for value in values:
        if value is None:
            continue
        if not isinstance(value, np.ndarray) or list(value.shape) != list(t.shape):
            raise MisfitError(f"{_shown(value)} is not an array of shape {list(t.shape)}", infer_type(value))
        if not _holds(t.value_type, value.dtype.type):
            raise MisfitError(f"an array of {value.dtype} is not one of {t.value_type}", infer_type(value))
    flat = [None if value is None else value.reshape(-1) for value in values]
    return pa.ExtensionArray.from_storage(t, pa.array(flat, type=t.storage_type))


def _unwrapped(value: Any) -> Any:
    """Arrays of no dimension as scalars, of several as lists: pyarrow takes vectors only."""
    if not isinstance(value, np.ndarray) or value.ndim == 1:
        return value
    return value[()] if value.ndim == 0 else [_unwrapped(item) for item in value]


def _check(values: Iterable[Any], t: pa.DataType) -> None:
    """Judge every value by its class. Costs one pass at C speed per level of nesting."""
    values = list(values)
    kinds = set(map(type, values)) - {NoneType}
    if not kinds:
        return
    if _types.is_list(t):
        _check_lists(values, kinds, t)
    elif _types.is_struct(t):
        _check_structs(values, kinds, t)
    else:
        for kind in kinds:
            if not _holds(t, kind):
                raise MisfitError(f"a {kind.__qualname__} is not of type {t}")


def _check_lists(values: list[Any], kinds: set[type], t: pa.DataType) -> None:
    for kind in kinds:
        if not issubclass(kind, (list, tuple, np.ndarray)):
            raise MisfitError(f"a {kind.__qualname__} is not a list, tuple or array")
    nested: list[Any] = []
    for value in values:
        if not isinstance(value, np.ndarray):
            nested.append(value or ())
        elif value.dtype == object:
            nested.append(value.tolist())
        elif value.ndim != 1 or not _holds(t.value_type, value.dtype.type):
            raise MisfitError(f"an array of {value.dtype} with shape {value.shape} is not a {t}")
    _check(chain.from_iterable(nested), t.value_type)


def _check_structs(values: list[Any], kinds: set[type], t: pa.DataType) -> None:
    for kind in kinds:
        if not issubclass(kind, dict):
            raise MisfitError(f"a {kind.__qualname__} is not a dict")
    present = [value for value in values if value is not None]
    names = {field.name for field in t}
    for key in dict.fromkeys(chain.from_iterable(present)):
        if key not in names:
            raise MisfitError(f"the key {key!r} is not in {t}")
    for field in t:
        _check((value.get(field.name) for value in present), field.type)


def _holds(t: pa.DataType, kind: type) -> bool:
    """Whether values of a class belong into a column of a scalar type. Ranges are pyarrow's business."""
    if issubclass(kind, (bool, np.bool_)):
        return bool(_types.is_boolean(t))
    if issubclass(kind, (int, np.integer)):
        return bool(_types.is_integer(t) or _types.is_floating(t) or _types.is_decimal(t))
    if issubclass(kind, (float, np.floating)):
        return bool(_types.is_floating(t))
    if issubclass(kind, str):
        return bool(_types.is_string(t))
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return bool(_types.is_binary(t) or _types.is_fixed_size_binary(t))
    if issubclass(kind, (datetime.datetime, np.datetime64)):
        return bool(_types.is_timestamp(t) or (_types.is_date(t) and kind is np.datetime64))
    if issubclass(kind, datetime.date):
        return bool(_types.is_date(t))
    if issubclass(kind, datetime.time):
        return bool(_types.is_time(t))
    if issubclass(kind, (datetime.timedelta, np.timedelta64)):
        return bool(_types.is_duration(t))
    return issubclass(kind, decimal.Decimal) and bool(_types.is_decimal(t))


# -- types of values ------------------------------------------------------------------------------------------------


def infer_type(value: Any) -> pa.DataType | None:
    """The canonical type of one value alone, or None if Arrow has none for it.

    A numeric array of several dimensions is a tensor of its shape; other sequences are lists.
    """
    if isinstance(value, np.ndarray) and value.ndim > 1 and value.dtype.kind in "iuf" and value.size:
        return pa.fixed_shape_tensor(pa.from_numpy_dtype(value.dtype), value.shape)
    if isinstance(value, (set, frozenset)):
        return None
    try:
        return pa.infer_type([_unwrapped(value)])
    except CONVERSION_ERRORS:
        return None


def unify_value_types(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Like ``unify_types``; tensors of different shapes become nested lists."""
    if a != b:
        a, b = (t if _types.is_null(other) else _without_tensor(t) for t, other in ((a, b), (b, a)))
    return unify_types(a, b)


def _without_tensor(t: pa.DataType) -> pa.DataType:
    if not isinstance(t, pa.FixedShapeTensorType):
        return t
    nested = t.value_type
    for _ in t.shape:
        nested = pa.list_(nested)
    return nested


def _widened(schema: pa.Schema, name: Any, value: Any) -> pa.Schema:
    """The schema with a type for this value too, or as it is where there is none."""
    found = infer_type(value)
    if found is None or not isinstance(name, str):
        return schema
    position = schema.get_field_index(name)
    if position < 0:
        return schema.append(pa.field(name, found))
    united = unify_value_types(schema.field(position).type, found)
    return schema if united is None else schema.set(position, schema.field(position).with_type(united))


def _misfit(field: pa.Field, value: Any, error: Exception) -> str:
    found = infer_type(value)
    kind = f"{type(value).__qualname__}, which Arrow has no type for" if found is None else str(found)
    reason = error.reason if isinstance(error, MisfitError) else str(error)
    return f"field {field.name!r} is {_shown(value)} ({kind}), not {field.type}: {reason}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
