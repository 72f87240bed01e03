"""Columns of every kind, in batches of any size, read in any selection from disk and from elsewhere."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon.abc import FileInfo, Shard
from zephon.block import canonical_schema, conform
from zephon_arrow.format import ArrowFormat
from zephon_testkit.files import DiskContext

ROWS = 23
TEXTS = [None if i % 5 == 3 else f"text {i} " * (i % 4) for i in range(ROWS)]
LISTS = [None if i % 7 == 2 else list(range(i % 4)) for i in range(ROWS)]
COLUMNS: dict[str, pa.Array] = {
    "int": pa.array([None if i % 6 == 1 else i for i in range(ROWS)], pa.int16()),
    "bool": pa.array([i % 3 == 0 for i in range(ROWS)]),
    "null": pa.nulls(ROWS),
    "text": pa.array(TEXTS),
    "large": pa.array(TEXTS, pa.large_string()),
    "view": pa.array(TEXTS, pa.string_view()),
    "kind": pa.array(TEXTS).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([5, 20, ROWS], pa.int32()), pa.array(["a", None, "b"])),
    "list": pa.array(LISTS, pa.list_(pa.int64())),
    "large_list": pa.array(LISTS, pa.large_list(pa.int8())),
    "list_view": pa.array(LISTS, pa.list_view(pa.int32())),
    "pair": pa.array([[i, i / 2] for i in range(ROWS)], pa.list_(pa.float32(), 2)),
    "map": pa.array([[("k", i)] * (i % 3) for i in range(ROWS)], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([{"x": i, "y": [TEXTS[i]]} for i in range(ROWS)]),
    "time": pa.array(range(ROWS), pa.timestamp("us", "UTC")),
    "decimal": pa.array(range(ROWS), pa.int64()).cast(pa.decimal128(21, 2)),
    "fixed": pa.array([bytes([i, 1, 2]) for i in range(ROWS)], pa.binary(3)),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(ROWS * 4, dtype="i4").reshape(ROWS, 2, 2)),
}


@given(
    names=st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=6, unique=True),
    cuts=st.sets(st.integers(0, ROWS), max_size=4),
    is_stream=st.booleans(),
    compression=st.sampled_from([None, "lz4", "zstd"]),
    is_local=st.booleans(),
    data=st.data(),
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows_and_columns_of_any_types_are_read_from_the_ranges_announced(
    tmp_path: Path,
    names: list[str],
    cuts: set[int],
    is_stream: bool,
    compression: str | None,
    is_local: bool,
    data: Any,
) -> None:
    batch = pa.record_batch({name: COLUMNS[name] for name in names})
    path = tmp_path / "rows.arrow"
    options = pa.ipc.IpcWriteOptions(compression=compression)
    edges = [0, *sorted(cuts), ROWS]
    with (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(path, batch.schema, options=options) as writer:
        for start, stop in pairwise(edges):
            writer.write_batch(batch.slice(start, stop - start))
    shard = Shard(url=str(path), name="rows.arrow", file=FileInfo(url=str(path), size=path.stat().st_size))
    index = ArrowFormat().index(shard, DiskContext(is_local=is_local))
    assert index.rows == ROWS
    expected = conform(batch, canonical_schema(batch.schema)).to_pylist()
    reader = ArrowFormat().open(shard, index, DiskContext(is_local=is_local))
    for _ in range(3):
        rows = sorted(data.draw(st.sets(st.integers(0, ROWS - 1))))
        columns = data.draw(st.permutations(names))[: data.draw(st.integers(0, len(names)))]
        wanted = [{name: expected[row][name] for name in columns} for row in rows]
        found = reader.read(np.array(rows, dtype=np.int64), columns)
        assert found.num_rows == len(rows)
        assert (found.to_pylist() if columns else []) == (wanted if columns else [])
        ranges = reader.ranges(np.array(rows, dtype=np.int64), columns)
        allowed = DiskContext(is_local=False, allowed=[(int(a), int(b)) for a, b in ranges])
        ArrowFormat().open(shard, index, allowed).read(np.array(rows, dtype=np.int64), columns)
        assert not allowed.trespasses


@pytest.mark.parametrize("name", sorted(set(COLUMNS) - {"view", "list_view"}))
def test_of_a_column_beside_any_other_only_its_own_bytes_are_fetched(tmp_path: Path, name: str) -> None:
    wide = pa.array(["x" * 50_000] * ROWS)
    batch = pa.record_batch({"before": wide, name: COLUMNS[name], "after": wide})
    path = tmp_path / "rows.arrow"
    with pa.ipc.new_file(path, batch.schema) as writer:
        writer.write_batch(batch)
    shard = Shard(url=str(path), name="rows.arrow", file=FileInfo(url=str(path), size=path.stat().st_size))
    context = DiskContext(is_local=False)
    reader = ArrowFormat().open(shard, ArrowFormat().index(shard, context), context)
    ranges = reader.ranges(np.arange(ROWS), [name])
    assert int((ranges[:, 1] - ranges[:, 0]).sum()) < 10_000
    expected = conform(batch.select([name]), canonical_schema(batch.select([name]).schema))
    assert reader.read(np.arange(ROWS), [name]).to_pylist() == expected.to_pylist()
