"""Copying many ranges of flat columns at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64Array = npt.NDArray[np.int64]


def range_indices(start: Int64Array, length: Int64Array) -> Int64Array:
    """The numbers ``start[i]``, ..., ``start[i] + length[i] - 1`` for every ``i``, one after the other: int64."""
    first = np.cumsum(length) - length
    return np.arange(int(length.sum()), dtype=np.int64) + np.repeat(start - first, length)


def ramps(length: Int64Array) -> npt.NDArray[np.int32]:
    """``0, 1, ..., length[i] - 1`` for every ``i``, one after the other: int32."""
    first = (np.cumsum(length) - length).astype(np.int32)
    return np.arange(int(length.sum()), dtype=np.int32) - np.repeat(first, length)


def take_ranges(
    sources: Sequence[pa.Array], source: npt.NDArray[np.int32], start: Int64Array, length: Int64Array
) -> pa.Array:
    """The ranges ``sources[source[i]][start[i]:start[i] + length[i]]``, one after the other.

    Joining the sources first costs one copy of those that are used; gathering from each and interleaving would copy
    what is gathered once more, and cost more calls.

    Args:
        sources: arrays of one type.
        source: which array each range lies in, int32 ``[n]``, n >= 1.
        start: int64 ``[n]``.
        length: int64 ``[n]``.

    Returns:
        An array of ``sum(length)`` values. It may be a view of a source.
    """
    used = np.unique(source)
    if len(used) == 1:
        values = sources[used[0]]
    else:
        values = pa.concat_arrays([sources[i] for i in used])
        shift = np.zeros(len(sources), dtype=np.int64)
        shift[used[1:]] = np.cumsum([len(sources[i]) for i in used[:-1]])
        start = start + shift[source]
    # Arrow's list views are lists of ranges in any order; flattening one copies range by range in C++ (neighbouring
    # ranges at once), several times faster than gathering through an index per value.
    return pa.LargeListViewArray.from_arrays(pa.array(start), pa.array(length), values).flatten()
