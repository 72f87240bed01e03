"""What ``explain()`` says of a curriculum: what it does, where it ends and why, and what is worth knowing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from zephon.work.order import DatasetOrder
from zephon.work.phases import ROUNDS_PER_PASS, Course, Phase
from zephon.work.policies import Policy
from zephon.work.schedule import Entry

#: Phases shown at each end of a long list.
_SHOWN: Final = 10


def report(
    course: Course,
    entries: Sequence[Entry],
    policies: Mapping[str, Policy],
    orders: Mapping[str, DatasetOrder],
    lanes: int | None,
) -> list[str]:
    """Lines of text.

    Args:
        course: the phases.
        entries: the schedule they come from.
        policies: by dataset.
        orders: the order of every dataset that has rows.
        lanes: number of lanes, None if it is not known.
    """
    lines = []
    for number, phase in enumerate(course.phases):
        if _SHOWN <= number < len(course.phases) - _SHOWN:
            if number == _SHOWN:
                lines.append(f"... {len(course.phases) - 2 * _SHOWN} more phases ...")
            continue
        lines.append(f"phase {number}, {_range(phase)}: {_mixture(phase)}; {_chunk(phase, lanes)}")
    drawn = course.phases[-1].drawn(course.end) if course.end is not None else {}
    for name, policy in policies.items():
        if name not in orders:
            lines.append(f"dataset {name}: no rows, never drawn")
            continue
        rows = orders[name].rows
        passes = f"{drawn.get(name, 0) / rows:,.2f} passes ({drawn.get(name, 0):,} draws), " if drawn else ""
        lines.append(f"dataset {name}: {rows:,} rows, {passes}{policy}")
    if course.end is None:
        lines.append("the curriculum never ends: no policy ends it")
    else:
        lines.append(f"the curriculum ends after {course.end:,} rows: {course.reason}")
    return lines + [f"note: {note}" for note in _notes(course, entries, policies, orders, drawn, lanes)]


def _range(phase: Phase) -> str:
    return f"from position {phase.start:,}" + (" on" if phase.end is None else f" to {phase.end:,}")


def _mixture(phase: Phase) -> str:
    period = sum(phase.weights.values())
    return ", ".join(f"{name} {weight / period:.6g} ({weight}/{period})" for name, weight in phase.weights.items())


def _chunk(phase: Phase, lanes: int | None) -> str:
    if lanes is None:
        size = (
            f"up to {phase.chunk_size:,} rows, at least {ROUNDS_PER_PASS} chunk-rounds per pass of {phase.span:,} rows"
        )
        return f"chunks of {size}"
    return f"chunks of {phase.chunk(lanes):,} rows over {lanes} lanes, a pass spans {phase.span:,} rows"


def _notes(
    course: Course,
    entries: Sequence[Entry],
    policies: Mapping[str, Policy],
    orders: Mapping[str, DatasetOrder],
    drawn: Mapping[str, int],
    lanes: int | None,
) -> Iterator[str]:
    error = max(entry.error for entry in entries)
    if error:
        yield f"the weights were rounded to integers with a sum of 2**30; no share is off by over {float(error):.3g}"
    for entry in entries:
        if course.end is not None and entry.start >= course.end and entry.start:
            yield f"the mixture from position {entry.start:,} on is never reached"
    for name, policy in policies.items():
        if policy.goal is not None and drawn and drawn.get(name, 0) < policy.goal * orders[name].rows:
            yield f"{name} ends before its pass {policy.goal}: it leaves the schedule, so the run does not wait for it"
    repeated = [name for name, order in orders.items() if course.end is None or drawn.get(name, 0) > order.rows]
    if repeated:
        yield (
            f"passes are exact in the order of positions; in time, two passes of a dataset may overlap by one "
            f"chunk-round (up to {max(_round(phase, lanes) for phase in course.phases):,} rows)"
        )
    yield from _small_datasets(course, orders, lanes)
    if lanes is not None:
        yield from _wide_windows(course, orders, lanes)
    elif any(order.window > 1 for order in orders.values()):
        yield "where a shuffle window is wider than a chunk, several lanes decode the same units"


def _round(phase: Phase, lanes: int | None) -> int:
    """Rows in a chunk-round, at most."""
    return phase.span // ROUNDS_PER_PASS if lanes is None else phase.chunk(lanes) * lanes


def _small_datasets(course: Course, orders: Mapping[str, DatasetOrder], lanes: int | None) -> Iterator[str]:
    for name, order in orders.items():
        phases = [phase for phase in course.phases if name in phase.weights]
        share = max((_round(phase, lanes) * _share(phase, name) for phase in phases), default=0)
        if order.rows < share:
            yield (
                f"{name} has {order.rows:,} rows, fewer than its share of a chunk-round (up to {share:,.0f} rows): "
                f"it is drawn from {share / order.rows:.1f} passes at once"
            )


def _wide_windows(course: Course, orders: Mapping[str, DatasetOrder], lanes: int) -> Iterator[str]:
    for name, order in orders.items():
        shares = [phase.chunk(lanes) * _share(phase, name) for phase in course.phases if name in phase.weights]
        if order.window > 1 and shares and order.window > min(shares):
            # A chunk's rows are spread over the window, and a reader decodes whole units: at worst the whole window.
            worst = order.window / max(1.0, min(shares))
            yield (
                f"the shuffle window of {name} ({order.window:,} rows) is wider than the {min(shares):,.0f} of its "
                f"rows in a chunk, so several lanes decode the same units: up to {worst:.1f} rows decoded per row "
                "delivered, fewer the smaller the units are"
            )


def _share(phase: Phase, name: str) -> float:
    return phase.weights[name] / sum(phase.weights.values())
