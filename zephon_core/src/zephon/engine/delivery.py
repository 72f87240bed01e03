"""Strict rotation over the owned lanes: round ``k`` is the same set of microbatches under every topology.

A round begins only when every owned lane is known to hold its microbatch or to have ended. Where the number of rounds
is computed beforehand all ranks know it alone; an endless source has no last round; otherwise the ranks agree through
the function the user passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import attrs
import pyarrow as pa

from zephon.batch import Batch, BatchFacts
from zephon.checkpoint.state import LaneCheckpoint
from zephon.engine.lane import Cut, Item
from zephon.engine.tally import Tally
from zephon.engine.topology import Slot, Topology
from zephon.errors import EngineError

#: What a rank that has come to its end offers under ``tail="pad"``: it can go on with filler for ever.
FOR_EVER: Final = 1 << 40


class Cursor:
    """How far the consumer has come in one lane."""

    def __init__(
        self,
        lane: int,
        datasets: Sequence[str],
        schema: pa.Schema,
        restored: LaneCheckpoint | None,
        raw: bytes | None,
    ) -> None:
        start = restored if restored is not None else LaneCheckpoint(lane=lane)
        self.lane = lane
        self.delivered = start.delivered
        self.rounds = start.rounds
        self.frontier = start.frontier
        self.restored, self.raw = restored, raw
        self.cut = Cut(position=start.position, stages=start.stages, skipped=start.counters.get("skipped", {}))
        self.cut_number = start.delivered - start.since_cut
        self.tally = Tally(datasets, schema, start.counters.get("delivered", {}))
        #: Rows set aside before what was received; those after the cut will be met, and counted, once more.
        self.skipped: Mapping[str, int] = start.counters.get("skipped_so_far", self.cut.skipped)
        #: What the lane's operators have counted, once it has ended; until then their snapshots tell.
        self.operators: Mapping[str, int] | None = None
        self.head: Item | None = None

    def adopt(self, item: Item) -> None:
        """Move the cut to this item's, if it has one."""
        self.skipped = item.skipped
        self.operators = item.counters
        if item.cut is not None:
            self.cut, self.cut_number = item.cut, item.number

    @property
    def unchanged(self) -> bytes | None:
        """The bytes this lane was restored from, as long as nothing has happened since."""
        start = self.restored
        if start is not None and (self.delivered, self.rounds) == (start.delivered, start.rounds):
            return self.raw
        return None

    def state(self) -> LaneCheckpoint:
        """The lane as the consumer has seen it."""
        return LaneCheckpoint(
            lane=self.lane,
            position=self.cut.position,
            frontier=max(self.frontier, self.cut.position),
            delivered=self.delivered,
            since_cut=self.delivered - self.cut_number,
            rounds=self.rounds,
            stages=self.cut.stages,
            counters={
                "delivered": self.tally.to_plain(),
                "skipped": dict(self.cut.skipped),
                "skipped_so_far": dict(self.skipped),
            },
        )


@attrs.frozen(slots=True, kw_only=True)
class Ending:
    """How the run ends.

    Attributes:
        rounds: the number of rounds, where it is known beforehand; None otherwise.
        endless: whether no lane ever ends.
        pad: whether the run goes on with filler until the longest lane ends.
        max_rounds: at most so many, or None.
        agree: minimum over all ranks.
    """

    rounds: int | None
    endless: bool
    pad: bool
    max_rounds: int | None
    agree: Callable[[int], int] | None


class Supply(Protocol):
    """Where items come from: an engine."""

    def take(self, lane: int) -> Item:
        """The next item of a lane, waiting for it."""

    def waiting(self, lane: int) -> int:
        """Microbatches of a lane that can be taken without waiting."""


class Delivery:
    """Hands out one rank's batches in order."""

    def __init__(
        self,
        topology: Topology,
        engine: Supply,
        cursors: Mapping[int, Cursor],
        *,
        ending: Ending,
        facts: BatchFacts,
        schema: pa.Schema,
        round_: int,
        slot: int,
    ) -> None:
        self._topology = topology
        self._engine = engine
        self.cursors = cursors
        self._ending = ending
        self._facts = facts
        self._schema = schema
        self._fills = ending.pad or topology.shared
        self._granted = 0
        self.round = round_
        self.slot = slot
        self.done = False

    def next(self, announce: Callable[[Batch, int], None]) -> Batch | None:
        """The next batch of this rank, or None when the run has ended.

        Args:
            announce: told of the batch and its round before it counts as received: where an observer raises, the
                consumer does not receive it.
        """
        if self.done:
            return None
        if self.slot == 0 and not self._begin_round():
            self.done = True
            return None
        batch = self._deliver(self._topology.slots[self.slot], announce)
        self.slot += 1
        if self.slot == len(self._topology.slots):
            self.slot, self.round = 0, self.round + 1
            self._granted -= 1
        return batch

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _begin_round(self) -> bool:
        end = self._ending
        if end.max_rounds is not None and self.round >= end.max_rounds:
            return False
        if end.rounds is not None:
            return self.round < end.rounds
        if end.endless:
            return True
        if end.agree is None:
            return self._rounds_ready() > 0
        if self._granted <= 0:
            offered = self._rounds_ready()
            self._granted = end.agree(offered)
            if self._granted > offered:
                raise EngineError(
                    "the ranks agreed on more rounds than this one offered",
                    found=f"agree({offered}) returned {self._granted}; it has to be the minimum over all ranks",
                    fix="agree=lambda n: <all-reduce of n with MIN>",
                    code="agree-exceeds-offer",
                )
            if self._granted >= FOR_EVER:  # every rank has ended
                return False
        return self._granted > 0

    def _rounds_ready(self) -> int:
        """Rounds this rank can deliver now, after waiting for the next one to be decided."""
        ready = FOR_EVER
        for cursor in self.cursors.values():
            if self._head(cursor).block is not None:
                # The head has been taken out of the lane's stock already.
                ready = min(ready, 1 + self._engine.waiting(cursor.lane))
            elif not self._ending.pad:
                return 0
        if self._ending.agree is None and ready == FOR_EVER:
            return 0 if self.cursors else FOR_EVER
        return ready

    def _head(self, cursor: Cursor) -> Item:
        """The next microbatch of a lane, or its end; raises what made the lane fail."""
        while cursor.head is None:
            item = self._engine.take(cursor.lane)
            if item.failure is not None:
                raise item.failure
            if item.block is None:
                cursor.adopt(item)
            if item.block is not None or item.last:
                cursor.head = item
        return cursor.head

    # -- batches ------------------------------------------------------------------------------------------------------

    def _deliver(self, slot: Slot, announce: Callable[[Batch, int], None]) -> Batch:
        size = self._topology.microbatch
        rows = None if slot.rows == (0, size) else slot.rows
        if slot.lane < 0:
            batch = Batch.filler(self._schema, size, -1, self.round, self._facts, rows)
            announce(batch, self.round)
            return batch
        cursor = self.cursors[slot.lane]
        item = self._head(cursor)
        if item.block is None:
            batch = Batch.filler(self._schema, size, slot.lane, self.round, self._facts, rows)
        else:
            batch = Batch(item.block, facts=self._facts, size=size if self._fills else None, rows=rows)
        announce(batch, self.round)
        cursor.rounds += 1
        if item.block is None:
            return batch
        cursor.head = None
        cursor.delivered = item.number
        cursor.frontier = item.frontier
        cursor.adopt(item)
        cursor.tally.add(item.block)
        return batch
