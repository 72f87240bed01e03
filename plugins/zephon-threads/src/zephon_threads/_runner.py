"""The thread runner."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from zephon.abc import Program, Runner, RunnerFacts
from zephon.errors import ConfigError, EngineError
from zephon_threads._cpus import affinity
from zephon_threads._workers import Workers


class ThreadRunner(Runner):
    """Runs tasks on daemon threads of this process, named ``zephon-worker-N``.

    Every worker opens its own instance of a program when it first needs it, and closes it when it ends. Tasks begin in
    the order of submission and finish in any. All methods may be called from any thread, a worker included.

    Args:
        parallelism: number of threads; None for the CPUs this process may be placed on.

    Raises:
        ConfigError: ``bad-parallelism``.
    """

    def __init__(self, parallelism: int | None = None) -> None:
        if parallelism is None:
            parallelism = affinity()
        if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
            raise ConfigError(
                "the thread runner needs at least one thread",
                found=f"parallelism={parallelism!r}",
                fix='pass a positive number, leave parallelism out, or choose runner="inline"',
                code="bad-parallelism",
            )
        self._parallelism = parallelism
        self._workers: Workers | None = None
        self._closed = False

    def start(self, programs: Sequence[Program]) -> None:
        """Take the programs; threads start when there are tasks.

        Raises:
            EngineError: ``runner-state`` if started before, or closed.
        """
        if self._workers is not None or self._closed:
            raise _misused("start", "closed" if self._closed else "started already")
        workers = Workers(self._parallelism, programs)
        weakref.finalize(self, workers.stop).atexit = False
        self._workers = workers

    def submit(self, program: int, task: Any) -> Future[Any]:
        """Queue one task. Its future may be cancelled until it begins.

        Raises:
            EngineError: ``runner-state`` before ``start`` or after ``close``.
        """
        future = None if self._workers is None else self._workers.submit(program, task)
        if future is None:
            raise _misused("submit", "closed" if self._closed or self._workers else "not started")
        return future

    def close(self) -> None:
        """Cancel what has not begun, wait a few seconds for what has, end the threads. See :meth:`Workers.close`."""
        self._closed = True
        if self._workers is not None:
            self._workers.close()

    def __repr__(self) -> str:
        doing = "not started" if self._workers is None else self._workers.describe()
        return f"ThreadRunner(parallelism={self._parallelism}): {doing}"

    @property
    def facts(self) -> RunnerFacts:
        """As many workers as threads may start; one memory."""
        return RunnerFacts(workers=self._parallelism)


def _misused(call: str, state: str) -> EngineError:
    return EngineError(
        f"{call}() was called on a runner that is {state}",
        found="a runner is started once, used, and closed",
        fix="make a new runner",
        code="runner-state",
    )
