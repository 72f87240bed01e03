"""What design 8 says of states: where they restore, what they must agree on, and that a refused one loads nothing."""

import itertools
import json
import time

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.checkpoint import decode_header, decode_lane, encode_header, encode_lane
from zephon.errors import CheckpointError, DataError
from zephon_field_cases import delivered, documents, fleet, keys, numbered, plain_run, real, sharded, source, take

WEB = numbered("web", 400, 5)


def make(lanes=6, rows=4, **work):
    settings_of = {"seed": 2, "shuffle_within_shard": True, "exhausted_policy": "repeat", **work}
    return Pipeline(source(WEB, **settings_of)).shuffle(5).batch(rows).options(canonical_replicas=lanes, block_rows=8)


def lanes_of(states):
    """The lanes of all states together."""
    return {key: data for state in states for key, data in state["lanes"].items()}


def next_batches(group, count):
    """The next batches of one group of a fleet, as (lane, rows)."""
    return [(batch.lane, keys(batch)) for batch in take(group, count)]


# -- inside a round ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [6, 5])
@pytest.mark.parametrize("slot", [1, 2])
def test_a_state_from_inside_a_round_restores_on_the_topology_that_wrote_it(lanes, slot):
    """With 5 lanes, the last slot of the first group is a filler, which counts like any other."""
    with fleet(lambda: make(lanes), 2, uneven="pad") as before, fleet(lambda: make(lanes), 2, uneven="pad") as after:
        groups = [iter(pipeline) for pipeline in before.pipelines]
        for group in groups:
            take(group, 3 * 2 + slot)
        states = before.states()
        after.restore(states)
        assert lanes_of(after.states()) == lanes_of(states)
        for old, new in zip(groups, map(iter, after.pipelines), strict=True):
            assert next_batches(new, 9) == next_batches(old, 9)


@pytest.mark.parametrize("groups", [1, 3, 6, 12])
def test_a_state_from_inside_a_round_is_refused_on_any_other_topology(groups):
    with fleet(make, 2) as before, fleet(make, groups) as after:
        for pipeline in before.pipelines:
            take(iter(pipeline), 4)
        states = before.states()
        for pipeline in after.pipelines:
            with pytest.raises(CheckpointError) as caught:
                pipeline.restore(states)
            assert caught.value.code == "checkpoint-inside-round"
        assert after.round() == plain_run(make, 1)[0], "nothing was loaded"


# -- different moments ------------------------------------------------------------------------------------------------


def test_states_of_different_rounds_are_refused_listing_the_lanes_by_round():
    with fleet(make, 3) as before, fleet(make, 2) as after:
        for pipeline, rounds in zip(before.pipelines, (2, 3, 2), strict=True):
            take(iter(pipeline), 2 * rounds)
        with pytest.raises(CheckpointError) as caught:
            after.pipelines[0].restore(before.states())
        assert caught.value.code == "checkpoint-rounds"
        assert "round 2: lanes 0-1, 4-5" in caught.value.found
        assert "round 3: lanes 2-3" in caught.value.found


def test_states_of_different_slots_of_one_round_are_refused():
    with fleet(make, 2) as before, fleet(make, 2) as after:
        for pipeline, batches in zip(before.pipelines, (3, 4), strict=True):
            take(iter(pipeline), batches)
        with pytest.raises(CheckpointError) as caught:
            after.pipelines[1].restore(before.states())
        assert caught.value.code == "checkpoint-rounds"


def test_a_surplus_group_that_saved_at_another_round_is_noticed_too():
    with fleet(make, 7, uneven="pad") as before, fleet(make, 1) as after:
        for group, pipeline in enumerate(before.pipelines):
            take(iter(pipeline), 3 if group == 6 else 2)
        states = before.states()
        assert states[6]["lanes"] == {}
        with pytest.raises(CheckpointError) as caught:
            after.restore(states)
        assert caught.value.code == "checkpoint-rounds"


def test_lanes_of_another_round_than_their_header_says_are_refused():
    with fleet(make, 2) as early, fleet(make, 2) as late, fleet(make, 1) as after:
        early.rounds(1)
        late.rounds(2)
        mixed = {**late.states()[0], "lanes": lanes_of([early.states()[0], late.states()[1]])}
        with pytest.raises(CheckpointError) as caught:
            after.restore([mixed])
        assert caught.value.code == "checkpoint-rounds"


