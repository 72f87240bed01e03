"""``zephon.runner.v1``: where row operators execute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import attrs


class Program(Protocol):
    """A fused run of row operators, as plain data: reading may be its first step."""

    def open(self) -> Callable[[Any], Any]:
        """Make a worker's own instance: called once per worker and program; the result maps task to result.

        The instance is used by one thread at a time. It may have a ``close()`` method, called when the worker stops.
        """


@attrs.frozen(slots=True, kw_only=True)
class RunnerFacts:
    """What planning and ``explain()`` need to know.

    Attributes:
        workers: how many tasks run at once; 0 means on the coordinator's own thread, inside ``submit``.
        shares_memory: results need not be copied out of shared memory or another process.
    """

    workers: int
    shares_memory: bool = True


class Runner(ABC):
    """Executes pure tasks. Constructed as ``Runner(parallelism=n)``; holds nothing until ``start``.

    Tasks are pure, so a runner that loses a worker runs its tasks again elsewhere: never a lost or repeated row.
    Results may complete in any order: the engine restores the order.
    """

    @abstractmethod
    def start(self, programs: Sequence[Program]) -> None:
        """Make workers able to run these programs. Called once."""

    @abstractmethod
    def submit(self, program: int, task: Any) -> Future[Any]:
        """Run ``programs[program]`` on one task. The future carries the result or the task's own exception."""

    @abstractmethod
    def close(self) -> None:
        """Stop: tasks not begun are cancelled, workers end, nothing is left behind. May be called twice."""

    @property
    @abstractmethod
    def facts(self) -> RunnerFacts:
        """Facts about this runner as configured; valid before ``start``."""
