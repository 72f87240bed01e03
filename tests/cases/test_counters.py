"""M2: mixture, tokens, repeats and losses can be read at any time, match what was delivered, and survive restores."""

import sys
import threading
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.errors import DataError
from zephon_field_cases import documents, fleet, numbered, source, take, tokens_of, whose

NAMES = {1: "web", 2: "code", 3: "math"}
LENGTHS = {1: [i * 7 % 26 for i in range(50)], 2: [3 + i % 31 for i in range(21)], 3: [1 + i % 4 for i in range(13)]}
DATASETS = [documents(name, LENGTHS[number], source=number, shards=2) for number, name in NAMES.items()]


def odd(batch):
    return None if batch.index % 3 == 1 else batch


def unpacked(pipeline):
    return pipeline.batch(3)


def thinned(pipeline):
    return pipeline.batch(2).map_batch(odd)


def wrapped(pipeline):
    return pipeline.pack_flat(9, algorithm="wrap").batch(2)


def split(pipeline):
    return pipeline.pack_flat(12, num_bins=3).batch(2)


def truncated(pipeline):
    return pipeline.pack_flat(10, algorithm="best_fit", num_bins=2, overflow="truncate").batch(1)


SHAPES = {f.__name__: f for f in (unpacked, thinned, wrapped, split, truncated)}


def make(shape, **options):
    work = source(*DATASETS, mixture={"web": 2, "code": 2, "math": 1}, seed=3, exhausted_policy="repeat")
    pipeline = shape(Pipeline(work).shuffle(6))
    return pipeline.options(**{"canonical_replicas": 3, "parallelism": 0, "block_rows": 7, **options})


def counted(batches, packed):
    """Rows and tokens by dataset, from the tokens themselves: a document begins with the token of place 0."""
    sources, _, places = whose(tokens_of(batches))
    tokens = Counter(NAMES[number] for number in sources.tolist())
    if packed:
        rows = Counter(NAMES[number] for number in sources[places == 0].tolist())
    else:
        names = [NAMES[number] for number in (1, 2, 3)]
        order = list(batches[0].facts.datasets)
        assert sorted(order) == sorted(names)
        rows = Counter(order[d] for batch in batches for d in batch.origins.dataset.tolist())
    return rows, tokens


def is_packed(shape):
    return shape not in (unpacked, thinned)


def assert_match(stats, batches, shape):
    rows, tokens = counted(batches, is_packed(shape))
    assert stats["rows"] == rows
    assert stats["tokens"] == tokens


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_m2_rows_and_tokens_per_dataset_match_what_was_delivered_after_every_batch(shape):
    pipeline = make(shape)
    seen = []
    for batch in pipeline:
        seen.append(batch)
        assert_match(pipeline.stats(), seen, shape)
        if len(seen) == 40:
            break
    assert len(pipeline.stats()["rows"]) == 3


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@settings(max_examples=3, deadline=None)
@given(steps=st.lists(st.integers(0, 4), min_size=2, max_size=4), workers=st.sampled_from([0, 2]))
def test_m2_counters_survive_any_chain_of_restores_on_changing_groups(shape, steps, workers):
    seen, states = [], None
    for number, rounds in enumerate(steps):
        groups = (1, 3, 2)[number % 3]
        with fleet(lambda: make(shape), groups, uneven="pad", parallelism=workers) as running:
            if states is not None:
                running.restore(states)
            iterators = [iter(pipeline) for pipeline in running.pipelines]
            for _ in range(rounds):
                for pipeline, batches in zip(running.pipelines, iterators, strict=True):
                    seen += take(batches, pipeline.slots_per_round)
            totals = {kind: Counter() for kind in ("rows", "tokens", "batches")}
            for pipeline in running.pipelines:
                stats = pipeline.stats()
                assert stats["rounds"] == sum(steps[: number + 1])
                for kind, total in totals.items():
                    total.update(stats[kind])
            states = running.states()
        real = [batch for batch in seen if not batch.is_filler]
        assert totals["batches"] == Counter(batch.lane for batch in real)
        if real:
            assert_match(totals, real, shape)
            last = {batch.lane: batch.index for batch in real}
            assert all(last[lane] >= count - 1 for lane, count in totals["batches"].items())


def test_m2_the_realised_mixture_in_rows_and_in_tokens_and_the_repeats_per_source_can_be_read():
    pipeline = make(unpacked)
    batches = iter(pipeline)
    take(batches, 300)
    stats = pipeline.stats()
    share = {name: count / sum(stats["rows"].values()) for name, count in stats["rows"].items()}
    assert share == pytest.approx({"web": 0.4, "code": 0.4, "math": 0.2}, abs=0.03)
    mean = {NAMES[number]: sum(lengths) / len(lengths) for number, lengths in LENGTHS.items()}
    for name, tokens in stats["tokens"].items():
        assert tokens == pytest.approx(stats["rows"][name] * mean[name], rel=0.1)
    passes = {NAMES[n]: stats["rows"][NAMES[n]] / len(LENGTHS[n]) for n in NAMES}
    for name, begun in stats["passes_begun"].items():
        # rows in the buffer have been drawn and not delivered, and lanes stand in different chunk-rounds
        assert passes[name] <= begun <= passes[name] + 2


