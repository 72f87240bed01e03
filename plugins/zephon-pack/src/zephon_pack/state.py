"""``pack_flat`` at work in one lane."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import LaneState, Snapshot
from zephon.block import Block, Origins, list_column
from zephon_pack.held import Held
from zephon_pack.homogeneity import Keys
from zephon_pack.pieces import Overflow, Pieces, apply_overflow, read_documents, records_to_array, whole_documents
from zephon_pack.placement import OpenRow, Placement
from zephon_pack.ranges import ramps

Int64Array = npt.NDArray[np.int64]

#: An emitted block has no more tokens than this, unless one row has: then ``documents``, 44 bytes for each of at most
#: so many documents, stays below the limit of a column.
MAX_BLOCK_TOKENS: Final = 1 << 24

_COUNTERS: Final = (
    "documents",
    "tokens",
    "rows",
    "padding_tokens",
    "empty_documents",
    "cut_documents",
    "truncated_documents",
    "truncated_tokens",
    "dropped_documents",
    "dropped_tokens",
)


class PackState(LaneState):
    """Documents in, flat rows out.

    Placement decides over integers which pieces of documents make a row; the tokens follow in one gather per call.

    Args:
        schema: what is emitted: the packed columns, tokens first, then positions and documents.
        placement: the algorithm.
        keys: which documents may share a row.
        max_length: tokens of a full row.
        overflow: what happens to documents of more tokens than that; None if the placement takes any.
        lane: number of the lane.
    """

    def __init__(
        self,
        schema: pa.Schema,
        placement: Placement,
        keys: Keys,
        *,
        max_length: int,
        overflow: Overflow | None,
        lane: int,
    ) -> None:
        self._schema = schema
        self._packed = schema.names[:-2]
        self._placement = placement
        self._keys = keys
        self._max_length = max_length
        self._overflow = overflow
        self._lane = lane
        self._held = Held(pa.schema([(name, schema.field(name).type.value_type) for name in self._packed]))
        self._next_id = 0
        self._counters = dict.fromkeys(_COUNTERS, 0)

    @property
    def counters(self) -> dict[str, int]:
        """What the lane has seen and emitted so far.

        ``documents`` and ``tokens`` came in, ``empty_documents`` of them without a token; ``cut_documents`` are
        delivered in more than one piece, ``truncated_*`` lost their end and ``dropped_*`` everything to
        ``overflow``; ``rows`` went out, with room for ``padding_tokens`` more.
        """
        return dict(self._counters)

    def push(self, block: Block) -> Iterable[Block]:
        """Pack the next documents; return the rows that are complete.

        Raises:
            BadRowsError: see :func:`zephon_pack.pieces.read_documents`; nothing was packed.
        """
        longest = self._max_length if self._overflow == "error" else None
        documents = read_documents(block, self._packed, longest)
        lengths = np.diff(documents.offsets)
        given = whole_documents(lengths)
        if self._overflow is not None:
            given = apply_overflow(given, self._max_length, self._overflow)
        keys = self._keys.of(block.origins.columns())
        placed = self._placement.place(given.length, None if keys is None else keys[given.document], self._next_id)
        pieces = Pieces(given.document[placed.parent], given.start[placed.parent] + placed.start, placed.length)
        self._count(lengths, pieces)
        offset = documents.offsets[pieces.document] + pieces.start
        self._held.borrow(self._next_id, pieces.records(block.origins), offset, documents.columns)
        self._next_id += len(pieces)
        return self._emit(placed.closed, placed.counts)

    def finish(self) -> Iterable[Block]:
        """Return the rows that are not complete, in the order in which they were opened."""
        rows = self._placement.open_rows()
        self._placement.restore(())
        ids = np.array([i for row in rows for i in row.ids], dtype=np.int64)
        return self._emit(ids, np.array([len(row.ids) for row in rows], dtype=np.int64))

    def snapshot(self) -> Snapshot:
        """The open rows: references to the held tokens, a record per piece, the counters."""
        tables = self._held.snapshot([row.ids for row in self._placement.open_rows()])
        return Snapshot(meta={"counters": self.counters}, tables=tables)

    def restore(self, snapshot: Snapshot) -> None:
        """Become the state the snapshot was taken of."""
        self._counters = dict(snapshot.meta["counters"])
        row_of = self._held.restore(snapshot.tables)
        records = self._held.records
        self._next_id = len(records)
        keys = self._keys.of(records)
        ids_of: dict[int, list[int]] = {}
        for piece, row in enumerate(row_of.tolist()):  # rebuilds the placement's lists of ids
            ids_of.setdefault(row, []).append(piece)
        self._placement.restore(
            OpenRow(0 if keys is None else int(keys[ids[0]]), ids, int(records["length"][ids].sum()))
            for _, ids in sorted(ids_of.items())
        )

    def _emit(self, closed: Int64Array, counts: Int64Array) -> list[Block]:
        """Make rows of ``counts`` pieces each of ``closed``, and forget these pieces."""
        blocks = []
        if len(counts):
            stop = np.cumsum(counts)
            row_tokens = np.add.reduceat(self._held.lengths(closed), stop - counts)
            part = (np.cumsum(row_tokens) - 1) // MAX_BLOCK_TOKENS  # nearly always one part
            first = 0
            for last in [*(np.flatnonzero(part[1:] != part[:-1]) + 1).tolist(), len(counts)]:
                ids = closed[stop[first] - counts[first] : stop[last - 1]]
                blocks.append(self._rows(ids, counts[first:last], row_tokens[first:last]))
                first = last
        self._held.settle(closed)
        return blocks

    def _rows(self, ids: Int64Array, counts: Int64Array, row_tokens: Int64Array) -> Block:
        records, columns = self._held.read(ids)
        row_ends = np.cumsum(row_tokens)
        offsets = pa.array(np.concatenate([[0], row_ends]).astype(np.int32))  # at most MAX_BLOCK_TOKENS and a row
        flat = [*columns, pa.array(ramps(records["length"]))]
        documents = list_column(np.concatenate([[0], np.cumsum(counts)]), records_to_array(records))
        arrays = [*(pa.ListArray.from_arrays(offsets, values) for values in flat), documents]
        data = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        ordinal, n = self._counters["rows"], len(counts)
        self._counters["rows"] += n
        self._counters["padding_tokens"] += n * self._max_length - int(row_ends[-1])
        return Block(data, Origins.of_lane(self._lane, np.arange(ordinal, ordinal + n)), self._lane)

    def _count(self, lengths: Int64Array, pieces: Pieces) -> None:
        counters = self._counters
        counters["documents"] += len(lengths)
        counters["tokens"] += int(lengths.sum())
        counters["empty_documents"] += len(lengths) - int(np.count_nonzero(lengths))
        counters["cut_documents"] += int((np.bincount(pieces.document) > 1).sum())
        too_long = lengths[lengths > self._max_length]
        if self._overflow == "truncate":
            counters["truncated_documents"] += len(too_long)
            counters["truncated_tokens"] += int(too_long.sum()) - len(too_long) * self._max_length
        elif self._overflow == "drop":
            counters["dropped_documents"] += len(too_long)
            counters["dropped_tokens"] += int(too_long.sum())
