"""``zephon convert`` writes the same rows, resumes, and notices what was damaged."""

import json
import subprocess
import sys
import time

import pytest

from zephon.cli import main
from zephon.errors import ConfigError
from zephon.io import Dataset
from zephon.io.convert import MANIFEST, convert

ROWS = 300


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    for shard, (start, stop) in enumerate([(0, 120), (120, 120), (120, 290), (290, ROWS)]):
        lines = [
            json.dumps({"n": n, "text": f"text {n} " * (n % 7), "tags": ["a", None][: n % 3]})
            for n in range(start, stop)
        ]
        (folder / f"{shard}.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


def rows_of(path):
    return Dataset.from_path("a", path).head(10 * ROWS)


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
@pytest.mark.parametrize("size", [1500, 1 << 20])
def test_the_rows_are_the_same_in_the_same_order(source, tmp_path, to, size):
    expected = rows_of(source)
    done = convert(Dataset.from_path("a", source), tmp_path / "there", to, shard_bytes=size)
    assert rows_of(tmp_path / "there") == expected
    assert done.rows == ROWS
    assert (done.shards > 3) == (size == 1500)
    again = convert(Dataset.from_path("a", source), tmp_path / "there", to, shard_bytes=size)
    assert (again.written, again.shards, again.nbytes) == (0, done.shards, done.nbytes)


def test_what_was_damaged_or_removed_is_written_again_and_nothing_else(source, tmp_path):
    there = tmp_path / "there"
    done = convert(Dataset.from_path("a", source), there, "parquet", shard_bytes=1500)
    (there / "part-00001.parquet").unlink()
    path = there / "part-00002.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert convert(Dataset.from_path("a", source), there, "parquet", shard_bytes=1500).written == 2
    assert done.shards > 3
    assert rows_of(there) == rows_of(source)


def test_who_is_killed_goes_on_where_he_was(source, tmp_path):
    there = tmp_path / "there"
    command = [sys.executable, "-m", "zephon.cli", "convert", str(source), str(there), "--to", "parquet"]
    process = subprocess.Popen([*command, "--shard-bytes", "120"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list(there.glob("part-*"))) < 3 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.wait()
    finished = len(json.loads((there / MANIFEST).read_text())["shards"])
    done = convert(Dataset.from_path("a", source), there, "parquet", shard_bytes=120)
    assert done.written == done.shards - finished
    assert rows_of(there) == rows_of(source)


def test_another_conversion_or_other_files_are_not_written_over(source, tmp_path):
    there = tmp_path / "there"
    convert(Dataset.from_path("a", source), there, "jsonl")
    for to, folder in (("parquet", there), ("jsonl", source)):
        with pytest.raises(ConfigError) as caught:
            convert(Dataset.from_path("a", source), folder, to)
        assert caught.value.code == "convert-destination"


def test_the_command_says_what_it_did(source, tmp_path, capsys):
    assert main(["convert", str(source), str(tmp_path / "there"), "--to", "parquet"]) == 0
    assert capsys.readouterr().out.startswith("300 rows in 1 shards, ")
    assert main(["convert", str(source), str(tmp_path / "other"), "--to", "nothing"]) == 1
