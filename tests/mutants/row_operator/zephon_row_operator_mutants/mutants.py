"""Row operators with one fault each."""

from __future__ import annotations

import os
import random as global_random
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon import random
from zephon.abc import OperatorContext, RowOperator
from zephon.block import Block
from zephon.errors import BadRow
from zephon.spec import execution
from zephon_row_operator_mutants.toys import Maximal, Minimal

#: The clause that must find each.
MUTANTS: Final = {
    "converts_twice": "OP-1",
    "is_no_attrs_class": "OP-1",
    "parallelism_shows": "OP-2",
    "placement_is_data": "OP-2",
    "swallows_options": "OP-3",
    "forgets_metadata": "OP-4",
    "schema_needs_setup": "OP-5",
    "reads_undeclared": "OP-6",
    "trips_over_types": "OP-7",
    "claims_to_preserve": "OP-8",
    "options": "OP-9",
    "writes_into_origins": "OP-10",
    "ignores_offsets": "OP-11",
    "draws_by_index": "OP-12",
    "draws_by_dataset_number": "OP-13",
    "global_generator": "OP-14",
    "seeds_the_generator": "OP-14",
    "python_hash": "OP-15",
    "wall_clock": "OP-15",
    "caches_on_the_class": "OP-15",
    "shares_its_surroundings": "OP-16",
    "leaks_a_file": "OP-17",
    "leaks_a_thread": "OP-17",
    "draws_from_the_system": "OP-18",
    "centres_on_the_block": "RO-1",
    "numbers_rows": "RO-2",
    "draws_by_position": "RO-3",
    "children_look_alike": "RO-4",
    "shifts_a_column": "RO-4",
    "forgets_the_lane": "RO-5",
    "types_from_values": "RO-6",
    "fills_one_buffer": "RO-7",
    "counts_by_column": "RO-8",
    "names_the_first_bad_row": "RO-9",
    "counts_from_one": "RO-9",
    "stays_broken": "RO-10",
    "same_in_every_epoch": "RO-11",
    "sets_up_once": "RO-12",
    "hogs_the_lock": "RO-13",
}


def _halved(value: float) -> float:
    return value / 2


@attrs.frozen
class ConvertsTwice(Minimal):
    """An option that changes whenever it is written down and read."""

    share: float = attrs.field(default=0.5, converter=_halved, kw_only=True)


class IsNoAttrsClass(RowOperator):
    """Options that nobody can write down."""

    def __init__(self, *, parallelism: int | None = None, placement: str | None = None) -> None:
        self.parallelism, self.placement = parallelism, placement

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """What comes in."""
        return schema

    def apply(self, block: Block) -> Block:
        """The block itself."""
        return block


class ParallelismShows(Maximal):
    """Another number of workers, another result."""

    def length(self, block: Block) -> pa.Array:
        return pc.add(super().length(block), self.parallelism or 0)


@attrs.frozen
class PlacementIsData(Minimal):
    """Where it runs enters the fingerprint."""

    placement: str | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(init=False)
class SwallowsOptions(Minimal):
    """A misspelt option has no effect."""

    def __init__(self, *, parallelism: int | None = None, placement: str | None = None, **options: Any) -> None:
        self.__attrs_init__(parallelism=parallelism, placement=placement)


class ForgetsMetadata(Maximal):
    """The schema promises metadata the columns do not have."""

    def table(self, block: Block, parents: npt.NDArray[np.int64], length: pa.Array) -> pa.RecordBatch:
        data = super().table(block, parents, length)
        return pa.record_batch(dict(zip(data.schema.names, data.columns, strict=True)))


class SchemaNeedsSetup(Maximal):
    """What comes out is known only once it has been set up."""

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        object.__setattr__(self, "_knows", True)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        promised = super().output_schema(schema)
        if getattr(self, "_knows", False):
            return promised
        return promised.remove(len(promised) - 1)


class ReadsUndeclared(Maximal):
    """Looks at a field that it does not name."""

    def length(self, block: Block) -> pa.Array:
        length = super().length(block)
        return pc.add(length, pc.list_value_length(block.data["tags"])) if "tags" in block.schema.names else length


class TripsOverTypes(Maximal):
    """Takes for granted that a field is there and a list."""

    @property
    def reads(self) -> Sequence[str] | None:
        return self.field, "tags"

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        assert schema.field("tags").type.value_type is not None
        return super().output_schema(schema)


