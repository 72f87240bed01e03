"""What the index keeps of one shard's bytes, and how it is written down."""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: One row; arrays are lists, so that each has its own length.
_BLOB: Final = pa.schema(
    [
        ("compression", pa.string()),
        ("size", pa.int64()),
        ("offsets", pa.large_list(pa.int64())),
        ("awkward", pa.large_list(pa.int64())),
        ("restart_stored", pa.large_list(pa.int64())),
        ("restart_content", pa.large_list(pa.int64())),
    ]
)


def _array() -> Any:
    return attrs.field(eq=attrs.cmp_using(eq=np.array_equal))


@attrs.frozen(slots=True, kw_only=True)
class Layout:
    """Where rows lie. *Content* is the text, *stored* the file, which differ where it is compressed.

    Attributes:
        compression: "", "gzip" or "zstd".
        size: stored bytes.
        offsets: int64 ``[rows + 1]``: where in the content each row's object begins, then the content's end.
        awkward: int64: rows that are valid, but that the block parser does not take as they are.
        restart_stored: int64 ``[k]``: stored offsets at which decompression can begin (a gzip member or a zstd frame
            does); empty where nothing is compressed.
        restart_content: int64 ``[k]``: the offsets in the content that belong to them, the first being 0.
    """

    compression: str
    size: int
    offsets: npt.NDArray[np.int64] = _array()
    awkward: npt.NDArray[np.int64] = _array()
    restart_stored: npt.NDArray[np.int64] = _array()
    restart_content: npt.NDArray[np.int64] = _array()

    def units(self) -> npt.NDArray[np.int64] | None:
        """Row boundaries between restarts; None where any row can be read alone, or there is none."""
        rows = len(self.offsets) - 1
        if not self.compression or rows == 0:
            return None
        # A row that begins before a restart is read from the one before, wherever it ends.
        inner = np.searchsorted(self.offsets[:-1], self.restart_content)
        return np.unique(np.concatenate([[0], inner, [rows]])).astype(np.int64)

    def to_blob(self) -> pa.RecordBatch:
        """The layout as a record batch of one row."""
        values = attrs.asdict(self)
        columns = [
            pa.LargeListArray.from_arrays(
                pa.array([0, len(values[f.name])], pa.int64()), pa.array(values[f.name], pa.int64())
            )
            if pa.types.is_large_list(f.type)
            else pa.array([values[f.name]], f.type)
            for f in _BLOB
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_BLOB)

    @staticmethod
    def from_blob(blob: pa.RecordBatch) -> Layout:
        """Inverse of :meth:`to_blob`; the arrays share the batch's memory."""
        return Layout(
            **{
                f.name: blob.column(f.name)[0].values.to_numpy()
                if pa.types.is_large_list(f.type)
                else blob.column(f.name)[0].as_py()
                for f in _BLOB
            }
        )
