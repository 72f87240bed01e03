"""Python values to columns: a row fits or not by itself, and what fits comes back as it was."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon_ops.values import (
    CONVERSION_ERRORS,
    build_batch,
    build_column,
    infer_type,
    rows_of,
    schema_argument,
    schema_line,
    unify_value_types,
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=3),
    st.binary(max_size=3),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
TYPES = [
    pa.null(),
    pa.bool_(),
    pa.int64(),
    pa.int8(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.list_(pa.int64()),
    pa.list_(pa.float64()),
    pa.list_(pa.list_(pa.string())),
    pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64()))]),
    pa.list_(pa.struct([("a", pa.string())])),
]


def fits(column, t):
    try:
        return build_column(column, t)
    except CONVERSION_ERRORS:
        return None


@settings(max_examples=100, deadline=None)
@given(column=st.lists(values, min_size=1, max_size=5), t=st.sampled_from(TYPES))
def test_a_column_is_made_exactly_when_each_value_fits_alone_and_holds_the_same(column, t):
    singles = [fits([value], t) for value in column]
    together = fits(column, t)
    if any(single is None for single in singles):
        assert together is None
    else:
        assert together is not None
        assert repr(together.to_pylist()) == repr([single.to_pylist()[0] for single in singles])


@settings(max_examples=100, deadline=None)
@given(value=values)
def test_a_value_comes_back_from_a_column_of_its_own_type(value):
    t = infer_type(value)
    column = None if t is None else fits([value], t)
    if column is not None:
        assert same(column.to_pylist()[0], value)


def same(found, value):
    """Equal, given that a dict's missing keys are null in a column that has them."""
    if isinstance(value, dict):
        return all(same(found[key], value.get(key)) for key in found)
    if isinstance(value, list):
        return len(found) == len(value) and all(map(same, found, value))
    if isinstance(value, int) and isinstance(found, float):
        return found == value
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(found)
    return type(found) is type(value) and found == value


@settings(max_examples=100, deadline=None)
@given(a=values, b=values)
def test_two_values_fit_their_united_type_or_are_told_apart(a, b):
    """Where pyarrow cannot tell a value's type from its parts, no type is found and nothing is lost."""
    kinds = infer_type(a), infer_type(b)
    if None in kinds:
        return
    united = unify_value_types(*kinds)
    alone = [fits([value], kind) for value, kind in zip((a, b), kinds, strict=True)]
    if united is not None and None not in alone and fits([a, b], united) is None:
        # Only an integer too large for a double may fail to fit what it unites to.
        assert "double" in str(united)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries({"i": st.integers(-9, 9), "s": st.text("ab"), "l": st.lists(st.integers(0, 9))})
    )
)
def test_rows_survive_columns(rows):
    schema = pa.schema([("i", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64()))])
    assert rows_of(build_batch(rows, schema)) == rows


def test_the_schema_line_makes_the_schema_it_was_made_from():
    schema = pa.schema(
        [
            ("a", pa.int64()),
            ("b", pa.list_(pa.list_(pa.float32()))),
            ("c", pa.struct([("x", pa.list_(pa.string())), ("y", pa.struct([("z", pa.timestamp("us", tz="UTC"))]))])),
            ("d", pa.fixed_shape_tensor(pa.float32(), [2, 3])),
            ("e", pa.decimal128(5, 2)),
            ("f", pa.timestamp("ms")),
            ("g", pa.binary(4)),
            ("h", pa.list_(pa.struct([("k", pa.null())]))),
            ("i", pa.date32()),
        ]
    )
    line = schema_line(schema)
    pasted = eval(line.removeprefix("schema="), {"pa": pa})
    assert schema_argument(pasted) == schema


def test_declared_types_become_canonical():
    declared = pa.schema([("a", pa.large_string()), ("b", pa.map_(pa.string(), pa.int64()))])
    entry = pa.struct([("key", pa.string()), ("value", pa.int64())])
    assert schema_argument(declared) == pa.schema([("a", pa.string()), ("b", pa.list_(entry))])


def test_arrays_of_mixed_dtypes_share_a_column():
    column = build_column([np.array([1], np.uint8), np.array([2], np.int64), [3], None], pa.list_(pa.int32()))
    assert column.to_pylist() == [[1], [2], [3], None]


def test_times_and_durations_fit_their_types():
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, 10)
    for value in (moment, moment.time(), moment - datetime.datetime(2024, 1, 1)):
        assert build_column([value], infer_type(value)).to_pylist() == [value]