# -- straight after a restore -----------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(
    rounds=st.integers(0, 4),
    old=st.sampled_from([1, 2, 4, 6]),
    new=st.sampled_from([1, 2, 3, 4, 5, 6, 7, 12]),
)
def test_a_checkpoint_straight_after_a_restore_is_the_restored_one(rounds, old, new):
    with fleet(make, old, uneven="pad") as before, fleet(make, new, uneven="pad") as after:
        before.rounds(rounds)
        states = before.states()
        after.restore(states)
        assert lanes_of(after.states()) == lanes_of(states)
        for pipeline in after.pipelines:
            iter(pipeline)
        assert lanes_of(after.states()) == lanes_of(states), "an iterator that was never asked changes nothing"


def nearly_none(row):
    return row["n"] % 40 == 7


def thinned():
    """So few rows come through that whole blocks hold none; all lanes are looked at before a round begins."""
    work = source(WEB, seed=2, shuffle_within_shard=True, stop_after_passes=20)
    return Pipeline(work).filter(nearly_none).batch(1).options(canonical_replicas=6, block_rows=4)


@pytest.mark.parametrize("shape", [make, thinned])
@pytest.mark.parametrize("workers", [0, 2])
def test_after_a_restore_a_lanes_bytes_change_with_its_first_batch_and_not_before(shape, workers):
    with fleet(shape, 2, agree=True) as before, fleet(shape, 1, agree=True, parallelism=workers) as after:
        before.rounds(3)
        states = before.states()
        after.restore(states)
        old = lanes_of(states)
        batches = iter(after.pipelines[0])
        for served in range(1, 7):
            next(batches)
            new = after.states()[0]["lanes"]
            assert [new[key] == old[key] for key in sorted(old)] == [False] * served + [True] * (6 - served)


def test_restoring_again_before_iterating_forgets_the_state_restored_first():
    with fleet(make, 2) as before, fleet(make, 1) as after:
        states = []
        for _ in range(3):
            states.append(before.states())
            before.rounds(2)
        for state in (states[2], states[0], states[1]):
            after.restore(state)
        assert lanes_of(after.states()) == lanes_of(states[1])
        assert real(after.rounds(2)) == plain_run(make, 4)[2:]


def test_lanes_that_were_not_set_come_from_the_checkpoint():
    def unset(groups, group):
        pipeline = Pipeline(source(WEB, exhausted_policy="repeat")).batch(2)
        return pipeline.options(dp_degree=groups, dp_group_id=group, parallelism=0)

    with pytest.warns(UserWarning, match="canonical_replicas"):
        before = [unset(4, group).validate() for group in range(4)]
    running = [iter(pipeline) for pipeline in before]
    for batches in running:
        take(batches, 3)
    after = [unset(2, group).restore([pipeline.checkpoint() for pipeline in before]) for group in range(2)]
    assert [pipeline.lanes for pipeline in after] == [4, 4]
    for group, pipeline in enumerate(after):
        expected = [keys(next(batches)) for batches in running[2 * group : 2 * group + 2]]
        assert [keys(batch) for batch in take(iter(pipeline), 2)] == expected


# -- fillers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [4, 7, 13])
def test_states_written_with_fillers_restore_anywhere(groups):
    """Groups that divide nothing, and more groups than lanes: the surplus has no lane and still its round."""
    expected = plain_run(make, 6)
    with fleet(make, groups, uneven="pad") as before:
        assert real(before.rounds(3)) == expected[:3]
        states = before.states()
    for other in (1, 5, 8):
        with fleet(make, other, uneven="pad") as after:
            after.restore(states)
            assert real(after.rounds(3)) == expected[3:]


@pytest.mark.parametrize("saved", [0, 4, 5, 6, 8])
def test_states_of_lanes_that_have_ended_restore_anywhere(saved):
    """33 rows over 6 lanes in batches of 1: three lanes end a round before the others, which go on beside filler."""

    def finite():
        return Pipeline(source(numbered("a", 33, 3), seed=1)).shuffle(3).batch(1).options(canonical_replicas=6)

    expected = plain_run(finite, 100, tail="pad")
    assert [len(lanes) for lanes in expected] == [6, 6, 6, 6, 6, 3]
    with fleet(finite, 4, uneven="pad", tail="pad") as before:
        before.rounds(saved)
        states = before.states()
    for groups in (1, 9):
        with fleet(finite, groups, uneven="pad", tail="pad") as after:
            after.restore(states)
            assert real(after.rounds(100)) == expected[saved:]


