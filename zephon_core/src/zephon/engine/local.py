"""The engine of one rank: a runner, a coordinator and lanes, started and closed together.

It knows how batches are made, and nothing of who receives them: that is the session's. So it can be in the training
process, or in one of its own (:mod:`zephon.engine.isolated`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

from zephon.abc import Program, ReportsWorkers, Runner
from zephon.block import Block
from zephon.checkpoint.merging import Merged
from zephon.checkpoint.state import LaneCheckpoint, StageState, encode_lane
from zephon.engine.auto import AutoRunner
from zephon.engine.choosing import affordable_processes, first_choices, parallelism_of, stage_facts
from zephon.engine.coordinator import Coordinator
from zephon.engine.delivery import Supply
from zephon.engine.lane import Item, Lane
from zephon.engine.observe import ObservedProgram, ObservedWorkers
from zephon.engine.plan import Plan
from zephon.engine.program import Dropped
from zephon.engine.quarantine import Quarantine, quarantine_entry
from zephon.engine.runners import new_runner
from zephon.errors import DataError, EngineError

#: Tells observers of an event: the hook's name and its arguments.
Tell = Callable[[str, dict[str, Any]], None]

#: Passes over little data, and rows of much data, that a lane reads before it gives up on a filter nothing passes.
PASSES_OF_LITTLE: Final = 32
MUCH_DATA: Final = 1 << 20
#: How many times over lane operators may take in what they can hold before they have to let something out.
PATIENCE: Final = 64


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


class Engine(Supply, Protocol):
    """What a session needs of an engine, wherever it runs."""

    def start(self) -> None:
        """Start workers and lanes."""

    def encode(self, states: Mapping[int, LaneCheckpoint]) -> dict[int, bytes]:
        """The bytes of lanes in these states."""

    def stats(self) -> dict[str, Any]:
        """Facts about the work, for ``stats()``."""

    def close(self, states: Mapping[int, LaneCheckpoint]) -> None:
        """Stop everything. May be called twice, from any thread.

        Args:
            states: lanes as they stand: they may still be encoded afterwards.
        """


class LocalEngine:
    """An engine in this process.

    Args:
        plan: the compiled pipeline.
        start: where the run begins.
        tell: told of blocks, rows set aside and workers.
        wanted: the hooks somebody listens to.
    """

    def __init__(self, plan: Plan, start: Start, tell: Tell, wanted: frozenset[str]) -> None:
        self._name, self._runner = make_runner(plan)
        facts = self._runner.facts
        self._plan = plan = plan.opened(1 if facts.shares_memory else facts.workers)
        self._start = start
        self._tell = tell
        self._wanted = wanted
        # A quarter of the limit is the reader's; operator state is what it is; the rest is for work in flight.
        budget = max(1 << 20, plan.memory_limit * 3 // 4 - plan.state_bytes * len(plan.topology.owned))
        self._coordinator = Coordinator(
            self._runner,
            budget=budget,
            prefetch=plan.options.prefetch_batches,
            block_rows=plan.options.block_rows,
            row_bytes=plan.row_bytes,
            programs=[facts.label for facts in stage_facts(plan)],
        )
        # Rows set aside after the cut will be met, and counted, once more.
        self._bad_rows = Counter(
            {lane: sum(state.counters.get("skipped", {}).values()) for lane, state in start.lanes.items()}
        )
        policy = plan.options.on_error
        self._quarantine = Quarantine(policy.path, self._describe) if policy.path else None

    def start(self) -> None:
        """Start workers and lanes."""
        programs: Sequence[Program] = self._plan.programs
        if self._wanted & {"worker_start", "worker_stop"}:
            if self._runner.facts.shares_memory:
                workers = ObservedWorkers(self._tell, self._name)
                programs = [ObservedProgram(program, workers) for program in programs]
            if isinstance(self._runner, ReportsWorkers):
                self._runner.report_workers(self._on_worker)
        self._runner.start(programs)
        self._coordinator.start(self._plan.topology.owned, self._make_lane)

    def take(self, lane: int) -> Item:
        """The next item of a lane, waiting for it."""
        return self._coordinator.take(lane)

    def waiting(self, lane: int) -> int:
        """Microbatches of a lane that can be taken without waiting."""
        return self._coordinator.waiting(lane)

    def encode(self, states: Mapping[int, LaneCheckpoint]) -> dict[int, bytes]:
        """The bytes of lanes in these states."""
        by_origin = self._plan.by_origin
        return {lane: encode_lane(state, by_origin if state.stages else ()) for lane, state in states.items()}

    def stats(self) -> dict[str, Any]:
        """Facts about the work, for ``stats()``."""
        return {
            "reader": self._plan.reader.stats(),
            "block_rows": self._coordinator.block_rows,
            "stock_bytes": self._coordinator.stock_bytes,
            "workers": self._runner.facts.workers,
            "runners": self._runners(),
        }

    def close(self, states: Mapping[int, LaneCheckpoint]) -> None:
        """Stop threads and workers, release files. May be called twice, from any thread."""
        self._coordinator.stop()
        self._runner.close()
        self._plan.reader.close()

    def _runners(self) -> dict[str, dict[str, str]]:
        """Where each stage runs now, and why."""
        choices = self._runner.choices if isinstance(self._runner, AutoRunner) else first_choices(self._plan)
        stages = zip(stage_facts(self._plan), choices, strict=True)
        return {facts.label: choice.to_plain() for facts, choice in stages if facts.shown}

    def _make_lane(self, number: int) -> Lane:
        plan = self._plan
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
            on_block=self._on_block if "block" in self._wanted else None,
            dataset_names=plan.facts.datasets,
            row_name=plan.programs[0].source.row_name,
            length=plan.lengths[number] if plan.lengths is not None else None,
            batches=plan.rounds,
            barren_after=barren_after,
            silent_after=silent_after(plan),
            skips_bad_rows=plan.options.on_error.action != "raise",
            restored=self._start.lanes.get(number),
        )

    # -- events -------------------------------------------------------------------------------------------------------

    def _on_worker(self, event: str, worker: str, reason: str) -> None:
        # Of two runners, the threads tell themselves.
        runner = "processes" if isinstance(self._runner, AutoRunner) else self._name
        if event == "start":
            self._tell("worker_start", {"runner": runner, "worker": worker})
        else:
            self._tell("worker_stop", {"runner": runner, "worker": worker, "reason": reason})

    def _on_block(self, stage: int, block: Block) -> None:
        self._tell("block", {"stage": stage, "block": block})

    def _on_dropped(self, lane: int, dropped: Sequence[Dropped]) -> None:
        policy = self._plan.options.on_error
        first_of_lane = any(slot.lane == lane and slot.rows[0] == 0 for slot in self._plan.topology.slots)
        if first_of_lane:
            fresh = self._quarantine.write(lane, dropped) if self._quarantine is not None else dropped
            if fresh:
                self._tell("quarantine", {"entries": [quarantine_entry(entry, self._describe) for entry in fresh]})
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
        found = self._plan.datasets[dataset]
        return {"dataset": found.name, "shard": found.shard_names[shard], "row": row}


def operator_counts(stages: Iterable[StageState]) -> dict[str, int]:
    """What the operators of a cut have counted."""
    counts: Counter[str] = Counter()
    for stage in stages:
        counts.update(stage.snapshot.meta.get("counters", {}))
    return dict(counts)


def iterator_closed() -> EngineError:
    """``iterator-closed``: somebody goes on with a run that is over."""
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


def make_runner(plan: Plan) -> tuple[str, Runner]:
    """The runner the options ask for, and its registered name.

    ``"auto"`` begins with threads, where these are installed and parallelism is not 0: see :mod:`zephon.engine.auto`.
    """
    options = plan.options
    choices = first_choices(plan)
    name = choices[0].runner
    # A number of workers that somebody asks the inline runner for is refused by that runner.
    inline = name == "inline" and options.runner_name != "inline"
    runner = new_runner(name, options, None if inline else parallelism_of(options))
    if options.runner_name == "auto" and name == "threads":
        runner = AutoRunner(
            threads=runner,
            make_processes=lambda workers: new_runner("processes", options, workers),
            shipped=lambda workers: plan.opened(workers).programs,
            stages=stage_facts(plan),
            choices=choices,
            processes=affordable_processes(plan),
        )
    return name, runner
