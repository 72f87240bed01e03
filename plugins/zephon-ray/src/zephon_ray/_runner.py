"""The Ray runner."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from ray import remote

from zephon.abc import Program, Runner, RunnerFacts
from zephon.errors import ConfigError, EngineError
from zephon_ray._cluster import cpus_of_cluster
from zephon_ray._pool import Pool, Report
from zephon_ray._worker import Worker


class RayRunner(Runner):
    """Runs tasks in actors of a Ray cluster.

    Uses the connection this process has - as a driver, in a Ray Train worker, in any task or actor - and leaves it
    alone; otherwise connects to ``address`` or ``RAY_ADDRESS`` for as long as it runs; otherwise starts a cluster on
    this machine and ends it with the last runner.

    Ray places the actors, and makes one anew elsewhere when its process or node is lost. A task that was lost with it
    is run again by whichever actor is free, as one behind an actor that finds no place any more would wait for ever. A
    task that costs three workers is an error that names the operator and the row, where they are known.

    Args:
        parallelism: number of actors; None for the cluster's CPUs over ``num_cpus`` and ``WORLD_SIZE`` (of this
            machine, where no cluster is connected yet).
        address: of a running cluster, where this process is not connected to one; "local" starts one here.
        num_cpus: CPUs of an actor, for Ray's bookkeeping; it may be a fraction, or 0.
        num_gpus: GPUs of an actor.
        memory: bytes an actor reserves.
        resources: custom resources of an actor.
        accelerator_type: of the nodes to place actors on.
        label_selector: labels of the nodes to place actors on.
        scheduling_strategy: "DEFAULT", "SPREAD", or an object of ``ray.util.scheduling_strategies``.
        runtime_env: what Ray installs and sets for an actor, over that of the job.
        start_timeout: seconds that tasks wait for the first actor to be placed.

    Raises:
        ConfigError: ``bad-parallelism``, ``option-invalid``.
    """

    def __init__(
        self,
        parallelism: int | None = None,
        *,
        address: str | None = None,
        num_cpus: float = 1,
        num_gpus: float | None = None,
        memory: int | None = None,
        resources: Mapping[str, float] | None = None,
        accelerator_type: str | None = None,
        label_selector: Mapping[str, str] | None = None,
        scheduling_strategy: Any = None,
        runtime_env: Mapping[str, Any] | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        if address is not None and (not isinstance(address, str) or address.startswith("ray://")):
            raise _invalid(
                f"address={address!r}",
                "expected host:port of the cluster, 'auto' or 'local'; Ray Client (ray://) has no object store here",
            )
        if isinstance(start_timeout, bool) or not isinstance(start_timeout, int | float) or not start_timeout > 0:
            raise _invalid(f"start_timeout={start_timeout!r}", "expected a positive number of seconds")
        if isinstance(scheduling_strategy, str) and scheduling_strategy not in ("DEFAULT", "SPREAD"):
            raise _invalid(f"scheduling_strategy={scheduling_strategy!r}", "expected 'DEFAULT', 'SPREAD' or an object")
        chosen = {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "memory": memory,
            "resources": None if resources is None else dict(resources),
            "accelerator_type": accelerator_type,
            "label_selector": None if label_selector is None else dict(label_selector),
            "scheduling_strategy": scheduling_strategy,
            "runtime_env": None if runtime_env is None else dict(runtime_env),
        }
        self._options = {name: value for name, value in chosen.items() if value is not None}
        try:
            remote(Worker).options(**self._options)
        except (ValueError, TypeError, AssertionError) as error:
            given = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
            raise _invalid(given, f"Ray says: {error}") from error
        if parallelism is None:
            parallelism = max(1, math.floor(cpus_of_cluster() / (num_cpus or 1) / _ranks()))
        if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
            raise ConfigError(
                "the Ray runner needs at least one worker",
                found=f"parallelism={parallelism!r}",
                fix='pass a positive number, leave parallelism out, or choose runner="inline"',
                code="bad-parallelism",
            )
        self._parallelism = parallelism
        self._address = address
        self._start_timeout = float(start_timeout)
        self._report: Report = _tell_nobody
        self._pool: Pool | None = None
        self._closed = False

    def report_workers(self, report: Report) -> None:
        """Have workers reported; see :class:`zephon.abc.ReportsWorkers`."""
        self._report = report

    def start(self, programs: Sequence[Program]) -> None:
        """Connect, and take the programs; actors start when there are tasks.

        Raises:
            EngineError: ``runner-state`` if started before, or closed.
            WorkerError: ``ray-unreachable``.
        """
        if self._pool is not None or self._closed:
            raise _misused("start", "closed" if self._closed else "started already")
        pool = Pool(self._parallelism, programs, self._options, self._address, self._start_timeout, self._report)
        weakref.finalize(self, pool.stop).atexit = False
        self._pool = pool

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
        """Cancel what has not begun, wait a few seconds for what has, end the actors, and disconnect what was ours."""
        self._closed = True
        if self._pool is not None:
            self._pool.close()

    @property
    def facts(self) -> RunnerFacts:
        """As many workers as actors may start; results come from other processes."""
        return RunnerFacts(workers=self._parallelism, shares_memory=False)


def _tell_nobody(event: str, worker: str, reason: str) -> None:
    """Nobody wants to know."""


def _ranks() -> int:
    """Processes of the training run, each of which has a loader of its own."""
    text = os.environ.get("WORLD_SIZE", "")
    return max(1, int(text)) if text.isdecimal() else 1


def _invalid(given: str, expected: str) -> ConfigError:
    return ConfigError(
        f"the Ray runner cannot be made with {given}",
        found=expected,
        fix='correct it in .options(runner={"name": "ray", ...})',
        code="option-invalid",
    )


def _misused(call: str, state: str) -> EngineError:
    return EngineError(
        f"{call}() was called on a runner that is {state}",
        found="a runner is started once, used, and closed",
        fix="make a new runner",
        code="runner-state",
    )
