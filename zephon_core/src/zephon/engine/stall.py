"""A run in which nothing happens any more: after a long time it is an error that names who waits for whom.

What a user's function or a storage waits for cannot be known, so no task is judged by how long it takes, only a run by
whether anything happens in it at all: while tasks of any lane are done, it goes on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

import attrs

from zephon.engine.program import ApplyTask, ReadTask, RereadTask
from zephon.errors import ConfigError, EngineError

#: Seconds in which nothing may happen: longer than any task should take, and not for ever. A tenth of it is a warning.
STALL_SECONDS: Final = 1800.0
#: The environment variable that sets another number.
VARIABLE: Final = "ZEPHON_STALL_SECONDS"
#: Looks at the run in that time. Time in which this process was stopped counts as one look at most.
LOOKS: Final = 60
#: Tasks that are listed by name.
LISTED: Final = 8


@attrs.frozen(slots=True)
class TaskInFlight:
    """A task the runner has.

    Attributes:
        lane: whose.
        program: its operators, or its number.
        task: as submitted.
        since: when, by :func:`time.monotonic`.
    """

    lane: int
    program: str
    task: Any
    since: float

    def describe(self, future: Future[Any]) -> str:
        """In words: lane, operators, rows, state and age."""
        match self.task:
            case ReadTask(start=start, stop=stop):
                rows = f"positions {start}:{stop}"
            case ApplyTask(block=block) if len(block):
                rows = f"{len(block)} rows, the first with origin {block.origins.at(0)}"
            case RereadTask(origins=origins):
                rows = f"{len(origins)} rows to be read again"
            case _:
                rows = "no rows"
        state = "has been done and not been taken" if future.done() else "runs" if future.running() else "waits"
        return f"lane {self.lane}, {self.program}, {rows}: {state}, submitted {time.monotonic() - self.since:.0f} s ago"


class StallWatch:
    """Counts for how long nothing has happened while somebody waits.

    Args:
        describe: what is in flight, in words; called when there is something to say.

    Raises:
        ConfigError: ``bad-stall-seconds``.
    """

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        self._limit = _limit()
        self._warned = False
        self._seen: object = None
        self._idle = 0.0
        self._looked = 0.0

    @property
    def interval(self) -> float:
        """Seconds to wait between two looks."""
        return self._limit / LOOKS

    def begin(self, happened: object) -> None:
        """Somebody begins to wait; ``happened`` as in :meth:`look`."""
        self._seen, self._idle = happened, 0.0
        self._looked = time.monotonic()

    def look(self, happened: object, waits_for: str) -> None:
        """Count the time since the last look, unless something has happened.

        Args:
            happened: compares equal as long as nothing happens.
            waits_for: what is waited for.

        Raises:
            EngineError: ``stalled``.
        """
        now = time.monotonic()
        passed, self._looked = now - self._looked, now
        if happened != self._seen:
            self._seen, self._idle = happened, 0.0
            return
        self._idle += min(passed, 2 * self.interval)
        if self._idle >= self._limit:
            raise self._error(waits_for)
        if self._idle >= self._limit / 10 and not self._warned:
            self._warned = True
            warnings.warn(
                f"nothing has happened for {self._idle:.0f} s while the consumer waits for {waits_for}; after "
                f"{self._limit:.0f} s this is an error. {self._describe()}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _error(self, waits_for: str) -> EngineError:
        error = EngineError(
            f"nothing has happened for {self._idle:.0f} s while the consumer waits for {waits_for}",
            found=self._describe(),
            fix="look at what the operator or storage named above waits for (py-spy dump --pid PID shows where another "
            f"process stands); where a task may rightly take longer, set {VARIABLE} in the environment",
            code="stalled",
        )
        error.add_note(stacks())
        return error


def in_flight(tasks: Sequence[tuple[Future[Any], TaskInFlight]], waiting_lane: int, runner: object) -> str:
    """What a runner has to do, in words: first the tasks of the lane that is waited for, then the oldest."""
    ordered = sorted(tasks, key=lambda entry: (entry[1].lane != waiting_lane, entry[1].since))
    lines = [entry.describe(future) for future, entry in ordered[:LISTED]]
    if len(ordered) > LISTED:
        lines.append(f"and {len(ordered) - LISTED} more")
    return f"in flight: {'; '.join(lines) or 'nothing'}. runner: {runner!r}"


def stacks() -> str:
    """Where the threads of this process that are ours stand now."""
    frames = sys._current_frames()
    parts = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None and thread.name.startswith("zephon"):
            parts.append(f"thread {thread.name}:\n{''.join(traceback.format_stack(frame)).rstrip()}")
    return "\n".join(parts) or "no thread of Zephon is left in this process"


def _limit() -> float:
    text = os.environ.get(VARIABLE, "")
    if not text:
        return STALL_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigError(
            f"{VARIABLE} is no number of seconds",
            found=f"{VARIABLE}={text!r}; expected a positive number",
            fix=f"unset it, or set it to seconds: {VARIABLE}={STALL_SECONDS:.0f}",
            code="bad-stall-seconds",
        )
    return seconds
