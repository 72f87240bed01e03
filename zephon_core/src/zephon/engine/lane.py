"""One lane at work: ordered stages, lane operator states, consistent cuts.

Blocks flow through the stages of a lane in order. A block that was read is a *carrier*: when a lane operator has taken
it, the snapshot of that operator travels on with the last block the push emitted (an empty one if there was none). When
a carrier leaves the last stage, the snapshots it has gathered are a consistent cut of the whole lane, at no cost.

Only the coordinator touches a lane's stages. Finished items leave through ``on_item``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import LaneContext, LaneOperator, LaneState, Snapshot
from zephon.block import Block, Origins, empty_batch, empty_columns
from zephon.checkpoint.state import LaneCheckpoint, StageState
from zephon.engine.program import ApplyTask, Dropped, ReadTask, RereadTask, TaskResult, avoidable, raise_bad_rows
from zephon.errors import BadRowsError, EngineError, WorkerLostError, ZephonError

Submit = Callable[[int, int, Any], "Future[TaskResult]"]  # lane, program, task


@attrs.frozen(slots=True, kw_only=True)
class LaneStage:
    """A run of row operators (if any), then a lane operator (none in the last stage).

    Attributes:
        program: index of the program of row operators, or None.
        emits: schema of what the lane operator emits.
        operator: the lane operator.
        context: its surroundings, of lane 0.
        rereads: index of the program that makes its held rows again from their origins, or None.
    """

    program: int | None
    emits: pa.Schema
    operator: LaneOperator | None = None
    context: LaneContext | None = None
    rereads: int | None = None


@attrs.frozen(slots=True, kw_only=True)
class Cut:
    """A consistent cut: everything before ``position`` has passed, leaving the operators in these states."""

    position: int
    stages: tuple[StageState, ...] = ()
    skipped: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen(slots=True, kw_only=True)
class Item:
    """What a lane hands over: a microbatch, a cut, both, or the reason it cannot go on.

    Attributes:
        block: a microbatch, or None.
        number: microbatches the lane has made, this one included.
        cut: the cut after it.
        frontier: source position this may depend on.
        skipped: rows set aside on the way here since the start, per dataset.
        counters: with the last item, what the operators have counted up to their end.
        failure: why the lane cannot go on.
        last: whether the lane has come to its end.
    """

    number: int
    frontier: int
    block: Block | None = None
    cut: Cut | None = None
    skipped: Mapping[str, int] = attrs.field(factory=dict)
    counters: Mapping[str, int] | None = None
    failure: BaseException | None = None
    last: bool = False


@attrs.define(slots=True)
class _Flow:
    """A block between two stages."""

    block: Block
    frontier: int
    cut: Cut | None = None
    skipped: Counter[str] | None = None
    failure: BaseException | None = None
    task: ReadTask | ApplyTask | None = None


class Lane:
    """The stages of one lane. All methods are called by the coordinator alone."""

    def __init__(
        self,
        number: int,
        stages: Sequence[LaneStage],
        *,
        submit: Submit,
        on_item: Callable[[int, Item], None],
        on_dropped: Callable[[int, Sequence[Dropped]], None],
        on_block: Callable[[int, Block], None] | None = None,
        dataset_names: Sequence[str],
        row_name: Callable[[int, int, int], str],
        length: int | None,
        batches: int | None,
        barren_after: int | None,
        silent_after: int | None,
        skips_bad_rows: bool,
        restored: LaneCheckpoint | None,
    ) -> None:
        self.number = number
        self._stages = stages
        self._submit = submit
        self._on_item = on_item
        self._on_dropped = on_dropped
        self._on_block = on_block
        self._datasets = dataset_names
        self._row_name = row_name
        self._length = length
        self._batches = batches
        self._barren_after = barren_after
        self._silent_after = silent_after
        self._since_made = 0  # rows read since the last microbatch left
        self._skips = skips_bad_rows
        restored = restored if restored is not None else LaneCheckpoint(lane=number)
        self.position = restored.position
        self._drop_until = restored.delivered
        self._made = restored.delivered - restored.since_cut
        self._skipped: Counter[str] = Counter(restored.counters.get("skipped", {}))
        self._pending: list[deque[tuple[Future[TaskResult] | None, _Flow]]] = [deque() for _ in stages]
        self._states: list[LaneState] = []
        self._emitted: list[int] = []
        self._leftover: list[Counter[str] | None] = [None for _ in stages]
        self._barren = [0] * len(stages)
        self._finished = 0  # lane operators whose finish() has run
        self.ended = False
        self.reading = 0
        self._rereads: list[tuple[int, str, list[Future[TaskResult]]]] = []
        self._snapshots: list[Snapshot] = []
        self._open_states(restored)

    # -- starting ---------------------------------------------------------------------------------------------------

    def _open_states(self, restored: LaneCheckpoint) -> None:
        for k, stage in enumerate(self._stages):
            if stage.operator is None or stage.context is None:
                continue
            self._states.append(stage.operator.open(attrs.evolve(stage.context, lane=self.number)))
            saved = restored.stages[k] if restored.stages else None
            self._emitted.append(saved.emitted if saved else 0)
            self._snapshots.append(saved.snapshot if saved else Snapshot())
            for name, origins in (saved.held if saved else {}).items():
                self._reread(k, name, origins)
        self._restored = bool(restored.stages)
        if self._restored and not self._rereads:
            self._restore_states()

    def _reread(self, k: int, name: str, origins: Origins) -> None:
        program = self._stages[k].rereads
        if program is None:
            raise EngineError(
                "the checkpoint holds rows by origin that this pipeline cannot make again",
                found=f"stage {k}, {name!r}",
                fix="restore with the version that wrote the checkpoint",
                code="reread-impossible",
            )
        step = 1024
        pieces = [origins.slice(i, min(i + step, len(origins))) for i in range(0, max(1, len(origins)), step)]
        futures = [self._submit(self.number, program, RereadTask(self.number, piece)) for piece in pieces]
        self._rereads.append((k, name, futures))

    def _restore_states(self) -> None:
        for k, name, futures in self._rereads:
            block = Block.concat([future.result().block for future in futures])
            snapshot = self._snapshots[k]
            self._snapshots[k] = attrs.evolve(snapshot, blocks={**snapshot.blocks, name: block})
        self._rereads = []
        for state, snapshot in zip(self._states, self._snapshots, strict=True):
            state.restore(snapshot)
        self._snapshots = []

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def may_read(self) -> bool:
        """Whether there is something left to read and a reason to."""
        return not (self.ended or self._exhausted or self._rereads)

    @property
    def busy(self) -> bool:
        """Whether anything is on its way through the stages."""
        return any(self._pending) or bool(self._rereads)

    @property
    def _exhausted(self) -> bool:
        at_end = self._length is not None and self.position >= self._length
        return at_end or (self._batches is not None and self._made >= self._batches)

    def read(self, rows: int) -> None:
        """Submit the next block of at most ``rows`` rows."""
        stop = self.position + rows
        if self._length is not None:
            stop = min(stop, self._length)
        program = self._stages[0].program
        assert program is not None
        task = ReadTask(self.number, self.position, stop)
        future = self._submit(self.number, program, task)
        flow = _Flow(_NO_ROWS, stop, Cut(position=stop), task=task)
        self._pending[0].append((future, flow))
        self.position = stop
        self.reading += 1

    def advance(self) -> None:
        """Take what is done, in order, through all stages; finish the operators when the source is exhausted."""
        if self.ended:
            return
        if self._rereads:
            if not all(f.done() for _, _, futures in self._rereads for f in futures):
                return
            try:
                self._restore_states()
            except Exception as error:  # noqa: BLE001 - handed to the consumer
                self._fail(error)
                return
        for k in range(len(self._stages)):
            self._take(k)
        self._finish_operators()

    def _take(self, k: int) -> None:
        pending = self._pending[k]
        while pending and not self.ended:
            future, flow = pending[0]
            if future is not None:
                if not future.done():
                    return
                pending.popleft()
                again = self._without_what_ends_workers(k, future, flow)
                if again is not None:
                    pending.appendleft((again, flow))
                    return
                if k == 0:
                    self.reading -= 1
                self._collect(k, future, flow)
            else:
                pending.popleft()
            self._after_rows(k, flow)

    def _collect(self, k: int, future: Future[TaskResult], flow: _Flow) -> None:
        try:
            result = future.result()
            if result.dropped:
                self._on_dropped(self.number, result.dropped)
            if self._on_block is not None:
                self._on_block(k, result.block)
        except Exception as error:  # noqa: BLE001 - handed to the consumer in order
            flow.failure = error
            return
        flow.block = result.block
        if k == 0:
            self._since_made += result.rows_in
            if self._silent_after is not None and self._since_made > self._silent_after:
                flow.failure = _barren(self.number, self._since_made)
                return
        self._skip(flow, result.dropped)
        if len(result.block):
            self._barren[k] = 0
        else:
            self._barren[k] += result.rows_in
            if self._barren_after is not None and self._barren[k] > self._barren_after:
                flow.failure = _barren(self.number, self._barren[k])

    def _without_what_ends_workers(self, k: int, future: Future[TaskResult], flow: _Flow) -> Future[TaskResult] | None:
        """Where a row has ended one worker after the other and bad rows are skipped: the task again, without it."""
        if not self._skips or flow.task is None or future.cancelled():
            return None
        error = future.exception()
        avoided = avoidable(error.note) if isinstance(error, WorkerLostError) else None
        program = self._stages[k].program
        if avoided is None or avoided in flow.task.avoid or program is None:
            return None
        flow.task = flow.task._replace(avoid=(*flow.task.avoid, avoided))
        return self._submit(self.number, program, flow.task)

    def _skip(self, flow: _Flow, dropped: Sequence[Dropped]) -> None:
        """Count rows that were set aside; the counts travel with the flow, and so with the cut."""
        if dropped:
            flow.skipped = (flow.skipped or Counter()) + Counter(self._name(d.origin[1]) for d in dropped)

    def _name(self, dataset: int) -> str:
        return self._datasets[dataset] if dataset >= 0 else "(packed)"

    # -- flowing ----------------------------------------------------------------------------------------------------

    def _enter(self, k: int, flow: _Flow) -> None:
        """A block arrives at stage ``k``."""
        program = self._stages[k].program
        if program is not None and len(flow.block) and flow.failure is None:
            flow.task = ApplyTask(flow.block)
            future = self._submit(self.number, program, flow.task)
            self._pending[k].append((future, flow))
        elif self._pending[k]:
            self._pending[k].append((None, flow))
        else:
            self._after_rows(k, flow)

    def _after_rows(self, k: int, flow: _Flow) -> None:
        """A block has passed the row operators of stage ``k``."""
        if k == len(self._stages) - 1:
            self._leave(flow)
            return
        if flow.failure is not None:
            self._enter(k + 1, flow)
            return
        try:
            outs = self._push(k, flow) if len(flow.block) else []
            cut = self._extend(k, flow.cut) if flow.cut is not None else None
        except Exception as error:  # noqa: BLE001 - handed to the consumer in order
            flow.failure = self._failed(k, error)
            self._enter(k + 1, flow)
            return
        self._emit(k, outs, flow, cut)

    def _push(self, k: int, flow: _Flow) -> list[Block]:
        """Push a block; rows the operator cannot take are set aside first where the policy says so."""
        state, block = self._states[k], flow.block
        try:
            return list(state.push(block))
        except BadRowsError as error:
            if not self._skips:
                raise_bad_rows(error, self._label(k), block.origins, self._row_name)
            dropped = [Dropped(self._label(k), block.origins.at(b.row), b.reason, b.offset) for b in error.rows]
            good = np.ones(len(block), dtype=bool)
            good[[bad.row for bad in error.rows]] = False
        # By contract push raises before it has changed anything, so the rest can be pushed again.
        self._on_dropped(self.number, dropped)
        self._skip(flow, dropped)
        rest = block.filter(good)
        return list(state.push(rest)) if len(rest) else []

    def _failed(self, k: int, error: Exception) -> Exception:
        """What a lane operator raised, with its name where the error is none of ours."""
        if isinstance(error, ZephonError):
            return error
        failure = EngineError(
            f"operator {self._label(k)!r} failed in lane {self.number}",
            found=f"{type(error).__name__}: {error}",
            fix="it is an error of the operator or of a function given to it; its traceback is above",
            code="operator-failed",
        )
        failure.__cause__ = error
        return failure

    def _label(self, k: int) -> str:
        context = self._stages[k].context
        assert context is not None
        return context.operator + (f"#{context.occurrence + 1}" if context.occurrence else "")

    def _extend(self, k: int, cut: Cut) -> Cut:
        """The cut with this operator's state after the push."""
        state = StageState(emitted=self._emitted[k], snapshot=self._states[k].snapshot())
        return attrs.evolve(cut, stages=(*cut.stages, state))

    def _emit(self, k: int, outs: Sequence[Block], flow: _Flow, cut: Cut | None) -> None:
        """Send what a lane operator emitted to the next stage, the carrier last."""
        blocks = self._numbered(k, outs)
        if cut is not None:
            # The snapshot was taken before the blocks were numbered.
            state = attrs.evolve(cut.stages[k], emitted=self._emitted[k])
            cut = attrs.evolve(cut, stages=(*cut.stages[:k], state))
            if not blocks:
                blocks = [Block(empty_batch(self._stages[k].emits), Origins.empty(), self.number, self._emitted[k])]
        if flow.skipped:
            self._leftover[k] = (self._leftover[k] or Counter()) + flow.skipped
        for i, block in enumerate(blocks):
            last = i == len(blocks) - 1
            skipped, self._leftover[k] = self._leftover[k], None
            self._enter(k + 1, _Flow(block, flow.frontier, cut if last else None, skipped))

    def _numbered(self, k: int, outs: Iterable[Block]) -> list[Block]:
        operator = self._stages[k].operator
        assert operator is not None
        batches = operator.emits == "microbatches"
        numbered = []
        for block in outs:
            numbered.append(Block(block.data, block.origins, self.number, self._emitted[k]))
            self._emitted[k] += 1 if batches else len(block)
        return numbered

    def _leave(self, flow: _Flow) -> None:
        """A block has passed the last stage."""
        if flow.failure is not None:
            self._fail(flow.failure)
            return
        if flow.skipped:
            # A new object: items handed over before refer to the old one.
            self._skipped = self._skipped + flow.skipped
        block = flow.block if len(flow.block) else None
        if block is not None:
            self._made += 1
            self._since_made = 0
            if self._made <= self._drop_until:
                return  # delivered before the restore; its cut would move a state that must not change yet
        if self._batches is not None and self._made > self._batches:
            return
        skipped = self._skipped
        cut = attrs.evolve(flow.cut, skipped=skipped) if flow.cut is not None else None
        if block is not None or (cut is not None and self._made >= self._drop_until):
            item = Item(block=block, number=self._made, cut=cut, frontier=flow.frontier, skipped=skipped)
            self._on_item(self.number, item)

    def _fail(self, error: BaseException) -> None:
        self.ended = True
        for pending in self._pending:
            pending.clear()
        self._on_item(self.number, Item(number=self._made, frontier=self.position, failure=error))

    def _finish_operators(self) -> None:
        """Finish one operator after the other once nothing can reach it any more."""
        if self.ended or self._length is None or self.position < self._length:
            return
        while self._finished < len(self._states) and not self.ended:
            if any(self._pending[k] for k in range(self._finished + 1)):
                return
            k = self._finished
            self._finished += 1
            try:
                outs = list(self._states[k].finish())
            except Exception as error:  # noqa: BLE001 - handed to the consumer in order
                self._enter(k + 1, _Flow(_NO_ROWS, self.position, failure=self._failed(k, error)))
            else:
                self._emit(k, outs, _Flow(_NO_ROWS, self.position), None)
        if not self.ended and not any(self._pending):
            self.ended = True
            self._on_item(self.number, self._end())

    def _end(self) -> Item:
        """The last item. What happened while the operators were finished comes after the last cut."""
        counters: Counter[str] = Counter()
        for state in self._states:
            counters.update(getattr(state, "counters", {}))
        skipped = sum(filter(None, self._leftover), self._skipped)
        return Item(number=self._made, frontier=self.position, skipped=skipped, counters=counters, last=True)


_NO_ROWS: Final = Block(empty_columns(0), Origins.empty())


def _barren(lane: int, rows: int) -> EngineError:
    return EngineError(
        f"lane {lane} has read {rows} rows, more than the data has, and no row has come through the operators",
        found="an endless source whose rows are all filtered out",
        fix="check the filter with zephon inspect, or set exhausted_policy so that the source ends",
        code="nothing-passes",
    )