class ClaimsToPreserve(Maximal):
    """Says that every row gives one row."""

    preserves_rows = True


class Options(Minimal):
    """A name that pipelines have for something else."""


class WritesIntoOrigins(Minimal):
    """Reuses the memory of what it was given."""

    def apply(self, block: Block) -> Block:
        made = Block(block.data, attrs.evolve(block.origins, phase=block.origins.phase.copy()), block.lane, block.index)
        block.origins.phase[:] += 1
        return made


class IgnoresOffsets(Maximal):
    """Reads the buffer of a column from its beginning."""

    def length(self, block: Block) -> pa.Array:
        if "score" not in block.schema.names:
            return super().length(block)
        buffer = block.data.column("score").buffers()[1]
        return pa.array(np.frombuffer(buffer, dtype=np.float64)[: len(block)]).cast(pa.int64(), safe=False)


class DrawsByIndex(Maximal):
    """Draws by the number of the row in the lane."""

    def words(self, block: Block) -> npt.NDArray[np.uint64]:
        return random.words(self._runtime.context.key, block.index + np.arange(len(block)))


class DrawsByDatasetNumber(Maximal):
    """Draws by the number of the dataset instead of its name."""

    def words(self, block: Block) -> npt.NDArray[np.uint64]:
        origins = block.origins
        state = random.combine(np.uint64(self._runtime.context.key), origins.dataset)
        for column in (origins.shard, origins.row, origins.epoch, origins.part):
            state = random.combine(state, column)
        return state


class GlobalGenerator(Maximal):
    """Draws from the generator everybody draws from."""

    def length(self, block: Block) -> pa.Array:
        return pa.array([global_random.randrange(100) for _ in range(len(block))], pa.int64())


class SeedsTheGenerator(Maximal):
    """Always draws the same, and makes everybody else do so."""

    def length(self, block: Block) -> pa.Array:
        np.random.seed(len(block) % 2)
        return super().length(block)


class PythonHash(Maximal):
    """Sorts texts into buckets by a hash that differs between processes."""

    def length(self, block: Block) -> pa.Array:
        return pa.array([hash(text) % 5 for text in block.data.column(self.field).to_pylist()], pa.int64())


