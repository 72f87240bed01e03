"""Permutations that are computed, not stored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.work.permutation import FEISTEL_FROM, BoundedCache, compact, permutations, permute

# The slow definitions take as long as they take.
law = settings(deadline=None, max_examples=40)

sizes_ = st.one_of(st.integers(1, 300), st.integers(FEISTEL_FROM - 3, FEISTEL_FROM + 200))


@law
@given(sizes_, st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_every_element_comes_once(size, key, number):
    places = permutations(key, np.array([number]), size)[0]
    np.testing.assert_array_equal(np.sort(places), np.arange(size))


@settings(law, max_examples=15)
@given(sizes_, st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_places_equal_the_slow_definition(slow, size, key, number):
    assert permutations(key, np.array([number]), size)[0].tolist() == slow.permutation(key, number, size)


@settings(law, max_examples=20)
@given(st.lists(sizes_, min_size=1, max_size=15), st.integers(0, 2**32 - 1))
def test_elements_of_many_segments_go_where_each_alone_would_send_them(sizes, key):
    rng = np.random.default_rng(key)
    segment = rng.integers(0, len(sizes), 50)
    numbers, sizes = np.arange(len(sizes)) * 7, np.array(sizes)
    index = rng.integers(0, sizes[segment])
    together = permute(key, numbers, sizes, segment, index, BoundedCache(1 << 20))
    alone = [
        permute(key, numbers[s : s + 1], sizes[s : s + 1], None, index[i : i + 1], BoundedCache(0))[0]
        for i, s in enumerate(segment)
    ]
    np.testing.assert_array_equal(together, alone)


def test_tiny_permutations_used_whole_equal_those_that_are_cached():
    sizes = np.arange(1, 60)
    segment = np.repeat(np.arange(len(sizes)), sizes)
    index = np.concatenate([np.arange(size) for size in sizes])
    whole = permute(5, np.arange(len(sizes)), sizes, segment, index, BoundedCache(1 << 20))
    some = permute(5, np.arange(len(sizes)), sizes, segment[::7], index[::7], BoundedCache(1 << 20))
    np.testing.assert_array_equal(whole[::7], some)


@pytest.mark.parametrize("size", [10**6, 10**12, 2**62 - 1])
def test_huge_sizes_stay_in_range_and_differ(size):
    index = np.array([size * i // 5000 for i in range(5000)])
    places = permute(3, np.array([0]), np.array([size]), None, index, BoundedCache(0))
    assert places.min() >= 0
    assert places.max() < size
    assert len(np.unique(places)) == len(index)


@pytest.mark.parametrize("size", [3000, FEISTEL_FROM, 5000, 100_003])
def test_no_pattern_is_left_in_a_shuffle(size):
    """Places, and differences between places of neighbours, are spread evenly: chi-square of 64 cells."""
    places = permutations(11, np.arange(40), size)
    by_place = np.arange(size) * 8 // size * 8 + places * 8 // size
    by_step = (np.diff(places, axis=1) % size) * 64 // size
    for cells in (by_place, by_step):
        expected = cells[0].size / 64
        chi = [((np.bincount(row, minlength=64) - expected) ** 2 / expected).sum() for row in cells]
        # Mean of 40, standard deviation 1.8: two Feistel rounds would give hundreds.
        assert np.mean(chi) < 72


def test_where_one_element_goes_is_spread_evenly_over_keys():
    size, draws = 5000, 4000
    first = permute(1, np.arange(draws), np.full(draws, size), np.arange(draws), np.zeros(draws, int), BoundedCache(0))
    counts = np.bincount(first * 32 // size, minlength=32)
    assert ((counts - draws / 32) ** 2 / (draws / 32)).sum() < 61.1  # 31 degrees of freedom, one in a thousand


@law
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50) | st.lists(st.integers(5, 40), min_size=1))
def test_compact_is_unique_with_inverse(numbers):
    numbers = np.array(numbers)
    values, inverse = compact(numbers)
    np.testing.assert_array_equal(values, np.unique(numbers))
    np.testing.assert_array_equal(values[0 if inverse is None else inverse], numbers)


def test_the_cache_holds_no_more_than_its_limit_and_forgets_the_oldest():
    cache = BoundedCache(10_000)
    for i in range(100):
        cache.once(i, lambda i=i: (np.full(100, i), 800))
        assert cache.nbytes <= 10_000
    assert cache.get(99)[0] == 99
    assert cache.get(0) is None
    cache.put("larger than all", 1, 50_000)
    assert cache.get("larger than all") == 1
    assert cache.get(99) is None


def test_a_cache_makes_room_for_what_is_needed_together():
    cache = BoundedCache(0)
    cache.reserve(10_000)
    for i in range(3):
        cache.put(i, i, 2_000)
    assert [cache.get(i) for i in range(3)] == [0, 1, 2]


def test_threads_share_a_cache_without_changing_a_result():
    sizes, index = np.full(40, 500), np.tile(np.arange(20), 40)
    segment = np.repeat(np.arange(40), 20)
    expected = permute(9, np.arange(40), sizes, segment, index, BoundedCache(1 << 20))
    cache = BoundedCache(5_000)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: permute(9, np.arange(40), sizes, segment, index, cache), range(50)))
    for places in found:
        np.testing.assert_array_equal(places, expected)
    assert cache.nbytes <= 5_000
