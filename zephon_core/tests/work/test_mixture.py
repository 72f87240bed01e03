"""Weights become integers, integers become an order of draws that stays on target in every prefix."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.errors import ConfigError
from zephon.work import MixtureSpec
from zephon.work.mixture import MAX_PERIOD, MixtureTree, integer_weights

# The slow definitions take as long as they take.
law = settings(deadline=None, max_examples=40)

weights_ = st.lists(st.integers(1, 10**6), min_size=1, max_size=40)
positions_ = st.integers(0, 10**13)


def reduced(weights):
    named = integer_weights({f"{i:03}": Fraction(w) for i, w in enumerate(weights)})[0]
    return list(named.values())


def worst_error(tree, weights, positions):
    """Largest distance of any component from its exact target after each of the prefixes."""
    period = sum(weights)
    worst = Fraction(0)
    for position in positions:
        for weight, count in zip(weights, tree.counts(position), strict=True):
            worst = max(worst, abs(Fraction(position * weight, period) - count))
    return worst


@law
@given(weights_, st.lists(positions_, min_size=1, max_size=20))
def test_every_prefix_is_within_two_rows_of_target(weights, positions):
    weights = reduced(weights)
    assert worst_error(MixtureTree.build(weights), weights, positions) <= 2


@law
@given(weights_, positions_, st.integers(1, 200))
def test_walking_up_is_the_inverse_of_walking_down(weights, start, length):
    tree = MixtureTree.build(reduced(weights))
    positions = np.arange(start, start + length)
    components, ordinals = tree.down(positions)
    np.testing.assert_array_equal(tree.up(components, ordinals), positions)


@law
@given(weights_, positions_, st.integers(1, 200))
def test_ordinals_of_a_component_count_its_draws_without_gap(weights, start, length):
    tree = MixtureTree.build(reduced(weights))
    components, ordinals = tree.down(np.arange(start, start + length))
    before, after = tree.counts(start), tree.counts(start + length)
    for component in range(len(weights)):
        expected = np.arange(before[component], after[component])
        np.testing.assert_array_equal(ordinals[components == component], expected)


@settings(law, max_examples=30)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=25), st.data())
def test_draws_equal_the_slow_definition(slow, weights, data):
    weights = reduced(weights)
    owed = data.draw(st.lists(st.integers(-(2**21), 2**21), min_size=len(weights), max_size=len(weights)))
    names = [f"{i:03}" for i in range(len(weights))]
    expected = slow.draws(dict(zip(names, weights, strict=True)), dict(zip(names, owed, strict=True)), 300)
    components, _ = MixtureTree.build(weights, owed).down(np.arange(300))
    assert [names[c] for c in components] == expected


@law
@given(weights_.filter(lambda w: len(w) > 1), positions_)
def test_the_order_repeats_after_its_period(weights, position):
    weights = reduced(weights)
    tree = MixtureTree.build(weights)
    (a, i), (b, j) = tree.down(np.array([position])), tree.down(np.array([position + tree.period]))
    assert a == b
    assert j - i == weights[a[0]]


@law
@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=30, unique=True))
def test_integer_weights_stay_in_bounds_and_their_error_is_the_true_one(floats):
    shares = MixtureSpec({f"{i:03}": f for i, f in enumerate(floats)}).shares()
    weights, error = integer_weights(shares)
    period, total = sum(weights.values()), sum(shares.values())
    assert period <= MAX_PERIOD
    assert min(weights.values()) >= 1
    assert np.gcd.reduce(list(weights.values())) == 1
    assert max(abs(Fraction(weights[name], period) - shares[name] / total) for name in shares) == error


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"a": 0.7, "b": 0.2, "c": 0.1}, {"a": 7, "b": 2, "c": 1}),
        ({"a": 1e-6, "b": 0.999}, {"a": 1, "b": 999000}),
        ({"a": "1/3", "b": Fraction(2, 3)}, {"a": 1, "b": 2}),
        ({"a": Decimal("0.25"), "b": "0.75"}, {"a": 1, "b": 3}),
        ({"a": np.float64(0.1), "b": np.float32(0.3), "c": np.int32(2)}, {"a": 1, "b": 3, "c": 20}),
        ({"a": 50, "b": 50}, {"a": 1, "b": 1}),
    ],
)
def test_weights_are_read_as_the_decimals_written(written, expected):
    assert integer_weights(MixtureSpec(written).shares()) == (expected, 0)


def test_a_component_too_light_for_the_period_still_gets_one_draw():
    weights, error = integer_weights(MixtureSpec({"dust": 1e-15, "rest": 1}).shares())
    assert weights["dust"] == 1
    assert 0 < error < Fraction(1, 2**28)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), "1e999999999", "x", "1/0", True, None, 1j, []])
def test_weights_that_are_no_positive_numbers_are_refused(weight):
    with pytest.raises(ConfigError) as caught:
        MixtureSpec({"a": weight})
    assert caught.value.code == "bad-weight"


@pytest.mark.parametrize("weights", [{}, [("a", 1)], None, {1: 1}])
def test_what_is_no_mapping_from_names_is_refused(weights):
    with pytest.raises(ConfigError) as caught:
        MixtureSpec(weights)
    assert caught.value.code == "bad-mixture"


def test_a_millionth_beside_almost_everything_is_drawn_on_time():
    tree = MixtureTree.build([1, 999000])
    around = [p + d for p in (499_500, 999_001, 10**12) for d in (-1, 0, 1, 2)]
    assert worst_error(tree, [1, 999000], around) <= Fraction(1, 2)


def test_one_half_beside_a_thousand_small_ones_is_on_target_in_every_prefix():
    weights = [1000] + [1] * 1000
    components, _ = MixtureTree.build(weights).down(np.arange(6000))
    drawn = np.cumsum(components[:, None] == np.arange(1001), axis=0)
    target = np.arange(1, 6001)[:, None] * np.array(weights) / 2000
    assert np.abs(drawn - target).max() <= 2
