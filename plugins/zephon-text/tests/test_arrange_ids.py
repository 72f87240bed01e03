"""Flat-array arithmetic against the obvious loops."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zephon_text import arrange

ROWS = st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=8)


def flat(rows):
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return offsets, np.array([i for row in rows for i in row], dtype=np.int32)


def rows_of(offsets, ids):
    return [ids[a:b].tolist() for a, b in itertools.pairwise(offsets)]


@given(ROWS, st.none() | st.just(77), st.none() | st.just(88))
def test_surround_puts_one_id_on_each_side(rows, before, after):
    offsets, ids = arrange.surround(*flat(rows), before, after)
    assert rows_of(offsets, ids) == [[*([77] * (before is not None)), *r, *([88] * (after is not None))] for r in rows]
    assert ids.dtype == np.int32 and offsets.dtype == np.int64


@given(ROWS, st.integers(1, 6), st.integers(0, 3))
def test_cut_keeps_the_last_ids_and_as_many_first_ones_as_fit(rows, length, keep_last):
    keep_last = min(keep_last, length)
    expected = [r if len(r) <= length else r[: length - keep_last] + r[len(r) - keep_last :] for r in rows]
    offsets, ids = arrange.cut(*flat(rows), length, keep_last)
    assert rows_of(offsets, ids) == expected
    assert ids.dtype == np.int32 and offsets.dtype == np.int64


@given(ROWS, st.integers(1, 6))
def test_split_pieces_put_together_are_the_row(rows, length):
    offsets, ids = flat(rows)
    cuts, parents = arrange.split(offsets, length)
    pieces = rows_of(cuts, ids)
    expected = [(i, r[k : k + length]) for i, r in enumerate(rows) for k in range(0, max(len(r), 1), length)]
    assert list(zip(parents.tolist(), pieces, strict=True)) == expected
