"""Work in flight is bounded in bytes, and no bound ever stops the lane the consumer waits for."""

import time

import pyarrow as pa
import pytest

from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

MEGABYTE = 1 << 20


def pipeline(lanes, row_bytes, limit, rows=400, parallelism=2):
    table = pa.table({"data": pa.array([b"x" * row_bytes] * 4, pa.binary()).take(pa.array([0] * rows))})
    work = StaticMixtureWorkSource(
        datasets=[Dataset.from_dict("big", table)], mixture={"big": 1}, exhausted_policy="repeat"
    )
    return (
        Pipeline(work)
        .map_transform(copied, vectorized=True, schema=pa.schema([("data", pa.binary())]))
        .batch(2)
        .options(canonical_replicas=lanes, memory_limit=limit, parallelism=parallelism)
    )


def copied(batch):
    """Memory of its own for every row, as decoding would give."""
    return pa.record_batch({"data": pa.array(batch.column(0).to_pylist(), pa.binary())})


@pytest.mark.parametrize("lanes", [1, 16])
def test_an_idle_consumer_stops_the_reading_at_the_limit(lanes):
    limit = 32 * MEGABYTE
    with pipeline(lanes, MEGABYTE // 4, limit) as running:
        next(iter_ := iter(running))
        seen, steady = -1, 0
        deadline = time.monotonic() + 30
        while steady < 20 and time.monotonic() < deadline:
            stock = running.stats()["stock_bytes"]
            steady = steady + 1 if stock == seen else 0
            seen = stock
            time.sleep(0.01)
        assert steady == 20, "the engine goes on reading though nobody consumes"
        assert seen <= limit
        del iter_


@pytest.mark.parametrize("parallelism", [0, 1, 2])
def test_rows_larger_than_the_whole_budget_still_come_through(parallelism):
    with pipeline(3, 2 * MEGABYTE, 25 * MEGABYTE, rows=12, parallelism=parallelism) as running:
        batches = iter(running)
        assert [len(next(batches)) for _ in range(12)] == [2] * 12


def test_hundreds_of_lanes_on_one_rank_stay_inside_the_same_limit():
    limit = 64 * MEGABYTE
    with pipeline(256, 4096, limit) as running:
        batches = iter(running)
        highest = 0
        for _ in range(3 * 256):
            next(batches)
            highest = max(highest, running.stats()["stock_bytes"])
        assert highest <= limit
