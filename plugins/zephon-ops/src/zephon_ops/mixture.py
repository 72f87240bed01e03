"""``ensure_mixture``: rows reordered so that the mixture stays on target."""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zephon.abc import Emits, LaneContext, LaneOperator, LaneState, Snapshot
from zephon.block import DOCUMENTS_FIELD, META_ROLE, Block
from zephon.errors import BadRow, BadRowsError, DataError, PlanError
from zephon.spec import execution
from zephon_ops.checks import at_least, name, positive_or_none
from zephon_ops.held import HeldRows, Int64Array, id_table, table_ids

#: Targets are counted in this fraction of a row or token, so that they are integers.
SCALE: Final = 1 << 24

#: A row leaves at the latest when this many times ``max_buffer_size`` later rows have come in.
PATIENCE: Final = 8

#: Bounds that keep SCALE times any sum of weights inside 64 bits.
_MAX_WEIGHT: Final = (1 << 32) - 1
_MAX_CAPACITY: Final = 1 << 38

_NONE: Final = np.iinfo(np.int64).max
_NEVER: Final = np.iinfo(np.int64).min


@attrs.frozen(slots=True)
class EnsureMixture(LaneOperator):
    """Reorder the rows of each lane so that the mixture stays on target at every point, by tokens or by rows.

    The curriculum keeps the mixture of *rows* on target. Where the rows of one dataset are longer than those of
    another, the mixture of *tokens* runs in bursts; this operator evens them out. It holds ``max_buffer_size`` rows
    back, and for every further row one leaves: of the component that is furthest behind its share of what has left so
    far. No row is added, dropped or changed, and none is overtaken by more than ``8 * max_buffer_size`` later ones.

    Rows can be reordered, not made up: if a component brings in less than its share for good, its rows leave as soon as
    they come, and no more can be done here. Such a deficit is remembered up to what the buffer ever held. To have it
    made good, set the weights of the mixture in tokens.

    Args:
        max_buffer_size: rows held back in each lane.
        weight_by: ``"rows"``; ``"tokens"``: the length of the token column; ``"auto"``: tokens where there is a token
            column, else rows; or the name of a field: the length of a list, or an integer taken as it is.
        warn_tolerance: warn once per lane when, after ``max_buffer_size`` rows, the share of a component is off its
            target by more than this (0.05: five percentage points).

    Raises:
        ConfigError: ``operator-argument``.
        PlanError: ``mixture-weight`` for a field that is missing or has neither length nor integers;
            ``mixture-after-packing``: packed rows belong to several components.
    """

    emits: ClassVar[Emits] = "rows"
    preserves_rows = True

    max_buffer_size: int = attrs.field(default=1000, validator=at_least(1))
    weight_by: str = attrs.field(default="auto", validator=name)
    warn_tolerance: float | None = execution(default=None, kw_only=False, validator=positive_or_none)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    @property
    def reads(self) -> Sequence[str] | None:
        """The field named by ``weight_by``, if it names one."""
        return () if self.weight_by in ("auto", "rows", "tokens") else (self.weight_by,)

    def reads_of(self, schema: pa.Schema) -> Sequence[str] | None:
        """The field rows are weighed by in this schema."""
        field = self._weight_field(schema)
        return () if field is None else (field,)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """What comes in."""
        if DOCUMENTS_FIELD in schema.names:
            raise PlanError(
                "ensure_mixture comes after packing",
                found="rows that hold documents of several components",
                fix="put .ensure_mixture(...) before .pack_flat(...)",
                code="mixture-after-packing",
            )
        self._weight_field(schema)
        return schema

    def open(self, context: LaneContext) -> LaneState:
        """An empty buffer."""
        return _MixtureState(self, context, self._weight_field(context.schema))

    def state_bytes(self, schema: pa.Schema, row_bytes: float) -> int:
        """A full buffer that has not been compacted yet: twice its rows."""
        return int(2 * self.max_buffer_size * row_bytes)

    def _weight_field(self, schema: pa.Schema) -> str | None:
        """The field rows are weighed by; None: every row weighs 1."""
        if self.weight_by == "rows":
            return None
        if self.weight_by in ("auto", "tokens"):
            tokens = [field.name for field in schema if (field.metadata or {}).get(META_ROLE) == b"tokens"]
            if not tokens and self.weight_by == "tokens":
                raise self._no_weight("no token column", schema)
            return tokens[0] if tokens else None
        if self.weight_by not in schema.names:
            raise self._no_weight(f"no field {self.weight_by!r}", schema)
        t = schema.field(self.weight_by).type
        if not (pa.types.is_list(t) or pa.types.is_integer(t)):
            raise self._no_weight(f"{self.weight_by!r} is {t}: neither a list nor an integer", schema)
        return self.weight_by

    def _no_weight(self, found: str, schema: pa.Schema) -> PlanError:
        return PlanError(
            f"ensure_mixture cannot weigh rows by {self.weight_by!r}",
            found=f"{found}; the fields are {', '.join(schema.names) or 'none'}",
            fix='weight_by="rows", a field with lengths, or put it after .tokenize(...)',
            code="mixture-weight",
        )


