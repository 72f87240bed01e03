"""CPUs, memory, shared memory, open files: what a process may use here. -1 or None where the system does not say."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import tempfile
from pathlib import Path
from typing import Any

from zephon.engine.cpus import available_cpus, cpu_quota, local_ranks, placeable_cpus
from zephon.engine.options import default_memory_limit
from zephon.errors import ConfigError

ROOT = Path("/")


def machine() -> dict[str, Any]:
    """What there is of each."""
    return {
        "system": platform.platform(),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "cpus": _cpus(),
        "memory": _memory(),
        "shm": _space("/dev/shm"),  # noqa: S108 - nothing is written there
        "files": _files(),
        "temp": {"path": tempfile.gettempdir(), **_space(tempfile.gettempdir())},
        "umask": _umask(),
    }


def _cpus() -> dict[str, Any]:
    found: dict[str, Any] = {
        "machine": os.cpu_count() or -1,
        "affinity": placeable_cpus(),
        "quota": cpu_quota(ROOT),
        "local_ranks": -1,
        "usable": -1,
        "error": "",
    }
    try:
        found.update(local_ranks=local_ranks(), usable=available_cpus())
    except ConfigError as error:
        found["error"] = f"{error.what}: {error.found}"
    return found


def _memory() -> dict[str, int | None]:
    lines = _read(ROOT / "proc/meminfo").splitlines()
    sizes = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
    try:
        default: int | None = default_memory_limit()
    except ConfigError:  # the ranks of this machine cannot be counted, which is told with the CPUs
        default = None
    return {
        "total": sizes.get("MemTotal", -1),
        "available": sizes.get("MemAvailable", -1),
        "cgroup_limit": cgroup_memory(ROOT),
        "default_limit": default,
    }


def cgroup_memory(root: Path) -> int | None:
    """Bytes the control groups of this process grant it, ancestors included; None without such a limit.

    Source: the kernel's ``Documentation/admin-guide/cgroup-v2.rst`` (``memory.max``).
    """
    limits = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        mount = root / "sys/fs/cgroup"
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = (mount / "memory", "memory.limit_in_bytes") if controllers else (mount, "memory.max")
        relative = Path(group.lstrip("/"))
        for folder in (base / relative, *((base / parent) for parent in relative.parents)):
            text = _read(folder / name).strip()
            # version 1 writes "no limit" as the largest number of pages
            if text.isdecimal() and int(text) < 1 << 62:
                limits.append(int(text))
    return min(limits, default=None)


def _space(path: str) -> dict[str, int]:
    try:
        found = shutil.disk_usage(path)
    except OSError:
        return {"total": -1, "free": -1}
    return {"total": found.total, "free": found.free}


def _files() -> dict[str, int]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = -1
    return {"open": used, "limit": -1 if soft == resource.RLIM_INFINITY else soft}


def _umask() -> str:
    for line in _read(ROOT / "proc/self/status").splitlines():
        if line.startswith("Umask:"):
            return line.split()[1]
    return "unknown"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
