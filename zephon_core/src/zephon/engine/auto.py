"""``runner="auto"``: threads, or processes for what threads cannot speed up.

Every program starts on threads, which copy nothing. Of a program with operators that hold the interpreter lock, or do
not say, the first seconds are measured, and it moves to processes once, if all of this holds:

- threads are at their limit, all of them busy or the lock taken, so it is not the training loop that sets the pace;
- processes would be at least :data:`MIN_GAIN` times as fast, shipping blocks there and back counted;
- there is memory for two processes or more, and making an instance of the program in each takes no long time;
- a copy of a task has come back from every process. What cannot be sent thereby stays on threads.

Tasks are pure and the engine restores their order, so it makes no difference to the data which of both does a task;
those in flight stay where they are.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

import attrs

from zephon.abc import Program, ReportsWorkers, Runner, RunnerFacts
from zephon.engine.choosing import Choice, StageFacts, gain, load
from zephon.engine.meter import LockProbe, MeasuredProgram, Meter
from zephon.errors import ZephonError

#: Moving pays from this factor on: predictions err, and processes need more memory.
MIN_GAIN: Final = 1.5
#: Threads are at their limit when they could take no more for so much of the time.
MIN_LOAD: Final = 0.7
#: Seconds of setup that are not repeated in other processes.
LONG_SETUP: Final = 5.0
#: Windows of measurement after which a program stays where it is.
WINDOWS: Final = 20


@attrs.define(eq=False)
class _Stage:
    """What became of one program."""

    facts: StageFacts
    choice: Choice
    open: bool
    trying: bool = False
    windows: int = 0
    back: int = 0


class AutoRunner(Runner):
    """Threads for every program, and processes for those that gain by it.

    Args:
        threads: a thread runner that is not started.
        make_processes: makes a process runner of so many workers.
        shipped: the programs as so many processes get them.
        stages: what is known of each program.
        choices: where each starts.
        processes: how many processes there may be; below 2, nothing moves.
    """

    def __init__(
        self,
        threads: Runner,
        make_processes: Callable[[int], Runner],
        shipped: Callable[[int], Sequence[Program]],
        stages: Sequence[StageFacts],
        choices: Sequence[Choice],
        processes: int,
    ) -> None:
        self._threads = threads
        self._make_processes = make_processes
        self._shipped = shipped
        self._count = processes
        self._stages = [
            _Stage(facts, choice, open=processes >= 2 and facts.shown and bool(facts.why))
            for facts, choice in zip(stages, choices, strict=True)
        ]
        self._probe = LockProbe()
        self._meter = Meter(len(self._stages), self._probe)
        self._processes: Runner | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._report: Callable[[str, str, str], None] | None = None
        weakref.finalize(self, self._probe.stop).atexit = False

    def report_workers(self, report: Callable[[str, str, str], None]) -> None:
        """Have processes reported, should there be any."""
        self._report = report

    def start(self, programs: Sequence[Program]) -> None:
        """Start the threads.

        Raises:
            EngineError: ``runner-state`` if started before, or closed.
        """
        if any(stage.open for stage in self._stages):
            programs = [MeasuredProgram(program, number, self._meter) for number, program in enumerate(programs)]
        self._threads.start(programs)

    def submit(self, program: int, task: Any) -> Future[Any]:
        """Run a task where its program is.

        Raises:
            EngineError: ``runner-state`` before ``start`` or after ``close``.
        """
        stage = self._stages[program]
        if stage.open and not stage.trying:
            self._look(program, stage, task)
        if stage.choice.runner == "processes" and self._processes is not None:
            return self._processes.submit(program, task)
        return self._threads.submit(program, task)

    def close(self) -> None:
        """Close both at once, each of which may wait for tasks that are running."""
        with self._lock:
            self._closed = True
            processes = self._processes
        self._probe.stop()
        closer = None if processes is None else threading.Thread(target=processes.close, name="zephon-closing")
        if closer is not None:
            closer.start()
        self._threads.close()
        if closer is not None:
            closer.join()

    @property
    def facts(self) -> RunnerFacts:
        """Those of the threads, where everything starts."""
        return self._threads.facts

    @property
    def choices(self) -> list[Choice]:
        """Where each program is now."""
        return [stage.choice for stage in self._stages]

    # -- deciding -----------------------------------------------------------------------------------------------------

    def _look(self, program: int, stage: _Stage, task: Any) -> None:
        costs = self._meter.window(program)
        if costs is None:
            return
        workers = self._threads.facts.workers
        stage.windows += 1
        if (loaded := load(costs, workers)) < MIN_LOAD:
            verdict = f"threads have work for {loaded:.0%} of the time: they are fast enough"
        elif (factor := gain(costs, workers, self._count)) < MIN_GAIN:
            verdict = f"processes would be {factor:.1f} times as fast, which does not pay"
        elif (seconds := self._meter.setup(program)) > LONG_SETUP:
            verdict = f"its setup takes {seconds:.0f} s and would be repeated in every process"
            stage.windows = WINDOWS
        else:
            stage.trying = True
            self._try(program, stage, task, f"processes are {factor:.1f} times as fast")
            return
        stage.choice = Choice("threads", f"{stage.facts.why}; measured: {verdict}")
        if stage.windows >= WINDOWS:
            self._settle(stage)

    def _try(self, program: int, stage: _Stage, task: Any, verdict: str) -> None:
        """Have every process do a copy of a task, whose result nobody uses; meanwhile threads go on."""
        try:
            with self._lock:
                if self._closed:
                    return
                if self._processes is None:
                    made = self._make_processes(self._count)
                    if self._report is not None and isinstance(made, ReportsWorkers):
                        made.report_workers(self._report)
                    made.start(self._shipped(self._count))
                    self._processes = made
                copies = [self._processes.submit(program, task) for _ in range(self._count)]
        except ZephonError as error:
            self._stay(stage, error)
            return
        for copy in copies:
            copy.add_done_callback(lambda done: self._came_back(stage, done, verdict))

    def _came_back(self, stage: _Stage, copy: Future[Any], verdict: str) -> None:
        if copy.cancelled():
            return  # the run is over
        error = copy.exception()
        if error is not None:
            self._stay(stage, error)
            return
        with self._lock:
            stage.back += 1
            if stage.back < self._count or not stage.open:
                return
            stage.choice = Choice("processes", f"{stage.facts.why}; measured: {verdict}")
        self._settle(stage)

    def _stay(self, stage: _Stage, error: BaseException) -> None:
        said = f"{error.what} ({error.code}): {error.found}" if isinstance(error, ZephonError) else repr(error)
        with self._lock:
            if not stage.open:
                return  # another copy has said so
            stage.choice = Choice("threads", f"{stage.facts.why}; processes cannot run it: {said:.200}")
        self._settle(stage)

    def _settle(self, stage: _Stage) -> None:
        """There is one move and no way back. Once nothing can move any more, nothing is measured any more."""
        with self._lock:
            stage.open = False
            if any(other.open for other in self._stages):
                return
            unused = None
            if all(other.choice.runner == "threads" for other in self._stages):
                unused, self._processes = self._processes, None
        self._meter.on = False
        self._probe.stop()
        # Not under the lock: the thread of the processes may be on its way to it, and closing waits for that thread.
        if unused is not None:
            unused.close()
