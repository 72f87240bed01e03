"""The pieces of rows that are not complete: what a packer must remember."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon_pack.pieces import RECORD, records_from_array, records_to_array
from zephon_pack.ranges import take_ranges

Int64Array = npt.NDArray[np.int64]

#: Held tokens lie in at most this many stretches of memory: with small blocks, each is copied once per so many blocks.
MAX_CHUNKS: Final = 16

_PIECES: Final = "pieces"
_CHUNK: Final = "tokens.{}"


class Held:
    """Pieces by id, their tokens in immutable chunks of Arrow memory.

    The newest chunk may be *borrowed*: the values of the block at hand. :meth:`settle` copies what stays of it, so that
    no block outlives its call, and copies everything once the chunks hold over twice the live tokens. Chunks never
    change, so a snapshot refers to them.

    Args:
        schema: fields of the flat columns, the tokens first.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._ids = np.zeros(0, dtype=np.int64)  # ascending, and so are the chunk numbers
        self._records = np.zeros(0, dtype=RECORD)
        self._chunk = np.zeros(0, dtype=np.int32)
        self._offset = np.zeros(0, dtype=np.int64)
        self._chunks: list[pa.RecordBatch] = []

    @property
    def records(self) -> npt.NDArray[Any]:
        """The pieces held, in order of their ids: ``RECORD[n]``."""
        return self._records

    def borrow(self, first_id: int, records: npt.NDArray[Any], offset: Int64Array, columns: Sequence[pa.Array]) -> None:
        """Add pieces whose tokens lie in a block's columns.

        Args:
            first_id: id of the first piece; greater than all held.
            records: the pieces, ``RECORD[n]``.
            offset: where each piece begins in the columns, int64 ``[n]``.
            columns: flat values by the fields of the schema.
        """
        held, n = len(self._ids), len(records)
        self._ids = np.concatenate([self._ids, np.arange(first_id, first_id + n)])
        joined = np.empty(held + n, dtype=RECORD)  # concatenate() compares record types field by field, slowly
        joined[:held], joined[held:] = self._records, records
        self._records = joined
        self._chunk = np.concatenate([self._chunk, np.full(n, len(self._chunks), dtype=np.int32)])
        self._offset = np.concatenate([self._offset, offset])
        self._chunks.append(pa.RecordBatch.from_arrays(list(columns), schema=self._schema))

    def lengths(self, ids: Int64Array) -> Int64Array:
        """Tokens of pieces: int64 ``[len(ids)]``."""
        return self._records["length"][np.searchsorted(self._ids, ids)].astype(np.int64)

    def read(self, ids: Int64Array) -> tuple[npt.NDArray[Any], list[pa.Array]]:
        """The pieces ``ids``, at least one, in that order: their records, and their columns joined."""
        at = np.searchsorted(self._ids, ids)
        return self._records[at], self._columns(at)

    def settle(self, removed: Int64Array) -> None:
        """Forget these pieces and own the memory of the others."""
        kept = np.ones(len(self._ids), dtype=bool)
        kept[np.searchsorted(self._ids, removed)] = False
        self._ids, self._records = self._ids[kept], self._records[kept]
        self._chunk, self._offset = self._chunk[kept], self._offset[kept]
        owned = self._chunks[:-1]
        length = self._records["length"].astype(np.int64)
        moved = int(np.searchsorted(self._chunk, len(owned)))  # from here on, pieces are copied
        stored = sum(chunk.num_rows for chunk in owned) + int(length[moved:].sum())
        if len(self._chunks) > MAX_CHUNKS or stored > 2 * int(length.sum()):
            owned, moved = [], 0
        if moved < len(self._ids):
            # Concatenating copies even a single array, which may still be a view of the block.
            columns = [pa.concat_arrays([column]) for column in self._columns(np.arange(moved, len(self._ids)))]
            self._chunk[moved:] = len(owned)
            self._offset[moved:] = np.cumsum(length[moved:]) - length[moved:]
            owned = [*owned, pa.RecordBatch.from_arrays(columns, schema=self._schema)]
        self._chunks = owned

    def snapshot(self, rows: Sequence[Sequence[int]]) -> dict[str, pa.RecordBatch]:
        """Tables that hold the state; the tokens are references.

        Args:
            rows: ids of the pieces of each open row; together they are all that is held.
        """
        ids = np.array([i for row in rows for i in row], dtype=np.int64)
        row_of = np.empty(len(ids), dtype=np.int32)
        row_of[np.searchsorted(self._ids, ids)] = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        # Later calls replace these arrays and never write into them, but for freshly made ones in ``settle``.
        pieces = pa.record_batch(
            {
                "document": records_to_array(self._records),
                "chunk": pa.array(self._chunk),
                "offset": pa.array(self._offset),
                "row": pa.array(row_of),
            }
        )
        return {_PIECES: pieces} | {_CHUNK.format(i): chunk for i, chunk in enumerate(self._chunks)}

    def restore(self, tables: Mapping[str, pa.RecordBatch]) -> npt.NDArray[np.int32]:
        """Become the state a snapshot was taken of; ids are numbered anew from 0, in the same order.

        Returns:
            The open row of each piece, int32 ``[n]``: its position in the ``rows`` the snapshot was taken with.
        """
        pieces = tables[_PIECES]
        self._ids = np.arange(pieces.num_rows)
        self._records = records_from_array(pieces.column("document"))
        self._chunk = pieces.column("chunk").to_numpy()
        self._offset = pieces.column("offset").to_numpy()
        self._chunks = [tables[_CHUNK.format(i)] for i in range(len(tables) - 1)]
        return pieces.column("row").to_numpy()

    def _columns(self, at: npt.NDArray[np.intp]) -> list[pa.Array]:
        chunk, offset = self._chunk[at], self._offset[at]
        length = self._records["length"][at].astype(np.int64)
        return [
            take_ranges([batch.column(i) for batch in self._chunks], chunk, offset, length)
            for i in range(len(self._schema))
        ]
