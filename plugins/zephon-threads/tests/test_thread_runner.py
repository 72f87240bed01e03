"""Laws of the thread runner: what it returns is what the inline runner returns, and nothing is left behind."""

import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import CancelledError, wait

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.engine.inline import InlineRunner
from zephon.errors import ConfigError, EngineError, WorkerError
from zephon.plugins import registry
from zephon_threads import _workers
from zephon_threads._runner import ThreadRunner

TIMEOUT = 10


class Function:
    """A program around a plain function, which keeps a record of its instances."""

    def __init__(self, function):
        self.function = function
        self.opened = []
        self.closed = []

    def open(self):
        self.opened.append(threading.current_thread().name)
        return Instance(self)


class Instance:
    def __init__(self, program):
        self.program = program

    def __call__(self, task):
        return self.program.function(task)

    def close(self):
        self.program.closed.append(threading.current_thread().name)


class Odd(Exception):
    pass


def halve(number):
    if number % 2:
        raise Odd(number)
    return number // 2


def worker_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("zephon-worker-")]


def eventually(condition):
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    before = threading.active_count()
    yield
    eventually(lambda: threading.active_count() <= before)


@pytest.fixture
def make():
    """A started runner of one program, closed at the end."""
    runners = []

    def make(function, parallelism=2):
        runner = ThreadRunner(parallelism)
        runner.start([Function(function)])
        runners.append(runner)
        return runner

    yield make
    for runner in runners:
        runner.close()


def outcomes(runner, tasks, programs):
    runner.start(programs)
    try:
        futures = [runner.submit(program, task) for program, task in tasks]
        wait(futures, TIMEOUT)
        return [(type(f.exception()), f.exception().args) if f.exception() else f.result() for f in futures]
    finally:
        runner.close()


@settings(max_examples=40, deadline=None)
@given(
    tasks=st.lists(st.tuples(st.sampled_from([0, 1]), st.integers(-50, 50)), max_size=40),
    parallelism=st.integers(1, 5),
)
def test_results_and_exceptions_are_those_of_the_inline_runner_at_any_parallelism(tasks, parallelism):
    def programs():
        return [Function(halve), Function(str)]

    assert outcomes(ThreadRunner(parallelism), tasks, programs()) == outcomes(InlineRunner(), tasks, programs())


@settings(max_examples=15, deadline=None)
@given(pauses=st.lists(st.integers(0, 3), min_size=1, max_size=30), parallelism=st.integers(2, 4))
def test_a_slow_task_changes_no_other_tasks_result(pauses, parallelism):
    def function(task):
        number, pause = task
        time.sleep(pause / 1000)
        return number

    tasks = [(0, task) for task in enumerate(pauses)]
    assert outcomes(ThreadRunner(parallelism), tasks, [Function(function)]) == list(range(len(pauses)))


def test_tasks_begin_in_the_order_of_submission(make):
    begun = []
    runner = make(begun.append, parallelism=1)
    wait([runner.submit(0, number) for number in range(200)], TIMEOUT)
    assert begun == list(range(200))


def test_with_several_workers_the_next_to_begin_is_the_oldest_that_waits(make):
    begun, releases = set(), [threading.Event() for _ in range(12)]

    def function(number):
        begun.add(number)
        releases[number].wait(TIMEOUT)

    runner = make(function, parallelism=3)
    futures = [runner.submit(0, number) for number in range(12)]
    eventually(lambda: begun == {0, 1, 2})
    for released, number in enumerate([1, 0, 3, 2, 5, 6, 4, 8, 7], start=1):
        releases[number].set()
        eventually(lambda released=released: begun == set(range(3 + released)))
    for release in releases:
        release.set()
    wait(futures, TIMEOUT)


def test_as_many_tasks_run_at_once_as_there_are_workers(make):
    together = threading.Barrier(4)
    runner = make(lambda _: together.wait(TIMEOUT), parallelism=4)
    assert sorted(f.result(TIMEOUT) for f in [runner.submit(0, None) for _ in range(4)]) == [0, 1, 2, 3]


def test_workers_are_daemons_of_a_telling_name_and_start_when_they_are_needed(make):
    release = threading.Event()
    runner = make(lambda _: release.wait(TIMEOUT), parallelism=3)
    assert worker_threads() == []
    futures = [runner.submit(0, None) for _ in range(10)]
    assert sorted(t.name for t in worker_threads()) == ["zephon-worker-0", "zephon-worker-1", "zephon-worker-2"]
    assert all(t.daemon for t in worker_threads())
    release.set()
    wait(futures, TIMEOUT)


def test_tasks_that_follow_each_other_need_one_worker(make):
    runner = make(halve, parallelism=8)
    for number in range(0, 400, 2):
        assert runner.submit(0, number).result(TIMEOUT) == number // 2
    assert len(worker_threads()) == 1


