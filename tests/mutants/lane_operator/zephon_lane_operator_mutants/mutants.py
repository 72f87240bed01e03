"""Lane operators with one fault each."""

from __future__ import annotations

import os
import random as global_random
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon import random
from zephon.abc import Emits, LaneContext, LaneState, Snapshot
from zephon.block import Block
from zephon.errors import BadRow
from zephon_lane_operator_mutants.toys import Maximal, MaximalState, Minimal, MinimalState

#: The clause that must find each.
MUTANTS: Final = {
    "converts_twice": "OP-1",
    "parallelism_shows": "OP-2",
    "swallows_options": "OP-3",
    "forgets_metadata": "OP-4",
    "learns_its_schema": "OP-5",
    "reads_undeclared": "OP-6",
    "trips_over_types": "OP-7",
    "claims_to_preserve": "OP-8",
    "checkpoint": "OP-9",
    "writes_into_origins": "OP-10",
    "ignores_offsets": "OP-11",
    "draws_by_index": "OP-12",
    "adds_up_dataset_numbers": "OP-13",
    "global_generator": "OP-14",
    "python_hash": "OP-15",
    "wall_clock": "OP-15",
    "shares_its_surroundings": "OP-16",
    "leaks_a_file": "OP-17",
    "leaks_a_thread": "OP-17",
    "draws_from_the_system": "OP-18",
    "counts_pushes": "LO-1",
    "batches_by_block": "LO-1",
    "needs_a_row": "LO-2",
    "drops_the_tail": "LO-3",
    "makes_a_row_twice": "LO-3",
    "reorders_microbatches": "LO-3",
    "children_look_alike": "LO-4",
    "counts_anew_after_a_restore": "LO-4",
    "fills_one_buffer": "LO-5",
    "counts_by_column": "LO-6",
    "forgets_the_total": "LO-7",
    "drops_the_tail_on_restore": "LO-7",
    "numpy_in_meta": "LO-8",
    "tuples_in_meta": "LO-8",
    "snapshot_shares_a_list": "LO-9",
    "snapshot_takes_away": "LO-10",
    "restores_half": "LO-11",
    "restore_shares_a_list": "LO-12",
    "default_argument": "LO-13",
    "same_in_every_lane": "LO-14",
    "raises_half_way": "LO-15",
    "names_the_first_bad_row": "LO-15",
    "counts_from_one": "LO-15",
    "holds_slices": "LO-16",
    "keeps_everything": "LO-17",
    "remembers_every_row": "LO-18",
}


def _halved(value: float) -> float:
    return value / 2


@attrs.frozen
class ConvertsTwice(Minimal):
    """An option that changes whenever it is written down and read."""

    share: float = attrs.field(default=0.5, converter=_halved, kw_only=True)


class ParallelismShows(Maximal):
    """Another number of workers, another result."""

    class state(MaximalState):
        def numbers(self, block: Block) -> list[float]:
            return [number + (self.spec.parallelism or 0) for number in super().numbers(block)]


@attrs.frozen(init=False)
class SwallowsOptions(Minimal):
    """A misspelt option has no effect."""

    def __init__(self, *, parallelism: int | None = None, placement: str | None = None, **options: Any) -> None:
        self.__attrs_init__(parallelism=parallelism, placement=placement)


class ForgetsMetadata(Maximal):
    """The schema promises metadata the columns do not have."""

    class state(MaximalState):
        def derived(self, block: Block, data: pa.RecordBatch, parents: npt.NDArray[np.int64]) -> Block:
            bare = pa.record_batch(dict(zip(data.schema.names, data.columns, strict=True)))
            return super().derived(block, bare, parents)


class LearnsItsSchema(Maximal):
    """Knows the last column only once a lane was opened."""

    def open(self, context: LaneContext) -> LaneState:
        object.__setattr__(self, "_opened", True)
        return super().open(context)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        promised = super().output_schema(schema)
        return promised if "_opened" in vars(self) else promised.remove(len(promised) - 1)


class ReadsUndeclared(Maximal):
    """Looks at a field that it does not name."""

    class state(MaximalState):
        def numbers(self, block: Block) -> list[float]:
            numbers = super().numbers(block)
            if "tags" not in block.schema.names:
                return numbers
            more = block.data.column("tags").to_pylist()
            return [number + len(tags) for number, tags in zip(numbers, more, strict=True)]


