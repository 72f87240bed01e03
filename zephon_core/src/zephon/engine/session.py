"""One run of a plan: runner, lanes and delivery, started, checkpointed and closed together."""

from __future__ import annotations

import itertools
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from zephon.abc import CheckpointState, Program, Runner
from zephon.batch import Batch
from zephon.block import Block
from zephon.checkpoint.merging import Merged, lane_key
from zephon.checkpoint.state import LaneCheckpoint, encode_header, encode_lane
from zephon.engine.coordinator import Coordinator
from zephon.engine.delivery import Cursor, Delivery
from zephon.engine.explain import describe
from zephon.engine.lane import Lane
from zephon.engine.observe import ObservedProgram, ObservedWorkers
from zephon.engine.plan import Plan, function_sources, versions
from zephon.engine.program import Dropped
from zephon.engine.quarantine import Quarantine, quarantine_entry
from zephon.errors import DataError, EngineError
from zephon.plugins import hooks, registry


@attrs.frozen(slots=True, kw_only=True)
class Start:
    """Where a run begins: the rank's place in its round, and the lanes it was restored from.

    Attributes:
        round: rounds delivered so far.
        slot: batches of the current round this rank has delivered.
        lanes: owned lanes, decoded.
        raw: their bytes.
    """

    round: int = 0
    slot: int = 0
    lanes: Mapping[int, LaneCheckpoint] = attrs.field(factory=dict)
    raw: Mapping[int, bytes] = attrs.field(factory=dict)

    @staticmethod
    def of(merged: Merged, plan: Plan) -> Start:
        """The part of a merged checkpoint that this rank owns."""
        owned = plan.topology.owned
        return Start(
            round=int(merged.header["round"]),
            slot=int(merged.header["slot"]),
            lanes={lane: merged.lanes[lane] for lane in owned},
            raw={lane: merged.raw[lane] for lane in owned},
        )


_RUNS = itertools.count()

#: Passes over little data, and rows of much data, that a lane reads before it gives up on a filter nothing passes.
PASSES_OF_LITTLE: Final = 32
MUCH_DATA: Final = 1 << 20
#: How many times over lane operators may take in what they can hold before they have to let something out.
PATIENCE: Final = 64


