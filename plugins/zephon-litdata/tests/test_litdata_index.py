"""index.json and the files beside it: what is missing, left over, or of a kind that is not read."""

import json
import shutil

import numpy as np
import pytest

from zephon.errors import BadRowsError, ConfigError, ShardError
from zephon.io import Dataset
from zephon_litdata.format import LitDataFormat

from .conftest import GOLDEN, DiskContext, read, shards


@pytest.fixture
def data(tmp_path):
    """A copy of the golden pairs."""
    return shutil.copytree(GOLDEN / "pairs", tmp_path / "data")


def code_of(folder, fmt=None):
    """The code of the first error any chunk of a folder raises."""
    for shard in shards(folder, fmt):
        try:
            read(shard, fmt=fmt)
        except (ShardError, ConfigError) as error:
            return error.code
    return None


def change(folder, **config):
    stated = json.loads((folder / "index.json").read_text())
    stated["config"] |= config
    (folder / "index.json").write_text(json.dumps(stated))


@pytest.mark.parametrize("missing", ["chunk-0-0.bin", "chunk-0-1.bin", "chunk-0-2.bin"])
def test_a_missing_chunk_is_an_error_not_fewer_rows(data, missing):
    (data / missing).unlink()
    assert code_of(data) == "index-file-mismatch"
    with pytest.raises(ShardError) as excinfo:
        Dataset.from_path("d", data).total()
    assert excinfo.value.code == "index-file-mismatch"


def test_a_chunk_that_is_not_listed_is_an_error(data):
    shutil.copy(data / "chunk-0-0.bin", data / "chunk-1-0.bin")
    assert code_of(data) == "index-file-mismatch"


def test_chunks_without_an_index_are_an_error(data):
    (data / "index.json").unlink()
    assert code_of(data) == "index-file-mismatch"


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"encryption": {"algorithm": "fernet", "level": "chunk"}}, "shard-unsupported"),
        ({"item_loader": "ParquetLoader"}, "shard-unsupported"),
        ({"compression": "lz9"}, "shard-unsupported"),
        ({"compression": "zstd", "compression_level": "batch"}, "shard-corrupt"),
        ({"data_format": None}, "shard-corrupt"),
        ({"data_format": ["str"]}, "shard-corrupt"),
        ({"data_spec": "[1, {}]"}, "shard-corrupt"),
    ],
    ids=["encrypted", "parquet", "compression", "no-frames", "no-format", "short-format", "no-spec"],
)
def test_what_cannot_be_read_is_said(data, config, code):
    change(data, **config)
    assert code_of(data) == code


def test_an_unknown_serializer_leaves_the_other_columns_readable(data):
    change(data, data_format=["str", "mine"])
    shard = shards(data)[0]
    assert read(shard, ["0"]).num_rows
    with pytest.raises(ShardError) as excinfo:
        read(shard, ["1"])
    assert excinfo.value.code == "field-conflict"


def test_a_block_size_for_other_than_token_streams_is_an_error(data):
    assert code_of(data, LitDataFormat(block_size=4)) == "block-size-without-tokens"


@pytest.mark.parametrize("block_size", [-1, True, 2.5])
def test_a_block_size_is_a_number_of_tokens(block_size):
    with pytest.raises(ValueError, match="block_size"):
        LitDataFormat(block_size=block_size)


def test_a_glob_of_some_chunks_reads_these(data):
    assert Dataset.from_path("d", data / "chunk-0-[01].bin").total() == 10


def test_bad_rows_of_all_columns_are_named_at_once(data):
    fmt, context = LitDataFormat(), DiskContext()
    shard = shards(data)[0]
    index = fmt.index(shard, context)
    offsets = index.blob.column("offsets")[0].values.to_numpy()
    content = bytearray((data / shard.name).read_bytes())
    content[offsets[1] : offsets[1] + 4] = b"\xff\xff\xff\xff"  # a size
    content[offsets[3] + 8] = 0xFF  # a text
    (data / shard.name).write_bytes(content)
    reader = fmt.open(shard, index, context)
    with pytest.raises(BadRowsError) as excinfo:
        reader.read(np.arange(index.rows), None)
    assert [(row.row, row.offset) for row in excinfo.value.rows] == [(1, offsets[1]), (3, offsets[3])]
    assert reader.read(np.array([0, 2, 4]), None).num_rows == 3
