"""The process a local cluster belongs to: ``python -m zephon_ray._keeper OWNER CPUS``.

Ray has the kernel kill a cluster with the thread that started it (``PR_SET_PDEATHSIG``), and a driver that loses its
cluster exits. A runner may be started on any thread, and outlives many; so clusters are started here, on the main
thread of a process that does nothing else. It ends when told on its standard input, when that is closed, or with its
owner, and takes along whatever is left of the cluster: orphans become its children.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import select
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import ray

LOOPBACK: Final = "127.0.0.1"
#: Seconds between two looks at whether the owner is still there.
_LOOK: Final = 0.2
#: Seconds after which the end is taken by force.
_END_SECONDS: Final = 3
_PR_SET_CHILD_SUBREAPER: Final = 36


def main(owner: int, cpus: int) -> None:
    """Start a cluster, print where it is or why it is not as one line of JSON, and end it in time."""
    _adopt_orphans()
    # RAY_TMPDIR is where Ray's own clusters have their folders. Its sockets need a short path.
    folder = tempfile.mkdtemp(prefix="zephon-ray-", dir=os.environ.get("RAY_TMPDIR", "/tmp"))  # noqa: S108
    try:
        with suppress(BrokenPipeError):  # the owner has gone meanwhile
            print(json.dumps(_start(cpus, folder)), flush=True)
        while os.getppid() == owner and not select.select([sys.stdin], [], [], _LOOK)[0]:
            pass
    finally:
        signal.alarm(_END_SECONDS)  # kills this process, and the kernel the cluster
        with suppress(Exception):
            ray.shutdown()
        for pid in _descendants(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _start(cpus: int, folder: str) -> dict[str, str]:
    try:
        context: Any = ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address=LOOPBACK,
            _temp_dir=folder,
        )
    except Exception as error:  # noqa: BLE001 - the owner raises it
        return {"error": f"{type(error).__name__}: {error}"}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # Ray's own handler takes its time
    return {"address": context.address_info["address"], "folder": folder}


def _adopt_orphans() -> None:
    with suppress(AttributeError, OSError):  # only Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _descendants(pid: int) -> list[int]:
    """Children of a process, their children, and so on; none on systems without ``/proc``."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return [*found, *(deeper for child in found for deeper in _descendants(child))]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
