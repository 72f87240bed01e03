"""The content of a shard as UTF-8: the file's bytes by range, or what the whole file decompresses and decodes to."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

from zephon.abc import Shard, ShardContext
from zephon.errors import ShardError
from zephon_csv.errors import changed

BOM: Final = codecs.BOM_UTF8
#: Content looked at in one go.
CHUNK_BYTES: Final = 8 << 20
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: Ranges with at most so many bytes between them are fetched as one: on disk, and elsewhere.
_NEAR: Final = 1 << 12
_FAR: Final = 1 << 17
_UTF8: Final = frozenset({"utf-8", "utf-8-sig", "ascii"})


def valid_encoding(_: Any, attribute: Any, value: str) -> None:
    """Refuse an encoding that Python does not know."""
    try:
        codecs.lookup(value)
    except LookupError:
        raise ValueError(f"{attribute.name}={value!r} is no encoding that Python knows") from None


def decompressed_head(head: bytes) -> bytes:
    """As much of the content as the first bytes of a file give away; b"" where that is nothing."""
    compression = _compression(head)
    if not compression:
        return head
    try:
        return bytes(_decoder(compression).decompress(head))
    except (zlib.error, zstandard.ZstdError):
        return b""


@attrs.define(slots=True)
class Content:
    """The content of one shard.

    Attributes:
        shard: the shard.
        context: where it is.
        encoding: of the text.
        whole: the content, where it cannot be read by range: compressed, or not UTF-8. None where it can, or where
            it has not been looked at.
    """

    shard: Shard
    context: ShardContext
    encoding: str
    whole: bytes | None = None

    def examine(self) -> bool:
        """Read what cannot be read by range.

        Returns:
            Whether that is so.

        Raises:
            ShardError: ``shard-corrupt``, ``shard-truncated``.
        """
        size = self.context.size(self.shard.url)
        head = self._fetch([(0, min(4, size))])[0].to_pybytes()
        if not _compression(head) and codecs.lookup(self.encoding).name in _UTF8:
            return False
        self.load()
        return True

    def load(self) -> bytes:
        """The whole content, read once."""
        if self.whole is None:
            data = b"".join(self._chunks())
            if _compression(data):
                data = self._decompress(data, _compression(data))
            if codecs.lookup(self.encoding).name not in _UTF8:
                try:
                    data = data.decode(self.encoding).encode()
                except UnicodeError as error:
                    raise ShardError(
                        f"{self.shard.name} is not text in {self.encoding}",
                        found=str(error),
                        fix="say the encoding it is in: format_options={'encoding': ...}",
                        code="shard-corrupt",
                    ) from error
            self.whole = data
        return self.whole

    def chunks(self) -> Iterator[bytes]:
        """All of the content, in order."""
        if self.whole is not None:
            for start in range(0, len(self.whole), CHUNK_BYTES):
                yield self.whole[start : start + CHUNK_BYTES]
            return
        yield from self._chunks()

    def begin(self) -> int:
        """Where the text begins: after a byte order mark, if there is one."""
        if self.whole is not None:
            head = self.whole[: len(BOM)]
        else:
            head = self._fetch([(0, min(len(BOM), self.context.size(self.shard.url)))])[0].to_pybytes()
        return len(BOM) if head == BOM else 0

    def spans(
        self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """What to fetch together: where each group begins, and int64 ``[n, 2]`` ranges of the content."""
        near = _FAR if self.context.local_path(self.shard.url) is None else _NEAR
        groups = np.append(0, np.flatnonzero(starts[1:] - stops[:-1] > near) + 1)
        return groups, np.stack([starts[groups], stops[np.append(groups[1:], len(starts)) - 1]], axis=1)

    def pieces(self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> pa.Array:
        """Pieces of the content.

        Args:
            starts: int64 ``[n]``, n > 0, increasing.
            stops: int64 ``[n]``, none of them beyond the next start.

        Returns:
            large_binary ``[n]``.

        Raises:
            ShardError: ``shard-changed``.
        """
        if self.whole is not None:
            if int(stops[-1]) > len(self.whole):
                raise changed(self.shard, f"its content ends before byte {stops[-1]}")
            data, shifts = pa.py_buffer(self.whole), np.zeros(len(starts), dtype=np.int64)
        else:
            groups, spans = self.spans(starts, stops)
            fetched = self._fetch([(start, stop) for start, stop in spans.tolist()])
            data = fetched[0] if len(fetched) == 1 else pa.py_buffer(b"".join(fetched))
            lengths = spans[:, 1] - spans[:, 0]
            shifts = np.repeat(np.cumsum(lengths) - spans[:, 1], np.diff(np.append(groups, len(starts))))
        # Every other entry of (start, stop, start, stop, ...) is a piece; those between are gaps.
        edges = np.stack([starts + shifts, stops + shifts], axis=1).astype(np.int64)
        array = pa.Array.from_buffers(pa.large_binary(), 2 * len(starts) - 1, [None, pa.py_buffer(edges), data])
        return array.take(pa.array(np.arange(0, 2 * len(starts), 2)))

    def _chunks(self) -> Iterator[bytes]:
        size = self.context.size(self.shard.url)
        for start in range(0, size, CHUNK_BYTES):
            yield self._fetch([(start, min(start + CHUNK_BYTES, size))])[0].to_pybytes()

    def _fetch(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        # Of a file on this disk the size is asked for nothing.
        if self.context.local_path(self.shard.url) is not None:
            size = self.context.size(self.shard.url)
            if size != self.shard.file.size:
                raise changed(self.shard, f"{size} bytes, {self.shard.file.size} when it was listed")
        try:
            return list(self.context.read_ranges(self.shard.url, ranges))
        except EOFError as error:
            raise changed(self.shard, f"it ends before byte {max(stop for _, stop in ranges)}") from error

    def _decompress(self, data: bytes, compression: str) -> bytes:
        """Gzip members or zstd frames, one after the other."""
        parts = []
        place = 0
        rest = data
        while rest:
            decoder = _decoder(compression)
            place = len(data) - len(rest)
            try:
                parts.append(decoder.decompress(rest))
            except (zlib.error, zstandard.ZstdError) as error:
                raise ShardError(
                    f"{self.shard.name} is not sound {compression}",
                    found=f"{error}, in the member or frame at byte {place} of the file",
                    fix="fetch or write the file anew",
                    code="shard-corrupt",
                ) from error
            if not decoder.eof:
                raise ShardError(
                    f"{self.shard.name} ends too early",
                    found=f"the {compression} member or frame at byte {place} has no end; {len(data)} bytes in all",
                    fix="fetch or write the file anew",
                    code="shard-truncated",
                )
            # gzip files may be padded with zeros (gzip manual, "Tapes").
            rest = decoder.unused_data.lstrip(b"\0") if compression == "gzip" else decoder.unused_data
        return b"".join(parts)


def _compression(head: bytes) -> str:
    if head.startswith(_GZIP):
        return "gzip"
    return "zstd" if head.startswith(_ZSTD) else ""


def _decoder(compression: str) -> Any:
    if compression == "gzip":
        return zlib.decompressobj(wbits=31)
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
