"""May this pipeline go on from that checkpoint? The differences that forbid it, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from zephon.abc import WorkSource
from zephon.checkpoint import Merged
from zephon.checkpoint.merging import ranges
from zephon.engine.plan import Plan, function_sources
from zephon.errors import CheckpointError
from zephon.io import identity_differences
from zephon.spec import differences


@runtime_checkable
class Resumable(Protocol):
    """A work source that keeps what a checkpoint has settled, e.g. chunk sizes, when its schedule was extended."""

    def resumed(self, old: Mapping[str, Any], lanes: int, positions: list[int]) -> WorkSource:
        """The source to run with."""


def resumable_plan(merged: Merged, work: WorkSource, compile_: Callable[[WorkSource, int | None], Plan]) -> Plan:
    """The plan to go on with.

    Raises:
        CheckpointError: ``checkpoint-differs`` naming each difference, old and new.
    """
    plan = compile_(work, merged.total)
    old, new = merged.header["spec"], plan.spec
    found: list[str] = []
    for part in ("canonical_replicas", "operators"):
        found += [str(d) for d in differences(old[part], new[part], part)]
    names = {dataset.name: dataset.shard_names for dataset in plan.datasets}
    for name, identity in old["datasets"].items():
        if name not in new["datasets"]:
            found.append(f"datasets: {name!r} is no longer there")
        else:
            found += [
                f"dataset {name!r}: {text}"
                for text in identity_differences(identity, new["datasets"][name], names[name])
            ]
    if old["work"] != new["work"]:
        positions = [merged.lanes[n].frontier if n in merged.lanes else 0 for n in range(merged.total)]
        found += work.continues(old["work"], merged.total, positions)
        if not found and isinstance(work, Resumable):
            plan = compile_(work.resumed(old["work"], merged.total, positions), merged.total)
            if plan.spec["work"] != old["work"]:
                # Where an edit may begin depends on every lane, and all ranks have to come to the same answer.
                merged.require(range(merged.total), "and where the changed curriculum may begin depends on all")
                found += _flushed(merged, plan)
    if found:
        raise CheckpointError(
            "the checkpoint is of another pipeline; nothing was loaded",
            found="; ".join(found),
            fix="undo these changes, or start anew; execution settings may differ freely",
            code="checkpoint-differs",
        )
    _warn_of_changed_functions(merged.header.get("functions", {}), function_sources(plan.chain))
    return plan


def _flushed(merged: Merged, plan: Plan) -> list[str]:
    """Lanes that would go on although they have delivered what their operators held at their end.

    What comes out there depends on the end: with more rows to come it would have been something else.
    """
    lanes = [
        number
        for number, lane in sorted(merged.lanes.items())
        # No cut follows the end of a lane, and what was delivered after it came of no further row.
        if lane.since_cut
        and lane.frontier == lane.position
        and (plan.lengths is None or plan.lengths[number] > lane.position)
    ]
    if not lanes:
        return []
    return [
        f"lanes {ranges(lanes)} have come to the end of the old curriculum and delivered what was held back until "
        "then: it can be extended at an earlier step only"
    ]


def check_slot(merged: Merged, plan: Plan) -> None:
    """A state taken inside a round restores only on the topology that wrote it.

    Raises:
        CheckpointError: ``checkpoint-inside-round``.
    """
    wrote = merged.header.get("topology") or {}
    degree = plan.topology.dp_degree
    if merged.header["slot"] and wrote["dp_degree"] != degree:
        raise CheckpointError(
            "the checkpoint was taken inside a round, and the number of groups has changed since",
            found=f"slot {merged.header['slot']} of a round over {wrote['dp_degree']} groups; now {degree}",
            fix="restore on the same number of groups, or save at the end of a round (a global step)",
            code="checkpoint-inside-round",
        )


def _warn_of_changed_functions(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    for name in sorted({*old} & {*new}):
        if old[name] and new[name] and old[name] != new[name]:
            warnings.warn(
                f"the source of {name} has changed since the checkpoint; if it now gives other rows, the run is no "
                "longer the one that was saved. Set version= to make such changes an error.",
                stacklevel=4,
            )
