"""Canonical types: the few Arrow types rows have, whatever file they came from.

=============================================  ============================================================
found                                          canonical
=============================================  ============================================================
large_string, string_view                      string
large_binary, binary_view                      binary
large_list, list_view, fixed_size_list, ...    list, its item field named "item"
map<K, V>                                      list<struct<key: K, value: V>>, as JSON and Polars have it
dictionary<V>, run_end_encoded<V>              V
fixed_shape_tensor                             kept: the canonical extension type for tensors of one shape
any other extension type                       its storage
struct                                         struct of canonical fields
everything else                                kept
=============================================  ============================================================

All fields are nullable, at every depth: a row of a dataset that lacks a field holds null there. Of metadata only the
field keys that start with ``zephon.`` stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon.block.columns import empty_columns
from zephon.errors import DataError

_KEPT_METADATA: Final = b"zephon."
#: Decimal digits that hold every value of an integer of so many bits.
_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}


@lru_cache(maxsize=4096)
def canonical_type(t: pa.DataType) -> pa.DataType:
    """The canonical type for ``t``; idempotent.

    Raises:
        DataError: ``duplicate-field`` for a struct with two fields of one name.
    """
    types = pa.types
    if types.is_large_string(t) or types.is_string_view(t):
        return pa.string()
    if types.is_large_binary(t) or types.is_binary_view(t):
        return pa.binary()
    if types.is_dictionary(t) or types.is_run_end_encoded(t):
        return canonical_type(t.value_type)
    if types.is_map(t):
        return _list_of(pa.struct([("key", canonical_type(t.key_type)), ("value", canonical_type(t.item_type))]))
    if _is_any_list(t):
        return pa.list_(_canonical_field(t.value_field).with_name("item"))
    if types.is_struct(t):
        fields = [_canonical_field(f) for f in t]
        _refuse_duplicates([f.name for f in fields], "a struct")
        return pa.struct(fields)
    if isinstance(t, pa.FixedShapeTensorType):
        return t
    if isinstance(t, pa.BaseExtensionType):
        return canonical_type(t.storage_type)
    return t


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in canonical types, without schema metadata (pandas, Hugging Face, writers' notes).

    Raises:
        DataError: ``duplicate-field``.
    """
    _refuse_duplicates(schema.names, "the schema")
    return pa.schema([_canonical_field(f) for f in schema])


