"""Errors that come from other processes, with what is known of where they happened."""

from __future__ import annotations

from zephon.errors import EngineError, PluginError, WorkerError
from zephon_processes._failure import made_again


def failed_there(content: tuple[bytes | None, str, str], worker: str, pid: int) -> BaseException:
    """What a task raised, with the traceback of its own process as a note."""
    pickled, line, text = content
    note = f"in worker {worker} (pid {pid}):\n{text}"
    if pickled is not None:
        try:
            error = made_again(pickled)
        except Exception:  # noqa: BLE001 - it cannot be made here; its text is all there is
            pickled = None
        else:
            error.add_note(note)
            return error
    unknown = WorkerError(
        f"a task failed in {worker}",
        found=line,
        fix="its own traceback is in the note below",
        code="task-failed",
    )
    unknown.add_note(note)
    return unknown


def cannot_send(error: BaseException) -> EngineError:
    """Something does not pass between processes."""
    made = EngineError(
        "something cannot be sent to or from a worker process",
        found=f"{type(error).__name__}: {error}",
        fix='pass plain data and functions, open files and the like where they are used; or .options(runner="threads")',
        code="not-sendable",
    )
    made.__cause__ = error
    return made


def refused(content: tuple[bytes | None, str, str]) -> BaseException:
    """A worker has other plugins than its parent."""
    pickled, line, _ = content
    if pickled is not None:
        error = made_again(pickled)
        if isinstance(error, PluginError):
            return error
    return WorkerError(
        "workers cannot use the plugins of this process",
        found=line,
        fix="install the same distributions where workers run",
        code="worker-plugins",
    )


def given_up(worker: str, seconds: float) -> WorkerError:
    """A task was not done when the runner was closed."""
    return WorkerError(
        f"{worker} did not finish its task",
        found=f"the task still ran {seconds:.0f} s after the runner was closed" if seconds else "the runner was closed",
        fix="look at what it waits for: storage that does not answer, a lock, an endless loop",
        code="worker-stuck",
    )
