"""This side of a host: a line to an interpreter that runs one function."""

from __future__ import annotations

import subprocess
import weakref
from collections.abc import Callable
from typing import Any, Final

from zephon.abc import Line
from zephon.errors import PeerGoneError
from zephon_processes._channel import Channel
from zephon_processes._errors import failed_there, refused
from zephon_processes._start import started

#: Seconds the other process has to end by itself once the line is closed.
GRACE: Final = 3.0


class HostedLine:
    """This end of a line to a process that was started for it. See :class:`zephon.abc.Line`."""

    def __init__(self, process: subprocess.Popen[bytes], channel: Channel) -> None:
        self.process = process
        self._channel = channel
        self._finalizer = weakref.finalize(self, _end, process, channel)

    def send(self, kind: str, obj: Any = None) -> None:
        """Send an object; what cannot be imported there goes by value."""
        try:
            self._channel.send(kind, obj, by_value=True)
        except PeerGoneError as error:
            raise self._gone() from error

    def receive(self, timeout: float | None = None) -> tuple[str, Any] | None:
        """The next object and its kind; what the other side's function raised is raised here."""
        try:
            found = self._channel.receive(timeout)
        except PeerGoneError as error:
            raise self._gone() from error
        if found is not None and found[0] == "failed":
            raise failed_there(found[1], "the hosted function", self.process.pid)
        if found is not None and found[0] == "refused":
            raise refused(found[1])
        return found

    def fileno(self) -> int:
        """Readable when something can be received."""
        return self._channel.fileno()

    def close(self) -> None:
        """End the line and the process."""
        self._finalizer()

    def _gone(self) -> PeerGoneError:
        try:
            status = self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return PeerGoneError(found=f"pid {self.process.pid} has closed its line, and still runs")
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return PeerGoneError(found=f"pid {self.process.pid} {how}")


def host(entry: Callable[[Line], None]) -> HostedLine:
    """Start an interpreter that runs ``entry(line)``.

    Raises:
        PluginError: it has other plugins than this one.
        PeerGoneError: it ended at once.
        OSError: none could be started.
    """
    process, channel = started("zephon_processes.hosted")
    line = HostedLine(process, channel)
    line.receive()  # that it is ready
    line.send("entry", entry)
    return line


def _end(process: subprocess.Popen[bytes], channel: Channel) -> None:
    channel.close()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