def test_each_worker_opens_a_program_once_and_closes_it_where_it_used_it():
    together = threading.Barrier(3)
    programs = [Function(lambda _: together.wait(TIMEOUT)), Function(halve), Function(halve)]
    runner = ThreadRunner(3)
    runner.start(programs)
    for _ in range(5):
        wait([runner.submit(0, None) for _ in range(3)], TIMEOUT)
    wait([runner.submit(1, 2) for _ in range(50)], TIMEOUT)
    runner.close()
    names = ["zephon-worker-0", "zephon-worker-1", "zephon-worker-2"]
    assert sorted(programs[0].opened) == sorted(programs[0].closed) == names
    assert sorted(programs[1].opened) == sorted(programs[1].closed)
    assert len(programs[1].opened) == len(set(programs[1].opened))
    assert programs[2].opened == [], "a program no task refers to is not opened"


def test_a_program_that_cannot_be_opened_fails_its_task_and_is_tried_again():
    class Moody:
        attempts = 0

        def open(self):
            self.attempts += 1
            if self.attempts == 1:
                raise Odd("not today")
            return str

    runner = ThreadRunner(1)
    runner.start([Moody()])
    assert isinstance(runner.submit(0, 1).exception(TIMEOUT), Odd)
    assert runner.submit(0, 1).result(TIMEOUT) == "1"
    runner.close()


def test_a_task_that_exits_the_interpreter_reaches_the_caller_and_spares_the_worker(make):
    runner = make(lambda task: sys.exit(task) if task else "alive", parallelism=1)
    assert isinstance(runner.submit(0, 3).exception(TIMEOUT), SystemExit)
    assert runner.submit(0, 0).result(TIMEOUT) == "alive"


def test_neither_a_task_nor_its_result_outlives_its_future(make):
    class Thing:
        pass

    runner = make(lambda _: Thing(), parallelism=1)
    task = Thing()
    future = runner.submit(0, task)
    task, result = weakref.ref(task), weakref.ref(future.result(TIMEOUT))
    del future
    eventually(lambda: task() is None and result() is None)


def test_a_failed_task_leaves_no_reference_cycle(make):
    runner = make(halve, parallelism=1)
    gc.collect()
    gc.disable()
    try:
        future = runner.submit(0, 1)
        error = weakref.ref(future.exception(TIMEOUT))
        del future
        eventually(lambda: error() is None)
    finally:
        gc.enable()


def test_close_cancels_what_has_not_begun_and_waits_for_what_has():
    begun, release = threading.Event(), threading.Event()
    runner = ThreadRunner(1)
    runner.start([Function(lambda _: (begun.set(), release.wait(TIMEOUT))[1])])
    running, *waiting = [runner.submit(0, None) for _ in range(5)]
    assert begun.wait(TIMEOUT)
    threading.Timer(0.05, release.set).start()
    runner.close()
    assert running.result(0) is True
    assert all(f.cancelled() for f in waiting)
    assert worker_threads() == []


def test_a_future_cancelled_in_time_is_never_run(make):
    ran, begun, release = [], threading.Event(), threading.Event()

    def function(task):
        ran.append(task)
        begun.set()
        release.wait(TIMEOUT)

    runner = make(function, parallelism=1)
    first, second, third = (runner.submit(0, number) for number in range(3))
    assert begun.wait(TIMEOUT)
    assert second.cancel()
    release.set()
    wait([first, third], TIMEOUT)
    assert ran == [0, 2]
    with pytest.raises(CancelledError):
        second.result(0)


