"""The suite of ``zephon.runner.v1``; the clauses are in ``docs/contracts/runner-v1.md``.

Every wait has an end: a runner that loses a task fails its clause instead of keeping the run from ending.
"""

from __future__ import annotations

import copy
import gc
import os
import random
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.abc import HostsEngines, Line, Program, ReportsWorkers, Runner, RunnerFacts
from zephon.block import Block, empty_columns
from zephon.errors import ConfigError, EngineError, PeerGoneError
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_testkit import programs
from zephon_testkit.blocks import inside_another, sample_block, sample_origins
from zephon_testkit.clauses import clause
from zephon_testkit.installed import operator
from zephon_testkit.leaks import leaked
from zephon_testkit.packaging import PluginTests
from zephon_testkit.profiles import for_all
from zephon_testkit.programs import Calls, Carried, Counted, wait_for


class RunnerTests(PluginTests):
    """Subclass it and name the plugin::

    class TestPool(RunnerTests):
        plugin = "pool"
    """

    point: ClassVar[str] = "runner"
    #: Values of ``parallelism`` to try; ``(0,)`` for a runner without workers.
    parallelism: ClassVar[Sequence[int]] = (1, 2, 4)
    #: Seconds in which what takes a moment has to be done. Starting a worker counts.
    patience: ClassVar[float] = 30.0

    # ------------------------------------------------------------------ what tests are made of

    @property
    def most(self) -> int:
        """The largest parallelism to try."""
        return max(self.parallelism)

    def runner(self, parallelism: int | None) -> Runner:
        """A runner that has not been started."""
        made: Runner = self.implementation()(parallelism=parallelism, **self.settings)
        return made

    @contextmanager
    def running(self, *started: Program, parallelism: int | None = None) -> Iterator[Runner]:
        """A runner of programs, with the largest parallelism unless another is given; closed in the end."""
        runner = self.runner(self.most if parallelism is None else parallelism)
        self.within(lambda: runner.start(started), "start()")
        try:
            yield runner
        finally:
            self.within(runner.close, "close()")

    def result(self, future: Future[Any]) -> Any:
        """The result of a future that has to be done soon."""
        error = self.error(future)
        if error is not None:
            raise AssertionError(f"a task failed: {error!r}") from error
        return future.result(0)

    def results(self, futures: Sequence[Future[Any]]) -> list[Any]:
        """The results of several."""
        return [self.result(future) for future in futures]

    def error(self, future: Future[Any]) -> BaseException | None:
        """The exception of a future that has to be done soon."""
        try:
            return future.exception(self.patience)
        except FutureTimeout:
            raise AssertionError(f"a future is not done after {self.patience:.0f} s: {future}") from None

    def raised(self, runner: Runner, task: str) -> BaseException | None:
        """What comes of a task that may raise even what is no ``Exception``."""
        try:
            future = runner.submit(0, task)
        except (SystemExit, KeyboardInterrupt) as error:
            if runner.facts.workers:
                raise AssertionError(f"submit raised {error!r}") from error
            return error
        return self.error(future)

    def within(self, work: Callable[[], object], what: str) -> None:
        """Do something that must not hang, on a thread of its own, and let its exception out."""
        failed: list[BaseException] = []

        def attempt() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - it is raised again below
                failed.append(error)

        thread = threading.Thread(target=attempt, name=f"conformance {what}", daemon=True)
        thread.start()
        thread.join(self.patience)
        assert not thread.is_alive(), f"{what} has not returned after {self.patience:.0f} s"
        if failed:
            raise failed[0]

    # ------------------------------------------------------------------ facts

    @clause("RU-1")
    def test_facts_are_there_before_start_and_stay(self) -> None:
        """If this fails, ``facts`` needs what ``start`` makes, or ``workers`` is not ``parallelism``: planning and
        ``explain()`` go by them, and the engine keeps so many tasks in flight.
        """
        for parallelism in (*self.parallelism, None):
            runner = self.runner(parallelism)
            facts = runner.facts
            assert isinstance(facts, RunnerFacts)
            assert type(facts.workers) is int
            assert type(facts.shares_memory) is bool
            if parallelism is not None:
                assert facts.workers == parallelism, f"parallelism={parallelism}, and {facts.workers} workers"
            assert facts.workers >= 0
            self.within(lambda runner=runner: runner.start([Calls("square")]), "start()")  # type: ignore[misc]
            try:
                assert runner.facts == facts
                assert self.result(runner.submit(0, 3)) == 9
                assert runner.facts == facts
            finally:
                self.within(runner.close, "close()")

    @clause("RU-2")
    def test_a_parallelism_that_cannot_be_is_refused(self) -> None:
        """If this fails, a wrong ``parallelism`` is taken, or found out too late; raise ``ConfigError`` in ``__init__``
        (``bad-parallelism``).
        """
        for wrong in (-1, 1.5, "two", True, [2]):
            with pytest.raises(ConfigError):
                self.runner(wrong)  # type: ignore[arg-type]

    # ------------------------------------------------------------------ results

    @clause("RU-3")
    def test_the_result_is_the_programs(self) -> None:
        """If this fails, a future gets the result of another task or of another program, or a task is not run at all:
        look at how results find their futures when tasks end in another order than they began.
        """
        functions = [programs.square, programs.name, programs.late]
        small = st.one_of(
            st.tuples(st.sampled_from([0, 1]), st.integers(-3, 300)),
            st.tuples(st.just(2), st.tuples(st.integers(0, 99), st.sampled_from([0.0, 0.001, 0.004]))),
        )
        for parallelism in self.parallelism:
            with self.running(Calls("square"), Calls("name"), Calls("late"), parallelism=parallelism) as runner:
                self._check_results(runner, functions, small)

    @clause("RU-4")
    def test_as_many_tasks_run_at_once_as_the_facts_say(self, tmp_path: Path) -> None:
        """If this fails, workers wait for each other (a lock around the task, a queue of one), or there are more or
        fewer of them than ``facts.workers``.
        """
        for parallelism in self.parallelism:
            meeting, crowd = tmp_path / f"meeting-{parallelism}", tmp_path / f"crowd-{parallelism}"
            meeting.mkdir()
            crowd.mkdir()
            workers = max(1, parallelism)
            meets = programs.Meets(str(meeting), workers, self.patience / 2)
            with self.running(meets, programs.Crowds(str(crowd)), parallelism=parallelism) as runner:
                met = self.results([runner.submit(0, number) for number in range(workers)])
                assert all(met), f"{len(os.listdir(meeting))} of {workers} tasks ran at once"
                seen = self.results([runner.submit(1, number) for number in range(4 * workers + 4)])
                assert max(seen) <= workers, f"{max(seen)} tasks ran at once"

    # ------------------------------------------------------------------ what fails

    @clause("RU-5")
    def test_a_tasks_exception_is_its_futures(self) -> None:
        """If this fails, an exception is swallowed, wrapped, or arrives without the traceback of where it was raised
        (add a note with the text of a traceback that cannot be sent); or a worker does not go on after it.
        """
        with self.running(Calls("fail")) as runner:
            for task in ("ValueError", "KeyError", "DataError"):
                expected = programs.failure(task)
                error = self.error(runner.submit(0, task))
                assert type(error) is type(expected), f"{task}: the future has {error!r}"
                assert (str(error), repr(error)) == (str(expected), repr(expected))
                kept = {name: value for name, value in vars(error).items() if name != "__notes__"}
                assert kept == vars(expected)
                assert "_where_it_fails" in _told(error), "the traceback does not lead to where it was raised"
            self._check_alive(runner)

    @clause("RU-6")
    def test_an_exception_that_cannot_be_sent_is_still_told(self) -> None:
        """If this fails, an exception was lost on its way: pickling it failed, or making it anew from its ``args`` did.
        Try both in the worker, and send an exception of your own with class, message and traceback instead.
        """
        with self.running(Calls("fail")) as runner:
            for task in ("Unsendable", "TwoParts"):
                error = self.error(runner.submit(0, task))
                assert isinstance(error, Exception), f"{task}: the future has {error!r}"
                told = _told(error)
                assert task in told, f"{task} is not named in {told}"
                assert str(programs.failure(task)) in told, f"what it says is not in {told}"
                if runner.facts.shares_memory:
                    assert type(error) is type(programs.failure(task)), "in one memory, nothing has to be sent"
            self._check_alive(runner)

    @clause("RU-7")
    def test_a_task_cannot_take_its_worker_along(self) -> None:
        """If this fails, ``SystemExit`` or ``KeyboardInterrupt`` ends the worker, and its future is never done; catch
        ``BaseException`` around the task.
        """
        with self.running(Calls("fail")) as runner:
            for task in ("SystemExit", "KeyboardInterrupt") * max(1, self.most):
                error = self.raised(runner, task)
                assert type(error) is type(programs.failure(task)), f"{task}: the future has {error!r}"
                assert error.args == programs.failure(task).args
            self._check_alive(runner)

    @clause("RU-8")
    def test_a_program_that_cannot_be_opened_fails_its_tasks(self) -> None:
        """If this fails, what ``open`` raises ends a worker, or hits tasks of other programs; or ``start`` raises it,
        though the program may be able to open on other machines.
        """
        with self.running(programs.CannotOpen(), Calls("square")) as runner:
            futures = [runner.submit(number % 2, number) for number in range(4 * max(1, self.most))]
            for number, future in enumerate(futures):
                if number % 2:
                    assert self.result(future) == number * number
                else:
                    error = self.error(future)
                    assert isinstance(error, OSError), f"the future has {error!r}"
                    assert "no model on this machine" in str(error)

    # ------------------------------------------------------------------ instances

    @clause("RU-9")
    def test_a_program_is_opened_once_per_worker(self, tmp_path: Path) -> None:
        """If this fails, ``open`` is called per task: models and tokenizers would be loaded over and over."""
        counted = [Counted(str(tmp_path), name) for name in ("one", "other")]
        with self.running(*counted) as runner:
            tasks = [runner.submit(number % 2, 0.001) for number in range(12 * max(1, self.most))]
            self.results(tasks)
            for program in counted:
                opened = len(program.noted("open"))
                assert 1 <= opened <= max(1, self.most), f"{self.most} workers have opened a program {opened} times"

    @clause("RU-10")
    def test_an_instance_is_used_by_one_thread_at_a_time(self, tmp_path: Path) -> None:
        """If this fails, workers share an instance; operators keep scratch memory and open files in theirs."""
        with self.running(Counted(str(tmp_path), "shared")) as runner:
            shared = self.results([runner.submit(0, 0.01) for _ in range(5 * max(1, self.most))])
            assert not any(shared), f"{sum(shared)} tasks met another one in their instance"

    @clause("RU-11")
    def test_instances_are_closed(self, tmp_path: Path) -> None:
        """If this fails, ``close()`` of an instance is not called when its worker ends, or is called twice."""
        program = Counted(str(tmp_path), "closed")
        with self.running(program, Calls("square")) as runner:
            self.results([runner.submit(0, 0.01) for _ in range(2 * max(1, self.most))])
        opened = sorted(program.noted("open"))
        wait_for(lambda: len(program.noted("close")) >= len(opened), self.patience)
        assert sorted(program.noted("close")) == opened

    # ------------------------------------------------------------------ what crosses

    @clause("RU-12")
    def test_blocks_cross_unchanged_both_ways(self) -> None:
        """If this fails, a block was changed between this process and a worker, or back: a slice sent with its parents,
        no columns taken for no rows, metadata of a field or an origin's dtype lost.
        """
        with self.running(Calls("look"), Calls("echo")) as runner:
            for label, block in _blocks().items():
                before = programs.content(block)
                found = self.result(runner.submit(0, Carried(block, "", (1, -1))))
                assert type(found) is Carried, f"{label}: {type(found)}"
                assert found.content == before, f"{label}: the worker got {found.content}"
                assert programs.content(found.block) == before, f"{label} comes back changed"
                assert found.numbers == (1, -1)
                found.block.data.validate(full=True)
                assert programs.content(self.result(runner.submit(1, block))) == before, f"{label}, by itself"
            origins = sample_origins(11)
            assert self.result(runner.submit(1, origins)) == origins

    @clause("RU-13")
    def test_what_is_received_owns_its_memory(self) -> None:
        """If this fails, results look into memory that is used again for later tasks, or given back by ``close``. Copy
        what came through shared memory when it is received.
        """
        blocks = [sample_block(rows, lane=rows) for rows in (5, 6, 7, 100)]
        with self.running(Calls("look")) as runner:
            found = [self.result(runner.submit(0, Carried(block, ""))) for block in blocks]
            for rows in range(30, 30 + 3 * max(1, self.most)):
                # In another order, so that no place in memory gets the value it had.
                other = sample_block(rows).take(np.arange(rows)[::-1].copy())
                self.result(runner.submit(0, Carried(other, "")))
            assert [programs.content(carried.block) for carried in found] == [carried.content for carried in found]
        del runner
        gc.collect()
        assert [programs.content(carried.block) for carried in found] == [carried.content for carried in found]

    @clause("RU-14")
    def test_tasks_stay_as_they_are(self) -> None:
        """If this fails, the runner writes into a task: tags it, takes from a list, empties it when it is done. The
        engine may submit it again.
        """
        tasks: list[Any] = [[3, 1, 2], {"b": [1], "a": {}}, (1, [2, {"c": 3}])]
        before = [repr(copy.deepcopy(task)) for task in tasks]
        carried = Carried(sample_block(9), "")
        content = programs.content(carried.block)
        with self.running(Calls("name"), Calls("look")) as runner:
            assert self.results([runner.submit(0, task) for task in tasks]) == before
            self.result(runner.submit(1, carried))
        assert [repr(task) for task in tasks] == before
        assert programs.content(carried.block) == content

    # ------------------------------------------------------------------ its life

    @clause("RU-15")
    def test_a_runner_is_started_once_used_and_closed(self) -> None:
        """If this fails, a call at the wrong time is let through, or is an error of another kind; a task submitted
        after ``close`` would wait for ever.
        """
        runner = self.runner(self.most)
        self._check_misused(lambda: runner.submit(0, 1), "submit() before start()")
        self.within(lambda: runner.start([Calls("square")]), "start()")
        try:
            self._check_misused(lambda: runner.start([Calls("square")]), "a second start()")
            assert self.result(runner.submit(0, 2)) == 4
        finally:
            self.within(runner.close, "close()")
        self._check_misused(lambda: runner.submit(0, 1), "submit() after close()")
        self._check_misused(lambda: runner.start([Calls("square")]), "start() after close()")

    @clause("RU-16")
    def test_closing_ends_everything_within_seconds(self, tmp_path: Path) -> None:
        """If this fails, ``close`` runs what is still waiting instead of cancelling it, or leaves futures that are
        never done, and with them whoever waits in ``result()``; or it cannot be called twice, or before ``start``.
        """
        self.within(self.runner(self.most).close, "close() before start()")
        workers = self.most
        waits = programs.Waits(str(tmp_path), held=1000 if workers else 0, patience=self.patience)
        runner = self.runner(workers)
        self.within(lambda: runner.start([waits]), "start()")
        futures = [runner.submit(0, number) for number in range(workers + 6)]
        woken = threading.Event()

        def wait() -> None:
            # Woken by whatever end: a result, an exception, or that it was cancelled.
            with suppress(Exception, CancelledError):
                futures[-1].result(2 * self.patience)
            woken.set()

        threading.Thread(target=wait, daemon=True).start()
        running = range(workers)
        assert wait_for(lambda: all(waits.begun(number) for number in running), self.patience), "no worker has begun"
        leave = threading.Timer(0.3, waits.leave)
        leave.start()
        self.within(runner.close, "close()")
        leave.join()
        undone = [number for number, future in enumerate(futures) if not future.done()]
        assert not undone, f"after close(), the futures of tasks {undone} are not done"
        assert woken.wait(self.patience), "a thread that waits for a future was not woken"
        self.within(runner.close, "a second close()")
        for number, future in enumerate(futures):
            begun = bool(waits.begun(number))
            assert begun or future.cancelled(), f"task {number} has not begun, and its future is {future}"
            assert not begun or number in running or not workers, f"task {number} was run by close()"

    @clause("RU-17")
    def test_a_closed_runner_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """If this fails, ``close`` returns before workers have ended, or forgets a pipe, a queue's thread, a process or
        a segment of shared memory.
        """
        kept = []  # close() has to free it all, not the end of the object

        def work() -> None:
            with self.running(Calls("look"), Counted(str(tmp_path), "left")) as runner:
                kept.append(runner)
                tasks = [runner.submit(0, Carried(sample_block(50), "")) for _ in range(3 * max(1, self.most))]
                tasks += [runner.submit(1, 0.001) for _ in range(max(1, self.most))]
                self.results(tasks)

        remains = leaked(work)
        assert not remains, "; ".join(remains)

    @clause("RU-18")
    def test_a_runner_nobody_closed_leaves_nothing_behind_either(self) -> None:
        """If this fails, workers hold a reference to their runner, so that it is never collected, or nothing tells them
        to end when it is: see ``weakref.finalize``.
        """

        def work() -> None:
            runner = self.runner(self.most)
            runner.start([Calls("square")])
            self.results([runner.submit(0, number) for number in range(2 * max(1, self.most))])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # to say that close() was forgotten is a kindness
            remains = leaked(work)
        assert not remains, "; ".join(remains)

    @clause("RU-19")
    def test_many_tasks_and_large_ones_arrive(self, tmp_path: Path) -> None:
        """If this fails, a queue has an end that ``submit`` runs into, a pipe is full in both directions, or what is
        larger than some buffer is cut.
        """
        waits = programs.Waits(str(tmp_path), held=self.most, patience=self.patience)
        with self.running(Calls("square"), Calls("echo"), waits) as runner:
            held = [runner.submit(2, number) for number in range(self.most)]  # meanwhile all others wait
            futures: list[Future[Any]] = []
            self.within(lambda: futures.extend(runner.submit(0, n) for n in range(1000)), "submit() of 1000 tasks")
            waits.leave()
            assert self.results(futures) == [number * number for number in range(1000)]
            assert self.results(held) == list(range(self.most))
            noise = random.Random(9)
            values = pa.array([noise.randbytes(1 << 20) for _ in range(32)])
            large = Block(pa.RecordBatch.from_arrays([values], names=["raw"]), sample_origins(len(values)))
            found = self.result(runner.submit(1, large))
            assert found.data.equals(large.data), "a task of 32 MiB comes back changed"
            assert found.origins == large.origins

    @clause("RU-20")
    def test_runners_do_not_disturb_each_other(self) -> None:
        """If this fails, something is shared that belongs to one runner: a global queue, a name in ``/dev/shm``, a pool
        that the first ``close`` ends for all.
        """
        with self.running(Calls("square")) as one:
            with self.running(Calls("name")) as other:
                futures = [(one.submit(0, number), other.submit(0, number)) for number in range(40)]
                for number, (squared, named) in enumerate(futures):
                    assert (self.result(squared), self.result(named)) == (number * number, repr(number))
            assert self.results([one.submit(0, n) for n in range(9)]) == [n * n for n in range(9)], "one was closed"

    # ------------------------------------------------------------------ lost workers

    @clause("RU-21")
    def test_a_lost_worker_loses_no_task(self, tmp_path: Path) -> None:
        """If this fails where workers are processes: one was killed, and a task it had, or one that waited, was lost or
        became an error. Tasks are pure: run them again. Otherwise: ``shares_memory`` is not what the facts say.
        """
        waits = programs.Waits(str(tmp_path), held=1, patience=self.patience / 2)
        if not self.most:
            waits.leave()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a worker was lost is worth a warning
            with self.running(waits) as runner:
                futures = [runner.submit(0, number) for number in range(4 * max(1, self.most))]
                assert wait_for(lambda: bool(waits.begun(0)), self.patience), "the first task has not begun"
                [process] = waits.begun(0)
                shared = process == os.getpid()
                assert runner.facts.shares_memory is shared, f"facts are {runner.facts}, and it ran in {process}"
                if not shared:
                    os.kill(process, signal.SIGKILL)
                    assert wait_for(lambda: len(waits.begun(0)) > 1, self.patience), "the task was not run again"
                waits.leave()
                assert self.results(futures) == list(range(len(futures)))

    # ------------------------------------------------------------------ in a pipeline

    @clause("RU-22")
    def test_a_pipeline_gives_the_same_batches_as_without_a_runner(self) -> None:
        """If this fails although the clauses above hold, tasks are not run as they were submitted: twice with other
        results, or in a worker whose surroundings (time zone, locale, hash seed) the function depends on.
        """
        from zephon_testkit.script import seen

        def batches(runner: str, parallelism: int) -> list[Any]:
            rows = [{"n": n, "text": f"text {n}"} for n in range(70)]
            source = StaticMixtureWorkSource([Dataset.from_dict("memory", rows)], {"memory": 1.0}, seed=4)
            pipeline = Pipeline(source).pipe(operator("map_transform", programs.shout)).pipe(operator("batch", 4))
            pipeline = pipeline.options(runner=runner, parallelism=parallelism, block_rows=3, canonical_replicas=3)
            with pipeline:
                return [seen(batch) for batch in pipeline]

        expected = batches("inline", 0)
        assert expected
        for parallelism in self.parallelism:
            found: list[Any] = []
            self.within(lambda n=parallelism, into=found: into.extend(batches(self.plugin, n)), "the pipeline")  # type: ignore[misc]
            assert found == expected, f"with parallelism={parallelism}"

    @clause("RU-23")
    def test_workers_are_reported_or_that_is_not_offered(self) -> None:
        """If this fails with the capability ``reports_workers`` declared: a worker took tasks before its start was
        reported, or one that ended was not. Without it: there is a ``report_workers`` nobody will call.
        """
        runner = self.runner(self.most)
        if not self.has("reports_workers"):
            assert not isinstance(runner, ReportsWorkers), (
                "it has report_workers(), but does not declare the capability"
            )
            return
        assert isinstance(runner, ReportsWorkers), "the capability is declared, but there is no report_workers()"
        events: list[tuple[str, str, str]] = []
        runner.report_workers(lambda *event: events.append(event))
        self.within(lambda: runner.start([Calls("square")]), "start()")
        self.results([runner.submit(0, number) for number in range(4 * max(1, self.most))])
        started = [worker for event, worker, _ in events if event == "start"]
        assert started, "tasks were done by a worker nobody was told of"
        assert len(set(started)) == len(started), "two workers have one name"
        self.within(runner.close, "close()")
        stopped = [worker for event, worker, _ in events if event == "stop"]
        started = [worker for event, worker, _ in events if event == "start"]
        assert sorted(stopped) == sorted(started), f"started: {started}; stopped: {stopped}"
        assert all(reason == "" for event, _, reason in events if event == "stop"), "they were told to end"

    @clause("RU-24")
    def test_a_function_runs_at_the_other_end_of_a_line_or_that_is_not_offered(self) -> None:
        """If this fails with the capability ``hosts`` declared: what crosses the line is not what was sent, an error of
        the other side is lost, or its end goes unnoticed. Without it: there is a ``host`` nobody will call.
        """
        implementation = self.implementation()
        if not self.has("hosts"):
            assert not isinstance(implementation, HostsEngines), "it has host(), but does not declare the capability"
            return
        assert isinstance(implementation, HostsEngines), "the capability is declared, but there is no host()"

        def talk() -> None:
            line: Line = implementation.host(programs.answer)
            try:
                assert line.receive(0.05) is None, "something came that nobody sent"
                for what, block in _blocks().items():
                    line.send("back", block)
                    reply = line.receive(self.patience)
                    assert reply is not None, f"no answer to {what}"
                    assert reply[0] == "back"
                    assert reply[1].origins == block.origins, f"{what} has other origins"
                    assert reply[1].data.equals(block.data, check_metadata=True), f"{what} has other rows"
                line.send("where")
                assert line.receive(self.patience) != ("where", os.getpid()), "it runs in this very process"
                line.send("fail", "on purpose")
                with pytest.raises(ValueError, match="on purpose"):
                    line.receive(self.patience)
                with pytest.raises(PeerGoneError):
                    line.receive(self.patience)
            finally:
                line.close()

        remains = leaked(lambda: self.within(talk, "the talk"))
        assert not remains, "; ".join(remains)

    # ------------------------------------------------------------------ helpers

    def _check_results(self, runner: Runner, functions: Sequence[Any], task: st.SearchStrategy[Any]) -> None:
        def check(tasks: Sequence[tuple[int, Any]]) -> None:
            futures = [runner.submit(program, task) for program, task in tasks]
            assert self.results(futures) == [functions[program](task) for program, task in tasks]

        # Equal by hash(), and equal to each other though not the same.
        check([(0, -1), (0, -2), (1, 1), (1, 1.0), (1, True), (1, "1"), (1, None), (1, (1, "a"))])
        # The longer one waits for its result, the earlier it was submitted.
        check([(2, (number, 0.02 - number / 500)) for number in range(10)])
        shuffled = list(range(60))
        random.Random(3).shuffle(shuffled)
        check([(number % 2, number) for number in shuffled])
        for_all(st.lists(task, max_size=12))(check)

    def _check_alive(self, runner: Runner) -> None:
        """All workers go on: twice as many tasks as there are workers."""
        fine = [f"task {number}" for number in range(2 * max(1, self.most))]
        assert self.results([runner.submit(0, task) for task in fine]) == fine

    def _check_misused(self, call: Callable[[], object], what: str) -> None:
        with pytest.raises(EngineError) as raised:
            self.within(call, what)
        assert raised.value.code == "runner-state", f"{what}: {raised.value}"


def _told(error: BaseException) -> str:
    """All an exception says when it is printed: notes, causes and traceback."""
    return "".join(traceback.format_exception(error))


def _blocks() -> dict[str, Block]:
    """Blocks of all kinds, by what they are."""
    block = sample_block(13)
    return {
        "a block of all types": block,
        "a block of no rows": block.slice(0, 0),
        "a slice of larger columns": inside_another(block),
        "a block of no columns": block.with_data(empty_columns(13)),
        "a block of nothing": block.with_data(empty_columns(13)).slice(0, 0),
        "one row": sample_block(1, lane=0),
        "nulls everywhere": sample_block(9, nulls=block.schema.names),
    }
