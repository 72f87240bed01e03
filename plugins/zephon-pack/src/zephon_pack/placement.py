"""Placement: which documents share a row. Integers only; no token is looked at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]


@attrs.frozen(slots=True)
class Placed:
    """What became of the pieces handed to :meth:`Placement.place`.

    An algorithm that cuts returns more pieces than it was given. Piece ``i`` has the id ``first_id + i``.

    Attributes:
        parent: which of the given pieces each piece is a part of, int64 ``[p]``, non-decreasing.
        start: offset within the given piece, int64 ``[p]``.
        length: tokens, int64 ``[p]``.
        closed: ids of the pieces of the rows that are complete, row by row in the order in which they leave; ids of
            earlier calls among them. int64 ``[q]``.
        counts: pieces of each complete row, int64 ``[rows]``, summing to q.
    """

    parent: Int64Array
    start: Int64Array
    length: Int64Array
    closed: Int64Array
    counts: Int64Array


@attrs.frozen(slots=True)
class OpenRow:
    """A row that is not complete.

    Attributes:
        key: pieces of different keys never share a row.
        ids: its pieces in order. The first one's id is the row's age.
        filled: tokens.
    """

    key: int
    ids: Sequence[int]
    filled: int


class Placement(ABC):
    """A fold over pieces: where each goes depends on the pieces before it, never on how calls are cut."""

    @abstractmethod
    def place(self, lengths: Int64Array, keys: Int64Array | None, first_id: int) -> Placed:
        """Place the next pieces.

        Args:
            lengths: tokens of each piece, int64 ``[n]``, each at least 1.
            keys: int64 ``[n]``, or None if all pieces may share rows (key 0).
            first_id: id of the first piece; greater than all ids used before.
        """

    @abstractmethod
    def open_rows(self) -> list[OpenRow]:
        """The rows that are not complete, in the order in which they were opened."""

    @abstractmethod
    def restore(self, rows: Iterable[OpenRow]) -> None:
        """Become the placement that has these open rows, given in the order in which they were opened."""


def as_ids(values: Sequence[int]) -> Int64Array:
    """Ids as an int64 array."""
    return np.array(values, dtype=np.int64)
