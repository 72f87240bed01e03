"""How an interpreter is started at the other end of a line, and what it must share with the one that starts it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any, Final

from zephon.errors import PeerGoneError, ZephonError
from zephon.plugins import POINTS, registry
from zephon_processes._channel import Channel

# What the user has set stays.
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def started(module: str, *descriptors: int, threads: int | None = None) -> tuple[subprocess.Popen[bytes], Channel]:
    """Start ``python -m module``, and tell it what to settle.

    The module gets the descriptor of its end, the given descriptors and this process's id as arguments. A process that
    ends at once is noticed when its line is used.

    Args:
        module: run as the main module.
        descriptors: open files it shares.
        threads: how many its libraries may use; None for what they choose themselves.

    Raises:
        OSError: no process could be started.
    """
    here, there = socket.socketpair()
    # What is no text there, such as a Path, Python's own import passes over, too.
    path = [entry or os.getcwd() for entry in sys.path if isinstance(entry, str)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    if threads is not None:
        for variable in _THREADS:
            env.setdefault(variable, str(threads))
    numbers = [there.fileno(), *descriptors]
    try:
        process = subprocess.Popen(
            # -P: no module that lies in the working directory by chance is taken for one of the same name.
            [sys.executable, "-P", "-m", module, *map(str, numbers), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            pass_fds=numbers,
            env=env,
            process_group=0,  # Ctrl-C in a terminal goes to the whole group of the parent
        )
    except OSError:
        here.close()
        raise
    finally:
        there.close()
    channel = Channel(here)
    plugins = [tuple(requirement) for point in POINTS for requirement in _requirements(point)]
    with suppress(PeerGoneError):  # seen again, and reported, by whoever receives
        channel.send("settle", {"path": path, "argv": sys.argv, "plugins": plugins, "threads": threads})
    return process, channel


def _requirements(point: str) -> list[Any]:
    """The installed plugins both sides have to agree on; what code has registered in this process is sent by value."""
    found = []
    for name in registry(point).names():
        try:
            requirement = registry(point).requirement(name)
        except ZephonError:
            continue  # broken, and an error when its name is used
        if requirement.version:
            found.append(requirement)
    return found
