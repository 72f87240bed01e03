"""R: a run that is saved and restored, on whatever there is then, delivers what the uninterrupted run delivers."""

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.checkpoint import DirectoryStore
from zephon.errors import CheckpointError
from zephon.work import StaticMixtureWorkSource
from zephon_field_cases import (
    Stretch,
    chain,
    delivered,
    documents,
    fleet,
    keys,
    numbered,
    plain_run,
    source,
    take,
    token,
    tokens_of,
    whose,
)


def running_sum(state, row):
    """A fold whose output depends on every row before it."""
    state += row["n"]
    return state, [{"n": row["n"], "sum": state}]


FOLDED = pa.schema([("n", pa.int64()), ("sum", pa.int64())])
TWELVE = numbered("twelve", 12)
HELD_OUT = numbered("held-out", 60)
FEW_TOKENS = documents("few", [3, 9, 1, 0, 5, 60, 2, 2, 7, 8, 4, 26])

#: R1's pipelines: 12 rows in one shard, shuffled with seed 42, one row a batch, and what may hold rows back.
ONE_BY_ONE = {
    "shuffled_by_the_source": lambda: Pipeline(source(TWELVE, seed=42, shuffle_within_shard=True)).batch(1),
    "shuffled_in_a_window": lambda: Pipeline(source(TWELVE, seed=42, shuffle_block_size=5)).batch(1),
    "shuffled_in_a_buffer": lambda: Pipeline(source(TWELVE)).shuffle(5, seed=42).batch(1),
    "folded": lambda: (
        Pipeline(source(TWELVE, seed=42, shuffle_within_shard=True))
        .stateful_transform("sum", init_state=0, push=running_sum, schema=FOLDED)
        .shuffle(3)
        .batch(1, drop_last=False)
    ),
    "packed_to_fit": lambda: Pipeline(source(FEW_TOKENS)).shuffle(3).pack_flat(9, num_bins=2).batch(1),
    "packed_by_wrapping": lambda: Pipeline(source(FEW_TOKENS)).pack_flat(9, algorithm="wrap").batch(1),
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_r1_after_any_batch_a_new_pipeline_goes_on_with_exactly_what_remains(name):
    def make():
        return ONE_BY_ONE[name]().options(parallelism=0)

    whole = [batch.to_pylist() for batch in make()]
    assert len(whole) >= 12
    for k in range(len(whole) + 1):
        first = make()
        batches = iter(first)
        take(batches, k)
        second = make().restore(first.checkpoint())
        assert [batch.to_pylist() for batch in second] == whole[k:]
        first.close()


def everything():
    """Two sources, mixed, shuffled, folded, reordered, packed: endless."""
    web = documents("web", [3 + i * 7 % 30 for i in range(45)], shards=3)
    code = documents("code", [i * 11 % 17 for i in range(22)], source=2, shards=2)
    return (
        Pipeline(source(web, code, mixture={"web": 3, "code": 1}, seed=7, exhausted_policy="repeat"))
        .shuffle(4)
        .ensure_mixture(6)
        .pack_flat(16, algorithm="best_fit", num_bins=3)
        .shuffle(3, seed=1)
        .batch(2)
        .options(canonical_replicas=8, block_rows=16)
    )


@settings(max_examples=2, deadline=None)
@given(rounds=st.lists(st.integers(0, 3), min_size=5, max_size=5), last=st.integers(1, 3))
def test_r2_resume_chains_through_changing_workers_and_groups_equal_the_uninterrupted_run(
    tmp_path_factory, rounds, last
):
    settings_of = [(4, 2), (8, 0), (2, 8), (1, 0), (4, 0), (2, 2)]
    stretches = [Stretch(n, *how) for n, how in zip([*rounds, last], settings_of, strict=True)]
    store = DirectoryStore(tmp_path_factory.mktemp("chain"))
    assert chain(everything, stretches, store) == plain_run(everything, sum(rounds) + last)


PASS = 24  # rows of the dataset of R3, all read by one lane in batches of 3: a pass ends with every eighth batch


@pytest.mark.parametrize(
    "saved",
    [
        pytest.param(0, id="before the first batch"),
        pytest.param(8, id="at the exact end of a pass"),
        pytest.param(11, id="in the second pass"),
        pytest.param(16, id="at the end of the second pass"),
        pytest.param(23, id="before the last batch"),
        pytest.param(24, id="after the last batch"),
    ],
)
@pytest.mark.parametrize("buffer", [1, 5])
def test_r3_saved_around_passes_and_ends_nothing_is_lost_or_repeated(saved, buffer):
    def make():
        work = source(numbered("a", PASS, 4), seed=5, shuffle_within_shard=True, stop_after_passes=3)
        return Pipeline(work).shuffle(buffer).batch(3).options(parallelism=0)

    whole = [keys(batch) for batch in make()]
    assert len(whole) == 24
    first = make()
    before = take(iter(first), saved)
    after = list(make().restore(first.checkpoint()))
    first.close()
    assert [keys(batch) for batch in [*before, *after]] == whole
    counts = Counter((key.shard, key.row) for key in delivered([*before, *after]))
    assert len(counts) == PASS and set(counts.values()) == {3}
    assert Counter(key.epoch for key in delivered([*before, *after])) == {0: PASS, 1: PASS, 2: PASS}


def test_r3_a_run_saved_after_its_last_batch_stays_at_its_end_when_restored_on_other_groups():
    def make():
        return Pipeline(source(numbered("a", 48, 4))).batch(3).options(canonical_replicas=4)

    with fleet(make, 2) as two:
        assert len(two.rounds(100)) == 4
        states = two.states()
    with fleet(make, 4, tail="drop") as four:
        four.restore(states)
        assert four.rounds(100) == []
        assert [state["lanes"] for state in four.states()] == [
            {key: data for state in states for key, data in state["lanes"].items() if int(key) == lane}
            for lane in range(4)
        ]


def test_r4_passes_after_a_resume_near_the_end_of_one_are_full():
    def make(passes):
        work = source(numbered("a", 128, 4), stop_after_passes=passes, shuffle_within_shard=True)
        return Pipeline(work).batch(2).options(parallelism=0)

    first = make(1)
    take(iter(first), 61)
    again = make(1).restore(first.checkpoint())
    assert [len(list(again)) for _ in range(3)] == [3, 64, 64]

    # the same as one curriculum of three passes: what is left of the first, and two full ones
    first = make(3)
    take(iter(first), 61)
    rest = delivered(make(3).restore(first.checkpoint()))
    assert Counter(key.epoch for key in rest) == {0: 6, 1: 128, 2: 128}
    assert len({(key.epoch, key.shard, key.row) for key in rest}) == 6 + 2 * 128


def test_r5_a_sample_that_fits_no_open_pack_is_part_of_the_state():
    # windows of 10 with two bins: 7 and 6 are open when 8 comes and fits neither
    lengths = [7, 6, 8, 3, 4, 2, 9, 9, 1, 5]

    def make():
        work = source(documents("a", lengths), shuffle_shards=False)
        return Pipeline(work).pack_flat(10, num_bins=2).batch(1, drop_last=False).options(parallelism=0, block_rows=1)

    everything_once = sorted(token(1, row, place) for row, n in enumerate(lengths) for place in range(n))
    whole = [batch.to_pylist() for batch in make()]
    for k in range(len(whole) + 1):
        first = make()
        before = take(iter(first), k)
        after = list(make().restore(first.checkpoint()))
        first.close()
        assert [batch.to_pylist() for batch in [*before, *after]] == whole
        assert sorted(tokens_of([*before, *after])) == everything_once


def test_r5_a_half_emitted_document_goes_on_where_it_was_cut():
    lengths = [4, 95, 3]  # the long one fills ten windows of 10

    def make():
        work = source(documents("a", lengths), shuffle_shards=False)
        return Pipeline(work).pack_flat(10, algorithm="wrap").batch(1, drop_last=False).options(parallelism=0)

    in_order = [token(1, row, place) for row, n in enumerate(lengths) for place in range(n)]
    for k in range(11):
        first = make()
        before = take(iter(first), k)
        assert len(tokens_of(before)) == 10 * k
        second = make().restore(first.checkpoint())
        first.close()
        assert tokens_of([*before, *second]) == in_order


def test_r6_building_planning_or_measuring_a_pipeline_draws_nothing(monkeypatch):
    def make():
        return everything().options(max_rounds=6, parallelism=0)

    expected = [batch.to_pylist() for batch in make()]
    draws = []
    read = StaticMixtureWorkSource.read
    monkeypatch.setattr(StaticMixtureWorkSource, "read", lambda self, *where: draws.append(where) or read(self, *where))
    python_state, numpy_state = random.getstate(), np.random.get_state()[1].tolist()
    pipeline = make()
    assert len(pipeline) == 6 * 8
    pipeline.explain(), pipeline.validate(), pipeline.stats(), pipeline.checkpoint(), len(pipeline), bool(pipeline)
    iter(pipeline)
    assert draws == []
    assert pipeline.stats()["reader"]["rows_delivered"] == 0
    assert [batch.to_pylist() for batch in pipeline] == expected
    assert draws
    assert random.getstate() == python_state and np.random.get_state()[1].tolist() == numpy_state


def test_r7_a_training_run_resumes_from_24_to_32_groups_while_an_evaluation_run_lives_beside_it():
    data = numbered("a", 2000, 5)

    def train():
        work = source(data, seed=1, shuffle_within_shard=True, exhausted_policy="repeat")
        return Pipeline(work).shuffle(3).batch(2).options(canonical_replicas=96, block_rows=8)

    def evaluate():
        return Pipeline(source(HELD_OUT)).batch(4).options(parallelism=1)

    expected = plain_run(train, 4)
    evaluation = evaluate()
    scores = iter(evaluation)
    seen = take(scores, 3)
    with fleet(train, 24) as before:
        rounds = before.rounds(2)
        states = before.states()
        seen += take(scores, 3)
    saved_between = evaluation.checkpoint()
    with fleet(train, 32) as after:
        after.restore(states)
        seen += take(scores, 3)
        rounds += after.rounds(2)
    seen += list(scores)
    assert rounds == expected
    undisturbed = delivered(evaluate())
    assert delivered(seen) == undisturbed and len(undisturbed) == 60
    assert delivered(evaluate().restore(saved_between)) == undisturbed[24:]


def long_run(lanes=2):
    web = documents("web", [5 + i % 9 for i in range(900)], shards=9)
    code = documents("code", [4 + i % 5 for i in range(300)], source=2, shards=3)
    work = source(web, code, mixture={"web": 2, "code": 1}, seed=3, shuffle_block_size=64, exhausted_policy="repeat")
    packed = Pipeline(work).shuffle(16).pack_flat(32, num_bins=4).batch(2)
    return packed.options(canonical_replicas=lanes, parallelism=0, block_rows=16)


def test_r8_a_snapshot_after_every_step_reads_nothing_and_changes_nothing():
    plain, watched = long_run(), long_run()
    expected = [batch.to_pylist() for batch in take(iter(plain), 40)]
    batches = iter(watched)
    for k in range(40):
        assert next(batches).to_pylist() == expected[k]
        read = watched.stats()["reader"]
        watched.checkpoint()
        assert watched.stats()["reader"] == read
    assert watched.stats()["reader"] == plain.stats()["reader"]


def test_r8_restoring_reads_a_few_blocks_at_any_step_and_never_passes_over_the_data():
    read = {}
    pipeline = long_run()
    batches = iter(pipeline)
    for step in (0, 10, 200, 600):
        take(batches, step - sum(pipeline.stats()["batches"].values()))
        restored = long_run().restore(pipeline.checkpoint())
        assert restored.stats()["reader"]["rows_decoded"] == 0, "restore() itself reads nothing"
        next(iter(restored))
        read[step] = restored.stats()["reader"]["rows_decoded"]
        restored.close()
    assert pipeline.stats()["rows"]["web"] > 30 * 4 * 16, "there was a long way to go over again"
    assert max(read[step] for step in (10, 200, 600)) <= read[0] + 4 * 16


def test_r8_the_bytes_of_a_checkpoint_do_not_grow_with_the_step():
    pipeline = long_run()
    batches = iter(pipeline)
    take(batches, 20)  # what operators hold has filled up
    sizes = []
    for _ in range(3):
        most = 0
        for _ in range(20):
            next(batches)
            most = max(most, sum(map(len, pipeline.checkpoint()["lanes"].values())))
        sizes.append(most)
        take(batches, 200)
    # only numbers such as the position get longer: a few digits for each lane
    assert all(later <= sizes[0] * 1.05 + 100 for later in sizes[1:]), sizes


def test_r9_a_state_with_one_ranks_part_missing_is_refused_naming_the_lanes(tmp_path):
    def make():
        return Pipeline(source(numbered("a", 240, 2))).batch(2).options(canonical_replicas=12)

    with fleet(make, 4) as four:
        four.rounds(3)
        states = four.states()
        expected = four.rounds(100)
    with fleet(make, 3) as three:
        for group, lanes in ((0, "3"), (1, "4-5"), (2, None)):
            incomplete = [states[0], states[2], states[3]]
            pipeline = three.pipelines[group]
            if lanes is None:
                pipeline.restore(incomplete)  # lanes 8 to 11 are all there
                continue
            with pytest.raises(CheckpointError) as caught:
                pipeline.restore(incomplete)
            assert caught.value.code == "checkpoint-incomplete"
            assert f"lanes {lanes}," in caught.value.what
        three.restore(states)
        assert three.rounds(100) == expected
    store = DirectoryStore(tmp_path)
    for state in (states[0], states[1], states[3]):
        store.save(3, state)
    assert store.steps() == []
    with pytest.raises(CheckpointError) as caught:
        store.load(3)
    assert caught.value.code == "checkpoint-incomplete" and "6-8" in caught.value.found


def test_r9_a_rank_of_the_same_topology_needs_no_state_but_its_own():
    def make():
        return Pipeline(source(numbered("a", 240, 2))).shuffle(4).batch(2).options(canonical_replicas=12)

    with fleet(make, 3) as before, fleet(make, 3) as after:
        before.rounds(3)
        for pipeline, state in zip(after.pipelines, before.states(), strict=True):
            pipeline.restore(state)
        assert after.rounds(100) == before.rounds(100)


@given(st.data())
@settings(max_examples=8, deadline=None)
def test_tokens_of_any_lengths_survive_any_chain_of_resumes(data):
    lengths = data.draw(st.lists(st.integers(0, 40), min_size=3, max_size=20).filter(any))
    algorithm = data.draw(st.sampled_from(["wrap", "first_fit", "best_fit", "best_fit_wrap"]))
    work = source(documents("a", lengths, shards=2), seed=data.draw(st.integers(0, 9)))

    def make():
        packed = Pipeline(work).pack_flat(11, algorithm=algorithm).batch(1, drop_last=False)
        return packed.options(parallelism=0, block_rows=data.draw(st.integers(1, 9)))

    pipeline = make()
    seen = []
    while True:
        step = data.draw(st.integers(1, 6))
        batches = iter(pipeline)
        some = [batch for _, batch in zip(range(step), batches, strict=False)]
        seen += some
        state = pipeline.checkpoint()
        pipeline.close()
        if len(some) < step:
            break
        pipeline = make().restore(state)
    assert sorted(tokens_of(seen)) == sorted(token(1, r, k) for r, n in enumerate(lengths) for k in range(n))
    for batch in seen:
        for row in batch.to_pylist():
            sources, rows, places = whose(row["input_ids"])
            assert len(rows) <= 11 and set(sources) <= {1}
            starts = np.flatnonzero(np.array(row["positions"]) == 0)
            for a, b in pairwise([*starts, len(rows)]):
                assert set(rows[a:b]) == {rows[a]} and (np.diff(places[a:b]) == 1).all()
