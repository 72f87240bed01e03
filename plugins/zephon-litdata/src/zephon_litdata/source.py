"""The bytes of rows, wherever they come from in a chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext
from zephon_litdata.errors import changed, corrupt
from zephon_litdata.layout import EACH, FRAMES, WHOLE, Layout, parse_offsets

#: A buffer, and where in it each row begins and ends.
Rows = tuple[pa.Buffer, npt.NDArray[np.int64], npt.NDArray[np.int64]]
#: An item in zstd of its own has to fit the 32-bit offsets of a chunk.
_MOST_BYTES: Final = 1 << 32


class Source(ABC):
    """Gives rows of one chunk.

    Args:
        shard: the chunk.
        layout: where things are.
        window: bytes of a row, for token streams cut into rows of one size; 0 for items as rows.
        context: where the file is.
    """

    def __init__(self, shard: Shard, layout: Layout, window: int, context: ShardContext) -> None:
        self._shard = shard
        self._layout = layout
        self._window = window
        self._context = context

    @abstractmethod
    def fetch(self, rows: npt.NDArray[np.int64]) -> Rows:
        """The bytes of rows."""

    @abstractmethod
    def ranges(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64 ``[n, 2]`` ranges of the file that fetching the rows reads."""

    def close(self) -> None:  # noqa: B027 - most sources keep nothing
        """Let go of what is kept."""

    def edges(
        self, rows: npt.NDArray[np.int64], offsets: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where rows begin and end, given where items do."""
        if self._window:
            starts = int(offsets[0]) + self._window * rows
            return starts, starts + self._window
        return offsets[rows].astype(np.int64), offsets[rows + 1].astype(np.int64)

    def read(self, spans: npt.NDArray[np.int64]) -> Sequence[pa.Buffer]:
        """Ranges of the file."""
        try:
            return self._context.read_ranges(self._shard.url, [(start, stop) for start, stop in spans.tolist()])
        except EOFError as error:
            raise changed(self._shard, f"it has fewer than the {self._layout.size} bytes it had") from error


class _Ranged(Source):
    """Only the bytes of the rows."""

    def fetch(self, rows: npt.NDArray[np.int64]) -> Rows:
        starts, stops = self.edges(rows, self._layout.offsets)
        spans = self.ranges(rows)
        data = _joined(self.read(spans))
        # Where each span begins in what was fetched, less where it begins in the file.
        shifts = np.cumsum(spans[:, 1] - spans[:, 0]) - spans[:, 1]
        span = np.searchsorted(spans[:, 0], starts, side="right") - 1
        return data, starts + shifts[span], stops + shifts[span]

    def ranges(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        starts, stops = self.edges(rows, self._layout.offsets)
        first = np.flatnonzero(np.append(True, np.diff(rows) != 1))
        last = np.append(first[1:], len(rows)) - 1
        return np.stack([starts[first], stops[last]], axis=1)


class _Each(_Ranged):
    """Items that are each compressed: one after the other, as zstd has to be told where each begins."""

    def fetch(self, rows: npt.NDArray[np.int64]) -> Rows:
        data, starts, stops = super().fetch(rows)
        items = [
            _inflate(self._shard, f"item {row}", data[start:stop], _MOST_BYTES)
            for row, start, stop in zip(rows.tolist(), starts.tolist(), stops.tolist(), strict=True)
        ]
        ends = np.cumsum([item.size for item in items])
        return _joined(items), np.concatenate([[0], ends[:-1]]), ends


class _Frames(Source):
    """Runs of items, compressed together."""

    def fetch(self, rows: npt.NDArray[np.int64]) -> Rows:
        which, firsts = self._which(rows), self._layout.frames[:, 0]
        offsets = self._layout.offsets.astype(np.int64)
        edges = offsets[np.append(firsts, self._layout.entry.items)]
        parts = [
            _inflate(self._shard, f"the frame of item {firsts[frame]}", stored, int(edges[frame + 1] - edges[frame]))
            for frame, stored in zip(which.tolist(), self.read(self._layout.frames[which, 1:]), strict=True)
        ]
        for frame, part in zip(which.tolist(), parts, strict=True):
            if part.size != edges[frame + 1] - edges[frame]:
                raise corrupt(self._shard, f"the frame of item {firsts[frame]} has other than its stated length")
        # Where each frame's content begins in what was fetched, less where it begins in that of the chunk.
        lengths = edges[which + 1] - edges[which]
        shifts = np.cumsum(lengths) - lengths - edges[which]
        place = np.searchsorted(which, np.searchsorted(firsts, rows, side="right") - 1)
        return _joined(parts), offsets[rows] + shifts[place], offsets[rows + 1] + shifts[place]

    def ranges(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return self._layout.frames[self._which(rows), 1:]

    def _which(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.unique(np.searchsorted(self._layout.frames[:, 0], rows, side="right") - 1)


class _Whole(Source):
    """The chunk, decompressed once."""

    _content: pa.Buffer | None = None
    _offsets: npt.NDArray[np.uint32]

    def fetch(self, rows: npt.NDArray[np.int64]) -> Rows:
        if self._content is None:
            entry = self._layout.entry
            stored = self._context.read_all(self._shard.url)
            if stored.size != self._layout.size:
                raise changed(self._shard, f"it has {stored.size} bytes and had {self._layout.size}")
            content = _inflate(self._shard, "it", stored, max(entry.possible_sizes()))
            if content.size not in entry.possible_sizes():
                raise corrupt(
                    self._shard, f"it decompresses to other than the {entry.stated_bytes} bytes of index.json"
                )
            end = content[-min(content.size, 16) :].to_pybytes() if content.size else b""
            self._offsets = parse_offsets(self._shard, entry, content, content.size, end)
            self._content = content
        starts, stops = self.edges(rows, self._offsets)
        if len(rows) and stops[-1] > self._offsets[-1]:
            raise corrupt(self._shard, f"its tokens end at byte {self._offsets[-1]}, before row {rows[-1]} does")
        return self._content, starts, stops

    def ranges(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.array([[0, self._layout.size]], dtype=np.int64)

    def close(self) -> None:
        self._content = None


_SOURCES: Final[dict[str, type[Source]]] = {WHOLE: _Whole, FRAMES: _Frames, EACH: _Each}


def source_of(shard: Shard, layout: Layout, window: int, context: ShardContext) -> Source:
    """The source for the variant of a chunk."""
    return _SOURCES.get(layout.kind, _Ranged)(shard, layout, window, context)


def _joined(buffers: Sequence[pa.Buffer]) -> pa.Buffer:
    return buffers[0] if len(buffers) == 1 else pa.py_buffer(b"".join(map(memoryview, buffers)))


def _inflate(shard: Shard, what: str, stored: pa.Buffer, limit: int) -> pa.Buffer:
    """At most one byte more than the limit: enough to tell that it is too much."""
    try:
        with pa.CompressedInputStream(pa.BufferReader(stored), "zstd") as stream:
            parts, size = [], 0
            # In steps, as what is announced may be far more than there is.
            while size <= limit and (part := stream.read_buffer(min(limit + 1 - size, 1 << 24))).size:
                parts.append(part)
                size += part.size
    except (OSError, pa.ArrowException) as error:
        raise corrupt(shard, f"zstd cannot decompress {what}: {error}") from error
    return _joined(parts) if parts else pa.py_buffer(b"")
