"""``map_transform``: what users return, what goes wrong, how columns are found."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from zephon.block import META_PAD_ID, META_ROLE
from zephon.errors import BadRowsError, ConfigError, DataError, PlanError, ZephonError
from zephon_ops.map_transform import MapTransform


def inferred(lab, fn, *columns, **kwargs):
    """The operator with its schema found on one sample per dataset."""
    samples = [lab.block(c, component=None) for c in columns]
    samples = [lab.block(s.data, component=[k] * len(s)) for k, s in enumerate(samples)]  # one dataset after the other
    return MapTransform(fn, **kwargs).infer(samples, lab.context())


def bad(operator, block):
    with pytest.raises(BadRowsError) as info:
        operator.apply(block)
    return info.value


# -- calling ----------------------------------------------------------------------------------------------------------


def test_what_the_function_returns_is_all_that_goes_on(lab):
    operator = MapTransform(lambda row: {"n": row["n"]}, schema={"n": "int64"})
    assert operator.apply(lab.block(3)).data.to_pydict() == {"n": [0, 1, 2]}


def test_with_reads_the_function_sees_these_fields_only(lab):
    seen = []
    MapTransform(lambda row: seen.append(set(row)) or {}, reads=["n"], schema={}).apply(lab.block(2))
    assert seen == [{"n"}, {"n"}]


def test_all_rows_that_raise_are_named_and_the_first_exception_keeps_its_traceback(lab):
    def fn(row):
        return {"x": 1 // (row["n"] % 3)}

    error = bad(MapTransform(fn, schema={"x": "int64"}), lab.block(7))
    assert error.code == "function-failed"
    assert [(b.row, "ZeroDivisionError" in b.reason) for b in error.rows] == [(0, True), (3, True), (6, True)]
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.__cause__.__traceback__.tb_next.tb_frame.f_code.co_name == "fn"


def test_every_kind_of_bad_row_is_named_in_one_error(lab):
    def fn(row):
        return [{"x": 1}, {"x": "one"}, [1], 1 / 0 if row["n"] == 3 else {"x": 4}, {"x": 5, "y": 6}][row["n"]]

    error = bad(MapTransform(fn, schema={"x": "int64"}), lab.block(5))
    assert [b.row for b in error.rows] == [1, 2, 3, 4]
    assert error.code == "row-does-not-fit"


def test_the_rows_that_are_not_bad_can_be_mapped_by_the_next_call(lab):
    operator = MapTransform(lambda row: {"x": 1 // (row["n"] % 3)}, schema={"x": "int64"})
    block = lab.block(7)
    mask = np.ones(7, dtype=bool)
    mask[[b.row for b in bad(operator, block).rows]] = False
    assert operator.apply(block.filter(mask)).data.to_pydict() == {"x": [1, 0, 1, 0]}


def test_none_drops_the_row_or_is_a_bad_row_as_asked(lab):
    def fn(row):
        return {"n": row["n"]} if row["n"] != 1 else None

    dropped = MapTransform(fn, schema={"n": "int64"}).apply(lab.block(3))
    assert dropped.data.to_pydict() == {"n": [0, 2]}
    assert dropped.origins.row.tolist() == [0, 2]
    error = bad(MapTransform(fn, schema={"n": "int64"}, drop_none=False), lab.block(3))
    assert (error.code, [b.row for b in error.rows]) == ("function-result", [1])


def test_nulls_are_none_and_a_key_left_out_is_null(lab):
    block = lab.block({"a": [1, None]})
    operator = MapTransform(lambda row: {} if row["a"] is None else row, schema={"a": "int64", "b": "string"})
    assert operator.apply(block).data.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": None}]


def test_tensors_are_arrays_on_both_sides(lab):
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.float32).reshape(3, 2, 2))
    block = lab.block({"image": tensors})
    operator = MapTransform(lambda row: {"image": row["image"] * 2}).infer([block], lab.context())
    made = operator.apply(block).data.column("image")
    assert made.type == pa.fixed_shape_tensor(pa.float32(), [2, 2])
    assert (made.to_numpy_ndarray() == np.arange(12).reshape(3, 2, 2) * 2).all()


def test_vectorised_functions_may_return_rows_with_their_parents(lab):
    def fn(batch):
        return batch.take(pa.array([0, 0, 2])), [0, 0, 2]

    made = MapTransform(fn, vectorized=True, schema={"n": "int64", "text": "string"}).apply(lab.block(3))
    assert made.data.column("n").to_pylist() == [0, 0, 2]
    assert made.origins.row.tolist() == [0, 0, 2]
    assert len(set(made.origins.part[:2].tolist())) == 2


@pytest.mark.parametrize(
    "result",
    [
        lambda batch: batch.slice(1),
        lambda batch: (batch.slice(1), [1]),
        lambda batch: (batch, [2, 1, 0]),
        lambda batch: (batch, [0, 1, 3]),
        lambda batch: (batch, [-1, 1, 2]),
        lambda batch: (batch, [0.0, 1.0, 2.0]),
        lambda batch: batch.to_pylist(),
        lambda batch: None,
    ],
)
def test_vectorised_results_that_cannot_be_traced_to_rows_are_refused(lab, result):
    with pytest.raises(DataError) as info:
        MapTransform(result, vectorized=True, schema={"n": "int64", "text": "string"}).apply(lab.block(3))
    assert info.value.code == "function-result"


def test_a_vectorised_function_that_promised_a_row_for_a_row_is_held_to_it(lab):
    operator = MapTransform(
        lambda batch: (batch.slice(1), [1, 2]),
        vectorized=True,
        drop_none=False,
        schema={"n": "int64", "text": "string"},
    )
    with pytest.raises(DataError) as info:
        operator.apply(lab.block(3))
    assert info.value.code == "function-result"


@pytest.mark.parametrize(
    ("result", "told"),
    [({"n": ["a", "b"]}, "int32"), ({"n": [1 << 40, 1]}, "int32"), ({"n": [1, 2], "other": [1, 2]}, "other")],
    ids=["another kind", "out of range", "another column"],
)
def test_vectorised_columns_that_do_not_fit_raise_what_runners_narrow_down(lab, result, told):
    """Not an error of Zephon's own: only those are taken as they are."""
    operator = MapTransform(lambda batch: pa.record_batch(result), vectorized=True, schema={"n": "int32"})
    with pytest.raises(ValueError, match=told) as info:
        operator.apply(lab.block(2))
    assert not isinstance(info.value, ZephonError)


