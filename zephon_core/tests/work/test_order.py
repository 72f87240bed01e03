"""From the n-th draw of a dataset to (epoch, shard, row)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.work.order import DatasetOrder, OrderOptions
from zephon.work.permutation import BoundedCache

# The slow definitions take as long as they take.
law = settings(deadline=None, max_examples=40)

shards_ = st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any)
options_ = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 3),
        "shuffle_shards": st.booleans(),
        "shuffle_within_shard": st.booleans(),
        "shuffle_block_size": st.sampled_from([None, 1, 7, 50, 10**9, "auto", "global"]),
        "reshuffle_on_repeat": st.booleans(),
    }
)


def order(shard_rows, name="web", **changes):
    options = {
        "seed": 0,
        "shuffle_shards": True,
        "shuffle_within_shard": False,
        "shuffle_block_size": None,
        "reshuffle_on_repeat": True,
    }
    return DatasetOrder(name, np.array(shard_rows), OrderOptions(**{**options, **changes}))


def rows_of(found, start, stop, cache=None):
    located = found.locate(np.arange(start, stop), cache or BoundedCache(1 << 20))
    return list(zip(located.shard.tolist(), located.row.tolist(), strict=True))


@settings(law, max_examples=100)
@given(shards_, options_, st.integers(0, 10**9))
def test_an_epoch_holds_every_row_once(shard_rows, options, epoch):
    found = order(shard_rows, **options)
    located = found.locate(np.arange(epoch * found.rows, (epoch + 1) * found.rows), BoundedCache(1 << 20))
    assert (located.epoch == epoch).all()
    expected = [(s, r) for s, rows in enumerate(shard_rows) for r in range(rows)]
    assert sorted(zip(located.shard.tolist(), located.row.tolist(), strict=True)) == expected


@settings(law, max_examples=100)
@given(shards_, options_, st.integers(0, 50))
def test_rows_equal_the_slow_definition(slow, shard_rows, options, epoch):
    found = order(shard_rows, **options)
    expected = slow.epoch(
        "web",
        shard_rows,
        epoch,
        seed=options["seed"],
        shards=options["shuffle_shards"],
        within=options["shuffle_within_shard"],
        block=options["shuffle_block_size"],
        reshuffle=options["reshuffle_on_repeat"],
    )
    assert rows_of(found, epoch * found.rows, (epoch + 1) * found.rows) == expected


@pytest.mark.parametrize("block", [None, 700, 5000, "auto", "global"])
@pytest.mark.parametrize("within", [False, True])
def test_large_shards_and_windows_equal_the_slow_definition(slow, block, within):
    shard_rows = [5000, 40, 0, 4200, 300]
    found = order(shard_rows, shuffle_within_shard=within, shuffle_block_size=block)
    expected = slow.epoch("web", shard_rows, 3, within=within, block=block)
    assert rows_of(found, 3 * found.rows, 4 * found.rows) == expected


@law
@given(shards_, options_, st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_draws_in_any_order_give_the_same_rows(shard_rows, options, ordinals):
    found = order(shard_rows, **options)
    together = found.locate(np.array(ordinals), BoundedCache(1 << 20))
    for i, ordinal in enumerate(ordinals):
        alone = found.locate(np.array([ordinal]), BoundedCache(0))
        assert [column[i] for column in together] == [column[0] for column in alone]


@law
@given(shards_, options_, st.integers(0, 20))
def test_empty_shards_do_not_move_the_rows_of_others(shard_rows, options, epoch):
    full = [rows for rows in shard_rows if rows]
    numbers = [shard for shard, rows in enumerate(shard_rows) if rows]
    found, other = order(shard_rows, **options), order(full, **options)
    start, stop = epoch * found.rows, (epoch + 1) * found.rows
    assert rows_of(found, start, stop) == [(numbers[shard], row) for shard, row in rows_of(other, start, stop)]


def test_without_shuffling_rows_come_in_order():
    found = order([3, 0, 2], shuffle_shards=False)
    assert rows_of(found, 0, 5) == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1)]


def test_shards_stay_whole_unless_windows_mix_them():
    shards = [shard for shard, _ in rows_of(order([10] * 50), 0, 500)]
    assert shards != sorted(shards)
    assert all(len(set(shards[i : i + 10])) == 1 for i in range(0, 500, 10))


def test_windows_shuffle_within_themselves_only():
    plain = order([10] * 50)
    mixed = order([10] * 50, shuffle_block_size=64)
    before, after = rows_of(plain, 0, 500), rows_of(mixed, 0, 500)
    assert before != after
    for start in range(0, 500, 64):  # the last window is short
        assert sorted(before[start : start + 64]) == sorted(after[start : start + 64])


def test_auto_means_eight_times_the_largest_shard():
    assert order([10, 30, 20] * 20, shuffle_block_size="auto").window == 240
    assert order([10, 30, 20], shuffle_block_size="auto").window == 60


@pytest.mark.parametrize("options", [{}, {"shuffle_within_shard": True}, {"shuffle_block_size": "global"}])
def test_epochs_differ_unless_reshuffling_is_off(options):
    for reshuffle in (True, False):
        found = order([20] * 30, reshuffle_on_repeat=reshuffle, **options)
        assert (rows_of(found, 0, 600) != rows_of(found, 600, 1200)) == reshuffle
        assert found.locate(np.array([599, 600]), BoundedCache(0)).epoch.tolist() == [0, 1]


def test_order_depends_on_name_and_seed():
    orders = [order([5] * 40, name=n, seed=s) for n, s in (("web", 0), ("code", 0), ("web", 1))]
    first, *others = (rows_of(found, 0, 200) for found in orders)
    assert first not in others


def test_one_long_shard_among_many_short_ones_is_found_through_its_buckets():
    shard_rows = [1] * 400 + [10**6] + [1] * 400
    found = order(shard_rows, shuffle_block_size="global", shuffle_shards=False)
    rows = found.rows
    located = found.locate(np.arange(rows), BoundedCache(1 << 20))
    assert np.bincount(located.shard).tolist() == shard_rows
    assert len(np.unique(located.row[located.shard == 400])) == 10**6