class WallClock(Maximal):
    """Notes the day."""

    def length(self, block: Block) -> pa.Array:
        return pc.add(super().length(block), int(time.time() // 86400))


class CachesOnTheClass(Maximal):
    """Keeps the key of its first use for all later ones."""

    cache: Any = None

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        if type(self).cache is None:
            type(self).cache = context

    def words(self, block: Block) -> npt.NDArray[np.uint64]:
        context: OperatorContext = attrs.evolve(self._runtime.context, seed=type(self).cache.seed)
        return context.row_words(block.origins)


class SharesItsSurroundings(Maximal):
    """Keeps on the class what belongs to the instance."""

    latest: Any = None

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        type(self).latest = context

    def words(self, block: Block) -> npt.NDArray[np.uint64]:
        context: OperatorContext = type(self).latest
        return context.row_words(block.origins)


_OPENED: list[Any] = []


class LeaksAFile(Minimal):
    """Never closes what it opens."""

    def setup(self, context: OperatorContext) -> None:
        _OPENED.append(tempfile.TemporaryFile())  # noqa: SIM115 - the fault


class LeaksAThread(Minimal):
    """Never stops what it starts."""

    def setup(self, context: OperatorContext) -> None:
        threading.Thread(target=threading.Event().wait, daemon=True, name="leaked").start()


class DrawsFromTheSystem(Maximal):
    """Every run is another."""

    def length(self, block: Block) -> pa.Array:
        return pa.array(list(os.urandom(len(block))), pa.int64())


class CentresOnTheBlock(Maximal):
    """Takes the mean of whatever rows come together."""

    def length(self, block: Block) -> pa.Array:
        length = super().length(block)
        return pc.subtract(length, pc.mean(length).cast(pa.int64(), safe=False))


class NumbersRows(Maximal):
    """Counts on from call to call."""

    def length(self, block: Block) -> pa.Array:
        first = getattr(self._runtime, "count", 0)
        self._runtime.count = first + len(block)
        return pa.array(range(first, first + len(block)), pa.int64())


class DrawsByPosition(Maximal):
    """Draws by where in the block a row stands."""

    def words(self, block: Block) -> npt.NDArray[np.uint64]:
        return random.words(self._runtime.context.key, np.arange(len(block)))


class ChildrenLookAlike(Maximal):
    """Copies have the origin of the row, all of them."""

    def derived(self, block: Block, parents: npt.NDArray[np.int64], length: pa.Array) -> Block:
        return attrs.evolve(block, data=self.table(block, parents, length), origins=block.origins.take(parents))


class ShiftsAColumn(Minimal):
    """Off by one: a field goes to the next row."""

    def apply(self, block: Block) -> Block:
        place = block.schema.get_field_index("score")
        if place < 0:
            return block
        turned = block.data.column(place).take(pa.array(np.roll(np.arange(len(block)), 1)))
        return block.with_data(block.data.set_column(place, block.schema.field(place), turned))


class ForgetsTheLane(Minimal):
    """Makes a block with nothing but rows."""

    def apply(self, block: Block) -> Block:
        return Block(block.data, block.origins)


class TypesFromValues(Maximal):
    """Lets Arrow guess the type of what is there, and of what is not."""

    def table(self, block: Block, parents: npt.NDArray[np.int64], length: pa.Array) -> pa.RecordBatch:
        data = super().table(block, parents, length)
        if data.num_rows:
            return data
        return pa.record_batch({name: pa.array([]) for name in data.schema.names})


class FillsOneBuffer(Maximal):
    """Writes every result over the last one."""

    def length(self, block: Block) -> pa.Array:
        buffer = vars(self._runtime).setdefault("buffer", np.zeros(4096, dtype=np.int64))
        buffer[: len(block)] = super().length(block).to_numpy()
        return pa.Array.from_buffers(pa.int64(), len(block), [None, pa.py_buffer(buffer)])

    def table(self, block: Block, parents: npt.NDArray[np.int64], length: pa.Array) -> pa.RecordBatch:
        data = super().table(block, parents, length)
        place = data.schema.get_field_index("length")
        shared = length.slice(int(parents[0]), 1) if len(parents) == 1 else data.column(place)
        return data.set_column(place, data.schema.field(place), shared)


class CountsByColumn(Minimal):
    """Makes its result of columns, of which there may be none."""

    def apply(self, block: Block) -> Block:
        return block.with_data(pa.RecordBatch.from_arrays(block.data.columns, schema=block.schema))


class NamesTheFirstBadRow(Maximal):
    """Gives up at the first row it cannot handle."""

    def bad_rows(self, block: Block) -> list[BadRow]:
        return super().bad_rows(block)[:1]


class CountsFromOne(Maximal):
    """Off by one: names the row behind."""

    def bad_rows(self, block: Block) -> list[BadRow]:
        return [BadRow(bad.row + 1, bad.reason) for bad in super().bad_rows(block)]


class StaysBroken(Maximal):
    """Swallows the rows that come after a bad one."""

    def apply(self, block: Block) -> Block:
        if getattr(self._runtime, "failed", False):
            return self.derived(block, np.empty(0, dtype=np.int64), self.length(block))
        self._runtime.failed = bool(self.bad_rows(block))
        return super().apply(block)


class SameInEveryEpoch(Maximal):
    """Draws as if every pass were the first."""

    def words(self, block: Block) -> npt.NDArray[np.uint64]:
        first = attrs.evolve(block.origins, epoch=np.zeros(len(block), dtype=np.int64))
        context: OperatorContext = self._runtime.context
        return context.row_words(first)


@attrs.frozen(slots=False)
class SetsUpOnce(RowOperator):
    """Keeps in mind that it has been set up, though not with what."""

    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """One field more."""
        return schema.append(pa.field("draw", pa.uint64()))

    def setup(self, context: OperatorContext) -> None:
        """Keep the surroundings of the first time."""
        if "_context" not in vars(self):
            object.__setattr__(self, "_context", context)

    def apply(self, block: Block) -> Block:
        """Add a draw."""
        context: OperatorContext = vars(self)["_context"]
        columns = [*block.data.columns, pa.array(context.row_words(block.origins))]
        return block.with_data(pa.RecordBatch.from_arrays(columns, schema=self.output_schema(block.schema)))


@attrs.frozen
class HogsTheLock(Minimal):
    """Works in Python and says that it does not."""

    holds_gil = False

    def apply(self, block: Block) -> Block:
        """Some ten microseconds of Python a row."""
        for row in range(len(block)):
            sum(row ^ i for i in range(200))
        return block