def test_close_may_be_called_twice_before_start_and_from_many_threads_at_once():
    ThreadRunner(1).close()
    runner = ThreadRunner(2)
    runner.start([Function(lambda _: time.sleep(0.02))])
    futures = [runner.submit(0, None) for _ in range(6)]
    closers = [threading.Thread(target=runner.close) for _ in range(4)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(TIMEOUT)
    runner.close()
    assert all(f.done() for f in futures)


def test_a_worker_may_close_its_runner():
    runner = ThreadRunner(2)
    runner.start([Function(lambda _: runner.close() or "closed")])
    future = runner.submit(0, None)
    assert future.result(TIMEOUT) == "closed"
    runner.close()
    assert worker_threads() == []


def test_close_gives_up_on_a_stuck_task_and_the_thread_ends_with_it(monkeypatch):
    monkeypatch.setattr(_workers, "GRACE_SECONDS", 0.1)
    begun, release = threading.Event(), threading.Event()
    runner = ThreadRunner(1)
    runner.start([Function(lambda _: (begun.set(), release.wait(TIMEOUT)))])
    stuck, waiting = runner.submit(0, None), runner.submit(0, None)
    assert begun.wait(TIMEOUT)
    with pytest.warns(RuntimeWarning, match="zephon-worker-0"):
        runner.close()
    assert isinstance(stuck.exception(0), WorkerError)
    assert stuck.exception(0).code == "worker-stuck"
    assert waiting.cancelled()
    release.set()
    eventually(lambda: worker_threads() == [])


def test_what_a_program_raises_on_closing_is_shown_and_keeps_no_other_from_closing(monkeypatch):
    shown = []
    monkeypatch.setattr(threading, "excepthook", lambda args: shown.append(args.exc_type))

    class Clumsy(Function):
        def open(self):
            instance = super().open()
            instance.close = self.fail
            return instance

        def fail(self):
            raise Odd

    programs = [Function(str), Clumsy(str), Function(str)]
    runner = ThreadRunner(1)
    runner.start(programs)
    wait([runner.submit(number, None) for number in range(3)], TIMEOUT)
    runner.close()
    assert shown == [Odd]
    assert programs[0].closed == programs[2].closed == ["zephon-worker-0"]


def test_runners_made_and_dropped_without_close_leave_no_thread():
    for _ in range(60):
        runner = ThreadRunner(3)
        runner.start([Function(halve)])
        runner.submit(0, 2).result(TIMEOUT)
        del runner
    gc.collect()
    eventually(lambda: worker_threads() == [])


def test_a_dropped_runner_cancels_what_has_not_begun():
    begun, release = threading.Event(), threading.Event()
    runner = ThreadRunner(1)
    runner.start([Function(lambda _: (begun.set(), release.wait(TIMEOUT)))])
    running, waiting = runner.submit(0, None), runner.submit(0, None)
    assert begun.wait(TIMEOUT)
    del runner
    gc.collect()
    assert waiting.cancelled()
    release.set()
    running.result(TIMEOUT)


def test_a_runner_is_started_once_used_and_closed():
    runner = ThreadRunner(1)
    with pytest.raises(EngineError) as unstarted:
        runner.submit(0, None)
    runner.start([Function(halve)])
    with pytest.raises(EngineError) as again:
        runner.start([])
    runner.close()
    with pytest.raises(EngineError) as closed:
        runner.submit(0, None)
    with pytest.raises(EngineError) as reopened:
        runner.start([])
    assert {e.value.code for e in (unstarted, again, closed, reopened)} == {"runner-state"}


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, "2", True])
def test_a_parallelism_that_is_no_positive_integer_is_refused(parallelism):
    with pytest.raises(ConfigError) as refused:
        ThreadRunner(parallelism)
    assert refused.value.code == "bad-parallelism"


def test_facts_are_known_before_start():
    assert ThreadRunner(7).facts.workers == 7
    assert ThreadRunner(7).facts.shares_memory
    assert ThreadRunner().facts.workers >= 1


def test_the_registry_finds_the_runner():
    assert registry("runner").load("threads") is ThreadRunner


def run_script(body, *, interrupt_after=None):
    """Run a script whose second line of output tells that it is time to interrupt; returns (exit code, seconds)."""
    script = textwrap.dedent("""
        import signal, sys, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
        from zephon_threads import _workers
        from zephon_threads._runner import ThreadRunner
        _workers.GRACE_SECONDS = 0.2

        class Program:
            def __init__(self, function): self.function = function
            def open(self): return self.function
        """) + textwrap.dedent(body)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        start = time.monotonic()
        if interrupt_after is not None:
            time.sleep(interrupt_after)
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
        process.wait()
    return process.returncode, time.monotonic() - start, errors


def test_ctrl_c_while_waiting_for_a_result_closes_and_exits():
    code, seconds, errors = run_script(
        """
        runner = ThreadRunner(2)
        runner.start([Program(lambda _: time.sleep(0.3))])
        futures = [runner.submit(0, None) for _ in range(1000)]
        print("ready", flush=True)
        try:
            futures[-1].result()
        except KeyboardInterrupt:
            runner.close()
            assert all(f.done() for f in futures)
            sys.exit(7)
        """,
        interrupt_after=0.1,
    )
    assert code == 7, errors
    assert seconds < 5


def test_the_interpreter_exits_though_a_task_hangs_and_nobody_closed_the_runner():
    code, seconds, errors = run_script(
        """
        runner = ThreadRunner(1)
        begun = threading.Event()
        runner.start([Program(lambda _: (begun.set(), time.sleep(3600)))])
        runner.submit(0, None)
        begun.wait()
        print("ready", flush=True)
        """
    )
    assert code == 0, errors
    assert seconds < 5


def test_a_task_that_is_nearly_done_may_finish_before_the_interpreter_is_torn_down():
    code, _, errors = run_script(
        """
        _workers.GRACE_SECONDS = 5
        runner = ThreadRunner(1)
        begun = threading.Event()

        def task(_):
            begun.set()
            time.sleep(0.2)
            print("finished", file=sys.stderr, flush=True)

        runner.start([Program(task)])
        runner.submit(0, None)
        begun.wait()
        print("ready", flush=True)
        """
    )
    assert (code, errors) == (0, "finished\n")
