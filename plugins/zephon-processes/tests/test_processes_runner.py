"""What users may rely on when row operators run in other processes: their functions, their errors, lost workers."""

import json
import os
import signal
import sys
import threading
import time
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon import Pipeline
from zephon.errors import DataError, EngineError, WorkerError, WorkerLostError
from zephon.io import Dataset
from zephon.plugins import hookimpl, hooks_manager
from zephon.work import StaticMixtureWorkSource
from zephon_fault_files import entries, inline, jsonl, work
from zephon_processes import _pool
from zephon_processes._runner import ProcessRunner
from zephon_scripts import alive, comes_true, descendants, output, run, running, workers, write

ROWS = 90
#: Given wherever a function must not be tried out when the run is planned.
SCHEMA = {"n": "int64", "text": "string"}


@pytest.fixture
def dataset(tmp_path):
    return Dataset.from_path("web", jsonl(tmp_path / "data", [50, ROWS - 50]))


def pipeline_of(dataset, function, **options):
    settings = {"runner": "processes", "parallelism": 2, "block_rows": 10, **options}
    pipeline = Pipeline(work(web=dataset)).map_transform(function, schema=SCHEMA).batch(3)
    return inline(pipeline, 3, **settings)


def rows_in(batches):
    return [(row["n"], row["text"]) for batch in batches if not batch.is_filler for row in batch.to_pylist()]


def rows_of(pipeline):
    return rows_in(iter(pipeline))


def upper(row):
    return {**row, "text": row["text"].upper()}


# --- whose functions ------------------------------------------------------------------------------------------------

SCRIPT = """
    import sys
    from dataclasses import dataclass
    from pathlib import Path
    from zephon import Pipeline
    from zephon.io import Dataset
    from zephon.work import StaticMixtureWorkSource

    with open("marker", "a") as marker:
        marker.write("main has run\\n")
    sys.path.insert(0, str(Path("elsewhere").resolve()))
    sys.path.append(Path("a path that is no text"))
    import only_here

    OFFSET = 1000

    @dataclass
    class Scale:
        by: int
        def __call__(self, row):
            return {"n": row["n"] * self.by}

    def plus_offset(row):
        return {"n": row["n"] + OFFSET}

    def plus(much):
        def add(row):
            return {"n": row["n"] + much}
        return add

    functions = {
        "of the script": plus_offset, "lambda": lambda row: {"n": -row["n"]}, "closure": plus(7),
        "object of the script's class": Scale(3), "found on the parent's path only": only_here.square,
    }

    def numbers(function, **options):
        data = Dataset.from_dict("d", [{"n": n} for n in range(40)])
        work = StaticMixtureWorkSource([data], {"d": 1}, seed=1)
        pipeline = Pipeline(work).map_transform(function).batch(4).options(**options)
        return [row["n"] for batch in pipeline for row in batch.to_pylist()]

    for name, function in functions.items():
        here = numbers(function, runner="inline")
        there = numbers(function, runner="processes", parallelism=2)
        print(name, here == there and len(here) == 40, sep=": ")
"""


def test_functions_of_every_kind_run_and_the_users_main_module_is_never_run_again(tmp_path):
    write(tmp_path / "script.py", SCRIPT)
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere/only_here.py", "def square(row):\n    return {'n': row['n'] ** 2}\n")
    said = output(tmp_path / "script.py", cwd=tmp_path).splitlines()
    assert len(said) == 5
    assert [line for line in said if not line.endswith(": True")] == []
    assert (tmp_path / "marker").read_text() == "main has run\n"


def test_a_module_in_the_working_directory_hides_no_other_from_workers(tmp_path):
    """The script lies elsewhere, so that to the script itself the working directory means nothing."""
    (tmp_path / "here").mkdir()
    for name in ("socket", "pickle", "pyarrow", "numpy"):
        write(tmp_path / f"here/{name}.py", "raise ImportError('an unrelated file of that name')")
    (tmp_path / "elsewhere").mkdir()
    script = write(
        tmp_path / "elsewhere/script.py",
        """
        from zephon_processes._runner import ProcessRunner

        class Doubles:
            def open(self):
                return lambda task: task * 2

        runner = ProcessRunner(parallelism=1)
        runner.start([Doubles()])
        print(runner.submit(0, 21).result(30))
        runner.close()
        """,
    )
    assert output(script, cwd=tmp_path / "here") == "42\n"


# --- errors ---------------------------------------------------------------------------------------------------------


class TooOdd(ValueError):
    """An exception a user may want to catch; its arguments are not what it was made from."""

    def __init__(self, n, *, limit):
        super().__init__(f"{n} is odder than {limit}")
        self.n = n


