"""``first_fit``, ``best_fit``, ``best_fit_wrap``: online bin packing with a bounded number of open bins.

J. Csirik and D. S. Johnson, "Bounded space on-line bin packing: best is better than first", Algorithmica 31 (2001):
a packing rule says which open bin takes a piece, a closing rule which bin leaves when none can. Closing the fullest
bin beats closing the oldest one under either packing rule, so that is the closing rule of both. A bin that is exactly
full leaves at once, and a piece of the full length never enters a bin: it is a row.

The loops go piece by piece in Python because each placement depends on the one before. They touch nothing but small
integers and short lists: no array, no token.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from zephon_pack.placement import OpenRow, Placed, Placement, as_ids

Int64Array = npt.NDArray[np.int64]

# A bin of best_fit is one integer, ``room << _ID_BITS | id of its first piece``: bins sort by room, then by age.
_ID_BITS: Final = 48
_ID_MASK: Final = (1 << _ID_BITS) - 1


class FirstFit(Placement):
    """A piece goes into the oldest bin with room for it.

    If there is none and ``num_bins`` bins are open, the fullest leaves (the oldest of those equally full). Then a new
    bin is opened. Every key has its own bins.

    Args:
        max_length: tokens of a row.
        num_bins: open bins per key, at least 1.
    """

    def __init__(self, max_length: int, num_bins: int) -> None:
        self._max_length = max_length
        self._num_bins = num_bins
        # By key, oldest bin first: the tokens that still fit, and the pieces.
        self._bins: dict[int, tuple[list[int], list[list[int]]]] = {}

    def place(self, lengths: Int64Array, keys: Int64Array | None, first_id: int) -> Placed:
        """Place the next pieces; see :meth:`Placement.place`."""
        full, num_bins, bins_of = self._max_length, self._num_bins, self._bins
        closed: list[int] = []
        counts: list[int] = []
        key_list = None if keys is None else keys.tolist()
        rooms, contents = bins_of.setdefault(0, ([], [])) if key_list is None else ([], [])
        for piece, length in enumerate(lengths.tolist(), first_id):
            if length == full:
                closed.append(piece)
                counts.append(1)
                continue
            if key_list is not None:
                rooms, contents = bins_of.setdefault(key_list[piece - first_id], ([], []))
            for i, room in enumerate(rooms):
                if length < room:
                    rooms[i] = room - length
                    contents[i].append(piece)
                    break
                if length == room:
                    del rooms[i]
                    content = contents.pop(i)
                    content.append(piece)
                    closed += content
                    counts.append(len(content))
                    break
            else:
                if len(rooms) == num_bins:
                    i = rooms.index(min(rooms))
                    del rooms[i]
                    content = contents.pop(i)
                    closed += content
                    counts.append(len(content))
                rooms.append(full - length)
                contents.append([piece])
        return _uncut(lengths, closed, counts)

    def open_rows(self) -> list[OpenRow]:
        """The open bins, in the order in which they were opened."""
        rows = [
            OpenRow(key, ids, self._max_length - room)
            for key, (rooms, contents) in self._bins.items()
            for room, ids in zip(rooms, contents, strict=True)
        ]
        return sorted(rows, key=lambda row: row.ids[0])

    def restore(self, rows: Iterable[OpenRow]) -> None:
        """Become the placement that has these open bins."""
        self._bins = {}
        for row in rows:
            rooms, contents = self._bins.setdefault(row.key, ([], []))
            rooms.append(self._max_length - row.filled)
            contents.append(list(row.ids))


class BestFit(Placement):
    """A piece goes into the bin that it fills best: least room left, the oldest of several such.

    If it fits none and ``num_bins`` bins are open, the fullest leaves (the oldest of those equally full). Then a new
    bin is opened. Every key has its own bins.

    Args:
        max_length: tokens of a row.
        num_bins: open bins per key, at least 1.
    """

    def __init__(self, max_length: int, num_bins: int) -> None:
        self._max_length = max_length
        self._num_bins = num_bins
        self._bins: dict[int, tuple[list[int], dict[int, list[int]]]] = {}  # by key: sorted bins, pieces by first id

    def place(self, lengths: Int64Array, keys: Int64Array | None, first_id: int) -> Placed:
        """Place the next pieces; see :meth:`Placement.place`."""
        full, num_bins, bins_of = self._max_length, self._num_bins, self._bins
        closed: list[int] = []
        counts: list[int] = []
        key_list = None if keys is None else keys.tolist()
        bins, contents = bins_of.setdefault(0, ([], {})) if key_list is None else ([], {})
        for piece, length in enumerate(lengths.tolist(), first_id):
            if length == full:
                closed.append(piece)
                counts.append(1)
                continue
            if key_list is not None:
                bins, contents = bins_of.setdefault(key_list[piece - first_id], ([], {}))
            i = bisect_left(bins, length << _ID_BITS)
            if i < len(bins):
                taken = bins.pop(i)
                first = taken & _ID_MASK
                content = contents[first]
                content.append(piece)
                room = (taken >> _ID_BITS) - length
                if room:
                    insort(bins, room << _ID_BITS | first)
                else:
                    del contents[first]
                    closed += content
                    counts.append(len(content))
                continue
            if len(bins) == num_bins:
                content = contents.pop(bins.pop(0) & _ID_MASK)
                closed += content
                counts.append(len(content))
            insort(bins, (full - length) << _ID_BITS | piece)
            contents[piece] = [piece]
        return _uncut(lengths, closed, counts)

    def open_rows(self) -> list[OpenRow]:
        """The open bins, in the order in which they were opened."""
        rows = [
            OpenRow(key, contents[taken & _ID_MASK], self._max_length - (taken >> _ID_BITS))
            for key, (bins, contents) in self._bins.items()
            for taken in bins
        ]
        return sorted(rows, key=lambda row: row.ids[0])

    def restore(self, rows: Iterable[OpenRow]) -> None:
        """Become the placement that has these open bins."""
        self._bins = {}
        for row in rows:
            bins, contents = self._bins.setdefault(row.key, ([], {}))
            insort(bins, (self._max_length - row.filled) << _ID_BITS | row.ids[0])
            contents[row.ids[0]] = list(row.ids)


class BestFitWrap(BestFit):
    """Like :class:`BestFit`, but the bin that has to leave is filled up first.

    A piece that fits no bin while ``num_bins`` are open is cut: its beginning fills the fullest bin, which leaves; the
    rest is placed as if it were a piece of its own. The fullest bin is chosen because it takes the least away.
    Every row but those open at the end of the lane is full.
    """

    def place(self, lengths: Int64Array, keys: Int64Array | None, first_id: int) -> Placed:
        """Place the next pieces; see :meth:`Placement.place`."""
        full, num_bins, bins_of = self._max_length, self._num_bins, self._bins
        closed: list[int] = []
        counts: list[int] = []
        parent: list[int] = []
        part_lengths: list[int] = []
        key_list = None if keys is None else keys.tolist()
        bins, contents = bins_of.setdefault(0, ([], {})) if key_list is None else ([], {})
        piece = first_id
        for given, whole in enumerate(lengths.tolist()):
            if key_list is not None:
                bins, contents = bins_of.setdefault(key_list[given], ([], {}))
            length = whole
            while length:
                i = bisect_left(bins, length << _ID_BITS)
                part = length
                if length == full:
                    closed.append(piece)
                    counts.append(1)
                elif i < len(bins) or len(bins) == num_bins:
                    taken = bins.pop(i if i < len(bins) else 0)
                    first = taken & _ID_MASK
                    room = taken >> _ID_BITS
                    content = contents[first]
                    content.append(piece)
                    if room > length:
                        insort(bins, (room - length) << _ID_BITS | first)
                    else:
                        part = room
                        del contents[first]
                        closed += content
                        counts.append(len(content))
                else:
                    insort(bins, (full - length) << _ID_BITS | piece)
                    contents[piece] = [piece]
                parent.append(given)
                part_lengths.append(part)
                length -= part
                piece += 1
        of = as_ids(parent)
        length_array = as_ids(part_lengths)
        before = np.cumsum(length_array) - length_array
        start = before - (np.cumsum(lengths) - lengths)[of]
        return Placed(of, start, length_array, as_ids(closed), as_ids(counts))


def _uncut(lengths: Int64Array, closed: list[int], counts: list[int]) -> Placed:
    n = len(lengths)
    return Placed(np.arange(n), np.zeros(n, dtype=np.int64), lengths, as_ids(closed), as_ids(counts))
