"""Threads or processes: what ``runner="auto"`` decides by, facts before a run and measurement during it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from zephon.abc import HoldsGil
from zephon.engine.cpus import available_cpus
from zephon.engine.meter import Costs
from zephon.engine.options import Options
from zephon.plugins import registry

if TYPE_CHECKING:
    from zephon.engine.plan import Plan

#: Runners whose workers use the CPUs of this process.
_HERE: Final = ("threads", "processes")
#: What it costs to send a task to a process and its result back: measured on 2 cores as 0.2 ms, and 1.3 ms per MB of
#: blocks, and taken a little higher.
SHIP_SECONDS: Final = 0.0005
SHIP_SECONDS_PER_BYTE: Final = 1.5e-9
#: Memory of a process before it has read a row: interpreter, numpy, pyarrow, shared memory for one block.
PROCESS_BYTES: Final = 128 << 20


class Choice(NamedTuple):
    """Where the tasks of a stage run, and why."""

    runner: str
    reason: str

    def to_plain(self) -> dict[str, str]:
        """As in ``stats()``."""
        return self._asdict()


@attrs.frozen
class StageFacts:
    """What is known of a program before it runs.

    Attributes:
        label: its operators.
        shown: whether people are told; programs that only make held rows again are not worth a line.
        holders: operators that say they hold the interpreter lock.
        silent: operators that say nothing about it.
    """

    label: str
    shown: bool
    holders: tuple[str, ...]
    silent: tuple[str, ...]

    @property
    def why(self) -> str:
        """Why it may have to move; empty where it never has to."""
        parts = [f"{', '.join(self.holders)} holds the interpreter lock"] if self.holders else []
        parts += [f"{', '.join(self.silent)} does not say whether it does"] if self.silent else []
        return "; ".join(parts)


def stage_facts(plan: Plan) -> list[StageFacts]:
    """What the operators of each program declare."""
    rereads = {stage.rereads for stage in plan.stages}
    found = []
    for number, program in enumerate(plan.programs):
        shown = number not in rereads
        reading = ["read"] if number == 0 or not shown else []
        declared = {
            step.label: step.operator.holds_gil if isinstance(step.operator, HoldsGil) else None
            for step in program.steps
        }
        found.append(
            StageFacts(
                " + ".join([*reading, *declared]),
                shown,
                tuple(label for label, holds in declared.items() if holds),
                tuple(label for label, holds in declared.items() if holds is None),
            )
        )
    return found


def parallelism_of(options: Options) -> int | None:
    """Tasks at once: as set, or the CPUs this process may use; None where the runner knows better, as on a cluster.

    Raises:
        ConfigError: ``bad-local-world-size``.
    """
    if options.parallelism is not None or options.runner_name not in ("auto", *_HERE):
        return options.parallelism
    return available_cpus()


def affordable_processes(plan: Plan) -> int:
    """Processes ``auto`` may use; 0 without the plugin.

    Half of ``memory_limit`` is for what each process needs for itself, the other half for blocks.
    """
    if "processes" not in registry("runner").names():
        return 0
    return min(parallelism_of(plan.options) or 0, plan.memory_limit // 2 // PROCESS_BYTES)


def first_choices(plan: Plan) -> list[Choice]:
    """Where each program of a plan starts, and whether it may move, in words."""
    name, parallelism = plan.options.runner_name, parallelism_of(plan.options)
    if name in ("auto", "threads") and parallelism == 0:
        choice = Choice("inline", "parallelism=0")
    elif name != "auto":
        choice = Choice(name, "as set")
    elif "threads" not in registry("runner").names():
        choice = Choice("inline", "zephon-threads is not installed")
    else:
        return [Choice("threads", _first_reason(facts, plan)) for facts in stage_facts(plan)]
    return [choice] * len(plan.programs)


def _first_reason(facts: StageFacts, plan: Plan) -> str:
    if not facts.why:
        return "nothing in it holds the interpreter lock"
    if parallelism_of(plan.options) == 1:
        return f"{facts.why}; there is one worker"
    if "processes" not in registry("runner").names():
        return f"{facts.why}; zephon-processes, which would use more cores, is not installed"
    if affordable_processes(plan) < 2:
        return f"{facts.why}; memory_limit has no room for two processes"
    return f"{facts.why}; moves to processes if measurement says that it pays"


def load(costs: Costs, workers: int) -> float:
    """Share of the time in which threads could take no more: all are busy, or the lock is taken by these tasks.

    Either is enough. Where others use the CPUs too, tasks get little CPU time and yet are always running; and where
    tasks are short, whoever hands them out waits for the lock as well, and workers wait for that.
    """
    return max(costs.busy / workers, _held(costs) / costs.seconds)


def gain(costs: Costs, workers: int, processes: int) -> float:
    """How many times as fast processes would be.

    On threads, the time in which the lock is taken is a lower bound: by these tasks, or by the rest, which is whatever
    else this process does in Python (making batches, the training loop). In processes the tasks leave that lock alone.
    The rest stays, and so does sending, on one thread here; and all of it shares the CPUs.
    """
    held = _held(costs)
    rest = costs.lock * costs.seconds - held
    sending = costs.tasks * SHIP_SECONDS + costs.nbytes * SHIP_SECONDS_PER_BYTE
    here = max(held + rest, costs.cpu / workers)
    there = max((costs.cpu + rest + sending) / processes, rest + sending)
    return here / there if there else 0.0


def _held(costs: Costs) -> float:
    """Seconds the tasks held the lock: at most their CPU time, and at most the time in which it was taken."""
    return min(costs.lock * costs.seconds, costs.cpu)
