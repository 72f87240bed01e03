"""Bytes of messages: mapped where the file is on this machine's disk, fetched by range elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext
from zephon_arrow.errors import changed
from zephon_arrow.flat import MessageFacts, message_facts
from zephon_arrow.layout import Message, digest

#: Buffers with at most so many bytes between them are fetched as one.
_GAP: Final = 4096


class Bytes:
    """The file of one shard."""

    def __init__(self, shard: Shard, context: ShardContext) -> None:
        self._shard = shard
        self._context = context
        self._path = context.local_path(shard.url)
        self._mapped: pa.Buffer | None = None

    @property
    def is_mapped(self) -> bool:
        """Whether reading costs no copy."""
        return self._path is not None

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Half-open ranges of the file.

        Raises:
            ShardError: ``shard-changed``, the file has become shorter, or is of another size.
        """
        if self._path is not None:
            whole = self._map(self._path)
            return [whole.slice(start, stop - start) for start, stop in ranges]
        try:
            return list(self._context.read_ranges(self._shard.url, ranges))
        except EOFError as error:
            raise changed(self._shard, f"it ends before byte {max(stop for _, stop in ranges)}") from error

    def close(self) -> None:
        """Let go of the file; batches that were read keep what they need."""
        self._mapped = None

    def _map(self, path: str) -> pa.Buffer:
        size = os.stat(path).st_size
        if size != self._shard.file.size:
            # Also of a file already mapped: touching pages beyond its new end would kill the process.
            raise changed(self._shard, f"{size} bytes, {self._shard.file.size} when it was indexed")
        if self._mapped is None:
            with pa.memory_map(path) as file:
                self._mapped = file.read_buffer()
        return self._mapped


def check_head(shard: Shard, message: Message, head: pa.Buffer) -> None:
    """Whether a message's metadata are those that were indexed.

    Raises:
        ShardError: ``shard-changed``.
    """
    if digest(head) != message.digest:
        raise changed(shard, f"the message at byte {message.start} is another one")


def facts_of(message: Message) -> MessageFacts | None:
    """What the index knows of a message's buffers, if it does."""
    if message.bytes is None:
        return None
    return message_facts(message.bytes[_prefix(message.bytes) :])


def needed(message: Message, buffers: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int64]:
    """int64 ``[n, 2]``: the ranges of a message's file that hold its head and some of its buffers.

    Args:
        message: a record batch.
        buffers: bool ``[buffers]``, which of them are wanted; None for the whole body.
    """
    facts = None if buffers is None else facts_of(message)
    if facts is None or buffers is None or len(facts.buffers) != len(buffers):
        return np.array([[message.start, message.stop]])
    body = message.start + message.head
    wanted = facts.buffers[buffers & (facts.buffers[:, 1] > 0)]
    wanted = wanted[np.argsort(wanted[:, 0], kind="stable")]
    starts = np.append(message.start, body + wanted[:, 0])
    stops = np.maximum.accumulate(np.append(body, body + wanted.sum(axis=1)))
    fresh = np.flatnonzero(np.append(True, starts[1:] - stops[:-1] > _GAP))
    return np.stack([starts[fresh], np.append(stops[fresh[1:] - 1], stops[-1])], axis=1).astype(np.int64)


def assemble(message: Message, ranges: Iterable[tuple[int, int]], fetched: Sequence[pa.Buffer]) -> list[pa.Buffer]:
    """A message of which only some ranges were fetched: head and body, the rest of the body being anything."""
    ranges = list(ranges)
    if len(ranges) == 1 and ranges[0] == (message.start, message.stop):
        return [fetched[0].slice(0, message.head), fetched[0].slice(message.head)]
    body = pa.allocate_buffer(message.body)
    view = memoryview(body)
    offset = message.start + message.head
    for (start, stop), buffer in zip(ranges, fetched, strict=True):
        begin = max(start, offset)
        view[begin - offset : stop - offset] = memoryview(buffer)[begin - start :]
    return [fetched[0].slice(0, message.head), body]


def _prefix(head: bytes) -> int:
    return 8 if head.startswith(b"\xff\xff\xff\xff") else 4