def unify_types(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The canonical type that holds values of both, or None if there is none. Commutative but for the order of fields.

    Null promotes to anything. Integers widen, signed with unsigned too, as far as int64. An integer or a decimal with a
    float is double (integers beyond 2^53 are then rounded, as numpy and data frames do). Structs unite field by field,
    lists element by element; times and timestamps take the finer unit. Text and binary, numbers and text, booleans and
    numbers do not mix.
    """
    a, b = canonical_type(a), canonical_type(b)
    if a.equals(b, check_metadata=True):
        return a
    types = pa.types
    if types.is_null(a) or types.is_null(b):
        return b if types.is_null(a) else a
    if _is_number(a) and _is_number(b):
        return _unify_numbers(a, b)
    if types.is_struct(a) and types.is_struct(b):
        return _unify_structs(a, b)
    if types.is_list(a) and types.is_list(b):
        item = _unify_fields(a.value_field, b.value_field)
        return None if item is None else pa.list_(item)
    if _is_bytes(a) and _is_bytes(b):
        return pa.binary()
    if a.equals(b):
        return a
    if types.is_temporal(a) and types.is_temporal(b):
        return _unify_temporal(a, b)
    return None


def unify_schemas(named: Mapping[str, pa.Schema]) -> tuple[pa.Schema, dict[str, dict[str, pa.DataType]]]:
    """The union of several schemas: every field of any, in order of first appearance.

    Args:
        named: schemas by the name of what has them, in order.

    Returns:
        The united schema, and the fields left out of it because their types conflict:
        ``{field: {name: canonical type}}`` with one entry per schema that has the field.
    """
    united: dict[str, pa.Field | None] = {}
    canonical = {name: canonical_schema(schema) for name, schema in named.items()}
    for schema in canonical.values():
        for field in schema:
            if field.name not in united:
                united[field.name] = field
                continue
            former = united[field.name]
            united[field.name] = None if former is None else _unify_fields(former, field)
    conflicts = {
        field: {name: schema.field(field).type for name, schema in canonical.items() if field in schema.names}
        for field, result in united.items()
        if result is None
    }
    return pa.schema([field for field in united.values() if field is not None]), conflicts


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with exactly the columns, types, order and metadata of ``schema``.

    Columns the schema lacks are left out, columns the batch lacks are null, struct fields are added, dropped and
    ordered at every depth. Only kindred types are cast (those :func:`unify_types` unites), and only where no value is
    lost but for floating-point rounding. Returns the batch itself, or shares its memory, wherever nothing changes.

    Args:
        batch: rows of any types, canonical or not.
        schema: a schema of canonical types.

    Raises:
        DataError: ``field-type-mismatch`` for a column of another kind, or one with a value its type cannot hold.
    """
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if len(schema) == 0:
        return empty_columns(batch.num_rows)
    columns = []
    for field in schema:
        position = batch.schema.get_field_index(field.name)
        if position < 0:
            if field.name in batch.schema.names:
                _refuse_duplicates(batch.schema.names, "the batch")
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(position)
        try:
            columns.append(_cast(column, field.type))
        except (_MismatchError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"field {field.name!r} cannot become {field.type}",
                found=f"{column.type}: {error}",
                fix=f"convert {field.name!r} where it is made, or declare the type it has",
                code="field-type-mismatch",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _MismatchError(Exception):
    """Two types are not of one kind."""


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if source.equals(target, check_metadata=True):
        return array
    types = pa.types
    if isinstance(target, pa.FixedShapeTensorType):
        if source != target.storage_type:
            raise _MismatchError("the stored type differs")
        return pa.ExtensionArray.from_storage(target, array)
    if isinstance(array, pa.ExtensionArray):
        return _cast(array.storage, target)
    if types.is_null(source) or (types.is_dictionary(source) and not len(array.dictionary)):
        # below a null struct an index may point into an empty dictionary
        return pa.nulls(len(array), target)
    if types.is_dictionary(source):
        return _cast(array.dictionary_decode(), target)
    if types.is_run_end_encoded(source):
        return _cast(pc.run_end_decode(array), target)
    if types.is_list(target) and (_is_any_list(source) or types.is_map(source)):
        return _cast_list(array, target)
    if types.is_struct(target) and types.is_struct(source):
        return _cast_struct(array, target)
    if source.equals(target):
        return array.cast(target)
    common = unify_types(source, target)
    if common is None:
        raise _MismatchError("another kind of value")
    # Rounding integers into doubles is what a mixed column asked for; every other loss is an error.
    safe = not (types.is_integer(source) and types.is_floating(target))
    return array.cast(target, safe=safe)


def _cast_list(array: pa.Array, target: pa.DataType) -> pa.Array:
    starts, sizes, values = _list_layout(array)
    if array.null_count:
        sizes = np.where(array.is_null().to_numpy(zero_copy_only=False), 0, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if int(offsets[-1]) > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid("more than 2**31 - 1 values in one list column")
    used = sizes > 0
    low = int(starts[used].min()) if used.any() else 0
    high = int((starts + sizes)[used].max()) if used.any() else 0
    cast = _cast(values.slice(low, high - low), target.value_type)
    if not np.array_equal(starts[used] - low, offsets[:-1][used]):
        positions = np.repeat(starts - low - offsets[:-1], sizes) + np.arange(offsets[-1])
        cast = cast.take(pa.array(positions, type=pa.int64()))
    return pa.ListArray.from_arrays(
        pa.array(offsets, type=pa.int32()), cast, type=target, mask=array.is_null() if array.null_count else None
    )


def _list_layout(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], pa.Array]:
    """Where each row's values start, how many they are, and the values, of a list or map array of any kind.

    Arrow's own casts and ``flatten`` between kinds of list go wrong on nulls in nested lists (seen up to 26.0).
    """
    types = pa.types
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts = (np.arange(len(array), dtype=np.int64) + array.offset) * size
        return starts, np.full(len(array), size, dtype=np.int64), array.values
    offsets = array.offsets.to_numpy().astype(np.int64)
    if types.is_list_view(array.type) or types.is_large_list_view(array.type):
        return offsets, array.sizes.to_numpy().astype(np.int64), array.values
    if types.is_map(array.type):
        values = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    else:
        values = array.values
    return offsets[:-1], np.diff(offsets), values


def _cast_struct(array: pa.Array, target: pa.DataType) -> pa.Array:
    children = []
    for field in target:
        position = array.type.get_field_index(field.name)
        if position < 0:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(_cast(array.field(position), field.type))
    mask = array.is_null() if array.null_count else None
    if not children:
        validity = None if mask is None else pc.invert(mask).buffers()[1]
        return pa.Array.from_buffers(target, len(array), [validity])
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _canonical_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, canonical_type(field.type), metadata=_kept(field.metadata))


def _unify_fields(a: pa.Field, b: pa.Field) -> pa.Field | None:
    """One field for both; of two values of a metadata key the first one's stays."""
    united = unify_types(a.type, b.type)
    if united is None:
        return None
    metadata = {**(_kept(b.metadata) or {}), **(_kept(a.metadata) or {})}
    return pa.field(a.name, united, metadata=metadata or None)


def _unify_structs(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    fields: dict[str, pa.Field] = {f.name: f for f in a}
    for field in b:
        former = fields.get(field.name)
        united = field if former is None else _unify_fields(former, field)
        if united is None:
            return None
        fields[field.name] = united
    return pa.struct(list(fields.values()))


def _unify_numbers(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if types.is_floating(a) and types.is_floating(b):
        return a if a.bit_width >= b.bit_width else b
    if types.is_floating(a) or types.is_floating(b):
        return pa.float64()
    if types.is_decimal(a) or types.is_decimal(b):
        (precision_a, scale_a), (precision_b, scale_b) = _digits(a), _digits(b)
        scale = max(scale_a, scale_b)
        precision = max(precision_a - scale_a, precision_b - scale_b) + scale
        if precision > 76:
            return None
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    signed_a, signed_b = types.is_signed_integer(a), types.is_signed_integer(b)
    if signed_a == signed_b:
        return a if a.bit_width >= b.bit_width else b
    # A signed integer that holds an unsigned one of n bits has at least 2n.
    bits = max(a.bit_width * (1 if signed_a else 2), b.bit_width * (1 if signed_b else 2))
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(bits)


def _digits(t: pa.DataType) -> tuple[int, int]:
    return (t.precision, t.scale) if pa.types.is_decimal(t) else (_DIGITS[t.bit_width], 0)


def _unify_temporal(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Arrow's own rule for dates, times, timestamps (of one time zone) and durations."""
    try:
        schemas = [pa.schema([("x", a)]), pa.schema([("x", b)])]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None


def _is_number(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def _is_bytes(t: pa.DataType) -> bool:
    return bool(pa.types.is_binary(t) or pa.types.is_fixed_size_binary(t))


def _is_any_list(t: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(t)
        or types.is_large_list(t)
        or types.is_fixed_size_list(t)
        or types.is_list_view(t)
        or types.is_large_list_view(t)
    )


def _list_of(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", item))


def _kept(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    kept = {key: value for key, value in (metadata or {}).items() if key.startswith(_KEPT_METADATA)}
    return kept or None


def _refuse_duplicates(names: Iterable[Any], where: str) -> None:
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise DataError(
                f"{where} has two fields named {name!r}",
                found="rows are dictionaries: a name can be used once",
                fix="rename one of them where the data is written",
                code="duplicate-field",
            )
        seen.add(name)
