"""``batch``: the rows of a lane, cut into microbatches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import attrs
import pyarrow as pa

from zephon.abc import Emits, LaneContext, LaneOperator, LaneState, Snapshot
from zephon.block import Block, retained_bytes
from zephon.spec import execution
from zephon_ops.checks import at_least


@attrs.frozen(slots=True)
class BatchRows(LaneOperator):
    """Cut the rows of each lane into microbatches.

    Every microbatch holds exactly ``microbatch_size`` rows of one lane, whatever happens upstream: neither the end of a
    pass, nor a checkpoint, nor the number of workers cuts one short. Only the rows left at the very end of a lane can
    be fewer.

    Args:
        microbatch_size: rows of a microbatch.
        drop_last: whether the rows left at the end of a lane are dropped. False delivers them as one shorter batch.

    Raises:
        ConfigError: ``operator-argument``.
    """

    emits: ClassVar[Emits] = "microbatches"

    microbatch_size: int = attrs.field(validator=at_least(1))
    drop_last: bool = attrs.field(default=True, kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """What comes in."""
        return schema

    def open(self, context: LaneContext) -> LaneState:
        """Nothing held."""
        return _BatchState(self.microbatch_size, self.drop_last)

    def state_bytes(self, schema: pa.Schema, row_bytes: float) -> int:
        """One microbatch less a row, which may keep twice its bytes alive."""
        return int(2 * self.microbatch_size * row_bytes)


class _BatchState(LaneState):
    """Fewer than a microbatch of rows, as slices of the blocks they came in."""

    def __init__(self, size: int, drop_last: bool) -> None:
        self._size = size
        self._drop_last = drop_last
        self._held: list[Block] = []
        self._rows = 0

    def push(self, block: Block) -> Iterable[Block]:
        ready = []
        start = 0
        while self._rows + len(block) - start >= self._size:
            stop = start + self._size - self._rows
            ready.append(Block.concat([*self._held, block.slice(start, stop)]))
            self._held, self._rows, start = [], 0, stop
        if start < len(block):
            self._held.append(block.slice(start, len(block)))
            self._rows += len(block) - start
            self._compact()
        return ready

    def _compact(self) -> None:
        live = sum(block.data.nbytes for block in self._held)
        if retained_bytes(block.data for block in self._held) > 2 * live:
            self._held = [block.compact() for block in self._held]

    def finish(self) -> Iterable[Block]:
        return [] if self._drop_last or not self._held else [Block.concat(self._held)]

    def snapshot(self) -> Snapshot:
        return Snapshot(blocks={f"rows.{i:06d}": block for i, block in enumerate(self._held)})

    def restore(self, snapshot: Snapshot) -> None:
        self._held = [snapshot.blocks[name] for name in sorted(snapshot.blocks)]
        self._rows = sum(map(len, self._held))
