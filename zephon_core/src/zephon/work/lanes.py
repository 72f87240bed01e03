"""Lanes: from a lane's position to a position of the curriculum, by arithmetic.

A phase is cut into chunk-rounds of ``lanes`` chunks, dealt to the lanes through a keyed permutation. A lane reads its
chunk from a keyed offset and wraps round. What is left at the end of a phase is cut evenly; the lanes that get one row
more go round from phase to phase, so that lane lengths never differ by more than one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from zephon import random
from zephon.work.permutation import BoundedCache, IntArray, compact, permute


class Span(NamedTuple):
    """A phase as lanes see it: first position, positions in all (None for no end), positions in a chunk."""

    start: int
    length: int | None
    chunk: int


class Lanes:
    """A curriculum's phases cut into lanes. Immutable.

    Args:
        spans: the phases, in order and without gap; only the last may have no end.
        lanes: how many lanes.
        seed: what the dealing is keyed by.
    """

    def __init__(self, spans: Sequence[Span], lanes: int, seed: int) -> None:
        self.lanes = lanes
        self._spans = tuple(spans)
        self._deal_key = random.derive_key("curriculum", seed, "deal")
        self._offset_key = random.derive_key("curriculum", seed, "offset")
        lengths = np.array([span.length for span in spans if span.length is not None], dtype=np.int64)
        # Rows each lane surely has before a phase, and how many single rows were dealt round on top of them.
        self._even = np.concatenate([[0], np.cumsum(lengths // lanes)])
        self._extra = np.concatenate([[0], np.cumsum(lengths % lanes)])
        self._endless = len(lengths) < len(spans)

    def length(self, lane: int) -> int | None:
        """Rows of a lane; None if it never ends."""
        return None if self._endless else int(self._starts(lane)[-1])

    def pieces(self, lane: int, start: int, stop: int, cache: BoundedCache) -> Iterator[tuple[int, IntArray]]:
        """The positions of a range of a lane, phase by phase.

        Args:
            lane: in ``[0, lanes)``.
            start: first position in the lane.
            stop: one past the last, at most the lane's length.
            cache: keeps small permutations; no result depends on it.

        Yields:
            The phase's index, and int64 ``[n]`` positions of the curriculum, n > 0.
        """
        starts = self._starts(lane)
        phase = int(np.searchsorted(starts[: len(self._spans)], start, side="right")) - 1
        while start < stop:
            end = stop if phase + 1 == len(self._spans) else min(stop, int(starts[phase + 1]))
            if end > start:
                first = int(starts[phase])
                yield phase, self._in_phase(phase, lane, np.arange(start - first, end - first), cache)
            start, phase = end, phase + 1

    def positions(self, lane: int, lane_positions: IntArray, cache: BoundedCache) -> IntArray:
        """The positions of the curriculum behind positions of a lane.

        Args:
            lane: in ``[0, lanes)``.
            lane_positions: int64 ``[n]``, each below the lane's length.
            cache: keeps small permutations; no result depends on it.
        """
        out = np.empty(len(lane_positions), dtype=np.int64)
        if not len(out):
            return out
        starts = self._starts(lane)[: len(self._spans)]
        phases, segment = compact(np.searchsorted(starts, lane_positions, side="right") - 1)
        for i, phase in enumerate(phases.tolist()):
            here = np.arange(len(out)) if segment is None else np.flatnonzero(segment == i)
            out[here] = self._in_phase(phase, lane, lane_positions[here] - starts[phase], cache)
        return out

    def dealt(self, lane: int, lane_position: int) -> int:
        """Where the last chunk-round ends that a lane has begun.

        Args:
            lane: in ``[0, lanes)``.
            lane_position: how many rows the lane has read, at most its length.

        Returns:
            A position of the curriculum; 0 if the lane has read nothing.
        """
        if lane_position == 0:
            return 0
        starts = self._starts(lane)[: len(self._spans)]
        phase = int(np.searchsorted(starts, lane_position - 1, side="right")) - 1
        span = self._spans[phase]
        turn = (lane_position - 1 - int(starts[phase])) // span.chunk
        end = span.start + (turn + 1) * self.lanes * span.chunk
        return end if span.length is None else min(end, span.start + span.length)

    def rows_before(self, lane: int, position: int) -> int:
        """How many rows a lane reads before the chunk-round that holds a position; for the end, all its rows."""
        phase = max(i for i, span in enumerate(self._spans) if span.start <= position)
        span, starts = self._spans[phase], self._starts(lane)
        if span.length is not None and position >= span.start + span.length:
            return int(starts[phase + 1])
        return int(starts[phase]) + (position - span.start) // (self.lanes * span.chunk) * span.chunk

    def _starts(self, lane: int) -> IntArray:
        # Of t rows dealt round, the lane has those with numbers lane, lane + lanes, ...
        return self._even + (self._extra + (self.lanes - 1 - lane)) // self.lanes

    def _in_phase(self, phase: int, lane: int, index: IntArray, cache: BoundedCache) -> IntArray:
        """Positions of a lane's ``index``-th rows of a phase."""
        span = self._spans[phase]
        if span.length is None:
            return self._in_full_rounds(span, lane, index, cache)
        full = span.length // (self.lanes * span.chunk) * span.chunk
        if index[-1] < full and index.max() < full:
            return self._in_full_rounds(span, lane, index, cache)
        out = np.empty(len(index), dtype=np.int64)
        in_full = index < full
        here = np.flatnonzero(in_full)
        if len(here):
            out[here] = self._in_full_rounds(span, lane, index[here], cache)
        here = np.flatnonzero(~in_full)
        out[here] = self._in_last_round(phase, span.length, lane, index[here] - full, cache)
        return out

    def _in_full_rounds(self, span: Span, lane: int, index: IntArray, cache: BoundedCache) -> IntArray:
        turn = index // span.chunk
        within = index - turn * span.chunk
        turns, segment = compact(turn)
        # Addressed by position, so that phases added later move nothing.
        starts = span.start + turns * (self.lanes * span.chunk)
        if segment is None:
            key = (self._deal_key, int(starts[0]), span.chunk, lane, self.lanes)
            begin, offset = cache.once(key, lambda: (self._chunks(span, lane, starts, cache), 0))
        else:
            begin, offset = (column[segment] for column in self._chunks(span, lane, starts, cache))
        within += offset
        np.subtract(within, span.chunk, out=within, where=within >= span.chunk)
        within += begin
        return within

    def _chunks(self, span: Span, lane: int, starts: IntArray, cache: BoundedCache) -> tuple[IntArray, IntArray]:
        """Where a lane's chunk of the chunk-round at each start begins, and where in the chunk it starts to read."""
        begins = starts + self._slots(starts, np.full(len(starts), lane), cache) * span.chunk
        return begins, self._offsets(begins, span.chunk)

    def _in_last_round(self, phase: int, length: int, lane: int, index: IntArray, cache: BoundedCache) -> IntArray:
        span = self._spans[phase]
        rest = length % (self.lanes * span.chunk)
        start = span.start + length - rest
        lanes = np.arange(self.lanes)
        sizes = rest // self.lanes + ((lanes - self._extra[phase]) % self.lanes < rest % self.lanes)
        slots = self._slots(np.array([start]), lanes, cache)
        by_slot = np.empty(self.lanes, dtype=np.int64)
        by_slot[slots] = sizes
        begin = start + int(by_slot[: slots[lane]].sum())
        size = int(sizes[lane])
        return begin + (index + self._offsets(np.array([begin]), size)) % size

    def _offsets(self, begins: IntArray, size: int) -> IntArray:
        """Where in the chunks that begin at some positions their lanes start to read."""
        return random.below(random.words(self._offset_key, begins), size)

    def _slots(self, starts: IntArray, lanes: IntArray, cache: BoundedCache) -> IntArray:
        """Which chunk of the chunk-round at each start a lane is dealt; one start may serve many lanes."""
        segment = np.arange(len(starts)) if len(starts) > 1 else None
        return permute(self._deal_key, starts, np.full(len(starts), self.lanes), segment, lanes, cache)