def test_vectorised_columns_are_widened_to_the_schema(lab):
    operator = MapTransform(
        lambda batch: pa.record_batch({"m": pa.nulls(2), "n": pa.array([1, 2], pa.int8())}),
        vectorized=True,
        schema={"n": "int64", "m": "string"},
    )
    assert operator.apply(lab.block(2)).data.to_pydict() == {"n": [1, 2], "m": [None, None]}


# -- finding the columns ----------------------------------------------------------------------------------------------


def test_types_are_found_over_all_datasets(lab):
    operator = inferred(lab, lambda row: row, {"a": [1, 2]}, {"a": [1.5]}, {"b": [None, ["x"]]})
    assert operator.schema == pa.schema([("a", pa.float64()), ("b", pa.list_(pa.string()))])
    assert operator.schema_is_known


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", pa.string()),
        (b"x", pa.binary()),
        (bytearray(b"x"), pa.binary()),
        (1, pa.int64()),
        (1.0, pa.float64()),
        (True, pa.bool_()),
        (None, pa.null()),
        (np.int32(1), pa.int32()),
        (np.float32(1), pa.float32()),
        (np.bool_(True), pa.bool_()),
        (np.array(5, dtype=np.uint8), pa.uint8()),
        (np.array([1, 2], dtype=np.int32), pa.list_(pa.int32())),
        (np.array(["a"]), pa.list_(pa.string())),
        (np.zeros((2, 3), dtype=np.float32), pa.fixed_shape_tensor(pa.float32(), [2, 3])),
        (np.array([["a", "b"]]), pa.list_(pa.list_(pa.string()))),
        ((1, 2), pa.list_(pa.int64())),
        ([[1], [2, 3]], pa.list_(pa.list_(pa.int64()))),
        ([], pa.list_(pa.null())),
        ({"a": 1, "b": [b"x"]}, pa.struct([("a", pa.int64()), ("b", pa.list_(pa.binary()))])),
        (datetime.datetime(2024, 1, 1), pa.timestamp("us")),
        (datetime.date(2024, 1, 1), pa.date32()),
        (Decimal("1.25"), pa.decimal128(3, 2)),
    ],
    ids=repr,
)
def test_values_users_return_become_columns(lab, value, expected):
    operator = inferred(lab, lambda row: {"v": value}, {"a": [1]})
    assert operator.schema.field("v").type == expected
    made = operator.apply(lab.block({"a": [1, 2]})).data.column("v")
    assert len(made) == 2
    assert made.null_count == (2 if value is None else 0)


