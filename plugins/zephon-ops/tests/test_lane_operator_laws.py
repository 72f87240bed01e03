"""Law 3 for every lane operator: the output depends on the row sequence alone, and a restore is unobservable."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.abc import LaneOperator
from zephon.block import META_ROLE, Block
from zephon_ops.batch import BatchRows
from zephon_ops.mixture import EnsureMixture
from zephon_ops.shuffle import Shuffle
from zephon_ops.stateful import StatefulTransform


def running_total(state, row):
    state["total"] += row["n"]
    state["seen"].append(row["text"])
    return state, [{"total": state["total"], "text": text} for text in state["seen"][-(row["n"] % 3) :]]


def last_total(state):
    return [{"total": state["total"], "text": None}, {"total": len(state["seen"]), "text": None}]


def pairs(state, batch):
    """Emits every even row, and every row that follows a multiple of 5."""
    numbers = batch.column("n").to_numpy()
    before = np.concatenate([[state["last"]], numpy_or(numbers[:-1])])
    parents = np.sort(np.concatenate([np.flatnonzero(numbers % 2 == 0), np.flatnonzero(before % 5 == 0)]))
    state = {"last": int(numbers[-1]), "count": state["count"] + np.int64(len(parents))}
    return state, pa.record_batch({"n": numbers[parents]}), parents


def numpy_or(values):
    return np.asarray(values, dtype=np.int64)


OPERATORS = [
    Shuffle(1),
    Shuffle(5, seed=3),
    Shuffle(1000),
    EnsureMixture(1),
    EnsureMixture(6, "rows"),
    EnsureMixture(6, "n"),
    EnsureMixture(1000),
    BatchRows(1),
    BatchRows(4),
    BatchRows(4, drop_last=False),
    BatchRows(500, drop_last=False),
    StatefulTransform(
        "totals",
        init_state={"total": 0, "seen": []},
        push=running_total,
        flush=last_total,
        schema={"total": "int64", "text": "string"},
    ),
    StatefulTransform("pairs", init_state={"last": 0, "count": 0}, push=pairs, schema={"n": "int64"}, vectorized=True),
]

lanes = st.builds(lambda n, seed: (n, seed), st.integers(1, 90), st.integers(0, 2**32 - 1))
sizes = st.lists(st.integers(1, 20), max_size=40)


@pytest.fixture(scope="session")
def stream(lab):
    def make(lane: tuple[int, int]) -> Block:
        n, seed = lane
        rng = np.random.default_rng(seed)
        tokens = pa.field("input_ids", pa.list_(pa.int32()), metadata={META_ROLE: b"tokens"})
        data = pa.record_batch(
            [
                pa.array(rng.integers(0, 50, n)),
                pa.array(["x" * int(k) if k else None for k in rng.integers(0, 9, n)], pa.string()),
                pa.array([list(range(k)) for k in rng.integers(0, 6, n)], tokens.type),
            ],
            schema=pa.schema([("n", pa.int64()), ("text", pa.string()), tokens]),
        )
        phase = np.sort(rng.integers(0, 2, n))
        return lab.block(data, component=rng.integers(0, 3, n), phase=phase)

    return make


every = pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: repr(o).partition(", parallelism")[0][:60])


@every
@settings(max_examples=25, deadline=None)
@given(lane=lanes, cuts=sizes)
def test_output_does_not_depend_on_where_blocks_end(lab, stream, operator: LaneOperator, lane, cuts):
    """If this fails, something is decided per block: look at what push does with the block's length."""
    block = stream(lane)
    whole = lab.fold(operator, [block])
    pieces = lab.fold(operator, lab.cut(block, cuts))
    assert lab.rows(pieces) == lab.rows(whole)
    if operator.emits == "microbatches":
        assert list(map(len, pieces)) == list(map(len, whole))


@every
@settings(max_examples=25, deadline=None)
@given(lane=lanes, cuts=sizes, stops=st.sets(st.integers(0, 40)))
def test_restoring_at_any_block_boundaries_is_unobservable(lab, stream, operator, lane, cuts, stops):
    """If this fails, the snapshot lacks something push or finish uses, or does not survive JSON and Arrow IPC."""
    blocks = lab.cut(stream(lane), cuts)
    plain = lab.fold(operator, blocks)
    resumed = lab.fold(operator, blocks, restore_after=lambda i: i in stops)
    assert lab.rows(resumed) == lab.rows(plain)


