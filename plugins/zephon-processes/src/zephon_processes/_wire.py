"""What crosses between processes: a small pickled envelope, and Arrow data beside it as Arrow IPC.

Record batches are never pickled: where an object refers to one, the envelope holds its place in a segment of shared
memory, and the batch is written there in the Arrow IPC stream format. Large numpy arrays lie there too (pickle protocol
5, PEP 574). What is read refers to the buffer it is read from.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import cloudpickle
import pyarrow as pa

#: Payload below this many bytes travels in the message itself.
INLINE: Final = 16 << 10
_ALIGN: Final = 64


class Message(NamedTuple):
    """An object on its way.

    Attributes:
        envelope: pickled, with holes where Arrow data and buffers belong.
        places: of what fills the holes: start and stop in the payload; streams of batches first, then buffers.
        streams: how many batches each of the streams has.
        write: writes the payload into memory of :attr:`size` bytes.
        size: bytes of the payload.
    """

    envelope: bytes
    places: list[tuple[int, int]]
    streams: list[int]
    write: Callable[[memoryview], None]
    size: int


def packed(obj: Any, *, by_value: bool = False) -> Message:
    """Prepare an object for sending.

    Args:
        obj: whatever pickle takes.
        by_value: send functions and classes that another process cannot import (lambdas, closures, what is defined in
            the user's script) by value.
    """
    out = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    pickler: Any = (_ByValue if by_value else _ByName)(out, buffers)
    pickler.dump(obj)
    places: list[tuple[int, int]] = []
    end = 0
    raw = [buffer.raw() for buffer in buffers]
    streams = _by_schema(pickler.batches)
    for size in [*map(_ipc_size, streams), *(view.nbytes for view in raw)]:
        start = -(-end // _ALIGN) * _ALIGN
        end = start + size
        places.append((start, end))

    def write(memory: memoryview) -> None:
        for batches, (start, stop) in zip(streams, places, strict=False):
            with pa.FixedSizeBufferWriter(pa.py_buffer(memory[start:stop])) as sink:
                _write_stream(batches, sink)
        for view, (start, stop) in zip(raw, places[len(streams) :], strict=True):
            _copy(view, pa.py_buffer(memory[start:stop]))

    return Message(out.getvalue(), places, [len(batches) for batches in streams], write, end)


def with_envelope(message: Message) -> Message:
    """The same message with its envelope at the end of the payload."""
    start = message.size
    stop = start + len(message.envelope)

    def write(memory: memoryview) -> None:
        message.write(memory[:start])
        memory[start:stop] = message.envelope

    return Message(b"", [*message.places, (start, stop)], message.streams, write, stop)


def owned(payload: memoryview) -> pa.Buffer:
    """A copy in memory of its own."""
    own = pa.allocate_buffer(len(payload))
    _copy(payload, own)
    return own


def unpacked(envelope: bytes, places: Sequence[tuple[int, int]], streams: Sequence[int], payload: pa.Buffer) -> Any:
    """The object again; its data stays in the payload's memory."""
    found = [payload.slice(start, stop - start) for start, stop in places]
    if not envelope:
        envelope = found.pop().to_pybytes()
    reader = _Reader(io.BytesIO(envelope), buffers=found[len(streams) :])
    reader.batches = []
    for piece, count in zip(found, streams, strict=False):
        stream = pa.ipc.open_stream(piece)
        reader.batches += [stream.read_next_batch() for _ in range(count)]
    return reader.load()


class _Holes:
    """Leaves holes for record batches and for large buffers."""

    batches: list[pa.RecordBatch]

    def persistent_id(self, obj: Any) -> int | None:
        """The number of the batch that belongs here."""
        if not isinstance(obj, pa.RecordBatch):
            return None
        self.batches.append(obj)
        return len(self.batches) - 1


class _ByName(_Holes, pickle.Pickler):
    def __init__(self, out: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(out, protocol=5, buffer_callback=_kept(buffers))
        self.batches = []


class _ByValue(_Holes, cloudpickle.CloudPickler):
    def __init__(self, out: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(out, protocol=5, buffer_callback=_kept(buffers))
        self.batches = []


class _Reader(pickle.Unpickler):
    batches: list[pa.RecordBatch]

    def persistent_load(self, pid: Any) -> pa.RecordBatch:
        """The batch of this number."""
        return self.batches[pid]


def _kept(buffers: list[pickle.PickleBuffer]) -> Callable[[pickle.PickleBuffer], bool]:
    def keep(buffer: pickle.PickleBuffer) -> bool:
        try:
            if buffer.raw().nbytes < 1024:
                return True  # small ones are pickled where they stand
        except BufferError:
            return True  # not contiguous
        buffers.append(buffer)
        return False

    return keep


def _copy(source: memoryview, target: pa.Buffer) -> None:
    """Arrow lets other threads run while it copies, the training loop among them; a memoryview would not."""
    with pa.FixedSizeBufferWriter(target) as sink:
        sink.write(source)


def _by_schema(batches: Sequence[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """Neighbours of one schema share a stream: the schema costs more than a small batch."""
    streams: list[list[pa.RecordBatch]] = []
    for batch in batches:
        if streams and streams[-1][0].schema.equals(batch.schema, check_metadata=True):
            streams[-1].append(batch)
        else:
            streams.append([batch])
    return streams


def _write_stream(batches: Sequence[pa.RecordBatch], sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _ipc_size(batches: Sequence[pa.RecordBatch]) -> int:
    sink = pa.MockOutputStream()
    _write_stream(batches, sink)
    return int(sink.size())
