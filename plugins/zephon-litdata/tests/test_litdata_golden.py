"""Files that LitData's own writer wrote read as its own dataset reads them."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from zephon.errors import ShardError
from zephon.io import Dataset
from zephon_litdata.format import LitDataFormat

from .conftest import GOLDEN, DiskContext, expected, read, read_all, shards

ROWS = expected()
BEFORE = expected("expected-before.jsonl")


def same(found, wanted):
    """Equal, down to the sign of zero."""
    return repr(found) == repr(wanted)


@pytest.mark.parametrize("folder", ["rows", "frames", "each"])
def test_rows_of_every_serializer_are_what_was_written(folder):
    found = read_all(GOLDEN / folder)
    assert same(found, ROWS[folder])
    schema = read(shards(GOLDEN / folder)[0]).schema
    assert schema.field("tokens").type == pa.list_(pa.uint16())
    assert schema.field("tensor").type == pa.list_(pa.float16())
    assert schema.field("mask").type == pa.list_(pa.bool_())
    assert schema.field("grid").type == pa.list_(pa.list_(pa.int32()))
    assert schema.field("cube").type == pa.list_(pa.list_(pa.list_(pa.float32())))
    assert schema.field("scalar").type == pa.int64()


@pytest.mark.parametrize("folder", ["table", "table_zstd"])
def test_nested_rows_kept_as_an_arrow_table_are_what_was_written(folder):
    assert read_all(GOLDEN / folder) == ROWS[folder]


def test_lists_and_dicts_beside_arrays_are_json():
    for row, wanted in zip(read_all(GOLDEN / "mixed"), ROWS["mixed"], strict=True):
        assert row.pop("array") == wanted.pop("array")
        deep = {name: json.loads(text) for name, text in row.pop("deep").items()}
        assert deep == wanted.pop("deep")
        assert {name: json.loads(text) for name, text in row.items()} == wanted


@pytest.mark.parametrize("folder", ["pairs", "zstd"])
def test_the_places_of_a_tuple_are_columns(folder):
    assert [[row["0"], row["1"]] for row in read_all(GOLDEN / folder)] == ROWS[folder]
    assert [[row["0"], row["1"]] for row in read_all(GOLDEN / "before" / folder)] == BEFORE[folder]


def test_an_item_that_is_one_value_is_one_column():
    assert [row["value"] for row in read_all(GOLDEN / "values")] == ROWS["values"]
    assert [row["value"] for row in read_all(GOLDEN / "before" / "values")] == BEFORE["values"]


@pytest.mark.parametrize(("folder", "block"), [("tokens", 4), ("zstd_tokens", 4), ("tokens_numpy", 5)])
def test_token_streams_are_cut_into_blocks_as_the_tokens_loader_does(folder, block):
    fmt = LitDataFormat(block_size=block)
    assert [row["tokens"] for row in read_all(GOLDEN / folder, fmt)] == ROWS[folder]


@pytest.mark.parametrize(("folder", "block"), [("tokens", 4), ("tokens_numpy", 5)])
def test_token_streams_of_an_earlier_version_are_read_alike(folder, block):
    fmt = LitDataFormat(block_size=block)
    assert [row["tokens"] for row in read_all(GOLDEN / "before" / folder, fmt)] == BEFORE[folder]


@pytest.mark.parametrize("folder", ["tokens", "zstd_tokens", "tokens_numpy"])
def test_without_a_block_size_items_of_token_streams_are_rows(folder):
    wanted = [[*range(100 * i, 3 + (i * 5) % 11 + 100 * i)] for i in range(9)]
    assert [row["tokens"] for row in read_all(GOLDEN / folder)] == wanted


def test_rows_of_an_earlier_version_are_what_was_written():
    names = [name for name in BEFORE["rows"][0] if name != "scalar"]  # a pickle then
    found = read_all(GOLDEN / "before" / "rows", columns=names)
    assert same(found, [{name: row[name] for name in names} for row in BEFORE["rows"]])


def test_images_are_the_bytes_that_lie_there():
    names = ["n", "jpeg", "pil"]
    assert read_all(GOLDEN / "media", columns=names) == ROWS["media"]


def test_pickles_are_refused_unless_allowed_and_then_stay_bytes():
    shard = shards(GOLDEN / "media")[0]
    with pytest.raises(ShardError) as excinfo:
        read(shard, ["object"])
    assert excinfo.value.code == "field-conflict"
    assert "allow_pickle" in str(excinfo.value)
    found = read(shard, ["object"], LitDataFormat(allow_pickle=True))
    assert all(row["object"].startswith(b"\x80") for row in found.to_pylist())


@pytest.mark.parametrize("folder", [*ROWS])
def test_a_directory_is_recognised_and_its_rows_counted(folder, tmp_path):
    block = {"tokens": 4, "zstd_tokens": 4, "tokens_numpy": 5}.get(folder, 0)
    options = {"block_size": block} if block else {}
    data = Dataset.from_path("d", GOLDEN / folder, index_dir=tmp_path, format_options=options)
    assert data.format_name == "litdata"
    assert data.total() == len(ROWS[folder])
    assert len(data.head(3)) == 3


def test_indexing_chunks_reads_their_beginning_and_end_and_index_json_once():
    context = DiskContext()
    for shard in shards(GOLDEN / "pairs"):
        LitDataFormat().index(shard, context)
    names = [name for name, _, _ in context.reads]
    assert names.count("index.json") == 1
    assert len(names) == 1 + 2 * len(shards(GOLDEN / "pairs"))


def test_indexing_chunks_that_are_compressed_as_a_whole_reads_nothing_but_index_json():
    context = DiskContext()
    for shard in shards(GOLDEN / "zstd"):
        LitDataFormat().index(shard, context)
    assert [name for name, _, _ in context.reads] == ["index.json"]


@pytest.mark.parametrize(("folder", "block"), [("rows", 0), ("frames", 0), ("each", 0), ("table", 0), ("tokens", 3)])
def test_reads_touch_exactly_what_was_announced(folder, block):
    context, fmt = DiskContext(), LitDataFormat(block_size=block)
    shard = shards(GOLDEN / folder)[0]
    index = fmt.index(shard, context)
    for rows in (np.array([0]), np.array([1, 2]), np.arange(index.rows)[::2]):
        reader = fmt.open(shard, index, context)
        context.reads.clear()
        found = reader.read(rows, None)
        assert [[start, stop] for _, start, stop in context.reads] == reader.ranges(rows, None).tolist()
        assert same(found.to_pylist(), [reader.read(rows[i : i + 1], None).to_pylist()[0] for i in range(len(rows))])
        reader.close()


def test_frames_are_units():
    shard = shards(GOLDEN / "frames")[0]
    index = LitDataFormat().index(shard, DiskContext())
    assert index.units.tolist() == [0, 3, 5]


def test_golden_files_are_small():
    assert sum(path.stat().st_size for path in Path(GOLDEN).rglob("*") if path.is_file()) < 150_000
