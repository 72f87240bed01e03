"""What the index keeps of one shard, and how it is written down."""

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
        ("names", pa.large_list(pa.string())),
        ("keys", pa.large_list(pa.string())),
        ("starts", pa.large_list(pa.int64())),
        ("sizes", pa.large_list(pa.int64())),
    ]
)
#: The start of a member that is not there.
MISSING: Final = -1


@attrs.frozen(slots=True, kw_only=True, eq=False)
class Layout:
    """Where members lie. *Content* is the archive, *stored* the file, which differ where it is compressed.

    Attributes:
        compression: "", "gzip" or "zstd".
        size: stored bytes.
        names: the ``f`` fields, in ascending order.
        keys: string ``[rows]``.
        starts: int64 ``[f, rows]``: where in the content each member begins, or :data:`MISSING`.
        sizes: int64 ``[f, rows]``: bytes of each member.
    """

    compression: str
    size: int
    names: tuple[str, ...]
    keys: pa.Array
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.keys)

    def units(self) -> npt.NDArray[np.int64] | None:
        """None where any row can be read alone; compressed content is decoded from its start."""
        return np.array([0, self.rows], dtype=np.int64) if self.compression and self.rows else None

    def to_blob(self) -> pa.RecordBatch:
        """The layout as a record batch of one row."""
        values: dict[str, Any] = {
            "names": pa.array(self.names, pa.string()),
            "keys": self.keys,
            "starts": pa.array(self.starts.ravel(), pa.int64()),
            "sizes": pa.array(self.sizes.ravel(), pa.int64()),
        }
        columns = [pa.array([self.compression], pa.string()), pa.array([self.size], pa.int64())]
        columns += [
            pa.LargeListArray.from_arrays(pa.array([0, len(values[f.name])], pa.int64()), values[f.name])
            for f in list(_BLOB)[2:]
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_BLOB)

    @staticmethod
    def from_blob(blob: pa.RecordBatch) -> Layout:
        """Inverse of :meth:`to_blob`; the arrays share the batch's memory."""
        names = tuple(blob.column("names")[0].as_py())
        keys = blob.column("keys")[0].values
        shape = (len(names), len(keys))
        return Layout(
            compression=blob.column("compression")[0].as_py(),
            size=blob.column("size")[0].as_py(),
            names=names,
            keys=keys,
            starts=blob.column("starts")[0].values.to_numpy().reshape(shape),
            sizes=blob.column("sizes")[0].values.to_numpy().reshape(shape),
        )
