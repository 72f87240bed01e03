"""Tokens by their place in a shard: mapped where the file is on this machine, read by range elsewhere."""

from __future__ import annotations

import mmap
import os
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from zephon.abc import Shard, ShardContext
from zephon_megatron.failures import changed
from zephon_megatron.layout import Layout

#: Rows with at most so many bytes between them are fetched together.
_GAP: Final = 1 << 12


class Tokens:
    """The tokens of one shard, as they are stored."""

    def __init__(self, shard: Shard, layout: Layout, context: ShardContext) -> None:
        self._shard = shard
        self._layout = layout
        self._context = context
        self._dtype = np.dtype(layout.dtype)
        self._mapped: npt.NDArray[Any] | None = None

    def gather(self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """A copy of the tokens of ascending spans, one span after the other; spans may overlap.

        A copy, not a view of the map: batches then stay what they are whatever becomes of the file, and keep no more
        memory than their own.

        Raises:
            ShardError: ``shard-changed``.
        """
        starts, stops = _not_empty(starts, stops)
        native = self._dtype.newbyteorder("=")
        if not len(starts):
            return np.empty(0, dtype=native)
        path = self._context.local_path(self._shard.url)
        if path is None:
            stored, shifts = self._fetch(starts, stops)
            starts, stops = starts - shifts, stops - shifts
        else:
            stored = self._map(path)
        # Run by run, as copying is: rows that follow each other are one run, and a run is some kilobytes.
        first = np.append(0, np.flatnonzero(starts[1:] != stops[:-1]) + 1)
        last = np.append(first[1:], len(starts)) - 1
        runs = zip(starts[first].tolist(), stops[last].tolist(), strict=True)
        parts = [stored[start:stop] for start, stop in runs]
        return parts[0].astype(native) if len(parts) == 1 else np.concatenate(parts, dtype=native)

    def ranges(self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64 ``[n, 2]``, the bytes :meth:`gather` reads."""
        spans = self._together(*_not_empty(starts, stops))[1]
        return spans * self._dtype.itemsize + self._layout.data

    def close(self) -> None:
        """Unmap the file."""
        self._mapped = None

    def _map(self, path: str) -> npt.NDArray[Any]:
        layout = self._layout
        # A map of a file that became shorter kills the process that reads it.
        size = os.stat(path).st_size
        if size != layout.size:
            raise changed(self._shard.name, f"{size} bytes, {layout.size} when it was indexed")
        if self._mapped is None:
            with open(path, "rb") as file:
                whole = mmap.mmap(file.fileno(), layout.size, access=mmap.ACCESS_READ)
            self._mapped = np.frombuffer(whole, self._dtype, layout.tokens, layout.data)
        return self._mapped

    def _fetch(
        self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Tokens from elsewhere, and how far before its place in the file each row lies in them."""
        groups, spans = self._together(starts, stops)
        ranges = [(start, stop) for start, stop in (spans * self._dtype.itemsize + self._layout.data).tolist()]
        try:
            buffers = self._context.read_ranges(self._shard.url, ranges)
        except EOFError as error:
            raise changed(self._shard.name, f"it ends before byte {ranges[-1][1]}") from error
        widths = spans[:, 1] - spans[:, 0]
        shifts = np.repeat(spans[:, 0] - (np.cumsum(widths) - widths), np.diff(np.append(groups, len(starts))))
        return np.frombuffer(buffers[0] if len(buffers) == 1 else b"".join(buffers), self._dtype), shifts

    def _together(
        self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows to fetch together: where each group begins, and int64 ``[n, 2]`` tokens."""
        if not len(starts):
            return np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.int64)
        gap = _GAP // self._dtype.itemsize
        groups = np.append(0, np.flatnonzero(starts[1:] - stops[:-1] > gap) + 1)
        return groups, np.stack([starts[groups], stops[np.append(groups[1:], len(starts)) - 1]], axis=1)


def _not_empty(
    starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    some = stops > starts
    return starts[some], stops[some]
