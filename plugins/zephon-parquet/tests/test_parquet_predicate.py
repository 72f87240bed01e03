"""Row groups that cannot hold a matching row are told by statistics, and never one that can."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import everything, opened, write_groups

field = pc.field
small = st.integers(-3, 3)
letters = st.sampled_from(["", "a", "ab", "b", "c"])
floats = st.sampled_from([-1.0, 0.0, -0.0, 1.0, math.nan, math.inf])

ROWS = st.fixed_dictionaries(
    {"i": st.none() | small, "s": st.none() | letters, "d": st.none() | letters, "f": st.none() | floats}
)
SCHEMA = pa.schema(
    [("i", pa.int32()), ("s", pa.large_string()), ("d", pa.dictionary(pa.int8(), pa.string())), ("f", pa.float64())]
)


def comparisons(name: str, values: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(
        st.builds(lambda v: field(name) == v, values),
        st.builds(lambda v: field(name) != v, values),
        st.builds(lambda v: field(name) < v, values),
        st.builds(lambda v: field(name) >= v, values),
        st.builds(lambda v: field(name).isin(v), st.lists(values, min_size=1, max_size=2)),
        st.just(field(name).is_null()),
        st.just(field(name).is_valid()),
    )


leaves = st.one_of(
    comparisons("i", small), comparisons("s", letters), comparisons("d", letters), comparisons("f", floats)
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=4,
)


@given(st.lists(ROWS, min_size=1, max_size=12), st.lists(predicates, min_size=1, max_size=6), st.integers(1, 4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_matching_row_is_ever_left_out(path: Path, rows: list[dict], wanted: list[pc.Expression], size: int) -> None:
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=size)
    reader, index = opened(path)
    table = pa.Table.from_batches([everything(reader, index)]).append_column("row", [range(len(rows))])
    units = np.arange(len(index.units) - 1)
    for predicate in wanted:
        matching = table.filter(predicate).column("row").to_numpy()
        holding = np.unique(np.searchsorted(index.units, matching, side="right") - 1)
        may = reader.may_match(predicate, units)
        assert (may.dtype, may.shape) == (np.bool_, units.shape)
        assert may[holding].all()


def test_row_groups_without_a_match_are_told(path: Path) -> None:
    table = pa.table({"n": range(10), "lang": list("aaaabbbccc")})
    write_groups(path, table, [4, 0, 3, 3])
    reader, _ = opened(path)
    units = np.array([2, 0, 1])
    assert reader.may_match(field("lang") == "b", units).tolist() == [False, False, True]
    assert reader.may_match(field("n") > 6, units).tolist() == [True, False, False]
    assert reader.may_match((field("n") > 6) & (field("lang") == "a"), units).tolist() == [False, False, False]


@pytest.mark.parametrize(
    "predicate", [field("missing") == 1, field("n") == "text", pc.utf8_length(field("lang")) > 100, pc.field(0) > 99]
)
def test_what_cannot_be_told_may_match(path: Path, predicate: pc.Expression) -> None:
    write_groups(path, pa.table({"n": range(4), "lang": list("abcd")}), [2, 2])
    reader, _ = opened(path)
    assert reader.may_match(predicate, np.arange(2)).all()


def test_not_a_number_is_not_forgotten(path: Path) -> None:
    write_groups(path, pa.table({"f": [5.0, math.nan, 6.0, math.nan]}), [2, 2])
    reader, _ = opened(path)
    assert reader.may_match(field("f") != 5.0, np.arange(2)).all()
    assert reader.may_match(~(field("f") > 5.5), np.arange(2)).all()
