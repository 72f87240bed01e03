"""Whether a curriculum may go on where another one stopped, and what it then reads."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from zephon.block import Origins
from zephon.errors import CheckpointError, ConfigError
from zephon.work import StaticMixtureWorkSource

# The slow definitions take as long as they take.
law = settings(deadline=None, max_examples=40)

NAMES = ("code", "math", "web")
ROWS = {"code": (30, 15), "math": (20,), "web": (50, 0, 25)}

mixture_ = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5), min_size=1)
schedule_ = st.lists(st.tuples(st.integers(1, 120), mixture_), min_size=1, max_size=3).map(
    lambda parts: [(sum(n for n, _ in parts[:i]), weights) for i, (_, weights) in enumerate(parts)]
)
policies_ = st.sampled_from(
    [
        {},
        {"stop_after_passes": 2},
        {"exhausted_policy": "stop"},
        {"exhausted_policy": "redistribute"},
        {"exhausted_policy": "repeat"},
        {"exhausted_policy": "redistribute", "max_repeats": 1},
        {"max_repeats": 2},
    ]
)


def make(dataset, schedule, rows=ROWS, **options):
    used = {name for _, weights in schedule for name in weights}
    return StaticMixtureWorkSource([dataset(name, *rows[name]) for name in sorted(used)], schedule, **options)


def saved(source):
    return json.loads(json.dumps(source.to_plain()))


def named(source, origins):
    names = source.components
    columns = (origins.dataset, origins.shard, origins.row, origins.epoch, origins.phase)
    return [(names[d], *rest, d) for d, *rest in zip(*(c.tolist() for c in columns), strict=True)]


def ran(source, lanes, rounds):
    """Positions of lanes that have read about equally much, and what each has read."""
    positions = []
    for lane in range(lanes):
        length = source.lane_length(lane, lanes)
        positions.append(rounds if length is None else min(rounds, length))
    return positions, [named(source, source.read(lane, lanes, 0, n)) for lane, n in enumerate(positions)]


def rest_of(source, lanes, positions, limit=400):
    pieces = []
    for lane, position in enumerate(positions):
        length = source.lane_length(lane, lanes)
        stop = position + limit if length is None else min(length, position + limit)
        pieces.append(named(source, source.read(lane, lanes, position, stop)))
    return pieces


def edited(schedule):
    """Schedules that keep the first entries of another one."""
    return st.tuples(st.integers(0, len(schedule)), schedule_, st.integers(1, 60)).map(
        lambda parts: (
            schedule[: parts[0]]
            + [(at + (schedule[parts[0] - 1][0] + parts[2] if parts[0] else 0), weights) for at, weights in parts[1]]
        )
    )


@settings(law, max_examples=120)
@given(schedule_, policies_, policies_, st.integers(1, 5), st.integers(0, 80), st.integers(1, 20), st.data())
def test_what_was_dealt_stays_and_nothing_is_lost_or_repeated(
    dataset, schedule, policies, new_policies, lanes, rounds, chunk_size, data
):
    """The law of resuming: whatever is accepted reads the dealt rows as before and leaves no hole in any pass."""
    new_schedule = data.draw(edited(schedule))
    old = make(dataset, schedule, chunk_size=chunk_size, **policies)
    positions, read = ran(old, lanes, rounds)
    new = make(dataset, new_schedule, chunk_size=chunk_size, **new_policies)
    differences = new.continues(saved(old), lanes, positions)
    event("refused" if differences else "accepted" if rounds else "nothing dealt")
    if differences:
        assert all(differences)
        with pytest.raises(CheckpointError) as caught:
            new.resumed(saved(old), lanes, positions)
        assert caught.value.code == "curriculum-differs"
        return
    resumed = new.resumed(saved(old), lanes, positions)
    assert [named(resumed, resumed.read(lane, lanes, 0, n)) for lane, n in enumerate(positions)] == read
    # The fresh source agrees on the end, up to the rounding of draws at a cut.
    assert (resumed.total_samples is None) == (new.total_samples is None)
    if resumed.total_samples is not None:
        rows = Counter(r[:4] for lane in read for r in lane)
        rows.update(r[:4] for lane in rest_of(resumed, lanes, positions, 10**6) for r in lane)
        assert max(rows.values()) == 1
        drawn = resumed.drawn_at(len(resumed))
        for name in resumed.components:
            assert sum(1 for r in rows if r[0] == name) == drawn[name]
            for epoch in range(drawn[name] // sum(ROWS[name])):
                assert sum(1 for r in rows if (r[0], r[3]) == (name, epoch)) == sum(ROWS[name])
    # A second restore, from a state of the resumed run, by the same script.
    again = make(dataset, new_schedule, chunk_size=chunk_size, **new_policies)
    later, _ = ran(resumed, lanes, rounds + 7)
    assert again.continues(saved(resumed), lanes, later) == []
    assert again.resumed(saved(resumed), lanes, later).to_plain() == resumed.to_plain()
    rebuilt = StaticMixtureWorkSource.from_plain(saved(resumed), resumed.datasets)
    assert rest_of(rebuilt, lanes, positions) == rest_of(resumed, lanes, positions)


@law
@given(schedule_, policies_, st.integers(1, 5), st.integers(0, 80))
def test_an_unchanged_curriculum_goes_on_as_it_was(dataset, schedule, policies, lanes, rounds):
    source = make(dataset, schedule, **policies)
    positions, _ = ran(source, lanes, rounds)
    again = make(dataset, schedule, **policies)
    assert again.continues(saved(source), lanes, positions) == []
    assert again.resumed(saved(source), lanes, positions).to_plain() == source.to_plain()


@law
@given(st.integers(1, 200), st.integers(0, 60))
def test_an_edit_is_accepted_from_the_first_chunk_round_nobody_has_begun(dataset, at, rounds):
    lanes, chunk = 4, 4
    rows = {"code": (1000,), "web": (1000,)}
    before = {"code": 1, "web": 1}
    old = make(dataset, [(0, before)], rows, exhausted_policy="repeat", chunk_size=chunk)
    new = make(dataset, [(0, before), (at, {"code": 3, "web": 1})], rows, exhausted_policy="repeat", chunk_size=chunk)
    dealt = -(-rounds // chunk) * lanes * chunk
    accepted = not new.continues(saved(old), lanes, [rounds] * lanes)
    assert accepted == (at >= dealt)
    if accepted and rounds:
        resumed = new.resumed(saved(old), lanes, [rounds] * lanes)
        assert [phase.start for phase in resumed.course.phases] == [0, at]


def test_one_lane_ahead_of_the_others_decides(dataset):
    old = make(dataset, [(0, {"code": 1, "web": 1})], exhausted_policy="repeat", chunk_size=2)
    new = make(dataset, [(0, {"code": 1, "web": 1}), (10, {"web": 1})], exhausted_policy="repeat", chunk_size=2)
    (sentence,) = new.continues(saved(old), 4, [2, 2, 3, 2])
    assert "position 16" in sentence
    assert "lane 2 has" in sentence
    assert "row 4" in sentence
    assert "all 4 lanes have" in new.continues(saved(old), 4, [3] * 4)[0]
    assert new.continues(saved(old), 4, [2, 2, 2, 2]) == []


def test_a_source_joins_on_resume_and_no_row_is_lost_or_repeated(dataset):
    """Case M1, by extending the schedule of a running curriculum twice."""
    rows = {"code": (200, 100), "math": (150,), "web": (300, 0, 100)}
    lanes = 4
    schedule = [(0, {"code": 1, "web": 1})]
    first = make(dataset, schedule, rows, exhausted_policy="repeat", chunk_size=8)
    positions, read = ran(first, lanes, 50)
    schedule.append((224, {"code": 1, "web": 2}))
    second = make(dataset, schedule, rows, exhausted_policy="repeat", chunk_size=8).resumed(
        saved(first), lanes, positions
    )
    positions = [90] * lanes
    read = [named(second, second.read(lane, lanes, 0, 90)) for lane in range(lanes)]
    schedule.append((400, {"code": 1, "math": 1, "web": 2}))
    third = make(dataset, schedule, rows, stop_after_passes=2, chunk_size=8).resumed(saved(second), lanes, positions)
    assert list(third.components) == ["code", "web", "math"]
    seen = [named(third, third.read(lane, lanes, 0, third.lane_length(lane, lanes))) for lane in range(lanes)]
    assert [lane[:90] for lane in seen] == read
    counts = Counter(row[:4] for lane in seen for row in lane)
    assert max(counts.values()) == 1
    for name, shards in rows.items():
        for epoch in range(2):
            assert sum(1 for r in counts if (r[0], r[3]) == (name, epoch)) == sum(shards)


def test_a_finished_run_is_prolonged_by_another_pass(dataset):
    """The last chunk-round of the first run was cut evenly; that cut stays."""
    lanes = 7
    old = make(dataset, [(0, {"web": 1})])
    positions, read = ran(old, lanes, 10**6)
    assert sum(positions) == 75
    new = make(dataset, [(0, {"web": 1})], stop_after_passes=3)
    resumed = new.resumed(saved(old), lanes, positions)
    assert len(resumed) == 225
    assert [phase.start for phase in resumed.course.phases] == [0, 75]
    assert [named(resumed, resumed.read(lane, lanes, 0, n)) for lane, n in enumerate(positions)] == read
    lengths = [resumed.lane_length(lane, lanes) for lane in range(lanes)]
    assert max(lengths) - min(lengths) <= 1
    everything = Origins.concat([resumed.read(lane, lanes, 0, n) for lane, n in enumerate(lengths)])
    assert len({r[:4] for r in named(resumed, everything)}) == 225


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 1}, "seed: 0 -> 1"),
        ({"chunk_size": 99}, "chunk_size: 16384 -> 99"),
        ({"shuffle_shards": False}, "shuffle_shards: True -> False"),
        ({"shuffle_within_shard": True}, "shuffle_within_shard: False -> True"),
        ({"shuffle_block_size": "auto"}, "shuffle_block_size: None -> 'auto'"),
        ({"reshuffle_on_repeat": False}, "reshuffle_on_repeat: True -> False"),
        ({"schedule": [(0, {"code": 2, "web": 1})]}, "{'code': 1, 'web': 1} -> {'code': 2, 'web': 1}"),
        ({"schedule": [(0, {"web": 1})]}, "{'code': 1, 'web': 1} -> {'web': 1}"),
        ({"rows": {**ROWS, "web": (50, 26)}}, "dataset 'web': 75 rows in 3 shards -> 76 rows in 2 shards"),
        ({"rows": {**ROWS, "web": (50, 1, 24)}}, "75 rows in 3 shards of other sizes"),
        ({"token_estimation": {"code": 10, "web": 20}}, "{'code': 1, 'web': 1} -> {'code': 2, 'web': 1}"),
        ({"exhausted_policy": "redistribute"}, "'code' would be done"),
        ({"schedule": [(0, {"code": 1, "web": 1}), (50, {"web": 1})]}, "another mixture would begin"),
        ({"exhausted_policy": "stop"}, "'code' would be done"),
        ({"exhausted_policy": None}, "'web' would be done"),
    ],
)
def test_each_difference_is_named_with_old_and_new(dataset, changes, said):
    schedule = [(0, {"code": 1, "web": 1})]
    old = make(dataset, schedule, exhausted_policy="repeat")
    changes = {"schedule": schedule, "exhausted_policy": "repeat", **changes}
    new = make(dataset, changes.pop("schedule"), changes.pop("rows", ROWS), **changes)
    (sentence,) = new.continues(saved(old), 2, [90, 90])
    assert said in sentence
    assert new.continues(saved(old), 2, [0, 0]) == []
    assert new.resumed(saved(old), 2, [0, 0]).to_plain() == new.to_plain()


def test_all_changed_settings_are_named_at_once(dataset):
    old = make(dataset, [(0, {"web": 1})])
    new = make(dataset, [(0, {"web": 1})], seed=3, shuffle_within_shard=True)
    assert len(new.continues(saved(old), 1, [1])) == 2


def test_a_chunk_settled_by_an_earlier_run_stays_when_its_pass_grows(dataset):
    """A later, larger phase or a longer end must not change how dealt rows were cut."""
    rows = {"web": (4000,), "big": (10**7,)}
    old = make(dataset, [(0, {"web": 1})], rows, exhausted_policy="stop")
    new = make(dataset, [(0, {"web": 1}), (2000, {"big": 1})], rows, exhausted_policy="stop")
    positions = [100] * 4
    assert old.course.phases[0].chunk(4) == 125
    resumed = new.resumed(saved(old), 4, positions)
    assert [phase.chunk(4) for phase in resumed.course.phases] == [125, 16384]
    for lane in range(4):
        assert named(resumed, resumed.read(lane, 4, 0, 100)) == named(old, old.read(lane, 4, 0, 100))


@pytest.mark.parametrize("positions", [[1], [1, 2, 3], [-1, 0], [0, 10**9]])
def test_positions_that_cannot_be_are_refused(dataset, positions):
    source = make(dataset, [(0, {"web": 1})])
    with pytest.raises(ConfigError) as caught:
        source.continues(saved(source), 2, positions)
    assert caught.value.code == "position-out-of-range"


@pytest.mark.parametrize("old", [{}, {"phases": []}, {"phases": [{"start": 0}], "end": 3, "reason": ""}, {"kind": "x"}])
def test_a_state_of_another_kind_is_refused(dataset, old):
    with pytest.raises(CheckpointError) as caught:
        make(dataset, [(0, {"web": 1})]).continues(old, 1, [0])
    assert caught.value.code == "bad-curriculum-state"


def test_numpy_positions_are_taken(dataset):
    source = make(dataset, [(0, {"web": 1})])
    assert source.continues(saved(source), 2, np.array([5, 5])) == []
