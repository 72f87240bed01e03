"""Files that MosaicML's own writer wrote read as its own reader reads them."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from zephon.errors import ShardError
from zephon.io import Dataset
from zephon_mds.format import MdsFormat

from .conftest import GOLDEN, DiskContext, expected, read, shards

ROWS = expected()
DOCUMENTS = ["zstd", "gz", "br", "bz2", "snappy", "streams/a", "streams/b"]


def same(found, wanted):
    """Whether values agree; floats bit by bit, so that 0.0 is not -0.0."""
    if isinstance(wanted, float):
        return found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
    return found == wanted


def test_every_golden_shard_is_found():
    assert sorted(f"{shard.name}" for shard in shards(GOLDEN)) == sorted(ROWS)


@pytest.mark.parametrize("folder", DOCUMENTS)
def test_documents_in_every_compression_are_what_was_written(folder):
    found = {f"{folder}/{shard.name}": read(shard).to_pylist() for shard in shards(GOLDEN / folder)}
    assert found == {name: rows for name, rows in ROWS.items() if name.rpartition("/")[0] == folder}


def test_scalars_of_every_encoding_are_what_was_written():
    for shard in shards(GOLDEN / "scalars"):
        rows = ROWS[f"scalars/{shard.name}"]
        batch = read(shard)
        for bits in (8, 16, 32, 64):
            assert batch.schema.field(f"u{bits}").type == getattr(pa, f"uint{bits}")()
            assert batch.schema.field(f"i{bits}").type == getattr(pa, f"int{bits}")()
        for found, wanted in zip(batch.to_pylist(), rows, strict=True):
            assert json.loads(found.pop("any")) == wanted.pop("any")
            assert found.pop("exact") == wanted.pop("exact")["decimal"]
            assert found.keys() == wanted.keys()
            wrong = [key for key in wanted if not same(found[key], wanted[key])]
            assert not wrong


@pytest.mark.parametrize("folder", ["arrays", "zstd_arrays"])
def test_arrays_of_every_form_are_what_was_written(folder):
    for shard in shards(GOLDEN / folder):
        batch = read(shard)
        assert batch.schema.field("tokens").type == pa.list_(pa.uint16())
        assert batch.schema.field("free").type == pa.list_(pa.int32())
        assert batch.schema.field("grid").type == pa.list_(pa.list_(pa.float32()))
        assert batch.schema.field("fixed").type == pa.list_(pa.int64())
        assert batch.schema.field("tensor").type == pa.fixed_shape_tensor(pa.float16(), (2, 3))
        tensors = batch.column("tensor").to_numpy_ndarray()
        for place, wanted in enumerate(ROWS[f"{folder}/{shard.name}"]):
            assert tensors[place].tolist() == wanted["tensor"]["array"]
            for name in ("tokens", "free", "grid", "fixed"):
                assert batch.column(name)[place].as_py() == wanted[name]["array"]


def test_images_are_the_bytes_that_lie_there():
    (shard,) = shards(GOLDEN / "media")
    names = ["n", "jpeg", "jpegs", "png", "pil", "pngs"]
    assert read(shard, names).to_pylist() == [
        {name: row[name] for name in names} for row in ROWS[f"media/{shard.name}"]
    ]


def test_pickles_are_refused_unless_allowed_and_then_stay_bytes():
    (shard,) = shards(GOLDEN / "media")
    with pytest.raises(ShardError) as excinfo:
        read(shard, ["object"])
    assert excinfo.value.code == "field-conflict"
    assert "allow_pickle" in str(excinfo.value)
    found = read(shard, ["object"], MdsFormat(allow_pickle=True))
    assert found.to_pylist() == [{"object": row["object"]} for row in ROWS[f"media/{shard.name}"]]


def test_a_dataset_with_a_column_of_pickles_goes_without_it(tmp_path):
    data = Dataset.from_path("m", GOLDEN / "media", index_dir=tmp_path)
    assert data.schema.names == ["jpeg", "jpegs", "n", "pil", "png", "pngs"]
    assert "pickles" in data.conflicts["object"]


@pytest.mark.parametrize("folder", ["scalars", "zstd", "streams"])
def test_a_directory_is_recognised_and_its_rows_come_in_order(folder, tmp_path):
    data = Dataset.from_path("d", GOLDEN / folder, index_dir=tmp_path)
    assert data.format_name == "mds"
    wanted = [row for name, rows in sorted(ROWS.items()) if name.startswith(f"{folder}/") for row in rows]
    assert data.total() == len(wanted)
    text = [row["text"] for row in data.head(len(wanted))]
    assert text == [row["text"] for row in wanted]


def test_indexing_plain_shards_reads_their_offsets_and_index_json_once():
    context = DiskContext()
    found = shards(GOLDEN / "scalars")
    for shard in found:
        MdsFormat().index(shard, context)
    assert [name for name, _, _ in context.reads].count("index.json") == 1
    assert len(context.reads) == 1 + len(found)


def test_indexing_compressed_shards_reads_nothing_but_index_json():
    context = DiskContext()
    for shard in shards(GOLDEN / "zstd"):
        MdsFormat().index(shard, context)
    assert [name for name, _, _ in context.reads] == ["index.json"]


def test_single_rows_of_a_plain_shard_are_read_alone():
    context, fmt = DiskContext(), MdsFormat()
    shard = shards(GOLDEN / "scalars")[0]
    index = fmt.index(shard, context)
    reader = fmt.open(shard, index, context)
    context.reads.clear()
    reader.read(np.array([3, 4, 9]), ["i8"])
    announced = reader.ranges(np.array([3, 4, 9]), None).tolist()
    assert [[start, stop] for _, start, stop in context.reads] == announced
    assert len(announced) == 2


def test_golden_files_are_small():
    assert sum(path.stat().st_size for path in Path(GOLDEN).rglob("*") if path.is_file()) < 150_000
