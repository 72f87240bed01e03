"""The threads behind the runner, and what they share.

``concurrent.futures.ThreadPoolExecutor`` is not used, for four reasons. Its threads are joined without limit when the
interpreter exits, so one read that hangs keeps a finished training job alive; its ``shutdown`` deadlocks when a worker
calls it; it has no place for what belongs to one worker and is released when that worker ends; and it keeps no account
of what is running, so that futures of abandoned work would never be done. Its design is followed otherwise: one queue,
and a single end mark that each worker passes on.
"""

from __future__ import annotations

import atexit
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from zephon.abc import Program
from zephon.errors import WorkerError

#: How long ``close`` waits, in all, for tasks that are running.
GRACE_SECONDS: Final = 3.0


class _Job(NamedTuple):
    future: Future[Any]
    program: int
    task: Any


class Workers:
    """Up to ``limit`` daemon threads that run the tasks of one runner.

    Holds no reference to the runner, so that a runner nobody closes is collected, and its threads then end.

    Args:
        limit: how many threads at most; they start one by one, when a task finds none idle.
        programs: what tasks refer to by number.
    """

    def __init__(self, limit: int, programs: Sequence[Program]) -> None:
        self._limit = limit
        self._programs = tuple(programs)
        # SimpleQueue.put and RLock may be entered again by a finaliser that interrupts them on the same thread.
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._running: dict[threading.Thread, Future[Any]] = {}
        self._stopped = False
        # At exit, threads that still compute when the interpreter is torn down can crash it.
        atexit.register(self.close)

    @property
    def stopped(self) -> bool:
        """Whether tasks are no longer taken."""
        return self._stopped

    def describe(self) -> str:
        """What the workers do now, in words."""
        running = self._running.copy()
        parts = [f"{thread.name} {'at work' if thread in running else 'idle'}" for thread in tuple(self._threads)]
        return ", ".join(parts) or "no worker"

    def submit(self, program: int, task: Any) -> Future[Any] | None:
        """Queue a task; tasks begin in the order they are queued. None once stopped."""
        future: Future[Any] = Future()
        with self._lock:
            if self._stopped:
                return None
            self._jobs.put(_Job(future, program, task))
            self._unfinished += 1
            if len(self._threads) < min(self._unfinished, self._limit):
                thread = threading.Thread(target=self._work, name=f"zephon-worker-{len(self._threads)}", daemon=True)
                thread.start()
                self._threads.append(thread)
        return future

    def stop(self) -> None:
        """Cancel what has not begun and tell the workers to end, without waiting for them."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        atexit.unregister(self.close)
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is not None:
                job.future.cancel()
        self._jobs.put(None)

    def close(self) -> None:
        """Stop, and wait up to :data:`GRACE_SECONDS` for tasks that are running. Afterwards every future is done.

        A task that takes longer is given up: its future gets a :class:`WorkerError` (``worker-stuck``), a
        ``RuntimeWarning`` names its thread, and the thread ends with the task. Called by a worker, it waits for nobody:
        the worker itself is one that has to end.
        """
        self.stop()
        threads = tuple(self._threads)
        if threading.current_thread() in threads:
            return
        deadline = time.monotonic() + GRACE_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        stuck = [thread for thread in threads if thread.is_alive() and self._give_up(thread)]
        with self._lock:
            # Who closes once more, as the end of the interpreter does, does not wait for these once more.
            self._threads = [thread for thread in self._threads if thread not in stuck]
        if stuck:
            names = ", ".join(thread.name for thread in stuck)
            warnings.warn(
                f"{names} still busy {GRACE_SECONDS:.0f} s after the runner was closed; left to end with the task",
                RuntimeWarning,
                stacklevel=3,
            )

    def _give_up(self, thread: threading.Thread) -> bool:
        future = self._running.get(thread)
        if future is None:
            return False
        try:
            future.set_exception(
                WorkerError(
                    f"{thread.name} did not finish its task",
                    found=f"the task still ran {GRACE_SECONDS:.0f} s after the runner was closed",
                    fix="look at what it waits for: storage that does not answer, a lock, an endless loop",
                    code="worker-stuck",
                )
            )
        except InvalidStateError:  # it finished just now
            return False
        return True

    def _work(self) -> None:
        instances: dict[int, Callable[[Any], Any]] = {}
        me = threading.current_thread()
        # Whatever an instance raises on closing is printed by threading.excepthook, once all of them are closed.
        with ExitStack() as teardown:
            while True:
                job = self._jobs.get()
                if job is None:
                    self._jobs.put(None)
                    return
                if job.future.set_running_or_notify_cancel():
                    self._running[me] = job.future
                    self._run(job, instances, teardown)
                    del self._running[me]
                else:
                    self._finished()
                # Neither the task nor its result is kept alive while this worker waits for the next one.
                del job

    def _run(self, job: _Job, instances: dict[int, Callable[[Any], Any]], teardown: ExitStack) -> None:
        try:
            instance = instances.get(job.program)
            if instance is None:
                instance = self._programs[job.program].open()
                instances[job.program] = instance
                close = getattr(instance, "close", None)
                if close is not None:
                    teardown.callback(close)
            result = instance(job.task)
        except BaseException as error:  # noqa: BLE001 - SystemExit must reach whoever waits, not end the worker
            self._finished()
            _settle(job.future.set_exception, error)
            del job  # the traceback holds this frame, which must not hold the future that holds the exception
        else:
            self._finished()
            _settle(job.future.set_result, result)

    def _finished(self) -> None:
        # Counted before the future is done: whoever waits for it and then submits again finds this worker free.
        with self._lock:
            self._unfinished -= 1


def _settle(settle: Callable[[Any], None], outcome: Any) -> None:
    try:
        settle(outcome)
    except InvalidStateError:
        return  # close() gave the task up; nobody waits for it any more
