"""``stateful_transform``: folds from plain functions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.errors import BadRowsError, ConfigError, DataError, PlanError
from zephon_ops.stateful import StatefulTransform


def operator(push, init_state=0, **kwargs):
    return StatefulTransform("mine", init_state=init_state, push=push, **{"schema": {"v": "int64"}, **kwargs})


def values(blocks):
    return [row["v"] for block in blocks for row in block.data.to_pylist()]


def summing(state, row):
    return state + row["n"], {"v": state + row["n"]}


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_push_may_emit_nothing_a_row_or_several(lab):
    def push(state, row):
        return state, [None, {"v": 1}, [], [{"v": 2}, {"v": 3}], ({"v": 4},)][row["n"]]

    assert values(lab.fold(operator(push), [lab.block(5)])) == [1, 2, 3, 4]


def test_rows_inherit_the_origin_of_the_row_they_were_made_at(lab):
    made = lab.fold(operator(lambda state, row: (state, [{"v": row["n"]}] * row["n"])), [lab.block(4)])
    origins = made[0].origins
    assert origins.row.tolist() == [1, 2, 2, 3, 3, 3]
    assert len({(row, part) for row, part in zip(origins.row.tolist(), origins.part.tolist(), strict=True)}) == 6
    assert origins.part[0] == 0  # an only child is its parent as far as addresses go


@pytest.mark.parametrize("cuts", [[], [1] * 4, [3]])
def test_flushed_rows_are_further_children_of_the_lanes_last_row(lab, cuts):
    op = operator(lambda state, row: (state, [{"v": 0}] * 2), flush=lambda state: [{"v": 1}, {"v": 2}])
    *_, last = made = lab.fold(op, lab.cut(lab.block(4), cuts))
    assert values([last]) == [1, 2]
    assert last.origins.row.tolist() == [3, 3]
    everything = [(r, p) for b in made for r, p in zip(b.origins.row.tolist(), b.origins.part.tolist(), strict=True)]
    assert len(set(everything)) == len(everything) == 10


def test_a_lane_without_rows_flushes_its_initial_state_under_its_own_address(lab):
    state = operator(summing, 5, flush=lambda state: {"v": state}).open(lab.context())
    (made,) = state.finish()
    assert values([made]) == [5]
    assert (made.origins.component.tolist(), made.origins.shard.tolist()) == ([-1], [3])


def test_rows_a_function_keeps_and_changes_later_are_emitted_as_they_were(lab):
    def push(state, row):
        state["row"]["v"] += 1
        return state, state["row"]

    op = operator(push, {"row": {"v": 0}})
    assert values(lab.fold(op, [lab.block(4)])) == [1, 2, 3, 4]


def test_every_lane_begins_with_a_state_of_its_own(lab):
    def push(state, row):
        state["list"].append(row["n"])
        return state, {"v": len(state["list"])}

    for init in ({"list": []}, lambda: {"list": []}):
        op = operator(push, init)
        assert values(lab.fold(op, [lab.block(2)])) == values(lab.fold(op, [lab.block(2)])) == [1, 2]


def test_a_row_a_function_changes_does_not_change_the_block(lab):
    block = lab.block(3)
    before = lab.rows([block])
    lab.fold(operator(lambda state, row: (row.clear() or state, None)), [block])
    assert lab.rows([block]) == before


# -- bad rows ---------------------------------------------------------------------------------------------------------


def picky(state, row):
    assert row["n"] not in state["seen"], "a row was pushed twice on the same state"
    state["seen"].append(row["n"])  # before it fails: the state must not keep this
    if row["n"] % 4 == 3:
        raise KeyError("three")
    if row["n"] % 4 == 2:
        return state, [{"v": 0}, {"v": "two"}]
    if row["n"] == 5:
        return 7
    return state, {"v": len(state["seen"])}


def picky_vectorized(state, batch):
    state, rows = {"seen": list(state["seen"])}, []
    for n in batch.column("n").to_pylist():
        state, row = picky(state, {"n": n})
        rows += [row] if isinstance(row, dict) else row
    return state, pa.RecordBatch.from_pylist(rows)


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, 9), max_size=10))
def test_bad_rows_leave_the_state_as_it_was_and_the_rest_can_be_pushed(lab, cuts):
    block = lab.block(20)
    good = [n for n in range(20) if n % 4 not in (2, 3) and n != 5]
    expected = lab.rows(lab.fold(operator(picky, {"seen": []}), [block.take(np.array(good))]))
    state = operator(picky, {"seen": []}).open(lab.context(schema=block.schema))
    made = []
    for piece in lab.cut(block, cuts):
        before = lab.content(state.snapshot())
        mask = np.ones(len(piece), dtype=bool)
        try:
            made += state.push(piece)
        except BadRowsError as error:
            assert lab.content(state.snapshot()) == before
            mask[[bad.row for bad in error.rows]] = False
            assert piece.data.column("n").filter(pa.array(mask)).to_pylist() == [
                n for n in piece.data.column("n").to_pylist() if n in good
            ]
            if mask.any():
                made += state.push(piece.filter(mask))
    assert lab.rows(made) == expected


def test_the_code_and_cause_of_bad_rows_are_those_of_the_first(lab):
    state = operator(picky, {"seen": []}).open(lab.context())
    with pytest.raises(BadRowsError) as info:
        state.push(lab.block(20))
    assert info.value.code == "row-does-not-fit"
    assert isinstance(info.value.__cause__, KeyError)
    assert 5 in [bad.row for bad in info.value.rows]


def test_vectorised_functions_that_fail_are_narrowed_down_to_rows(lab):
    op = operator(picky_vectorized, {"seen": []}, vectorized=True)
    block = lab.block({"n": [0, 1, 3, 4, 7]})
    state = op.open(lab.context(schema=block.schema))
    with pytest.raises(BadRowsError) as info:
        state.push(block)
    assert [bad.row for bad in info.value.rows] == [2, 4]
    assert values(state.push(block.take(np.array([0, 1, 3])))) == [1, 2, 3]


def test_a_vectorised_function_that_fails_on_blocks_but_on_no_row_is_told_so(lab):
    def push(state, batch):
        if batch.num_rows > 1:
            raise MemoryError("too much")
        return state, None

    with pytest.raises(DataError) as info:
        operator(push, vectorized=True).open(lab.context()).push(lab.block(3))
    assert info.value.code == "function-failed"
    assert isinstance(info.value.__cause__, MemoryError)


@pytest.mark.parametrize("result", [5, None, (1, 2, 3, 4), (0, [1]), (0, pa.record_batch({"v": [1]})), (0, None, 1, 1)])
def test_vectorised_results_that_cannot_be_used_are_refused(lab, result):
    with pytest.raises(DataError) as info:
        operator(lambda state, batch: result, vectorized=True).open(lab.context()).push(lab.block(3))
    assert info.value.code == "function-result"


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (5, "function-result"),
        ([1], "function-result"),
        ({"v": "x"}, "row-does-not-fit"),
        ([{"v": 1}, {"v": "x"}], "row-does-not-fit"),
    ],
)
def test_flushed_rows_that_cannot_be_used_are_an_error(lab, result, code):
    state = operator(summing, flush=lambda state: result).open(lab.context())
    with pytest.raises(DataError) as info:
        state.finish()
    assert info.value.code == code


def test_a_vectorised_flush_returns_a_record_batch_or_none(lab):
    def flushing(result):
        return operator(lambda state, batch: (state, None), flush=lambda state: result, vectorized=True)

    assert values(lab.fold(flushing(pa.record_batch({"v": [7]})), [lab.block(2)])) == [7]
    assert lab.fold(flushing(None), [lab.block(2)]) == []
    with pytest.raises(DataError) as info:
        lab.fold(flushing({"v": 7}), [lab.block(2)])
    assert info.value.code == "function-result"


# -- the state --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", [object, lambda: {1, 2}, lambda: [lambda: 1], lambda: np.array([object()])])
def test_a_state_that_no_checkpoint_can_hold_is_refused_before_the_run(lab, init):
    with pytest.raises(ConfigError) as info:
        operator(summing, init).open(lab.context())
    assert info.value.code == "state-not-plain"


def test_a_state_that_becomes_such_is_refused_at_the_next_cut(lab):
    state = operator(lambda state, row: ({row["n"]}, None)).open(lab.context())
    list(state.push(lab.block(1)))
    with pytest.raises(ConfigError) as info:
        state.snapshot()
    assert info.value.code == "state-not-plain"


@pytest.mark.parametrize("init", [(1, 2), {1: 2}, b"x", np.zeros(3), {"a": (1,)}, {1, 2}], ids=repr)
def test_an_initial_value_that_no_recipe_can_hold_must_come_from_a_function(lab, init):
    with pytest.raises(ConfigError) as info:
        operator(summing, init)
    assert info.value.code == "state-not-plain"


# -- finding the columns ----------------------------------------------------------------------------------------------


def test_columns_are_found_by_folding_over_every_dataset(lab):
    def push(state, row):
        return state, {"v": row["a"], "k": 1} if row["a"] is not None else None

    samples = [lab.block({"a": [1, 2]}), lab.block({"a": [None, 1.5]}, component=[1, 1])]
    found = operator(push, schema=None, flush=lambda state: {"end": "x"}).infer(samples, lab.context())
    assert found.schema == pa.schema([("v", pa.float64()), ("k", pa.int64()), ("end", pa.string())])


def test_columns_of_vectorised_functions_are_found_on_what_they_push_or_flush(lab):
    pushed = operator(lambda s, batch: (s, batch), schema=None, vectorized=True)
    assert pushed.infer([lab.block(2)], lab.context()).schema == lab.block(2).schema
    flushed = operator(
        lambda s, batch: (s, None), schema=None, vectorized=True, flush=lambda s: pa.record_batch({"z": [1.0]})
    )
    assert flushed.infer([lab.block(2)], lab.context()).schema == pa.schema([("z", pa.float64())])


@pytest.mark.parametrize("push", [lambda state, row: (state, None), lambda state, row: row["missing"]])
def test_columns_of_a_fold_that_emits_nothing_cannot_be_found(lab, push):
    with pytest.raises(PlanError) as info:
        operator(push, schema=None).infer([lab.block(2)], lab.context())
    assert info.value.code == "schema-not-inferable"


@pytest.mark.parametrize("wrong", [{"name": ""}, {"name": 3}, {"push": 3}, {"flush": "x"}])
def test_stateful_transform_refuses_arguments_that_mean_nothing(wrong):
    with pytest.raises(ConfigError) as info:
        StatefulTransform(**{"name": "mine", "init_state": 0, "push": summing, **wrong})
    assert info.value.code == "operator-argument"
