"""How runs end where the last round cannot be computed: the ranks agree, or are told to; and runs that cannot be."""

import re
import warnings
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.cli.rounds import Fleet
from zephon.errors import ConfigError, DataError, EngineError, PlanError
from zephon_field_cases import (
    delivered,
    documents,
    fleet,
    keys,
    numbered,
    plain_run,
    real,
    source,
    take,
    token,
    tokens_of,
)


def few_from_some(row):
    """Passes rows unevenly over the data, so that lanes end far apart."""
    return row["n"] % 10 < row["n"] // 30


def nothing(row):
    return False


def filtered(lanes=6, rows=300, predicate=few_from_some, microbatch=3, drop_last=True, **work):
    work = source(numbered("a", rows, 4), seed=2, **work)
    pipeline = Pipeline(work).filter(predicate).shuffle(3).batch(microbatch, drop_last=drop_last)
    return pipeline.options(canonical_replicas=lanes, block_rows=8)


# -- agreeing on the last round ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_ranks_that_agree_deliver_the_same_rounds_and_end_together(groups):
    expected = plain_run(filtered, 1000)
    assert len(expected) > 5
    assert all(len(lanes) == 6 for lanes in expected), "whole rounds only"
    with fleet(filtered, groups, agree=True, uneven="pad") as ranks:
        assert real(ranks.rounds(1000)) == expected
        assert ranks.round() is None


@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_with_a_padded_tail_ranks_that_agree_deliver_everything(groups):
    expected = plain_run(filtered, 1000, tail="pad")
    with fleet(filtered, groups, agree=True, uneven="pad", tail="pad") as ranks:
        rounds = ranks.rounds(1000)
    assert real(rounds) == expected
    told = Counter(row for lanes in rounds for rows in lanes.values() for row in rows)
    assert set(told.values()) == {1}
    assert sum(told.values()) == sum(few_from_some({"n": n}) for n in range(300))
    sizes = [len(lanes) for lanes in expected]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 6, "lanes end one after the other"


@settings(max_examples=4, deadline=None)
@given(saved=st.integers(0, 20), old=st.sampled_from([1, 2, 3]), new=st.sampled_from([1, 2, 3, 4]))
@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_a_run_that_agrees_on_its_end_resumes_anywhere(tail, saved, old, new):
    expected = plain_run(filtered, 1000, tail=tail)
    with fleet(filtered, old, agree=True, uneven="pad", tail=tail) as before:
        rounds = real(before.rounds(saved))
        states = before.states()
    with fleet(filtered, new, agree=True, uneven="pad", tail=tail) as after:
        after.restore(states)
        assert rounds + real(after.rounds(1000)) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_agreement_is_asked_for_inside_next_and_about_whole_stretches_of_rounds(workers):
    asked = []

    def agree(rounds):
        asked.append(rounds)
        return rounds

    pipeline = filtered(lanes=2).options(agree=agree, parallelism=workers, prefetch_batches=6)
    batches = iter(pipeline)
    assert asked == []
    total = len(list(batches)) // 2
    assert sum(asked) == total and asked[-1] == 0
    assert all(rounds > 0 for rounds in asked[:-1])


def test_a_run_whose_ranks_cannot_be_reached_stops_and_can_be_saved_and_gone_on_from():
    def agree(rounds):
        if len(asked) == 3:
            raise TimeoutError("a rank is gone")
        asked.append(rounds)
        return min(rounds, 2)

    asked = []
    expected = [keys(batch) for batch in filtered(lanes=2).options(parallelism=0)]
    pipeline = filtered(lanes=2).options(agree=agree, parallelism=0)
    seen = []
    with pytest.raises(TimeoutError):
        seen.extend(keys(batch) for batch in pipeline)
    assert 0 < len(seen) < len(expected) and len(seen) % 2 == 0
    asked.append(0)  # it can be reached again
    seen += [
        keys(batch) for batch in filtered(lanes=2).options(agree=agree, parallelism=0).restore(pipeline.checkpoint())
    ]
    assert seen == expected


# -- without agreement ------------------------------------------------------------------------------------------------


