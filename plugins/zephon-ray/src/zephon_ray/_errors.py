"""Errors that come from a cluster, with what is known of where they happened."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from ray.exceptions import RayTaskError

from zephon.errors import EngineError, PluginError, WorkerError, WorkerLostError
from zephon_ray._worker import Failure, Place


def failed_there(failure: Failure, worker: str, place: Place) -> BaseException:
    """What a task raised, with the traceback of its own process as a note."""
    note = f"in worker {worker} (pid {place.pid} on {place.address}, node {place.node[:8]}):\n{failure.text}"
    if failure.content is not None:
        try:
            error: BaseException = pickle.loads(failure.content)
        except Exception:  # noqa: BLE001 - it cannot be made here; its text is all there is
            pass
        else:
            error.add_note(note)
            return error
    unknown = WorkerError(
        f"a task failed in {worker}",
        found=failure.line,
        fix="its own traceback is in the note below",
        code="task-failed",
    )
    unknown.add_note(note)
    return unknown


def cannot_send(error: BaseException) -> EngineError:
    """Something does not pass between processes."""
    made = EngineError(
        "something cannot be sent to or from a worker of the cluster",
        found=f"{type(error).__name__}: {error}",
        fix='pass plain data and functions, open files and the like where they are used; or .options(runner="threads")',
        code="not-sendable",
    )
    made.__cause__ = error
    return made


def of_ray(error: BaseException, worker: str) -> WorkerError:
    """Ray could not do what it was asked to, for a reason that will not pass."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    made = WorkerError(
        f"Ray could not carry out a task on {worker}",
        found=f"{type(cause).__name__}: {_first_lines(error)}",
        fix="see the text of Ray; a full object store wants a lower memory_limit, or more object_store_memory",
        code="ray-failed",
    )
    made.__cause__ = error
    return made


def refused(failure: Failure) -> BaseException:
    """A worker has other plugins than the main process."""
    if failure.content is not None:
        error: Any = pickle.loads(failure.content)
        if isinstance(error, PluginError):
            return error
    return WorkerError(
        "workers cannot use the plugins of this process",
        found=failure.line,
        fix="install the same distributions where workers run, or name them in runtime_env",
        code="worker-plugins",
    )


def cannot_start(error: BaseException) -> WorkerError:
    """Ray says that a worker can never start."""
    made = WorkerError(
        "Ray cannot start a worker",
        found=f"{type(error).__name__}: {_first_lines(error)}",
        fix="the nodes need zephon and its plugins of the same versions; correct runtime_env, scheduling_strategy and "
        'resources in .options(runner={"name": "ray", ...})',
        code="ray-cannot-start",
    )
    made.__cause__ = error
    return made


def no_place(seconds: float, wanted: Mapping[str, Any], free: Mapping[str, float]) -> WorkerError:
    """No worker has started."""
    return WorkerError(
        f"the Ray cluster has started no worker within {seconds:.0f} s, and tasks wait for one",
        found=f"a worker asks for {_amounts(wanted)}; free in the whole cluster: {_amounts(free)}",
        fix="ask for less (num_cpus, resources), free or add nodes, or give an autoscaler more time: "
        'runner={"name": "ray", "start_timeout": 600}',
        code="ray-no-worker",
    )


def keep_dying(deaths: int, how: str) -> WorkerError:
    """Nothing else happens any more."""
    return WorkerError(
        "workers die faster than they work",
        found=f"{deaths} in a row, with no task done in between; the last one: {how}",
        fix="look for a library that crashes when imported, for memory limits, or for an operator that "
        'ends its process; .options(runner="inline") shows an error of Python as it is',
        code="workers-keep-dying",
    )


def poisonous(deaths: int, how: str, note: str) -> WorkerLostError:
    """A task has cost too many workers."""
    return WorkerLostError(
        f"a task has cost {deaths} workers",
        found=f"the last one: {how}" + (f", at {note.replace(chr(9), ', ')}" if note else ""),
        fix="look for what ends the process there: memory, a crash in a library; or set "
        'on_error="skip" to go on without that row',
        code="worker-lost",
        note=note,
    )


def given_up(worker: str, seconds: float) -> WorkerError:
    """A task was not done when the runner was closed."""
    return WorkerError(
        f"{worker} did not finish its task",
        found=f"the task still ran {seconds:.0f} s after the runner was closed" if seconds else "the runner was closed",
        fix="look at what it waits for: storage that does not answer, a lock, an endless loop",
        code="worker-stuck",
    )


def disconnected() -> WorkerError:
    """Somebody has called ``ray.shutdown()``."""
    return WorkerError(
        "this process is no longer connected to its Ray cluster",
        found="ray.shutdown() was called while a pipeline was running",
        fix="close the pipeline first",
        code="ray-unreachable",
    )


def unreachable(address: str | None, error: BaseException) -> WorkerError:
    """There is no cluster to work on."""
    made = WorkerError(
        f"cannot connect to the Ray cluster at {address}" if address else "cannot start a Ray cluster on this machine",
        found=f"{type(error).__name__}: {_first_lines(error)}",
        fix="check address= and RAY_ADDRESS; `ray status` shows whether a cluster runs"
        if address
        else 'see the text of Ray; or .options(runner="processes"), which needs no cluster',
        code="ray-unreachable",
    )
    made.__cause__ = error
    return made


def how_it_died(error: BaseException) -> str:
    """Why a worker is gone, on one line, from Ray's long text."""
    text = str(error)
    for sign in ("Worker exit detail:", "The actor died because", "The actor is dead because", "unavailable:"):
        if sign in text:
            return f"{type(error).__name__}: {_first_lines(text[text.index(sign) :], 1)}"
    return f"{type(error).__name__}: {_first_lines(error, 1)}"


def _first_lines(error: object, lines: int = 4) -> str:
    kept = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(kept[:lines])[:400]


def _amounts(resources: Mapping[str, Any]) -> str:
    shown = {name: amount for name, amount in resources.items() if not name.startswith("node:")}
    return ", ".join(f"{name}: {amount}" for name, amount in sorted(shown.items())) or "nothing"
