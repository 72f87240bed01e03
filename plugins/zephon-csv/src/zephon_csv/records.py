r"""Where records begin and end, and how many fields they have.

A record ends at a line end (``\n``, ``\r\n`` or ``\r``) outside quotes. A quote opens at the start of a field only,
as in RFC 4180, Python's ``csv`` and Arrow; anywhere else it is text. Inside quotes, two quotes are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

_LF: Final = 10
_CR: Final = 13


@attrs.frozen(slots=True, kw_only=True)
class Dialect:
    """One byte between fields (b"" for none: a record is a line) and one around them (b"" for none)."""

    delimiter: bytes
    quote: bytes


@attrs.frozen(slots=True, kw_only=True, eq=False)
class Records:
    """Consecutive records of a content.

    Attributes:
        data: the bytes they are in.
        base: offset of these bytes in the content.
        edges: int64 ``[n + 1]``: where each begins in ``data``, then where the last one ends.
        fields: int64 ``[n]``: how many fields each has.
        is_open: whether the last record ends within quotes.
    """

    data: bytes
    base: int
    edges: npt.NDArray[np.int64]
    fields: npt.NDArray[np.int64]
    is_open: bool = False


def records(chunks: Iterable[bytes], dialect: Dialect, start: int = 0) -> Iterator[Records]:
    """Cut a content into records.

    Args:
        chunks: the content, in order.
        dialect: what separates what.
        start: bytes at the beginning that are no part of it.
    """
    base, rest, wanted = start, b"", 0
    skip = start
    pending: list[bytes] = []
    held = 0
    for piece in chunks:
        chunk = piece[skip:]
        skip -= len(piece) - len(chunk)
        pending.append(chunk)
        held += len(chunk)
        if held < wanted:
            continue  # a long record: look again when there is twice as much
        data = b"".join([rest, *pending])
        pending, held = [], 0
        found = _scan(data, base, dialect, is_last=False)
        if len(found.fields):
            yield found
        cut = int(found.edges[-1])
        base, rest = base + cut, data[cut:]
        wanted = len(rest)
    data = b"".join([rest, *pending])
    if data:
        yield _scan(data, base, dialect, is_last=True)


def _scan(data: bytes, base: int, dialect: Dialect, *, is_last: bool) -> Records:
    """The complete records at the beginning of ``data``; of the last data, all."""
    view = np.frombuffer(data, dtype=np.uint8)
    ends = _line_ends(view, is_last=is_last)
    delimiters = np.flatnonzero(view == dialect.delimiter[0]) if dialect.delimiter else np.empty(0, dtype=np.int64)
    is_open = False
    if dialect.quote:
        quotes = np.flatnonzero(view == dialect.quote[0])
        if not _all_open_fields(view, quotes, dialect):
            return _scan_each(data, base, dialect, is_last=is_last)
        # Outside quotes is what has an even number of quotes before it.
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        delimiters = delimiters[np.searchsorted(quotes, delimiters) % 2 == 0]
        is_open = is_last and len(quotes) % 2 == 1
    edges = np.concatenate([[0], ends])
    if is_last and edges[-1] < len(data):
        edges = np.append(edges, len(data))
    fields = np.diff(np.searchsorted(delimiters, edges)) + 1
    return Records(data=data, base=base, edges=edges.astype(np.int64), fields=fields.astype(np.int64), is_open=is_open)


def _line_ends(view: npt.NDArray[np.uint8], *, is_last: bool) -> npt.NDArray[np.int64]:
    """The place after every line end."""
    feeds = np.flatnonzero(view == _LF)
    returns = np.flatnonzero(view == _CR)
    if len(returns):
        if not is_last and returns[-1] == len(view) - 1:
            returns = returns[:-1]  # what follows is not known yet
        following = np.append(view, 0)[returns + 1]
        feeds = np.union1d(feeds, returns[following != _LF])
    return feeds + 1


def _all_open_fields(view: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64], dialect: Dialect) -> bool:
    """Whether every second quote opens a field, or belongs to a pair: then counting quotes is enough.

    By induction: as long as that holds, an even number of quotes before a byte means that it is outside.
    """
    opening = quotes[::2]
    if len(opening) and opening[0] == 0:
        opening = opening[1:]
    before = view[opening - 1]
    allowed = np.frombuffer(dialect.delimiter + dialect.quote + b"\r\n", dtype=np.uint8)
    return bool(np.isin(before, allowed).all())


def _scan_each(data: bytes, base: int, dialect: Dialect, *, is_last: bool) -> Records:
    """As :func:`_scan`, field by field: quotes in the middle of fields are told from quotes around them."""
    stop = re.compile(b"[" + re.escape(dialect.delimiter) + b"\r\n]")
    quote, size = dialect.quote, len(data)
    edges, fields = [0], []
    place, count = 0, 1
    is_open = False
    while place < size:
        if data.startswith(quote, place):
            place = _closing(data, place + 1, quote)
            if place == size and not is_last:
                break  # whether it is closed is not known yet
            if place > size:
                is_open = True
                break
        match = stop.search(data, place)
        if match is None:
            break
        place = match.end()
        if match[0] == dialect.delimiter:
            count += 1
            continue
        if match[0] == b"\r":
            if place == size and not is_last:
                break
            place += data.startswith(b"\n", place)
        edges.append(place)
        fields.append(count)
        count = 1
    if is_last and edges[-1] < size:
        edges.append(size)
        fields.append(count)
    return Records(
        data=data,
        base=base,
        edges=np.array(edges, dtype=np.int64),
        fields=np.array(fields, dtype=np.int64),
        is_open=is_open and is_last,
    )


def _closing(data: bytes, place: int, quote: bytes) -> int:
    """The place after the quote that closes a field; beyond the data if there is none."""
    while True:
        place = data.find(quote, place)
        if place < 0:
            return len(data) + 1
        if not data.startswith(quote, place + 1):
            return place + 1
        place += 2