def test_a_finite_run_of_unknown_length_over_several_groups_has_to_be_told_how_it_ends():
    pipeline = filtered().options(dp_degree=2, dp_group_id=0, parallelism=0)
    with pytest.raises(PlanError) as caught:
        pipeline.validate()
    assert caught.value.code == "end-unknown"
    assert all(offer in caught.value.fix for offer in ("agree=", "max_rounds=", 'exhausted_policy="repeat"'))
    with pytest.raises(TypeError):
        len(filtered())
    offers = [filtered().options(agree=int), filtered().options(max_rounds=3), filtered(exhausted_policy="repeat")]
    for offered in offers:
        offered.options(dp_degree=2, dp_group_id=0, parallelism=0).validate()
    # one group knows by itself, and a pipeline that keeps its rows can compute the end
    filtered().options(dp_degree=1, dp_group_id=0).validate()
    kept = Pipeline(source(numbered("a", 48))).shuffle(3).batch(4).options(canonical_replicas=4)
    kept.options(dp_degree=4, dp_group_id=1).validate()
    assert len(kept) == 3


def test_bad_rows_that_may_be_dropped_make_the_end_unknown_as_well():
    kept = Pipeline(source(numbered("a", 48))).batch(4).options(canonical_replicas=4, dp_degree=4, dp_group_id=1)
    with pytest.raises(PlanError) as caught:
        kept.options(on_error="skip").validate()
    assert caught.value.code == "end-unknown"


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("endless", [True, False])
def test_max_rounds_ends_every_rank_after_so_many(groups, endless):
    policy = {"exhausted_policy": "repeat"} if endless else {}
    expected = plain_run(lambda: filtered(**policy), 4)
    with fleet(lambda: filtered(**policy), groups, max_rounds=4) as ranks:
        assert ranks.rounds(1000) == expected
        if endless:
            assert {len(pipeline) for pipeline in ranks.pipelines} == {4 * 6 // groups}
        states = ranks.states()
    with fleet(lambda: filtered(**policy), 1, max_rounds=6) as later:
        later.restore(states)
        assert len(later.rounds(1000)) == 2, "rounds count from the start of the run"


# -- runs that cannot be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "lanes", "microbatch", "delivers"),
    [(7, 1, 8, 0), (15, 2, 8, 0), (16, 2, 8, 16), (1, 1, 1, 1), (31, 32, 1, 0)],
)
def test_a_pipeline_that_would_deliver_nothing_says_so_when_planned(rows, lanes, microbatch, delivers):
    def make(**options):
        pipeline = Pipeline(source(numbered("a", rows))).batch(microbatch)
        return pipeline.options(canonical_replicas=lanes, parallelism=0, **options)

    if delivers:
        assert len(delivered(make())) == delivers
    else:
        for use in (Pipeline.validate, len, lambda p: next(iter(p))):
            with pytest.raises(PlanError) as caught:
                use(make())
            assert caught.value.code == "delivers-nothing"
        assert len(delivered(make(tail="pad"))) == rows, "what the error offers works"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("prefetch", [1, 8])
def test_an_endless_source_whose_filter_passes_nothing_ends_in_an_error_after_a_pass(workers, prefetch):
    pipeline = filtered(lanes=2, rows=60, predicate=nothing, exhausted_policy="repeat")
    pipeline.options(parallelism=workers, prefetch_batches=prefetch)
    with pytest.raises(EngineError) as caught:
        next(iter(pipeline))
    assert caught.value.code == "nothing-passes"
    assert 60 < pipeline.stats()["reader"]["rows_delivered"] < 100 * 60, "it did not go on for long"


@pytest.mark.parametrize("lanes", [1, 4])
def test_an_endless_source_of_which_a_single_row_passes_goes_on(lanes):
    """Reshuffled passes and other lanes keep it away from a lane for much longer than a pass."""
    pipeline = filtered(lanes=lanes, rows=100, predicate=only_one, microbatch=2, exhausted_policy="repeat")
    pipeline.options(parallelism=0, block_rows=64)
    assert {row["n"] for batch in take(iter(pipeline), 8 * lanes) for row in batch.to_pylist()} == {49}


def only_one(row):
    return row["n"] == 49


@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_a_finite_source_whose_filter_passes_nothing_just_ends_on_all_ranks(tail):
    with fleet(lambda: filtered(predicate=nothing), 3, agree=True, tail=tail) as ranks:
        assert ranks.rounds(10) == []


