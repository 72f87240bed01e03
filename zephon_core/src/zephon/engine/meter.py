"""What tasks cost, and whether the interpreter lock is to be had: measured while a pipeline runs, for ``auto``.

Threads scale as long as the lock is free. That is found by asking for it: a thread of its own sleeps for a moment,
again and again, and sees whether it can go on at once when it wakes. Each waking is a sample, so the share of those
that had to wait is the share of time in which the lock was taken.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import attrs

from zephon.abc import Program

#: A window is looked at once it has so many tasks and seconds. A process takes some tenths of a second to start, so
#: what is over sooner has nothing to gain.
WINDOW_TASKS: Final = 4
WINDOW_SECONDS: Final = 0.5
#: Seconds between two samples of the lock.
PAUSE: Final = 0.002


class Costs(NamedTuple):
    """What one program cost in one window of time.

    Attributes:
        tasks: tasks done.
        cpu: CPU seconds of the threads that did them.
        nbytes: bytes of the blocks that went in and came out.
        seconds: how long the window was.
        busy: workers that were busy on average, with tasks of any program.
        lock: share of the time in which the interpreter lock was taken.
    """

    tasks: int
    cpu: float
    nbytes: int
    seconds: float
    busy: float
    lock: float


class LockProbe:
    """Samples the interpreter lock from a thread of its own, from the first :meth:`start` to :meth:`stop`."""

    def __init__(self) -> None:
        self.samples = 0
        self.waits = 0
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if that has not happened."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="zephon-lock-probe", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End. May be called twice."""
        with self._lock:
            self._stopped.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        # A holder gives the lock up after the switch interval; what waits a fifth of that has not found it free.
        late = PAUSE + sys.getswitchinterval() / 5
        while True:
            begun = time.perf_counter()
            if self._stopped.wait(PAUSE):
                return
            self.waits += time.perf_counter() - begun > late
            self.samples += 1


@attrs.define
class _Window:
    """What was so far when it began, and what has come since."""

    begun: float
    area: float
    samples: int
    waits: int
    tasks: int = 0
    cpu: float = 0.0
    nbytes: int = 0


class Meter:
    """Adds up what tasks cost, program by program. Workers add, and the coordinator looks.

    Args:
        programs: how many there are.
        probe: started with the first task.
    """

    def __init__(self, programs: int, probe: LockProbe) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        # Tasks that run, and the integral of that over time.
        self._running = 0
        self._area = 0.0
        self._at = time.perf_counter()
        self._windows: list[_Window | None] = [None] * programs
        self._setup = [0.0] * programs
        self.on = True

    def opened(self, program: int, seconds: float) -> None:
        """An instance of a program was made."""
        with self._lock:
            self._setup[program] = max(self._setup[program], seconds)

    def setup(self, program: int) -> float:
        """Most seconds it took to make an instance."""
        return self._setup[program]

    def begin(self, program: int) -> None:
        """A task begins."""
        self._probe.start()
        with self._lock:
            self._advance(1)
            if self._windows[program] is None:
                self._windows[program] = self._window()

    def end(self, program: int, cpu: float, nbytes: int) -> None:
        """A task has ended, and that is what it cost."""
        with self._lock:
            self._advance(-1)
            window = self._windows[program]
            if window is not None:
                window.tasks += 1
                window.cpu += cpu
                window.nbytes += nbytes

    def window(self, program: int) -> Costs | None:
        """The costs since this last gave some; None while they are too few to say anything."""
        with self._lock:
            window = self._windows[program]
            if window is None or window.tasks < WINDOW_TASKS:
                return None
            self._advance(0)
            seconds, samples = self._at - window.begun, self._probe.samples - window.samples
            if seconds < WINDOW_SECONDS or not samples:
                return None
            self._windows[program] = self._window()
            return Costs(
                tasks=window.tasks,
                cpu=window.cpu,
                nbytes=window.nbytes,
                seconds=seconds,
                busy=(self._area - window.area) / seconds,
                lock=(self._probe.waits - window.waits) / samples,
            )

    def _advance(self, more: int) -> None:
        now = time.perf_counter()
        self._area += self._running * (now - self._at)
        self._running += more
        self._at = now

    def _window(self) -> _Window:
        return _Window(self._at, self._area, self._probe.samples, self._probe.waits)


@attrs.frozen
class MeasuredProgram:
    """A program whose tasks are measured."""

    program: Program
    number: int
    meter: Meter

    def open(self) -> Callable[[Any], Any]:
        """Open the program, and see how long that takes."""
        begun = time.perf_counter()
        instance = self.program.open()
        self.meter.opened(self.number, time.perf_counter() - begun)
        return MeasuredWorker(instance, self.number, self.meter)


class MeasuredWorker:
    """A worker's instance of a program."""

    def __init__(self, instance: Callable[[Any], Any], number: int, meter: Meter) -> None:
        self._instance = instance
        self._number = number
        self._meter = meter
        # The first task of a worker opens files and fills caches, and is like no other.
        self._warm = False

    def __call__(self, task: Any) -> Any:
        """Carry out one task."""
        if not (self._warm and self._meter.on):
            self._warm = True
            return self._instance(task)
        self._meter.begin(self._number)
        nbytes, begun = _nbytes(task), time.thread_time()
        try:
            result = self._instance(task)
            nbytes += _nbytes(result)
        finally:
            self._meter.end(self._number, time.thread_time() - begun, nbytes)
        return result

    def close(self) -> None:
        """End the instance."""
        close = getattr(self._instance, "close", None)
        if close is not None:
            close()


def _nbytes(carrier: Any) -> int:
    """Bytes of the block a task or a result carries."""
    block = getattr(carrier, "block", None)
    return 0 if block is None else int(block.data.nbytes)
