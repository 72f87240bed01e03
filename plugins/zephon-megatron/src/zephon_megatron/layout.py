"""Where the tokens of a row lie, and how the index keeps it."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: One row; the bounds are a list, so that they have their own length.
_BLOB: Final = pa.schema(
    [
        ("size", pa.int64()),
        ("data", pa.int64()),
        ("dtype", pa.string()),
        ("tokens", pa.int64()),
        ("window", pa.int64()),
        ("stride", pa.int64()),
        ("bounds", pa.large_list(pa.int64())),
    ]
)
_PLAIN: Final = tuple(f.name for f in _BLOB if not pa.types.is_large_list(f.type))


@attrs.frozen(slots=True, kw_only=True, eq=False)
class Layout:
    """The layout of one shard.

    Attributes:
        size: bytes of the file with the tokens.
        data: offset of the first token.
        dtype: numpy's name for what a token is stored as, with its byte order.
        tokens: how many there are.
        window: tokens of a row, where all have the same number; 0 otherwise.
        stride: tokens between the beginnings of two such rows.
        bounds: int64 ``[rows + 1]``, where rows have lengths of their own: the first token of each, and the end.
    """

    size: int
    data: int
    dtype: str
    tokens: int
    window: int
    stride: int
    bounds: npt.NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Number of rows; what is left over at the end and fills no window is none."""
        if not self.window:
            return len(self.bounds) - 1
        return 0 if self.tokens < self.window else (self.tokens - self.window) // self.stride + 1

    def spans(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """First token of each row, and the one after its last."""
        if not self.window:
            return self.bounds[rows], self.bounds[rows + 1]
        starts = rows * self.stride
        return starts, starts + self.window

    def to_blob(self) -> pa.RecordBatch:
        """The layout as a record batch of one row."""
        columns = [pa.array([getattr(self, name)], _BLOB.field(name).type) for name in _PLAIN]
        bounds = pa.array(self.bounds, pa.int64())
        columns.append(pa.LargeListArray.from_arrays(pa.array([0, len(bounds)], pa.int64()), bounds))
        return pa.RecordBatch.from_arrays(columns, schema=_BLOB)

    @staticmethod
    def from_blob(blob: pa.RecordBatch) -> Layout:
        """Inverse of :meth:`to_blob`; the bounds share the batch's memory."""
        plain = {name: blob.column(name)[0].as_py() for name in _PLAIN}
        return Layout(**plain, bounds=blob.column("bounds")[0].values.to_numpy())


def token_type(stored: np.dtype[np.generic]) -> pa.DataType:
    """The Arrow type of stored values.

    Signed integers and floats stay what they are; 8 and 16 bits without a sign become the next signed type. Those of
    32 and 64 bits keep their width: a token id is an index, and one that does not fit is a bad row.
    """
    if stored.kind == "f":
        return pa.float32() if stored.itemsize == 4 else pa.float64()
    bits = stored.itemsize * 8
    if stored.kind == "u" and bits < 32:
        bits *= 2
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
