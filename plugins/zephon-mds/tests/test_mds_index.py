"""index.json and the files beside it: what is missing, left over, merged, or compared by its hash."""

import hashlib
import json
import shutil

import numpy as np
import pytest

from zephon.errors import BadRowsError, ConfigError, ShardError
from zephon.io import Dataset
from zephon_mds.format import MdsFormat

from .conftest import GOLDEN, DiskContext, expected, read, shards


@pytest.fixture
def data(tmp_path):
    """A copy of the golden scalars."""
    return shutil.copytree(GOLDEN / "scalars", tmp_path / "data")


def code_of(folder, fmt=None):
    """The code of the first error any shard of a folder raises."""
    for shard in shards(folder, fmt):
        try:
            read(shard, fmt=fmt)
        except (ShardError, ConfigError) as error:
            return error.code
    return None


@pytest.mark.parametrize("missing", ["shard.00000.mds", "shard.00001.mds", "shard.00002.mds"])
def test_a_missing_shard_is_an_error_not_fewer_rows(data, missing):
    (data / missing).unlink()
    assert code_of(data) == "index-file-mismatch"
    with pytest.raises(ShardError) as excinfo:
        Dataset.from_path("d", data).total()
    assert excinfo.value.code == "index-file-mismatch"


def test_a_shard_that_is_not_listed_is_an_error(data):
    shutil.copy(data / "shard.00000.mds", data / "shard.00009.mds")
    assert code_of(data) == "index-file-mismatch"


def test_shards_without_an_index_are_an_error(data):
    (data / "index.json").unlink()
    assert code_of(data) == "index-file-mismatch"


def test_a_glob_of_some_shards_reads_these(data):
    some = Dataset.from_path("d", data / "shard.0000[01].mds")
    rows = expected()
    assert some.total() == len(rows["scalars/shard.00000.mds"]) + len(rows["scalars/shard.00001.mds"])


@pytest.mark.parametrize("change", [{"version": 1}, {"format": "json"}, {"samples": -1}, {"column_names": ["text"]}])
def test_an_entry_of_another_kind_is_an_error(data, change):
    stated = json.loads((data / "index.json").read_text())
    stated["shards"][0] |= change
    (data / "index.json").write_text(json.dumps(stated))
    assert code_of(data) == "shard-corrupt"


def test_an_unknown_compression_is_an_error(tmp_path):
    data = shutil.copytree(GOLDEN / "zstd", tmp_path / "data")
    index = data / "index.json"
    index.write_text(index.read_text().replace('"compression": "zstd"', '"compression": "lz9"'))
    assert code_of(data) == "shard-unsupported"


def test_an_unknown_encoding_leaves_the_other_columns_readable(data):
    for file in data.iterdir():
        file.write_bytes(file.read_bytes().replace(b'"str_decimal"', b'"str_decimbl"'))
    shard = shards(data)[0]
    assert read(shard, ["i8"]).num_rows
    with pytest.raises(ShardError) as excinfo:
        read(shard, ["exact"])
    assert excinfo.value.code == "field-conflict"


def test_a_merged_index_above_its_streams_is_found(tmp_path):
    data = shutil.copytree(GOLDEN / "streams", tmp_path / "data")
    merged = []
    for part in ("a", "b"):
        for entry in json.loads((data / part / "index.json").read_text())["shards"]:
            entry["raw_data"]["basename"] = f"{part}/{entry['raw_data']['basename']}"
            merged.append(entry)
        (data / part / "index.json").unlink()
    (data / "index.json").write_text(json.dumps({"version": 2, "shards": merged}, sort_keys=True))
    found = Dataset.from_path("d", data)
    assert [row["n"] for row in found.head(99)] == list(range(25))


def test_a_shard_that_is_there_plain_and_compressed_is_read_plain(tmp_path):
    data = shutil.copytree(GOLDEN / "zstd", tmp_path / "data")
    rows = [row for shard in shards(data) for row in read(shard).to_pylist()]
    first = shards(data)[0]
    fmt, context = MdsFormat(), DiskContext()
    reader = fmt.open(first, fmt.index(first, context), context)
    reader.read(np.arange(1), None)
    (data / "shard.00000.mds").write_bytes(reader._content.to_pybytes())
    assert [shard.name for shard in shards(data)] == ["shard.00000.mds", "shard.00001.mds.zstd"]
    assert [row for shard in shards(data) for row in read(shard).to_pylist()] == rows


@pytest.mark.parametrize("folder", ["scalars", "zstd"])
def test_hashes_are_compared_by_option(folder, tmp_path):
    data = shutil.copytree(GOLDEN / folder, tmp_path / "data")
    checked = MdsFormat(validate_hash="sha1")
    assert [read(shard, fmt=checked) for shard in shards(data)] == [read(shard) for shard in shards(data)]
    index = data / "index.json"
    first = shards(data)[0]
    digest = hashlib.sha1((data / first.name).read_bytes(), usedforsecurity=False).hexdigest()
    assert digest in index.read_text()
    index.write_text(index.read_text().replace(digest, "0" * 40))
    assert code_of(data, checked) == "shard-corrupt"
    assert code_of(data) is None


@pytest.mark.parametrize("name", ["md5", "sha3"])
def test_a_hash_index_json_does_not_give_is_an_error(data, name):
    assert code_of(data, MdsFormat(validate_hash=name)) == "hash-unavailable"


def test_a_hash_whose_library_is_missing_says_what_to_install(data):
    try:
        import xxhash  # noqa: F401
    except ImportError:
        assert code_of(data, MdsFormat(validate_hash="xxh64")) == "hash-unavailable"
    else:
        assert code_of(data, MdsFormat(validate_hash="xxh64")) is None


def test_bad_rows_of_all_columns_are_named_at_once(data):
    fmt, context = MdsFormat(), DiskContext()
    shard = shards(data)[0]
    index = fmt.index(shard, context)
    offsets = index.blob.column("offsets")[0].values.to_numpy()
    content = bytearray((data / shard.name).read_bytes())
    content[offsets[2] : offsets[2] + 4] = b"\xff\xff\xff\xff"  # a size
    at = content.index("naïve".encode(), int(offsets[3]))
    bad = int(np.searchsorted(offsets, at, side="right") - 1)
    content[at + 2] = 0xFF  # a text
    (data / shard.name).write_bytes(content)
    reader = fmt.open(shard, index, context)
    with pytest.raises(BadRowsError) as excinfo:
        reader.read(np.arange(index.rows), None)
    assert [row.row for row in excinfo.value.rows] == [2, bad]
    assert [row.offset for row in excinfo.value.rows] == [offsets[2], offsets[bad]]
    good = np.setdiff1d(np.arange(index.rows), [2, bad])
    assert reader.read(good, None).num_rows == len(good)


def test_integers_beyond_64_bits_are_bad_rows(data):
    fmt, context = MdsFormat(), DiskContext()
    shard = shards(data)[1]
    index = fmt.index(shard, context)
    rows = expected()[f"scalars/{shard.name}"]
    wanted = max(range(len(rows)), key=lambda i: len(str(rows[i]["digits"])))
    digits = str(rows[wanted]["digits"]).encode()
    assert len(digits) == 19
    content = (data / shard.name).read_bytes()
    (data / shard.name).write_bytes(content.replace(digits, b"9" * 19, 1))
    with pytest.raises(BadRowsError) as excinfo:
        fmt.open(shard, index, context).read(np.arange(index.rows), ["digits"])
    assert [row.row for row in excinfo.value.rows] == [wanted]
