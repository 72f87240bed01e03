"""The index: built once, kept beside the data, reused while valid, rebuilt for what changed, never trusted blindly."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.abc import FileInfo, Shard, ShardIndex
from zephon.errors import EngineError, ShardError, StorageError
from zephon.io import Dataset, indexing
from zephon.io.index import DamagedIndexError, IndexWriter, read_index
from zephon.io.progress import Progress
from zephon.io.shards import ShardTable

ROWS = [{"x": 1}, {"x": 2}]


def index_file(root):
    (found,) = Path(root).glob(".zephon/*")
    return found


def touch_later(path, content=None):
    """Change a file so that its modification time surely differs."""
    if content is not None:
        path.write_bytes(content)
    at = path.stat().st_mtime_ns + 2_000_000_000
    os.utime(path, ns=(at, at))


entries = st.builds(
    ShardIndex,
    rows=st.integers(0, 5),
    units=st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=4).map(lambda v: np.array(v, np.int64)),
    schema=st.sampled_from([pa.schema([]), pa.schema([("x", pa.int64())]), pa.schema([("y", pa.list_(pa.string()))])]),
    blob=st.none()
    | st.lists(st.integers(0, 99), max_size=3).map(lambda v: pa.record_batch({"o": pa.array(v, pa.float64())}))
    | st.just(pa.record_batch({"s": pa.array(["a", None]), "t": pa.array([1, 2])})),
    bad_rows=st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 99), st.text(max_size=3)), max_size=2).map(tuple),
)


def shards_named(n):
    return [Shard(url=f"u{i}", name=f"n{i:03d}", file=FileInfo(url=f"u{i}", size=i, mtime=i / 2)) for i in range(n)]


@settings(max_examples=60, deadline=None)
@given(st.lists(entries, max_size=12), st.integers(1, 5))
def test_what_is_written_to_an_index_is_read_from_it(written, batch_shards):
    shards = shards_named(len(written))
    sink = pa.BufferOutputStream()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zephon.io.index._BATCH_SHARDS", batch_shards)
        writer = IndexWriter(sink, {"of": "this"})
        for shard, entry in zip(shards, written, strict=True):
            writer.append(shard, entry)
        writer.close()
    index = read_index(sink.getvalue(), {"of": "this"})
    assert index.matches(ShardTable.of(shards, "rows"))
    for i, entry in enumerate(written):
        found = index.entry(i)
        assert (found.rows, found.schema, found.bad_rows) == (entry.rows, entry.schema, entry.bad_rows)
        assert found.blob == entry.blob
        assert (found.units is None) == (entry.units is None)
        assert entry.units is None or found.units.tolist() == entry.units.tolist()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_flipped_bit_or_lost_tail_goes_unnoticed_and_changes_an_entry(data):
    written = [
        ShardIndex(
            rows=3,
            units=np.array([0, 2, 3]),
            schema=pa.schema([("x", pa.int64())]),
            blob=pa.record_batch({"o": [1, 2, 3]}),
            bad_rows=((1, 5, "why"),),
        )
        for _ in range(3)
    ]
    sink = pa.BufferOutputStream()
    writer = IndexWriter(sink, "this")
    for shard, entry in zip(shards_named(3), written, strict=True):
        writer.append(shard, entry)
    writer.close()
    content = bytearray(sink.getvalue().to_pybytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        index = read_index(pa.py_buffer(bytes(content)), "this")
        found = [index.entry(i) for i in range(len(index))]
    except DamagedIndexError:
        return
    assert len(found) == 3
    for a, b in zip(found, written, strict=True):
        assert (a.rows, a.units.tolist(), a.blob, a.bad_rows) == (b.rows, b.units.tolist(), b.blob, b.bad_rows)


def test_an_index_is_built_once_and_reused(write, doubles):
    root = write({"a.rows": ROWS, "b.rows": ROWS})
    assert Dataset.from_path("web", root).total() == 4
    assert sorted(doubles.COUNTS["indexed"]) == ["a.rows", "b.rows"]
    again = Dataset.from_path("web", root)
    assert again.total() == 4
    assert len(doubles.COUNTS["indexed"]) == 2
    assert again.index_path == str(index_file(root))
    assert again.format_name == "rows"
    assert again.total_bytes() == sum(p.stat().st_size for p in root.glob("*.rows"))


def test_making_a_dataset_indexes_nothing(write, doubles):
    dataset = Dataset.from_path("web", write({"a.rows": ROWS}))
    assert dataset.shard_count() == 1
    assert bool(dataset)
    assert doubles.COUNTS["indexed"] == []


def test_only_changed_and_new_shards_are_indexed_again(write, doubles):
    root = write({f"{c}.rows": ROWS for c in "abcd"})
    assert Dataset.from_path("web", root).total() == 8
    doubles.COUNTS["indexed"].clear()
    touch_later(root / "b.rows", doubles.rows_file([{"x": 5}, {"y": "new"}, {"x": 7}]))
    (root / "c.rows").unlink()
    write({"e.rows": ROWS})
    dataset = Dataset.from_path("web", root)
    assert dataset.shard_rows.tolist() == [2, 3, 2, 2]
    assert dataset.schema.names == ["x", "y"]
    assert sorted(doubles.COUNTS["indexed"]) == ["b.rows", "e.rows"]
    assert [row["x"] for row in dataset.head(5)] == [1, 2, 5, None, 7]


def test_a_touched_file_of_the_same_size_is_indexed_again(write, doubles):
    root = write({"a.rows": ROWS})
    assert Dataset.from_path("web", root).total() == 2
    touch_later(root / "a.rows", doubles.rows_file([{"x": 7}, {"x": 8}]))
    assert Dataset.from_path("web", root).head() == [{"x": 7}, {"x": 8}]
    assert doubles.COUNTS["indexed"] == ["a.rows", "a.rows"]


def test_an_etag_invalidates_like_a_modification_time(doubles):
    doubles.FILES["fake://bucket/a.rows"] = doubles.rows_file([{"x": 1}])
    assert Dataset.from_path("web", "fake://bucket").head() == [{"x": 1}]
    doubles.FILES["fake://bucket/a.rows"] = doubles.rows_file([{"x": 2}])
    assert Dataset.from_path("web", "fake://bucket").head() == [{"x": 2}]


def test_other_options_or_another_selection_have_an_index_of_their_own(write, doubles):
    root = write({"a.rows": ROWS, "b.rows": ROWS})
    for _ in range(2):
        assert Dataset.from_path("web", root).total() == 4
        assert Dataset.from_path("web", root, format_options={"unit": 1}).total() == 4
        assert Dataset.from_path("web", root / "a*").total() == 2
    assert len(doubles.COUNTS["indexed"]) == 5


def test_data_moved_with_its_index_is_not_indexed_again(write, doubles, tmp_path):
    root = write({"a.rows": ROWS})
    before = Dataset.from_path("web", root)
    assert before.total() == 2
    fingerprint = before.fingerprint
    shutil.move(root, tmp_path / "moved")
    after = Dataset.from_path("web", tmp_path / "moved")
    assert after.total() == 2
    assert after.fingerprint == fingerprint
    assert len(doubles.COUNTS["indexed"]) == 1


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "flip", "other"])
def test_a_damaged_index_is_built_anew(write, doubles, caplog, damage):
    root = write({"a.rows": ROWS})
    assert Dataset.from_path("web", root).total() == 2
    path = index_file(root)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "garbage":
        content = bytearray(b"not an index at all")
    elif damage == "empty":
        content = bytearray()
    elif damage == "flip":
        at = content.index(b"a.rows")
        content[at] ^= 1
    else:
        sink = pa.BufferOutputStream()
        IndexWriter(sink, "something else").close()
        content = bytearray(sink.getvalue().to_pybytes())
    path.write_bytes(bytes(content))
    assert Dataset.from_path("web", root).head() == ROWS
    assert len(doubles.COUNTS["indexed"]) == 2
    assert "built anew" in caplog.text
    assert Dataset.from_path("web", root).total() == 2
    assert len(doubles.COUNTS["indexed"]) == 2


def test_a_damaged_entry_is_made_anew_when_it_is_used(write, doubles):
    root = write({"a.rows": [{"x": 1}, {"x": 2}, {"x": 3}]})
    assert Dataset.from_path("web", root).total() == 3
    path = index_file(root)
    offsets = np.array([6, 15, 24, 33], np.int64).tobytes()
    content = path.read_bytes()
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, offsets[:-8] + b"\xff" * 8))
    dataset = Dataset.from_path("web", root)
    assert dataset.total() == 3
    assert dataset.head() == [{"x": 1}, {"x": 2}, {"x": 3}]


def test_where_the_directory_cannot_be_written_the_index_goes_to_the_cache(write, doubles, tmp_path):
    root = write({"a.rows": ROWS})
    (root / ".zephon").write_text("a file where the directory should be")
    dataset = Dataset.from_path("web", root)
    assert dataset.total() == 2
    assert Path(dataset.index_path).parent == tmp_path / "cache"
    assert Dataset.from_path("web", root).total() == 2
    assert len(doubles.COUNTS["indexed"]) == 1


def test_where_nothing_can_be_written_the_index_stays_in_memory(write, doubles, monkeypatch):
    root = write({"a.rows": ROWS})
    (root / ".zephon").write_text("")
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(root / "a.rows" / "no"))
    dataset = Dataset.from_path("web", root)
    assert dataset.head() == ROWS
    assert dataset.index_path == ""


def test_the_user_can_say_where_the_index_is_kept(write, doubles, tmp_path):
    root = write({"a.rows": ROWS})
    for _ in range(2):
        dataset = Dataset.from_path("web", root, index_dir=tmp_path / "mine")
        assert dataset.total() == 2
    assert Path(dataset.index_path).parent == tmp_path / "mine"
    assert not (root / ".zephon").exists()
    assert len(doubles.COUNTS["indexed"]) == 1


def test_the_cache_directory_follows_the_environment(monkeypatch, tmp_path):
    assert indexing.cache_directory() == str(tmp_path / "cache")
    monkeypatch.delenv("ZEPHON_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert indexing.cache_directory() == "/x/zephon"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert indexing.cache_directory() == "/home/me/.cache/zephon"


def test_remote_data_is_indexed_once_into_the_cache(doubles):
    doubles.FILES["fake://bucket/a.rows"] = doubles.rows_file(ROWS)
    for _ in range(2):
        assert Dataset.from_path("web", "fake://bucket").total() == 2
    assert doubles.COUNTS["indexed"] == ["a.rows"]


def test_no_temporary_file_stays_behind(write):
    root = write({"a.rows": ROWS})
    Dataset.from_path("web", root).total()
    assert [p.suffix for p in (root / ".zephon").iterdir()] == [".arrow"]
    broken = write({"a.rows": b"nonsense"}, below="broken")
    with pytest.raises(ShardError):
        Dataset.from_path("web", broken, fmt="rows").total()
    assert not list(broken.glob(".zephon/*"))


def test_shards_that_cannot_be_indexed_are_all_named(write):
    root = write({"a.rows": ROWS, "b.rows": b"nonsense", "c.rows": ROWS, "d.rows": b"nonsense"})
    dataset = Dataset.from_path("web", root)
    with pytest.raises(ShardError) as excinfo:
        dataset.total()
    assert excinfo.value.code == "not-rows"
    assert "b.rows" in str(excinfo.value)
    assert "d.rows" in str(excinfo.value)
    assert "c.rows" not in str(excinfo.value)


@pytest.mark.parametrize(
    ("raised", "kind", "code"),
    [
        (FileNotFoundError("gone"), StorageError, "shard-missing"),
        (PermissionError("no"), StorageError, "shard-missing"),
        (EOFError("short"), ShardError, "shard-changed"),
        (ValueError("a bug"), EngineError, "format-failed"),
    ],
)
def test_what_a_format_raises_becomes_an_error_that_names_the_shard(write, doubles, monkeypatch, raised, kind, code):
    dataset = Dataset.from_path("web", write({"a.rows": ROWS}))

    def fail(self, shard, context):
        raise raised

    monkeypatch.setattr(doubles.RowsFormat, "index", fail)
    with pytest.raises(kind) as excinfo:
        dataset.total()
    assert excinfo.value.code == code
    assert "'a.rows'" in str(excinfo.value)
    assert "'web'" in str(excinfo.value)
    assert excinfo.value.__cause__ is raised


def test_threads_that_need_the_index_at_once_build_it_once(write, doubles):
    dataset = Dataset.from_path("web", write({f"{i}.rows": ROWS for i in range(20)}))
    totals = []
    threads = [threading.Thread(target=lambda: totals.append(dataset.total())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [40] * 8
    assert len(doubles.COUNTS["indexed"]) == 20


def test_two_processes_that_build_one_index_at_once_both_succeed(write, tmp_path):
    root = write({f"{i:03d}.rows": ROWS for i in range(200)})
    script = (
        "import sys, zephon_io_doubles as d\n"
        "from zephon.io import Dataset\n"
        "with d.installed():\n"
        "    print('ready', flush=True); sys.stdin.readline()\n"
        f"    print(Dataset.from_path('web', {str(root)!r}).total())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (out, process.returncode) == ("400\n", 0), err
    assert len(list(root.glob(".zephon/*"))) == 1
    assert Dataset.from_path("web", root).total() == 400


def test_a_dataset_sent_to_a_worker_reads_the_same_index(write, doubles):
    root = write({"a.rows": ROWS, "b.rows": ROWS})
    dataset = Dataset.from_path("web", root, columns=["x"])
    assert dataset.total() == 4
    there = pickle.loads(pickle.dumps(dataset))
    assert there.fingerprint == dataset.fingerprint
    assert there.head() == dataset.head()
    assert len(doubles.COUNTS["indexed"]) == 2


def test_a_worker_that_would_count_other_rows_refuses(write, doubles):
    root = write({"a.rows": ROWS})
    dataset = Dataset.from_path("web", root, index_dir=root / "none")
    assert dataset.total() == 2
    sent = pickle.dumps(dataset)
    shutil.rmtree(root / "none")
    (root / "a.rows").write_bytes(doubles.rows_file([*ROWS, *ROWS]))
    with pytest.raises(ShardError) as excinfo:
        pickle.loads(sent)
    assert excinfo.value.code == "shard-changed"


def test_forked_processes_can_use_an_index_built_before_the_fork(write):
    dataset = Dataset.from_path("web", write({"a.rows": ROWS}))
    assert dataset.total() == 2
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=lambda: queue.put(dataset.head()))
    process.start()
    process.join(30)
    assert queue.get() == ROWS


def test_a_long_index_run_reports_progress_in_the_log(write, monkeypatch, caplog):
    caplog.set_level("INFO", logger="zephon.io")
    monkeypatch.setattr("zephon.io.progress._PATIENCE", 0.0)
    Dataset.from_path("web", write({f"{i}.rows": ROWS for i in range(3)})).total()
    assert "indexing web: 1/3 shards" in caplog.text


def test_breaking_off_does_not_wait_for_storage_that_does_not_answer(doubles, monkeypatch):
    for i in range(50):
        doubles.FILES[f"fake://bucket/{i}.rows"] = doubles.rows_file(ROWS)
    dataset = Dataset.from_path("web", "fake://bucket")

    def interrupt(self):
        doubles.FAULTS.extend([TimeoutError("slow")] * 10_000)
        raise KeyboardInterrupt

    monkeypatch.setattr("zephon.io.progress.Progress.step", interrupt)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        dataset.total()
    assert time.monotonic() - started < 20
    assert not [t for t in threading.enumerate() if t.name.startswith("zephon-index")]
    monkeypatch.undo()
    doubles.FAULTS.clear()
    assert dataset._source.rows.sum() == 100


def test_on_a_terminal_progress_is_a_bar_that_ends_its_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("zephon.io.progress._PATIENCE", 0.0)
    with Progress("indexing web", 4, "shards") as progress:
        for _ in range(4):
            progress.step()
    assert screen.getvalue().startswith("\r[")
    assert "indexing web: 4/4 shards" in screen.getvalue()
    assert screen.getvalue().endswith("\n")


def test_what_is_done_within_a_second_shows_nothing(monkeypatch, caplog):
    caplog.set_level("INFO", logger="zephon.io")
    with Progress("indexing web", 1, "shards") as progress:
        progress.step()
    assert caplog.text == ""


def test_many_broken_shards_are_not_all_waited_for(write, doubles):
    dataset = Dataset.from_path("web", write({f"{i:03d}.rows": b"nonsense" for i in range(300)}), fmt="rows")
    with pytest.raises(ShardError) as excinfo:
        dataset.total()
    assert "20 or more shards" in str(excinfo.value)


def test_a_disk_that_fills_up_sends_the_index_elsewhere(write, doubles, monkeypatch, tmp_path, caplog):
    root = write({"a.rows": ROWS})
    original = indexing._sync

    def full(path):
        if str(root) in path:
            raise OSError(28, "No space left on device")
        original(path)

    monkeypatch.setattr(indexing, "_sync", full)
    dataset = Dataset.from_path("web", root)
    assert dataset.total() == 2
    assert Path(dataset.index_path).parent == tmp_path / "cache"
    assert "No space left" in caplog.text
    assert list((root / ".zephon").iterdir()) == []
