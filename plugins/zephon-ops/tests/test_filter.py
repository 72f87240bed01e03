"""``filter``: functions, Arrow expressions, and expressions as plain data."""

from __future__ import annotations

import datetime
import json
import pickle
import tomllib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.errors import BadRowsError, ConfigError, PlanError
from zephon.spec import canonical_json, from_plain, to_plain
from zephon_ops.expression import ArrowExpression
from zephon_ops.filter import Filter

field = pc.field

EXPRESSIONS = {
    "comparison": (field("a") > 3, ["a"]),
    "logic": (~(field("a") > 1) | (field("b") == "é") & field("c").is_valid(), ["a", "b", "c"]),
    "nested field": ((field("m", "x") > 1) & (field("m", "y") < 2), ["m"]),
    "field of a struct": (pc.struct_field(field("m"), "x") > 2, ["m"]),
    "a name with dots": (field("weird name.[0]") == 1, ["weird name.[0]"]),
    "text": (pc.starts_with(field("b"), "x"), ["b"]),
    "regular expression": (pc.match_substring_regex(field("b"), "a.*\\d"), ["b"]),
    "cast": (field("a").cast("string") == "1", ["a"]),
    "cast to a time": (field("a").cast(pa.timestamp("us", "UTC")) > pa.scalar(0, pa.timestamp("us", "UTC")), ["a"]),
    "set": (field("b").isin(["x", "y"]), ["b"]),
    "set with null": (field("a").isin([1, 2, None]), ["a"]),
    "list length": (pc.list_value_length(field("l")) > 2, ["l"]),
    "is null or nan": (pc.is_null(field("f"), nan_is_null=True), ["f"]),
    "rounding": (pc.round(field("f"), 2) > 1, ["f"]),
    "infinity": (field("f") < float("inf"), ["f"]),
    "time": (field("t") > datetime.datetime(2020, 1, 1), ["t"]),
    "nanoseconds": (field("t") > pa.scalar(1, pa.timestamp("ns")), ["t"]),
    "formatting": (pc.strftime(field("t"), format="%Y") == "2020", ["t"]),
    "decimal": (field("d") == Decimal("1.50"), ["d"]),
    "bytes": (field("x") == b"\xff", ["x"]),
    "if": (pc.if_else(field("a") > 1, True, None), ["a"]),
    "no field": (pc.scalar(True), []),
    "no literal": (field("ok"), ["ok"]),
    "the same field twice": ((field("a") > 1) & (field("a") < 9), ["a"]),
}

expressions = pytest.mark.parametrize(("expression", "fields"), EXPRESSIONS.values(), ids=EXPRESSIONS)


# -- expressions as data ----------------------------------------------------------------------------------------------


@expressions
def test_an_expression_survives_a_recipe(expression, fields):
    recipe = json.loads(canonical_json(to_plain(Filter(expression), defaults=False)))
    rebuilt = from_plain(Filter, recipe)
    assert rebuilt.expression.equals(expression)
    assert rebuilt == Filter(expression)
    assert to_plain(rebuilt) == to_plain(Filter(expression))


@expressions
def test_an_expression_reads_the_top_level_fields_it_names(expression, fields):
    assert list(Filter(expression).reads) == fields


@expressions
def test_an_expression_reaches_workers_by_value(expression, fields):
    assert pickle.loads(pickle.dumps(Filter(expression))).expression.equals(expression)


def test_the_plain_form_can_be_read_by_people():
    assert to_plain(Filter(field("score") > 3), defaults=False) == {
        "predicate": {
            "$expression": {"call": "greater", "arguments": [{"field": "score"}, {"value": 3, "type": "int64"}]}
        }
    }


def test_an_expression_can_be_written_by_hand_in_a_recipe():
    settings = tomllib.loads(
        """
        [predicate."$expression"]
        call = "greater"
        arguments = [{ field = "score" }, { value = 0.5, type = "double" }]
        """
    )
    assert from_plain(Filter, settings) == Filter(field("score") > 0.5)


def test_different_expressions_have_different_plain_forms():
    forms = [canonical_json(to_plain(Filter(expression))) for expression, _ in EXPRESSIONS.values()]
    assert len(set(forms)) == len(forms)
    assert Filter(field("a") > 1) != Filter(field("a") > 2)


def test_long_value_sets_are_kept_whole():
    """``str(expression)`` elides them."""
    one, other = (Filter(field("n").isin([*range(50), middle, *range(50)])) for middle in (1000, 1001))
    assert str(one.expression) == str(other.expression)
    assert to_plain(one) != to_plain(other)
    assert from_plain(Filter, to_plain(other)).expression.equals(other.expression)


