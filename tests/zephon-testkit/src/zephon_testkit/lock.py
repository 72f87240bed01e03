"""Whether work holds the interpreter lock: another thread asks for it, again and again, and sees how long it waits."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Final

#: Seconds between two samples, and how long work is watched.
PAUSE: Final = 0.002
WATCHED: Final = 0.4


def share_held(work: Callable[[], object]) -> float:
    """Share of the samples in which the lock was not given up before Python took it away, while ``work`` is repeated.

    A loop in Python gives nearly 1. A machine that is busy with other things makes it larger than it is, so that only
    values close to 1 say anything.
    """
    stopped = threading.Event()
    waits: list[bool] = []
    # Python asks a holder to let go after this interval, so who never does before makes others wait that long.
    late = PAUSE + sys.getswitchinterval() / 2

    def sample() -> None:
        while True:
            begun = time.perf_counter()
            if stopped.wait(PAUSE):
                return
            waits.append(time.perf_counter() - begun > late)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        end = time.perf_counter() + WATCHED
        while time.perf_counter() < end:
            work()
    finally:
        stopped.set()
        sampler.join()
    return sum(waits) / max(1, len(waits))
