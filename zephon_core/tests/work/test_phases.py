"""Schedules, exhaustion and ends: computed at once, equal to drawing row by row."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from zephon.errors import ConfigError
from zephon.work.phases import Course, plan_course
from zephon.work.policies import Policy, resolve_policies
from zephon.work.schedule import Entry

# The slow definitions take as long as they take.
law = settings(deadline=None, max_examples=40)

NAMES = ("a", "b", "c", "d")

policies_ = st.fixed_dictionaries(
    {
        name: st.one_of(
            st.builds(Policy, goal=st.none() | st.integers(1, 3)),
            st.integers(1, 3).flatmap(
                lambda limit: st.builds(
                    Policy, limit=st.just(limit), leaves=st.booleans(), goal=st.none() | st.integers(1, limit)
                )
            ),
        )
        for name in NAMES
    }
)
mixture_ = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9), min_size=1)
schedule_ = st.lists(st.tuples(st.integers(1, 60), mixture_), min_size=1, max_size=5).map(
    lambda parts: [(sum(n for n, _ in parts[:i]), weights) for i, (_, weights) in enumerate(parts)]
)
rows_ = st.fixed_dictionaries({name: st.integers(1, 25) for name in NAMES})


def plan(schedule, rows, policies, chunk_size=16384):
    used = {name for _, weights in schedule for name in weights}
    policies = {name: policies[name] for name in NAMES if name in used}
    entries = [Entry(start=start, weights=dict(sorted(w.items())), error=Fraction(0)) for start, w in schedule]
    return plan_course(entries, rows.__getitem__, policies, chunk_size)


def names_drawn(course, stop):
    drawn = []
    for phase in course.phases:
        end = stop if phase.end is None else min(stop, phase.end)
        if end > phase.start:
            components, _ = phase.tree.down(np.arange(end - phase.start))
            names = list(phase.weights)
            drawn += [names[c] for c in components]
    return drawn


@settings(law, max_examples=200)
@given(schedule_, rows_, policies_)
@example([(0, {"a": 1, "b": 1})], {"a": 3, "b": 5, "c": 1, "d": 1}, dict.fromkeys(NAMES, Policy(limit=1, leaves=True)))
@example([(0, {"a": 1}), (5, {"b": 1})], {"a": 5, "b": 5, "c": 1, "d": 1}, dict.fromkeys(NAMES, Policy(goal=1)))
def test_phases_and_end_equal_drawing_row_by_row(slow, schedule, rows, policies):
    used = {name for _, weights in schedule for name in weights}
    names, starts, ended = slow.course(schedule, rows, {n: policies[n] for n in NAMES if n in used}, 500)
    course = plan(schedule, rows, policies)
    if ended:
        assert course.end == len(names)
        assert course.reason
    else:
        assert course.end is None or course.end >= 500
    assert [phase.start for phase in course.phases if phase.start < 500] == starts
    assert names_drawn(course, 500) == names


@law
@given(schedule_, rows_, policies_)
def test_a_course_survives_being_written_down(schedule, rows, policies):
    course = plan(schedule, rows, policies)
    assert Course.from_plain(course.to_plain()) == course


@law
@given(schedule_, rows_, policies_, st.integers(0, 200))
def test_draws_and_credits_at_a_position_are_those_of_its_prefix(schedule, rows, policies, position):
    course = plan(schedule, rows, policies)
    position = position if course.end is None else min(position, course.end)
    phase = course.phases[course.at(position)]
    prefix = names_drawn(course, position)
    assert {n: c for n, c in phase.drawn(position).items() if c} == {n: prefix.count(n) for n in {*prefix}}
    credits = phase.credits_at(position)
    target = dict.fromkeys(credits, Fraction(0))
    for part in course.phases:
        length = min(position, position if part.end is None else part.end) - part.start
        for name, weight in part.weights.items():
            if length > 0:
                target[name] += Fraction(length * weight, sum(part.weights.values()))
    for name, credit in credits.items():
        assert abs(Fraction(credit, 2**20) - (target[name] - prefix.count(name))) <= Fraction(len(course.phases), 2**20)


def worst_error(course, schedule):
    """Largest distance of any component from its exact target in any prefix."""
    drawn, target = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, Fraction(0))
    worst = Fraction(0)
    for phase, (_, weights) in zip(course.phases, schedule, strict=True):
        length = 400 if phase.end is None else phase.end - phase.start
        components, _ = phase.tree.down(np.arange(length))
        period = sum(weights.values())
        for index, name in enumerate(phase.weights):
            counts = drawn[name] + np.cumsum(components == index)
            # Exact: everything in units of 1 / (common period), which int64 holds.
            scale = target[name].denominator * period
            exact = int(target[name] * scale) + np.arange(1, length + 1) * (weights[name] * scale // period)
            worst = max(worst, Fraction(int(np.abs(counts * scale - exact).max()), scale))
            drawn[name] = int(counts[-1])
            target[name] += Fraction(length * weights[name], period)
    return worst


def test_a_thousand_short_phases_stay_within_two_rows_of_target():
    mixtures = [
        {"a": 50, "b": 30, "c": 15, "d": 5},
        {"a": 10, "b": 60, "c": 25, "d": 5},
        {"a": 1, "b": 1, "c": 1},
        {"a": 700, "b": 299, "d": 1},
        {"a": 33, "b": 33, "c": 33, "d": 1},
    ]
    schedule = [(400 * i, mixtures[i * i % 7 % 5]) for i in range(1000)]
    course = plan(schedule, dict.fromkeys(NAMES, 10**9), resolve_policies(NAMES, "repeat", None, None))
    assert len(course.phases) == 1000
    assert worst_error(course, schedule) <= 2


@pytest.mark.parametrize("seed", range(4))
def test_phases_of_any_length_and_mixture_stay_within_two_rows_of_target(seed):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, 300, 200))]).tolist()
    parts = [rng.integers(1, 13, 3).tolist() for _ in starts]
    schedule = [
        (start, {"a": a, "b": b, "c": c, "d": 40 - a - b - c}) for start, (a, b, c) in zip(starts, parts, strict=True)
    ]
    course = plan(schedule, dict.fromkeys(NAMES, 10**9), resolve_policies(NAMES, "repeat", None, None))
    # Without credits the errors of 200 phases would add up to several rows.
    assert worst_error(course, schedule) <= 2


def test_with_no_policy_the_run_ends_when_the_slowest_dataset_completes_a_pass():
    course = plan([(0, {"a": 1, "b": 1})], {"a": 10, "b": 1000}, resolve_policies(["a", "b"], None, None, None))
    assert course.end in (1999, 2000)
    assert course.phases[-1].drawn(course.end)["b"] == 1000


def test_stop_ends_at_the_first_draw_that_cannot_be_supplied():
    course = plan([(0, {"a": 1, "b": 3})], {"a": 10, "b": 30}, resolve_policies(["a", "b"], "stop", None, None))
    drawn = course.phases[-1].drawn(course.end)
    assert drawn["a"] == 10 or drawn["b"] == 30
    assert drawn["a"] <= 10
    assert drawn["b"] <= 30


def test_redistribute_reads_each_dataset_once():
    rows = {"a": 10, "b": 1000, "c": 300}
    course = plan([(0, {"a": 5, "b": 3, "c": 2})], rows, resolve_policies(list(rows), "redistribute", None, None))
    assert course.end == 1310
    assert course.phases[-1].drawn(1310) == rows
    assert [list(phase.weights) for phase in course.phases] == [["a", "b", "c"], ["b", "c"], ["b"]]


def test_max_repeats_ends_the_run_at_the_first_row_of_a_pass_too_many():
    course = plan([(0, {"a": 1, "b": 1})], {"a": 10, "b": 1000}, resolve_policies(["a", "b"], None, 2, None))
    assert course.phases[-1].drawn(course.end)["a"] == 30
    assert course.end == 60 or course.end == 61


def test_a_run_ends_once_with_one_policy_for_each_dataset():
    rows = {"a": 10, "b": 100}
    course = plan(
        [(0, {"a": 1, "b": 1})], rows, resolve_policies(["a", "b"], {"a": "redistribute", "b": "stop"}, None, None)
    )
    assert course.end == 110
    assert len(course.phases) == 2


def test_repeat_alone_never_ends():
    course = plan([(0, {"a": 1, "b": 1})], {"a": 10, "b": 5}, resolve_policies(["a", "b"], "repeat", None, None))
    assert course.end is None
    assert course.reason == ""


def test_a_dataset_that_leaves_the_schedule_is_not_waited_for():
    schedule = [(0, {"a": 1, "b": 1}), (40, {"b": 1})]
    course = plan(schedule, {"a": 1000, "b": 50}, resolve_policies(["a", "b"], None, None, None))
    assert course.end == 70
    assert course.phases[-1].drawn(70) == {"a": 20, "b": 50}


def test_a_dataset_that_enters_later_is_waited_for():
    schedule = [(0, {"a": 1}), (100, {"a": 1, "b": 1})]
    course = plan(schedule, {"a": 10, "b": 50}, resolve_policies(["a", "b"], None, None, None))
    assert course.phases[-1].drawn(course.end)["b"] == 50


def test_the_chunk_leaves_eight_rounds_in_a_pass():
    course = plan([(0, {"a": 1, "b": 1})], {"a": 1000, "b": 500}, resolve_policies(["a", "b"], "repeat", None, None))
    (phase,) = course.phases
    assert phase.span in (1999, 2000)
    assert phase.chunk(1) == phase.span // 8
    assert phase.chunk(10_000) == 1
    assert plan([(0, {"a": 1})], {"a": 10**9}, {"a": Policy()}).phases[0].chunk(32) == 16384


@pytest.mark.parametrize("policy", [None, "repeat", "stop", "redistribute"])
def test_a_dataset_without_rows_that_has_to_supply_some_is_an_error(policy):
    with pytest.raises(ConfigError) as caught:
        plan([(0, {"a": 1, "b": 1})], {"a": 10, "b": 0}, resolve_policies(["a", "b"], policy, None, None))
    assert caught.value.code == "empty-dataset"


def test_a_dataset_without_rows_that_is_never_reached_is_no_error():
    schedule = [(0, {"a": 1}), (100, {"b": 1})]
    course = plan(schedule, {"a": 10, "b": 0}, resolve_policies(["a", "b"], "stop", None, None))
    assert course.end == 10


def test_an_end_beyond_counting_is_an_error():
    with pytest.raises(ConfigError) as caught:
        plan([(0, {"a": 1})], {"a": 10**12}, {"a": Policy(goal=10**9)})
    assert caught.value.code == "curriculum-too-long"


def test_huge_goals_are_computed_exactly():
    course = plan([(0, {"a": 2, "b": 1})], {"a": 10**9 + 7, "b": 10}, {"a": Policy(goal=10**6), "b": Policy()})
    assert course.phases[-1].drawn(course.end)["a"] == 10**6 * (10**9 + 7)
    assert course.phases[-1].drawn(course.end - 1)["a"] == 10**6 * (10**9 + 7) - 1
