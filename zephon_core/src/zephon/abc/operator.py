"""``zephon.operator.v1``: the steps of a pipeline.

An operator is a frozen attrs class whose fields *are* its spec. Two kinds:

- a :class:`RowOperator` is pure, row by row: ``f(a ++ b) == f(a) ++ f(b)`` for every split of the input. Runners
  execute it anywhere, in any order, as often as needed.
- a :class:`LaneOperator` is a fold over the rows of one lane: its output depends on the row sequence alone, not on how
  it was cut into blocks. It lives in the coordinator, and its state is what a checkpoint holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon import random
from zephon.block import Block, Origins


@attrs.frozen(slots=True, kw_only=True)
class PhaseWeights:
    """The mixture in force in one phase of the curriculum.

    Attributes:
        weights: integer weight by component name.
    """

    weights: Mapping[str, int]


@attrs.frozen(slots=True, kw_only=True)
class OperatorContext:
    """What an operator may know about its surroundings: nothing that varies between runs of the same spec.

    Attributes:
        seed: the pipeline's seed.
        operator: registered name of the operator.
        occurrence: 0 for the first use of that name in the pipeline, 1 for the second, ...
        datasets: dataset names; ``origins.dataset`` indexes them.
        components: component names; ``origins.component`` indexes them.
        schema: input schema of the operator.
        phases: integer mixture weights by phase; ``origins.phase`` indexes them.
        batch_view: makes of a block that is one microbatch what the user's functions receive, a ``Batch``; the
            inverse is its ``block`` attribute. Only for operators after ``batch``.
    """

    seed: int = 0
    operator: str = ""
    occurrence: int = 0
    datasets: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    schema: pa.Schema = attrs.field(factory=lambda: pa.schema([]))
    phases: tuple[PhaseWeights, ...] = ()
    batch_view: Callable[[Block], Any] | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def key(self) -> int:
        """The 64-bit key all randomness of this operator derives from."""
        return random.derive_key("operator", self.seed, self.operator, self.occurrence)

    def row_words(self, origins: Origins) -> npt.NDArray[np.uint64]:
        """One random word per row, addressed by the row's origin: uint64 ``[n]``.

        Datasets enter by name, so adding or reordering datasets changes no draw. ``phase`` does not enter.
        """
        names = np.array([random.derive_key("dataset", name) for name in self.datasets] + [0], dtype=np.uint64)
        # dataset -1 (rows of several samples, addressed by lane and ordinal) picks the last entry
        state = random.combine(np.uint64(self.key), names[origins.dataset])
        for column in (origins.shard, origins.row, origins.epoch, origins.part):
            state = random.combine(state, column)
        return state


@attrs.frozen(slots=True, kw_only=True)
class LaneContext(OperatorContext):
    """An :class:`OperatorContext` inside one lane.

    Attributes:
        lane: which of the fixed logical streams.
        lanes: how many there are.
    """

    lane: int = 0
    lanes: int = 1

    @property
    def lane_key(self) -> int:
        """The 64-bit key of this operator in this lane; draws add an ordinal."""
        return random.derive_key("lane", self.key, self.lane)


@attrs.frozen(slots=True, kw_only=True)
class Snapshot:
    """What a lane operator must remember, as data: immutable, cheap, made of references to Arrow memory.

    Attributes:
        meta: plain data (JSON): counters, cursors, small lists.
        blocks: held rows by name. The engine may store them as origins alone and read them again.
        tables: other Arrow data by name, stored as it is.
    """

    meta: Mapping[str, Any] = attrs.field(factory=dict)
    blocks: Mapping[str, Block] = attrs.field(factory=dict)
    tables: Mapping[str, pa.RecordBatch] = attrs.field(factory=dict)


class Operator(ABC):
    """What both kinds share."""

    @property
    def preserves_rows(self) -> bool:
        """Whether every input row gives exactly one output row, so that lane lengths stay computable.

        An operator may say so per instance (a property) or once for all (a class attribute).
        """
        return False

    @property
    def reads(self) -> Sequence[str] | None:
        """Top-level fields the operator needs, or None for all of them.

        Planning checks them against every dataset and pushes what is not needed out of the readers. Fields that are
        passed through untouched are not listed.
        """
        return ()

    def reads_of(self, schema: pa.Schema) -> Sequence[str] | None:
        """What it reads of this input schema: for operators that find their field by its metadata."""
        return self.reads

    @property
    def optional_reads(self) -> Sequence[str]:
        """Fields used where they are present: that some datasets lack them is no error."""
        return ()

    if TYPE_CHECKING:
        # An operator may give these facts as properties, class attributes or attrs fields. mypy goes by the first
        # declaration and checks all three forms. Pyright goes by the last: it takes nothing but a property for a
        # property, and no read-only type of its own admits the other forms.
        preserves_rows: Any  # type: ignore[no-redef]
        reads: Any  # type: ignore[no-redef]
        optional_reads: Any  # type: ignore[no-redef]

    @abstractmethod
    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of what comes out, given that of what comes in, field metadata included.

        Raises:
            PlanError: a field has a type the operator cannot use.
        """


