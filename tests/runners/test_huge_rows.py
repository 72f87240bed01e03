"""A row of 200 MB goes through every runner, whatever the memory limit: what one row needs is had, or said."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

HUGE = 200 << 20


def same(row):
    return row


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("huge")
    table = pa.table({"n": [0, 1, 2], "blob": [b"x" * 10, b"y" * HUGE, b"z" * 20]})
    pq.write_table(table, folder / "0.parquet", row_group_size=1, compression="lz4")
    return folder


@pytest.mark.parametrize(
    ("runner", "isolate"), [("inline", False), ("threads", False), ("processes", False), ("processes", True)]
)
def test_a_row_larger_than_the_memory_limit_arrives_whole(files, runner, isolate):
    work = StaticMixtureWorkSource([Dataset.from_path("a", files)], {"a": 1}, shuffle_shards=False)
    made = Pipeline(work).map_transform(same, schema={"n": "int64", "blob": "binary"}).shuffle(2).batch(1)
    workers = 0 if runner == "inline" else 1
    found = {}
    with made.options(runner=runner, parallelism=workers, isolate=isolate, memory_limit="64MB") as pipeline:
        for batch in pipeline:
            blob = batch["blob"][0].as_buffer()
            found[batch["n"].to_pylist()[0]] = (
                blob.size,
                blob.slice(0, 1).to_pybytes(),
                blob.slice(blob.size - 1).to_pybytes(),
            )
    assert found == {0: (10, b"x", b"x"), 1: (HUGE, b"y", b"y"), 2: (20, b"z", b"z")}
