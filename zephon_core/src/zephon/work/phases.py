"""Phases: schedules, exhaustion and edits as one list, with ends that are computed.

In a phase the set of components and their weights do not change. A phase ends where the schedule says so, where a
dataset leaves at its limit, or where the run ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from math import gcd
from typing import Any, Final, NamedTuple

import attrs

from zephon.errors import ConfigError
from zephon.work.mixture import CREDIT_BITS, MAX_POSITION, MixtureTree
from zephon.work.policies import Policy
from zephon.work.schedule import Entry

#: Chunk-rounds in a pass, at least: what passes may overlap by in time is one of them.
ROUNDS_PER_PASS: Final = 8


@attrs.frozen(slots=True, kw_only=True)
class Phase:
    """Positions ``[start, end)`` of the curriculum, in which nothing about the mixture changes.

    Attributes:
        start: first position.
        end: one past the last; None if the phase never ends.
        weights: integer weight of each component, by name in order of names.
        ordinals: how often each dataset has been drawn before this phase; absent means never.
        credits: what each dataset is owed, in 2**-20 draws: its targets in all earlier phases less its draws.
        chunk_size: upper bound of the chunk.
        span: positions until every dataset of the phase has completed a pass, or until the run ends.
    """

    start: int
    end: int | None
    weights: Mapping[str, int]
    ordinals: Mapping[str, int]
    credits: Mapping[str, int]
    chunk_size: int
    span: int

    @cached_property
    def tree(self) -> MixtureTree:
        """The order of draws; its components are those of ``weights``, in that order."""
        return MixtureTree.build(list(self.weights.values()), [self.credits.get(name, 0) for name in self.weights])

    @property
    def length(self) -> int | None:
        """Positions in all; None if the phase never ends."""
        return None if self.end is None else self.end - self.start

    def chunk(self, lanes: int) -> int:
        """Positions in a chunk when the curriculum is cut into ``lanes``."""
        return max(1, min(self.chunk_size, self.span // (ROUNDS_PER_PASS * lanes)))

    def drawn(self, position: int) -> dict[str, int]:
        """How often each dataset has been drawn before a position of this phase, or its end."""
        counts = self.tree.counts(position - self.start)
        drawn = dict(self.ordinals)
        for name, count in zip(self.weights, counts, strict=True):
            drawn[name] = drawn.get(name, 0) + count
        return drawn

    def credits_at(self, position: int) -> dict[str, int]:
        """What each dataset is owed at a position of this phase, or its end, in 2**-20 draws."""
        length, period = position - self.start, sum(self.weights.values())
        credits = dict(self.credits)
        for (name, weight), count in zip(self.weights.items(), self.tree.counts(length), strict=True):
            target = (length * weight << CREDIT_BITS) // period
            credits[name] = credits.get(name, 0) + target - (count << CREDIT_BITS)
        return credits


@attrs.frozen(slots=True, kw_only=True)
class Course:
    """All phases of a curriculum.

    Attributes:
        phases: in order, without gap, at least one; only the last may have no end.
        reason: why the run ends where it does; "" if it never ends.
    """

    phases: tuple[Phase, ...]
    reason: str

    @property
    def end(self) -> int | None:
        """Positions in all; None if the curriculum never ends."""
        return self.phases[-1].end

    def at(self, position: int) -> int:
        """Index of the phase that holds a position; for the end of the curriculum, of the last one."""
        return bisect_right(self._starts, position) - 1

    @cached_property
    def _starts(self) -> list[int]:
        return [phase.start for phase in self.phases]

    def to_plain(self) -> dict[str, Any]:
        """Plain data, from which the phases follow without the datasets.

        Where datasets only leave, a phase names these instead of all weights: with many datasets, most phases are such.
        """
        phases = []
        before: Mapping[str, int] = {}
        for phase in self.phases:
            gone = [name for name in before if name not in phase.weights]
            same = bool(before) and phase.weights == without(before, gone)
            mixture = {"without": gone} if same else {"weights": dict(phase.weights)}
            phases.append({"start": phase.start, "span": phase.span, "chunk_size": phase.chunk_size, **mixture})
            before = phase.weights
        return {"phases": phases, "end": self.end, "reason": self.reason}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Course:
        """Inverse of :meth:`to_plain`."""
        entries = plain["phases"]
        ends = [entry["start"] for entry in entries[1:]] + [plain["end"]]
        phases: list[Phase] = []
        for entry, end in zip(entries, ends, strict=True):
            last = phases[-1] if phases else None
            weights = (
                entry["weights"] if "weights" in entry or last is None else without(last.weights, entry["without"])
            )
            phases.append(
                Phase(
                    start=entry["start"],
                    end=end,
                    weights=dict(sorted(weights.items())),
                    ordinals={} if last is None else last.drawn(entry["start"]),
                    credits={} if last is None else last.credits_at(entry["start"]),
                    chunk_size=entry["chunk_size"],
                    span=entry["span"],
                )
            )
        return Course(phases=tuple(phases), reason=plain["reason"])


def without(weights: Mapping[str, int], gone: Container[str]) -> dict[str, int]:
    """The weights of those that stay, without a common factor."""
    left = {name: weight for name, weight in weights.items() if name not in gone}
    common = gcd(*left.values())
    return {name: weight // common for name, weight in left.items()}


class Disagreement(Exception):
    """The settings contradict what has been dealt already.

    Args:
        position: where they begin to.
        text: the contradiction, old and new.
    """

    def __init__(self, position: int, text: str) -> None:
        super().__init__(text)
        self.position = position
        self.text = text


class _Event(NamedTuple):
    """What ends a phase. Of two at one position the lower rank counts.

    Where the last goal is met, the run is over. Where the schedule changes the mixture, nobody is asked for the draw of
    the former one.
    """

    position: int
    rank: int
    name: str = ""  # the dataset that meets its goal or limit


_GOAL, _SCHEDULE, _LIMIT = range(3)


def plan_course(
    schedule: Sequence[Entry],
    rows: Callable[[str], int],
    policies: Mapping[str, Policy],
    chunk_size: int,
    history: Sequence[Phase] = (),
    dealt: int = 0,
) -> Course:
    """Compute all phases.

    Args:
        schedule: entries in order of their starts, the first at 0.
        rows: rows of a dataset, by name; asked only for datasets that are drawn.
        policies: by dataset name.
        chunk_size: upper bound of a chunk.
        history: phases to keep, because some of their rows have been dealt: those that start before ``dealt``.
        dealt: end of the furthest chunk-round dealt.

    Raises:
        ConfigError: ``empty-dataset``, ``curriculum-too-long``.
        Disagreement: the settings lead to other phases than ``history``.
    """
    phases: list[Phase] = []
    ordinals: dict[str, int] = {}
    credits: dict[str, int] = {}
    position, reason = 0, ""
    starts = [entry.start for entry in schedule]
    # The names still to come after each entry.
    later: list[frozenset[str]] = [frozenset()]
    for entry in reversed(schedule[1:]):
        later.append(later[-1] | entry.weights.keys())
    later.reverse()
    while True:
        current = bisect_right(starts, position) - 1
        until = starts[current + 1] if current + 1 < len(starts) else None
        kept = history[len(phases)] if len(phases) < len(history) else None
        state = _State(rows, policies, ordinals)
        weights = state.weights_of(schedule[current])
        goals = state.open_goals(later[current] | weights.keys())
        if not weights:
            reason = "every dataset of the mixture has supplied all it may"
        elif goals is not None and not goals:
            reason = "no dataset is left for which the run waits"
        if reason:
            if kept is not None:
                raise Disagreement(position, _would_end(position, reason))
            break
        phase = Phase(
            start=position,
            end=None,
            weights=weights,
            ordinals=ordinals,
            credits=credits,
            chunk_size=chunk_size if kept is None else kept.chunk_size,
            span=0 if kept is None else kept.span,
        )
        event = state.next_event(phase, until, goals)
        if kept is not None:
            event = _held_to(kept, phase, event, dealt)
        reason = "" if event is None else state.ends(event)
        if event is None:
            phases.append(phase)
            break
        if event.position >= MAX_POSITION:
            raise ConfigError(
                "the curriculum is too long to be counted",
                found=f"it would reach position {event.position}; positions stay below 2**62",
                fix="lower stop_after_passes or max_repeats, raise the smallest weight, or let the datasets repeat "
                "without end",
                code="curriculum-too-long",
            )
        if event.position > position:
            phase = attrs.evolve(phase, end=event.position)
            phases.append(phase)
            ordinals, credits = phase.drawn(event.position), phase.credits_at(event.position)
        position = event.position
        if reason and len(phases) < len(history):
            raise Disagreement(position, _would_end(position, reason))
        if reason:
            break
    end = phases[-1].end
    phases[len(history) :] = [attrs.evolve(p, span=_span(p, rows, end)) for p in phases[len(history) :]]
    return Course(phases=tuple(phases), reason=reason)


@attrs.frozen(slots=True)
class _State:
    """What the policies say at the start of a phase."""

    rows: Callable[[str], int]
    policies: Mapping[str, Policy]
    ordinals: Mapping[str, int]

    def left_over(self, name: str) -> int | None:
        """Rows a dataset may still supply; None for any number."""
        limit = self.policies[name].limit
        return None if limit is None else limit * self.rows(name) - self.ordinals.get(name, 0)

    def has_left(self, name: str) -> bool:
        return self.policies[name].leaves and name in self.ordinals and self.left_over(name) == 0

    def weights_of(self, entry: Entry) -> dict[str, int]:
        """The entry's weights without the datasets that have left, without a common factor."""
        weights = without(entry.weights, {name for name in entry.weights if self.has_left(name)})
        for name in weights:
            if not self.rows(name):
                raise ConfigError(
                    f"dataset {name!r} is drawn from position {entry.start} on, but has no rows",
                    found="0 rows in all its shards",
                    fix="leave it out of the mixture, or check its path and its index",
                    code="empty-dataset",
                )
        return weights

    def open_goals(self, names: frozenset[str]) -> set[str] | None:
        """Those of the datasets the run still waits for; None if the run never waits for any dataset."""
        goals = {name: policy.goal for name, policy in self.policies.items() if policy.goal is not None}
        if not goals:
            return None
        # A dataset that has never been drawn has not met its goal, and need not be counted to know.
        return {
            name
            for name, goal in goals.items()
            if name in names
            and not self.has_left(name)
            and (name not in self.ordinals or self.ordinals[name] < goal * self.rows(name))
        }

    def next_event(self, phase: Phase, until: int | None, goals: set[str] | None) -> _Event | None:
        """What ends a phase first; None if nothing does."""
        names = list(phase.weights)
        over = {name: left for name in names if (left := self.left_over(name)) is not None}
        # A limit is met at the first draw that cannot be supplied, a goal with the draw that completes it.
        beyond = phase.tree.position([over.get(name, 0) for name in names])
        events = [] if until is None else [_Event(until, _SCHEDULE)]
        events += [_Event(phase.start + x, _LIMIT, n) for n, x in zip(names, beyond, strict=True) if n in over]
        if goals and goals <= phase.weights.keys():
            wanted = {name: (self.policies[name].goal or 0) * self.rows(name) for name in goals}
            last = [wanted[name] - 1 - self.ordinals.get(name, 0) if name in goals else 0 for name in names]
            offset, name = max((x, n) for n, x in zip(names, phase.tree.position(last), strict=True) if n in goals)
            events.append(_Event(phase.start + offset + 1, _GOAL, name))
        return min(events, default=None)

    def ends(self, event: _Event) -> str:
        """Why the run ends with an event; "" if it goes on."""
        if event.rank == _SCHEDULE:
            return ""
        policy = self.policies[event.name]
        if event.rank == _GOAL:
            return f"pass {policy.goal} of {event.name!r} is complete, the last one the run waits for"
        return "" if policy.leaves else f"{event.name!r} cannot supply its next row: it {policy}"


