"""Workers under observation: programs that tell hooks who opens and closes them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs

from zephon.abc import Program


class ObservedWorkers:
    """Announces each worker once, however many programs it opens: with its first, and when its last is closed."""

    def __init__(self, tell: Callable[[str, dict[str, Any]], None], runner: str) -> None:
        self._tell = tell
        self._runner = runner
        #: Programs each worker has open. A worker touches only its own number.
        self._open: Counter[str] = Counter()

    def opened(self, worker: str) -> None:
        """A worker has opened a program."""
        if not self._open[worker]:
            self._tell("worker_start", {"runner": self._runner, "worker": worker})
        self._open[worker] += 1

    def closed(self, worker: str) -> None:
        """A worker has closed a program; it closes all of them when it ends."""
        self._open[worker] -= 1
        if not self._open[worker]:
            self._tell("worker_stop", {"runner": self._runner, "worker": worker, "reason": ""})


@attrs.frozen
class ObservedProgram:
    """A program that tells observers which workers open it."""

    program: Program
    workers: ObservedWorkers

    def open(self) -> Callable[[Any], Any]:
        """Open the program and announce its worker."""
        instance = self.program.open()
        worker = threading.current_thread().name
        try:
            self.workers.opened(worker)
        except BaseException:
            _close(instance)
            raise
        return ObservedWorker(instance, worker, self.workers)


@attrs.frozen
class ObservedWorker:
    """A worker's instance of a program."""

    instance: Callable[[Any], Any]
    worker: str
    workers: ObservedWorkers

    def __call__(self, task: Any) -> Any:
        """Carry out one task."""
        return self.instance(task)

    def close(self) -> None:
        """End, and say so."""
        try:
            _close(self.instance)
        finally:
            self.workers.closed(self.worker)


def _close(instance: Any) -> None:
    close = getattr(instance, "close", None)
    if close is not None:
        close()