class Session:
    """A run. Threads start with the first batch asked for and end with ``close``; the position outlives them."""

    def __init__(self, plan: Plan, start: Start) -> None:
        self._closed = False
        self._announced = False
        self._started = False
        # An observer, or a function of the user, may close the run from within.
        self._lock = threading.RLock()
        self._runner_name, self._runner = make_runner(plan)
        facts = self._runner.facts
        workers = facts.workers
        self.plan = plan = plan.opened(1 if facts.shares_memory else workers)
        # A quarter of the limit is the reader's; operator state is what it is; the rest is for work in flight.
        budget = max(1 << 20, plan.memory_limit * 3 // 4 - plan.state_bytes * len(plan.topology.owned))
        self._coordinator = Coordinator(
            self._runner,
            budget=budget,
            prefetch=plan.options.prefetch_batches,
            block_rows=plan.options.block_rows,
            row_bytes=plan.row_bytes,
        )
        self._workers = workers
        self._start = start
        names, schema = plan.facts.datasets, plan.chain.output
        self._cursors = {
            lane: Cursor(lane, names, schema, start.lanes.get(lane), start.raw.get(lane))
            for lane in plan.topology.owned
        }
        self._delivery = Delivery(
            plan.topology,
            self._coordinator,
            self._cursors,
            ending=plan.ending,
            facts=plan.facts,
            schema=plan.chain.output,
            round_=start.round,
            slot=start.slot,
        )
        self._header = {
            "versions": versions(),
            "fingerprint": plan.fingerprint,
            "lanes": plan.lanes,
            "spec": plan.spec,
            "functions": function_sources(plan.chain),
        }
        # Rows set aside after the cut will be met, and counted, once more.
        self._bad_rows = Counter({lane: sum(c.cut.skipped.values()) for lane, c in self._cursors.items()})
        self._run = next(_RUNS)
        self._hooks = hooks()
        policy = plan.options.on_error
        self._quarantine = Quarantine(policy.path, self._describe) if policy.path else None

    # -- running ------------------------------------------------------------------------------------------------------

    def next(self) -> Batch | None:
        """The next batch, or None at the end.

        Raises:
            EngineError: ``iterator-closed``, or whatever stopped the run.
        """
        if self._closed:
            if self._delivery.done:
                return None
            raise _iterator_closed()
        try:
            if not self._started:
                self._begin()
            batch = self._delivery.next(self._announce)
        except BaseException as error:
            # What was delivered stays countable, so the state before the failure can still be saved. Ctrl-C may have
            # struck in the middle of a lane's work on this thread: going on with it could lose rows.
            if self._end() or not isinstance(error, Exception):
                raise
            # Closed meanwhile from another thread: whatever broke here broke because of that.
            raise _iterator_closed() from error
        if batch is None:
            self.close()
            if self._delivery.round == 0:
                warnings.warn(
                    "the run has ended without a single batch: no full round came through the operators; "
                    'look at the filters, or use .options(tail="pad")',
                    stacklevel=3,
                )
        return batch

    def _announce(self, batch: Batch, round_: int) -> None:
        self._tell("batch", batch=batch, round=round_)

    def _tell(self, hook: str, **event: Any) -> None:
        if self._hooks is not None and self._hooks.has(hook):
            self._hooks.call(hook, run=self._run, **event)

    def _begin(self) -> None:
        programs: Sequence[Program] = self.plan.programs
        if self._hooks is not None:
            self._announced = True
            self._tell("plan", plan=describe(self.plan))
        if self._hooks is not None and self._runner.facts.shares_memory:
            workers = ObservedWorkers(self._hooks, {"run": self._run, "runner": self._runner_name})
            programs = [ObservedProgram(program, workers) for program in programs]
        # Who closes meanwhile, from another thread, waits until there is something whole to close.
        with self._lock:
            if self._closed:
                raise _iterator_closed()
            self._started = True
            self._runner.start(programs)
            self._coordinator.start(self.plan.topology.owned, self._make_lane)

    def _make_lane(self, number: int) -> Lane:
        plan = self.plan
        batches = plan.rounds
        if plan.lengths is None:
            # A lane meets rows at random: where one of n passes, n draws may miss it, and many times n surely do not.
            # Of much data one pass is enough: nobody would wait for a row of a million.
            rows = sum(d.total() for d in plan.datasets)
            barren_after = max(rows, min(PASSES_OF_LITTLE * rows, MUCH_DATA))
        else:
            barren_after = None
        return Lane(
            number,
            plan.stages,
            submit=self._coordinator.submit,
            on_item=self._coordinator.put,
            on_dropped=self._on_dropped,
            on_block=self._on_block if self._hooks is not None and self._hooks.has("block") else None,
            dataset_names=plan.facts.datasets,
            row_name=plan.programs[0].source.row_name,
            length=plan.lengths[number] if plan.lengths is not None else None,
            batches=batches,
            barren_after=barren_after,
            silent_after=silent_after(plan),
            skips_bad_rows=plan.options.on_error.action != "raise",
            restored=self._start.lanes.get(number),
        )

    def close(self) -> None:
        """Stop threads, release files. May be called twice, from any thread."""
        self._end()

    def _end(self) -> bool:
        """Close; whether it was open until now."""
        with self._lock:
            if self._closed:
                return False
            self._closed = True
        self._coordinator.stop()
        self._runner.close()
        self.plan.reader.close()
        if self._announced:
            self._tell("close", stats=self.stats())
        return True

    def _on_block(self, stage: int, block: Block) -> None:
        self._tell("block", stage=stage, block=block)

    # -- bad rows -----------------------------------------------------------------------------------------------------

    def _on_dropped(self, lane: int, dropped: Sequence[Dropped]) -> None:
        policy = self.plan.options.on_error
        first_of_lane = any(slot.lane == lane and slot.rows[0] == 0 for slot in self.plan.topology.slots)
        if first_of_lane:
            fresh = self._quarantine.write(lane, dropped) if self._quarantine is not None else dropped
            if fresh:
                self._tell("quarantine", entries=[quarantine_entry(entry, self._describe) for entry in fresh])
        self._bad_rows[lane] += len(dropped)
        if self._bad_rows[lane] > policy.budget:
            last = dropped[-1]
            raise DataError(
                f"lane {lane} has set aside {self._bad_rows[lane]} rows, more than its budget",
                found=f"budget {policy.budget}; the last one, at {last.where}: {last.reason}",
                fix='look at the data, or raise the budget: .options(on_error={"action": ..., "budget": ...})',
                code="bad-row-budget",
            )

    def _describe(self, entry: Dropped) -> dict[str, Any]:
        _, dataset, shard, row, *_ = entry.origin
        if dataset < 0:
            return {"dataset": None, "shard": None, "row": row}
        found = self.plan.datasets[dataset]
        return {"dataset": found.name, "shard": found.shard_names[shard], "row": row}

    # -- state --------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> CheckpointState:
        """The owned lanes as the consumer has seen them, at this moment."""
        lanes = {}
        by_origin = self.plan.by_origin
        for lane, cursor in self._cursors.items():
            data = cursor.unchanged
            if data is None:
                data = encode_lane(cursor.state(), by_origin if cursor.cut.stages else ())
            lanes[lane_key(lane)] = data
        header: dict[str, Any] = {**self._header, "round": self._delivery.round, "slot": self._delivery.slot}
        if self._delivery.slot:
            topology = self.plan.topology
            header["topology"] = {"dp_degree": topology.dp_degree, "uneven": self.plan.options.uneven}
        state: CheckpointState = {"header": encode_header(header), "lanes": lanes}
        try:
            self._tell("checkpoint", state=state, round=self._delivery.round)
        except Exception:
            self.close()
            raise
        return state

    def stats(self) -> dict[str, Any]:
        """Counters of the owned lanes, as delivered."""
        totals: dict[str, Counter[str]] = {"rows": Counter(), "tokens": Counter(), "skipped": Counter()}
        epochs: dict[str, int] = {}
        operators: Counter[str] = Counter()
        for cursor in self._cursors.values():
            counts = cursor.tally.to_plain()
            for kind in ("rows", "tokens"):
                totals[kind].update(counts.get(kind, {}))
            totals["skipped"].update(cursor.skipped)
            for name, epoch in counts.get("epochs", {}).items():
                epochs[name] = max(epochs.get(name, 0), epoch)
            if cursor.operators is not None:
                operators.update(cursor.operators)
            else:
                for stage in cursor.cut.stages:
                    operators.update(stage.snapshot.meta.get("counters", {}))
        return {
            "rounds": self._delivery.round,
            "batches": {lane: c.delivered for lane, c in self._cursors.items()},
            "rows": dict(totals["rows"]),
            "tokens": dict(totals["tokens"]),
            "passes_begun": epochs,
            "skipped": dict(totals["skipped"]),
            "operators": dict(operators),
            "reader": self.plan.reader.stats(),
            "block_rows": self._coordinator.block_rows,
            "stock_bytes": self._coordinator.stock_bytes,
            "workers": self._workers,
        }


def _iterator_closed() -> EngineError:
    return EngineError(
        "this iterator is closed",
        found="the pipeline was closed, restored or iterated again, or an error ended the run",
        fix="iterate the pipeline again, or restore a checkpoint first",
        code="iterator-closed",
    )


def silent_after(plan: Plan) -> int | None:
    """Rows of an endless source after which a lane that has made no microbatch never will, or None.

    Only where every lane operator says how much it holds: a fold of the user's may rightly wait for any number of rows.
    """
    if plan.lengths is not None or not all(plan.state_sizes.values()):
        return None
    held = plan.state_bytes / max(1.0, plan.row_bytes)
    rows = sum(dataset.total() for dataset in plan.datasets)
    return max(rows, MUCH_DATA) + int(PATIENCE * held)


class BatchIterator:
    """What ``iter(pipeline)`` returns. When it is collected, its run is closed; its position stays known."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._finalizer = weakref.finalize(self, session.close)

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Batch:
        batch = self._session.next()
        if batch is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        """End the run."""
        self._finalizer()


def make_runner(plan: Plan) -> tuple[str, Runner]:
    """The runner the options ask for, and its registered name; ``"auto"`` means threads where they are installed."""
    name, parallelism = plan.options.runner, plan.options.parallelism
    runners = registry("runner")
    if name == "auto":
        name = "inline" if parallelism == 0 or "threads" not in runners.names() else "threads"
    if parallelism == 0:
        name = "inline" if name == "threads" else name
    runner = runners.load(name)(parallelism=parallelism)
    assert isinstance(runner, Runner)
    return name, runner
