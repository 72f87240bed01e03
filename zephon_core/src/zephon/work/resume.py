"""Whether a curriculum may go on where another one stopped.

It may if both hold the same pointers up to the end of the furthest chunk-round dealt to any lane. The phases up to
there keep the resolution they were dealt with (weights, ordinals, credits, chunk, and where their last chunk-round was
cut); what comes later follows the new settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from zephon.errors import CheckpointError, ConfigError
from zephon.work.lanes import Lanes, Span
from zephon.work.phases import Course, Disagreement, Phase

#: Settings that move rows already dealt. Schedules and policies may change: they only shape the phases.
FIXED: Final = (
    "seed",
    "chunk_size",
    "shuffle_shards",
    "shuffle_within_shard",
    "shuffle_block_size",
    "reshuffle_on_repeat",
)


def spans_of(course: Course, lanes: int) -> list[Span]:
    """The phases as lanes see them."""
    return [Span(phase.start, phase.length, phase.chunk(lanes)) for phase in course.phases]


def resume_course(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    identity: Callable[[str], Mapping[str, Any] | None],
    plan: Callable[[Sequence[Phase], int], Course],
    lanes: int,
    positions: Sequence[int],
) -> tuple[list[str], Course | None]:
    """Compare two curricula up to what has been dealt, and join them there.

    Args:
        old: plain data of the curriculum the run was made with.
        new: settings of the one to go on with.
        identity: rows, shards and digest of a dataset of the new one; None if it has no such dataset.
        plan: computes the new phases from those to keep and the position up to which they hold.
        lanes: number of lanes.
        positions: rows read so far, by lane.

    Returns:
        The differences that forbid it, and, without any, the course to go on with.

    Raises:
        CheckpointError: ``bad-curriculum-state``.
        ConfigError: ``position-out-of-range``, and what ``plan`` raises.
    """
    try:
        course = Course.from_plain(old)
        former = {name: old[name] for name in FIXED}
        facts = old["datasets"]
        dealer = Lanes(spans_of(course, lanes), lanes, int(old["seed"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            "the state does not describe a static mixture",
            found=f"{type(error).__name__}: {error}",
            fix="restore it with the kind of work source it was made with",
            code="bad-curriculum-state",
        ) from error
    _check_positions(dealer, positions)
    reached = [dealer.dealt(lane, int(position)) for lane, position in enumerate(positions)]
    dealt = max(reached)
    if dealt == 0:
        return [], plan((), 0)
    history = [phase for phase in course.phases if phase.start < dealt]
    differences = [f"{name}: {value!r} -> {new[name]!r}" for name, value in former.items() if value != new[name]]
    for name in sorted({name for phase in history for name in phase.weights}):
        there, here = facts[name], identity(name)
        if here is not None and there != here:
            differences.append(f"dataset {name!r}: {_counted(there)} -> {_counted(here)}{_sizes_differ(there, here)}")
    if differences:
        return differences, None
    try:
        return [], plan(history, dealt)
    except Disagreement as found:
        ahead = [lane for lane, end in enumerate(reached) if end > found.position]
        row = max(dealer.rows_before(lane, dealt) for lane in range(lanes))
        return [
            f"{found.text}; but {_lanes(ahead, lanes)} begun chunk-rounds up to position {dealt}: a change of the "
            f"schedule or the policies may take effect at position {dealt} (row {row} of each lane) or later"
        ], None


def _check_positions(dealer: Lanes, positions: Sequence[int]) -> None:
    if len(positions) != dealer.lanes:
        raise ConfigError(
            "there has to be one position for each lane",
            found=f"{len(positions)} positions for {dealer.lanes} lanes",
            fix="pass how many rows each lane has read",
            code="position-out-of-range",
        )
    for lane, position in enumerate(positions):
        length = dealer.length(lane)
        if position < 0 or (length is not None and position > length):
            raise ConfigError(
                f"lane {lane} cannot have read {position} rows",
                found=f"it has {length} rows",
                fix="pass how many rows each lane has read",
                code="position-out-of-range",
            )


def _counted(facts: Mapping[str, Any]) -> str:
    return f"{facts['rows']} rows in {facts['shards']} shards"


def _sizes_differ(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    return " of other sizes" if _counted(old) == _counted(new) else ""


def _lanes(ahead: Iterable[int], lanes: int) -> str:
    numbers = [str(lane) for lane in ahead]
    if len(numbers) == lanes:
        return f"all {lanes} lanes have" if lanes > 1 else "lane 0 has"
    if len(numbers) == 1:
        return f"lane {numbers[0]} has"
    return f"lanes {', '.join(numbers[:20])}{' and others' if len(numbers) > 20 else ''} have"
