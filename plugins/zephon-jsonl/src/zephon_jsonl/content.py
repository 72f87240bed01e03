"""The content of a shard: the file's bytes, or what they decompress to."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard
from zephon.abc import Shard, ShardContext
from zephon.errors import ShardError

from zephon_jsonl.layout import Layout
from zephon_jsonl.lines import CHUNK_BYTES

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: Magic of zstd's skippable frames (RFC 8878, 3.1.2) but for the low half of its first byte; pzstd begins with one.
_SKIPPABLE: Final = b"\x2a\x4d\x18"
#: What is sometimes called .jsonl and holds no lines of text.
_STRANGERS: Final = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\xfd7zXZ": "xz-compressed",
    b"BZh": "bzip2-compressed",
    b"\x04\x22\x4d\x18": "lz4-compressed",
    b"PK\x03\x04": "a zip archive",
    b"\xff\xfe": "UTF-16 or UTF-32 text",
    b"\xfe\xff": "UTF-16 text",
}
#: Stored bytes handed to a decoder at once: bounds what a chunk can grow to.
_FEED: Final = 1 << 16
#: Neighbouring ranges with less than this between them are worth fetching as one.
COALESCE_BYTES: Final = 1 << 17


def compression_of(head: bytes) -> str:
    """Which of "gzip", "zstd" and "" (none) it is, judged by the first bytes alone."""
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD) or (head[1:4] == _SKIPPABLE and head[0] & 0xF0 == 0x50):
        return "zstd"
    return ""


def stranger(head: bytes) -> str:
    """What these first bytes are if surely no JSON Lines; "" otherwise."""
    return next((what for magic, what in _STRANGERS.items() if head.startswith(magic)), "")


def decompressed_head(head: bytes) -> bytes:
    """As much of the content as the first bytes of a file give away; b"" where that is nothing."""
    compression = compression_of(head)
    if not compression:
        return head
    try:
        return bytes(_decoder(compression).decompress(head))
    except (zlib.error, zstandard.ZstdError):
        return b""


@attrs.frozen(slots=True)
class StoredFile:
    """The file as it is stored."""

    shard: Shard
    context: ShardContext
    size: int

    def read(self, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """Half-open ranges of stored bytes.

        Raises:
            ShardError: ``shard-changed``, the file has become shorter.
        """
        try:
            return self.context.read_ranges(self.shard.url, ranges)
        except EOFError as error:
            raise changed(self.shard, f"it ends before byte {max(stop for _, stop in ranges)}") from error

    def chunks(self, start: int = 0, edges: Iterable[int] = ()) -> Iterator[pa.Buffer]:
        """The bytes from ``start`` to the end, in order; no chunk reaches over one of the increasing ``edges``."""
        following = (edge for edge in edges if edge > start)
        edge = next(following, self.size)
        while start < self.size:
            stop = min(start + CHUNK_BYTES, edge)
            edge = next(following, self.size) if stop == edge else edge
            yield self.read([(start, stop)])[0]
            start = stop


def decompress(
    file: StoredFile, compression: str, stored: Iterable[pa.Buffer], start: int
) -> Iterator[tuple[int, bytes]]:
    """Decompress gzip members or zstd frames, one after the other.

    Args:
        file: what the bytes are from, for messages.
        compression: "gzip" or "zstd".
        stored: the bytes from ``start``, where a member or frame begins.
        start: offset of the first of them.

    Yields:
        ``(stored offset at which the member begins, content)``, never empty content.

    Raises:
        ShardError: ``shard-corrupt``; ``shard-truncated`` for a last member that does not end.
    """
    position = member = start
    decoder: Any = None
    for chunk in stored:
        for offset in range(0, chunk.size, _FEED):
            data = chunk[offset : offset + _FEED].to_pybytes()
            position += len(data)
            while data:
                if decoder is None:
                    # gzip files may be padded with zeros (gzip manual, "Tapes").
                    data = data.lstrip(b"\0") if compression == "gzip" else data
                    if not data:
                        break
                    member = position - len(data)
                    decoder = _decoder(compression)
                try:
                    content = decoder.decompress(data)
                except (zlib.error, zstandard.ZstdError) as error:
                    raise ShardError(
                        f"{file.shard.name} is not sound {compression}",
                        found=f"{error}, in the member or frame at byte {member} of the file",
                        fix="fetch or write the file anew",
                        code="shard-corrupt",
                    ) from error
                if content:
                    yield member, content
                data, decoder = (decoder.unused_data, None) if decoder.eof else (b"", decoder)
    if decoder is not None:
        raise ShardError(
            f"{file.shard.name} ends too early",
            found=f"the {compression} member or frame at byte {member} has no end; the file has {position} bytes",
            fix="fetch or write the file anew",
            code="shard-truncated",
        )


def _decoder(compression: str) -> Any:
    if compression == "gzip":
        return zlib.decompressobj(wbits=31)
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


def changed(shard: Shard, found: str) -> ShardError:
    """The shard is not what its index says."""
    return ShardError(
        f"{shard.name} has changed since it was indexed",
        found=found,
        fix="index the dataset anew, or restore the file that was indexed",
        code="shard-changed",
    )


class Content(ABC):
    """Random access to the content of an indexed shard."""

    #: Ranges with at most so many bytes between them are asked for as one.
    gap: int = COALESCE_BYTES

    @abstractmethod
    def fetch(self, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """Half-open, increasing ranges of the content.

        Raises:
            ShardError: ``shard-changed``, ``shard-corrupt``, ``shard-truncated``.
        """

    @abstractmethod
    def stored_ranges(self, ranges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64 ``[n, 2]``, the stored bytes :meth:`fetch` reads for ranges of the content."""

    def close(self) -> None:  # noqa: B027 - plain content holds nothing
        """Let go of what is held."""