# -- what ranks have in common ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [3, 4, 9, 24])
def test_the_header_is_byte_equal_on_all_ranks_whatever_their_share_and_settings(groups):
    with fleet(make, groups, uneven="pad") as ranks:
        for number, pipeline in enumerate(ranks.pipelines):
            pipeline.options(prefetch_batches=1 + number % 3, memory_limit=(64 + number) << 20)
        for _ in range(3):
            assert len({state["header"] for state in ranks.states()}) == 1
            ranks.round()
        assert decode_header(ranks.states()[0]["header"])["round"] == 3


def test_groups_that_share_a_lane_write_equal_copies_which_merge():
    expected = plain_run(make, 5)
    with fleet(make, 12) as before:
        before.rounds(3)
        states = before.states()
    counted = [decode_lane(data) for state in states for data in state["lanes"].values()]
    assert len(counted) == 12 and {lane.lane for lane in counted} == set(range(6))
    for groups in (1, 4, 24):
        with fleet(make, groups, uneven="pad") as after:
            after.restore(states)
            assert real(after.rounds(2)) == expected[3:]


def test_copies_of_a_lane_may_differ_in_their_cut_but_not_in_what_was_delivered():
    with fleet(make, 12) as before, fleet(make, 12) as other, fleet(make, 1) as after:
        for number, pipeline in enumerate(other.pipelines):
            pipeline.options(block_rows=3 + number)
        before.rounds(3)
        other.rounds(3)
        mixed = [(before if number % 2 else other).states()[number] for number in range(12)]
        copies = [mixed[0]["lanes"]["00000"], mixed[1]["lanes"]["00000"]]
        assert decode_lane(copies[0]).position != decode_lane(copies[1]).position
        after.restore(mixed)
        assert after.rounds(2) == before.rounds(2)

        states = before.states()
        lane = decode_lane(states[4]["lanes"]["00002"])
        forged = encode_lane(attrs.evolve(lane, delivered=lane.delivered + 1), (True, False))
        states[4] = {**states[4], "lanes": {"00002": forged}}
        with pytest.raises(CheckpointError) as caught:
            after.restore(states)
        assert caught.value.code == "checkpoint-disagrees"
        assert "lane 2" in caught.value.what


def test_states_of_two_runs_do_not_merge():
    with fleet(make, 2) as one, fleet(lambda: make(seed=9), 2) as two, fleet(make, 1) as after:
        one.rounds(1)
        two.rounds(1)
        with pytest.raises(CheckpointError) as caught:
            after.restore([one.states()[0], two.states()[1]])
        assert caught.value.code == "checkpoint-mixed"


