"""Where lines begin and end, for whole chunks of content at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon_jsonl import strict

#: Content is looked at in chunks of about this many bytes; a longer line makes a longer chunk.
CHUNK_BYTES: Final = 8 << 20
BOM: Final = b"\xef\xbb\xbf"

_NEWLINE: Final = 10
_IS_SPACE: Final = np.isin(np.arange(256), list(strict.SPACES))
#: Bytes looked at in one go, so that temporaries stay in the processor's cache.
_WINDOW: Final = 1 << 18
#: So few lines are looked at one by one.
_FEW: Final = 8
#: Spaces stripped from all lines together, before those that have more are stripped one by one.
_COMMON_SPACES: Final = 16


@attrs.frozen(slots=True)
class Chunk:
    """Consecutive rows: what lies between two line ends of the content.

    Attributes:
        data: the bytes, whole lines.
        base: offset of the first byte in the content.
        starts: int64 ``[n]``: first byte of each row's object, leading whitespace left out.
        stops: int64 ``[n]``: behind the last byte of each row that is no whitespace.
        suspect: bool ``[n]``: rows the block parser must not see; :mod:`zephon_jsonl.strict` judges them.
    """

    data: pa.Buffer
    base: int
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    suspect: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, row: int) -> bytes:
        """The bytes of one row, whitespace around it left out."""
        return self.data[int(self.starts[row]) : int(self.stops[row])].to_pybytes()

    def lines(self, start: int, stop: int) -> pa.Buffer:
        """Rows ``start:stop`` with what lies between them."""
        return self.data[int(self.starts[start]) : int(self.stops[stop - 1])]


def chunks(pieces: Iterable[pa.Buffer]) -> Iterator[Chunk]:
    """Cut content, given in pieces of any size, into chunks of whole lines; a line may span many pieces."""
    parts: list[pa.Buffer] = []
    breaks: list[npt.NDArray[np.int64]] = []
    base = size = 0
    for piece in pieces:
        breaks.append(_positions(np.frombuffer(piece, dtype=np.uint8), _NEWLINE) + size)
        parts.append(piece)
        size += piece.size
        if size < CHUNK_BYTES or not any(map(len, breaks)):
            continue
        data, newlines = _joined(parts), np.concatenate(breaks)
        cut = int(newlines[-1]) + 1
        yield _chunk(data[:cut], base, newlines)
        base, size = base + cut, size - cut
        parts, breaks = [data[cut:]], []
    if size:
        yield _chunk(_joined(parts), base, np.concatenate([*breaks, np.empty(0, dtype=np.int64)]))


def _chunk(data: pa.Buffer, base: int, newlines: npt.NDArray[np.int64]) -> Chunk:
    codes = np.frombuffer(data, dtype=np.uint8)
    first = len(BOM) if base == 0 and data[: len(BOM)].to_pybytes() == BOM else 0
    stops = newlines if len(newlines) and newlines[-1] == data.size - 1 else np.append(newlines, data.size)
    starts = np.append(first, stops[:-1] + 1)
    starts, stops = _stripped(data, codes, starts, stops)
    content = starts < stops
    starts, stops = starts[content], stops[content]
    return Chunk(data, base, starts, stops, _suspects(data, codes, starts, stops))


def _stripped(
    data: pa.Buffer, codes: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    starts, stops = starts.copy(), stops.copy()
    left = right = np.flatnonzero(starts < stops)
    for _ in range(_COMMON_SPACES):
        left = left[_IS_SPACE[codes[starts[left]]]]
        starts[left] += 1
        left = left[starts[left] < stops[left]]
        right = right[(starts[right] < stops[right]) & _IS_SPACE[codes[stops[right] - 1]]]
        stops[right] -= 1
    # Lines with longer margins are few, or the content is hardly data: one by one, at the speed of bytes.strip.
    for i in np.union1d(left, right):
        line = data[int(starts[i]) : int(stops[i])].to_pybytes()
        starts[i] += len(line) - len(line.lstrip(strict.SPACES))
        stops[i] = max(starts[i], stops[i] - (len(line) - len(line.rstrip(strict.SPACES))))
    return starts, stops


def _suspects(
    data: pa.Buffer, codes: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    suspect = stops - starts > strict.MAX_LINE
    suspect |= (codes[starts] != ord("{")) | (codes[stops - 1] != ord("}")) | ~_utf8(data, starts, stops)
    # "[" and "{" differ in one bit. A line with few of them cannot nest deeply; the others are measured one by one.
    opened = _positions(codes, ord("{"), 0x20)
    counts = np.searchsorted(opened, stops) - np.searchsorted(opened, starts)
    for i in np.flatnonzero(counts > strict.MAX_DEPTH):
        suspect[i] = suspect[i] or strict.too_deep(data[int(starts[i]) : int(stops[i])].to_pybytes())
    return suspect


def _utf8(data: pa.Buffer, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which lines are UTF-8: all of a run at once, and by halves where a run holds one that is not."""
    valid = np.ones(len(starts), dtype=bool)
    runs = [(0, len(starts))] if len(starts) else []
    while runs:
        start, stop = runs.pop()
        if is_utf8(data[int(starts[start]) : int(stops[stop - 1])]):
            continue
        if stop - start <= _FEW:
            for i in range(start, stop):
                valid[i] = is_utf8(data[int(starts[i]) : int(stops[i])])
        else:
            middle = (start + stop) // 2
            runs += [(start, middle), (middle, stop)]
    return valid


def is_utf8(text: pa.Buffer) -> bool:
    """Whether these bytes are UTF-8."""
    offsets = pa.py_buffer(np.array([0, text.size], dtype=np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, text]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _positions(codes: npt.NDArray[np.uint8], code: int, mask: int = 0) -> npt.NDArray[np.int64]:
    """Where ``codes | mask`` is ``code``."""
    found: list[npt.NDArray[Any]] = []
    for start in range(0, len(codes), _WINDOW):
        window = codes[start : start + _WINDOW]
        found.append(np.flatnonzero((window | mask if mask else window) == code) + start)
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _joined(parts: list[pa.Buffer]) -> pa.Buffer:
    return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))
