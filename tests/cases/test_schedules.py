"""M1: weights change and sources join, by a schedule or by extending one on resume; per source nothing is lost or told
twice."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.errors import CheckpointError
from zephon_field_cases import delivered, documents, fleet, numbered, real, refusal, source, take, token, tokens_of

SOURCES = {name: numbered(name, rows, 3) for name, rows in {"a": 900, "b": 700, "c": 500}.items()}
LANES, ROWS = 4, 5
ROUND = LANES * ROWS  # rows of the curriculum in a round

PLAIN = [(0, {"a": 1, "b": 1})]


def make(schedule, *, policy="redistribute", chunk=10, buffer=1):
    names = {name for _, weights in schedule for name in weights}
    chosen = [SOURCES[name] for name in sorted(names)]
    order = {"seed": 4, "shuffle_within_shard": True, "chunk_size": chunk}
    pipeline = Pipeline(source(*chosen, mixture=schedule, exhausted_policy=policy, **order))
    pipeline = pipeline.shuffle(buffer) if buffer > 1 else pipeline
    return pipeline.batch(ROWS).options(canonical_replicas=LANES, parallelism=0, block_rows=10)


def two_to_one(start):
    return [*PLAIN, (start, {"a": 2, "b": 1})]


def c_joins(second, third):
    return [*two_to_one(second), (third, {"a": 2, "b": 1, "c": 1})]


def names(pipeline, rows):
    """Delivered rows with the names of their sources: indices follow the order of first use."""
    order = [name for name in "abc" if name in pipeline.stats()["rows"]]
    return [(order[key.dataset], key) for key in rows]


def shares(pipeline, rows):
    counts = Counter(name for name, _ in names(pipeline, rows))
    return {name: count / sum(counts.values()) for name, count in counts.items()}


def assert_each_once(pipeline, rows, **expected):
    """Every row of every source once, and no other."""
    told = Counter((name, key.shard, key.row) for name, key in names(pipeline, rows))
    assert set(told.values()) == {1}
    assert Counter(name for name, *_ in told) == expected


def test_m1_by_a_schedule_weights_change_and_a_source_joins_without_loss_or_repeat():
    pipeline = make(c_joins(20 * ROUND, 40 * ROUND)).options(tail="pad")
    rounds = [delivered(take(iter_, LANES)) for iter_ in [iter(pipeline)] for _ in range(105)]
    rows = [key for round_ in rounds for key in round_]
    assert len(rows) == 2100
    assert_each_once(pipeline, rows, a=900, b=700, c=500)

    def near(share, target, count):
        # a lane may stand a chunk off; the mixture of a stretch is otherwise exact to a few rows
        return abs(share - target) * count <= LANES * 10 / 2

    for start, stop, target in ((0, 20, {"a": 1 / 2}), (20, 40, {"a": 2 / 3}), (40, 60, {"a": 1 / 2, "c": 1 / 4})):
        stretch = [key for round_ in rounds[start:stop] for key in round_]
        found = shares(pipeline, stretch)
        for name, share in target.items():
            assert near(found[name], share, len(stretch)), (start, found)
    assert "c" not in shares(pipeline, [key for round_ in rounds[:38] for key in round_])


def test_m1_extended_on_resume_twice_on_changing_groups_nothing_is_lost_or_repeated():
    schedules = [PLAIN, two_to_one(30 * ROUND), c_joins(30 * ROUND, 55 * ROUND)]
    batches, states = [], None
    for number, (schedule, groups, rounds) in enumerate(zip(schedules, (2, 4, 1), (12, 25, 1000), strict=True)):
        with fleet(lambda schedule=schedule: make(schedule), groups, tail="pad") as running:
            if states is not None:
                running.restore(states)
            iterators = [iter(pipeline) for pipeline in running.pipelines]
            for _ in range(rounds):
                found = [next(it, None) for it in iterators for _ in range(LANES // groups)]
                if found[0] is None:
                    break
                batches.append(found)
            states = running.states()
            assert len({state["header"] for state in states}) == 1, "ranks agree on what was settled"
            last = running.pipelines[0]
            if number == 1:
                # with nothing more to change, it goes on from a rank's own part as well
                alone = make(schedule).options(dp_degree=4, dp_group_id=2, tail="pad").restore(states[2])
                assert delivered(take(iter(alone), 3)) == delivered(take(iterators[2], 3))
    rows = [key for round_ in batches for key in delivered(round_)]
    assert_each_once(last, rows, a=900, b=700, c=500)
    changed = shares(last, [key for round_ in batches[32:54] for key in delivered(round_)])
    assert abs(changed["a"] - 2 / 3) < 0.05
    joined = shares(last, [key for round_ in batches[57:70] for key in delivered(round_)])
    assert abs(joined["c"] - 1 / 4) < 0.06


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_m1_what_was_delivered_before_an_edit_and_up_to_it_stays_as_it_was(data):
    settled = {
        "chunk": data.draw(st.sampled_from([1, 5, 7, 10])),
        "policy": data.draw(st.sampled_from([None, "repeat", "stop"])),
        "buffer": data.draw(st.sampled_from([1, 7])),
    }
    saved = data.draw(st.integers(1, 6))
    # rows reach the edit after they have passed the buffer, and a block may have been read ahead
    begin = (saved + 3) * ROUND + LANES * (settled["chunk"] + settled["buffer"] + 10) + data.draw(st.integers(0, 40))
    edited = data.draw(st.sampled_from([two_to_one(begin), c_joins(begin, begin + 33)]))
    with fleet(lambda: make(PLAIN, **settled)) as unedited:
        rounds = real(unedited.rounds(saved))
        states = unedited.states()
        rounds += real(unedited.rounds(3))
    with fleet(lambda: make(edited, **settled)) as straight:
        straight.restore(states)
        assert real(straight.rounds(3)) == rounds[saved:]
        more = straight.states()
        rest = real(straight.rounds(6))
    with fleet(lambda: make(edited, **settled), 2) as chained:
        chained.restore(more)
        assert real(chained.rounds(6)) == rest, "a second restore keeps what the first one settled"


def test_m1_edits_too_early_are_refused_naming_lanes_and_the_earliest_step_which_works():
    writer = make(PLAIN)
    take(iter(writer), 3 * LANES + 2)  # two lanes are a round ahead; a chunk is two rounds long
    state = writer.checkpoint()

    def refused(start):
        return refusal(lambda: make(two_to_one(start)).restore(state))

    refusals = {start: error for start in range(8, 12 * ROUND, 8) if (error := refused(start))}
    earliest = max(refusals) + 8
    assert refused(earliest) is None
    for start, error in refusals.items():
        assert error.code == "checkpoint-differs"
        # in rows of the curriculum and in rows of each lane
        assert f"position {earliest} (row {earliest // LANES} of each lane)" in error.found, start
        assert "lane" in error.found


def test_m1_an_edit_of_what_only_some_lanes_have_reached_names_these_lanes():
    with fleet(lambda: make(PLAIN), 2) as before:
        before.rounds(4)  # two chunks of every lane, and the next ones not begun
        first = before.states()
    boundary = 4 * ROUND
    make(two_to_one(boundary)).restore(first)
    pipeline = make(PLAIN).restore(first)
    take(iter(pipeline), 2)
    with pytest.raises(CheckpointError) as caught:
        make(two_to_one(boundary)).restore(pipeline.checkpoint())
    assert "lanes 0, 1 have begun" in caught.value.found


def test_m1_an_edit_needs_the_states_of_all_lanes_since_ranks_must_settle_the_same():
    with fleet(lambda: make(PLAIN), 2) as before:
        before.rounds(3)
        states = before.states()
    edited = make(two_to_one(30 * ROUND)).options(dp_degree=2, dp_group_id=0)
    with pytest.raises(CheckpointError) as caught:
        edited.restore(states[0])
    assert caught.value.code == "checkpoint-incomplete" and "2-3" in caught.value.what
    edited.restore(states)
    make(PLAIN).options(dp_degree=2, dp_group_id=0).restore(states[0])


@pytest.mark.parametrize(
    ("held", "holds"),
    [
        pytest.param(lambda p: p.batch(1), False, id="nothing"),
        pytest.param(lambda p: p.batch(4), True, id="a short batch"),
        pytest.param(lambda p: p.shuffle(6).batch(2), True, id="a shuffle buffer"),
        pytest.param(lambda p: p.pack_flat(16, num_bins=3).batch(1), True, id="open packs"),
    ],
)
def test_more_passes_may_be_added_on_resume_but_not_once_what_was_held_until_the_end_is_delivered(held, holds):
    lengths = [3 + i % 5 for i in range(22)]
    data = documents("a", lengths)

    def passes(number):
        pipeline = held(Pipeline(source(data, stop_after_passes=number, seed=1)))
        return pipeline.options(canonical_replicas=2, tail="pad", parallelism=0, block_rows=3)

    once = Counter(token(1, row, place) for row, length in enumerate(lengths) for place in range(length))
    outcomes = []
    for saved in range(sum(1 for _ in passes(1)) + 1):
        first = passes(1)
        before = take(iter(first), saved)
        state = first.checkpoint()
        first.close()
        extended = passes(2)
        error = refusal(lambda extended=extended, state=state: extended.restore(state))
        if error is None:
            assert Counter(tokens_of([*before, *extended])) == once + once
        else:
            assert error.code == "checkpoint-differs"
        outcomes.append("extended" if error is None else "refused")
    assert outcomes == sorted(outcomes), "early enough it can be extended, later no more"
    assert set(outcomes) == ({"extended", "refused"} if holds else {"extended"})
