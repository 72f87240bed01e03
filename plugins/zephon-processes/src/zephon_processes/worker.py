"""The other side: ``python -m zephon_processes.worker DESCRIPTOR NOTES``. Never run by users.

A fresh interpreter that knows nothing of the user's main module. It gets the import path of its parent, the plugins it
must agree with, and programs; then it carries out tasks, one at a time, until it is told to end or its parent has gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from zephon_processes._channel import Channel, Gone
from zephon_processes._notes import NotePad

#: Linux: have the kernel end this process when the thread that started it ends, whatever this process is busy with.
_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Serve the parent."""
    descriptor, pad, parent = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then ends its workers
    end = socket.socket(fileno=descriptor)
    channel = Channel(end)
    try:
        _settle(channel)
        Worker(channel, NotePad(pad)).serve()
    except Gone:
        os._exit(0)  # nobody is left to be told of anything
    channel.close()


class Worker:
    """Programs of its own, opened when first needed."""

    def __init__(self, channel: Channel, notes: NotePad) -> None:
        self._channel = channel
        self._notes = notes
        self._programs: dict[int, Any] = {}
        self._instances: dict[int, Callable[[Any], Any]] = {}

    def serve(self) -> None:
        """Carry out tasks until told to end."""
        while True:
            try:
                kind, content = self._channel.receive()
            except Gone:
                raise
            except Exception as error:  # noqa: BLE001 - whatever unpickling raises belongs to the task
                self._channel.send("failed", failure(error))
                continue
            if kind == "end":
                self._close()
                return
            if kind == "program":
                number, program = content
                self._programs[number] = program
            else:
                self._answer(*content)

    def _answer(self, number: int, task: Any, careful: bool) -> None:
        try:
            result = self._run(number, task, careful)
        except BaseException as error:  # noqa: BLE001 - SystemExit, too, is an answer
            self._channel.send("failed", failure(error))
            return
        finally:
            self._notes.clear()
        try:
            self._channel.send("done", result)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001 - the result cannot be pickled, or there is no memory for it
            self._channel.send("failed", failure(error))

    def _run(self, number: int, task: Any, careful: bool) -> Any:
        instance = self._instances.get(number)
        if instance is None:
            instance = self._instances[number] = self._programs[number].open()
        # A task that has cost a worker before is done step by step, so that it can be said which step it was.
        step_by_step = getattr(instance, "careful", None) if careful else None
        return instance(task) if step_by_step is None else step_by_step(task, self._notes.write)

    def _close(self) -> None:
        for instance in self._instances.values():
            close = getattr(instance, "close", None)
            if close is not None:
                try:
                    close()
                except Exception:  # noqa: BLE001 - the others are closed all the same
                    traceback.print_exc()


def failure(error: BaseException) -> tuple[bytes | None, str, str]:
    """An exception on its way home: pickled if that works both ways, its one line, and its traceback as text."""
    import pickle

    import cloudpickle

    text = "".join(traceback.format_exception(error))
    line = "".join(traceback.format_exception_only(error)).strip()
    try:
        content: bytes = cloudpickle.dumps(error)
        pickle.loads(content)
    except Exception:  # noqa: BLE001 - then it travels as text
        return None, line, text
    return content, line, text


def _settle(channel: Channel) -> None:
    """Take over what a worker must share with its parent."""
    _, setting = channel.receive()
    sys.path[:] = setting["path"]
    sys.argv[:] = setting["argv"]
    import pyarrow as pa

    pa.set_cpu_count(1)  # as many workers as CPUs: more threads in each would only get in each other's way
    from zephon.plugins import PluginRequirement, require

    try:
        require([PluginRequirement(*wanted) for wanted in setting["plugins"]])
    except Exception as error:
        channel.send("refused", failure(error))
        raise SystemExit(0) from error
    channel.send("ready")


def _end_with(parent: int) -> None:
    """End as soon as the parent has ended, even in the middle of a task."""
    # Where this is not Linux, the thread below does it, unless a library holds the interpreter.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)

    def watch() -> None:
        import time

        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(0)

    threading.Thread(target=watch, name="zephon-parent-watch", daemon=True).start()


if __name__ == "__main__":
    main()
