"""Canonical types: normalising, uniting and conforming, over arbitrary Arrow types and values."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from zephon.block import canonical_schema, canonical_type, conform, retained_bytes, unify_schemas, unify_types
from zephon.errors import DataError

SETTINGS = settings(max_examples=120, deadline=None)

CANONICAL_LEAVES = [
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.uint16(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(7, 2),
    pa.string(),
    pa.binary(),
    pa.binary(3),
    pa.date32(),
    pa.timestamp("ms"),
    pa.timestamp("us"),
]
OTHER_LEAVES = [
    pa.large_string(),
    pa.string_view(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]


def _nest(inner):
    names = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
    return st.one_of(
        inner.map(lambda t: pa.list_(pa.field("element", t))),
        inner.map(pa.large_list),
        inner.map(lambda t: pa.list_(t, 2)),
        inner.filter(lambda t: t != pa.null()).map(pa.list_view),
        st.tuples(names, st.lists(inner, min_size=3, max_size=3)).map(
            lambda pair: pa.struct([pa.field(n, t) for n, t in zip(pair[0], pair[1], strict=False)])
        ),
    )


any_type = st.recursive(st.sampled_from(CANONICAL_LEAVES + OTHER_LEAVES), _nest, max_leaves=4)


@st.composite
def values_of(draw, t):
    """One Python value (or None) that an Arrow array of type ``t`` can hold."""
    if pa.types.is_null(t) or draw(st.integers(0, 5)) == 0:
        return None
    if pa.types.is_dictionary(t):
        return draw(values_of(t.value_type))
    if pa.types.is_struct(t):
        return {f.name: draw(values_of(f.type)) for f in t}
    if pa.types.is_fixed_size_list(t):
        return [draw(values_of(t.value_type)) for _ in range(t.list_size)]
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_list_view(t):
        return [draw(values_of(t.value_type)) for _ in range(draw(st.integers(0, 3)))]
    if pa.types.is_boolean(t):
        return draw(st.booleans())
    if pa.types.is_integer(t):
        return draw(st.integers(0, 100))
    if pa.types.is_floating(t):
        return draw(st.integers(-50, 50)) / 2
    if pa.types.is_decimal(t):
        return Decimal(draw(st.integers(0, 999))) / 4
    if pa.types.is_fixed_size_binary(t):
        return draw(st.binary(min_size=t.byte_width, max_size=t.byte_width))
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or t == pa.binary_view():
        return draw(st.binary(max_size=4))
    if pa.types.is_date(t):
        return date(2020, 1, draw(st.integers(1, 28)))
    if pa.types.is_timestamp(t):
        return datetime(2020, 1, draw(st.integers(1, 28)))
    return draw(st.text(max_size=4))


@st.composite
def columns(draw, types=any_type):
    t = draw(types)
    values = draw(st.lists(values_of(t), max_size=6))
    return pa.array(values, type=t)


def _allow_only_canonical(t):
    """Whether no non-canonical type is left at any depth."""
    types = pa.types
    if types.is_list(t):
        return t.value_field.name == "item" and t.value_field.nullable and _allow_only_canonical(t.value_type)
    if types.is_struct(t):
        return all(f.nullable and _allow_only_canonical(f.type) for f in t)
    return t in CANONICAL_LEAVES


@SETTINGS
@given(any_type)
def test_canonical_type_is_idempotent_and_leaves_only_canonical_types(t):
    canonical = canonical_type(t)
    assert _allow_only_canonical(canonical)
    assert canonical_type(canonical).equals(canonical, check_metadata=True)


@SETTINGS
@given(columns())
def test_conforming_to_the_canonical_schema_keeps_every_value(column):
    batch = pa.record_batch({"x": column})
    out = conform(batch, canonical_schema(batch.schema))
    out.validate(full=True)
    assert out.schema.equals(canonical_schema(batch.schema), check_metadata=True)
    assert out.to_pylist() == batch.to_pylist()


@SETTINGS
@given(columns(), st.data())
def test_conforming_a_slice_is_slicing_what_was_conformed(column, data):
    start = data.draw(st.integers(0, len(column)))
    length = data.draw(st.integers(0, len(column) - start))
    batch = pa.record_batch({"x": column})
    schema = canonical_schema(batch.schema)
    part = conform(batch.slice(start, length), schema)
    part.validate(full=True)
    assert part.equals(conform(batch, schema).slice(start, length))


def _order_free(t):
    """A picture of a type in which the order of struct fields does not show."""
    if pa.types.is_struct(t):
        return frozenset((f.name, _order_free(f.type)) for f in t)
    if pa.types.is_list(t):
        return ("list", _order_free(t.value_type))
    return str(t)


@SETTINGS
@given(any_type, any_type)
def test_uniting_types_is_commutative_and_keeps_what_was_united(a, b):
    united = unify_types(a, b)
    mirrored = unify_types(b, a)
    if united is None:
        assert mirrored is None
        return
    assert _order_free(united) == _order_free(mirrored)
    assert canonical_type(united) == united
    for part in (a, b):
        assert _order_free(unify_types(united, part)) == _order_free(united)


@given(any_type)
def test_uniting_with_itself_or_with_null_changes_nothing(t):
    assert unify_types(t, t) == canonical_type(t)
    assert unify_types(t, pa.null()) == canonical_type(t)
    assert unify_types(pa.null(), t) == canonical_type(t)


@SETTINGS
@given(columns(), any_type)
def test_every_value_of_a_type_fits_the_type_it_was_united_to(column, other):
    united = unify_types(column.type, other)
    assume(united is not None)
    out = conform(pa.record_batch({"x": column}), pa.schema([("x", united)]))
    out.validate(full=True)
    assert out.schema.field("x").type == united
    assert out.column(0).is_null().to_pylist() == column.is_null().to_pylist()


INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


def _limits(t):
    return (
        (-(1 << (t.bit_width - 1)), (1 << (t.bit_width - 1)) - 1)
        if pa.types.is_signed_integer(t)
        else (
            0,
            (1 << t.bit_width) - 1,
        )
    )


@pytest.mark.parametrize("a", INTEGERS, ids=str)
@pytest.mark.parametrize("b", INTEGERS, ids=str)
def test_integers_widen_to_the_smallest_type_that_holds_both(a, b):
    low = min(_limits(a)[0], _limits(b)[0])
    high = max(_limits(a)[1], _limits(b)[1])
    holders = [t for t in INTEGERS if _limits(t)[0] <= low and high <= _limits(t)[1]]
    united = unify_types(a, b)
    if not holders:
        assert united is None
    else:
        assert united.bit_width == min(t.bit_width for t in holders)
        assert united in holders


@pytest.mark.parametrize(
    ("a", "b", "united"),
    [
        (pa.int64(), pa.string(), None),
        (pa.string(), pa.binary(), None),
        (pa.bool_(), pa.int64(), None),
        (pa.list_(pa.int64()), pa.int64(), None),
        (pa.list_(pa.null()), pa.list_(pa.string()), pa.list_(pa.string())),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.timestamp("s", "UTC"), pa.timestamp("s"), None),
        (pa.binary(3), pa.binary(4), pa.binary()),
        (pa.decimal128(5, 2), pa.int32(), pa.decimal128(12, 2)),
        (pa.decimal128(38, 0), pa.decimal128(38, 30), pa.decimal256(68, 30)),
        (
            pa.struct([("a", pa.int32()), ("b", pa.null())]),
            pa.struct([("b", pa.string()), ("c", pa.bool_())]),
            pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.bool_())]),
        ),
        (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.string())]), None),
    ],
)
def test_types_unite_as_documented(a, b, united):
    assert unify_types(a, b) == united


def test_dictionary_encoded_lists_and_run_ends_become_plain_columns():
    lists = pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int32()), pa.array([[1, 2]]))
    runs = pc.run_end_encode(pa.array(["a", "a", None]))
    batch = pa.record_batch({"lists": lists, "runs": runs})
    out = conform(batch, canonical_schema(batch.schema))
    assert out.schema.types == [pa.list_(pa.int64()), pa.string()]
    assert out.to_pylist() == [
        {"lists": [1, 2], "runs": "a"},
        {"lists": None, "runs": "a"},
        {"lists": [1, 2], "runs": None},
    ]


@pytest.mark.parametrize("start", range(5))
def test_maps_become_lists_of_key_and_value(start):
    column = pa.array([[("a", 1)], None, [], [("b", 2), ("c", None)]], pa.map_(pa.string(), pa.int32())).slice(start)
    batch = pa.record_batch({"m": column})
    out = conform(batch, canonical_schema(batch.schema))
    out.validate(full=True)
    expected = [None if v is None else [{"key": k, "value": x} for k, x in v] for v in column.to_pylist()]
    assert out.column("m").to_pylist() == expected


def test_tensors_of_one_shape_stay_and_other_extensions_become_their_storage():
    tensor = pa.fixed_shape_tensor(pa.float32(), [2, 2])
    assert canonical_type(tensor) == tensor
    assert canonical_type(pa.uuid()) == pa.binary(16)
    storage = pa.array([[1.0, 2.0, 3.0, 4.0]], tensor.storage_type)
    plain = pa.record_batch({"t": storage})
    out = conform(plain, pa.schema([("t", tensor)]))
    assert out.column(0).storage.equals(storage)
    uuids = pa.record_batch({"u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16)))})
    assert conform(uuids, canonical_schema(uuids.schema)).column(0).to_pylist() == [b"x" * 16]


def test_only_field_metadata_of_our_own_survives():
    noisy = pa.schema(
        [pa.field("x", pa.int64(), nullable=False, metadata={b"zephon.pad_id": b"0", b"PARQUET:field_id": b"1"})],
        metadata={b"pandas": b"{}"},
    )
    clean = canonical_schema(noisy)
    assert clean.metadata is None
    assert clean.field("x").metadata == {b"zephon.pad_id": b"0"}
    assert clean.field("x").nullable


def test_conforming_what_already_conforms_gives_the_same_object():
    batch = pa.record_batch({"x": [1, 2], "y": ["a", "b"]})
    assert conform(batch, batch.schema) is batch


def test_selecting_and_reordering_shares_memory():
    batch = pa.record_batch({"x": list(range(1000)), "y": ["a"] * 1000})
    out = conform(batch, pa.schema([("y", pa.string()), ("x", pa.int64())]))
    assert out.schema.names == ["y", "x"]
    assert retained_bytes([batch, out]) == retained_bytes([batch])


def test_absent_columns_and_struct_fields_are_null():
    batch = pa.record_batch({"s": pa.array([{"a": 1}, None])})
    schema = pa.schema([("s", pa.struct([("b", pa.string()), ("a", pa.int64())])), ("t", pa.list_(pa.int32()))])
    out = conform(batch, schema)
    assert out.to_pylist() == [{"s": {"b": None, "a": 1}, "t": None}, {"s": None, "t": None}]
    bare = conform(batch, pa.schema([("s", pa.struct([]))]))
    assert bare.to_pylist() == [{"s": {}}, {"s": None}]
    assert conform(batch, pa.schema([])).num_rows == 2


@pytest.mark.parametrize(
    ("values", "target"),
    [([1], pa.string()), (["1"], pa.int64()), ([300], pa.int8()), ([1.5], pa.int64()), ([[1]], pa.list_(pa.string()))],
)
def test_values_that_do_not_fit_are_an_error_not_a_guess(values, target):
    with pytest.raises(DataError) as excinfo:
        conform(pa.record_batch({"x": values}), pa.schema([("x", target)]))
    assert excinfo.value.code == "field-type-mismatch"


def test_large_integers_beside_floats_round_as_in_numpy():
    batch = pa.record_batch({"x": [2**53 + 1]})
    assert conform(batch, pa.schema([("x", pa.float64())])).column(0).to_pylist() == [float(2**53)]


def test_two_fields_of_one_name_are_refused():
    twice = pa.schema([("x", pa.int64()), ("x", pa.int64())])
    with pytest.raises(DataError) as excinfo:
        canonical_schema(twice)
    assert excinfo.value.code == "duplicate-field"
    with pytest.raises(DataError) as excinfo:
        conform(
            pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], schema=twice), pa.schema([("x", pa.int64())])
        )
    assert excinfo.value.code == "duplicate-field"


def test_a_mixture_has_the_union_of_its_fields_and_names_its_conflicts():
    schemas = {
        "web": pa.schema([("text", pa.large_string()), ("n", pa.int32()), ("id", pa.int64())]),
        "code": pa.schema([("lang", pa.string()), ("text", pa.string()), ("n", pa.float32())]),
        "math": pa.schema([("id", pa.string()), ("n", pa.null())]),
    }
    united, conflicts = unify_schemas(schemas)
    assert united == pa.schema([("text", pa.string()), ("n", pa.float64()), ("lang", pa.string())])
    assert conflicts == {"id": {"web": pa.int64(), "math": pa.string()}}


def test_uniting_schemas_keeps_the_first_value_of_each_metadata_key():
    a = pa.schema([pa.field("x", pa.int64(), metadata={b"zephon.pad_id": b"1"})])
    b = pa.schema([pa.field("x", pa.int64(), metadata={b"zephon.pad_id": b"2", b"zephon.role": b"tokens"})])
    united, _ = unify_schemas({"a": a, "b": b})
    assert united.field("x").metadata == {b"zephon.pad_id": b"1", b"zephon.role": b"tokens"}
