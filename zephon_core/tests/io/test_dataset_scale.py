"""Hundreds of thousands of shards: bookkeeping is arrays."""

from __future__ import annotations

import gc
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from zephon.abc import FileInfo, ShardIndex
from zephon.io import BlockReader, Dataset

SHARDS = 100_000
SCHEMA = pa.schema([("x", pa.int64())])


@pytest.fixture
def vast(doubles, monkeypatch):
    """A store that lists 100 000 files, and a format that indexes one without looking."""

    def listing(self, url):
        return (FileInfo(url=f"{url}/part/{i:06d}.rows", size=100 + i % 7, mtime=1.0) for i in range(SHARDS))

    monkeypatch.setattr(doubles.FakeStorage, "stat", lambda self, url: (_ for _ in ()).throw(IsADirectoryError(url)))
    monkeypatch.setattr(doubles.FakeStorage, "list", listing)
    monkeypatch.setattr(
        doubles.RowsFormat, "index", lambda self, shard, context: ShardIndex(rows=shard.file.size - 95, schema=SCHEMA)
    )
    return lambda: Dataset.from_path("vast", "fake://store", fmt="rows")


def test_a_hundred_thousand_shards_are_listed_and_indexed_in_seconds_and_leave_no_object_per_shard(vast):
    started = time.perf_counter()
    assert vast().total() == int((np.arange(SHARDS) % 7 + 5).sum())
    gc.collect()
    before = sys.getallocatedblocks()
    again = vast()
    assert again.total() == int((np.arange(SHARDS) % 7 + 5).sum())
    gc.collect()
    assert sys.getallocatedblocks() - before < SHARDS // 10
    assert len(again.fingerprint) == 64
    BlockReader([again], again.schema).close()
    # generous, as the machine may be shared: a step that is not linear would take hours
    assert time.perf_counter() - started < 120
