"""S: who gets which sample, how many steps everybody takes, and what becomes of the last rows."""

import warnings
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.errors import ConfigError
from zephon.io import Dataset
from zephon_field_cases import delivered, documents, fleet, keys, numbered, plain_run, real, source, take

LAUNCHERS = ("WORLD_SIZE", "RANK", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")


@pytest.fixture
def nobody(monkeypatch):
    """An environment in which no launcher has said anything."""
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


# -- S1: who am I -----------------------------------------------------------------------------------------------------


def trained(**options):
    work = source(numbered("a", 64, 2), seed=1, exhausted_policy="repeat")
    return Pipeline(work).batch(2).options(**{"canonical_replicas": 4, "parallelism": 0, **options})


@pytest.mark.parametrize("launcher", ["WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_s1_ranks_that_nobody_told_their_place_get_an_error_not_all_the_same_first_batch(nobody, launcher):
    """See also test_topology.py of the engine, which tests the finding of the identity by itself."""
    nobody.setenv(launcher, "4")
    pipeline = trained()
    for use in (pipeline.validate, pipeline.explain, pipeline.checkpoint, lambda: next(iter(pipeline))):
        with pytest.raises(ConfigError) as caught:
            use()
        assert caught.value.code == "rank-unknown"
    told = [trained(dp_degree=4, dp_group_id=rank) for rank in range(4)]
    assert len({tuple(keys(next(iter(pipeline)))) for pipeline in told}) == 4


def test_s1_a_launchers_world_and_rank_are_enough(nobody):
    nobody.setenv("WORLD_SIZE", "4")
    first = []
    for rank in range(4):
        nobody.setenv("RANK", str(rank))
        pipeline = trained()
        assert "WORLD_SIZE and RANK" in pipeline.explain()
        first.append(keys(next(iter(pipeline))))
    assert first == [keys(batch) for batch in take(iter(trained(dp_degree=1, dp_group_id=0)), 4)]


def test_s1_without_lanes_said_the_number_of_groups_is_taken_with_a_warning(nobody):
    pipeline = Pipeline(source(numbered("a", 64))).batch(2).options(dp_degree=2, dp_group_id=1, parallelism=0)
    with pytest.warns(UserWarning, match="canonical_replicas"):
        assert pipeline.lanes == 2


# -- S2 and S4: remainders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_s2_remainders_do_not_depend_on_workers_prefetch_or_blocks(drop_last, tail):
    def make():
        return Pipeline(source(numbered("a", 103, 3), seed=2)).shuffle(4).batch(4, drop_last=drop_last)

    expected = plain_run(lambda: make().options(canonical_replicas=3), 100, tail=tail)
    for workers, prefetch, rows in ((0, 1, 1), (0, 9, 1000), (1, 1, 7), (4, 1, 3), (4, 16, 64)):
        execution = {"parallelism": workers, "prefetch_batches": prefetch, "block_rows": rows, "tail": tail}
        with fleet(lambda: make().options(canonical_replicas=3), 1, **execution) as running:
            assert real(running.rounds(100)) == expected


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 60),
    passes=st.integers(1, 3),
    lanes=st.integers(1, 4),
    microbatch=st.integers(1, 7),
    drop_last=st.booleans(),
    tail=st.sampled_from(["drop", "pad"]),
)
def test_s4_only_the_last_batch_of_a_lane_may_be_short_and_no_pass_end_cuts_one(
    rows, passes, lanes, microbatch, drop_last, tail
):
    work = source(numbered("a", rows, 2), seed=3, stop_after_passes=passes)
    pipeline = Pipeline(work).batch(microbatch, drop_last=drop_last)
    pipeline.options(canonical_replicas=lanes, tail=tail, parallelism=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what does not fill a round
        try:
            batches = list(pipeline)
        except ConfigError as error:
            assert error.code == "delivers-nothing" and tail == "drop"  # noqa: PT017
            return
    by_lane = {}
    for batch in batches:
        by_lane.setdefault(batch.lane, []).append(int(batch.row_mask.sum()))
    for sizes in by_lane.values():
        assert set(sizes[:-1]) <= {microbatch} or tail == "pad"
        full = [size for size in sizes if size]
        assert set(full[:-1]) <= {microbatch}, "short before the end of the lane"
        assert sizes[len(full) :] == [0] * (len(sizes) - len(full)), "filler stands at the end"
        if drop_last and tail == "drop":
            assert set(sizes) == {microbatch}
    counts = Counter(delivered(batches))
    assert set(counts.values()) == {1}
    if tail == "pad":
        assert len(counts) == rows * passes


def test_s4_what_does_not_fill_a_last_round_is_announced_when_planned_and_counted_right():
    lost = Pipeline(source(numbered("a", 50))).batch(7).options(canonical_replicas=2, parallelism=0)
    with pytest.warns(UserWarning, match="8 of 50 rows"):
        lost.validate()
    assert len(delivered(lost)) == 42
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = Pipeline(source(numbered("a", 1001))).batch(10).options(parallelism=0)
        assert "1 of 1001" in few.explain(), "too few to warn of, and still said"
        assert "are not delivered" not in lost.options(tail="pad").explain()
        assert len(delivered(lost)) == 50


# -- S3: few files, one file, no rows, very many ----------------------------------------------------------------------

LAYOUTS = {
    "one file": [40],
    "files fewer than ranks": [30, 11],
    "rows fewer than ranks": [1, 0, 1],
    "one row": [1],
    "empty files": [0, 17, 0, 0, 9, 0],
    "one huge file": [3, 6_000, 1],
}


def layout(name):
    microbatch = 64 if "huge" in name else 2
    data = numbered("a", sum(LAYOUTS[name]), LAYOUTS[name])
    return lambda: Pipeline(source(data, seed=5)).batch(microbatch).options(canonical_replicas=8)


def steps_and_rows(make, groups, **options):
    """How many steps each group takes, and all their rows."""
    steps, rows = [], Counter()
    with fleet(make, groups, uneven="pad", **options) as running:
        for pipeline in running.pipelines:
            batches = list(pipeline)
            steps.append(len(batches))
            rows.update(delivered(batches))
            assert len(batches) == len(pipeline)
    return steps, rows


@pytest.mark.parametrize("groups", [1, 3, 8, 16])
@pytest.mark.parametrize("name", LAYOUTS)
def test_s3_all_ranks_take_equally_many_steps_whatever_the_files(name, groups):
    steps, rows = steps_and_rows(layout(name), groups, tail="pad")
    assert len(set(steps)) == 1 and steps[0] > 0
    assert set(rows.values()) == {1}
    assert len(rows) == sum(LAYOUTS[name])


@pytest.mark.parametrize("name", LAYOUTS)
def test_s3_by_default_whole_rounds_are_delivered_or_it_is_said_that_there_is_none(name):
    make = layout(name)
    if sum(LAYOUTS[name]) < 8 * 2:
        with pytest.raises(ConfigError) as caught:
            make().validate()
        assert caught.value.code == "delivers-nothing"
        return
    outcomes = [steps_and_rows(make, groups) for groups in (1, 2, 8)]
    assert all(len(set(steps)) == 1 for steps, _ in outcomes)
    assert outcomes[0][1] == outcomes[1][1] == outcomes[2][1], "the same rows whatever the groups"
    rows = outcomes[0][1]
    assert set(rows.values()) == {1} and sum(rows.values()) % 16 == 0


@pytest.mark.parametrize("rows", [[40], [30, 11], [0, 17, 0]])
def test_s3_the_same_with_files_on_disk(tmp_path, rows):
    for number, count in enumerate(rows):
        pq.write_table(pa.table({"n": pa.array(range(count), pa.int64())}), tmp_path / f"{number}.parquet")
    data = Dataset.from_path("a", tmp_path)
    steps, found = steps_and_rows(
        lambda: Pipeline(source(data)).batch(2).options(canonical_replicas=6), 3, tail="pad", parallelism=1
    )
    assert len(set(steps)) == 1
    assert Counter((key.shard, key.row) for key in found) == {
        (shard, row): 1 for shard, count in enumerate(rows) for row in range(count)
    }


# -- S5: evaluation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("microbatch", [1, 8])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 24])
def test_s5_a_metric_over_1003_rows_is_the_same_on_any_number_of_ranks(ranks, microbatch):
    lengths = [1 + i * 37 % 11 for i in range(1003 if microbatch > 1 else 203)]
    data = documents_of_many(tuple(lengths))

    def evaluate():
        return Pipeline(source(data)).batch(microbatch).options(canonical_replicas=8, block_rows=64)

    sums, steps = [], []
    with fleet(evaluate, ranks, uneven="pad", tail="pad") as running:
        for pipeline in running.pipelines:
            # what a rank adds up: as many reductions as steps, with masked rows wherever its data has ended
            total = np.zeros(3, dtype=np.int64)
            batches = list(pipeline)
            for batch in batches:
                arrays = batch.to_training(return_labels=True, return_num_valid_tokens=True)
                labels = np.asarray(arrays["labels"])
                trained = labels[labels != -100]
                total += [int(batch.row_mask.sum()), arrays["num_valid_tokens"], int((trained % 97).sum())]
            sums.append(total)
            steps.append(len(batches))
    assert len(set(steps)) == 1
    tokens = [[i * 12 + place for place in range(length)] for i, length in enumerate(lengths)]
    assert sum(sums).tolist() == [
        len(lengths),
        sum(length - 1 for length in lengths),
        sum(token % 97 for row in tokens for token in row[1:]),
    ]


def documents_of_many(lengths, made={}):  # noqa: B006 - made once for all ranks
    """More rows than tokens that tell their row have room for: token ids by arithmetic."""
    if lengths not in made:
        tokens = [[i * 12 + place for place in range(length)] for i, length in enumerate(lengths)]
        field = documents("template", [1]).schema.field("input_ids")
        made[lengths] = Dataset.from_dict(
            "eval", pa.Table.from_arrays([pa.array(tokens, field.type)], schema=pa.schema([field]))
        )
    return made[lengths]


# -- S6: the mixture of a step ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.5, 0.75])
@pytest.mark.parametrize("microbatch", [1, 8])
@pytest.mark.parametrize("seed", [0, 1])
def test_s6_the_mixture_of_each_global_step_stays_within_binomial_spread_of_the_target(share, microbatch, seed):
    lanes, steps = 32, 48
    a, b = numbered("a", 3000, 4), numbered("b", 3000, 4)
    work = source(a, b, mixture={"a": share, "b": 1 - share}, seed=seed, exhausted_policy="repeat")
    pipeline = Pipeline(work).batch(microbatch)
    pipeline.options(canonical_replicas=lanes, parallelism=0, block_rows=microbatch * 8)
    batches = iter(pipeline)
    counts = np.array(
        [sum(int((batch.origins.dataset == 0).sum()) for batch in take(batches, lanes)) for _ in range(steps)]
    )
    rows = lanes * microbatch
    spread = np.sqrt(rows * share * (1 - share))
    assert np.abs(counts - rows * share).max() <= 4.5 * spread, "no step is off by more than chance allows"
    assert np.sqrt(np.mean((counts - rows * share) ** 2)) <= 2 * spread
    assert abs(counts.sum() - rows * steps * share) <= 2 * lanes, "and all of them together are on target"


# -- S7: 1003 rows over 32 lanes --------------------------------------------------------------------------------------


def thousand():
    return Pipeline(source(numbered("a", 1003, 3), seed=9)).batch(8).options(canonical_replicas=32, parallelism=0)


def test_s7_with_the_defaults_1003_rows_over_32_lanes_lose_nothing_silently():
    with pytest.warns(UserWarning, match=r"235 of 1003 rows .*tail=.pad."):
        thousand().validate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(delivered(thousand())) == 1003 - 235


def test_s7_padding_the_tail_delivers_each_of_1003_rows_once():
    pipeline = thousand().options(tail="pad")
    batches = list(pipeline)
    assert {len(batch) for batch in batches} == {8}, "every batch has the shape of a full one"
    assert len(batches) == len(pipeline) == 32 * 4
    counts = Counter((key.shard, key.row) for key in delivered(batches))
    assert len(counts) == 1003 and set(counts.values()) == {1}