class RowOperator(Operator):
    """Pure, row by row. One instance is used by one thread at a time."""

    def setup(self, context: OperatorContext) -> None:
        """Load what ``apply`` needs into a ``runtime()`` field. Called once per worker."""

    @abstractmethod
    def apply(self, block: Block) -> Block:
        """Map one block; its data has the input schema.

        Rows may be dropped or multiplied: :meth:`Block.derive` takes the parent of each new row. Zero-row blocks are
        never passed in. The input is not modified.

        Raises:
            BadRowsError: rows that cannot be handled: *all* bad ones of the call, by position in the block. Any other
                exception is narrowed down to the row by calling again with fewer rows.
        """

    def teardown(self) -> None:
        """Release what ``setup`` loaded."""


class LaneState(ABC):
    """A lane operator at work in one lane."""

    @abstractmethod
    def push(self, block: Block) -> Iterable[Block]:
        """Take the next rows of the lane (at least one), return the blocks that are ready.

        Emitted blocks carry their own origins; the engine sets ``lane`` and ``index``.

        Raises:
            BadRowsError: rows that cannot be taken, all of the call, before anything has changed: the rest can be
                pushed again.
        """

    @abstractmethod
    def finish(self) -> Iterable[Block]:
        """The lane has ended: return what is left. Called at most once, nothing is pushed afterwards."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The state after the pushes so far. Later pushes do not change a snapshot taken earlier."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Become the state the snapshot was taken of. Called on a fresh state, before any push."""


#: ``rows``: what comes out are the rows that came in, untouched, in another order; ``new``: anything else;
#: ``microbatches``: every emitted block is one microbatch and is never cut or joined afterwards; the operator then has
#: an attribute ``microbatch_size``, the rows of every batch but the last.
Emits = Literal["rows", "new", "microbatches"]


class LaneOperator(Operator):
    """A fold over the rows of one lane."""

    emits: ClassVar[Emits] = "new"

    @abstractmethod
    def open(self, context: LaneContext) -> LaneState:
        """A fresh state for one lane."""

    def state_bytes(self, schema: pa.Schema, row_bytes: float) -> int:
        """Estimate of the bytes one lane's state holds when full, given the average bytes of an input row.

        What is too large for ``memory_limit`` is refused when the pipeline is planned.
        """
        return 0


@runtime_checkable
class InfersSchema(Protocol):
    """An operator around a Python function whose output schema is found by running it."""

    @property
    def schema_is_known(self) -> bool:
        """Whether ``output_schema`` can answer without a sample."""

    def infer(self, samples: Sequence[Block], context: LaneContext) -> Operator:
        """The same operator with its schema frozen.

        Args:
            samples: per dataset, its first rows (at most 64) as they reach this operator; never modified.
            context: as in a run, lane 0 of 1.

        Raises:
            PlanError: ``schema-not-inferable``: outputs do not unite, or no row came out.
        """


@runtime_checkable
class HasContent(Protocol):
    """An operator whose output depends on content its spec only names, e.g. a tokenizer file."""

    def content(self) -> Mapping[str, Any]:
        """Plain data that identifies the content (hashes); enters the fingerprint."""


@runtime_checkable
class HoldsGil(Protocol):
    """A row operator that says whether ``apply`` holds the interpreter lock, so that ``runner="auto"`` need not ask.

    Where every operator of a stage says no, the stage runs on threads. Where one says yes, or nothing, it is measured
    whether processes pay. No result depends on the answer.
    """

    @property
    def holds_gil(self) -> bool | None:
        """Whether most of the time of ``apply`` goes into Python code.

        False where it goes into code that releases the lock: Arrow, numpy on large arrays, tokenizers, decompression.
        None where that depends on what the operator was given.
        """
