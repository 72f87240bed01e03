"""C1-C3: the shard cache changes no row, never deadlocks, and stands whatever happens to a fetch."""

import errno
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.abc import FileInfo
from zephon.cli import main
from zephon.errors import ConfigError
from zephon.io import Dataset
from zephon.io.cache import CacheSettings, ShardCache, victims
from zephon.io.cache_files import CacheFiles, key_of
from zephon.work import StaticMixtureWorkSource

NEVER = threading.Event()
NUMBERS = itertools.count()


def content(name, size=1000):
    return (name.encode() * size)[:size]


def info(name, size=1000, etag="1"):
    return FileInfo(url=f"s3://bucket/{name}", size=size, etag=etag)


def opened(cache, name, size=1000, fetched=None):
    def fetch():
        if fetched is not None:
            fetched.append(name)
        whole = content(name, size)
        yield pa.py_buffer(whole[: size // 2])
        yield pa.py_buffer(whole[size // 2 :])

    handle = cache.open(info(name, size), fetch, NEVER)
    if handle is not None:
        assert handle.read(0, size) == content(name, size)
    return handle


def cache_in(folder, limit=10_000):
    return ShardCache(CacheSettings(directory=str(folder), limit=limit))


def names(folder):
    return {entry.url.rpartition("/")[2] for entry in CacheFiles(folder).entries()}


@pytest.fixture
def remote():
    """A dataset in fsspec's memory: 6 shards that differ in size."""
    root = f"memory://shard-cache-{next(NUMBERS)}"
    filesystem = fsspec.filesystem("memory")
    for shard in range(6):
        table = pa.table({"n": range(100 * shard, 100 * shard + 50 + shard)})
        with filesystem.open(f"{root}/{shard}.parquet", "wb") as file:
            pq.write_table(table, file, row_group_size=20)
    yield root
    filesystem.rm(root, recursive=True)


def run(remote, **options):
    work = StaticMixtureWorkSource(
        [Dataset.from_path("a", remote)], {"a": 1}, seed=3, shuffle_block_size=16, stop_after_passes=2
    )
    with (
        Pipeline(work).shuffle(8).batch(5, drop_last=False).options(canonical_replicas=2, tail="pad", **options) as made
    ):
        return [batch.to_pylist() for batch in made], made.stats()["reader"]


def sizes(remote):
    return [entry["size"] for entry in fsspec.filesystem("memory").ls(remote, detail=True)]


def io_options(folder, limit):
    return {"cache": {"directory": folder, "limit": limit}}


@pytest.mark.parametrize("runner", ["inline", "threads"])
def test_a_run_delivers_the_same_with_the_cache_and_the_next_one_fetches_nothing(remote, tmp_path, runner):
    plain, _ = run(remote, runner=runner)
    whole = sum(sizes(remote))
    for fetched in (6, 0):
        found, stats = run(remote, runner=runner, io_options=io_options(tmp_path / "cache", whole))
        assert found == plain
        assert stats["shard_cache"]["fetched"] == fetched
        assert stats["shard_cache"]["fetched_bytes"] == (whole if fetched else 0)
        assert stats["shard_cache"]["hits"] == 6 - fetched
        assert stats["shard_cache"]["bypassed"] == 0


def test_c1_a_limit_below_the_largest_shard_names_the_size_needed_and_the_size_itself_works(remote, tmp_path):
    largest = max(sizes(remote))
    plain, _ = run(remote)
    with pytest.raises(ConfigError) as caught:
        run(remote, io_options=io_options(tmp_path / "cache", largest - 1))
    assert caught.value.code == "cache-too-small"
    assert f"{largest:,}" in caught.value.found
    found, stats = run(remote, io_options=io_options(tmp_path / "cache", largest))
    assert found == plain
    assert stats["shard_cache"]["evicted"] + stats["shard_cache"]["bypassed"] > 0
    assert CacheFiles(tmp_path / "cache").used() <= largest


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 3), st.booleans()), max_size=30))
def test_whatever_is_asked_for_comes_whole_and_the_limit_holds(tmp_path, steps):
    folder = tmp_path / str(next(NUMBERS))
    cache = cache_in(folder, limit=4000)
    kept = {}
    for name, thousands, keep in steps:
        handle = opened(cache, f"{name}{thousands}", 1000 * thousands)
        if keep:
            kept[name, thousands] = handle
        if keep is False:
            cache.close()
        assert CacheFiles(folder).used() <= 4000
    for (name, thousands), handle in kept.items():
        if handle is not None:
            assert handle.read(3, 900) == content(f"{name}{thousands}", 1000 * thousands)[3:900]


def test_c2_what_is_open_is_not_evicted_and_what_finds_no_room_is_read_without(tmp_path):
    cache = cache_in(tmp_path, limit=2000)
    held = [opened(cache, name) for name in "ab"]
    assert opened(cache, "c") is None
    assert cache.counts.bypassed == 1
    assert names(tmp_path) == {"a", "b"}
    del held
    cache.close()
    other = cache_in(tmp_path, limit=2000)
    assert opened(other, "c") is not None
    assert len(names(tmp_path)) == 2


