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
        """Make a worker's own instance: called at most once per worker and program; the result maps task to result.

        Tasks and results are plain data, tuples, ``Origins`` and ``Block``s. The instance is used by one thread at a
        time. It may have a ``close()`` method, called once when the worker stops.
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

    ``parallelism`` is the number of workers; None leaves it to the runner.

    Tasks are pure, so a runner that loses a worker runs its tasks again elsewhere: never a lost or repeated row.
    Results may complete in any order: the engine restores the order.
    """

    @abstractmethod
    def start(self, programs: Sequence[Program]) -> None:
        """Make workers able to run these programs. Called once.

        Raises:
            EngineError: ``runner-state`` if started before, or closed.
        """

    @abstractmethod
    def submit(self, program: int, task: Any) -> Future[Any]:
        """Run ``programs[program]`` on one task. The future carries the result or the task's own exception.

        What is no ``Exception`` belongs to the future as well, and ends no worker; only a runner without workers raises
        it here.

        Raises:
            EngineError: ``runner-state`` before ``start`` or after ``close``.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop: tasks not begun are cancelled, workers end, nothing is left behind. Every future is done afterwards.

        May be called twice, before ``start``, and while another thread waits for a future.
        """

    @property
    @abstractmethod
    def facts(self) -> RunnerFacts:
        """Facts about this runner as configured; valid before ``start``."""
