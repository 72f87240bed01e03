"""``shuffle``: a streaming shuffle of the rows of a lane."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa

from zephon import random
from zephon.abc import Emits, LaneContext, LaneOperator, LaneState, Snapshot
from zephon.block import Block
from zephon.spec import execution
from zephon_ops.checks import at_least, integer
from zephon_ops.held import HeldRows, Int64Array, id_table, table_ids


@attrs.frozen(slots=True)
class Shuffle(LaneOperator):
    """Shuffle the rows of each lane through a buffer.

    The buffer fills up once. From then on every row that comes in takes the slot of a row drawn at random, which
    leaves; at the end of the lane the rest leaves in random order. The buffer is part of a checkpoint, so it never
    warms up again, and the order never depends on where a run was interrupted.

    For a shuffle over everything at no memory cost, use ``shuffle_block_size="global"`` of the work source; this
    operator is for what comes out of other operators, e.g. rows split from one long document.

    Args:
        buffer_size: rows held back in each lane.
        seed: changes the order; combined with the seed of the work source.

    Raises:
        ConfigError: ``operator-argument``.
    """

    emits: ClassVar[Emits] = "rows"
    preserves_rows = True

    buffer_size: int = attrs.field(default=8192, validator=at_least(1))
    seed: int = attrs.field(default=0, kw_only=True, validator=integer)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """What comes in."""
        return schema

    def open(self, context: LaneContext) -> LaneState:
        """An empty buffer."""
        return _ShuffleState(self.buffer_size, random.derive_key("shuffle", context.lane_key, self.seed))

    def state_bytes(self, schema: pa.Schema, row_bytes: float) -> int:
        """A full buffer that has not been compacted yet: twice its rows."""
        return int(2 * self.buffer_size * row_bytes)


class _ShuffleState(LaneState):
    """Slots that hold row ids; a row's id is its ordinal in the lane.

    The fold, one row at a time: row ``i < size`` goes to slot ``i``. Row ``i >= size`` goes to slot
    ``below(word(key, i), size)``, and the row found there leaves. At the end the rows of slots ``0..n-1`` leave in the
    order of ``words(end_key, slot)``. Below it is computed for all rows of a block at once.
    """

    def __init__(self, size: int, key: int) -> None:
        self._size = size
        self._key = key
        self._slots = np.empty(0, dtype=np.int64)
        self._count = 0
        self._held = HeldRows()

    def push(self, block: Block) -> Iterable[Block]:
        ids = np.arange(self._count, self._count + len(block), dtype=np.int64)
        self._count += len(block)
        self._held.append(block, ids)
        filling = ids[: max(0, self._size - len(self._slots))]
        if len(filling):
            self._slots = np.concatenate([self._slots, filling])
        blocks = self._held.take(self._replace(ids[len(filling) :]))
        self._held.settle(lambda: self._slots)
        return blocks

    def _replace(self, ids: Int64Array) -> Int64Array:
        """Put rows into the slots drawn for them, one after the other; return the ids that leave, in order."""
        slots = random.below(random.words(self._key, ids), self._size)
        # Rows of one slot are neighbours now, in order: each pushes out the one before it, the first the old one.
        order = np.argsort(slots, kind="stable")
        slots, coming = slots[order], ids[order]
        first = np.ones(len(ids), dtype=bool)
        np.not_equal(slots[1:], slots[:-1], out=first[1:])
        pushed_out = np.where(first, self._slots[slots], np.roll(coming, 1))
        last = np.roll(first, -1)
        self._slots[slots[last]] = coming[last]
        leaving = np.empty_like(ids)
        leaving[order] = pushed_out
        return leaving

    def finish(self) -> Iterable[Block]:
        slots = np.arange(len(self._slots))
        order = np.argsort(random.words(random.derive_key("end", self._key), slots), kind="stable")
        return self._held.take(self._slots[order])

    def snapshot(self) -> Snapshot:
        return self._held.snapshot({"count": self._count}, {"slots": id_table(self._slots.copy())})

    def restore(self, snapshot: Snapshot) -> None:
        self._count = snapshot.meta["count"]
        self._slots = table_ids(snapshot.tables["slots"]).copy()
        self._held.restore(snapshot, self._slots)
