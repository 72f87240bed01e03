"""The content of a shard: the archive's bytes, whether they are stored as they are or compressed."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import zstandard

from zephon.abc import Shard, ShardContext
from zephon.errors import ShardError
from zephon_webdataset.failures import changed, corrupt, truncated

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: Magic of zstd's skippable frames (RFC 8878, 3.1.2) but for the low half of its first byte.
_SKIPPABLE: Final = b"\x2a\x4d\x18"
#: Stored bytes fetched at once from a compressed shard.
_CHUNK: Final = 8 << 20
#: Stored bytes handed to a decoder at once: bounds what a piece can grow to.
_FEED: Final = 1 << 16
#: Bytes fetched for a header: few where members are far apart, more and more where one window holds several.
_WINDOW_LEAST: Final = 1 << 12
_WINDOW_MOST: Final = 1 << 20
#: Elsewhere, a request takes as long as reading so many bytes: members that are smaller are read over, not skipped.
_REQUEST: Final = 1 << 20


def compression_of(head: bytes) -> str:
    """Which of "gzip", "zstd" and "" (none) it is, judged by the first bytes alone."""
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD) or (head[1:4] == _SKIPPABLE and head[0] & 0xF0 == 0x50):
        return "zstd"
    return ""


def decompressed_head(head: bytes) -> bytes:
    """As much of the content as the first bytes of a file give away; b"" where that is nothing."""
    compression = compression_of(head)
    if not compression:
        return head
    try:
        return bytes(_decoder(compression).decompress(head))
    except (zlib.error, zstandard.ZstdError):
        return b""


class Content(ABC):
    """Bytes of an archive by their place in it."""

    @abstractmethod
    def peek(self, start: int, stop: int) -> bytes:
        """Bytes ``start`` to ``stop``, fewer where the content ends; for headers, met in ascending order.

        Raises:
            ShardError: ``shard-corrupt``, ``shard-truncated``, ``shard-changed``.
        """

    @abstractmethod
    def fetch(self, ranges: Sequence[tuple[int, int]]) -> pa.Buffer:
        """The bytes of ascending half-open ranges, one after the other.

        Raises:
            ShardError: ``shard-changed``, ``shard-corrupt``, ``shard-truncated``.
        """


class PlainContent(Content):
    """Content stored as it is, read by ranges."""

    def __init__(self, shard: Shard, context: ShardContext, size: int) -> None:
        self._shard = shard
        self._context = context
        self._size = size
        self._window = b""
        self._base = 0
        self._step = _WINDOW_LEAST
        self._reach = _REQUEST if context.local_path(shard.url) is None else 0

    def peek(self, start: int, stop: int) -> bytes:
        """See :class:`Content`."""
        stop = min(stop, self._size)
        end = self._base + len(self._window)
        if start < self._base or stop > end:
            near = start <= end + max(self._step, self._reach)
            self._step = min(self._step * 4, _WINDOW_MOST) if near else _WINDOW_LEAST
            upto = min(self._size, max(stop, start + self._step))
            self._base = start
            self._window = self.fetch([(start, upto)]).to_pybytes() if upto > start else b""
        return self._window[start - self._base : max(start, stop) - self._base]

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> pa.Buffer:
        """See :class:`Content`."""
        try:
            buffers = self._context.read_ranges(self._shard.url, ranges)
        except EOFError as error:
            raise changed(self._shard.name, f"it ends before byte {ranges[-1][1]}") from error
        return buffers[0] if len(buffers) == 1 else pa.py_buffer(b"".join(buffers))


class CompressedContent(Content):
    """Compressed content, decompressed from its start through a cursor that only goes back where it must."""

    def __init__(self, shard: Shard, context: ShardContext, size: int, compression: str) -> None:
        self._shard = shard
        self._context = context
        self._size = size
        self._compression = compression
        self._pieces: Iterator[bytes] = iter(())
        #: Pieces under the cursor, and where the first of them begins in the content.
        self._held = bytearray()
        self._base = -1

    def peek(self, start: int, stop: int) -> bytes:
        """See :class:`Content`."""
        self._seek(start)
        while self._base + len(self._held) < stop:
            try:
                piece = next(self._pieces, None)
            except ShardError:
                self._base = -1  # a stream that failed is at no place; the next read begins anew
                raise
            if piece is None:
                break
            self._held += piece
            self._drop(start)
        return bytes(self._held[max(0, start - self._base) : max(0, stop - self._base)])

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> pa.Buffer:
        """See :class:`Content`."""
        parts = []
        for start, stop in ranges:
            part = self.peek(start, stop)
            if len(part) < stop - start:
                raise changed(self._shard.name, f"its content ends before byte {stop}")
            parts.append(part)
        return pa.py_buffer(parts[0] if len(parts) == 1 else b"".join(parts))

    def _seek(self, start: int) -> None:
        if start < self._base or self._base < 0:
            self._pieces = self._decompress()
            self._held = bytearray()
            self._base = 0
        self._drop(start)

    def _drop(self, start: int) -> None:
        """Let go of what lies before ``start``; a large move at once, not a small one each time."""
        done = min(start - self._base, len(self._held))
        if done > _FEED or done == len(self._held):
            del self._held[:done]
            self._base += done

    def _decompress(self) -> Iterator[bytes]:
        """Gzip members or zstd frames, one after the other, in pieces that are never empty."""
        position = member = 0
        decoder: Any = None
        for start in range(0, self._size, _CHUNK):
            for data in self._feeds(start):
                position += len(data)
                rest = data
                while rest:
                    if decoder is None:
                        # gzip files may be padded with zeros (gzip manual, "Tapes").
                        rest = rest.lstrip(b"\0") if self._compression == "gzip" else rest
                        if not rest:
                            break
                        member = position - len(rest)
                        decoder = _decoder(self._compression)
                    try:
                        piece = decoder.decompress(rest)
                    except (zlib.error, zstandard.ZstdError) as error:
                        raise corrupt(
                            self._shard.name,
                            f"{error}, in the {self._compression} member or frame at byte {member} of the file",
                        ) from error
                    if piece:
                        yield piece
                    rest, decoder = (decoder.unused_data, None) if decoder.eof else (b"", decoder)
        if decoder is not None:
            raise truncated(
                self._shard.name,
                f"the {self._compression} member or frame at byte {member} has no end; the file has {position} bytes",
            )

    def _feeds(self, start: int) -> Iterator[bytes]:
        stop = min(start + _CHUNK, self._size)
        try:
            chunk = self._context.read_ranges(self._shard.url, [(start, stop)])[0]
        except EOFError as error:
            raise changed(self._shard.name, f"it ends before byte {stop}") from error
        for offset in range(0, chunk.size, _FEED):
            yield chunk[offset : offset + _FEED].to_pybytes()


def open_content(shard: Shard, context: ShardContext, size: int, compression: str) -> Content:
    """The content of a shard of this compression."""
    if compression:
        return CompressedContent(shard, context, size, compression)
    return PlainContent(shard, context, size)


def _decoder(compression: str) -> Any:
    if compression == "gzip":
        return zlib.decompressobj(wbits=31)
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
