"""Evaluation during training makes pipelines by the hundred: nothing may grow with their number, or with the data."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon_scripts import output, run, write
from zephon_slopes import Slope, slope

SCRIPT = Path(__file__).with_name("many_pipelines_script.py")
HERE = {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
MIB = 1 << 20


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for number in range(2):
        pq.write_table(pa.table({"n": list(range(200))}), folder / f"{number}.parquet", row_group_size=20)
    return folder


@pytest.mark.parametrize(("runner", "count", "every"), [("threads", 500, 25), ("processes", 25, 5)])
def test_k1_pipelines_made_and_dropped_leave_nothing_in_any_number(files, runner, count, every):
    begun = time.monotonic()
    done = run(SCRIPT, runner, count, every, files, env=HERE, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    held = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(held) == count // every
    for kind in ("threads", "children", "files", "shared_memory"):
        assert {now[kind] for now in held[1:]} == {held[0][kind]}, (kind, held)
    # Caches of what was imported last fill in the first fifth.
    grown = held[-1]["resident"] - held[len(held) // 5]["resident"]
    assert grown < 6 * MIB, [now["resident"] // MIB for now in held]
    assert time.monotonic() - begun < 120


def test_k1_an_interpreter_that_holds_many_open_pipelines_ends_at_once(files, tmp_path):
    script = write(
        tmp_path / "script.py",
        """
        import sys, time
        from zephon import Pipeline
        from zephon.io import Dataset
        from zephon.work import StaticMixtureWorkSource

        held = []
        for number in range(int(sys.argv[2])):
            source = StaticMixtureWorkSource([Dataset.from_path("a", sys.argv[3])], {"a": 1}, exhausted_policy="repeat")
            held.append(iter(Pipeline(source).batch(4).options(runner=sys.argv[1], parallelism=2)))
            next(held[-1])
        print(time.time())
        """,
    )
    for runner, count in (("threads", 40), ("processes", 4)):
        ending = float(output(script, runner, count, files))
        assert time.time() - ending < 5, runner


SHARDS = 100
SHARD_BYTES = MIB


@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_k2_the_resident_set_over_100_shards_has_no_slope(tmp_path, runner):
    """What was kept of each shard, be it a hundredth, would show."""
    data = tmp_path / "data"
    data.mkdir()
    noise = np.random.default_rng(0)
    rows = SHARD_BYTES // 4096
    for number in range(SHARDS):
        raw = pa.array([noise.bytes(4096) for _ in range(rows)], pa.binary())
        pq.write_table(pa.table({"raw": raw}), data / f"{number:03d}.parquet", compression="none", row_group_size=64)
    script = write(
        tmp_path / "script.py",
        """
        import sys
        from zephon import Pipeline
        from zephon.io import Dataset
        from zephon.work import StaticMixtureWorkSource
        from zephon_scripts import resident_without_spare

        runner, data, rows, shards = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
        source = StaticMixtureWorkSource([Dataset.from_path("a", data)], {"a": 1}, seed=3, stop_after_passes=5)
        pipeline = Pipeline(source).shuffle(64).batch(8)
        pipeline.options(runner=runner, parallelism=2, memory_limit=64 << 20, canonical_replicas=2)
        seen = 0
        for batch in pipeline:
            before, seen = seen, seen + len(batch)
            if before // rows != seen // rows and seen // rows // shards in (1, 4):
                print(resident_without_spare(), flush=True)
        """,
    )
    # What is in flight comes and goes, and allocators keep pages as they please. The least of a pass, with an allocator
    # that can be asked to give back what it does not need, is the same to a megabyte or two.
    env = {**HERE, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    sizes = [int(line) for line in output(script, runner, data, rows, SHARDS, env=env, timeout=120).split()]
    assert len(sizes) >= 2 * SHARDS - 2
    early, late = sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]  # passes 2 and 5: the first fills what there is
    # With processes, blocks become larger as the run finds its pace, and so do the segments that are kept to be used
    # again: up to 18 MiB were seen, and none of it after some passes more.
    share = 50 if runner == "threads" else 10
    assert min(late) - min(early) < 3 * SHARDS * SHARD_BYTES / share, [size // MIB for size in sizes[::10]]
    assert max(sizes) < 64 * MIB + 300 * MIB


def can_make_namespaces():
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_make_namespaces(), reason="needs the right to mount")
@pytest.mark.parametrize("mount", ["size=64k", "ro"], ids=["tiny", "read-only"])
def test_k3_processes_need_no_room_in_dev_shm(files, tmp_path, mount):
    """Containers make it 64 MB small, or smaller. Blocks of several megabytes pass all the same."""
    script = write(
        tmp_path / "script.py",
        """
        import os
        from zephon import Pipeline
        from zephon.io import Dataset
        from zephon.work import StaticMixtureWorkSource

        def grow(row):
            return {"raw": b"x" * (1 << 20)}

        data = Dataset.from_dict("d", [{"n": n} for n in range(48)])
        pipeline = Pipeline(StaticMixtureWorkSource([data], {"d": 1})).map_transform(grow, schema={"raw": "binary"})
        sizes = [
            len(row["raw"])
            for batch in pipeline.batch(8).options(runner="processes", parallelism=2, block_rows=16)
            for row in batch.to_pylist()
        ]
        room = os.statvfs("/dev/shm")
        print(room.f_blocks * room.f_bsize >> 10, len(sizes), sum(sizes) >> 20, os.listdir("/dev/shm"))
        """,
    )
    inner = f"mount -t tmpfs -o {mount} none /dev/shm && exec {sys.executable} {script}"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", inner], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    room, *rest = done.stdout.split()
    assert rest == ["48", "48", "[]"]
    assert mount == "ro" or int(room) == 64


def test_a_slope_is_found_where_there_is_one_and_none_where_there_is_none():
    """The measure these tests judge by."""
    noise = np.random.default_rng(1).normal(0, 5, 400)
    assert slope([3.0 * i for i in range(10)]) == Slope(3.0, 0.0)
    flat, rising = slope(list(100 + noise)), slope([i / 10 + e for i, e in enumerate(noise)])
    assert not flat.is_positive
    assert rising.is_positive
    assert abs(rising.value - 0.1) < rising.margin + 0.01
    assert all(a.margin > b.margin for a, b in itertools.pairwise([slope(list(noise[:n])) for n in (20, 100, 400)]))
