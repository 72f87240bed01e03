"""An operator that is right, and the same with one defect at a time; scripts import it as a stranger's module."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from typing import Any

import attrs
import pyarrow as pa

from zephon.abc import LaneContext, LaneOperator, LaneState, Snapshot
from zephon.block import Block

#: The author has found the defect: all are gone.
RIGHT = "ZEPHON_KIT_OPERATORS_ARE_RIGHT"

DEFECTS = (
    "drops the tail on restore",
    "gives the tail twice after a restore",
    "changes a snapshot afterwards",
    "lets blocks show",
    "keeps a generator out of the snapshot",
    "seeds the global generator",
    "draws from the global generator",
    "asks the clock",
    "shares a counter between lanes",
)

_SHARED = [0]


@attrs.frozen(slots=True)
class Delayed(LaneOperator):
    """Numbers the rows of a lane, and lets each out when so many more have come in.

    Args:
        rows: how many.
        defect: one of ``DEFECTS``.
    """

    rows: int
    defect: str = attrs.field(default="", kw_only=True)

    @property
    def preserves_rows(self) -> bool:
        # Where it says so, the engine knows how many batches there are, and asks for no more.
        return self.defect != "gives the tail twice after a restore"

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema.append(pa.field("place", pa.int64()))

    def open(self, context: LaneContext) -> LaneState:
        return _Delayed(self.rows, "" if os.environ.get(RIGHT) else self.defect)


class _Delayed(LaneState):
    def __init__(self, rows: int, defect: str) -> None:
        self._rows, self._defect = rows, defect
        self._held: Block | None = None
        self._times = 1
        self._places = [0]
        self._random = random.Random(7)
        if defect == "seeds the global generator":
            random.seed(7)

    def push(self, block: Block) -> Iterable[Block]:
        places = [self._place() for _ in range(len(block))]
        if self._defect == "lets blocks show":
            places = list(range(len(block)))
        data = pa.RecordBatch.from_arrays(
            [*block.data.columns, pa.array(places, pa.int64())],
            schema=block.schema.append(pa.field("place", pa.int64())),
        )
        block = block.with_data(data)
        joined = block if self._held is None else Block.concat([self._held, block])
        ready = max(0, len(joined) - self._rows)
        self._held = joined.slice(ready, len(joined))
        return [joined.slice(0, ready)] if ready else []

    def _place(self) -> int:
        self._places[0] += 1
        match self._defect:
            case "keeps a generator out of the snapshot":
                return self._places[0] * 10 + self._random.randrange(10)
            case "seeds the global generator" | "draws from the global generator":
                return self._places[0] * 10 + random.randrange(10)
            case "asks the clock":
                return time.perf_counter_ns()
            case "shares a counter between lanes":
                _SHARED[0] += 1
                return _SHARED[0]
        return self._places[0]

    def finish(self) -> Iterable[Block]:
        return [] if self._held is None else [self._held] * self._times

    def snapshot(self) -> Snapshot:
        places: Any = self._places if self._defect == "changes a snapshot afterwards" else list(self._places)
        return Snapshot(meta={"places": places}, blocks={} if self._held is None else {"held": self._held})

    def restore(self, snapshot: Snapshot) -> None:
        self._places = list(snapshot.meta["places"])
        if self._defect == "gives the tail twice after a restore":
            self._times = 2
        if self._defect != "drops the tail on restore":
            self._held = snapshot.blocks.get("held")
