"""The content of a shard: the file's bytes, or what they decompress to."""

from __future__ import annotations

import os
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
_COALESCE: Final = 1 << 17


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
    gap: int = _COALESCE

    @abstractmethod
    def fetch(self, ranges: Sequence[tuple[int, int]]) -> pa.Buffer:
        """The bytes of half-open, increasing ranges of the content, one after the other.

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

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> pa.Buffer:
        """See :class:`Content`."""
        buffers = self._file.read(ranges)
        return buffers[0] if len(buffers) == 1 else pa.py_buffer(b"".join(buffers))

    def stored_ranges(self, ranges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See :class:`Content`."""
        return ranges


class LocalContent(PlainContent):
    """Content stored as it is on this machine's disk, read straight into one buffer.

    Not mapped: rows from all over a file would fault in the pages around each of them, which takes longer than reading
    them, stay in the resident set until the shard is closed, and kill the process if the file has become shorter.
    """

    #: A system call costs as much as copying some kilobytes.
    gap = 1 << 12

    def __init__(self, file: StoredFile, path: str) -> None:
        super().__init__(file)
        self._path = path

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> pa.Buffer:
        """See :class:`Content`."""
        buffer = pa.allocate_buffer(sum(stop - start for start, stop in ranges))
        view = memoryview(buffer)
        with open(self._path, "rb", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size != self._file.size:
                raise changed(self._file.shard, f"{size} bytes, {self._file.size} when it was indexed")
            for start, stop in ranges:  # one by one, as system calls are
                file.seek(start)
                end = stop - start
                while end > 0:
                    read = file.readinto(view[:end])
                    if not read:
                        raise changed(self._file.shard, f"it ends before byte {stop}")
                    view, end = view[read:], end - read
        return buffer


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

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> pa.Buffer:
        """See :class:`Content`."""
        return pa.py_buffer(b"".join(part for start, stop in ranges for part in self._parts(start, stop)))

    def _parts(self, start: int, stop: int) -> Iterator[memoryview]:
        self._seek(start)
        while start < stop:
            end = self._base + len(self._piece)
            if start < end:
                part = memoryview(self._piece)[start - self._base : stop - self._base]
                start += len(part)
                yield part
            else:
                self._base, self._piece = end, self._next()

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
    return PlainContent(file) if path is None else LocalContent(file, path)
