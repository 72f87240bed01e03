"""A line between two processes: messages over a Unix socket, payload through shared memory."""

from __future__ import annotations

import pickle
import select
import socket
import struct
import weakref
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zephon.errors import PeerGoneError
from zephon_processes._segments import Outbox, Segment
from zephon_processes._wire import INLINE, owned, packed, unpacked, with_envelope

Gone = PeerGoneError
#: Payload of so many bytes is used where it lies. Less is copied: a segment is larger, and one row would keep it all.
LARGE: Final = 1 << 20
_HEAD: Final = struct.Struct("<QB")  # bytes that follow, number of descriptors that come along


class Channel:
    """One end of a line. Not thread-safe: one thread sends, one receives, and they are the same.

    A message is a kind (a short text) and an object. The payload of the object lies in a segment of the sender until
    the receiver has copied it out, or nothing refers to it there any more, which it says with its next message.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._outbox = Outbox()
        self._inbox: dict[int, Segment] = {}
        self._read: list[int] = []  # segments read since the last message sent

    def fileno(self) -> int:
        """Of the socket, for selectors."""
        return self._socket.fileno()

    @property
    def nbytes(self) -> int:
        """Bytes of shared memory this end has made."""
        return self._outbox.nbytes

    def send(self, kind: str, obj: Any = None, *, by_value: bool = False) -> None:
        """Send an object; blocks only while the socket is full.

        Raises:
            Gone: the other process has ended.
            Exception: the object cannot be pickled; nothing was sent.
        """
        message = packed(obj, by_value=by_value)
        if len(message.envelope) > INLINE:
            # What goes through the socket stays small, so that two ends that send at once never block each other.
            message = with_envelope(message)
        descriptors: list[int] = []
        segment: Segment | None = None
        given_up: list[int] = []
        inline = b""
        if message.size > INLINE:
            segment, is_new, given_up = self._outbox.take(message.size)
            with memoryview(segment.memory) as memory, memory[: message.size] as part:
                message.write(part)
            if is_new:
                descriptors.append(segment.descriptor)
        elif message.size:
            own = bytearray(message.size)
            message.write(memoryview(own))
            inline = bytes(own)
        where = None if segment is None else (segment.number, segment.size)
        read = [self._read.pop() for _ in range(len(self._read))]  # more may come from any thread meanwhile
        fields = (kind, message.envelope, message.places, message.streams, message.size, where, inline, read, given_up)
        body = pickle.dumps(fields, protocol=5)
        try:
            head = _HEAD.pack(len(body), len(descriptors))
            if descriptors:
                socket.send_fds(self._socket, [head], descriptors)
                self._socket.sendall(body)
            else:
                self._socket.sendall(head + body)
        except OSError as error:
            raise Gone from error

    def receive(self, timeout: float | None = None) -> tuple[str, Any] | None:
        """The next message, or None if none came within ``timeout`` seconds; None waits for ever.

        Raises:
            Gone: the other process has ended.
            Exception: the object cannot be unpickled here.
        """
        if timeout is not None:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if not poll.poll(1000 * timeout):
                return None
        return self.received()

    def received(self) -> tuple[str, Any]:
        """As :meth:`receive`, without a limit."""
        try:
            head, descriptors, _, _ = socket.recv_fds(self._socket, _HEAD.size, 1)
            head += self._exactly(_HEAD.size - len(head)) if head else b""
            if not head:
                raise Gone
            size, _ = _HEAD.unpack(head)
            body = self._exactly(size)
        except OSError as error:
            raise Gone from error
        fields = pickle.loads(body)
        kind, envelope, places, streams, length, where, inline, read, given_up = fields
        for number in read:
            self._outbox.returned(number)
        for number in given_up:
            self._inbox.pop(number).close()
        if where is None:
            return kind, unpacked(envelope, places, streams, pa.py_buffer(inline))
        number, total = where
        if descriptors:
            self._inbox[number] = Segment(number, descriptors[0], total, keep=False)
        segment = self._inbox[number]
        if length >= max(LARGE, total // 2):
            return kind, unpacked(envelope, places, streams, self._lent(segment, length))
        with memoryview(segment.memory) as memory, memory[:length] as part:
            own = owned(part)
        self._read.append(number)
        return kind, unpacked(envelope, places, streams, own)

    def _lent(self, segment: Segment, length: int) -> pa.Buffer:
        """The payload where it lies; its segment counts as read when nobody refers to it any more."""
        view = np.frombuffer(segment.memory, dtype=np.uint8, count=length)
        weakref.finalize(view, self._read.append, segment.number).atexit = False
        return pa.py_buffer(view)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
        self._outbox.close()
        for segment in self._inbox.values():
            segment.close()
        self._inbox.clear()

    def _exactly(self, size: int) -> bytes:
        pieces = bytearray(size)
        view = memoryview(pieces)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise Gone
            view = view[count:]
        return bytes(pieces)
