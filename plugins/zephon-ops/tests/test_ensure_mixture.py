"""``ensure_mixture``: the rule, what it achieves, and what it cannot."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.abc import PhaseWeights
from zephon.block import DOCUMENT_TYPE, META_ROLE
from zephon.errors import BadRowsError, ConfigError, DataError, PlanError
from zephon_ops.mixture import PATIENCE, SCALE, EnsureMixture

NAMES = ("web", "code", "books")  # as the context has them; by name: books, code, web


def naive(rows, phases, size):
    """The rule, from its description: rows are (component, weight, phase); returns the order in which they leave."""
    held, out = [], []
    credit = dict.fromkeys(sorted(NAMES), 0)
    capacity = 0

    def leave(arrived):
        weights = phases[rows[len(out)][2]]
        total, below, share = sum(weights.values()), 0, {}
        for name in sorted(NAMES):
            upto = below + weights.get(name, 0)
            share[name] = upto * SCALE // total - below * SCALE // total
            below = upto
        chosen = min(held)
        if arrived - 1 - chosen <= PATIENCE * size:
            present = {NAMES[rows[i][0]] for i in held}
            best = max(sorted(present), key=lambda name: credit[name])  # max() takes the first of equals
            chosen = min(i for i in held if NAMES[rows[i][0]] == best)
        held.remove(chosen)
        out.append(chosen)
        component, weight, _ = rows[chosen]
        for name in credit:
            change = weight * share[name] - (weight * SCALE if name == NAMES[component] else 0)
            credit[name] = min(max(credit[name] + change, -capacity * SCALE), capacity * SCALE)

    for i in range(len(rows)):
        held.append(i)
        capacity = max(capacity, sum(rows[k][1] for k in held))
        if len(held) > size:
            leave(i + 1)
    while held:
        leave(len(rows))
    return out


def order(lab, operator, component, weight, phase=None, cuts=(), **where):
    n = len(component)
    block = lab.block({"n": np.arange(n), "weight": pa.array(weight, pa.int64())}, component=component, phase=phase)
    blocks = lab.fold(operator, lab.cut(block, cuts), where=lab.context(schema=block.schema, **where))
    return [row for made in blocks for row in made.data.column("n").to_pylist()]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=120),
    change=st.integers(0, 120),
    size=st.integers(1, 20),
    cuts=st.lists(st.integers(1, 40), max_size=20),
)
def test_rows_leave_as_the_rule_says(lab, rows, change, size, cuts):
    component, weight = zip(*rows, strict=True)
    phase = [int(i >= change) for i in range(len(rows))]
    found = order(lab, EnsureMixture(size, "weight"), component, weight, phase, cuts)
    phases = [dict(p.weights) for p in lab.context().phases]
    assert found == naive(list(zip(component, weight, phase, strict=True)), phases, size)


@settings(max_examples=50, deadline=None)
@given(component=st.lists(st.integers(0, 2), min_size=1, max_size=300), size=st.integers(1, 10))
def test_rows_of_a_component_keep_their_order_and_wait_for_a_bounded_time(lab, component, size):
    found = order(lab, EnsureMixture(size, "rows"), component, [1] * len(component))
    for k in range(3):
        mine = [row for row in found if component[row] == k]
        assert mine == sorted(mine)
    for place, row in enumerate(found):
        assert row - place <= size  # nothing comes early by more than the buffer
        assert place - row <= (PATIENCE + 1) * size  # nor late by more than the patience


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_mixture_stays_within_a_row_per_component_while_no_component_runs_dry(lab, seed):
    """Credits sum to zero, so none is above (components - 1) rows while the most indebted component always leaves."""
    rng = np.random.default_rng(seed)
    component, weight = rng.choice(3, 600, p=[0.5, 0.3, 0.2]), rng.integers(1, 30, 600)
    found = order(lab, EnsureMixture(300, "weight"), component, weight)[:250]
    emitted = np.zeros((len(found) + 1, 3))
    for place, row in enumerate(found):
        emitted[place + 1] = emitted[place]
        emitted[place + 1, component[row]] += weight[row]
    target = emitted.sum(axis=1, keepdims=True) * np.array([0.5, 0.3, 0.2])
    assert np.abs(emitted - target).max() <= 2 * 30 + 0.01


def test_bursts_of_tokens_are_evened_out(lab):
    """Rows in proportion, tokens in bursts: every other thousand rows of web are ten times as long."""
    rng = np.random.default_rng(5)
    component = np.tile([0, 1], 4000)
    weight = np.where((component == 0) & (np.arange(8000) // 500 % 2 == 0), 300, 100) + rng.integers(0, 20, 8000)
    phases = (PhaseWeights(weights={"web": 2, "code": 1}),)

    def spread(rows):
        shares = [
            weight[part][component[part] == 0].sum() / weight[part].sum() for part in np.array_split(np.array(rows), 40)
        ]
        return np.std(shares[2:-4])  # the buffer fills up at the start and runs dry at the end

    mixed = order(lab, EnsureMixture(1000, "weight"), component, weight, phases=phases)
    assert spread(mixed) < spread(range(8000)) / 5


def test_a_component_that_brings_too_little_for_good_leaves_at_once_and_is_not_repaid_without_end(lab):
    component = np.array([0, 0, 0, 1] * 500 + [0, 1] * 500)
    phases = (PhaseWeights(weights={"web": 1, "code": 1}),)
    found = np.array(order(lab, EnsureMixture(40, "rows"), component, [1] * 3000, phases=phases))
    # While it is short it leaves as it comes ...
    places = np.empty(3000, dtype=int)
    places[found] = np.arange(3000)
    short = np.flatnonzero(component[200:2000] == 1) + 200
    assert (places[short] <= short - 40 + 3).all()
    # ... and once it is not, the mixture is on target again, give or take what the buffer can repay.
    assert abs((component[found[2100:]] == 1).sum() - 450) <= 40


def test_an_old_deficit_does_not_keep_later_bursts_from_being_evened_out(lab):
    """Code was short by hundreds of rows; what the buffer cannot repay is forgotten after one rich stretch."""
    component = np.array([0, 0, 0, 1] * 500 + [1] * 100 + ([0] * 10 + [1] * 10) * 30)
    phases = (PhaseWeights(weights={"web": 1, "code": 1}),)
    found = np.array(order(lab, EnsureMixture(40, "rows"), component, [1] * len(component), phases=phases))
    windows = component[found[2200:-60]].reshape(-1, 10).sum(axis=1)
    assert np.abs(windows - 5).max() <= 1


def test_rows_of_a_component_that_has_left_the_mixture_do_not_stay_for_ever(lab):
    component = [2] * 30 + [0, 1, 1, 1] * 200
    phase = [0] * 30 + [1] * 800
    found = order(lab, EnsureMixture(40, "rows"), component, [1] * 830, phase)
    assert max(place for place, row in enumerate(found) if row < 30) <= 30 + (PATIENCE + 1) * 40


def test_each_output_follows_the_phase_its_place_had_at_the_input(lab):
    """Phase 1 begins at row 100 of the input, so it begins at row 100 of the output."""
    component = [0, 1] * 300
    phases = (PhaseWeights(weights={"web": 9, "code": 1}), PhaseWeights(weights={"web": 1, "code": 9}))
    phase = [0] * 100 + [1] * 500
    found = order(lab, EnsureMixture(300, "rows"), component, [1] * 600, phase, phases=phases)
    web = np.array([component[row] == 0 for row in found])
    assert web[:100].sum() == pytest.approx(90, abs=2)
    assert web[100:200].sum() == pytest.approx(10, abs=2)


def test_tokens_weigh_where_there_is_a_token_column_and_rows_where_there_is_none(lab):
    tokens = pa.field("input_ids", pa.list_(pa.int32()), metadata={META_ROLE: b"tokens"})
    lists = pa.array([[1] * (1 + i % 7) for i in range(200)], tokens.type)
    n = pa.array(range(200))
    with_tokens = pa.record_batch([n, lists], schema=pa.schema([("n", pa.int64()), tokens]))
    without = pa.record_batch([n, lists], names=["n", "input_ids"])
    component = [i % 3 for i in range(200)]

    def run(operator, batch):
        block = lab.block(batch, component=component)
        return [r for b in lab.fold(operator, [block]) for r in b.data.column("n").to_pylist()]

    assert run(EnsureMixture(20), with_tokens) == run(EnsureMixture(20, "tokens"), with_tokens)
    assert run(EnsureMixture(20), with_tokens) == run(EnsureMixture(20, "input_ids"), without)
    assert run(EnsureMixture(20), with_tokens) != run(EnsureMixture(20, "rows"), with_tokens)
    assert run(EnsureMixture(20), without) == run(EnsureMixture(20, "rows"), with_tokens)


def test_nulls_weigh_nothing(lab):
    component = [0, 1, 2] * 10
    nothing = order(lab, EnsureMixture(4, "weight"), component, [0, 5, 3] * 10)
    assert order(lab, EnsureMixture(4, "weight"), component, [None, 5, 3] * 10) == nothing


def test_reads_only_the_field_it_is_told_to_weigh_by():
    assert list(EnsureMixture().reads) == []
    assert list(EnsureMixture(weight_by="rows").reads) == []
    assert list(EnsureMixture(weight_by="length").reads) == ["length"]


@pytest.mark.parametrize(
    ("weight_by", "schema"),
    [
        ("length", pa.schema([("n", pa.int64())])),
        ("text", pa.schema([("text", pa.string())])),
        ("tokens", pa.schema([("input_ids", pa.list_(pa.int32()))])),
    ],
)
def test_a_weight_that_does_not_exist_is_found_when_planned(weight_by, schema):
    with pytest.raises(PlanError) as info:
        EnsureMixture(weight_by=weight_by).output_schema(schema)
    assert info.value.code == "mixture-weight"


def test_packed_rows_are_refused_when_planned():
    with pytest.raises(PlanError) as info:
        EnsureMixture().output_schema(pa.schema([("documents", pa.list_(DOCUMENT_TYPE))]))
    assert info.value.code == "mixture-after-packing"


def test_negative_and_absurd_weights_are_bad_rows_and_leave_the_state_as_it_was(lab):
    block = lab.block({"weight": [1, -1, 2, 1 << 40, None]})
    state = EnsureMixture(2, "weight").open(lab.context(schema=block.schema))
    before = lab.content(state.snapshot())
    with pytest.raises(BadRowsError) as info:
        state.push(block)
    assert info.value.code == "mixture-weight"
    assert [bad.row for bad in info.value.rows] == [1, 3]
    assert lab.content(state.snapshot()) == before


def test_a_row_of_no_component_is_an_error(lab):
    block = lab.block({"n": [1]}, component=[-1])
    with pytest.raises(DataError) as info:
        EnsureMixture().open(lab.context(schema=block.schema)).push(block)
    assert info.value.code == "mixture-unknown-component"


def test_a_missed_target_warns_once_per_lane_and_only_when_asked(lab):
    component, weight = [0, 0, 0, 1] * 100, [1] * 400
    phases = (PhaseWeights(weights={"web": 1, "code": 1}),)
    quiet = order(lab, EnsureMixture(20, "rows"), component, weight, cuts=[50] * 8, phases=phases)
    with pytest.warns(UserWarning, match="ensure_mixture") as caught:
        loud = order(lab, EnsureMixture(20, "rows", 0.05), component, weight, cuts=[50] * 8, phases=phases)
    assert len(caught) == 1
    assert loud == quiet
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        order(lab, EnsureMixture(20, "rows", 0.3), component, weight, phases=phases)


def test_components_a_schedule_brings_in_on_resume_start_even(lab):
    block = lab.block(60, component=[0, 1] * 30)
    phases = (PhaseWeights(weights={"web": 5, "code": 3}), PhaseWeights(weights={"books": 1}))
    old = lab.context(schema=block.schema, components=("web", "code"), phases=phases[:1])
    state = EnsureMixture(10, "rows").open(old)
    list(state.push(block.slice(0, 30)))
    snapshot = lab.through_bytes(state.snapshot())
    resumed = EnsureMixture(10, "rows").open(lab.context(schema=block.schema, phases=phases))  # knows books as well
    resumed.restore(snapshot)
    assert lab.rows(resumed.push(block.slice(30, 60))) == lab.rows(state.push(block.slice(30, 60)))


@pytest.mark.parametrize(
    "wrong",
    [{"max_buffer_size": 0}, {"weight_by": 3}, {"weight_by": ""}, {"warn_tolerance": -1}, {"warn_tolerance": "x"}],
)
def test_ensure_mixture_refuses_arguments_that_mean_nothing(wrong):
    with pytest.raises(ConfigError) as info:
        EnsureMixture(**wrong)
    assert info.value.code == "operator-argument"