# -- received, not prefetched -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("received", [0, 1, 13])
def test_what_counts_is_what_was_received_never_what_was_prefetched(workers, received):
    def eager():
        return make().options(parallelism=workers, prefetch_batches=16, block_rows=64)

    expected = delivered(take(iter(make().options(parallelism=0)), 30))
    pipeline = eager()
    batches = iter(pipeline)
    take(batches, received)
    if received and workers:
        deadline = time.monotonic() + 10
        while pipeline.stats()["stock_bytes"] == 0:  # something lies finished and has not been received
            assert time.monotonic() < deadline
            time.sleep(0.005)
    state = pipeline.checkpoint()
    assert pipeline.stats()["batches"] == {lane: received // 6 + (lane < received % 6) for lane in range(6)}
    pipeline.close()
    assert delivered(take(iter(eager().restore(state)), 30 - received)) == expected[4 * received :]


def test_a_checkpoint_can_be_taken_after_the_run_was_closed_or_failed():
    def fails(row):
        if row["n"] == 3:
            raise RuntimeError("not this one")
        return row

    def mapped(**options):
        work = source(numbered("a", 60), seed=4, shuffle_within_shard=True)
        pipeline = Pipeline(work).map_transform(fails, schema={"n": "int64"}).batch(2)
        return pipeline.options(parallelism=0, block_rows=4, **options)

    skipping = [keys(batch) for batch in mapped(on_error="skip")]
    assert sum(map(len, skipping)) == 58, "59 are good, and one is left over"
    pipeline = mapped()
    batches = iter(pipeline)
    seen = []
    with pytest.raises(Exception, match="not this one"):
        seen.extend(keys(batch) for batch in batches)
    assert seen == skipping[: len(seen)]
    assert len(seen) >= 1
    # the state from before the failure goes on under another policy: on_error is no data setting
    with pytest.warns(UserWarning, match="source"):
        mapped_again = mapped(on_error="skip").restore(of_other_functions(pipeline.checkpoint()))
    assert [keys(batch) for batch in mapped_again] == skipping[len(seen) :]


def of_other_functions(state):
    """The state as if the function's source had changed since: worth a warning, no more."""
    header = decode_header(state["header"])
    functions = dict.fromkeys(header["functions"], "0" * 16)
    assert functions
    return {**state, "header": encode_header({**header, "functions": functions})}


# -- rows held by origin ----------------------------------------------------------------------------------------------


def some_fail(row):
    if row["n"] % 11 == 0:
        raise ValueError("every eleventh")
    return None if row["n"] % 4 == 0 else row


def wide(**options):
    """Rows of 6 kB that do not compress; a buffer of them outweighs their origins by far."""
    noise = np.random.default_rng(0)
    table = pa.table({"n": range(90), "text": [noise.bytes(3000).hex() for _ in range(90)]})
    work = source(sharded("wide", table, 3), seed=1, shuffle_within_shard=True, exhausted_policy="repeat")
    pipeline = Pipeline(work).map_transform(some_fail, schema={"n": "int64", "text": "string"})
    pipeline.shuffle(16).shuffle(12, seed=1).batch(2)
    return pipeline.options(
        **{"canonical_replicas": 2, "parallelism": 0, "block_rows": 4, "on_error": "skip", **options}
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_held_rows_that_are_only_reordered_are_saved_by_origin_and_read_again_on_restore(workers):
    whole = wide()
    batches = iter(whole)
    expected, counters = [], []
    for _ in range(24):
        expected.append(next(batches).to_pylist())
        counters.append({kind: whole.stats()[kind] for kind in ("rows", "skipped")})
    for saved in (1, 2, 9):
        pipeline = wide()
        take(iter(pipeline), saved)
        state = pipeline.checkpoint()
        pipeline.close()
        if saved > 1:
            stages = [stage for data in state["lanes"].values() for stage in decode_lane(data).stages]
            assert sum(sum(map(len, stage.held.values())) > 9 for stage in stages) == 4, "both buffers of both lanes"
            assert max(map(len, state["lanes"].values())) < 40_000, "of some 150 kB held"
        again = wide(parallelism=workers).restore(state)
        rest = iter(again)
        for k in range(saved, 24):
            assert next(rest).to_pylist() == expected[k]
            if workers == 0:
                # what is read again is neither delivered nor set aside once more
                assert {kind: again.stats()[kind] for kind in ("rows", "skipped")} == counters[k]
        again.close()


def test_rows_that_read_otherwise_now_are_noticed_when_they_are_read_again(monkeypatch):
    pipeline = wide()
    take(iter(pipeline), 8)
    state = pipeline.checkpoint()

    def more_fail(row):
        return None

    more_fail.__module__, more_fail.__qualname__ = some_fail.__module__, some_fail.__qualname__
    monkeypatch.setitem(globals(), "some_fail", more_fail)
    with pytest.warns(UserWarning, match="source of map_transform"):
        again = wide().restore(state)
    with pytest.raises(DataError) as caught:
        next(iter(again))
    assert caught.value.code == "reread-differs"


# -- execution settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"parallelism": 3},
        {"runner": "inline", "parallelism": None},
        {"prefetch_batches": 9},
        {"memory_limit": "80MiB"},
        {"block_rows": 1},
        {"on_error": "skip"},
        {"uneven": "pad"},
        {"tail": "pad"},
        {"max_rounds": 1000},
        {"agree": int},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_execution_settings_may_differ_freely(changed):
    def finite(**options):
        work = source(numbered("a", 240, 3), seed=6)
        pipeline = Pipeline(work).map_transform(unchanged, schema={"n": "int64"}, drop_none=False).shuffle(7).batch(4)
        return pipeline.options(**{"canonical_replicas": 2, "parallelism": 0, **options})

    expected = [keys(batch) for batch in finite()]
    for written, restored in (({}, changed), (changed, {})):
        pipeline = finite(**written)
        take(iter(pipeline), 8)
        state = pipeline.checkpoint()
        pipeline.close()
        again = finite(**restored).restore(state)
        assert [keys(batch) for batch in again] == expected[8:]


def unchanged(row):
    return row


def test_execution_settings_of_operators_may_differ_freely():
    def tuned(**execution):
        pipeline = Pipeline(source(WEB)).map_transform(unchanged, schema={"n": "int64"}, **execution)
        return pipeline.shuffle(7, **execution).batch(4, **execution).options(parallelism=0)

    pipeline = tuned()
    batches = iter(pipeline)
    take(batches, 5)
    again = tuned(parallelism=3, placement="cpu").restore(pipeline.checkpoint())
    assert [keys(batch) for batch in again] == [keys(batch) for batch in batches]


# -- damage -----------------------------------------------------------------------------------------------------------


def packed():
    web = documents("web", [i * 7 % 23 for i in range(60)], shards=2)
    work = source(web, seed=8, exhausted_policy="repeat")
    packing = Pipeline(work).shuffle(4).pack_flat(12, num_bins=3).batch(2)
    return packing.options(canonical_replicas=2, parallelism=0, block_rows=8)


def newer_header(state):
    return {**state, "header": json.dumps({**json.loads(state["header"]), "zephon_checkpoint": 99}).encode()}


def newer_lane(state):
    key, data = next(iter(state["lanes"].items()))
    return {**state, "lanes": {**state["lanes"], key: data[:8] + (99).to_bytes(4, "little") + data[12:]}}


def cut_header(state):
    return {**state, "header": state["header"][:-7]}


def cut_lane(state):
    key, data = list(state["lanes"].items())[-1]
    return {**state, "lanes": {**state["lanes"], key: data[:-9]}}


def empty_lane(state):
    return {**state, "lanes": {**state["lanes"], "00001": b""}}


def flipped_lane(state):
    key, data = next(iter(state["lanes"].items()))
    middle = len(data) // 2
    return {**state, "lanes": {**state["lanes"], key: data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]}}


def missing_lane(state):
    return {**state, "lanes": {"00000": state["lanes"]["00000"]}}


REFUSED = {
    newer_header: "checkpoint-newer",
    newer_lane: "checkpoint-newer",
    cut_header: "checkpoint-corrupt",
    cut_lane: "checkpoint-corrupt",
    empty_lane: "checkpoint-corrupt",
    flipped_lane: "checkpoint-corrupt",
    missing_lane: "checkpoint-incomplete",
    lambda state: [state, cut_lane(state)]: "checkpoint-corrupt",
    lambda state: []: "checkpoint-corrupt",
    lambda state: "step-12": "checkpoint-corrupt",
    lambda state: {"model": 1}: "checkpoint-corrupt",
}


@pytest.mark.parametrize(("spoil", "code"), REFUSED.items(), ids=[f"{i}-{c}" for i, c in enumerate(REFUSED.values())])
def test_of_a_state_that_is_refused_nothing_is_loaded(spoil, code):
    writer = packed()
    expected = [batch.to_pylist() for batch in take(iter(writer), 12)]
    bad = spoil(writer.checkpoint())

    fresh, running = packed(), packed()
    batches = iter(running)
    assert [batch.to_pylist() for batch in take(batches, 5)] == expected[:5]
    untouched = running.checkpoint()
    for pipeline in (fresh, running):
        with pytest.raises(CheckpointError) as caught:
            pipeline.restore(bad)
        assert caught.value.code == code
    assert [batch.to_pylist() for batch in take(iter(fresh), 12)] == expected, "it begins at the beginning"
    assert running.checkpoint() == untouched
    assert [batch.to_pylist() for batch in take(batches, 7)] == expected[5:], "a run goes on as if nothing had been"
    fresh.options(parallelism=0)  # and is not taken for a restored pipeline, which could not be changed any more


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_truncated_state_is_always_noticed(data):
    state = written()
    where = data.draw(st.sampled_from(["header", *state["lanes"]]))
    whole = state["header"] if where == "header" else state["lanes"][where]
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    bad = {**state, "header": cut} if where == "header" else {**state, "lanes": {**state["lanes"], where: cut}}
    with pytest.raises(CheckpointError) as caught:
        packed().restore(bad)
    assert caught.value.code == "checkpoint-corrupt"


def written(memory=[]):  # noqa: B006 - one state for all examples
    if not memory:
        pipeline = packed()
        take(iter(pipeline), 9)
        memory.append(pipeline.checkpoint())
    return memory[0]


def test_a_state_is_bytes_by_lane_without_lists_or_pickles():
    state = written()
    assert set(state) == {"header", "lanes"} and isinstance(state["header"], bytes)
    assert list(state["lanes"]) == ["00000", "00001"]
    assert all(isinstance(data, bytes) for data in state["lanes"].values())
    json.loads(state["header"])
    assert not any(b"pickle" in data for data in (state["header"], *state["lanes"].values()))


def test_torchs_names_do_the_same():
    pipeline = packed()
    batches = iter(pipeline)
    take(batches, 5)
    again = packed()
    again.load_state_dict(pipeline.state_dict())
    for one, other in itertools.islice(zip(batches, again, strict=True), 6):
        assert one.to_pylist() == other.to_pylist()