class _MixtureState(LaneState):
    """Queues of held rows by component; a row's id is its ordinal in the lane.

    The fold, one row at a time. Row ``i`` joins the queue of its component. While more than ``max_buffer_size`` rows
    are held, one leaves; the ``n``-th to leave does so under the target of the phase that the ``n``-th row to come in
    was drawn in. If more than ``PATIENCE * max_buffer_size`` rows have come in after the oldest row held, that one
    leaves. Else it is the oldest of the component with the largest credit, the first by name among equals. If it weighs
    ``a``, every component's credit grows by ``a`` times its share (integers that sum to SCALE), and its own falls by
    ``a * SCALE``. Credits are then cut to what the buffer has held at most: a larger deficit could never be made good.
    """

    def __init__(self, spec: EnsureMixture, context: LaneContext, field: str | None) -> None:
        self._size = spec.max_buffer_size
        self._tolerance = spec.warn_tolerance
        self._field = field
        self._context = context
        self._names = sorted(context.components)
        ranks = {name: rank for rank, name in enumerate(self._names)}
        self._rank = np.array([ranks[name] for name in context.components], dtype=np.int64)
        self._shares: dict[int, Int64Array] = {}
        self._queues: list[deque[tuple[int, int]]] = [deque() for _ in self._names]  # (id, weight), oldest first
        self._heads = np.full(len(self._names), _NONE, dtype=np.int64)  # id of each queue's oldest row
        self._credit = np.zeros(len(self._names), dtype=np.int64)
        self._phases: deque[list[int]] = deque()  # [phase, rows]: of the rows that came in after the last pair
        self._arrived = 0
        self._left = 0
        self._weight = 0  # of the rows held
        self._capacity = 0  # the largest it has been
        self._emitted = [0] * len(self._names)
        self._target = [0] * len(self._names)  # in 1 / SCALE, up to what _since holds
        self._since: Counter[int] = Counter()  # weight that has left since, by phase
        self._warned = False
        self._held = HeldRows()

    def push(self, block: Block) -> Iterable[Block]:
        ranks, weights = self._ranks(block), self._weights(block)
        ids = np.arange(self._arrived, self._arrived + len(block), dtype=np.int64)
        self._held.append(block, ids)
        leaving: list[int] = []
        rows = zip(ids.tolist(), ranks.tolist(), weights.tolist(), block.origins.phase.tolist(), strict=True)
        for row, rank, weight, phase in rows:  # which row leaves depends on all that left before: a true recurrence
            self._arrive(row, rank, weight, phase)
            if self._arrived - self._left > self._size:
                leaving.append(self._leave())
        blocks = self._held.take(np.array(leaving, dtype=np.int64))
        self._held.settle(self._ids)
        self._account()
        return blocks

    def finish(self) -> Iterable[Block]:
        leaving = [self._leave() for _ in range(self._arrived - self._left)]
        self._account()
        return self._held.take(np.array(leaving, dtype=np.int64))

    def _arrive(self, row: int, rank: int, weight: int, phase: int) -> None:
        queue = self._queues[rank]
        if not queue:
            self._heads[rank] = row
        queue.append((row, weight))
        if self._phases and self._phases[-1][0] == phase:
            self._phases[-1][1] += 1
        else:
            self._phases.append([phase, 1])
        self._arrived += 1
        self._weight += weight
        self._capacity = min(max(self._capacity, self._weight), _MAX_CAPACITY)

    def _leave(self) -> int:
        phase = self._next_phase()
        share = self._share(phase)
        oldest = int(self._heads.argmin())
        if self._arrived - 1 - int(self._heads[oldest]) > PATIENCE * self._size:
            rank = oldest
        else:
            rank = int(np.where(self._heads == _NONE, _NEVER, self._credit).argmax())
        queue = self._queues[rank]
        row, weight = queue.popleft()
        self._heads[rank] = queue[0][0] if queue else _NONE
        self._credit += weight * share
        self._credit[rank] -= weight * SCALE
        limit = self._capacity * SCALE
        np.minimum(self._credit, limit, out=self._credit)
        np.maximum(self._credit, -limit, out=self._credit)
        self._emitted[rank] += weight
        self._since[phase] += weight
        self._left += 1
        self._weight -= weight
        return row

    def _next_phase(self) -> int:
        pair = self._phases[0]
        pair[1] -= 1
        if pair[1] == 0:
            self._phases.popleft()
        return pair[0]

    def _share(self, phase: int) -> Int64Array:
        """Each component's share in a phase, in 1 / SCALE: int64 ``[components]``, of sum SCALE."""
        share = self._shares.get(phase)
        if share is None:
            weights = self._context.phases[phase].weights
            bounds = np.cumsum([0, *(weights.get(name, 0) for name in self._names)], dtype=np.int64)
            # Weights sum to at most 2^30, so the products fit.
            share = self._shares[phase] = np.diff(bounds * SCALE // bounds[-1])
        return share

    def _ranks(self, block: Block) -> Int64Array:
        components = block.origins.component
        if ((components < 0) | (components >= len(self._rank))).any():
            raise DataError(
                "ensure_mixture got a row that belongs to no component of the mixture",
                found=f"component {int(components.min())} of {len(self._rank)}",
                fix="put .ensure_mixture(...) before operators that make one row of several",
                code="mixture-unknown-component",
            )
        return self._rank[components]

    def _weights(self, block: Block) -> Int64Array:
        """What each row counts: int64 ``[rows]``; nothing for a null."""
        if self._field is None:
            return np.ones(len(block), dtype=np.int64)
        column = block.data.column(self._field)
        if pa.types.is_list(column.type):
            return pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        outside = pc.or_kleene(pc.less(column, 0), pc.greater(column, _MAX_WEIGHT))
        bad = np.flatnonzero(pc.fill_null(outside, False).to_numpy(zero_copy_only=False))
        if len(bad):
            raise BadRowsError(
                [BadRow(int(i), f"{self._field!r} is {column[int(i)]}, not in 0..{_MAX_WEIGHT}") for i in bad],
                what="ensure_mixture cannot weigh a row",
                code="mixture-weight",
            )
        return pc.fill_null(column, 0).to_numpy().astype(np.int64)

    def _ids(self) -> Int64Array:
        return np.fromiter((row for queue in self._queues for row, _ in queue), np.int64, self._arrived - self._left)

    def _account(self) -> None:
        """Bring the targets up to date; say so where the mixture misses them."""
        for phase, weight in self._since.items():
            share = self._share(phase).tolist()
            self._target = [target + weight * part for target, part in zip(self._target, share, strict=True)]
        self._since.clear()
        total = sum(self._emitted)
        if self._tolerance is None or self._warned or self._left <= self._size or not total:
            return
        wanted = [target / SCALE / total for target in self._target]
        found = [emitted / total for emitted in self._emitted]
        worst = max(range(len(found)), key=lambda rank: abs(found[rank] - wanted[rank]))
        if abs(found[worst] - wanted[worst]) > self._tolerance:
            self._warned = True
            warnings.warn(
                f"ensure_mixture: after {self._left} rows of lane {self._context.lane}, {self._names[worst]!r} has a "
                f"share of {found[worst]:.3f} by {self._field or 'rows'}, where {wanted[worst]:.3f} is the target. "
                "Rows can be reordered, not made up: set the mixture by tokens, or raise max_buffer_size.",
                stacklevel=2,
            )

    def snapshot(self) -> Snapshot:
        meta = {
            "arrived": self._arrived,
            "left": self._left,
            "capacity": self._capacity,
            "phases": [list(pair) for pair in self._phases],
            "credit": dict(zip(self._names, self._credit.tolist(), strict=True)),
            "emitted": dict(zip(self._names, self._emitted, strict=True)),
            "target": dict(zip(self._names, self._target, strict=True)),
        }
        return self._held.snapshot(meta, {"held": id_table(np.sort(self._ids()))})

    def restore(self, snapshot: Snapshot) -> None:
        meta = snapshot.meta
        self._arrived, self._left, self._capacity = meta["arrived"], meta["left"], meta["capacity"]
        self._phases = deque(list(pair) for pair in meta["phases"])
        # By name: a schedule extended on resume may have brought in components.
        self._credit = np.array([meta["credit"].get(name, 0) for name in self._names], dtype=np.int64)
        self._emitted = [meta["emitted"].get(name, 0) for name in self._names]
        self._target = [meta["target"].get(name, 0) for name in self._names]
        held = table_ids(snapshot.tables["held"])
        self._held.restore(snapshot, held)
        for piece in self._held.pieces:
            rows = np.flatnonzero(np.isin(piece.ids, held))
            ranks, weights = self._ranks(piece.block)[rows], self._weights(piece.block)[rows]
            for row, rank, weight in zip(piece.ids[rows].tolist(), ranks.tolist(), weights.tolist(), strict=True):
                self._queues[rank].append((row, weight))
                self._weight += weight
        for rank, queue in enumerate(self._queues):
            self._heads[rank] = queue[0][0] if queue else _NONE
