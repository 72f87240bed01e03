"""How many CPUs the scheduler may place this process on."""

from __future__ import annotations

import os


def affinity() -> int:
    """At least 1. The engine, which also knows of quotas and of other ranks, says a number itself."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # only Linux and a few others have it
        return os.cpu_count() or 1