class PlainContent(Content):
    """Content stored as it is, read by ranges."""

    def __init__(self, file: StoredFile) -> None:
        self._file = file

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """See :class:`Content`."""
        return self._file.read(ranges)

    def stored_ranges(self, ranges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See :class:`Content`."""
        return ranges


class MappedContent(PlainContent):
    """Content stored as it is on this machine's disk: slices of a memory map.

    The file is mapped anew for every read. That costs some 20 microseconds and keeps its pages out of the resident set
    between reads; and the length of the map is the file's own, so that nothing behind its end is ever touched, which
    would kill the process.
    """

    gap = 1 << 62

    def __init__(self, file: StoredFile, path: str) -> None:
        super().__init__(file)
        self._path = path

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """See :class:`Content`."""
        with pa.memory_map(self._path) as file:
            whole = file.read_buffer()
        if whole.size != self._file.size:
            raise changed(self._file.shard, f"{whole.size} bytes, {self._file.size} when it was indexed")
        return [whole[start:stop] for start, stop in ranges]


class CompressedContent(Content):
    """Compressed content, read through a cursor that only goes back where it must."""

    gap = CHUNK_BYTES

    def __init__(self, file: StoredFile, layout: Layout) -> None:
        self._file = file
        self._layout = layout
        self._pieces: Iterator[tuple[int, bytes]] = iter(())
        #: The piece under the cursor and where it begins in the content.
        self._piece = b""
        self._base = -1

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """See :class:`Content`."""
        return [self._one(start, stop) for start, stop in ranges]

    def _one(self, start: int, stop: int) -> pa.Buffer:
        self._seek(start)
        parts = []
        while start < stop:
            end = self._base + len(self._piece)
            if start < end:
                parts.append(self._piece[start - self._base : stop - self._base])
                start += len(parts[-1])
            else:
                self._base, self._piece = end, self._next()
        return pa.py_buffer(b"".join(parts))

    def _seek(self, start: int) -> None:
        restart = int(np.searchsorted(self._layout.restart_content, start, side="right")) - 1
        content = int(self._layout.restart_content[restart])
        if self._base <= start and content <= self._base + len(self._piece) and self._base >= 0:
            return
        stored = int(self._layout.restart_stored[restart])
        chunks = self._file.chunks(stored, self._layout.restart_stored[restart:].tolist())
        self._pieces = decompress(self._file, self._layout.compression, chunks, stored)
        self._base, self._piece = content, b""

    def _next(self) -> bytes:
        try:
            for _, piece in self._pieces:
                return piece
        except BaseException:
            self._base = -1  # a generator that has raised is at its end: begin anew
            raise
        raise changed(self._file.shard, f"its content ends before byte {int(self._layout.offsets[-1])}")

    def stored_ranges(self, ranges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See :class:`Content`."""
        layout = self._layout
        first = np.searchsorted(layout.restart_content, ranges[:, 0], side="right") - 1
        last = np.searchsorted(layout.restart_content, ranges[:, 1], side="left")
        ends = np.append(layout.restart_stored, layout.size)
        return np.stack([layout.restart_stored[first], ends[last]], axis=1)

    def close(self) -> None:
        """See :class:`Content`."""
        self._pieces, self._piece, self._base = iter(()), b"", -1


def open_content(shard: Shard, layout: Layout, context: ShardContext) -> Content:
    """The content of an indexed shard; nothing is read yet."""
    file = StoredFile(shard, context, layout.size)
    if layout.compression:
        return CompressedContent(file, layout)
    path = context.local_path(shard.url)
    return PlainContent(file) if path is None else MappedContent(file, path)
