"""Every way out of a run frees threads, processes, files, shared memory and temporary files within five seconds.

Ways that leave the interpreter running are walked twice in this process, and what the second time leaves is counted.
The others end a script of a user's, and what is looked for afterwards is all it had started.
"""

import code
import gc
import os
import signal
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon import Pipeline
from zephon.errors import DataError, EngineError
from zephon.io import Dataset
from zephon_field_cases import source
from zephon_scripts import alive, comes_true, descendants, line_of, running, write
from zephon_testkit.leaks import holdings, leaked

SCRIPT = Path(__file__).with_name("training_script.py")
RUNNERS = {"inline": 0, "threads": 2, "processes": 2}
SECONDS = 5.0

pytestmark = pytest.mark.parametrize("runner", RUNNERS)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A dataset of several files, so that iterating holds some open."""
    folder = tmp_path_factory.mktemp("data")
    for number in range(3):
        table = pa.table({"n": pa.array(range(number * 60, number * 60 + 60), pa.int64())})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=10)
    Dataset.from_path("a", folder).total()  # the index is written once
    return folder


def same(row):
    return row


def make(files, runner, function=same, **options):
    work = source(Dataset.from_path("a", files), seed=1, exhausted_policy="repeat")
    pipeline = Pipeline(work).map_transform(function, schema={"n": "int64"}).shuffle(5).batch(2)
    parallelism = min(RUNNERS[runner], 2 if runner == "threads" else 1)  # a process takes a while to start
    settings = {"canonical_replicas": 3, "runner": runner, "parallelism": parallelism, "block_rows": 7}
    return pipeline.options(**{**settings, **options})


# --- ways that leave the interpreter running ------------------------------------------------------------------------


def the_end(files, runner):
    assert len(list(make(files, runner, max_rounds=4))) == 12


def a_break(files, runner):
    for step, _ in enumerate(make(files, runner)):
        if step == 5:
            break


def an_exception_in_the_loop(files, runner):
    def train():
        for step, _ in enumerate(make(files, runner, prefetch_batches=32)):
            if step == 5:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()


def an_exception_in_an_operator(files, runner):
    def fails(row):
        if row["n"] == 77:
            raise ValueError("bad")
        return row

    with pytest.raises(DataError):
        list(make(files, runner, fails))


def close(files, runner):
    pipeline = make(files, runner)
    batches = iter(pipeline)
    next(batches)
    pipeline.close()
    kept.append((pipeline, batches))


def leaving_with(files, runner):
    with make(files, runner) as pipeline:
        batches = iter(pipeline)
        next(batches)
    kept.append((pipeline, batches))


def garbage_collection(files, runner):
    cycle = {"batches": iter(make(files, runner))}
    cycle["itself"] = cycle
    next(cycle["batches"])


def a_worker_of_its_own_that_ends(files, runner):
    import threading

    thread = threading.Thread(target=lambda: next(iter(make(files, runner))))
    thread.start()
    thread.join()


#: What still refers to a run that was closed: closing has to free it all, not the end of the object.
kept = []

WAYS = {
    way.__name__: way
    for way in (
        the_end,
        a_break,
        an_exception_in_the_loop,
        an_exception_in_an_operator,
        close,
        leaving_with,
        garbage_collection,
        a_worker_of_its_own_that_ends,
    )
}


@pytest.mark.parametrize("way", WAYS)
def test_k1_a_way_out_leaves_nothing_behind(files, runner, way):
    try:
        assert leaked(lambda: WAYS[way](files, runner)) == []
    finally:
        kept.clear()


CELL = """
batches = iter(pipeline)
seen.append([next(batches)["n"].to_pylist() for _ in range(3)])
"""


def test_k1_a_notebook_cell_that_is_run_again_gives_the_same_and_leaves_one_run(files, runner):
    pipeline, seen = make(files, runner), []
    notebook = code.InteractiveInterpreter({"pipeline": pipeline, "seen": seen})
    notebook.runcode(compile(CELL, "cell", "exec"))
    former = notebook.locals["batches"]
    first = holdings()
    for _ in range(3):
        notebook.runcode(compile(CELL, "cell", "exec"))
    assert seen == [seen[0]] * 4
    with pytest.raises(EngineError) as caught:
        next(former)
    assert caught.value.code == "iterator-closed"
    counts = lambda held: [len(held.threads), len(held.children), len(held.shared_memory)]
    no_more = lambda: all(now <= then for now, then in zip(counts(holdings()), counts(first), strict=True))
    assert comes_true(lambda: gc.collect() >= 0 and no_more(), SECONDS)
    assert comes_true(lambda: len(holdings().files) <= len(first.files) + 2, SECONDS), "shards may be open, not runs"
    pipeline.close()


# --- ways that end the interpreter ----------------------------------------------------------------------------------

#: State of the script, what is sent to it and when (seconds after the state was reached), and how it ends.
SIGNALS = {
    "ctrl-c": ("loop", [(0.0, signal.SIGINT)], {-signal.SIGINT}),
    "ctrl-c while stuck": ("stuck", [(0.2, signal.SIGINT)], {-signal.SIGINT}),
    "ctrl-c twice": ("loop", [(0.0, signal.SIGINT), (0.05, signal.SIGINT)], {-signal.SIGINT}),
    "ctrl-c twice while stuck": ("stuck", [(0.2, signal.SIGINT), (0.5, signal.SIGINT)], {-signal.SIGINT}),
    "sigterm": ("loop", [(0.0, signal.SIGTERM)], {-signal.SIGTERM}),
    "sigterm that is handled": ("handles", [(0.0, signal.SIGTERM)], {7}),
    "sigkill": ("loop", [(0.0, signal.SIGKILL)], {-signal.SIGKILL}),
    "sigkill while stuck": ("stuck", [(0.2, signal.SIGKILL)], {-signal.SIGKILL}),
    "exit without close": ("exit", [], {0}),
}


@pytest.mark.parametrize("way", SIGNALS)
def test_k1_an_interpreter_that_ends_leaves_nothing_behind(files, runner, way, tmp_path):
    state, signals, codes = SIGNALS[way]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = holdings().shared_memory
    with running([sys.executable, SCRIPT, runner, files, state], env={"TMPDIR": str(temporary)}) as process:
        line_of(process, "stuck" if state == "stuck" else "training")
        family = descendants(process.pid)
        assert state == "exit" or len(family) == (2 if runner == "processes" else 0)
        begun = time.monotonic()
        for after, number in signals:
            time.sleep(after)
            process.send_signal(number)
        _, said = process.communicate(timeout=SECONDS)
        assert process.returncode in codes, said
        assert comes_true(lambda: not any(map(alive, family)), SECONDS - (time.monotonic() - begun))
    assert "Fatal Python error" not in said
    assert "Exception ignored" not in said or len(signals) > 1, said
    assert holdings().shared_memory == before
    assert os.listdir(temporary) == []


def test_k1_pytest_ends_with_iterators_that_tests_and_fixtures_have_forgotten(files, runner, tmp_path):
    write(
        tmp_path / "test_of_a_user.py",
        f"""
        import os
        import sys
        import pytest
        from zephon import Pipeline
        from zephon.io import Dataset
        from zephon.work import StaticMixtureWorkSource

        def make():
            source = StaticMixtureWorkSource([Dataset.from_path("a", {str(files)!r})], {{"a": 1}}, seed=1)
            return Pipeline(source).shuffle(5).batch(2).options(runner={runner!r}, parallelism={RUNNERS[runner]})

        forgotten = []

        @pytest.fixture(scope="session")
        def batches():
            return iter(make())

        def test_one(batches):
            next(batches)

        def test_two(batches):
            next(batches)
            forgotten.append(iter(make()))
            next(forgotten[0])
        """,
    )
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    with running(command, cwd=tmp_path) as process:
        assert comes_true(lambda: len(descendants(process.pid)) >= 2 or process.poll() is not None, 30)
        family = descendants(process.pid)
        said, complained = process.communicate(timeout=30)
        assert process.returncode == 0, said + complained
        assert complained == ""
        assert "2 passed" in said
        assert "warning" not in said
        assert comes_true(lambda: not any(map(alive, family)), SECONDS)


def test_k1_a_script_that_is_forked_by_its_user_disturbs_no_worker(files, runner, tmp_path):
    """A child of ``os.fork`` ends, and the parent's run goes on: what the child inherited is none of its business."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, warnings
            from zephon import Pipeline
            from zephon.io import Dataset
            from zephon.work import StaticMixtureWorkSource

            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads and fork
            source = StaticMixtureWorkSource([Dataset.from_path("a", {str(files)!r})], {{"a": 1}}, seed=1)
            pipeline = Pipeline(source).batch(2).options(runner={runner!r}, parallelism={RUNNERS[runner]}, block_rows=4)
            batches = iter(pipeline)
            seen = [next(batches)["n"].to_pylist()]
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            seen += [batch["n"].to_pylist() for batch in batches]
            print(sorted(n for numbers in seen for n in numbers) == list(range(180)))
            """
        )
    )
    with running([sys.executable, script]) as process:
        said, complained = process.communicate(timeout=30)
        assert (said, complained, process.returncode) == ("True\n", "", 0)
