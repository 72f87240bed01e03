"""Whole random pipelines: whatever changes around them, every round is that of the plain single-process run."""

import warnings
from collections import Counter

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from zephon.cli.rounds import Fleet
from zephon.errors import ZephonError
from zephon_cases import cases, digests, plain_rounds

ROUNDS = 8
SLOW = settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))


@st.composite
def stretches(draw):
    """How one part of a chain is run: rounds, groups, parallelism, block size."""
    degree = draw(st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 33, 64]))
    return (
        draw(st.integers(0, 4)),
        degree,
        # every group has threads of its own: many groups run on the calling thread
        draw(st.sampled_from([0, 1, 2, 8])) if degree <= 4 else 0,
        draw(st.sampled_from([None, 1, 2, 7, 64, 4096])),
    )


def run_chain(case, chain, limit, **options):
    """The digests of a run whose surroundings change at every link of the chain."""
    found, states = [], None
    for number, (rounds, degree, parallelism, block_rows) in enumerate(chain):
        execution = {**options, "parallelism": parallelism, "uneven": "pad"}
        if block_rows is not None:
            execution["block_rows"] = block_rows
        fleet = Fleet(case.make, degree, **execution)
        try:
            if states is not None:
                fleet.restore(states)
            last = number == len(chain) - 1
            found += fleet.rounds(limit - len(found) if last else min(rounds, limit - len(found)))
            states = fleet.states()
        finally:
            fleet.close()
    return digests(found)


@SLOW
@given(cases(), st.lists(stretches(), min_size=1, max_size=6), st.data())
def test_every_round_is_that_of_the_plain_run_through_any_chain_of_changes(drawn, chain, data):
    case, finite = drawn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {}
        if finite:
            options = {"tail": data.draw(st.sampled_from(["drop", "pad"])), "agree": True}
        try:
            expected = digests(plain_rounds(case, ROUNDS, **{**options, "agree": False}))
        except ZephonError as error:  # nothing to compare: refused when planned, or nothing ever comes out
            assume(error.code not in {"delivers-nothing", "nothing-passes", "schema-not-inferable"})
            raise
        assert run_chain(case, chain, ROUNDS, **options) == expected


@SLOW
@given(cases(finite=True, keeps_counts=True), st.lists(stretches(), min_size=1, max_size=3))
def test_a_finite_curriculum_delivers_exactly_the_multiset_its_policy_says(drawn, chain):
    case, _ = drawn
    work = case.work()
    expected: Counter[tuple[int, ...]] = Counter()
    for lane in range(case.lanes):
        pointers = work.read(lane, case.lanes, 0, work.lane_length(lane, case.lanes))
        expected.update(
            zip(*(pointers.columns()[k].tolist() for k in ("dataset", "shard", "row", "epoch")), strict=True)
        )
    found: Counter[tuple[int, ...]] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = case.make().options(tail="pad", parallelism=0)
        for batch in pipeline:
            for record in batch.records:
                found[record.origin.dataset, record.origin.shard, record.origin.row, record.origin.epoch] += 1
        whole = digests(plain_rounds(case, 10_000, tail="pad"))
        assert run_chain(case, chain, 10_000, tail="pad") == whole
    assert sum(found.values()) == work.total_samples
    assert sorted(found.values()) == sorted(expected.values())
