"""The process runner."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from zephon.abc import Line, Program, Runner, RunnerFacts
from zephon.errors import ConfigError, EngineError
from zephon_processes._cpus import affinity
from zephon_processes._host import host
from zephon_processes._pool import Pool, Report


class ProcessRunner(Runner):
    """Runs tasks in fresh interpreters on this machine.

    Workers start when there are tasks, import what they need, and never run the user's main module. Operators are made
    anew in each from their specs; functions that cannot be imported there (lambdas, closures, those of a script) are
    sent by value. Blocks go through shared memory as Arrow IPC.

    A worker that dies is replaced, and its tasks are run again. A task that goes on costing workers is an error that
    names the operator and the row, where they are known.

    Args:
        parallelism: number of processes; None for the CPUs this process may be placed on.

    Raises:
        ConfigError: ``bad-parallelism``.
    """

    def __init__(self, parallelism: int | None = None) -> None:
        if parallelism is None:
            parallelism = affinity()
        if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
            raise ConfigError(
                "the process runner needs at least one process",
                found=f"parallelism={parallelism!r}",
                fix='pass a positive number, leave parallelism out, or choose runner="inline"',
                code="bad-parallelism",
            )
        self._parallelism = parallelism
        self._pool: Pool | None = None
        self._report: Report = _tell_nobody
        self._closed = False

    def report_workers(self, report: Report) -> None:
        """Have workers reported; see :class:`zephon.abc.ReportsWorkers`."""
        self._report = report

    def start(self, programs: Sequence[Program]) -> None:
        """Take the programs; workers start when there are tasks.

        Raises:
            EngineError: ``runner-state`` if started before, or closed.
        """
        if self._pool is not None or self._closed:
            raise _misused("start", "closed" if self._closed else "started already")
        pool = Pool(self._parallelism, programs, self._report)
        weakref.finalize(self, pool.stop)
        self._pool = pool

    @classmethod
    def host(cls, entry: Callable[[Line], None]) -> Line:
        """Run a function in an interpreter of its own; see :class:`zephon.abc.HostsEngines`."""
        return host(entry)

    def submit(self, program: int, task: Any) -> Future[Any]:
        """Queue one task. Its future may be cancelled until it is sent to a worker.

        Raises:
            EngineError: ``runner-state`` before ``start`` or after ``close``.
        """
        future = None if self._pool is None else self._pool.submit(program, task)
        if future is None:
            raise _misused("submit", "closed" if self._closed or self._pool else "not started")
        return future

    def close(self) -> None:
        """Cancel what has not begun, wait a few seconds for what has, end the processes."""
        self._closed = True
        if self._pool is not None:
            self._pool.close()

    def __repr__(self) -> str:
        doing = "not started" if self._pool is None else self._pool.describe()
        return f"ProcessRunner(parallelism={self._parallelism}): {doing}"

    @property
    def facts(self) -> RunnerFacts:
        """As many workers as processes may start; results come from other processes."""
        return RunnerFacts(workers=self._parallelism, shares_memory=False)


def _tell_nobody(event: str, worker: str, reason: str) -> None:
    """Nobody wants to know."""


def _misused(call: str, state: str) -> EngineError:
    return EngineError(
        f"{call}() was called on a runner that is {state}",
        found="a runner is started once, used, and closed",
        fix="make a new runner",
        code="runner-state",
    )
