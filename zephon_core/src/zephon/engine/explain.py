"""The compiled plan, as data for observers and as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from zephon.abc import LaneOperator
from zephon.block import DOCUMENT_TYPE
from zephon.engine.choosing import first_choices, parallelism_of, stage_facts
from zephon.spec import spec_fields, to_plain

if TYPE_CHECKING:
    from zephon.engine.plan import Plan
    from zephon.engine.validate import Bound

#: Characters of one setting that are shown.
_LONGEST: Final = 240


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
        "parallelism": parallelism_of(plan.options),
        "runners": {
            facts.label: choice.to_plain()
            for facts, choice in zip(stage_facts(plan), first_choices(plan), strict=True)
            if facts.shown
        },
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
    lines.append(f"  columns read: {_fields(plan.chain.source)}")
    lines += ["", "operators"]
    for operator, bound in zip(facts["operators"], plan.chain.bound, strict=True):
        where = "in the coordinator" if operator["kind"] == "lane" else "in workers"
        lines.append(f"  {operator['name']}({_settings(bound, operator['settings'])})")
        lines.append(f"      {where} -> {_fields(bound.output)}")
    topology = plan.topology
    lines += ["", "delivery"]
    lines.append(f"  {plan.lanes} lanes, microbatches of {plan.microbatch}")
    lines.append(f"  group {topology.dp_group_id} of {topology.dp_degree} (from {topology.source})")
    lines.append(f"  each round: {', '.join(_slot(s.lane, s.rows, plan.microbatch) for s in topology.slots)}")
    lines.append(f"  rounds: {_rounds(plan)}")
    lines += ["", "resources", f"  memory_limit {plan.memory_limit >> 20} MiB, of which operator state about "]
    lines[-1] += f"{plan.state_bytes * len(topology.owned) / 2**20:.1f} MiB"
    lines.append(f"  runner {plan.options.runner_name!r}, {_workers(plan)}")
    lines += [f"    {label}: {choice['runner']}; {choice['reason']}" for label, choice in facts["runners"].items()]
    if plan.options.isolate:
        lines.append("  the engine runs in a process of its own; batches come through shared memory")
    if plan.notes:
        lines += ["", "notes", *(f"  {note}" for note in plan.notes)]
    return "\n".join(lines)


def _source_lines(plan: Plan) -> list[str]:
    explain_source = getattr(plan.work, "explain", None)
    return list(explain_source(plan.lanes)) if explain_source is not None else []


def _settings(bound: Bound, plain: Mapping[str, Any]) -> str:
    """Settings as a person would write them: the values themselves where their plain form is for machines."""
    values = {
        field.alias or field.name: getattr(bound.operator, field.name) for field in spec_fields(type(bound.operator))
    }
    shown = []
    for name, form in plain.items():
        value = values[name]
        if isinstance(value, pa.Schema):
            text = f"<{_fields(value)}>"
        elif hasattr(value, "to_plain") and not attrs.has(type(value)):
            text = str(value)
        else:
            text = repr(form)
        shown.append(f"{name}={text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}")
    return ", ".join(shown)


def _fields(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {_type(field.type)}" for field in schema) or "none"


def _type(kind: pa.DataType) -> str:
    if kind.equals(DOCUMENT_TYPE):
        return "document"
    return f"list<{_type(kind.value_type)}>" if pa.types.is_list(kind) else str(kind)


def _rounds(plan: Plan) -> str:
    if plan.rounds is not None:
        return str(plan.rounds)
    if plan.lengths is None:
        return "endless"
    most = f", at most {plan.ending.max_rounds}" if plan.ending.max_rounds is not None else ""
    return f"until the data ends{most}; the operators change the number of rows"


def _workers(plan: Plan) -> str:
    number = parallelism_of(plan.options)
    if plan.options.parallelism is not None:
        return f"up to {number} tasks at once, as set" if number else "one task at a time, on the calling thread"
    if number is None:
        return "which knows how many tasks run at once"
    return f"up to {number} tasks at once: the CPUs this process may use"


def _slot(lane: int, rows: tuple[int, int], microbatch: int) -> str:
    if lane < 0:
        return "filler"
    return f"lane {lane}" if rows == (0, microbatch) else f"lane {lane} rows {rows[0]}-{rows[1] - 1}"
