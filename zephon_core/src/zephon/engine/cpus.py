"""How many CPUs this process may use, which is seldom how many the machine has.

Two limits count, and the tighter one holds: the CPUs the scheduler may place the process on (taskset, SLURM, cpusets)
and the CPU time a control group grants it (containers). The ranks that torchrun starts on one machine, counted by
``LOCAL_WORLD_SIZE``, share what is left.

Sources: the kernel's ``Documentation/admin-guide/cgroup-v2.rst`` (``cpu.max``) and
``Documentation/scheduler/sched-bwc.rst`` (``cpu.cfs_quota_us``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from zephon.errors import ConfigError


def available_cpus(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> int:
    """CPUs one rank may use: at least 1.

    Args:
        environ: where ``LOCAL_WORLD_SIZE`` is read from.
        root: directory that holds ``proc`` and ``sys``.

    Raises:
        ConfigError: ``bad-local-world-size``.
    """
    cpus: float = placeable_cpus()
    quota = cpu_quota(root)
    if quota is not None:
        cpus = min(cpus, quota)
    # Rounded up: of a quota of 2.5 CPUs, two workers would leave a fifth unused.
    return max(1, math.ceil(cpus) // local_ranks(environ))


def placeable_cpus() -> int:
    """CPUs the scheduler may place this process on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux and a few others have it
        return os.cpu_count() or 1


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs the control groups of this process grant it, or None without such a limit."""
    return min(_quotas(root), default=None)


def local_ranks(environ: Mapping[str, str] = os.environ) -> int:
    """Ranks that share this machine, as ``LOCAL_WORLD_SIZE`` says; 1 without it.

    Raises:
        ConfigError: ``bad-local-world-size``.
    """
    text = environ.get("LOCAL_WORLD_SIZE", "1")
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigError(
            "LOCAL_WORLD_SIZE does not say how many ranks share this machine",
            found=f"LOCAL_WORLD_SIZE={text!r}; expected a positive integer",
            fix="set it as torchrun does, or unset it",
            code="bad-local-world-size",
        )
    return int(text)


def _quotas(root: Path) -> Iterator[float]:
    """CPUs granted by each control group this process is in, ancestors included; v2 and v1 may be mounted together."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mount = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            read, base = _quota_v2, mount
        elif "cpu" in controllers.split(","):
            read, base = _quota_v1, mount / controllers
        else:
            continue
        # Inside a container the path may be the host's, of which only the mount's root is visible.
        relative = Path(group.lstrip("/"))
        for folder in (base / relative, *((base / parent) for parent in relative.parents)):
            quota = read(folder)
            if quota is not None:
                yield quota


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
        return quota / period if quota > 0 and period > 0 else None
    except (OSError, ValueError):
        return None
