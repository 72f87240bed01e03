"""What the index keeps of one shard's bytes."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BLOB: Final = pa.schema(
    [("is_whole", pa.bool_()), ("names", pa.list_(pa.string())), ("edges", pa.large_list(pa.int64()))]
)


@attrs.frozen(slots=True, kw_only=True, eq=False)
class Layout:
    """Where rows lie.

    Attributes:
        is_whole: whether the content is read as a whole: it is compressed, or not UTF-8.
        names: all columns, in the file's order.
        edges: int64 ``[rows + 1]``: where each row begins in the content, then where the last one ends. Blank lines
            between two rows count to the first of them.
    """

    is_whole: bool
    names: list[str]
    edges: npt.NDArray[np.int64]

    def units(self) -> npt.NDArray[np.int64] | None:
        """None where any row can be read alone."""
        rows = len(self.edges) - 1
        return np.array([0, rows], dtype=np.int64) if self.is_whole and rows else None

    def to_blob(self) -> pa.RecordBatch:
        """The layout as a record batch of one row."""
        edges = pa.LargeListArray.from_arrays(
            pa.array([0, self.edges.size], pa.int64()), pa.array(self.edges, pa.int64())
        )
        return pa.RecordBatch.from_arrays(
            [pa.array([self.is_whole]), pa.array([self.names], pa.list_(pa.string())), edges], schema=_BLOB
        )

    @staticmethod
    def from_blob(blob: pa.RecordBatch) -> Layout:
        """Inverse of :meth:`to_blob`; the array shares the batch's memory."""
        edges = blob.column("edges")[0].values.to_numpy()
        return Layout(is_whole=blob.column("is_whole")[0].as_py(), names=blob.column("names")[0].as_py(), edges=edges)