class HoldsALock(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def fails_at_63(row):
    if row["n"] == 63:
        raise_from_within(ValueError("no such thing"))
    return row


def raise_from_within(error):
    raise error


def test_an_error_names_operator_dataset_shard_and_row_and_brings_its_own_traceback(dataset):
    with pytest.raises(DataError) as caught:
        rows_of(pipeline_of(dataset, fails_at_63))
    error = caught.value
    assert error.code == "function-failed"
    assert "'map_transform'" in str(error)
    assert "web" in str(error)
    assert "part-1.jsonl" in str(error)
    assert "13" in error.what, "the row's number in its shard"
    note = "\n".join(error.__notes__)
    assert "in worker zephon-process-" in note
    assert "raise_from_within" in note
    assert __file__ in note
    assert type(error.__cause__) is ValueError
    assert str(error.__cause__) == "no such thing"


@pytest.mark.parametrize("kind", ["unpicklable", "not made again", "class of this very test"])
def test_an_exception_that_cannot_be_sent_masks_nothing(dataset, kind):
    class Local(Exception):
        pass

    def function(row):
        if row["n"] == 63:
            raise {
                "unpicklable": lambda: HoldsALock("what the lock said"),
                "not made again": lambda: TooOdd(63, limit=61),
                "class of this very test": lambda: Local("what was local"),
            }[kind]()
        return row

    said = {
        "unpicklable": "HoldsALock: what the lock said",
        "not made again": "TooOdd: 63 is odder than 61",
        "class of this very test": "Local: what was local",
    }[kind]
    with pytest.raises(DataError) as caught:
        rows_of(pipeline_of(dataset, function))
    assert caught.value.code == "function-failed"
    assert said in caught.value.found
    assert said in "\n".join(caught.value.__notes__)
    if kind == "class of this very test":
        assert type(caught.value.__cause__) is Local, "it can be caught as what it is"


def test_an_exception_that_is_its_own_cause_arrives(dataset):
    class Circular:
        def open(self):
            return circular

    def circular(task):
        error = ValueError("round and round")
        error.__cause__ = error
        raise error

    runner = ProcessRunner(parallelism=1)
    runner.start([Circular()])
    with pytest.raises(ValueError, match="round and round"):
        runner.submit(0, 1).result(30)
    runner.close()


def test_what_cannot_be_sent_is_an_error_that_says_so():
    lock = threading.Lock()
    data = Dataset.from_dict("d", [{"n": n} for n in range(8)])
    pipeline = Pipeline(StaticMixtureWorkSource([data], {"d": 1})).map_transform(
        lambda row: row if lock else None, schema={"n": "int64"}
    )
    with pytest.raises(EngineError) as caught:
        next(iter(pipeline.batch(2).options(runner="processes", parallelism=1)))
    assert caught.value.code == "not-sendable"
    assert "lock" in str(caught.value)


# --- lost workers ---------------------------------------------------------------------------------------------------


def test_a_killed_worker_costs_a_warning_and_no_row(dataset):
    def slow(row):
        time.sleep(0.004)
        return upper(row)

    expected = rows_of(pipeline_of(dataset, upper, runner="inline", parallelism=0))
    pipeline = pipeline_of(dataset, slow, block_rows=5)
    batches = iter(pipeline)
    found = rows_in([next(batches)])
    os.kill(workers()[0], signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match=r"zephon-process-\d+ \(pid \d+\) ended by signal 9"):
        found += rows_in(batches)
    assert found == expected
    assert workers() == []


def test_a_killed_worker_whose_warning_is_an_error_costs_no_row_either(dataset):
    """Nobody could catch what is raised on a thread of the runner's own."""
    expected = rows_of(pipeline_of(dataset, upper, runner="inline", parallelism=0))
    batches = iter(pipeline_of(dataset, upper, block_rows=5))
    found = rows_in([next(batches)])
    for worker in workers():
        os.kill(worker, signal.SIGKILL)
    found += rows_in(batches)
    assert found == expected


def ends_its_process_at(poison):
    def function(row):
        if row["n"] in poison:
            os.kill(os.getpid(), signal.SIGKILL)
        return upper(row)

    return function


def refuses(poison):
    def function(row):
        if row["n"] in poison:
            raise ValueError("poison")
        return upper(row)

    return function


def quietly(action):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of workers that were lost
        return action()


def test_a_row_that_ends_its_worker_is_named(dataset):
    with pytest.raises(WorkerLostError) as caught:
        quietly(lambda: rows_of(pipeline_of(dataset, ends_its_process_at({71}))))
    error = caught.value
    assert error.code == "worker-lost"
    for named in ("map_transform", "web", "part-1.jsonl", "row 21", "signal 9"):
        assert named in error.found


@pytest.mark.parametrize(("action", "poison"), [("skip", {71}), ("quarantine", {17, 18})], ids=["skip", "quarantine"])
def test_rows_that_end_their_worker_are_dropped_and_counted_like_any_bad_row(dataset, tmp_path, action, poison):
    def policy(name):
        return {"action": action, "path": str(tmp_path / name)} if action == "quarantine" else action

    calm = pipeline_of(dataset, refuses(poison), runner="inline", parallelism=0, on_error=policy("calm"))
    expected = rows_of(calm)
    rough = pipeline_of(dataset, ends_its_process_at(poison), on_error=policy("rough"))
    found = quietly(lambda: rows_of(rough))
    assert sorted(n for n, _ in found) == sorted(set(range(ROWS)) - poison)
    assert found == expected
    assert rough.stats()["skipped"] == calm.stats()["skipped"] == {"web": len(poison)}
    if action == "quarantine":
        place = lambda entry: {key: entry[key] for key in ("dataset", "shard", "row")}
        assert [place(e) for e in entries(tmp_path / "rough")] == [place(e) for e in entries(tmp_path / "calm")]


def test_a_task_that_loses_worker_after_worker_at_different_rows_is_not_to_blame(dataset, tmp_path):
    """Somebody kills workers, and has hit those of one task several times."""
    expected = rows_of(pipeline_of(dataset, upper, runner="inline", parallelism=0).options(canonical_replicas=1))

    def function(row):
        mark = tmp_path / str(row["n"])
        if row["n"] % 30 == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return upper(row)

    one_task = {"parallelism": 1, "block_rows": 100}
    found = quietly(lambda: rows_of(pipeline_of(dataset, function, **one_task).options(canonical_replicas=1)))
    assert found == expected
    assert len([path for path in tmp_path.iterdir() if path.is_file()]) == 3


def test_a_module_that_ends_whoever_imports_it_is_an_error(tmp_path, monkeypatch, dataset):
    """Here it does no harm, as it was imported before the file was changed."""
    module = write(tmp_path / "deadly_here_only_once.py", "def function(row):\n    return row\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import deadly_here_only_once

    write(module, "import os\nos._exit(3)\n")
    monkeypatch.setattr(_pool, "BACKOFF", (0.0, 0.01))
    with pytest.raises(WorkerError) as caught:
        quietly(lambda: rows_of(pipeline_of(dataset, deadly_here_only_once.function)))
    assert caught.value.code in {"worker-lost", "workers-keep-dying"}
    assert "status 3" in caught.value.found


def test_workers_that_never_come_to_work_are_an_error_soon(tmp_path, monkeypatch, dataset):
    """Whatever ends them: here, what the interpreter imports first of all."""
    write(tmp_path / "sitecustomize.py", "import os\nos._exit(4)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(_pool, "BACKOFF", (0.0, 0.01))
    with pytest.raises(WorkerError) as caught:
        quietly(lambda: rows_of(pipeline_of(dataset, upper)))
    assert caught.value.code == "workers-keep-dying"
    assert "status 4" in caught.value.found
    assert workers() == []


def test_a_worker_with_another_version_of_a_plugin_is_refused(tmp_path):
    """Here because the plugin is upgraded in the very moment in which the worker starts."""
    metadata = "Metadata-Version: 2.1\nName: acme-shapes\nVersion: {}\n"
    info = tmp_path / "acme_shapes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata.format("1.0"))
    (info / "entry_points.txt").write_text("[zephon.operator.v1]\nacme_shape = acme_shapes.plugin:shape\n")
    # The script's folder is on the import path of the interpreters it starts when these begin, but not of its own.
    upgrade = f"open({str(info / 'METADATA')!r}, 'w').write({metadata.format('2.0')!r})\n"
    write(tmp_path / "sitecustomize.py", upgrade)
    script = write(
        tmp_path / "script.py",
        """
        from zephon import Pipeline
        from zephon.errors import PluginError
        from zephon.io import Dataset
        from zephon.work import StaticMixtureWorkSource

        data = Dataset.from_dict("d", [{"n": n} for n in range(8)])
        pipeline = Pipeline(StaticMixtureWorkSource([data], {"d": 1})).batch(2)
        try:
            list(pipeline.options(runner="processes", parallelism=1))
        except PluginError as error:
            print(error.code)
            print(error.found)
        """,
    )
    code, found = output(script).splitlines()
    assert code == "plugin-mismatch"
    assert "main process: acme-shapes 1.0" in found
    assert "worker: acme-shapes 2.0" in found


class Watches:
    """Writes down which workers came and went."""

    def __init__(self):
        self.events = []

    @hookimpl
    def worker_start(self, runner, worker):
        self.events.append(("start", os.getpid(), runner, worker, ""))

    @hookimpl
    def worker_stop(self, runner, worker, reason):
        self.events.append(("stop", os.getpid(), runner, worker, reason))


def test_observers_in_the_parent_hear_of_every_worker_that_comes_and_goes(dataset):
    watches = Watches()
    with hooks_manager().register(watches):
        batches = iter(pipeline_of(dataset, upper, block_rows=5))
        next(batches)
        os.kill(workers()[0], signal.SIGKILL)
        quietly(lambda: list(batches))
    started = [event for event in watches.events if event[0] == "start"]
    stopped = [event for event in watches.events if event[0] == "stop"]
    assert {event[1] for event in watches.events} == {os.getpid()}
    assert {event[2] for event in watches.events} == {"processes"}
    assert sorted(event[3] for event in stopped) == sorted(event[3] for event in started)
    reasons = sorted(event[4] for event in stopped)
    assert reasons[-1] == "ended by signal 9"
    assert reasons[:-1] == [""] * (len(reasons) - 1)


def test_workers_end_with_a_parent_that_was_killed_even_where_nothing_can_interrupt_them(tmp_path):
    """A computation in C that holds the interpreter keeps every thread of a worker from noticing anything."""
    script = write(
        tmp_path / "script.py",
        """
        from pathlib import Path
        from zephon_processes._runner import ProcessRunner

        class Busy:
            def open(self):
                return self.work
            def work(self, number):
                Path(f"begun-{number}").touch()
                return str(3 ** (1 << 27))[0]  # some minutes, with the interpreter held

        import sys
        sys.set_int_max_str_digits(0)
        runner = ProcessRunner(parallelism=2)
        runner.start([Busy()])
        for future in [runner.submit(0, number) for number in range(2)]:
            future.result()
        """,
    )
    with running([sys.executable, script], cwd=tmp_path) as process:
        assert comes_true(lambda: len(list(tmp_path.glob("begun-*"))) == 2, 30)
        family = descendants(process.pid)
        assert len(family) == 2
        process.kill()
        process.wait(5)
        assert comes_true(lambda: not any(map(alive, family)), 5)


# --- large rows -----------------------------------------------------------------------------------------------------

LARGE = 200 << 20


def test_a_row_of_200_megabytes_passes(tmp_path):
    table = pa.table({"n": [1, 2], "raw": pa.array([b"a" * LARGE, b"b" * 10], pa.binary())})
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=1)
    del table

    def tail(row):
        return {"n": row["n"], "raw": row["raw"][1:]}

    work_ = StaticMixtureWorkSource([Dataset.from_path("d", tmp_path)], {"d": 1}, shuffle_shards=False)
    schema = {"n": "int64", "raw": "binary"}
    pipeline = Pipeline(work_).map_transform(tail, schema=schema).batch(1)
    sizes = {}
    for batch in pipeline.options(runner="processes", parallelism=1, memory_limit=1 << 30):
        raw = batch["raw"].chunk(0) if isinstance(batch["raw"], pa.ChunkedArray) else batch["raw"]
        sizes[batch["n"].to_pylist()[0]] = len(raw[0].as_buffer())
    assert sizes == {1: LARGE - 1, 2: 9}


def test_a_row_too_large_for_memory_fails_clearly(tmp_path):
    script = write(
        tmp_path / "script.py",
        f"""
        import json, resource
        from zephon import Pipeline
        from zephon.errors import ZephonError
        from zephon.io import Dataset
        from zephon.work import StaticMixtureWorkSource

        data = Dataset.from_dict("d", [{{"n": n}} for n in range(4)])

        def grow(row):
            return {{"n": row["n"], "raw": b"x" * {LARGE}}}

        schema = {{"n": "int64", "raw": "binary"}}
        pipeline = Pipeline(StaticMixtureWorkSource([data], {{"d": 1}})).map_transform(grow, schema=schema).batch(1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
        try:
            next(iter(pipeline.options(runner="processes", parallelism=1, block_rows=1)))
        except ZephonError as error:
            print(json.dumps([error.code, error.found, error.fix]))
        """,
    )
    done = run(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    code, found, fix = json.loads(done.stdout)
    assert code == "shared-memory-full"
    assert "20" in found
    assert "memory_limit" in fix
