"""Programs for runners to run: plain data that any worker can make again, wherever it is.

What a program does is written into files, as the memory of a worker may be anybody's. Nothing here knows a runner.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import attrs

from zephon.abc import Line
from zephon.block import Block
from zephon.errors import DataError
from zephon_testkit import blocks

#: Seconds between two looks at a folder.
_PAUSE: Final = 0.002


class Carried(NamedTuple):
    """A block on its way, in the form the engine has it: in a named tuple, among other values."""

    block: Block
    content: str
    numbers: tuple[int, ...] = ()


def content(block: Block) -> str:
    """All of a block as text: fields with their metadata, rows with their origins, its lane and its place in it."""
    fields = [(field.name, str(field.type), field.nullable, field.metadata) for field in block.schema]
    return repr((fields, blocks.rows([block]), block.lane, block.index))


# --- functions of one task -----------------------------------------------------------------------------------------


def square(task: int) -> int:
    """A small task."""
    return task * task


def name(task: Any) -> str:
    """The task as Python writes it."""
    return repr(task)


def late(task: tuple[int, float]) -> int:
    """The number of a task, after its seconds."""
    number, seconds = task
    time.sleep(seconds)
    return number


def echo(task: Any) -> Any:
    """The task itself."""
    return task


def look(task: Carried) -> Carried:
    """The block that came, and what it looked like when it came."""
    return task._replace(content=content(task.block))


class Unsendable(Exception):
    """An exception with something of its worker's own in it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class TwoParts(Exception):
    """An exception that cannot be made again from its ``args``, as so many cannot."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} in {where}")


def fail(task: str) -> str:
    """Fails as the task says; a task that says nothing of the kind comes back."""
    if task in _FAILURES:
        _where_it_fails(task)
    return task


_FAILURES: Final[dict[str, Callable[[], BaseException]]] = {
    "ValueError": lambda: ValueError("no such value"),
    "KeyError": lambda: KeyError("a key"),
    "DataError": lambda: DataError("row 3 is bad", found="a text", fix="leave it out", code="bad-row"),
    "Unsendable": lambda: Unsendable("what the worker has to say"),
    "TwoParts": lambda: TwoParts("a stain", "row 7"),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("from within"),
}


def failure(task: str) -> BaseException:
    """What :func:`fail` raises for a task."""
    return _FAILURES[task]()


def _where_it_fails(task: str) -> None:
    raise failure(task)


def shout(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a pipeline, changed."""
    return {"n": row["n"] * 3, "text": row["text"].upper()}


# --- programs ------------------------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class Calls:
    """Runs a function of this module on every task."""

    function: str

    def open(self) -> Callable[[Any], Any]:
        """The function."""
        found: Callable[[Any], Any] = globals()[self.function]
        return found


@attrs.frozen(slots=True)
class CannotOpen:
    """A program whose surroundings are missing."""

    def open(self) -> Callable[[Any], Any]:
        """Fails."""
        raise OSError("no model on this machine")


@attrs.frozen(slots=True)
class Counted:
    """Notes in a folder when instances are opened and closed.

    A task is a number of seconds; the result, whether another thread was using the same instance meanwhile.
    """

    folder: str
    name: str

    def open(self) -> _Instance:
        """An instance that knows its number."""
        return _Instance(self)

    def note(self, event: str, instance: str) -> None:
        """Leave a file."""
        _mark(Path(self.folder) / f"{event} {self.name} {instance}")

    def noted(self, event: str) -> list[str]:
        """The instances an event was noted of, once for each time."""
        return [file.name.split()[2] for file in Path(self.folder).glob(f"{event} {self.name} *")]


_numbers = itertools.count()


class _Instance:
    def __init__(self, program: Counted) -> None:
        self._program = program
        self._name = f"{os.getpid()}-{next(_numbers)}"
        self._used = threading.Lock()
        program.note("open", self._name)

    def __call__(self, task: float) -> bool:
        if not self._used.acquire(blocking=False):
            return True
        try:
            time.sleep(task)
            return False
        finally:
            self._used.release()

    def close(self) -> None:
        # Two closes of one instance leave two files.
        self._program.note("close", f"{self._name} {next(_numbers)}")


@attrs.frozen(slots=True)
class Meets:
    """Tasks, which are numbers, wait until so many of them are running; the result, whether they ever were."""

    folder: str
    together: int
    patience: float

    def open(self) -> Callable[[int], bool]:
        """A function of the number."""
        return self._meet

    def _meet(self, number: int) -> bool:
        _mark(Path(self.folder) / f"{number}")
        return wait_for(lambda: len(os.listdir(self.folder)) >= self.together, self.patience)


@attrs.frozen(slots=True)
class Crowds:
    """The result of a task, which is a number, is how many tasks were running at its time."""

    folder: str

    def open(self) -> Callable[[int], int]:
        """A function of the number."""
        return self._count

    def _count(self, number: int) -> int:
        here = Path(self.folder) / f"{number}"
        _mark(here)
        time.sleep(0.01)
        found = len(os.listdir(self.folder))
        here.unlink()
        return found


@attrs.frozen(slots=True)
class Waits:
    """Tasks, which are numbers, note the process that runs them, each time they begin, and wait for leave to end.

    Those from ``held`` on need no leave. A task that begins again needs none either.
    """

    folder: str
    held: int
    patience: float

    def open(self) -> Callable[[int], int]:
        """A function of the number."""
        return self._wait

    def begun(self, number: int) -> list[int]:
        """Ids of the processes in which a task has begun."""
        files = sorted(Path(self.folder).glob(f"begun-{number}-*"))
        return [int(file.name.split("-")[2]) for file in files]

    def leave(self) -> None:
        """Let all of them end."""
        _mark(Path(self.folder) / "leave")

    def _wait(self, number: int) -> int:
        again = bool(self.begun(number))
        _mark(Path(self.folder) / f"begun-{number}-{os.getpid()}-{time.monotonic_ns()}")
        if number < self.held and not again:
            wait_for((Path(self.folder) / "leave").exists, self.patience)
        return number


def wait_for(condition: Callable[[], bool], patience: float) -> bool:
    """Look again and again; whether it came true in time."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True


def _mark(path: Path) -> None:
    path.touch()


def answer(line: Line) -> None:
    """Serves the other end of a line: sends back what comes, says where it runs, fails when told to."""
    while True:
        message = line.receive()
        assert message is not None
        kind, content = message
        if kind == "fail":
            raise ValueError(content)
        line.send(kind, os.getpid() if kind == "where" else content)
