"""From a lane's position to a position of the curriculum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.work.lanes import Lanes, Span
from zephon.work.permutation import BoundedCache

# The slow definitions take as long as they take.
law = settings(deadline=None, max_examples=40)

phases_ = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 40)), min_size=1, max_size=6)


def spans_of(phases):
    starts = np.cumsum([0] + [length for length, _ in phases])
    return [Span(int(start), length, chunk) for start, (length, chunk) in zip(starts, phases, strict=False)]


def positions(dealer, lane, start, stop):
    pieces = [at for _, at in dealer.pieces(lane, start, stop, BoundedCache(1 << 20))]
    return np.concatenate([np.empty(0, np.int64), *pieces])


@law
@given(phases_, st.integers(1, 40), st.integers(0, 2))
def test_lanes_equal_the_slow_definition(slow, phases, lanes, seed):
    spans = spans_of(phases)
    dealer = Lanes(spans, lanes, seed)
    read = [positions(dealer, lane, 0, dealer.length(lane)).tolist() for lane in range(lanes)]
    assert read == slow.deal([tuple(span) for span in spans], lanes, seed)


@law
@given(phases_, st.integers(1, 40))
def test_lanes_share_all_positions_and_differ_by_one_row_at_most(phases, lanes):
    spans = spans_of(phases)
    dealer = Lanes(spans, lanes, 0)
    lengths = [dealer.length(lane) for lane in range(lanes)]
    total = sum(length for length, _ in phases)
    assert sum(lengths) == total
    assert max(lengths) - min(lengths) <= 1
    read = np.concatenate([positions(dealer, lane, 0, n) for lane, n in enumerate(lengths)])
    np.testing.assert_array_equal(np.sort(read), np.arange(total))


@law
@given(phases_, st.integers(1, 10), st.data())
def test_any_part_of_a_lane_is_read_alike(phases, lanes, data):
    dealer = Lanes(spans_of(phases), lanes, 0)
    lane = data.draw(st.integers(0, lanes - 1))
    whole = positions(dealer, lane, 0, dealer.length(lane))
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    np.testing.assert_array_equal(positions(dealer, lane, start, stop), whole[start:stop])
    if len(whole):
        picked = np.array(data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=20)), dtype=np.int64)
        np.testing.assert_array_equal(dealer.positions(lane, picked, BoundedCache(0)), whole[picked])


@law
@given(phases_, st.integers(1, 20), st.data())
def test_dealt_is_the_end_of_the_chunk_round_of_the_last_row_read(phases, lanes, data):
    spans = spans_of(phases)
    dealer = Lanes(spans, lanes, 0)
    lane = data.draw(st.integers(0, lanes - 1))
    whole = positions(dealer, lane, 0, dealer.length(lane))
    ends = [min(s.start + s.length, at) for s in spans for at in _round_ends(s, lanes)]
    assert dealer.dealt(lane, 0) == 0
    for read in range(1, len(whole) + 1):
        assert dealer.dealt(lane, read) == min(end for end in ends if end > whole[read - 1])


@law
@given(phases_, st.integers(1, 20), st.data())
def test_rows_before_a_chunk_round_are_those_read_below_it(phases, lanes, data):
    spans = spans_of(phases)
    dealer = Lanes(spans, lanes, 0)
    lane, span = data.draw(st.integers(0, lanes - 1)), data.draw(st.sampled_from(spans))
    whole = positions(dealer, lane, 0, dealer.length(lane))
    for end in [span.start, *(min(span.start + span.length, at) for at in _round_ends(span, lanes))]:
        assert dealer.rows_before(lane, end) == np.count_nonzero(whole < end)


def _round_ends(span, lanes):
    return range(span.start + lanes * span.chunk, span.start + span.length + lanes * span.chunk, lanes * span.chunk)


def test_more_lanes_than_rows_leaves_lanes_empty():
    dealer = Lanes([Span(0, 3, 1)], 5, 0)
    assert [dealer.length(lane) for lane in range(5)] == [1, 1, 1, 0, 0]
    assert len(positions(dealer, 4, 0, 0)) == 0


def test_many_more_lanes_than_a_small_permutation_holds_share_all_positions():
    dealer = Lanes([Span(0, 9_001, 1)], 4100, 0)
    read = np.concatenate([positions(dealer, lane, 0, dealer.length(lane)) for lane in range(4100)])
    np.testing.assert_array_equal(np.sort(read), np.arange(9_001))


def test_a_lane_without_end_has_no_length_and_reads_anywhere():
    dealer = Lanes([Span(0, 1000, 16), Span(1000, None, 16)], 4, 0)
    assert dealer.length(0) is None
    far = 10**12
    read = np.concatenate([positions(dealer, lane, far, far + 32) for lane in range(4)])
    start = int(read.min())
    # 250 rows of the first phase put lanes 10 rows into a chunk-round here.
    assert len(np.unique(read)) == 128
    assert read.max() - start < 3 * 64
    assert start > 4 * (far - 32)


@pytest.mark.parametrize("chunk", [64, 16384])
def test_lanes_start_their_chunks_out_of_phase(chunk):
    dealer = Lanes([Span(0, None, chunk)], 64, 0)
    first = np.array([positions(dealer, lane, 0, 1)[0] for lane in range(64)])
    assert len(np.unique(first // chunk)) == 64
    assert len(np.unique(first % chunk)) > 32
