"""Scripts of a user, run in interpreters of their own, and the processes they start."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa


def write(path: Path, code: str) -> Path:
    """Write a script or a module."""
    path.write_text(textwrap.dedent(code).lstrip(), encoding="utf-8")
    return path


def run(
    script: Path, *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end."""
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        timeout=timeout,
        check=False,
    )


def output(script: Path, *arguments: object, **settings: object) -> str:
    """What a script prints; it must end well and say nothing on standard error."""
    done = run(script, *arguments, **settings)  # type: ignore[arg-type]
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@contextmanager
def running(
    command: Sequence[object], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, with its output in pipes; it is ended, with all it has started, at the end."""
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for pid in [*descendants(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def line_of(process: subprocess.Popen[str], start: str) -> str:
    """What follows ``start`` in the first line of the process's output that begins so."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return line.removeprefix(start).strip()
    raise AssertionError(f"it never said {start!r}; {process.communicate()[1]}")


def descendants(pid: int) -> list[int]:
    """Children of a process, their children, and so on."""
    found: list[int] = []
    for task in _listing(Path(f"/proc/{pid}/task")):
        with suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii").split())
    return [*found, *(deeper for child in found for deeper in descendants(child))]


def workers(pid: int | None = None, module: str = "zephon_processes.worker") -> list[int]:
    """The worker processes of a process (this one if none is named), oldest first."""
    return sorted(child for child in descendants(pid or os.getpid()) if module in _command(child))


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def comes_true(condition: Callable[[], object], within: float = 5.0) -> bool:
    """Whether something comes true within some seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def resident() -> int:
    """Bytes this process has in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def resident_without_spare() -> int:
    """The same once its allocators have given back what they keep for later, which comes and goes and takes time."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
    return resident()


def _command(pid: int) -> str:
    """How a process was called, or how it calls itself; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
