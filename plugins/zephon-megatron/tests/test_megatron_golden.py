"""Files written by megatron-core, datatrove and numpy, against what these read from them."""

import json
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from zephon.errors import BadRowsError
from zephon_megatron.format import MegatronFormat
from zephon_testkit.files import DiskContext, head, listing

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = {line.pop("file"): line for line in map(json.loads, (GOLDEN / "expected.jsonl").read_text().splitlines())}
SHARDS = {shard.name: shard for shard in MegatronFormat().discover(listing(GOLDEN))}
INDEXED = sorted(name for name in EXPECTED if name.endswith(".bin"))


def rows_of(name, *, is_local=True, **options):
    made, context = MegatronFormat(**options), DiskContext(is_local=is_local)
    index = made.index(SHARDS[name], context)
    reader = made.open(SHARDS[name], index, context)
    found = reader.read(np.arange(index.rows), None)["input_ids"].to_pylist()
    reader.close()
    return found


def test_every_golden_file_is_found_and_those_that_tell_are_recognised():
    assert set(SHARDS) == set(EXPECTED)
    known = {file.name for file in listing(GOLDEN) if MegatronFormat().recognise(head(file))}
    assert {name.replace(".bin", ".idx") for name in EXPECTED} <= known


@pytest.mark.parametrize("is_local", [True, False], ids=["local", "elsewhere"])
@pytest.mark.parametrize("rows", ["documents", "sequences"])
@pytest.mark.parametrize("name", INDEXED)
def test_rows_of_indexed_datasets_are_those_of_the_library(name, rows, is_local):
    assert rows_of(name, rows=rows, is_local=is_local) == EXPECTED[name][rows]


@pytest.mark.parametrize("is_local", [True, False], ids=["local", "elsewhere"])
@pytest.mark.parametrize("name", sorted(name for name, line in EXPECTED.items() if "windows" in line))
def test_windows_are_those_of_the_library(name, is_local):
    assert len(EXPECTED[name]["windows"]) >= 5
    assert rows_of(name, window=9, is_local=is_local) == EXPECTED[name]["windows"]


@pytest.mark.parametrize("name", sorted(name for name in EXPECTED if name.endswith("2d.npy")))
def test_rows_of_two_dimensional_arrays_are_those_of_numpy(name):
    assert rows_of(name) == EXPECTED[name]["documents"]


@pytest.mark.parametrize("size", [2, 4])
def test_documents_of_token_files_end_where_their_writer_ended_them(size):
    step = 1 if size == 2 else 65537
    assert rows_of(f"tokens-{size}.ds") == [
        [n * 1000 + i * step for i in range(length)] for n, length in enumerate((5, 1, 0, 40, 13))
    ]


@pytest.mark.parametrize("name", INDEXED)
def test_windows_run_across_the_documents_of_an_indexed_dataset(name):
    stream = list(chain.from_iterable(EXPECTED[name]["documents"]))
    windows = [stream[start : start + 4] for start in range(0, len(stream) - 3, 3)]
    assert rows_of(name, window=4, stride=3) == windows


def test_an_unsigned_value_that_is_no_token_id_makes_its_row_bad(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1, 2], [3, 2**31], [5, 6], [2**32 - 1, 2**31]], np.uint32))
    (shard,) = MegatronFormat().discover(listing(tmp_path))
    index = MegatronFormat().index(shard, DiskContext())
    reader = MegatronFormat().open(shard, index, DiskContext())
    with pytest.raises(BadRowsError) as raised:
        reader.read(np.arange(4), None)
    assert [(bad.row, bad.offset) for bad in raised.value.rows] == [(1, 128 + 12), (3, 128 + 24)]
    assert reader.read(np.array([0, 2]), None)["input_ids"].to_pylist() == [[1, 2], [5, 6]]
