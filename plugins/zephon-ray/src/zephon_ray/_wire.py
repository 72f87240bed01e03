"""What crosses through Ray's object store: a small pickled envelope, and Arrow data beside it as Arrow IPC.

Record batches are never pickled: where an object refers to one, the envelope has a hole, and the batch travels beside
it in the Arrow IPC stream format. Large numpy arrays travel there too (pickle protocol 5, PEP 574).

Ray writes the pieces of a parcel straight from the sender's memory into its store, one copy; the receiver sees them
there in place, and copies them out once. So nothing that was received looks into the store.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa
from ray import cloudpickle

#: Buffers of this many bytes are sent from where they lie; smaller ones are gathered first.
LARGE: Final = 32 << 10
_ALIGN: Final = 64


class Parcel(NamedTuple):
    """An object on its way.

    Attributes:
        envelope: pickled, with holes where batches and buffers belong.
        pieces: the payload, as buffers and the place of each.
        places: of what fills the holes: start and stop in the payload; batches first, then buffers.
        batches: how many of the places are batches.
        size: bytes of the payload.
    """

    envelope: bytes
    pieces: tuple[tuple[int, Any], ...]
    places: tuple[tuple[int, int], ...]
    batches: int
    size: int


def packed(obj: Any, *, by_value: bool = False) -> Parcel:
    """Prepare an object for sending. It may not be changed until it has been sent.

    Args:
        obj: whatever pickle takes.
        by_value: send functions and classes that another process cannot import (lambdas, closures, what is defined in
            the user's script) by value.
    """
    out = io.BytesIO()
    buffers: list[memoryview] = []
    pickler: Any = (_ByValue if by_value else _ByName)(out, buffers)
    pickler.dump(obj)
    payload = _Payload()
    places = []
    for batch in pickler.batches:
        start = payload.align()
        with pa.PythonFile(payload, mode="w") as sink, pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        places.append((start, payload.size))
    for buffer in buffers:
        start = payload.align()
        payload.write(buffer)
        places.append((start, payload.size))
    return Parcel(out.getvalue(), payload.finished(), tuple(places), len(pickler.batches), payload.size)


def unpacked(parcel: Parcel) -> Any:
    """The object again, owning its memory."""
    own = pa.allocate_buffer(parcel.size)
    memory = memoryview(own).cast("B")
    for start, piece in parcel.pieces:
        view = memoryview(piece).cast("B")
        memory[start : start + view.nbytes] = view
    found = [own.slice(start, stop - start) for start, stop in parcel.places]
    reader = _Reader(io.BytesIO(parcel.envelope), buffers=found[parcel.batches :])
    reader.batches = [pa.ipc.open_stream(piece).read_next_batch() for piece in found[: parcel.batches]]
    return reader.load()


class _Payload:
    """A file to write to that keeps large buffers where they are."""

    closed = False

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[tuple[int, Any]] = []
        self._small = bytearray()

    def write(self, data: Any) -> int:
        """Add a buffer."""
        view = memoryview(data).cast("B")
        if view.nbytes >= LARGE:
            self._gather()
            self._pieces.append((self.size, pickle.PickleBuffer(view)))
        else:
            self._small += view
        self.size += view.nbytes
        return view.nbytes

    def align(self) -> int:
        """Pad, as Arrow wants its buffers aligned; where the next one starts."""
        padding = -self.size % _ALIGN
        self._small += bytes(padding)
        self.size += padding
        return self.size

    def finished(self) -> tuple[tuple[int, Any], ...]:
        """All of it."""
        self._gather()
        return tuple(self._pieces)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """More may follow: the next batch."""

    def _gather(self) -> None:
        if self._small:
            self._pieces.append((self.size - len(self._small), bytes(self._small)))
            self._small.clear()


class _Holes:
    """Leaves holes for record batches."""

    batches: list[pa.RecordBatch]

    def persistent_id(self, obj: Any) -> int | None:
        """The number of the batch that belongs here."""
        if not isinstance(obj, pa.RecordBatch):
            return None
        self.batches.append(obj)
        return len(self.batches) - 1


class _ByName(_Holes, pickle.Pickler):
    def __init__(self, out: io.BytesIO, buffers: list[memoryview]) -> None:
        super().__init__(out, protocol=5, buffer_callback=_kept(buffers))
        self.batches = []


class _ByValue(_Holes, cloudpickle.CloudPickler):
    def __init__(self, out: io.BytesIO, buffers: list[memoryview]) -> None:
        super().__init__(out, protocol=5, buffer_callback=_kept(buffers))  # type: ignore[no-untyped-call]
        self.batches = []


class _Reader(pickle.Unpickler):
    batches: list[pa.RecordBatch]

    def persistent_load(self, pid: Any) -> pa.RecordBatch:
        """The batch of this number."""
        return self.batches[pid]


def _kept(buffers: list[memoryview]) -> Callable[[pickle.PickleBuffer], bool]:
    def keep(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:
            return True  # not contiguous: pickled where it stands
        if raw.nbytes < 1024:
            return True  # so are small ones
        buffers.append(raw)
        return False

    return keep
