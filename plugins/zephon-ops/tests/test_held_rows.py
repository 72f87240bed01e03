"""Rows held back: in which memory, in how many pieces, copied how often."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon_ops import held
from zephon_ops.held import MAX_PIECES, HeldRows


def ids_of(blocks):
    return [n for block in blocks for n in block.data.column("n").to_pylist()]


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_rows_taken_are_the_rows_held_in_the_order_asked(lab, seed, sizes):
    rng = np.random.default_rng(seed)
    rows, state, live = lab.block(sum(sizes)), HeldRows(), np.empty(0, dtype=np.int64)
    for block in lab.cut(rows, sizes):
        ids = block.origins.row
        state.append(block, ids)
        live = rng.permutation(np.concatenate([live, ids]))
        leaving, live = np.split(live, [rng.integers(0, len(live) + 1)])
        taken = state.take(leaving)
        assert ids_of(taken) == leaving.tolist()
        assert [row for block in taken for row in block.origins.row.tolist()] == leaving.tolist()
        state.settle(lambda held=live: held)
    assert ids_of(state.take(live)) == live.tolist()
    assert not state.pieces


def test_many_small_blocks_are_merged_into_few_pieces_copying_each_row_a_few_times(lab):
    state, copied = HeldRows(), 0
    blocks = lab.cut(lab.block(4000), [4] * 1000)
    known = set()
    for i, block in enumerate(blocks):
        state.append(block, block.origins.row)
        state.settle(lambda stop=4 * (i + 1): np.arange(stop))
        assert len(state.pieces) <= MAX_PIECES
        new = {id(p) for p in state.pieces} - known
        copied += sum(len(p.ids) for p in state.pieces if id(p) in new and len(p.ids) > 4)
        known = {id(p) for p in state.pieces}
    assert copied < 10 * 4000


def test_a_small_part_of_a_large_block_is_copied_once_when_it_arrives(lab):
    parent, state = lab.block({"text": ["x" * 100] * 10_000}), HeldRows()
    for i in range(5):
        block = parent.slice(i * 1000, i * 1000 + 10)
        state.append(block, block.origins.row)
        state.settle(lambda: pytest.fail("what is held already was copied again"))
    assert sum(piece.retained for piece in state.pieces) < 2 * 5 * 10 * 110


def test_a_large_part_of_a_block_is_held_by_reference(lab):
    block, state = lab.block(100), HeldRows()
    state.append(block.slice(0, 80), block.origins.row[:80])
    assert state.pieces[0].block.data.column("n").buffers()[1].address == block.data.column("n").buffers()[1].address


def test_large_rows_are_gathered_into_blocks_of_bounded_size(lab, monkeypatch):
    monkeypatch.setattr(held, "GATHERED_BYTES", 10_000)
    block, state = lab.block({"n": range(100), "text": ["x" * 1000] * 100}), HeldRows()
    state.append(block, block.origins.row)
    taken = state.take(np.arange(100)[::-1])
    assert ids_of(taken) == list(range(100))[::-1]
    assert max(map(len, taken)) <= 10


def test_taking_nothing_gives_nothing(lab):
    assert HeldRows().take(np.empty(0, dtype=np.int64)) == []
