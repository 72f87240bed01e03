"""The parent's side: workers, the tasks they have, and one thread that looks after both.

The thread starts with the first task. It sends tasks, takes results, notices at once when a worker has died (its end of
the line is closed by the kernel), gives that worker's tasks to others, and starts a new one.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Final

import attrs

from zephon.abc import Program
from zephon.errors import WorkerError, WorkerLostError, ZephonError
from zephon_processes._channel import Channel, Gone
from zephon_processes._errors import cannot_send, failed_there, given_up, refused
from zephon_processes._notes import NotePad
from zephon_processes._start import started

#: How long ``close`` waits, in all, for tasks that are running.
GRACE_SECONDS: Final = 3.0
#: Workers a task may cost at one step of it. After the first death the task is done step by step, each noted before it
#: is begun. A step that ends its worker does so every time; who kills workers from outside hits another step, or none.
DEATHS_AT_A_STEP: Final = 3
#: Workers it may cost wherever it was.
DEATHS_OF_A_TASK: Final = 8
#: Workers that may die one after the other with no task done in between.
DEATHS_IN_A_ROW: Final = 8
#: Seconds to wait before a new worker is started, by deaths in a row.
BACKOFF: Final = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)


Report = Callable[[str, str, str], None]


@attrs.define(eq=False)
class Job:
    """A task and what became of it so far."""

    future: Future[Any]
    program: int
    task: Any
    begun: bool = False
    deaths: int = 0
    deaths_there: int = 0
    note: str = ""


@attrs.define(eq=False)
class Worker:
    """A process and what it has to do."""

    process: subprocess.Popen[bytes]
    channel: Channel
    notes: NotePad
    name: str
    ready: bool = False
    known: set[int] = attrs.field(factory=set)
    job: Job | None = None


class Pool:
    """Up to ``limit`` worker processes that run the tasks of one runner.

    Holds no reference to the runner, so that a runner nobody closes is collected, and its workers then end.
    """

    def __init__(self, limit: int, programs: Sequence[Program], report: Report) -> None:
        self._limit = limit
        self._report = report
        self._programs = tuple(programs)
        self._pending: deque[Job] = deque()
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._deadline = float("inf")
        self._deaths = 0
        self._started = 0
        self._start_at = 0.0
        self._broken: Exception | None = None

    # -- any thread ---------------------------------------------------------------------------------------------------

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that run now."""
        return [worker.process.pid for worker in list(self._workers)]

    @property
    def nbytes(self) -> int:
        """Bytes of shared memory this side has made."""
        return sum(worker.channel.nbytes for worker in list(self._workers))

    def describe(self) -> str:
        """What the workers do now, in words."""
        parts = []
        for worker in list(self._workers):
            state = "starting" if not worker.ready else "idle" if worker.job is None else "at work"
            parts.append(f"{worker.name} (pid {worker.process.pid}) {state}")
        return ", ".join(parts) or "no worker"

    def submit(self, program: int, task: Any) -> Future[Any] | None:
        """Queue a task; tasks begin in the order they are queued. None once stopped."""
        future: Future[Any] = Future()
        with self._lock:
            if self._stopping:
                return None
            self._pending.append(Job(future, program, task))
            if self._thread is None:
                self._selector.register(self._wake_in, selectors.EVENT_READ)
                self._thread = threading.Thread(target=self._run, name="zephon-processes", daemon=True)
                self._thread.start()
        self._wake()
        return future

    def stop(self, grace: float = 0.0) -> None:
        """Cancel what has not begun, and have the workers end within ``grace`` seconds; does not wait for that."""
        with self._lock:
            self._stopping = True
            self._deadline = min(self._deadline, time.monotonic() + grace)
            cancelled = list(self._pending)
            self._pending.clear()
            thread = self._thread
        for job in cancelled:
            job.future.cancel()
        if thread is None:
            self._close_lines()
        else:
            self._wake()

    def close(self) -> None:
        """Stop, and wait until nothing is left."""
        self.stop(GRACE_SECONDS)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(GRACE_SECONDS + 2.0)

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake, or has ended
            self._wake_out.send(b"\0")

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._turn():
                pass
        except BaseException as error:  # noqa: BLE001 - a defect of ours: nobody may wait for ever
            self._fail_everything(error)
        finally:
            for worker in list(self._workers):
                self._end(worker)
            self._close_lines()

    def _turn(self) -> bool:
        """Do what there is to do; whether that was all for ever."""
        self._hire()
        self._hand_out()
        if self._stopping:
            if self._wind_up():
                return True
            timeout = max(0.0, min(0.05, self._deadline - time.monotonic()))
        elif self._pending and len(self._workers) < self._limit:
            timeout = max(0.001, self._start_at - time.monotonic())
        else:
            timeout = None
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                with suppress(BlockingIOError):
                    self._wake_in.recv(4096)
            else:
                self._take(key.data)
        return False

    def _hire(self) -> None:
        """Start workers while there is work for more, but not faster than they die."""
        if self._stopping or self._broken is not None:
            return
        with self._lock:
            wanted = min(self._limit, len(self._pending) + sum(1 for w in self._workers if w.job is not None))
        while len(self._workers) < wanted and time.monotonic() >= self._start_at:
            self._start()

    def _start(self) -> None:
        notes = NotePad()
        number, self._started = self._started, self._started + 1
        try:
            process, channel = started("zephon_processes.worker", notes.descriptor, threads=1)
        except OSError as error:
            notes.close()
            self._lose_heart(f"starting one failed: {error.strerror}")
            return
        worker = Worker(process, channel, notes, f"zephon-process-{number}")
        self._workers.append(worker)
        self._selector.register(worker.channel, selectors.EVENT_READ, worker)

    def _hand_out(self) -> None:
        """Give tasks to the workers that have none."""
        while self._broken is None:
            # One task a worker: what lay in its queue would wait behind a long one while others are idle, and handing
            # out takes a hundredth of the time a task has.
            worker = next((worker for worker in self._workers if worker.ready and worker.job is None), None)
            if worker is None:
                return
            with self._lock:
                if not self._pending:
                    return
                job = self._pending.popleft()
            if not job.begun and not job.future.set_running_or_notify_cancel():
                continue
            job.begun = True
            self._send(worker, job)

    def _send(self, worker: Worker, job: Job) -> None:
        try:
            if job.program not in worker.known:
                worker.channel.send("program", (job.program, self._programs[job.program]), by_value=True)
                worker.known.add(job.program)
            worker.channel.send("task", (job.program, job.task, job.deaths > 0))
        except Gone:
            with self._lock:
                self._pending.appendleft(job)
            self._bury(worker)
        except Exception as error:  # noqa: BLE001 - it cannot be pickled: the task's own trouble
            _settle(job.future.set_exception, error if isinstance(error, ZephonError) else cannot_send(error))
        else:
            worker.job = job

    def _take(self, worker: Worker) -> None:
        """Take a message from a worker."""
        if worker not in self._workers:
            return
        try:
            kind, content = worker.channel.received()
        except Gone:
            self._bury(worker)
            return
        except Exception as error:  # noqa: BLE001 - a result that cannot be unpickled here
            kind, content = "unreadable", error
        if kind == "ready":
            worker.ready = True
            self._report("start", worker.name, "")
            return
        if kind == "refused":
            self._fail_everything(refused(content))
            return
        job, worker.job = worker.job, None
        if job is None:
            return
        self._deaths = 0
        if kind == "done":
            _settle(job.future.set_result, content)
        elif kind == "failed":
            _settle(job.future.set_exception, failed_there(content, worker.name, worker.process.pid))
        else:
            _settle(job.future.set_exception, cannot_send(content))

    # -- deaths -------------------------------------------------------------------------------------------------------

    def _bury(self, worker: Worker) -> None:
        """A worker has died: its task goes to another, with suspicion."""
        note = worker.notes.read()
        status = self._end(worker)
        job = worker.job
        if self._stopping:
            if job is not None:
                _settle(job.future.set_exception, given_up(worker.name, GRACE_SECONDS))
            self._tell_stopped(worker, "")
            return
        how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
        self._tell_stopped(worker, how)
        if job is not None:
            job.deaths += 1
            if note:
                job.deaths_there = job.deaths_there + 1 if note == job.note else 1
                job.note = note
            if job.deaths_there >= DEATHS_AT_A_STEP or job.deaths >= DEATHS_OF_A_TASK:
                _settle(job.future.set_exception, _poisonous(job, how))
            else:
                with self._lock:
                    self._pending.appendleft(job)
        self._lose_heart(how)
        if self._broken is None:
            again = "" if job is None else "; its task is run again"
            _warn(f"worker {worker.name} (pid {worker.process.pid}) {how}{again}")

    def _tell_stopped(self, worker: Worker, reason: str) -> None:
        if worker.ready:
            self._report("stop", worker.name, reason)

    def _lose_heart(self, how: str) -> None:
        """Count a death, and give up when nothing else happens any more."""
        self._deaths += 1
        self._start_at = time.monotonic() + BACKOFF[min(self._deaths, len(BACKOFF)) - 1]
        if self._deaths > DEATHS_IN_A_ROW:
            self._fail_everything(
                WorkerError(
                    "workers die faster than they work",
                    found=f"{self._deaths} in a row, with no task done in between; the last one {how}",
                    fix="look for a library that crashes when imported, for memory limits, or for an operator that "
                    'ends its process; .options(runner="inline") shows an error of Python as it is',
                    code="workers-keep-dying",
                )
            )

    def _end(self, worker: Worker) -> int:
        """Have a worker ended and forget it; its exit status."""
        if worker in self._workers:
            self._workers.remove(worker)
            self._selector.unregister(worker.channel)
            worker.channel.close()
            worker.notes.close()
        try:
            return worker.process.wait(0.5)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            return worker.process.wait()

    def _wind_up(self) -> bool:
        """End the workers, those at work when their task is done or the time is up; whether all have ended."""
        late = time.monotonic() >= self._deadline
        for worker in list(self._workers):
            if worker.job is not None and not late:
                continue
            if late:
                worker.process.kill()
                self._bury(worker)
            else:
                with suppress(Gone):
                    worker.channel.send("end")
                self._end(worker)
                self._tell_stopped(worker, "")
        return not self._workers

    def _fail_everything(self, error: BaseException) -> None:
        self._broken = error if isinstance(error, Exception) else RuntimeError(repr(error))
        with self._lock:
            self._stopping = True
            self._deadline = min(self._deadline, time.monotonic() + GRACE_SECONDS)
            jobs = list(self._pending)
            self._pending.clear()
        jobs += [worker.job for worker in self._workers if worker.job is not None]
        for job in jobs:
            _settle(job.future.set_exception, self._broken)

    def _close_lines(self) -> None:
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()


def _poisonous(job: Job, how: str) -> WorkerLostError:
    return WorkerLostError(
        f"a task has cost {job.deaths} workers",
        found=f"the last one {how}" + (f", at {job.note.replace(chr(9), ', ')}" if job.note else ""),
        fix="look for what ends the process there: memory, a crash in a library; or set "
        'on_error="skip" to go on without that row',
        code="worker-lost",
        note=job.note,
    )


def _settle(settle: Any, outcome: Any) -> None:
    try:
        settle(outcome)
    except InvalidStateError:
        return  # nobody waits for it any more


def _warn(text: str) -> None:
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:
        return  # warnings are errors here, and this thread has nobody to tell
