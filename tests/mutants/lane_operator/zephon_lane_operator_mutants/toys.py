"""The least a lane operator can be, and one with everything a lane operator may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon import random
from zephon.abc import Emits, LaneContext, LaneOperator, LaneState, Snapshot
from zephon.block import Block, retained_bytes, take_batch
from zephon.errors import BadRow, BadRowsError, PlanError
from zephon.spec import execution


@attrs.frozen(slots=True)
class Minimal(LaneOperator):
    """Hands every row on."""

    emits: ClassVar[Emits] = "rows"
    preserves_rows = True

    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """What comes in."""
        return schema

    def open(self, context: LaneContext) -> LaneState:
        """Nothing to remember."""
        return MinimalState()


class MinimalState(LaneState):
    """Nothing."""

    def push(self, block: Block) -> Iterable[Block]:
        return [block]

    def finish(self) -> Iterable[Block]:
        return []

    def snapshot(self) -> Snapshot:
        return Snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        return


@attrs.frozen(slots=False)
class Maximal(LaneOperator):
    """Holds rows back, and adds to each a running total of what has left, and a draw; some rows leave several times.

    Args:
        size: how many rows are held back.
        copies: most copies of a row.
        field: the number that is added up.
    """

    state: ClassVar[type[MaximalState]]

    size: int = 4
    copies: int = attrs.field(default=2, kw_only=True)
    field: str = attrs.field(default="n", kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    @property
    def reads(self) -> Sequence[str] | None:
        """The number."""
        return (self.field,)

    @property
    def optional_reads(self) -> Sequence[str]:
        """A flag that makes a row count twice, where there is one."""
        return ("flag",)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """Three fields more."""
        kind = schema.field(self.field).type if self.field in schema.names else None
        if kind is None or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise PlanError(f"no number in {self.field!r}", fix="name a field of numbers", code="field-type")
        total = pa.field("total", pa.float64(), metadata={b"zephon.unit": b"points"})
        return schema.append(total).append(pa.field("draw", pa.int64())).append(pa.field("source", pa.string()))

    def open(self, context: LaneContext) -> LaneState:
        """Nothing held, and a total of 0."""
        return self.state(self, context)

    def state_bytes(self, schema: pa.Schema, row_bytes: float) -> int:
        """A full buffer that keeps twice its bytes alive."""
        return int(2 * self.size * row_bytes)


class MaximalState(LaneState):
    """The rows held back, the total, the last three numbers, and how many rows have left.

    A total counts the last three numbers twice, so that it depends on more than what is held.
    """

    def __init__(self, spec: Maximal, context: LaneContext) -> None:
        self.spec = spec
        self.context = context
        self.held: list[Block] = []
        self.total = 0.0
        self.recent: list[float] = []
        self.ordinal = 0

    def push(self, block: Block) -> Iterable[Block]:
        bad = self.bad_rows(block)
        if bad:
            raise BadRowsError(bad, what="no number", code="number-missing")
        pool = Block.concat([*self.held, block])
        leaving = max(0, self.rows(pool) - self.spec.size)
        self.held = [pool.slice(leaving, len(pool))]
        self.settle()
        return self.leave(pool.slice(0, leaving)) if leaving else []

    def finish(self) -> Iterable[Block]:
        return self.leave(Block.concat(self.held)) if self.held else []

    def snapshot(self) -> Snapshot:
        meta = {"total": self.total, "recent": list(self.recent), "ordinal": self.ordinal}
        return Snapshot(meta=meta, blocks={f"held.{i}": block for i, block in enumerate(self.held)})

    def restore(self, snapshot: Snapshot) -> None:
        self.total, self.ordinal = snapshot.meta["total"], snapshot.meta["ordinal"]
        self.recent = list(snapshot.meta["recent"])
        self.held = [snapshot.blocks[name] for name in sorted(snapshot.blocks)]

    def bad_rows(self, block: Block) -> list[BadRow]:
        """Rows without a number."""
        missing = block.data.column(self.spec.field).is_null().to_numpy(zero_copy_only=False)
        return [BadRow(int(row), "null") for row in np.flatnonzero(missing)]

    def rows(self, block: Block) -> int:
        """How many rows there are."""
        return len(block)

    def settle(self) -> None:
        """Let go of the blocks that the held rows came in."""
        if retained_bytes(b.data for b in self.held) > 2 * sum(b.data.nbytes for b in self.held):
            self.held = [block.compact() for block in self.held]

    def numbers(self, block: Block) -> list[float]:
        """What each row counts."""
        values: list[float] = block.data.column(self.spec.field).to_pylist()
        flags = block.data.column("flag").to_pylist() if "flag" in block.schema.names else [False] * len(values)
        return [2.0 * value if flag is True else float(value) for value, flag in zip(values, flags, strict=True)]

    def key(self) -> int:
        """What draws are addressed by."""
        return self.context.lane_key

    def words(self, block: Block) -> npt.NDArray[np.uint64]:
        """A random word a row."""
        return random.words(self.key(), self.ordinal + np.arange(len(block)))

    def leave(self, block: Block) -> list[Block]:
        """What is emitted for rows that leave."""
        totals = []
        for number in self.numbers(block):
            self.total += number
            self.recent.append(number)
            del self.recent[:-3]
            totals.append(self.total + sum(self.recent))
        words = self.words(block)
        self.ordinal += len(block)
        parents = np.repeat(np.arange(len(block)), 1 + random.below(words, self.spec.copies))
        return [self.derived(block, self.table(block, parents, totals, words), parents)] if len(parents) else []

    def derived(self, block: Block, data: pa.RecordBatch, parents: npt.NDArray[np.int64]) -> Block:
        """The rows that come out."""
        return block.derive(data, parents)

    def table(
        self, block: Block, parents: npt.NDArray[np.int64], totals: list[float], words: npt.NDArray[np.uint64]
    ) -> pa.RecordBatch:
        """Their columns."""
        names = np.array(self.context.datasets, dtype=object)[block.origins.dataset]
        added = [pa.array(totals, pa.float64()), pa.array(random.below(words, 1000)), pa.array(names.tolist())]
        columns: list[Any] = list(take_batch(block.data, parents).columns)
        columns += [column.take(pa.array(parents)) for column in added]
        return pa.RecordBatch.from_arrays(columns, schema=self.spec.output_schema(block.schema))


Maximal.state = MaximalState


@attrs.frozen
class NeedsArguments(Minimal):
    """Cannot be made without being told how."""

    share: float = attrs.field(kw_only=True)


class ReadsAnotherField(Minimal):
    """Right, but not on the rows that the kit makes up."""

    reads = ("document",)
