"""The other side: the actor that runs tasks, and the one that keeps notes for those it may not survive."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import ray
from ray import ObjectRef, cloudpickle
from ray.actor import ActorHandle
from ray.exceptions import RayError

from zephon.plugins import PluginRequirement, require
from zephon_ray._wire import Parcel, packed, unpacked

#: Seconds a worker waits until a note has been taken down.
_NOTE_SECONDS = 5.0


class Failure(NamedTuple):
    """An exception on its way home.

    Attributes:
        content: pickled, or None where that does not work both ways.
        line: its class and message.
        text: its traceback.
    """

    content: bytes | None
    line: str
    text: str


class Place(NamedTuple):
    """Where a worker runs."""

    pid: int
    address: str
    node: str


class Answer(NamedTuple):
    """What became of a call: one of the two."""

    place: Place
    parcel: Parcel | None = None
    failure: Failure | None = None


class Worker:
    """An actor with instances of its own, each opened when first needed. Ray calls one method at a time.

    Args:
        plugins: the plugins of the main process.
        threads: of Arrow.
    """

    def __init__(self, plugins: Sequence[tuple[str, ...]], threads: int) -> None:
        pa.set_cpu_count(threads)
        self._plugins = plugins
        self._instances: dict[int, Callable[[Any], Any]] = {}
        context = ray.get_runtime_context()
        address: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        self._place = Place(os.getpid(), address, context.get_node_id())

    # However often Ray has to make this actor again, and however long it takes to find a place for it.
    @ray.method(max_task_retries=-1)
    def ready(self) -> Answer:
        """Whether this worker can be used."""
        try:
            require([PluginRequirement(*wanted) for wanted in self._plugins])
        except Exception as error:  # noqa: BLE001 - it belongs to the main process
            return Answer(self._place, failure=failure(error))
        return Answer(self._place)

    def run(
        self, number: int, program: list[ObjectRef[Parcel]], task: Parcel, notes: ActorHandle[Notes] | None, key: int
    ) -> Answer:
        """Carry out a task.

        Args:
            number: of its program.
            program: a reference to it; in a list, so that Ray does not fetch it for every task.
            task: the task.
            notes: for a task that has cost a worker before: who takes notes of what it is about to do.
            key: of these notes.
        """
        try:
            return Answer(self._place, parcel=packed(self._result(number, program, task, notes, key)))
        except BaseException as error:  # noqa: BLE001 - SystemExit, too, is an answer
            return Answer(self._place, failure=failure(error))

    def close(self) -> None:
        """Close the instances."""
        while self._instances:
            _, instance = self._instances.popitem()
            close = getattr(instance, "close", None)
            if close is not None:
                try:
                    close()
                except Exception:  # noqa: BLE001 - the others are closed all the same
                    traceback.print_exc()

    def _result(
        self,
        number: int,
        program: list[ObjectRef[Parcel]],
        parcel: Parcel,
        notes: ActorHandle[Notes] | None,
        key: int,
    ) -> Any:
        task = unpacked(parcel)
        instance = self._instances.get(number)
        if instance is None:
            instance = self._instances[number] = unpacked(ray.get(program[0])).open()
        careful = None if notes is None else getattr(instance, "careful", None)
        if notes is None or careful is None:
            return instance(task)

        def note(text: str) -> None:
            # Only what has arrived can be read after a death. Without it the task goes on all the same.
            with suppress(RayError):
                ray.get(notes.write.remote(key, text), timeout=_NOTE_SECONDS)

        return careful(task, note)


class Notes:
    """What tasks that have cost a worker are about to do. Outlives the workers."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def write(self, key: int, text: str) -> None:
        """Replace a note."""
        self._texts[key] = text

    def read(self, key: int) -> str:
        """Take a note away; "" if there is none."""
        return self._texts.pop(key, "")


def failure(error: BaseException) -> Failure:
    """An exception as it can be sent: pickled if that works both ways, its one line, and its traceback as text."""
    text = "".join(traceback.format_exception(error))
    line = "".join(traceback.format_exception_only(error)).strip()
    try:
        content: bytes = cloudpickle.dumps(error)  # type: ignore[no-untyped-call]
        pickle.loads(content)
    except Exception:  # noqa: BLE001 - then it travels as text
        return Failure(None, line, text)
    return Failure(content, line, text)