def test_c2_where_locks_do_nothing_who_reads_what_is_evicted_reads_on(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    cache = cache_in(tmp_path, limit=1000)
    first = opened(cache, "a")
    assert opened(cache, "b") is not None
    assert names(tmp_path) == {"b"}
    assert first.read(10, 990) == content("a")[10:990]


def test_a_scan_cannot_flush_what_is_read_over_and_over(tmp_path):
    cache = cache_in(tmp_path, limit=4000)
    for name in ("old", "older"):
        opened(cache, name)
    cache.close()
    files = CacheFiles(tmp_path)
    for name, ago in (("old", 1000), ("older", 2000)):
        path = files.path(key_of(info(name)), "shard")
        os.utime(path, (time.time() - ago, time.time() - ago))
        opened(cache, name)  # again, long after it was fetched
    cache.close()
    for number in range(50):
        opened(cache, f"scan {number}")
        cache.close()
    assert {"old", "older"} <= names(tmp_path)
    order = [entry.url.rpartition("/")[2] for entry in victims(files.entries())]
    assert order[-2:] == ["old", "older"]


def test_one_of_many_fetches_and_the_others_wait_for_it(tmp_path):
    fetched, found = [], []
    caches = [cache_in(tmp_path) for _ in range(6)]

    def fetch():
        fetched.append(1)
        time.sleep(0.3)
        yield pa.py_buffer(content("a"))

    threads = [threading.Thread(target=lambda c=c: found.append(c.open(info("a"), fetch, NEVER))) for c in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == [1]
    assert [handle.read(0, 1000) for handle in found] == [content("a")] * 6


def test_a_fetch_that_fails_leaves_nothing_and_the_next_one_works(tmp_path):
    cache = cache_in(tmp_path)

    def broken():
        yield pa.py_buffer(content("a")[:10])
        raise OSError(errno.EIO, "the line is down")

    def short():
        yield pa.py_buffer(content("a")[:999])

    for fetch in (broken, short):
        with pytest.raises(OSError, match=r"the line is down|another length"):
            cache.open(info("a"), fetch, NEVER)
        assert list(tmp_path.iterdir()) == []
    assert opened(cache, "a") is not None


def test_c3_who_is_killed_in_mid_fetch_holds_up_nobody(tmp_path):
    script = """
        import sys, threading, time, pyarrow as pa
        from zephon.abc import FileInfo
        from zephon.io.cache import CacheSettings, ShardCache

        def fetch():
            yield pa.py_buffer(b"a" * 500)
            print("half", flush=True)
            time.sleep(60)

        cache = ShardCache(CacheSettings(directory=sys.argv[1], limit=10_000))
        cache.open(FileInfo(url="s3://bucket/a", size=1000, etag="1"), fetch, threading.Event())
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"half\n"
    assert {path.suffix for path in tmp_path.iterdir()} == {".claim", ".tmp"}
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    begun = time.monotonic()
    assert opened(cache_in(tmp_path), "a") is not None
    assert time.monotonic() - begun < 5
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".shard"}


@pytest.mark.parametrize("age", [0, 1000], ids=["at work", "long gone"])
def test_c3_a_claim_from_another_machine_counts_for_as_long_as_it_is_renewed(tmp_path, age):
    claim = CacheFiles(tmp_path).path(key_of(info("a")), "claim")
    claim.write_text(json.dumps({"host": "elsewhere", "pid": 1, "size": 1000}))
    os.utime(claim, (time.time() - age, time.time() - age))
    cancel = threading.Event()
    threading.Timer(0.5, cancel.set).start()
    handle = cache_in(tmp_path).open(info("a"), lambda: [pa.py_buffer(content("a"))], cancel)
    assert (handle is None) == (age == 0)


def test_c3_a_full_disk_is_said_and_the_run_goes_on_without_the_cache(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = cache_in(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(RuntimeWarning, match="cannot be written .No space left on device"):
        assert opened(cache, "a") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opened(cache, "a") is None, "said once"
    assert list(tmp_path.iterdir()) == []


def test_c3_a_directory_that_cannot_be_made_says_why(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        cache_in(tmp_path / "file" / "cache")
    assert caught.value.code == "cache-unusable"
    assert "Not a directory" in caught.value.found


def test_another_version_of_a_shard_is_another_shard(tmp_path):
    cache = cache_in(tmp_path)
    assert opened(cache, "a") is not None
    newer = FileInfo(url="s3://bucket/a", size=1000, etag="2")
    handle = cache.open(newer, lambda: [pa.py_buffer(b"n" * 1000)], NEVER)
    assert handle.read(0, 1000) == b"n" * 1000


def test_a_shard_cut_short_by_the_file_system_is_fetched_again(tmp_path):
    opened(cache_in(tmp_path), "a")
    path = CacheFiles(tmp_path).path(key_of(info("a")), "shard")
    os.truncate(path, 10)
    fetched = []
    assert opened(cache_in(tmp_path), "a", fetched=fetched) is not None
    assert fetched == ["a"]


def test_the_command_lists_prunes_and_verifies(tmp_path, capsys):
    cache = cache_in(tmp_path)
    for name in "abc":
        opened(cache, name)
    cache.close()
    assert main(["cache", "ls", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["3,000", "bytes", "in", "all"]
    path = CacheFiles(tmp_path).path(key_of(info("a")), "shard")
    path.write_bytes(b"x" * 1000)
    assert main(["cache", "verify", str(tmp_path)]) == 1
    assert "damaged, removed: s3://bucket/a" in capsys.readouterr().out
    assert main(["cache", "verify", str(tmp_path)]) == 0
    assert main(["cache", "prune", str(tmp_path), "--limit", "1500"]) == 0
    assert len(names(tmp_path)) == 1
    assert main(["cache", "prune", str(tmp_path)]) == 0
    assert list(Path(tmp_path).iterdir()) == []
    assert main(["cache", "ls", str(tmp_path / "none")]) == 1
    assert "cache-missing" in capsys.readouterr().err
