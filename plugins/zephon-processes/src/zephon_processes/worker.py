"""The other side: ``python -m zephon_processes.worker DESCRIPTOR NOTES``. Never run by users.

A fresh interpreter that knows nothing of the user's main module. It gets the import path of its parent, the plugins it
must agree with, and programs; then it carries out tasks, one at a time, until it is told to end or its parent has gone.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from zephon_processes._channel import Channel, Gone
from zephon_processes._failure import failure
from zephon_processes._notes import NotePad
from zephon_processes._settle import end_with, settle

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Serve the parent."""
    descriptor, pad, parent = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    _end_at_once()
    end_with(parent)
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        settle(channel)
        Worker(channel, NotePad(pad)).serve()
    except Gone:
        os._exit(0)  # nobody is left to be told of anything
    channel.close()
    _leave()


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
                kind, content = self._channel.received()
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


def _leave() -> None:
    """End without taking the interpreter apart: threads of C++ libraries that are still there then abort the process.

    As the children of multiprocessing do.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or its reader has gone
            stream.flush()
    os._exit(0)


def _end_at_once() -> None:
    """Have the kernel end this process when the thread that started it ends, whatever this process is busy with.

    The thread that starts workers lives as long as they do.
    """
    with suppress(AttributeError, OSError):  # not Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
