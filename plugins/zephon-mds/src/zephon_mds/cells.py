"""The values of one column as byte ranges of a buffer."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.block import MAX_COLUMN_BYTES


class BadValuesError(Exception):
    """Values that cannot be decoded: their places among those that were to be, with reasons."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(f"{len(reasons)} values")
        self.reasons = reasons


class TooLargeError(Exception):
    """More bytes than a column of a block may take."""


@attrs.frozen(slots=True, eq=False)
class Cells:
    """Values in ascending places, not overlapping.

    Attributes:
        data: the bytes they are in.
        starts: int64 ``[n]``.
        stops: int64 ``[n]``.
    """

    data: pa.Buffer
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """The bytes all values are in."""
        return np.frombuffer(self.data, np.uint8)

    def binary(self) -> pa.Array:
        """The values, copied out, as a ``binary`` array.

        Raises:
            TooLargeError: they would pass what a column may take.
        """
        if int((self.stops - self.starts).sum()) > MAX_COLUMN_BYTES:
            raise TooLargeError
        if len(self) == 0:
            return pa.array([], pa.binary())
        # Of (start, stop, start, stop, ...) every other range is a value; those between are gaps.
        edges = np.stack([self.starts, self.stops], axis=1).ravel()
        ranges = pa.Array.from_buffers(pa.large_binary(), len(edges) - 1, [None, pa.py_buffer(edges), self.data])
        return ranges.take(pa.array(np.arange(0, len(edges), 2))).cast(pa.binary())

    def joined(self) -> pa.Buffer:
        """The values, copied out, one after the other.

        Raises:
            TooLargeError: they would pass what a column may take.
        """
        found = self.binary().buffers()[2]
        return pa.py_buffer(b"") if found is None else found
