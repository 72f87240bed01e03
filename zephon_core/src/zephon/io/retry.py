"""Retries: jittered exponential backoff under a total deadline.

Delays grow as in "Exponential Backoff And Jitter" (M. Brooker, 2015), half of each fixed and half drawn, so that many
ranks that failed together do not come back together. What a server asks for (``Retry-After``) is the least waited.
"""

from __future__ import annotations

import errno
import random
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from zephon.errors import StorageError, ZephonError
from zephon.io.urls import display, redact

T = TypeVar("T")

#: OSErrors that waiting does not mend.
_FINAL: Final = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)
_FINAL_ERRNO: Final = frozenset({errno.ENOSPC, errno.EROFS, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP})


@attrs.frozen(slots=True, kw_only=True)
class Timing:
    """Where time and jitter enter; tests put their own here.

    Attributes:
        clock: seconds that never go back.
        wait: sleeps for some seconds or until the event is set, and returns whether it is.
        jitter: a number in ``[0, 1)``.
    """

    clock: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait
    jitter: Callable[[], float] = random.random


@attrs.frozen(slots=True, kw_only=True)
class RetryPolicy:
    """How long and how often a storage operation is tried.

    Attributes:
        deadline: seconds from the first attempt after which no further one begins.
        first_delay: seconds before the second attempt, doubled each time.
        max_delay: seconds a delay grows to.
        timing: clock, sleep and jitter.
    """

    deadline: float = 120.0
    first_delay: float = 0.25
    max_delay: float = 15.0
    timing: Timing = attrs.field(factory=Timing, eq=False, repr=False)

    def call(self, operation: Callable[[], T], *, doing: str, url: str, cancel: threading.Event) -> T:
        """The operation's result, retried while it raises an ``OSError`` that may pass.

        Args:
            operation: what to try; has no effect that matters if it fails.
            doing: what it does, for the error: ``"list"``, ``"read"``.
            url: what it does it to.
            cancel: set to give up waiting at once.

        Raises:
            StorageError: ``storage-unavailable`` at the deadline or on cancelling, from the last failure.
            OSError: one that waiting does not mend, as it is (not found, not permitted, ...).
        """
        start = self.timing.clock()
        delay = self.first_delay
        attempts = 0
        while True:
            attempts += 1
            try:
                return operation()
            except OSError as error:
                if isinstance(error, (*_FINAL, ZephonError)) or error.errno in _FINAL_ERRNO:
                    raise
                failure = error
            pause = max(delay * (0.5 + 0.5 * self.timing.jitter()), _retry_after(failure))
            spent = self.timing.clock() - start
            late = spent + pause > self.deadline
            if late or self.timing.wait(cancel, pause):
                raise StorageError(
                    f"cannot {doing} {display(url)}",
                    found=f"{attempts} attempts in {spent:.0f} s, "
                    + (f"the deadline being {self.deadline:.0f} s" if late else "then the reader was closed")
                    + f"; the last one: {type(failure).__name__}: {redact(str(failure))}",
                    fix="check that the storage answers from this machine, then run again",
                    code="storage-unavailable",
                ) from failure
            delay = min(delay * 2, self.max_delay)


def _retry_after(error: OSError) -> float:
    """Seconds the other side asked to wait, where the backend passed that on as ``error.retry_after``."""
    value = getattr(error, "retry_after", None)
    return float(value) if isinstance(value, (int, float)) and value > 0 else 0.0
