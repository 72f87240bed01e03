"""``batch``: S2, S4. Nothing but the very end of a lane makes a microbatch short."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.errors import ConfigError
from zephon_ops.batch import BatchRows

streams = given(
    n=st.integers(1, 200),
    size=st.integers(1, 30),
    drop_last=st.booleans(),
    cuts=st.lists(st.integers(1, 70), max_size=30),
)


@settings(max_examples=100, deadline=None)
@streams
def test_only_the_last_microbatch_of_a_lane_may_be_short_and_only_without_drop_last(lab, n, size, drop_last, cuts):
    block = lab.block(n)
    made = lab.fold(BatchRows(size, drop_last=drop_last), lab.cut(block, cuts))
    whole, rest = divmod(n, size)
    assert list(map(len, made)) == [size] * whole + ([rest] if rest and not drop_last else [])
    assert lab.rows(made) == lab.rows([block])[: n if not drop_last else whole * size]


@settings(max_examples=50, deadline=None)
@streams
def test_at_most_a_microbatch_less_one_row_is_held(lab, n, size, drop_last, cuts):
    state = BatchRows(size, drop_last=drop_last).open(lab.context())
    seen = 0
    for block in lab.cut(lab.block(n), cuts):
        list(state.push(block))
        seen += len(block)
        assert sum(map(len, state.snapshot().blocks.values())) == seen % size


def test_a_microbatch_inside_one_block_shares_its_memory(lab):
    block = lab.block(64)
    (first, *_) = BatchRows(8).open(lab.context()).push(block)
    assert first.data.column("n").buffers()[1].address == block.data.column("n").buffers()[1].address


def test_a_large_block_becomes_many_microbatches_in_one_push(lab):
    assert list(map(len, BatchRows(3).open(lab.context()).push(lab.block(10)))) == [3, 3, 3]


@pytest.mark.parametrize("size", [0, -4, 2.0, "8", False, None])
def test_batch_refuses_a_microbatch_size_that_is_no_positive_integer(size):
    with pytest.raises(ConfigError) as info:
        BatchRows(size)
    assert info.value.code == "operator-argument"
