"""What a process holds that must not grow: files, threads, child processes, shared memory."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

#: Seconds given to what ends on its own, such as threads that were told to stop.
PATIENCE: Final = 5.0


@attrs.frozen(slots=True, kw_only=True)
class Holdings:
    """A count of everything, comparable.

    Attributes:
        files: open file descriptors; on systems without ``/proc``, none are counted.
        threads: threads of Python, by name.
        children: child processes.
        shared_memory: names in ``/dev/shm`` that no other process uses.
    """

    files: tuple[str, ...]
    threads: tuple[str, ...]
    children: tuple[str, ...]
    shared_memory: tuple[str, ...]


def holdings() -> Holdings:
    """What this process holds now."""
    return Holdings(
        files=tuple(sorted(_open_files())),
        threads=tuple(sorted(f"{thread.name} ({thread.ident})" for thread in threading.enumerate())),
        children=tuple(sorted(_children())),
        shared_memory=tuple(sorted(_shared_memory())),
    )


def leaked(work: Callable[[], object]) -> list[str]:
    """Do some work once to warm up and once more; say what the second time left behind, after a few seconds.

    Returns:
        One line for everything that is there now and was not before; empty if nothing leaks.
    """
    work()
    gc.collect()
    before = holdings()
    work()
    deadline = time.monotonic() + PATIENCE
    while True:
        gc.collect()
        surplus = _surplus(before, holdings())
        if not surplus or time.monotonic() > deadline:
            return surplus
        time.sleep(0.02)


def _surplus(before: Holdings, now: Holdings) -> list[str]:
    found = []
    for kind, old in attrs.asdict(before, recurse=False).items():
        new = list(getattr(now, kind))
        for item in old:
            if item in new:
                new.remove(item)
        found += [f"{kind.replace('_', ' ')}: {item}" for item in new]
    return found


def _open_files() -> list[str]:
    """What every descriptor leads to. Eventpolls, pipes and the like by kind, as their numbers say nothing."""
    found = []
    for number in _listing(Path("/proc/self/fd")):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the one the listing itself used
            continue
        found.append(target.partition(":[")[0])
    return found


def _children() -> list[str]:
    found = []
    for task in _listing(Path("/proc/self/task")):
        try:
            found += Path(f"/proc/self/task/{task}/children").read_text(encoding="ascii").split()
        except OSError:
            continue
    return found


def _shared_memory() -> list[str]:
    names = _listing(Path("/dev/shm"))
    if not names:
        return []
    in_use: set[str] = set()
    for process in _listing(Path("/proc")):
        if process.isdecimal() and int(process) != os.getpid():
            try:
                maps = Path(f"/proc/{process}/maps").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            in_use.update(line.rpartition("/dev/shm/")[2] for line in maps.splitlines() if "/dev/shm/" in line)
    return [name for name in names if name not in in_use]


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