@every
@settings(max_examples=10, deadline=None)
@given(lane=lanes, cuts=sizes)
def test_snapshots_are_not_changed_by_later_pushes(lab, stream, operator, lane, cuts):
    """If this fails, a snapshot refers to an array or list the state goes on changing."""
    blocks = lab.cut(stream(lane), cuts)
    state = operator.open(lab.context(schema=blocks[0].schema))
    taken = []
    for block in blocks:
        list(state.push(block))
        snapshot = state.snapshot()
        taken.append((snapshot, lab.content(snapshot)))
    list(state.finish())
    for snapshot, content in taken:
        assert lab.content(snapshot) == content


@every
@settings(max_examples=15, deadline=None)
@given(lane=lanes, cuts=sizes, stop=st.integers(0, 40))
def test_a_restored_state_goes_on_counting_where_it_stood(lab, stream, operator, lane, cuts, stop):
    """If this fails, something that only shows much later is lost: look at what restore leaves at its first value."""
    blocks = lab.cut(stream(lane), cuts)
    where = lab.context(schema=blocks[0].schema)
    plain, resumed = operator.open(where), operator.open(where)
    for i, block in enumerate(blocks):
        list(plain.push(block))
        list(resumed.push(block))
        if i == stop:
            restored_from = lab.through_bytes(resumed.snapshot())
            content = lab.content(restored_from)
            resumed = operator.open(where)
            resumed.restore(restored_from)
        assert resumed.snapshot().meta == plain.snapshot().meta
    list(resumed.finish())
    if stop < len(blocks):
        assert lab.content(restored_from) == content


@every
@settings(max_examples=10, deadline=None)
@given(lane=lanes, cuts=sizes)
def test_blocks_pushed_are_not_modified(lab, stream, operator, lane, cuts):
    block = stream(lane)
    before = lab.rows([block])
    lab.fold(operator, lab.cut(block, cuts))
    assert lab.rows([block]) == before


@every
def test_columns_that_come_out_are_those_promised(lab, stream, operator):
    block = stream((60, 1))
    promised = operator.output_schema(block.schema)
    emitted = lab.fold(operator, lab.cut(block, [7] * 9))
    assert emitted
    assert all(made.schema.equals(promised, check_metadata=True) for made in emitted)


@pytest.mark.parametrize("operator", [o for o in OPERATORS if o.emits == "rows"], ids=repr)
@settings(max_examples=25, deadline=None)
@given(lane=lanes, cuts=sizes)
def test_operators_that_emit_rows_emit_each_row_once_untouched(lab, stream, operator, lane, cuts):
    block = stream(lane)
    assert operator.preserves_rows
    assert sorted(lab.rows(lab.fold(operator, lab.cut(block, cuts)))) == sorted(lab.rows([block]))


@pytest.mark.parametrize("operator", [Shuffle(50), EnsureMixture(50), BatchRows(50)], ids=repr)
def test_what_is_held_keeps_at_most_twice_its_bytes_alive(lab, operator):
    """Blocks are small slices of large parents; a state that merely refers to them would keep the parents alive."""
    parent = lab.block({"text": ["x" * 1000] * 4000})
    state = operator.open(lab.context(schema=parent.schema))
    for i in range(80):
        list(state.push(parent.slice(i * 50, i * 50 + 7)))
        held = [block.data for block in state.snapshot().blocks.values()]
        assert lab.retained(held) <= 2 * 1010 * min(50, 7 * (i + 1))


@pytest.mark.parametrize("operator", [Shuffle(3), EnsureMixture(3), BatchRows(3, drop_last=False)], ids=repr)
def test_rows_without_columns_pass(lab, operator):
    block = lab.block(pa.record_batch({"x": [1] * 10}).select([]))
    out = lab.fold(operator, lab.cut(block, [4, 4]), restore_after=lambda i: True)
    assert sum(map(len, out)) == 10


@pytest.mark.parametrize(
    ("operator", "full"), [(Shuffle(100), 100), (EnsureMixture(100), 100), (BatchRows(100), 100)], ids=repr
)
def test_state_estimate_covers_a_full_buffer(lab, operator, full):
    assert operator.state_bytes(pa.schema([]), 10.0) >= full * 10
