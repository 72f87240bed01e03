"""Permutations that are computed, not stored.

From :data:`FEISTEL_FROM` elements up, one element at a time by a Feistel network with cycle walking: the generalised
network on ``Z_a x Z_b`` with ``a * b`` barely above the size (Black and Rogaway, "Ciphers with arbitrary finite
domains", 2002; the construction named FE2 in Bellare, Ristenpart, Rogaway, Stegers, "Format-preserving encryption",
2009). Below, where a network has too few keys to be a good shuffle, by sorting keyed 64-bit hashes of the elements.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from zephon import random

IntArray = npt.NDArray[np.int64]
KeyArray = npt.NDArray[np.uint64]
SmallArray = npt.NDArray[np.uint16]
T = TypeVar("T")

#: Sizes from here on are permuted by the network, smaller ones by sorting.
FEISTEL_FROM: Final = 4096

# Four rounds with random round functions are indistinguishable from a random permutation, in both directions (Luby and
# Rackoff, "How to construct pseudorandom permutations from pseudorandom functions", 1988). With two, the differences of
# neighbours are visibly uneven.
_ROUNDS: Final = 4

# A sorted hash gives its low bits to the element it belongs to, so that sorting alone yields the permutation.
_ELEMENT_BITS: Final = np.uint64(FEISTEL_FROM - 1)
_PADDING: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


class BoundedCache:
    """Least-recently-used values that can be computed again, up to a number of bytes in all. Thread-safe.

    Values are pure functions of their keys, so it never matters which thread computed one, or whether it was kept.

    Args:
        limit: bytes; the latest value is kept even if it is larger.
    """

    # What an entry costs beside its arrays.
    _OVERHEAD: Final = 256

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._used

    def get(self, key: Hashable) -> Any | None:
        """The value, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Keep a value that must not be changed any more."""
        cost = nbytes + self._OVERHEAD
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = (value, cost)
            self._used += cost
            while self._used > self._limit and len(self._entries) > 1:
                _, (_, freed) = self._entries.popitem(last=False)
                self._used -= freed

    def once(self, key: Hashable, make: Callable[[], tuple[T, int]]) -> T:
        """The value, computed by ``make() -> (value, nbytes)`` if need be."""
        found: T | None = self.get(key)
        if found is None:
            found, nbytes = make()
            self.put(key, found, nbytes)
        return found


def permute(
    keys: KeyArray, sizes: IntArray, segment: npt.NDArray[np.intp] | None, index: IntArray, cache: BoundedCache
) -> IntArray:
    """Where each element goes under the permutation of its segment.

    Args:
        keys: uint64 ``[segments]``; a key and a size determine a permutation.
        sizes: int64 ``[segments]``, below 2**62.
        segment: ``[n]``, the segment of each element; None if there is one segment only.
        index: int64 ``[n]``, each below the size of its segment.
        cache: keeps small permutations; no result depends on it.

    Returns:
        int64 ``[n]``.
    """
    small = sizes < FEISTEL_FROM
    if segment is None:
        if small[0]:
            return _small_one(keys[0], sizes[0], cache)[index].astype(np.int64)
        return _feistel(keys[0], sizes[0], index)
    if not small.any():
        return _feistel(keys[segment], sizes[segment], index)
    if small.all():
        return _small_lookup(keys, sizes, segment, index, cache)
    out = np.empty(len(index), dtype=np.int64)
    chosen = small[segment]
    here = np.flatnonzero(chosen)
    renumber = np.cumsum(small) - 1
    out[here] = _small_lookup(keys[small], sizes[small], renumber[segment[here]], index[here], cache)
    here = np.flatnonzero(~chosen)
    out[here] = _feistel(keys[segment[here]], sizes[segment[here]], index[here])
    return out


def permutations(keys: KeyArray, size: int) -> IntArray:
    """Whole permutations of one size.

    Args:
        keys: uint64 ``[n]``.
        size: number of elements, at least 1.

    Returns:
        int64 ``[n, size]``: ``[i, j]`` is where ``j`` goes under ``keys[i]``.
    """
    if size < FEISTEL_FROM:
        return _small(keys, np.full(len(keys), size)).reshape(len(keys), size).astype(np.int64)
    elements = np.arange(size, dtype=np.int64)
    return np.stack([_feistel(key, np.int64(size), elements) for key in keys])


def compact(numbers: IntArray) -> tuple[IntArray, npt.NDArray[np.intp] | None]:
    """The distinct values, ascending, and the place of each number among them (None if there is one value only).

    Like ``np.unique(..., return_inverse=True)`` without the sort where the numbers lie close together.
    """
    low, high = int(numbers.min()), int(numbers.max())
    span = high - low + 1
    if span == 1:
        return numbers[:1], None
    if span > 4 * len(numbers):
        values, inverse = np.unique(numbers, return_inverse=True)
        return values, inverse
    shifted = numbers - low
    used = np.zeros(span, dtype=bool)
    used[shifted] = True
    return np.flatnonzero(used) + low, (np.cumsum(used) - 1)[shifted]


def _feistel(key: np.uint64 | KeyArray, size: np.int64 | IntArray, index: IntArray) -> IntArray:
    """One key and size for all elements, or one for each."""
    a = np.sqrt(size).astype(np.int64)
    a = a + (a * a < size)  # ceil(sqrt), and never too small where the float was rounded down
    b = -(-size // a)
    out = _network(key, a, b, index)
    beyond = np.flatnonzero(out >= size)
    while len(beyond):  # a * b - size < a, so an element is walked on with probability below size ** -1/2
        if np.ndim(size):
            args = (np.asarray(key)[beyond], np.asarray(a)[beyond], np.asarray(b)[beyond])
            bound: Any = np.asarray(size)[beyond]
        else:
            args, bound = (key, a, b), size
        walked = _network(*args, out[beyond])
        out[beyond] = walked
        beyond = beyond[walked >= bound]
    return out


def _network(key: Any, a: Any, b: Any, index: IntArray) -> IntArray:
    """A permutation of ``range(a * b)``; both factors are below 2**32."""
    left = index // b
    right = index - left * b
    for turn in range(_ROUNDS):
        # The address of a draw is the other half and the number of the round: b fits into 40 bits.
        if turn % 2 == 0:
            left += random.below(random.words(key, right | (turn << 40)), a)
            np.subtract(left, a, out=left, where=left >= a)
        else:
            right += random.below(random.words(key, left | (turn << 40)), b)
            np.subtract(right, b, out=right, where=right >= b)
    return left * b + right


def _small(keys: KeyArray, sizes: IntArray) -> SmallArray:
    """Permutations below :data:`FEISTEL_FROM` elements, one after the other."""
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]), dtype=np.uint16)
    widths = np.left_shift(1, np.ceil(np.log2(sizes)).astype(np.int64))
    # Sizes of one power of two are sorted together as rows of a matrix, so padding at most doubles the work.
    for width in np.unique(widths):
        rows = np.flatnonzero(widths == width)
        size = sizes[rows]
        elements = np.arange(int(size.max()), dtype=np.uint64)
        hashes = (random.words(keys[rows][:, None], elements[None, :]) & ~_ELEMENT_BITS) | elements
        real = elements[None, :] < size[:, None].astype(np.uint64)
        hashes[~real] = _PADDING
        hashes.sort(axis=1)
        places = (ends[rows] - size)[:, None] + elements[None, :].astype(np.int64)
        out[places[real]] = (hashes & _ELEMENT_BITS)[real]
    return out


def _small_one(key: np.uint64, size: np.int64, cache: BoundedCache) -> SmallArray:
    def make() -> tuple[SmallArray, int]:
        table = _small(np.array([key]), np.array([size]))
        return table, table.nbytes

    return cache.once((int(key), int(size)), make)


def _small_lookup(
    keys: KeyArray, sizes: IntArray, segment: npt.NDArray[np.intp], index: IntArray, cache: BoundedCache
) -> IntArray:
    total = int(sizes.sum())
    if total <= 2 * len(index) and total <= 256 * len(keys):
        # Many tiny permutations, used whole: looking them up one by one would take longer than making them.
        table = _small(keys, sizes)
    else:
        table = np.concatenate(_small_cached(keys, sizes, cache))
    starts = np.cumsum(sizes) - sizes
    return table[starts[segment] + index].astype(np.int64)


def _small_cached(keys: KeyArray, sizes: IntArray, cache: BoundedCache) -> list[SmallArray]:
    # One step per permutation, not per row.
    names = list(zip(keys.tolist(), sizes.tolist(), strict=True))
    tables: list[SmallArray | None] = [cache.get(name) for name in names]
    missing = np.array([i for i, table in enumerate(tables) if table is None], dtype=np.intp)
    if len(missing):
        made = np.split(_small(keys[missing], sizes[missing]), np.cumsum(sizes[missing])[:-1])
        for i, table in zip(missing.tolist(), made, strict=True):
            kept = table.copy()  # not a view that keeps its neighbours alive
            tables[i] = kept
            cache.put(names[i], kept, kept.nbytes)
    return [table for table in tables if table is not None]
