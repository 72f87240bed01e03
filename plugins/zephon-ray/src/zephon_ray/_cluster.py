"""The connection to a cluster: the one there is, one somebody names, or a local one that ends with its last user."""

from __future__ import annotations

import atexit
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import ray
from ray._private import ray_constants

from zephon_ray._errors import unreachable
from zephon_ray._local import QUIET, LocalCluster

#: Seconds within which a cluster takes up a connection.
_ANSWER_SECONDS: Final = 10.0

#: Seconds for which a local cluster waits for another runner after its last: pipelines often follow one another.
IDLE_SECONDS: Final = 1.5

#: Ray never closes the log of a driver, so that it has none in the folder of a local cluster, which is removed.
_NO_FILES: Final = {"RAY_LOG_TO_STDERR": "1", "RAY_BACKEND_LOG_LEVEL": "error"}

_lock = threading.Lock()
_leases = 0
_connected_here = False
_local: LocalCluster | None = None
_idle: threading.Timer | None = None


class Lease:
    """The right to use the connection. The last one given back ends a connection that was made here, and no other."""

    def __init__(self) -> None:
        self._held = True

    def release(self) -> None:
        """Give it back; doing so twice is no error."""
        global _leases, _connected_here  # noqa: PLW0603 - Ray has one connection for a process as well
        with _lock:
            if not self._held:
                return
            self._held = False
            _leases -= 1
            if _leases or not _connected_here:
                return
            if _local is not None:
                _leave_local_soon()
                return
            _connected_here = False
            ray.shutdown()


def connect(address: str | None, cpus: float) -> Lease:
    """Use the connection this process has; else that to ``address`` or ``RAY_ADDRESS``; else start a local cluster.

    Args:
        address: of a running cluster, as Ray takes it; "local" for a new one on this machine.
        cpus: what a local cluster offers at least, be there so many or not: the number of workers is the user's.

    Raises:
        WorkerError: ``ray-unreachable``.
    """
    global _leases, _connected_here  # noqa: PLW0603
    wanted = math.ceil(max(cpus, cpus_of_this_machine()))
    with _lock:
        if _idle is not None:
            _take_up_local(address or os.environ.get("RAY_ADDRESS") or "local", wanted)
        if not ray.is_initialized():
            address = address or os.environ.get("RAY_ADDRESS") or "local"
            try:
                with _signals_kept():
                    if address == "local":
                        _connect_to_local(wanted)
                    else:
                        _check_that_it_answers(address)
                        ray.init(address=address)
            except (ConnectionError, OSError, RuntimeError, ValueError, AssertionError) as error:
                with suppress(Exception):
                    ray.shutdown()
                _leave_local()
                raise unreachable(None if address == "local" else address, error) from error
            _connected_here = True
        elif not _leases and _local is None:
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


def _connect_to_local(cpus: int) -> None:
    global _local  # noqa: PLW0603
    _leave_local()  # somebody has ended our connection
    _local = LocalCluster(cpus)
    with _quiet():
        ray.init(address=_local.address, logging_level=logging.ERROR)


def _leave_local_soon() -> None:
    """Unless it is used again before. Every connection costs Ray a descriptor that it never gives back."""
    global _idle  # noqa: PLW0603

    def leave() -> None:
        with _lock:
            if _idle is idle:  # else it was cancelled while this thread waited for the lock
                _leave_local()

    idle = _idle = threading.Timer(IDLE_SECONDS, leave)
    idle.name = "zephon-ray-idle"
    idle.daemon = True  # the end of the interpreter does not wait for it
    idle.start()


def _take_up_local(address: str, cpus: int) -> None:
    """Go on with the one that was to be left soon, if it will do."""
    global _idle  # noqa: PLW0603
    assert _idle is not None
    assert _local is not None
    _idle.cancel()
    _idle = None
    if address != "local" or not _local.serves(cpus) or not _is_connected_to_local():
        _leave_local()


def _leave_local() -> None:
    """Disconnect and end it, if there is one; a connection that somebody has made meanwhile stays."""
    global _local, _idle, _connected_here
    if _local is None:
        return
    if _is_connected_to_local():
        ray.shutdown()
    _local.stop()
    _local, _idle, _connected_here = None, None, False


def _is_connected_to_local() -> bool:
    return _local is not None and ray.is_initialized() and ray.get_runtime_context().gcs_address == _local.address


@atexit.register  # before Ray's own, and after that of runners nobody has closed
def _leave_local_now() -> None:
    with _lock:
        _leave_local()


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
    """Ray in this process as it is in the cluster, but without files there."""
    chosen = {name: value for name, value in {**QUIET, **_NO_FILES}.items() if name not in os.environ}
    os.environ.update(chosen)
    # The one setting that Ray has read already, when it was imported.
    several_machines, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = several_machines
        for name in chosen:
            os.environ.pop(name, None)
