"""The compiled plan, as data for observers and as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zephon.abc import LaneOperator
from zephon.spec import to_plain

if TYPE_CHECKING:
    from zephon.engine.plan import Plan


def describe(plan: Plan) -> dict[str, Any]:
    """What :func:`explain` prints, as plain data."""
    topology = plan.topology
    return {
        "fingerprint": plan.fingerprint,
        "datasets": [
            {"name": d.name, "rows": d.total(), "shards": d.shard_count(), "format": d.format_name}
            for d in plan.datasets
        ],
        "columns": {f.name: str(f.type) for f in plan.chain.source},
        "lanes": plan.lanes,
        "lane_lengths": list(plan.lengths) if plan.lengths is not None else None,
        "microbatch": plan.microbatch,
        "rounds": plan.rounds,
        "topology": {
            "dp_degree": topology.dp_degree,
            "dp_group_id": topology.dp_group_id,
            "source": topology.source,
            "slots": [{"lane": s.lane, "rows": list(s.rows)} for s in topology.slots],
        },
        "operators": [
            {
                "name": b.label,
                "kind": "lane" if isinstance(b.operator, LaneOperator) else "row",
                "settings": to_plain(b.operator, defaults=False, portable=False),
                "output": {f.name: str(f.type) for f in b.output},
            }
            for b in plan.chain.bound
        ],
        "memory_limit": plan.memory_limit,
        "state_bytes": plan.state_bytes,
        "notes": list(plan.notes),
    }


def explain(plan: Plan) -> str:
    """The compiled plan as text."""
    facts = describe(plan)
    lines = [f"pipeline {plan.fingerprint[:12]}", "", "source"]
    for dataset in facts["datasets"]:
        lines.append(
            f"  {dataset['name']}: {dataset['rows']:,} rows in {dataset['shards']:,} shards of {dataset['format']}"
        )
    lines += [f"  {line}" for line in _source_lines(plan)]
    lines.append(f"  columns read: {_fields(facts['columns'])}")
    lines += ["", "operators"]
    for operator in facts["operators"]:
        settings = ", ".join(f"{k}={v!r}" for k, v in operator["settings"].items())
        where = "in the coordinator" if operator["kind"] == "lane" else "in workers"
        lines.append(f"  {operator['name']}({settings})")
        lines.append(f"      {where} -> {_fields(operator['output'])}")
    topology = plan.topology
    lines += ["", "delivery"]
    lines.append(f"  {plan.lanes} lanes, microbatches of {plan.microbatch}")
    lines.append(f"  group {topology.dp_group_id} of {topology.dp_degree} (from {topology.source})")
    lines.append(f"  each round: {', '.join(_slot(s.lane, s.rows, plan.microbatch) for s in topology.slots)}")
    ends = "never ends" if plan.ending.endless else "ends with the data"
    lines.append(f"  rounds: {plan.rounds if plan.rounds is not None else ends}")
    lines += ["", "resources", f"  memory_limit {plan.memory_limit >> 20} MiB, of which operator state about "]
    lines[-1] += f"{plan.state_bytes * len(topology.owned) / 2**20:.1f} MiB"
    if plan.notes:
        lines += ["", "notes", *(f"  {note}" for note in plan.notes)]
    return "\n".join(lines)


def _source_lines(plan: Plan) -> list[str]:
    explain_source = getattr(plan.work, "explain", None)
    return list(explain_source(plan.lanes)) if explain_source is not None else []


def _fields(fields: dict[str, str]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in fields.items()) or "none"


def _slot(lane: int, rows: tuple[int, int], microbatch: int) -> str:
    if lane < 0:
        return "filler"
    return f"lane {lane}" if rows == (0, microbatch) else f"lane {lane} rows {rows[0]}-{rows[1] - 1}"
