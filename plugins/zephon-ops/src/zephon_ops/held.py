"""Rows that lane operators hold back, as references into the blocks they came in.

Rows are known by an id that only ever grows. Nothing is copied when a block arrives or a snapshot is taken; rows are
gathered once, when they leave. What is held is copied only when it keeps over twice its own bytes alive, or when it is
scattered over so many blocks that gathering gets slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Snapshot
from zephon.block import ORIGIN_DTYPES, Block, Origins, concat_batches, retained_bytes, take_batch

Int64Array = npt.NDArray[np.int64]

#: Pieces beyond which the newest ones are merged. Gathering costs some 50 microseconds per piece it touches.
MAX_PIECES: Final = 12

#: Rows are gathered into blocks of about this many bytes, far from the 1 GiB no column may pass.
GATHERED_BYTES: Final = 64 << 20


def id_table(ids: Int64Array) -> pa.RecordBatch:
    """Ids as a table of a snapshot; shares the array's memory, which must not change afterwards."""
    return pa.record_batch([pa.array(ids)], names=["id"])


def table_ids(table: pa.RecordBatch) -> Int64Array:
    """Inverse of :func:`id_table`: a read-only view."""
    return np.asarray(table.column(0).to_numpy(), dtype=np.int64)


@attrs.frozen(slots=True, eq=False)
class Piece:
    """Rows that share memory. Immutable, so that snapshots can hold it.

    Attributes:
        ids: int64 ``[rows]``, increasing.
        block: the rows.
        nbytes: their bytes.
        retained: bytes they keep alive.
        table: ``ids`` as a table.
    """

    ids: Int64Array
    block: Block
    nbytes: int
    retained: int
    table: pa.RecordBatch

    @staticmethod
    def of(ids: Int64Array, block: Block) -> Piece:
        """Measure a block; copy it if it is a small part of what it keeps alive."""
        nbytes, retained = block.data.nbytes, retained_bytes([block.data])
        if retained > 2 * nbytes:
            return Piece.of_owned(ids, block.compact())
        return Piece(ids, block, nbytes, retained, id_table(ids))

    @staticmethod
    def of_owned(ids: Int64Array, block: Block) -> Piece:
        """A block in memory of its own."""
        return Piece(ids, block, block.data.nbytes, block.data.nbytes, id_table(ids))


class HeldRows:
    """The rows held back in one lane. Ids of later blocks are larger than those of earlier ones."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._live: list[int] = []  # rows of each piece that are still held

    def append(self, block: Block, ids: Int64Array) -> None:
        """Hold a block's rows under these ids."""
        self._pieces.append(Piece.of(ids, block))
        self._live.append(len(block))

    def take(self, ids: Int64Array) -> list[Block]:
        """The rows of these ids, in that order, in memory of their own; they are no longer held."""
        if len(ids) == 0:
            return []
        blocks = self._gather(ids)
        leaving = np.bincount(self._piece_of(ids), minlength=len(self._pieces))
        self._live = [live - int(n) for live, n in zip(self._live, leaving, strict=True)]
        self._pieces = [piece for piece, live in zip(self._pieces, self._live, strict=True) if live]
        self._live = [live for live in self._live if live]
        return blocks

    def settle(self, held: Callable[[], Int64Array]) -> None:
        """Copy what is held, as far as memory or speed ask for it.

        Bytes of rows still held are reckoned from their number: rows of a block are taken to be of one size.

        Args:
            held: gives the ids of all rows still held, in any order.
        """
        if not self._pieces:
            return
        retained = sum(piece.retained for piece in self._pieces)
        if retained > 2 * self._live_bytes:
            self._merge(0, held())
        elif len(self._pieces) > MAX_PIECES:
            # Merging what is about as large as all that follows copies each row a logarithmic number of times.
            start, rows = len(self._pieces) - 1, self._live[-1]
            while start > 0 and self._live[start - 1] <= 2 * rows:
                start -= 1
                rows += self._live[start]
            self._merge(start, held())

    @property
    def pieces(self) -> Sequence[Piece]:
        """The blocks rows are held in, in order of their ids; some of their rows may have left."""
        return tuple(self._pieces)

    @property
    def _live_bytes(self) -> int:
        pairs = zip(self._pieces, self._live, strict=True)
        return sum(piece.nbytes * live // len(piece.ids) for piece, live in pairs)

    def snapshot(self, meta: Mapping[str, Any], tables: Mapping[str, pa.RecordBatch]) -> Snapshot:
        """A snapshot that refers to the pieces; ``tables`` tell which of their rows are held."""
        names = [f"{i:06d}" for i in range(len(self._pieces))]
        ids = {f"ids.{n}": piece.table for n, piece in zip(names, self._pieces, strict=True)}
        blocks = {f"rows.{n}": piece.block for n, piece in zip(names, self._pieces, strict=True)}
        return Snapshot(meta=meta, blocks=blocks, tables={**ids, **tables})

    def restore(self, snapshot: Snapshot, held: Int64Array) -> None:
        """Hold what the snapshot refers to, of which these ids are still held."""
        names = sorted(name for name in snapshot.blocks if name.startswith("rows."))
        self._pieces = [
            Piece.of(table_ids(snapshot.tables["ids." + name.removeprefix("rows.")]), snapshot.blocks[name])
            for name in names
        ]
        self._live = np.bincount(self._piece_of(held), minlength=len(names)).tolist() if names else []

    def _merge(self, start: int, held: Int64Array) -> None:
        ids = np.sort(held[held >= self._pieces[start].ids[0]])
        merged = []
        for block in self._gather(ids) if len(ids) else ():
            mine, ids = ids[: len(block)], ids[len(block) :]
            merged.append(Piece.of_owned(mine, block))
        self._pieces[start:] = merged
        self._live[start:] = [len(piece.ids) for piece in merged]

    def _piece_of(self, ids: Int64Array) -> Int64Array:
        starts = np.array([piece.ids[0] for piece in self._pieces], dtype=np.int64)
        return np.searchsorted(starts, ids, side="right") - 1

    def _gather(self, ids: Int64Array) -> list[Block]:
        per_row = max(1, sum(piece.nbytes for piece in self._pieces) // sum(len(piece.ids) for piece in self._pieces))
        step = max(1, GATHERED_BYTES // per_row)
        return [self._gather_block(ids[i : i + step]) for i in range(0, len(ids), step)]

    def _gather_block(self, ids: Int64Array) -> Block:
        which = self._piece_of(ids)
        order = np.argsort(which, kind="stable")
        used, starts = np.unique(which[order], return_index=True)
        origins = {name: np.empty(len(ids), dtype) for name, dtype in ORIGIN_DTYPES.items()}
        parts = []
        for k, selected in zip(used, np.split(order, starts[1:]), strict=True):
            piece = self._pieces[k]
            rows = np.searchsorted(piece.ids, ids[selected])
            parts.append(take_batch(piece.block.data, rows))
            for name, column in piece.block.origins.columns().items():
                origins[name][selected] = column[rows]
        data = concat_batches(parts)
        if len(parts) > 1:
            back = np.empty(len(ids), dtype=np.int64)
            back[order] = np.arange(len(ids))
            data = take_batch(data, back)
        return Block(data, Origins(**origins), self._pieces[0].block.lane)