class TripsOverTypes(Maximal):
    """Takes for granted that a field is a number."""

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        assert schema.field(self.field).type.bit_width > 8
        return super().output_schema(schema)


class ClaimsToPreserve(Maximal):
    """Says that every row gives one row."""

    preserves_rows = True


class Checkpoint(Minimal):
    """A name that pipelines have for something else."""


class WritesIntoOrigins(Minimal):
    """Counts in the memory of what it was given."""

    class state(MinimalState):
        def push(self, block: Block) -> Iterable[Block]:
            made = attrs.evolve(block, origins=block.origins.take(np.arange(len(block))))
            block.origins.row[:] += 1
            return [made]

    def open(self, context: LaneContext) -> LaneState:
        return self.state()


class IgnoresOffsets(Maximal):
    """Reads the buffer of a column from its beginning."""

    class state(MaximalState):
        def numbers(self, block: Block) -> list[float]:
            buffer = block.data.column(self.spec.field).buffers()[1]
            numbers: list[float] = np.frombuffer(buffer, dtype=np.int64)[: len(block)].astype(float).tolist()
            return numbers


class DrawsByIndex(Maximal):
    """Draws by the number of the row that the engine gives it."""

    class state(MaximalState):
        def words(self, block: Block) -> npt.NDArray[np.uint64]:
            return random.words(self.key(), block.index + np.arange(len(block)))


class AddsUpDatasetNumbers(Maximal):
    """Makes something of the numbers of datasets."""

    class state(MaximalState):
        def numbers(self, block: Block) -> list[float]:
            numbers = super().numbers(block)
            return [a + b for a, b in zip(numbers, block.origins.dataset.tolist(), strict=True)]


class GlobalGenerator(Maximal):
    """Draws from the generator everybody draws from."""

    class state(MaximalState):
        def words(self, block: Block) -> npt.NDArray[np.uint64]:
            return np.array([global_random.getrandbits(64) for _ in range(len(block))], dtype=np.uint64)


class PythonHash(Maximal):
    """Draws by a hash that differs between processes."""

    class state(MaximalState):
        def key(self) -> int:
            return hash(self.context.operator) % 2**63


