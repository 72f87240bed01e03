"""``zephon.runner.v1``: where row operators execute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable

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


@runtime_checkable
class ReportsWorkers(Protocol):
    """Capability ``reports_workers``: tells when workers come and go.

    For runners whose workers are elsewhere, where programs cannot tell the observers of this process themselves.
    """

    def report_workers(self, report: Callable[[str, str, str], None]) -> None:
        """Have workers reported. Called before ``start``.

        Args:
            report: ``report("start", worker, "")`` once a worker can take tasks, ``report("stop", worker, reason)``
                once it has ended; reason is "" where it was told to. From any thread, one call at a time for a worker.
        """


class Line(Protocol):
    """One end of a line between two processes. Used by one thread at a time.

    What arrives stays as it is for as long as anything refers to it; record batches cross as Arrow IPC.
    """

    def send(self, kind: str, obj: Any = None) -> None:
        """Send an object under a short name for its kind.

        Raises:
            PeerGoneError: the other process has ended.
        """

    def receive(self, timeout: float | None = None) -> tuple[str, Any] | None:
        """The next object and its kind, or None if none came within ``timeout`` seconds; None waits for ever.

        Raises:
            PeerGoneError: the other process has ended, and all it had sent has been received.
        """

    def fileno(self) -> int:
        """A descriptor that is readable when something can be received, for ``select``."""

    def close(self) -> None:
        """End the line. On the side that has started the other process, end that too, within seconds."""


@runtime_checkable
class HostsEngines(Protocol):
    """Capability ``hosts``: can run a function in an interpreter of its own, at the other end of a line."""

    @classmethod
    def host(cls, entry: Callable[[Line], None]) -> Line:
        """Start an interpreter that runs ``entry(line)``, and ends with it.

        Args:
            entry: sent by value where it cannot be imported there.

        Returns:
            This process's end.
        """