def test_tensors_of_several_shapes_become_nested_lists(lab):
    operator = inferred(lab, lambda row: {"v": np.zeros((row["n"] + 1, 2))}, {"n": [0, 1]})
    assert operator.schema.field("v").type == pa.list_(pa.list_(pa.float64()))
    assert operator.apply(lab.block({"n": [2]})).data.to_pylist() == [{"v": [[0.0, 0.0]] * 3}]


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, frozenset("ab"), 1j, [object()], [{1}], {"a": {1}}, range(3), {1: 2}, [1, "a"]],
    ids=lambda value: type(value).__name__,
)
def test_values_arrow_has_no_type_for_are_refused_when_planned_and_never_pickled(lab, value):
    with pytest.raises(PlanError) as info:
        inferred(lab, lambda row: {"v": value}, {"a": [1]})
    assert info.value.code == "schema-not-inferable"
    assert bad(MapTransform(lambda row: {"v": value}, schema={"v": "string"}), lab.block(1)).code == "row-does-not-fit"


@pytest.mark.parametrize(
    "fn",
    [
        lambda row: {"v": row["n"] if row["n"] else "none"},
        lambda row: {"v": [row["n"]] if row["n"] else row["n"]},
        lambda row: None,
        lambda row: row["missing"],
        lambda row: 5,
        lambda row: {1: 2},
    ],
    ids=["text or number", "list or number", "only None", "always raises", "no dict", "key no str"],
)
def test_columns_that_cannot_be_found_are_an_error_when_planned(lab, fn):
    with pytest.raises(PlanError) as info:
        inferred(lab, fn, {"n": [0, 1]})
    assert info.value.code == "schema-not-inferable"


def test_types_that_conflict_between_datasets_are_told_by_dataset(lab):
    with pytest.raises(PlanError) as info:
        inferred(lab, lambda row: {"v": row["a"]}, {"a": [1]}, {"a": ["x"]})
    assert info.value.code == "schema-not-inferable"
    assert "web" in info.value.found
    assert "code" in info.value.found


def test_the_exception_a_function_always_raises_is_the_cause(lab):
    with pytest.raises(PlanError) as info:
        inferred(lab, lambda row: row["missing"], {"n": [0, 1]})
    assert isinstance(info.value.__cause__, KeyError)


