"""``wrap``: one stream of tokens, cut every ``max_length``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from zephon_pack.placement import OpenRow, Placed, Placement, as_ids
from zephon_pack.ranges import range_indices

Int64Array = npt.NDArray[np.int64]


class Wrap(Placement):
    """Documents follow each other without gap and go on in the next row where one is full.

    Each key is a stream of its own. Rows leave in the order in which they fill up.

    Args:
        max_length: tokens of a row.
    """

    def __init__(self, max_length: int) -> None:
        self._max_length = max_length
        self._open: dict[int, OpenRow] = {}  # at most one per key, never empty

    def place(self, lengths: Int64Array, keys: Int64Array | None, first_id: int) -> Placed:
        """Place the next pieces; see :meth:`Placement.place`."""
        n, row_length = len(lengths), self._max_length
        if n == 0:
            nothing = np.zeros(0, dtype=np.int64)
            return Placed(nothing, nothing, nothing, nothing, nothing)
        # Sort by key, so that each key is one stretch in its order of arrival.
        if keys is None:
            order, stretch = np.arange(n), np.zeros(1, dtype=np.int64)
            stretch_keys = [0]
        else:
            order = np.argsort(keys, kind="stable")
            sorted_keys = keys[order]
            stretch = np.flatnonzero(np.append(True, sorted_keys[1:] != sorted_keys[:-1]))
            stretch_keys = sorted_keys[stretch].tolist()
        sizes = np.diff(np.append(stretch, n))
        held = [self._open.pop(key, OpenRow(key, (), 0)) for key in stretch_keys]
        filled = as_ids([row.filled for row in held])

        # Number the rows of all keys through: key after key, each from its open row on.
        length = lengths[order]
        stop = np.cumsum(length)
        before = np.append(0, stop[stretch[1:] - 1])
        rows = -(-(filled + np.diff(np.append(before, stop[-1]))) // row_length)
        first_row = np.cumsum(rows) - rows
        stop += np.repeat(first_row * row_length + filled - before, sizes)
        begin = stop - length

        # Cut where rows end.
        cut_from = begin // row_length
        count = (stop - 1) // row_length - cut_from + 1
        of = np.repeat(np.arange(n), count)
        row = cut_from[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
        piece_begin = np.maximum(begin[of], row * row_length)
        piece_stop = np.minimum(stop[of], (row + 1) * row_length)

        # Ids follow the order of arrival, whatever the keys.
        arrival = np.argsort(order[of], kind="stable")
        ids = np.empty(len(of), dtype=np.int64)
        ids[arrival] = np.arange(first_id, first_id + len(of))

        # Put the pieces held since earlier calls in front of their row.
        pieces_of = np.append(0, np.cumsum(count))[np.append(stretch, n)]  # first piece of each stretch
        pool_parts: list[Int64Array] = []
        for i, open_row in enumerate(held):  # once per key
            pool_parts += [as_ids(open_row.ids), ids[pieces_of[i] : pieces_of[i + 1]]]
        pool = np.concatenate(pool_parts)
        last = np.flatnonzero(np.append(row[1:] != row[:-1], True))  # last piece of each row
        pieces = np.diff(np.append(-1, last))
        pieces[first_row] += as_ids([len(open_row.ids) for open_row in held])
        pool_start = np.cumsum(pieces) - pieces

        full = piece_stop[last] == (row[last] + 1) * row_length
        for i, key in enumerate(stretch_keys):  # once per key
            end = int(first_row[i] + rows[i]) - 1
            if not full[end]:
                rest = pool[pool_start[end] : pool_start[end] + pieces[end]].tolist()
                self._open[key] = OpenRow(key, rest, int(piece_stop[last[end]]) - end * row_length)
        leave = np.flatnonzero(full)
        leave = leave[np.argsort(ids[last[leave]], kind="stable")]
        return Placed(
            parent=order[of][arrival],
            start=(piece_begin - begin[of])[arrival],
            length=(piece_stop - piece_begin)[arrival],
            closed=pool[range_indices(pool_start[leave], pieces[leave])],
            counts=pieces[leave],
        )

    def open_rows(self) -> list[OpenRow]:
        """The rows that are not complete, in the order in which they were opened."""
        return sorted(self._open.values(), key=lambda row: row.ids[0])

    def restore(self, rows: Iterable[OpenRow]) -> None:
        """Become the placement that has these open rows."""
        self._open = {row.key: row for row in rows}
