"""A run in which nothing happens any more is an error that names who waits for whom; one that is only slow is none."""

import signal
import sys
import threading
import time
import warnings

import pytest

from zephon import Pipeline
from zephon.errors import ConfigError, EngineError
from zephon.io import Dataset
from zephon_field_cases import numbered, source
from zephon_scripts import line_of, running, workers, write

ROWS = 60
STUCK_AT = 37


@pytest.fixture
def stall_after(monkeypatch):
    return lambda seconds: monkeypatch.setenv("ZEPHON_STALL_SECONDS", str(seconds))


def pipeline_of(function, runner, **options):
    work = source(numbered("numbers", ROWS), shuffle_shards=False)
    pipeline = Pipeline(work).map_transform(function, schema={"n": "int64"}).batch(2)
    return pipeline.options(**{"runner": runner, "parallelism": 2, "block_rows": 5, "canonical_replicas": 2, **options})


def stalled(pipeline):
    """The error a run ends with, and the warnings before it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(EngineError) as caught:
            list(pipeline)
    assert caught.value.code == "stalled", str(caught.value)
    return caught.value, [str(warning.message) for warning in told if "nothing has happened" in str(warning.message)]


def waits_at_37(seconds):
    def function(row):
        if row["n"] == STUCK_AT:
            time.sleep(seconds)
        return row

    return function


def test_a_function_that_never_returns_in_a_thread_is_named_with_its_lane_and_where_it_stands(stall_after):
    stall_after(0.6)
    leave = threading.Event()

    def waits_for_something(row):
        if row["n"] == STUCK_AT:
            leave.wait(20)
        return row

    timer = threading.Timer(1.5, leave.set)
    timer.start()
    error, told = stalled(pipeline_of(waits_for_something, "threads"))
    timer.join()
    assert "waits for lane " in error.what
    assert "read + map_transform, positions " in error.found
    assert ": runs, submitted " in error.found
    assert "ThreadRunner(parallelism=2): zephon-worker-" in error.found
    assert " at work" in error.found
    assert "ZEPHON_STALL_SECONDS" in error.fix
    [note] = error.__notes__
    assert "in waits_for_something" in note
    assert "thread zephon-coordinator" in note
    assert len(told) == 1, "one warning"
    assert "read + map_transform" in told[0]


def test_a_function_that_never_returns_in_a_process_is_named_with_that_process(stall_after):
    stall_after(2.0)  # workers have to have started by then
    pipeline = pipeline_of(waits_at_37(60), "processes")
    error, told = stalled(pipeline)
    assert "read + map_transform, positions " in error.found
    assert "ProcessRunner(parallelism=2): zephon-process-" in error.found
    assert "(pid " in error.found
    assert " at work" in error.found
    assert len(told) == 1
    assert workers() == [], "nobody is left to wait"


def test_a_worker_that_never_gets_ready_is_named(stall_after, tmp_path, monkeypatch):
    stall_after(0.6)
    write(tmp_path / "sitecustomize.py", "import time\ntime.sleep(60)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    error, _ = stalled(pipeline_of(lambda row: row, "processes"))
    assert " starting" in error.found
    assert ": waits, submitted " in error.found


def test_a_lane_operator_that_never_returns_is_named_and_does_not_keep_the_run_from_being_closed(stall_after):
    stall_after(0.6)
    leave = threading.Event()

    def push(state, row):
        if row["n"] == STUCK_AT:
            leave.wait(20)
        return state, [row]

    work = source(numbered("numbers", ROWS), shuffle_shards=False)
    pipeline = Pipeline(work).stateful_transform("fold", init_state=0, push=push, schema={"n": "int64"}).batch(2)
    error, _ = stalled(pipeline.options(runner="threads", parallelism=2, block_rows=5))
    assert "the operators of lane 0 are at work" in error.found
    assert "in push" in error.__notes__[0]
    leave.set()


def test_a_run_that_is_only_slow_is_no_error(stall_after):
    """A task is done every tenth of a second; all of them take several times the limit."""
    stall_after(0.8)

    def slow(row):
        time.sleep(0.04)
        return row

    begun = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        rows = [n for batch in pipeline_of(slow, "threads", block_rows=2) for n in batch["n"].to_pylist()]
    assert sorted(rows) == list(range(ROWS))
    assert time.monotonic() - begun > 0.8


def test_a_consumer_that_takes_its_time_is_no_error(stall_after):
    stall_after(0.3)
    rows = []
    for batch in pipeline_of(lambda row: row, "threads"):
        rows += batch["n"].to_pylist()
        if len(rows) in (2, 20):
            time.sleep(0.5)
    assert sorted(rows) == list(range(ROWS))


def test_time_in_which_the_process_was_stopped_does_not_count(tmp_path):
    """A debugger, or a scheduler that suspends a job, is no stall."""
    script = write(
        tmp_path / "script.py",
        """
        import time
        from zephon import Pipeline
        from zephon.io import Dataset
        from zephon.work import StaticMixtureWorkSource

        def slow(row):
            if row["n"] == 5:
                print("waiting", flush=True)
                time.sleep(1.0)
            return row

        data = Dataset.from_dict("d", [{"n": n} for n in range(10)])
        pipeline = Pipeline(StaticMixtureWorkSource([data], {"d": 1}, shuffle_shards=False))
        pipeline = pipeline.map_transform(slow, schema={"n": "int64"}).batch(2)
        rows = [n for b in pipeline.options(runner="threads", parallelism=1) for n in b["n"].to_pylist()]
        print("rows", len(rows), flush=True)
        """,
    )
    with running([sys.executable, "-W", "ignore", script], env={"ZEPHON_STALL_SECONDS": "2"}) as process:
        line_of(process, "waiting")
        process.send_signal(signal.SIGSTOP)
        time.sleep(3.0)
        process.send_signal(signal.SIGCONT)
        assert line_of(process, "rows") == "10"


@pytest.mark.parametrize("text", ["soon", "0", "-3", "nan"])
def test_a_limit_that_is_none_is_refused(stall_after, text):
    stall_after(text)
    with pytest.raises(ConfigError) as caught:
        next(iter(pipeline_of(lambda row: row, "threads")))
    assert caught.value.code == "bad-stall-seconds"
    assert text in caught.value.found


def test_no_stall_is_seen_in_a_run_that_ends_before_it_was_waited_for(stall_after):
    stall_after(0.2)
    data = Dataset.from_dict("d", [{"n": n} for n in range(4)])
    pipeline = Pipeline(source(data)).batch(2).options(runner="threads", parallelism=1)
    batches = iter(pipeline)
    next(batches)
    time.sleep(0.3)
    assert len(list(batches)) == 1
