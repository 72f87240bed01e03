"""Which bytes to request so that few requests deliver many ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: Bytes between two ranges that are fetched along rather than asked around: about what a request costs in time.
GAP: Final = 16 << 10


def covering(ranges: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Spans that cover all ranges and lie more than :data:`GAP` bytes apart, in ascending order.

    Args:
        ranges: half-open, not empty, in any order.

    Returns:
        The spans, and for each range the number of the span it lies in.
    """
    spans: list[tuple[int, int]] = []
    homes = [0] * len(ranges)
    for number in sorted(range(len(ranges)), key=ranges.__getitem__):
        start, stop = ranges[number]
        if spans and start - spans[-1][1] <= GAP:
            spans[-1] = (spans[-1][0], max(spans[-1][1], stop))
        else:
            spans.append((start, stop))
        homes[number] = len(spans) - 1
    return spans, homes
