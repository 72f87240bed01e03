"""Blocks: Arrow record batches of consecutive rows of one lane, each row with its origin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.block.columns import concat_batches, empty_columns, retained_bytes, take_batch
from zephon.block.origins import ORIGIN_DTYPES, Origins

#: Prefix of the columns that carry origins when a block is written down as one record batch.
RESERVED_PREFIX: Final = "__zephon."


@attrs.frozen(slots=True)
class Block:
    """Consecutive rows of one lane.

    Attributes:
        data: the rows as columns.
        origins: one origin per row.
        lane: which lane they belong to.
        index: ordinal, within its lane and stage, of the block's first row. After ``batch``: the microbatch's number.
    """

    data: pa.RecordBatch
    origins: Origins
    lane: int = 0
    index: int = 0

    def __attrs_post_init__(self) -> None:
        if self.data.num_rows != len(self.origins.row):
            raise ValueError(f"{self.data.num_rows} rows but {len(self.origins)} origins")

    def __len__(self) -> int:
        return len(self.origins.row)

    @property
    def schema(self) -> pa.Schema:
        """The schema of ``data``."""
        return self.data.schema

    @property
    def nbytes(self) -> int:
        """Bytes of the distinct Arrow buffers the block keeps alive, parents included, plus its origins."""
        return retained_bytes([self.data]) + sum(c.nbytes for c in self.origins.columns().values())

    def with_data(self, data: pa.RecordBatch) -> Block:
        """The same rows with other columns."""
        return attrs.evolve(self, data=data)

    def derive(self, data: pa.RecordBatch, parents: npt.ArrayLike) -> Block:
        """The rows a row operator made of this block's rows.

        Args:
            data: the new rows.
            parents: int64 ``[data.num_rows]``, non-decreasing: the row of this block each new row was made from.
        """
        return attrs.evolve(self, data=data, origins=self.origins.children(np.asarray(parents, dtype=np.int64)))

    def slice(self, start: int, stop: int) -> Block:
        """Rows ``start:stop``, sharing memory."""
        if not 0 <= start <= stop <= len(self.origins.row):
            start, stop, _ = slice(start, stop).indices(len(self))
            stop = max(start, stop)
        data = self.data.slice(start, stop - start)
        return Block(data, self.origins.slice(start, stop), self.lane, self.index + start)

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """The rows at ``indices`` in that order, copied."""
        return attrs.evolve(self, data=take_batch(self.data, indices), origins=self.origins.take(indices))

    def filter(self, mask: npt.NDArray[np.bool_]) -> Block:
        """The rows where ``mask`` is true. Returns the block itself when nothing is dropped."""
        return self if bool(np.all(mask)) else self.take(np.flatnonzero(mask))

    def empty(self) -> Block:
        """No rows of the same schema and lane."""
        return self.slice(0, 0)

    @staticmethod
    def concat(blocks: Sequence[Block]) -> Block:
        """One block of all rows; lane and index are the first block's.

        Raises:
            ValueError: no block, or schemas that differ.
        """
        if not blocks:
            raise ValueError("no block to concatenate")
        if len(blocks) == 1:
            return blocks[0]
        data = concat_batches([b.data for b in blocks])
        return attrs.evolve(blocks[0], data=data, origins=Origins.concat([b.origins for b in blocks]))

    def compact(self) -> Block:
        """The same rows in memory of their own: frees the parents that slices keep alive."""
        return self.take(np.arange(len(self), dtype=np.int64))

    def to_record_batch(self) -> pa.RecordBatch:
        """Rows and origins as one record batch, for IPC and checkpoints."""
        columns = list(self.data.columns)
        fields = list(self.data.schema)
        for name, values in self.origins.columns().items():
            array = pa.array(values)
            columns.append(array)
            fields.append(pa.field(RESERVED_PREFIX + name, array.type, nullable=False))
        metadata = dict(self.data.schema.metadata or {})
        metadata[b"zephon.lane"] = str(self.lane).encode()
        metadata[b"zephon.index"] = str(self.index).encode()
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=metadata))

    @staticmethod
    def from_record_batch(batch: pa.RecordBatch) -> Block:
        """Inverse of :meth:`to_record_batch`."""
        n = len(batch.schema.names) - len(ORIGIN_DTYPES)
        metadata = dict(batch.schema.metadata or {})
        lane, index = int(metadata.pop(b"zephon.lane")), int(metadata.pop(b"zephon.index"))
        schema = pa.schema(list(batch.schema)[:n], metadata=metadata or None)
        origins = Origins(**{name: batch.column(n + i).to_numpy() for i, name in enumerate(ORIGIN_DTYPES)})
        if n == 0:
            data = empty_columns(batch.num_rows)
        else:
            data = pa.RecordBatch.from_arrays(batch.columns[:n], schema=schema)
        return Block(data, origins, lane, index)