def _would_end(position: int, reason: str) -> str:
    return f"at position {position}, the run would end: {reason}; before, it went on"


def _held_to(kept: Phase, phase: Phase, event: _Event | None, dealt: int) -> _Event | None:
    """What ends a phase of which rows have been dealt: where its last chunk-round was cut, the cut stays."""
    for what, old, new in (
        ("the weights are", kept.weights, phase.weights),
        ("the draws before it were", kept.ordinals, phase.ordinals),
        ("the draws owed are", kept.credits, phase.credits),
    ):
        if old != new:
            raise Disagreement(phase.start, f"from position {phase.start} on, {what} {dict(old)} -> {dict(new)}")
    cut = kept.end is not None and kept.end <= dealt
    reach = kept.end if kept.end is not None and cut else dealt
    if event is not None and event.position < reach:
        what = "another mixture would begin" if event.rank == _SCHEDULE else f"{event.name!r} would be done"
        raise Disagreement(event.position, f"at position {event.position}, {what}; before, the mixture went on")
    if cut and (event is None or event.position > reach):
        return _Event(reach, _SCHEDULE)
    return event


def _span(phase: Phase, rows: Callable[[str], int], end: int | None) -> int:
    """Positions from a phase's start until each of its datasets has completed a pass, or the run ends."""
    span = max(phase.tree.position([rows(name) - 1 for name in phase.weights])) + 1
    return span if end is None else min(span, end - phase.start)