def test_rows_that_fail_among_the_samples_are_left_to_the_run(lab):
    operator = inferred(lab, lambda row: {"v": 1 // row["n"]}, {"n": [0, 1]})
    assert operator.schema == pa.schema([("v", pa.int64())])


def test_without_samples_the_columns_cannot_be_found(lab):
    for samples in ([], [lab.block({"a": [1]}).empty()]):
        with pytest.raises(PlanError) as info:
            MapTransform(lambda row: row).infer(samples, lab.context())
        assert info.value.code == "schema-not-inferable"
    with pytest.raises(PlanError) as info:
        MapTransform(lambda row: row).output_schema(pa.schema([]))
    assert info.value.code == "schema-not-inferable"


def test_fields_handed_on_unchanged_and_token_columns_keep_type_and_metadata(lab):
    metadata = {META_ROLE: b"tokens", META_PAD_ID: b"0"}
    schema = pa.schema(
        [
            pa.field("input_ids", pa.list_(pa.int32()), metadata=metadata),
            pa.field("kept", pa.float32(), metadata={b"zephon.x": b"1"}),
            pa.field("changed", pa.int8()),
            pa.field("empty", pa.string()),
        ]
    )
    batch = pa.record_batch([[[1, 2, 3], [4]], [0.5, 1.5], [1, 2], [None, None]], schema=schema)

    def fn(row):
        row["changed"] += 1
        row["input_ids"] = row["input_ids"][:2]
        return row

    found = MapTransform(fn).infer([lab.block(batch)], lab.context()).schema
    expected = schema.set(2, pa.field("changed", pa.int64()))
    assert found.equals(expected, check_metadata=True)


def test_a_field_that_only_looks_unchanged_gets_the_type_of_its_values(lab):
    operator = inferred(lab, lambda row: {"v": [float(x) for x in row["v"]]}, {"v": pa.array([[1], [2]])})
    assert operator.schema.field("v").type == pa.list_(pa.float64())


def test_vectorised_columns_keep_metadata_most_code_loses(lab):
    tokens = pa.field("input_ids", pa.list_(pa.int32()), metadata={META_ROLE: b"tokens"})
    block = lab.block(pa.record_batch([pa.array([[1]], tokens.type)], schema=pa.schema([tokens])))

    def fn(batch):
        return pa.record_batch({"input_ids": batch.column("input_ids"), "n": [1]})

    found = MapTransform(fn, vectorized=True).infer([block], lab.context()).schema
    assert found.equals(pa.schema([tokens, ("n", pa.int64())]), check_metadata=True)


def test_samples_are_not_modified_by_a_function_that_changes_its_row(lab):
    block = lab.block({"v": [[1], [2]]})
    before = lab.rows([block])
    MapTransform(lambda row: row["v"].append(9) or row).infer([block], lab.context())
    assert lab.rows([block]) == before


# -- later rows -------------------------------------------------------------------------------------------------------


def test_a_later_row_that_does_not_fit_names_both_types_and_the_line_to_paste(lab):
    operator = inferred(lab, lambda row: {"v": row["v"], "w": 1}, {"v": [1, 2]})
    error = bad(operator, lab.block({"v": [3.5, 4.0]}))
    assert error.code == "row-does-not-fit"
    assert "int64" in error.rows[0].reason
    assert "double" in error.rows[0].reason
    assert 'schema={"v": "double", "w": "int64"}' in error.fix
    pasted = MapTransform(operator.fn, schema={"v": "double", "w": "int64"})
    assert pasted.apply(lab.block({"v": [3.5, 4.0]})).data.column("v").to_pylist() == [3.5, 4.0]


def test_a_later_row_with_another_key_names_it_and_the_line_to_paste(lab):
    operator = inferred(lab, lambda row: {"v": 1} if row["n"] < 5 else {"v": 1, "late": "x"}, {"n": [1, 2]})
    error = bad(operator, lab.block({"n": [1, 7]}))
    assert (error.code, [b.row for b in error.rows]) == ("row-does-not-fit", [1])
    assert '"late": "string"' in error.fix


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int64", 1.5),
        ("int64", 1.0),
        ("int64", np.float64(2)),
        ("int64", True),
        ("int64", "1"),
        ("int32", 1 << 40),
        ("double", True),
        ("string", b"x"),
        ("string", 1),
        ("string", "\ud800"),
        ("binary", "x"),
        ("list<int64>", "12"),
        ("list<string>", "abc"),
        ("list<int64>", b"12"),
        ("list<int64>", np.array([1.5])),
        ("list<int64>", np.array([True])),
        ("list<int64>", {1, 2}),
        ("list<int64>", [1.5]),
        ("list<int64>", np.zeros((2, 2))),
        ("list<list<int64>>", [{1}]),
        (pa.struct([("a", pa.int64())]), {"a": 1, "b": 2}),
        (pa.list_(pa.struct([("a", pa.int64())])), [{"a": 1}, {"b": 2}]),
        (pa.struct([("a", pa.int64())]), {"a": 1.5}),
        (pa.struct([("a", pa.int64())]), [1]),
        (pa.fixed_shape_tensor(pa.float32(), [2]), np.zeros(3, dtype=np.float32)),
        (pa.fixed_shape_tensor(pa.float32(), [2]), [1.0, 2.0]),
        (pa.fixed_shape_tensor(pa.int32(), [2]), np.zeros(2)),
        (pa.null(), 1),
        ("timestamp[us]", datetime.date(2024, 1, 1)),
        ("date32", datetime.datetime(2024, 1, 1)),
    ],
    ids=repr,
)
def test_nothing_is_converted_in_silence(lab, schema, value):
    """Most of these pyarrow alone would truncate, drop or take apart."""
    error = bad(MapTransform(lambda row: {"v": value}, schema={"v": schema}), lab.block(1))
    assert error.code == "row-does-not-fit"


def test_a_bad_row_beside_good_ones_is_found_alone(lab):
    """``[1.5, True]`` is a column of double to pyarrow, which makes True 1.0: a row's neighbours must not decide."""
    values = [1.5, True, 2, None]
    error = bad(MapTransform(lambda row: {"v": values[row["n"]]}, schema={"v": "double"}), lab.block(4))
    assert [b.row for b in error.rows] == [1]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"fn": 3}, "operator-argument"),
        ({"fn": "name"}, "operator-argument"),
        ({"schema": {"a": "nonsense"}}, "bad-spec"),
    ],
)
def test_map_transform_refuses_arguments_that_mean_nothing(wrong, code):
    with pytest.raises(ConfigError) as info:
        MapTransform(**{"fn": len, **wrong})
    assert info.value.code == code