def test_a_failure_in_one_lane_reaches_its_consumer_after_what_lies_before_it():
    def fails(row):
        if row["n"] == 77:
            raise ArithmeticError("77")
        return row

    def mapped(**options):
        work = source(numbered("a", 200, 2), seed=3, shuffle_within_shard=True)
        pipeline = Pipeline(work).map_transform(fails, schema={"n": "int64"}).batch(2)
        return pipeline.options(**{"canonical_replicas": 2, "block_rows": 1, **options})

    seen = {}
    for workers in (0, 3):
        pipeline = mapped(parallelism=workers)
        batches = iter(pipeline)
        seen[workers] = []
        with pytest.raises(DataError) as caught:
            seen[workers].extend(batch.to_pylist() for batch in batches)
        assert caught.value.code == "function-failed"
        assert "77" in caught.value.found and "'a'" in caught.value.what
        with pytest.raises(EngineError) as closed:
            next(batches)
        assert closed.value.code == "iterator-closed"
    assert seen[0] == seen[3], "the same batches before it, however many workers"
    assert len(seen[0]) > 3


# -- memory -----------------------------------------------------------------------------------------------------------


def big_state(lanes=4):
    data = documents("a", [50] * 400)
    pipeline = Pipeline(source(data)).shuffle(100_000).pack_flat(4096, num_bins=64).batch(1)
    return pipeline.options(canonical_replicas=lanes, parallelism=0)


def test_state_larger_than_the_memory_limit_is_refused_with_a_size_that_works():
    with pytest.raises(PlanError) as caught:
        big_state().options(memory_limit="8MiB").validate()
    assert caught.value.code == "memory-limit"
    assert "shuffle" in caught.value.what
    offered = re.search(r"memory_limit=(\d+) << 20", caught.value.fix)
    assert offered is not None
    pipeline = big_state().options(memory_limit=int(offered[1]) << 20)
    next(iter(pipeline))
    # the same state spread over more ranks fits into less
    shared = big_state().options(memory_limit=int(offered[1]) << 18, dp_degree=4, dp_group_id=0, agree=int)
    shared.validate()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_tight_memory_limit_slows_a_run_down_and_never_stops_it(workers):
    lengths = [2000 + i % 7 for i in range(120)]
    data = documents("a", lengths, shards=3)

    def make(limit):
        pipeline = Pipeline(source(data)).shuffle(8).batch(3).options(canonical_replicas=5, tail="pad")
        return pipeline.options(parallelism=workers, memory_limit=limit, prefetch_batches=20)

    needed = 1 << 20
    while True:
        try:
            make(needed).validate()
            break
        except PlanError:
            needed += 1 << 18
    everything = sorted(token(1, row, place) for row, length in enumerate(lengths) for place in range(length))
    assert sorted(tokens_of(make(needed))) == everything


def test_options_that_end_a_run_are_checked_when_they_are_given():
    for wrong in ({"max_rounds": 0}, {"agree": 3}, {"tail": "keep"}):
        with pytest.raises(ConfigError) as caught:
            filtered().options(**wrong)
        assert caught.value.code == "option-invalid"


def test_groups_that_are_asked_in_lockstep_disagree_about_no_end():
    """Fleet itself raises when some groups end and others do not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd = Fleet(filtered, 2, parallelism=0, max_rounds=1000)
    try:
        with pytest.raises(AssertionError, match="disagree"):
            odd.rounds(1000)
    finally:
        odd.close()


def test_an_agreement_on_more_than_was_offered_is_an_error_not_rounds_of_filler():
    pipeline = filtered(lanes=2).options(agree=lambda offered: max(offered, 1), parallelism=0)
    with pytest.raises(EngineError) as caught:
        list(pipeline)
    assert caught.value.code == "agree-exceeds-offer"


def test_an_endless_source_whose_documents_are_all_dropped_by_the_packer_is_an_error_not_a_hang():
    work = source(documents("a", [30] * 10), exhausted_policy="repeat")
    pipeline = Pipeline(work).pack_flat(8, overflow="drop").batch(1).options(parallelism=0)
    with pipeline, pytest.raises(EngineError) as caught:
        next(iter(pipeline))
    assert caught.value.code == "nothing-passes"


def test_a_packer_that_gathers_many_tiny_documents_for_one_batch_is_patiently_waited_for():
    work = source(documents("a", [1] * 10), exhausted_policy="repeat")
    with Pipeline(work).pack_flat(4096).batch(8).options(parallelism=0) as pipeline:
        assert sum(map(len, next(iter(pipeline))["input_ids"].to_pylist())) == 8 * 4096
