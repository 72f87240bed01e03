"""``shuffle``: the definition, its randomness, its buffer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon import random
from zephon.errors import ConfigError
from zephon_ops.shuffle import Shuffle


def naive(n: int, size: int, key: int) -> list[int]:
    """The definition, one row at a time."""
    slots: list[int] = []
    out = []
    for i in range(n):
        if len(slots) < size:
            slots.append(i)
        else:
            slot = int(random.below(random.words(key, [i]), size)[0])
            out.append(slots[slot])
            slots[slot] = i
    end = random.derive_key("end", key)
    order = sorted(range(len(slots)), key=lambda slot: (random.word(end, slot), slot))
    return out + [slots[slot] for slot in order]


def order(lab, operator, n, cuts=(), **where):
    block = lab.block({"n": np.arange(n)})
    blocks = lab.fold(operator, lab.cut(block, cuts), where=lab.context(schema=block.schema, **where))
    return [row for made in blocks for row in made.data.column("n").to_pylist()]


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(1, 200),
    size=st.integers(1, 60),
    seed=st.integers(-3, 3),
    cuts=st.lists(st.integers(1, 80), max_size=30),
)
def test_shuffle_equals_its_definition_row_by_row(lab, n, size, seed, cuts):
    key = random.derive_key("shuffle", lab.context().lane_key, seed)
    assert order(lab, Shuffle(size, seed=seed), n, cuts) == naive(n, size, key)


def test_order_differs_between_seeds_lanes_and_uses(lab):
    orders = [
        order(lab, Shuffle(64), 500),
        order(lab, Shuffle(64, seed=1), 500),
        order(lab, Shuffle(64), 500, lane=4),
        order(lab, Shuffle(64), 500, seed=8),
        order(lab, Shuffle(64), 500, occurrence=1),
    ]
    assert len({tuple(o) for o in orders}) == len(orders)


def test_rows_are_spread_over_the_buffer(lab):
    """Delays of a buffer of 100 are geometric of mean 100: standard error 1 over 10,000 rows."""
    found = np.array(order(lab, Shuffle(100), 10_100))[:10_000]
    delays = np.arange(len(found)) + 100 - found
    assert 95 < delays.mean() < 105
    assert 90 < delays.std() < 110


def test_a_lane_shorter_than_the_buffer_is_fully_shuffled(lab):
    found = order(lab, Shuffle(1000), 400)
    assert sorted(found) == list(range(400))
    assert abs(np.corrcoef(found, range(400))[0, 1]) < 0.2


def test_nothing_leaves_before_the_buffer_is_full_and_a_row_for_a_row_after(lab):
    state = Shuffle(30).open(lab.context())
    left = [sum(map(len, state.push(block))) for block in lab.cut(lab.block(100), [20] * 5)]
    assert left == [0, 10, 20, 20, 20]


def test_a_restored_buffer_is_warm_at_once(lab):
    operator, blocks = Shuffle(30), lab.cut(lab.block(100), [50])
    state = operator.open(lab.context())
    list(state.push(blocks[0]))
    fresh = operator.open(lab.context())
    fresh.restore(lab.through_bytes(state.snapshot()))
    assert sum(map(len, fresh.push(blocks[1]))) == 50


def test_snapshots_refer_to_the_blocks_held_and_copy_no_row(lab):
    state = Shuffle(1000).open(lab.context())
    block = lab.block(200)
    list(state.push(block))
    (held,) = state.snapshot().blocks.values()
    assert held.data.column("text").buffers()[2].address == block.data.column("text").buffers()[2].address


@pytest.mark.parametrize("size", [0, -1, 1.5, "8", True, None])
def test_shuffle_refuses_a_buffer_size_that_is_no_positive_integer(size):
    with pytest.raises(ConfigError) as info:
        Shuffle(size)
    assert info.value.code == "operator-argument"