@pytest.mark.parametrize(
    "tree",
    [
        3,
        {"foo": 1},
        {"call": "greater"},
        {"call": "greater", "arguments": [{"field": 3}]},
        {"value": "x", "type": "int64"},
        {"arrow": "AAAA"},
        {"arrow": "not base64!"},
        {"call": "greater", "arguments": [], "options": {"_type_name": "Nothing"}},
    ],
    ids=repr,
)
def test_data_that_is_no_expression_is_refused(tree):
    with pytest.raises(ConfigError) as info:
        ArrowExpression.from_plain({"$expression": tree})
    assert info.value.code == "filter-expression"


@pytest.mark.parametrize(
    "expression",
    [field(0) > 3, field("m", "x") > pc.Expression._call("random", [], pc.RandomOptions())],
    ids=["by position", "random"],
)
def test_expressions_without_an_address_in_the_data_are_refused(expression):
    with pytest.raises(ConfigError) as info:
        Filter(expression)
    assert info.value.code == "filter-expression"


# -- expressions on rows ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.none() | st.integers(-20, 20), min_size=1, max_size=60), limit=st.integers(-20, 20))
def test_an_expression_keeps_what_a_function_of_the_same_meaning_keeps(lab, values, limit):
    block = lab.block({"v": pa.array(values, pa.int64()), "i": range(len(values))})
    by_expression = Filter((field("v") > limit) | (field("v") == 0)).apply(block)
    by_function = Filter(lambda row: row["v"] is not None and (row["v"] > limit or row["v"] == 0)).apply(block)
    assert lab.rows([by_expression]) == lab.rows([by_function])


def test_null_drops_the_row(lab):
    assert Filter(field("ok")).apply(lab.block({"ok": [True, None, False, True]})).origins.row.tolist() == [0, 3]


def test_nothing_is_copied_where_nothing_is_dropped(lab):
    block = lab.block(5)
    assert Filter(field("n") >= 0).apply(block) is block


def test_an_expression_without_fields_works_on_rows_without_columns(lab):
    block = lab.block(pa.record_batch({"x": [1, 2, 3]}).select([]))
    assert len(Filter(pc.scalar(True)).apply(block)) == 3
    assert len(Filter(pc.scalar(None).is_valid()).apply(block)) == 0


def test_rows_of_a_large_block_keep_their_order(lab):
    """Arrow's executor cuts large inputs into morsels of 32,768 rows."""
    block = lab.block({"n": np.arange(100_000)})
    kept = Filter(field("n") >= 50_000).apply(block)
    assert kept.origins.row.tolist() == list(range(50_000, 100_000))


@pytest.mark.parametrize(
    "expression",
    [field("n") == "text", field("missing") > 1, field("n") + 1, field("n"), pc.utf8_length(field("n")) > 1],
    ids=["another type", "missing field", "not boolean", "a number", "wrong argument"],
)
def test_an_expression_that_does_not_work_on_these_rows_is_found_when_planned(expression):
    with pytest.raises(PlanError) as info:
        Filter(expression).output_schema(pa.schema([("n", pa.int64())]))
    assert info.value.code == "filter-expression"


def test_a_row_the_expression_fails_on_raises_what_runners_narrow_down(lab):
    """Not an error of Zephon's own, so that the row alone is found and not the block lost."""
    operator = Filter(field("text").cast("int64") > 1)
    block = lab.block({"text": ["1", "two", "3"]})
    operator.output_schema(block.schema)
    with pytest.raises(pa.ArrowInvalid):
        operator.apply(block)
    assert len(operator.apply(block.take(np.array([0, 2])))) == 1


# -- functions --------------------------------------------------------------------------------------------------------


def test_numpy_bools_count_as_bools(lab):
    assert len(Filter(lambda row: np.bool_(row["n"] > 1)).apply(lab.block(5))) == 3


def test_all_rows_a_function_raised_on_or_gave_no_bool_for_are_named(lab):
    def fn(row):
        return [True, None, 1, False, "yes", 1 // 0 if row["n"] == 5 else None][row["n"]]

    with pytest.raises(BadRowsError) as info:
        Filter(fn).apply(lab.block(5))
    assert info.value.code == "function-result"
    assert [bad.row for bad in info.value.rows] == [1, 2, 4]

    def raises(row):
        return 1 // row["n"] > 0

    with pytest.raises(BadRowsError) as info:
        Filter(raises).apply(lab.block(3))
    assert info.value.code == "function-failed"
    assert [bad.row for bad in info.value.rows] == [0]
    assert isinstance(info.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("predicate", [3, "n > 3", None, {"a": 1}])
def test_filter_refuses_what_is_neither_function_nor_expression(predicate):
    with pytest.raises(ConfigError) as info:
        Filter(predicate)
    assert info.value.code == "operator-argument"
