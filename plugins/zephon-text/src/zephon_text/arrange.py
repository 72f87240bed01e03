"""Rows of token ids as flat arrays: special tokens, cutting, splitting. No loop over rows or tokens.

Everywhere, row ``i`` is ``ids[offsets[i]:offsets[i + 1]]``, with int64 offsets from 0 and int32 ids.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]


def surround(offsets: Offsets, ids: Ids, before: int | None, after: int | None) -> tuple[Offsets, Ids]:
    """Put one id before and one after every row; None for nothing."""
    if before is None and after is None:
        return offsets, ids
    rows = np.arange(len(offsets), dtype=np.int64)
    added = (before is not None) + (after is not None)
    grown = offsets + added * rows
    result = np.empty(int(grown[-1]), dtype=np.int32)
    body = np.ones(len(result), dtype=bool)
    if before is not None:
        result[grown[:-1]] = before
        body[grown[:-1]] = False
    if after is not None:
        result[grown[1:] - 1] = after
        body[grown[1:] - 1] = False
    result[body] = ids
    return grown, result


def cut(offsets: Offsets, ids: Ids, length: int, keep_last: int) -> tuple[Offsets, Ids]:
    """Shorten rows to ``length``, keeping their last ``keep_last`` ids and as many first ones as still fit."""
    lengths = np.diff(offsets)
    if not (lengths > length).any():
        return offsets, ids
    place = np.arange(len(ids)) - np.repeat(offsets[:-1], lengths)
    total = np.repeat(lengths, lengths)
    kept = (total <= length) | (place < length - keep_last) | (place >= total - keep_last)
    shorter = np.concatenate([[0], np.cumsum(np.minimum(lengths, length))])
    return shorter.astype(np.int64), ids[kept]


def split(offsets: Offsets, length: int) -> tuple[Offsets, npt.NDArray[np.int64]]:
    """Split rows into pieces of ``length`` ids, the last one shorter; an empty row stays one empty piece.

    Returns:
        The new offsets into the same ids, and for each piece the row it comes from.
    """
    lengths = np.diff(offsets)
    pieces = np.maximum(1, -(-lengths // length))
    parents = np.repeat(np.arange(len(lengths), dtype=np.int64), pieces)
    nth = np.arange(len(parents)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = offsets[:-1][parents] + nth * length
    return np.append(starts, offsets[-1]), parents