class WallClock(Maximal):
    """Draws anew every day."""

    class state(MaximalState):
        def key(self) -> int:
            return random.derive_key(super().key(), int(time.time() // 86400))


class SharesItsSurroundings(Maximal):
    """Keeps on the class what belongs to the state."""

    latest: ClassVar[Any] = None

    class state(MaximalState):
        def key(self) -> int:
            key: int = SharesItsSurroundings.latest.lane_key
            return key

    def open(self, context: LaneContext) -> LaneState:
        type(self).latest = context
        return super().open(context)


_OPENED: list[Any] = []


class LeaksAFile(Minimal):
    """Never closes what it opens."""

    def open(self, context: LaneContext) -> LaneState:
        _OPENED.append(tempfile.TemporaryFile())  # noqa: SIM115 - the fault
        return super().open(context)


class LeaksAThread(Minimal):
    """Starts what only an end of the lane would stop."""

    class state(MinimalState):
        def __init__(self) -> None:
            self._ended = threading.Event()
            threading.Thread(target=self._ended.wait, daemon=True, name="leaked").start()

        def finish(self) -> Iterable[Block]:
            self._ended.set()
            return []

    def open(self, context: LaneContext) -> LaneState:
        return self.state()


class DrawsFromTheSystem(Maximal):
    """Every run is another."""

    class state(MaximalState):
        def words(self, block: Block) -> npt.NDArray[np.uint64]:
            return np.frombuffer(os.urandom(8 * len(block)), dtype=np.uint64)


class CountsPushes(Maximal):
    """Adds one for every block."""

    class state(MaximalState):
        def push(self, block: Block) -> Iterable[Block]:
            self.total += 1
            return super().push(block)


@attrs.frozen
class BatchesByBlock(Minimal):
    """Cuts every block into pieces of three rows, the last one as it may be."""

    emits: ClassVar[Emits] = "microbatches"
    microbatch_size: int = attrs.field(default=3, kw_only=True)

    class state(MinimalState):
        def push(self, block: Block) -> Iterable[Block]:
            return [block.slice(i, min(i + 3, len(block))) for i in range(0, len(block), 3)]

    def open(self, context: LaneContext) -> LaneState:
        return self.state()


class NeedsARow(Maximal):
    """Takes for granted that there was one."""

    class state(MaximalState):
        def finish(self) -> Iterable[Block]:
            return self.leave(self.held[0])


class DropsTheTail(Minimal):
    """Holds one row back, for good."""

    class state(MinimalState):
        def __init__(self) -> None:
            self.held: list[Block] = []

        def push(self, block: Block) -> Iterable[Block]:
            pool = Block.concat([*self.held, block])
            self.held = [pool.slice(len(pool) - 1, len(pool))]
            return [pool.slice(0, len(pool) - 1)]

        def snapshot(self) -> Snapshot:
            return Snapshot(blocks={str(i): block for i, block in enumerate(self.held)})

        def restore(self, snapshot: Snapshot) -> None:
            self.held = list(snapshot.blocks.values())

    def open(self, context: LaneContext) -> LaneState:
        return self.state()


class MakesARowTwice(DropsTheTail):
    """Off by one: a row that has left is still held."""

    class state(DropsTheTail.state):
        def push(self, block: Block) -> Iterable[Block]:
            self.held = [block.slice(len(block) - 1, len(block))]
            return [block]

        def finish(self) -> Iterable[Block]:
            return self.held


@attrs.frozen
class ReordersMicrobatches(DropsTheTail):
    """Microbatches of two rows, the later row first."""

    emits: ClassVar[Emits] = "microbatches"
    microbatch_size: int = attrs.field(default=2, kw_only=True)

    class state(DropsTheTail.state):
        def push(self, block: Block) -> Iterable[Block]:
            pool = Block.concat([*self.held, block])
            whole = len(pool) // 2 * 2
            self.held = [pool.slice(whole, len(pool))]
            return [pool.take(np.array([i + 1, i])) for i in range(0, whole, 2)]


class ChildrenLookAlike(Maximal):
    """Copies have the origin of the row, all of them."""

    class state(MaximalState):
        def derived(self, block: Block, data: pa.RecordBatch, parents: npt.NDArray[np.int64]) -> Block:
            return attrs.evolve(block, data=data, origins=block.origins.take(parents))


class CountsAnewAfterARestore(Maximal):
    """Addresses rows by lane and ordinal, and begins again at 0."""

    class state(MaximalState):
        made = 0

        def derived(self, block: Block, data: pa.RecordBatch, parents: npt.NDArray[np.int64]) -> Block:
            ordinals = np.arange(self.made, self.made + data.num_rows)
            self.made += data.num_rows
            return Block(data, type(block.origins).of_lane(self.context.lane, ordinals))


class FillsOneBuffer(Maximal):
    """Writes every result over the last one."""

    class state(MaximalState):
        def derived(self, block: Block, data: pa.RecordBatch, parents: npt.NDArray[np.int64]) -> Block:
            buffer = vars(self).setdefault("buffer", np.zeros(4096))
            place, n = data.schema.get_field_index("total"), data.num_rows
            buffer[:n] = data.column(place).to_numpy()
            shared = pa.Array.from_buffers(pa.float64(), n, [None, pa.py_buffer(buffer)])
            return super().derived(block, data.set_column(place, data.schema.field(place), shared), parents)


class CountsByColumn(DropsTheTail):
    """Counts rows by a column, of which there may be none."""

    class state(DropsTheTail.state):
        def push(self, block: Block) -> Iterable[Block]:
            return [block.slice(0, len(block.data.column(0)))]


class ForgetsTheTotal(Maximal):
    """Leaves something out of the snapshot."""

    class state(MaximalState):
        def snapshot(self) -> Snapshot:
            whole = super().snapshot()
            return attrs.evolve(whole, meta={**whole.meta, "total": 0.0})


class DropsTheTailOnRestore(Maximal):
    """Does not put back the last of the rows it held."""

    class state(MaximalState):
        def restore(self, snapshot: Snapshot) -> None:
            super().restore(snapshot)
            self.held = [block.slice(0, max(0, len(block) - 1)) for block in self.held]


class NumpyInMeta(Maximal):
    """A counter that JSON does not know."""

    class state(MaximalState):
        def snapshot(self) -> Snapshot:
            whole = super().snapshot()
            return attrs.evolve(whole, meta={**whole.meta, "ordinal": np.int64(self.ordinal)})


class TuplesInMeta(Maximal):
    """A tuple comes back as a list."""

    class state(MaximalState):
        def snapshot(self) -> Snapshot:
            whole = super().snapshot()
            return attrs.evolve(whole, meta={**whole.meta, "recent": tuple(self.recent)})


class SnapshotSharesAList(Maximal):
    """A snapshot holds the very list that goes on changing."""

    class state(MaximalState):
        def snapshot(self) -> Snapshot:
            whole = super().snapshot()
            return attrs.evolve(whole, meta={**whole.meta, "recent": self.recent})


class SnapshotTakesAway(Maximal):
    """Forgets what it has written down."""

    class state(MaximalState):
        def snapshot(self) -> Snapshot:
            whole = super().snapshot()
            self.recent = []
            return whole


class RestoresHalf(Maximal):
    """A counter that nothing uses before the next restore begins at 0."""

    class state(MaximalState):
        seen = 0

        def push(self, block: Block) -> Iterable[Block]:
            self.seen += len(block)
            return super().push(block)

        def snapshot(self) -> Snapshot:
            whole = super().snapshot()
            return attrs.evolve(whole, meta={**whole.meta, "seen": self.seen})


class RestoreSharesAList(Maximal):
    """Goes on in the very list of the snapshot."""

    class state(MaximalState):
        def restore(self, snapshot: Snapshot) -> None:
            super().restore(snapshot)
            self.recent = snapshot.meta["recent"]


def _opened(spec: Maximal, context: LaneContext, recent: list[float] = []) -> LaneState:  # noqa: B006 - the fault
    state = MaximalState(spec, context)
    state.recent = recent
    return state


class DefaultArgument(Maximal):
    """All lanes go on in one list."""

    def open(self, context: LaneContext) -> LaneState:
        return _opened(self, context)


class SameInEveryLane(Maximal):
    """The lane does not enter draws."""

    class state(MaximalState):
        def key(self) -> int:
            return self.context.key


class RaisesHalfWay(Maximal):
    """Takes the rows before the bad one, and is then asked to take them again."""

    class state(MaximalState):
        def push(self, block: Block) -> Iterable[Block]:
            bad = self.bad_rows(block)
            if bad and bad[0].row > 0:
                super().push(block.slice(0, bad[0].row))
            return super().push(block)


class NamesTheFirstBadRow(Maximal):
    """Gives up at the first row it cannot handle."""

    class state(MaximalState):
        def bad_rows(self, block: Block) -> list[BadRow]:
            return super().bad_rows(block)[:1]


class CountsFromOne(Maximal):
    """Off by one: names the row behind."""

    class state(MaximalState):
        def bad_rows(self, block: Block) -> list[BadRow]:
            return [BadRow((bad.row + 1) % len(block), bad.reason) for bad in super().bad_rows(block)]


class HoldsSlices(Maximal):
    """Keeps whole blocks alive for a few rows."""

    class state(MaximalState):
        def __init__(self, spec: Maximal, context: LaneContext) -> None:
            super().__init__(spec, context)
            self.came: list[Block] = []

        def push(self, block: Block) -> Iterable[Block]:
            self.came = [*self.came, block][-20:]
            return super().push(block)


class KeepsEverything(Maximal):
    """Holds on to rows that have left."""

    class state(MaximalState):
        def __init__(self, spec: Maximal, context: LaneContext) -> None:
            super().__init__(spec, context)
            self.past: list[Block] = []

        def push(self, block: Block) -> Iterable[Block]:
            self.past.append(block)
            return super().push(block)

        def snapshot(self) -> Snapshot:
            whole = super().snapshot()
            past = {f"past.{i:06d}": block for i, block in enumerate(self.past)}
            return attrs.evolve(whole, blocks={**whole.blocks, **past})

        def restore(self, snapshot: Snapshot) -> None:
            self.past = [snapshot.blocks[name] for name in sorted(snapshot.blocks) if name.startswith("past")]
            held: Mapping[str, Block] = {k: v for k, v in snapshot.blocks.items() if k.startswith("held")}
            super().restore(attrs.evolve(snapshot, blocks=held))


class RemembersEveryRow(Maximal):
    """Notes the number of every row there ever was."""

    class state(MaximalState):
        def snapshot(self) -> Snapshot:
            whole = super().snapshot()
            return attrs.evolve(whole, meta={**whole.meta, "rows": list(range(self.ordinal))})
