"""The connection to a cluster: the one there is, one somebody names, or a local one that ends with its last user."""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import ray

from zephon_ray._errors import unreachable

#: Ray reads these when it starts processes. What the user has set stays.
_QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0"}  # a loader sends no reports of its user anywhere
#: Seconds within which a cluster takes up a connection.
_ANSWER_SECONDS: Final = 10.0

_lock = threading.Lock()
_leases = 0
_connected_here = False
_session: str | None = None


class Lease:
    """The right to use the connection. The last one given back ends a connection that was made here, and no other."""

    def __init__(self) -> None:
        self._held = True

    def release(self) -> None:
        """Give it back; doing so twice is no error."""
        global _leases, _connected_here, _session  # noqa: PLW0603 - Ray has one connection for a process as well
        with _lock:
            if not self._held:
                return
            self._held = False
            _leases -= 1
            if _leases or not _connected_here:
                return
            _connected_here = False
            ray.shutdown()
            if _session is not None:
                shutil.rmtree(_session, ignore_errors=True)
                _session = None


def connect(address: str | None, cpus: float) -> Lease:
    """Use the connection this process has; else that to ``address`` or ``RAY_ADDRESS``; else start a local cluster.

    Args:
        address: of a running cluster, as Ray takes it; "local" for a new one on this machine.
        cpus: what a local cluster offers at least, be there so many or not: the number of workers is the user's.

    Raises:
        WorkerError: ``ray-unreachable``.
    """
    global _leases, _connected_here, _session  # noqa: PLW0603
    with _lock:
        if not ray.is_initialized():
            address = address or os.environ.get("RAY_ADDRESS") or "local"
            settings: dict[str, Any] = {"address": address}
            if address == "local":
                settings["num_cpus"] = math.ceil(max(cpus, cpus_of_this_machine()))
                settings["include_dashboard"] = False
                settings["logging_level"] = logging.WARNING
            try:
                _check_that_it_answers(address)
                with _signals_kept(), _quiet():
                    context: Any = ray.init(**settings)
            except (ConnectionError, OSError, RuntimeError, ValueError, AssertionError) as error:
                with suppress(Exception):
                    ray.shutdown()
                raise unreachable(None if address == "local" else address, error) from error
            _connected_here = True
            _session = context.address_info["session_dir"] if address == "local" else None
        elif not _leases:
            _connected_here = False  # it is another one than ours was, which somebody else has shut down
        _leases += 1
        return Lease()


def cpus_of_cluster() -> float:
    """CPUs of the cluster this process is connected to, or of this machine."""
    if not ray.is_initialized():
        return cpus_of_this_machine()
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources.get("CPU", 1.0)


def cpus_of_this_machine() -> int:
    """Those the scheduler may place this process on; at least 1."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # only Linux and a few others have it
        return os.cpu_count() or 1


def _check_that_it_answers(address: str) -> None:
    """Ray itself goes on asking for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes over SIGTERM, and never gives it back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _quiet() -> Iterator[None]:
    chosen = {name: value for name, value in _QUIET.items() if name not in os.environ}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            os.environ.pop(name, None)
