"""Files that pyarrow 17 and Hugging Face datasets 4.0 wrote, and damage to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from zephon.abc import FileHead, FileInfo, Shard
from zephon.block import canonical_schema, conform
from zephon.errors import BadRowsError, ConfigError, ShardError
from zephon.io import Dataset
from zephon_arrow.format import ArrowFormat
from zephon_testkit.files import DiskContext, listing

from .fuzz_arrow import FILES, GOLDEN, fuzz, read_rows

EXPECTED = [json.loads(line) for line in (GOLDEN / "expected.jsonl").read_text().splitlines()]


def shard_at(path: Path) -> Shard:
    return Shard(url=str(path), name=path.name, file=FileInfo(url=str(path), size=path.stat().st_size))


def table_of(path: Path) -> pa.Table:
    """The whole file as pyarrow itself reads it, in canonical types."""
    table = (
        pa.ipc.open_stream(path).read_all() if path.suffix == ".arrow" else feather.read_table(path, memory_map=False)
    )
    schema = canonical_schema(table.schema)
    return pa.Table.from_batches([conform(batch, schema) for batch in table.to_batches()], schema)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_local", [True, False])
def test_golden_files_read_as_pyarrow_reads_them(name: str, is_local: bool) -> None:
    assert read_rows(GOLDEN / name, is_local=is_local).to_pylist() == table_of(GOLDEN / name).to_pylist()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_local", [True, False])
def test_any_rows_and_columns_of_golden_files_read_as_pyarrow_reads_them(name: str, is_local: bool) -> None:
    context, shard = DiskContext(is_local=is_local), shard_at(GOLDEN / name)
    index = ArrowFormat().index(shard, context)
    reader = ArrowFormat().open(shard, index, context)
    expected = table_of(GOLDEN / name)
    for column in [*index.schema.names, *index.schema.names[::-1]]:
        for rows in ([0, 1], [3], [index.rows - 1], list(range(0, index.rows, 3)), list(range(2, index.rows))):
            found = reader.read(np.array(rows), [column])
            assert found.column(0).to_pylist() == expected.column(column).take(pa.array(rows)).to_pylist()


@pytest.mark.parametrize(("folder", "options"), [("saved", {}), ("splits/train", {}), ("splits", {"split": "train"})])
def test_a_hugging_face_folder_is_recognised_and_reads_as_the_library_reads_it(
    tmp_path: Path, folder: str, options: dict[str, str]
) -> None:
    shutil.copytree(GOLDEN / folder, tmp_path / "data")
    cache = next((tmp_path / "data").rglob("data-0*.arrow"))
    shutil.copy(cache, cache.parent / "cache-0123456789.arrow")
    dataset = Dataset.from_path("hf", tmp_path / "data", format_options=options)
    shards = sorted(ArrowFormat(**options).discover(listing(tmp_path / "data")), key=lambda shard: shard.name)
    rows = [row for shard in shards for row in read_rows(Path(shard.url), is_local=True).to_pylist()]
    assert rows == EXPECTED
    assert dataset.schema.names == list(EXPECTED[0])


@pytest.mark.parametrize("split", ["", "validation"])
def test_a_split_that_is_not_said_or_not_there_is_an_error_that_names_those_there_are(split: str) -> None:
    with pytest.raises(ConfigError) as raised:
        list(ArrowFormat(split=split).discover(listing(GOLDEN / "splits")))
    assert raised.value.code == "split-unknown"
    assert "test, train" in raised.value.found


def test_rows_selected_by_a_file_of_their_own_are_refused(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "saved", tmp_path, dirs_exist_ok=True)
    shutil.copy(GOLDEN / "saved/data-00000-of-00002.arrow", tmp_path / "indices.arrow")
    with pytest.raises(ShardError) as raised:
        list(ArrowFormat().discover(listing(tmp_path)))
    assert raised.value.code == "shard-unsupported"


def test_a_single_file_without_a_suffix_is_recognised_by_its_content(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "lz4.feather", tmp_path / "rows")
    assert len(Dataset.from_path("x", tmp_path / "rows")) == 40


def test_feather_of_version_1_is_recognised_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.feather"
    path.write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    assert ArrowFormat().recognise(FileHead(info=FileInfo(url=str(path), size=108), head=path.read_bytes()))
    with pytest.raises(ShardError) as raised:
        ArrowFormat().index(shard_at(path), DiskContext())
    assert raised.value.code == "shard-unsupported"


def test_rows_that_follow_each_other_are_views_of_the_mapped_file() -> None:
    context, shard = DiskContext(), shard_at(GOLDEN / "uncompressed.feather")
    reader = ArrowFormat().open(shard, ArrowFormat().index(shard, context), context)
    allocated = pa.total_allocated_bytes()
    batches = [reader.read(np.arange(start, start + 8), ["id", "meta"]) for start in (0, 16)]
    assert pa.total_allocated_bytes() <= allocated, "what other tests have left may go meanwhile"
    reader.close()
    assert [row["id"] for batch in batches for row in batch.to_pylist()] == [*range(8), *range(16, 24)]


def big_file(path: Path, **options: str) -> pa.Table:
    numbers = np.arange(20_000)
    table = pa.table(
        {"text": [f"row {i} " * 20 for i in numbers], "n": numbers, "noise": np.random.default_rng(0).random(20_000)}
    )
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=1000)
    return table


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_elsewhere_little_more_than_the_columns_wanted_is_fetched(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "big.arrow"
    table = big_file(path, **({} if compression == "none" else {"compression": compression}))
    shard, context = shard_at(path), DiskContext(is_local=False)
    index = ArrowFormat().index(shard, context)
    reader = ArrowFormat().open(shard, index, context)
    rows = np.arange(5_000, 9_000)
    ranges = reader.ranges(rows, ["n"])
    fetched = int((ranges[:, 1] - ranges[:, 0]).sum())
    assert fetched <= 1.2 * 8 * len(rows)
    allowed = DiskContext(is_local=False, allowed=[(int(a), int(b)) for a, b in ranges])
    found = ArrowFormat().open(shard, index, allowed).read(rows, ["n"])
    assert found.column("n").to_pylist() == table.column("n").slice(5_000, 4_000).to_pylist()
    assert not allowed.trespasses


def test_an_index_without_kept_metadata_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zephon_arrow.layout._MOST_KEPT", 0)
    for is_local in (True, False):
        found = read_rows(GOLDEN / "zstd.feather", is_local=is_local)
        assert found.to_pylist() == table_of(GOLDEN / "zstd.feather").to_pylist()


def test_text_that_is_not_utf8_is_a_bad_row_and_all_others_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "bad.arrow"
    texts = pa.array([b"good", b"\xff bad", b"good", b"\xfe"])
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), texts.view(pa.string()))
    batch = pa.record_batch([texts.view(pa.string()), nested], names=["text", "nested"])
    with pa.ipc.new_file(path, batch.schema) as writer:
        writer.write_batch(batch)
    context, shard = DiskContext(), shard_at(path)
    reader = ArrowFormat().open(shard, ArrowFormat().index(shard, context), context)
    for column in ("text", "nested"):
        with pytest.raises(BadRowsError) as raised:
            reader.read(np.arange(4), [column])
        assert [bad.row for bad in raised.value.rows] == [1, 3]
        assert reader.read(np.array([0, 2]), [column]).num_rows == 2


def test_a_damaged_offset_names_batch_byte_and_field_and_leaves_other_batches(tmp_path: Path) -> None:
    path = tmp_path / "big.arrow"
    big_file(path)
    content = bytearray(path.read_bytes())
    # Offsets in the middle of the second batch.
    width = [len(f"row {i} " * 20) for i in range(1000, 1501)]
    place = content.index(np.cumsum([0, *width], dtype="<i4")[495:501].tobytes())
    content[place : place + 4] = b"\xff\xff\xff\x7f"
    path.write_bytes(content)
    for is_local in (True, False):
        context, shard = DiskContext(is_local=is_local), shard_at(path)
        reader = ArrowFormat().open(shard, ArrowFormat().index(shard, context), context)
        with pytest.raises(ShardError) as raised:
            reader.read(np.arange(20_000), None)
        assert raised.value.code == "shard-corrupt"
        assert "record batch 1 at byte" in raised.value.found
        assert "'text'" in raised.value.found
        assert reader.read(np.r_[0:1000, 2000:20_000], None).num_rows == 19_000
        assert reader.read(np.arange(1_000, 2_000), ["n"]).num_rows == 1_000


@pytest.mark.parametrize("is_local", [True, False])
def test_another_file_of_the_same_size_has_changed(tmp_path: Path, is_local: bool) -> None:
    path = tmp_path / "rows.arrow"
    for number in range(2):
        batch = pa.record_batch({"n": list(range(10))} if number == 0 else {"n": [None, *range(9)]})
        with pa.ipc.new_file(path, batch.schema) as writer:
            writer.write_batch(batch)
        if number == 0:
            shard = shard_at(path)
            index = ArrowFormat().index(shard, DiskContext())
    context = DiskContext(is_local=is_local)
    with pytest.raises(ShardError) as raised:
        ArrowFormat().open(shard, index, context).read(np.arange(10), None)
    assert raised.value.code == "shard-changed"


def test_mutated_golden_files_give_errors_of_ours_or_rows() -> None:
    found = fuzz(60, 0)
    assert found["shard-truncated"] and found["shard-corrupt"] and found["rows"]


def test_record_batches_without_rows_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "gaps.arrow"
    full, empty = pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": pa.array([], pa.int64())})
    with pa.ipc.new_stream(path, full.schema) as writer:
        for batch in (empty, full, empty, empty, full, empty):
            writer.write_batch(batch)
    index = ArrowFormat().index(shard_at(path), DiskContext())
    assert index.units is not None
    assert index.units.tolist() == [0, 2, 4]
    assert read_rows(path, is_local=False).column("n").to_pylist() == [1, 2, 1, 2]
