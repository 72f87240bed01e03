"""A draw is a function of its address, and looks random along every axis of it."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon import random

KEYS = st.integers(0, 2**64 - 1)


@given(KEYS, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50), st.data())
def test_words_of_an_array_are_the_words_of_its_elements(key, counters, data):
    array = np.array(counters, dtype=np.int64)
    whole = random.words(key, array)
    at = data.draw(st.integers(0, len(counters) - 1))
    assert whole[at] == random.words(key, array[at : at + 1])[0]
    assert int(whole[at]) == random.word(key, counters[at])


@given(KEYS, st.integers(0, 100))
def test_the_dtype_of_a_counter_does_not_matter(key, counter):
    kinds = [np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64]
    assert len({int(random.words(key, np.array([counter], dtype=kind))[0]) for kind in kinds}) == 1


def test_known_words_never_change():
    """If this fails, every run of every user is broken: the generator is part of the checkpoint format."""
    assert random.derive_key("operator", 42, "shuffle", 0) == 0x62BBB296E786F570
    assert [int(w) for w in random.words(5, np.arange(3))] == [
        4517933670823692284,
        15581639984001433272,
        6774786812621333721,
    ]


def test_keys_of_different_names_differ_where_their_text_runs_together():
    names = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), (1,), ("1",), (b"1",), (-1,), (1, 1), (11,)]
    assert len({random.derive_key(*name) for name in names}) == len(names)


def test_no_state_and_no_hash_seed_enter():
    code = (
        "import numpy as np; from zephon import random;"
        "print(random.derive_key('a', 1), random.words(7, np.arange(3)).tolist())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("axis", ["counter", "key"])
def test_bits_are_balanced_and_independent_along_every_axis(axis):
    n = 1 << 14
    steps = np.arange(n, dtype=np.uint64)
    drawn = random.words(3, steps) if axis == "counter" else random.words(steps, np.zeros(n, dtype=np.int64))
    bits = (drawn[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    spread = 5 * np.sqrt(0.25 / n)  # five standard deviations
    assert abs(bits.mean(axis=0) - 0.5).max() < spread
    flips = (bits[1:] ^ bits[:-1]).mean(axis=0)
    assert abs(flips - 0.5).max() < spread


@given(KEYS, st.integers(1, 2**40))
def test_integers_stay_below_their_limit(key, limit):
    drawn = random.below(random.words(key, np.arange(64)), limit)
    assert drawn.min() >= 0
    assert drawn.max() < limit


def test_integers_and_floats_are_uniform():
    drawn = random.words(11, np.arange(1 << 16))
    counts = np.bincount(random.below(drawn, 10), minlength=10)
    assert abs(counts - 6553.6).max() < 5 * np.sqrt(65536 * 0.1 * 0.9)
    floats = random.uniform(drawn)
    assert floats.min() >= 0
    assert floats.max() < 1
    assert abs(floats.mean() - 0.5) < 0.01


def test_nested_addresses_depend_on_order():
    a, b = np.array([1], dtype=np.uint64), np.array([2], dtype=np.uint64)
    assert random.combine(a, b)[0] != random.combine(b, a)[0]
