"""Finding the messages of a shard: from the footer of a file, or from one message to the next in a stream.

See https://arrow.apache.org/docs/format/Columnar.html, "IPC Streaming Format" and "IPC File Format".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from zephon.abc import Shard, ShardContext
from zephon_arrow.errors import changed, corrupt, truncated, unsupported
from zephon_arrow.flat import DICTIONARY, RECORDS, SCHEMA, FlatError, footer_blocks, message_facts
from zephon_arrow.layout import Layout, Message, digest

MAGIC: Final = b"ARROW1"
FEATHER_V1: Final = b"FEA1"
_CONTINUATION: Final = b"\xff\xff\xff\xff"
#: In a file the magic is padded to 8 bytes; then comes the schema, as in a stream.
_FIRST_MESSAGE: Final = 8
#: Read at once: holds most footers, and the metadata of small messages together with what follows them.
_WINDOW: Final = 1 << 16
#: Heads of messages asked for in one request.
_TOGETHER: Final = 512


def read_layout(shard: Shard, context: ShardContext) -> Layout:
    """Find every message, reading no body.

    Raises:
        ShardError: ``shard-corrupt``, ``shard-truncated``, ``shard-unsupported``.
    """
    indexing = _Indexing(shard, context)
    layout = Layout(messages=tuple(indexing.messages()))
    if not layout.messages:
        raise truncated(shard, "no schema")
    if layout.schema.kind != SCHEMA or any(m.kind == SCHEMA for m in layout.messages[1:]):
        raise corrupt(shard, "there is not one schema, before all else")
    return layout


class _Indexing:
    def __init__(self, shard: Shard, context: ShardContext) -> None:
        self._shard = shard
        self._context = context
        self._size = context.size(shard.url)
        self._window: tuple[int, pa.Buffer] = (0, pa.py_buffer(b""))

    def messages(self) -> Iterator[Message]:
        head = self._bytes(0, min(8, self._size))
        if head.startswith(FEATHER_V1):
            raise unsupported(
                self._shard,
                "Feather version 1, which Arrow has given up",
                "write it again: pyarrow.feather.write_feather(pyarrow.feather.read_table(path), path)",
            )
        if self._size < 8:
            raise truncated(self._shard, f"{self._size} bytes")
        if head.startswith(MAGIC):
            yield from self._of_file()
        else:
            yield from self._of_stream()

    def _of_file(self) -> Iterator[Message]:
        tail = len(MAGIC) + 4
        end = self._size - tail
        if end < _FIRST_MESSAGE or self._bytes(self._size - len(MAGIC), self._size) != MAGIC:
            raise truncated(self._shard, f"{self._size} bytes that begin with {MAGIC!r} and do not end with it")
        length = int.from_bytes(self._bytes(end, end + 4), "little", signed=True)
        start = end - length
        if length <= 0 or start < _FIRST_MESSAGE:
            raise corrupt(self._shard, f"a footer of {length} bytes is announced in a file of {self._size}")
        try:
            dictionaries, batches = footer_blocks(self._bytes(start, end))
        except FlatError as error:
            raise corrupt(self._shard, f"its footer, at byte {start}: {error}") from error
        first = self._message(_FIRST_MESSAGE, start)
        if first is None:
            raise corrupt(self._shard, f"no schema at byte {_FIRST_MESSAGE}")
        yield first
        blocks = [(block, DICTIONARY) for block in dictionaries] + [(block, RECORDS) for block in batches]
        for block, _ in blocks:
            if block[0] < first.stop or min(block[1:]) < 0 or sum(block) > start or block[1] < 8:
                raise corrupt(self._shard, f"its footer names a message at bytes {block[0]} to {sum(block)}")
        for i in range(0, len(blocks), _TOGETHER):
            some = blocks[i : i + _TOGETHER]
            heads = self._read([(block[0], block[0] + block[1]) for block, _ in some])
            for (block, kind), head in zip(some, heads, strict=True):
                message = self._parse(block[0], head.to_pybytes())
                if (message.kind, message.body) != (kind, block[2]):
                    raise corrupt(self._shard, f"the message at byte {block[0]} is not what the footer says")
                yield message

    def _of_stream(self) -> Iterator[Message]:
        place = 0
        while place < self._size:
            message = self._message(place, self._size)
            if message is None:
                return
            yield message
            place = message.stop

    def _message(self, start: int, limit: int) -> Message | None:
        """The message at a place; None where the stream says that it ends here."""
        prefix = self._bytes(start, min(start + 8, limit))
        if len(prefix) < 4:
            raise truncated(self._shard, f"{len(prefix)} bytes of a message, at byte {start}")
        # Before version 0.15 a message began with its length alone.
        modern = prefix.startswith(_CONTINUATION)
        if modern and len(prefix) < 8:
            raise truncated(self._shard, f"{len(prefix)} bytes of a message, at byte {start}")
        length = int.from_bytes(prefix[4:8] if modern else prefix[:4], "little", signed=True)
        if length == 0:
            return None
        head = (8 if modern else 4) + length
        if length < 0:
            raise corrupt(self._shard, f"metadata of {length} bytes are announced at byte {start}")
        if start + head > limit:
            raise truncated(self._shard, f"metadata of {length} bytes are announced at byte {start} of {self._size}")
        message = self._parse(start, self._bytes(start, start + head))
        if message.stop > limit:
            raise truncated(self._shard, f"the message at byte {start} has {message.body} bytes; {self._size} in all")
        return message

    def _parse(self, start: int, head: bytes) -> Message:
        prefix = 8 if head.startswith(_CONTINUATION) else 4
        if int.from_bytes(head[prefix - 4 : prefix], "little", signed=True) + prefix != len(head):
            raise corrupt(self._shard, f"the message at byte {start} is not as long as the footer says")
        try:
            facts = message_facts(head[prefix:])
        except FlatError as error:
            raise corrupt(self._shard, f"the message at byte {start}: {error}") from error
        return Message(
            kind=facts.kind,
            start=start,
            head=len(head),
            body=facts.body,
            rows=facts.rows if facts.kind == RECORDS else 0,
            dictionary=facts.dictionary,
            is_delta=facts.is_delta,
            digest=digest(head),
            bytes=head,
        )

    def _bytes(self, start: int, stop: int) -> bytes:
        """A few bytes, from a window that is read at once: towards the end near the end, else onwards."""
        base, window = self._window
        if not base <= start <= stop <= base + window.size:
            base = max(0, stop - _WINDOW) if stop > self._size - len(MAGIC) - 4 else start
            (window,) = self._read([(base, max(stop, min(base + _WINDOW, self._size)))])
            self._window = base, window
        return bytes(window[start - base : stop - base])

    def _read(self, ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        try:
            return list(self._context.read_ranges(self._shard.url, ranges))
        except EOFError as error:
            raise changed(self._shard, f"it has fewer than the {self._size} bytes it had") from error
