"""The runner without workers: a task runs inside ``submit``, on the thread that calls it.

A breakpoint in a user's function stops where one expects it to, and a traceback is short. It is also what every other
runner has to agree with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

from zephon.abc import Program, Runner, RunnerFacts
from zephon.errors import ConfigError, EngineError


class InlineRunner(Runner):
    """Runs tasks one after the other, in the order of submission.

    Not thread-safe: one thread submits and closes.

    Args:
        parallelism: 0 or None; there is nothing to run in parallel.

    Raises:
        ConfigError: ``bad-parallelism``.
    """

    def __init__(self, parallelism: int | None = 0) -> None:
        if parallelism not in (0, None):
            raise ConfigError(
                "the inline runner has no workers",
                found=f"parallelism={parallelism!r}",
                fix='leave parallelism out, or choose runner="threads"',
                code="bad-parallelism",
            )
        self._programs: Sequence[Program] | None = None
        self._instances: dict[int, Callable[[Any], Any]] = {}
        self._teardown = ExitStack()
        self._closed = False

    def start(self, programs: Sequence[Program]) -> None:
        """Remember the programs; each is opened by its first task.

        Raises:
            EngineError: ``runner-state`` if started before, or closed.
        """
        if self._programs is not None or self._closed:
            raise _misused("start", "closed" if self._closed else "started already")
        self._programs = tuple(programs)

    def submit(self, program: int, task: Any) -> Future[Any]:
        """Run the task now. The future is done when this returns.

        What is no ``Exception`` - Ctrl-C, ``SystemExit`` - is raised here, not kept in the future.

        Raises:
            EngineError: ``runner-state`` before ``start`` or after ``close``.
        """
        if self._programs is None or self._closed:
            raise _misused("submit", "closed" if self._closed else "not started")
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(self._instance(program)(task))
        except Exception as error:  # noqa: BLE001 - the task's own exception belongs to whoever asks for the result
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Close the programs' instances; what one of them raises is raised once all are closed."""
        self._closed = True
        self._instances.clear()
        self._teardown.close()

    @property
    def facts(self) -> RunnerFacts:
        """No workers, one memory."""
        return RunnerFacts(workers=0)

    def _instance(self, program: int) -> Callable[[Any], Any]:
        if program not in self._instances:
            assert self._programs is not None
            instance = self._programs[program].open()
            self._instances[program] = instance
            close = getattr(instance, "close", None)
            if close is not None:
                self._teardown.callback(close)
        return self._instances[program]


def _misused(call: str, state: str) -> EngineError:
    return EngineError(
        f"{call}() was called on a runner that is {state}",
        found="a runner is started once, used, and closed",
        fix="make a new runner",
        code="runner-state",
    )
