"""What both backends say of byte ranges."""

from __future__ import annotations

from collections.abc import Sequence


def check_ranges(ranges: Sequence[tuple[int, int]]) -> None:
    """Refuse what is no half-open range.

    Raises:
        ValueError: a negative start, or a stop before its start.
    """
    for start, stop in ranges:
        if not 0 <= start <= stop:
            raise ValueError(f"not a half-open byte range: ({start}, {stop})")


def past_the_end(place: str, start: int, stop: int, size: int) -> EOFError:
    """The error for a range that reaches past the end of a file."""
    return EOFError(f"bytes {start} to {stop} of {place} were asked for, but it has {size}")
