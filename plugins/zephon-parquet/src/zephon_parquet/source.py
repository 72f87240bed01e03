"""A file of which only the column chunks about to be decoded are in memory."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from zephon.abc import Shard, ShardContext
from zephon_parquet.footer import changed


class FetchedFile:
    """What ``pyarrow.PythonFile`` needs of a file: reads are served from fetched ranges, without a copy.

    Fetching all chunks of a call in one request, before decoding starts, keeps the storage's concurrency, and keeps its
    errors apart from those of decoding.
    """

    def __init__(self, shard: Shard, context: ShardContext) -> None:
        self._shard = shard
        self._size = shard.file.size
        self._context = context
        self._position = 0
        self._ranges: Sequence[tuple[int, int]] = ()
        self._buffers: Sequence[pa.Buffer] = ()
        self.closed = False

    @contextmanager
    def holding(self, ranges: Sequence[tuple[int, int]]) -> Iterator[None]:
        """Fetch ranges (sorted, apart) and hold them for the time of a ``with`` block.

        Raises:
            ShardError: ``shard-changed`` if the file ends before.
        """
        try:
            buffers = self._context.read_ranges(self._shard.url, ranges)
        except EOFError as error:
            raise changed(self._shard, f"it has fewer than the {self._shard.file.size} bytes it had") from error
        self._ranges, self._buffers = ranges, buffers
        try:
            yield
        finally:
            self._ranges, self._buffers = (), ()

    def read(self, count: int) -> pa.Buffer:
        """``count`` bytes at the current position, fewer at the end of the file."""
        start, stop = self._position, min(self._position + count, self._size)
        self._position = max(start, stop)
        if stop <= start:
            return pa.py_buffer(b"")
        place = bisect_right(self._ranges, (start, self._size)) - 1
        if place >= 0 and stop <= self._ranges[place][1]:
            return self._buffers[place].slice(start - self._ranges[place][0], stop - start)
        # Beyond the chunk: the decoder looks for headers that old writers did not count (PARQUET-816).
        return self._context.read_ranges(self._shard.url, [(start, stop)])[0]

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, as files do."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The current position."""
        return self._position

    def close(self) -> None:
        """Nothing is open."""
        self.closed = True

    def readable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """No."""
        return False

    def seekable(self) -> bool:
        """Yes."""
        return True
