"""A storage backend in a process that lacks something: the right to read a file, or room to write one.

Run as ``python -m zephon_testkit.confined NAME SETTINGS PLAN``, both JSON; see :func:`confined`. Rights and limits
belong to a whole process, and cannot be had back once given up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from zephon_testkit.incomplete import Incomplete

#: The user "nobody" of most systems: any but root will do.
_NOBODY = 65534


def confined(name: str, settings: Mapping[str, Any], **plan: Any) -> dict[str, list[str]]:
    """What operations of a backend raise in such a process.

    Args:
        name: the plugin.
        settings: what the backend is made with.
        plan: ``warm``: a URL read before anything is taken away. ``forbidden``: a file that nobody but root may reach,
            looked up, listed and read without root's rights. Or ``write``: URLs, ``size``: of what is written to each,
            ``room``: bytes a file may have.

    Returns:
        For each operation, the names of the classes of its exception, the most special first; empty if it succeeded.

    Raises:
        Incomplete: this system has no such limits.
    """
    if not hasattr(os, "geteuid"):
        raise Incomplete("users and limits of a process are facilities of POSIX systems")
    command = [sys.executable, "-m", "zephon_testkit.confined", name, json.dumps(dict(settings)), json.dumps(plan)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.returncode == 0, f"the process with the backend ended with status {done.returncode}\n{done.stderr}"
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Do what the command line says and print what came of it."""
    from zephon.plugins import registry

    name, settings, text = sys.argv[1:]
    plan = json.loads(text)
    backend = registry("storage").load(name)(**json.loads(settings))
    # What is imported on first use must not be missed later.
    backend.read_ranges(plan["warm"], [(0, backend.stat(plan["warm"]).size)])
    if "forbidden" in plan:
        if os.geteuid() == 0:
            os.seteuid(_NOBODY)
        url = plan["forbidden"]
        operations: dict[str, Callable[[], object]] = {
            "stat": lambda: backend.stat(url),
            "list": lambda: list(backend.list(plan["folder"])),
            "read_ranges": lambda: backend.read_ranges(url, [(0, 1)]),
        }
    else:
        import resource

        backend.write(plan["warm"], b"warm")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (plan["room"], plan["room"]))
        operations = {url: partial(backend.write, url, b"x" * plan["size"]) for url in plan["write"]}
    print(json.dumps({what: _raised(operation) for what, operation in operations.items()}))


def _raised(operation: Callable[[], object]) -> list[str]:
    try:
        operation()
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything; it is reported, not handled
        return [kind.__name__ for kind in type(error).__mro__]
    return []


if __name__ == "__main__":
    main()