def test_m2_a_pass_begins_with_the_first_row_of_it_that_is_delivered():
    work = source(numbered("a", 12), stop_after_passes=3, shuffle_within_shard=True)
    pipeline = Pipeline(work).batch(4).options(parallelism=0)
    begun = []
    for batch in pipeline:
        begun.append(pipeline.stats()["passes_begun"]["a"])
        assert begun[-1] == batch.origins.epoch.max() + 1
    assert begun == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_m2_counters_of_operators_are_those_of_the_lanes_cuts():
    pipeline = make(truncated)
    batches = iter(pipeline)
    take(batches, 60)
    operators = pipeline.stats()["operators"]
    assert operators["truncated_documents"] > 0 and operators["empty_documents"] > 0
    assert operators["documents"] >= sum(pipeline.stats()["rows"].values())
    again = make(truncated).restore(pipeline.checkpoint())
    assert again.stats()["operators"] == operators


# -- rows set aside ---------------------------------------------------------------------------------------------------


def no_sevens(row):
    if row["n"] % 7 == 0:
        raise ValueError("a seven")
    return row


def skipping(**options):
    work = source(numbered("a", 100), numbered("b", 40), seed=1, exhausted_policy="repeat")
    pipeline = Pipeline(work).map_transform(no_sevens, schema={"n": "int64"}).shuffle(5).batch(3)
    return pipeline.options(**{"canonical_replicas": 2, "parallelism": 0, "on_error": "skip", **options})


@pytest.mark.parametrize("block_rows", [1, 5, 16])
def test_rows_set_aside_are_counted_per_dataset_the_same_through_restores_and_under_any_blocks(block_rows):
    plain = skipping(block_rows=5)
    batches = iter(plain)
    take(batches, 30)
    pipeline = skipping(block_rows=block_rows)
    take(iter(pipeline), 11)
    pipeline = skipping(block_rows=block_rows).restore(pipeline.checkpoint())
    take(iter(pipeline), 12)
    pipeline = skipping(block_rows=block_rows, prefetch_batches=7).restore(pipeline.checkpoint())
    take(iter(pipeline), 7)
    assert pipeline.stats()["rows"] == plain.stats()["rows"]
    skipped = pipeline.stats()["skipped"]
    assert set(skipped) == {"a", "b"}
    # what lies before the rows delivered has been counted, and what a block holds beyond them may have been
    drawn = sum(pipeline.stats()["rows"].values()) + sum(skipped.values())
    assert sum(skipped.values()) == pytest.approx(drawn / 7, abs=8)
    resaved = skipping(block_rows=block_rows).restore(pipeline.checkpoint())
    assert resaved.stats()["skipped"] == skipped


def test_the_budget_of_bad_rows_counts_a_lanes_rows_once_however_often_it_is_restored():
    def limited():
        return skipping(on_error={"action": "skip", "budget": 6}, block_rows=4, prefetch_batches=1)

    def until_it_stops(pipeline, seen):
        with pytest.raises(DataError) as caught:
            seen.extend(batch.to_pylist() for batch in pipeline)
        assert caught.value.code == "bad-row-budget"
        return seen

    expected = until_it_stops(limited(), [])
    pipeline, seen = limited(), []
    while len(seen) < len(expected) - 2:
        seen += [batch.to_pylist() for batch in take(iter(pipeline), 2)]
        pipeline = limited().restore(pipeline.checkpoint())
    assert until_it_stops(pipeline, seen) == expected


@pytest.mark.parametrize("shape", [unpacked, wrapped])
def test_m2_counters_read_by_another_thread_while_batches_come_are_counters_of_some_moment(shape):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # every order of the steps of two threads comes up
    try:
        pipeline = make(shape, max_rounds=400).options(canonical_replicas=1)
        batches = iter(pipeline)
        over, seen, failures = threading.Event(), [Counter()], []

        def watch():
            try:
                while not over.is_set():
                    seen.append(Counter(pipeline.stats()["rows"]))
            except Exception as error:  # noqa: BLE001 - told by the test
                failures.append(error)

        watching = threading.Thread(target=watch)
        watching.start()
        received = list(batches)
        over.set()
        watching.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    assert all(earlier <= later for earlier, later in pairwise(seen))
    assert_match(pipeline.stats(), received, shape)
