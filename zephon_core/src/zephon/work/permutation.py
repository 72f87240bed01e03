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
from typing import Any, Final, NamedTuple, TypeVar

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

# The round function multiplies, folds and multiplies again; its key is a word of its own. These are the multipliers of
# the finaliser in zephon.random.
_ODD_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_ODD_2: Final = np.uint64(0x94D049BB133111EB)
_HALF: Final = np.uint64(32)

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

    def reserve(self, nbytes: int) -> None:
        """Raise the limit, for values that are needed together."""
        with self._lock:
            self._limit += nbytes

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
    key: int,
    numbers: IntArray,
    sizes: IntArray,
    segment: npt.NDArray[np.intp] | None,
    index: IntArray,
    cache: BoundedCache,
) -> IntArray:
    """Where each element goes under the permutation of its segment.

    Args:
        key: 64 bits; with a number and a size it determines a permutation.
        numbers: int64 ``[segments]``.
        sizes: int64 ``[segments]``, below 2**62.
        segment: ``[n]``, the segment of each element; None if there is one segment only.
        index: int64 ``[n]``, each below the size of its segment.
        cache: keeps what single permutations are computed from; no result depends on it.

    Returns:
        int64 ``[n]``.
    """
    small = sizes < FEISTEL_FROM
    if segment is None:
        name = (key, int(numbers[0]), int(sizes[0]))
        if small[0]:
            return cache.once(name, lambda: _sized(_small(key, numbers, sizes)))[index].astype(np.int64)
        return _feistel(cache.once(name, lambda: (_networks(key, numbers, sizes), 0)), None, index)
    if small.all():
        return _small_lookup(key, numbers, sizes, segment, index, cache)
    if not small.any():
        return _feistel(_networks(key, numbers, sizes), segment, index)
    out = np.empty(len(index), dtype=np.int64)
    for chosen in (small, ~small):
        renumbered = np.cumsum(chosen) - 1
        here = np.flatnonzero(chosen[segment])
        out[here] = permute(key, numbers[chosen], sizes[chosen], renumbered[segment[here]], index[here], cache)
    return out


def permutations(key: int, numbers: IntArray, size: int) -> IntArray:
    """Whole permutations of one size.

    Args:
        key: 64 bits, as of :func:`permute`.
        numbers: int64 ``[n]``.
        size: number of elements, at least 1.

    Returns:
        int64 ``[n, size]``: ``[i, j]`` is where ``j`` goes under the permutation of ``numbers[i]``.
    """
    sizes = np.full(len(numbers), size)
    if size < FEISTEL_FROM:
        return _small(key, numbers, sizes).reshape(len(numbers), size).astype(np.int64)
    networks, elements = _networks(key, numbers, sizes), np.arange(size, dtype=np.int64)
    return np.stack([_feistel(networks, np.full(size, i), elements) for i in range(len(numbers))])


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


class _Networks(NamedTuple):
    """Feistel networks on ``Z_a x Z_b``, one per segment: uint64 ``[segments]``, keys ``[segments, rounds]``."""

    a: KeyArray
    b: KeyArray
    keys: KeyArray
    sizes: KeyArray


def _networks(key: int, numbers: IntArray, sizes: IntArray) -> _Networks:
    a = np.sqrt(sizes).astype(np.int64)
    a += a * a < sizes  # ceil(sqrt), also where the float was rounded down
    b = -(-sizes // a)
    keys = random.words(random.words(key, numbers)[:, None], np.arange(_ROUNDS))
    return _Networks(a.astype(np.uint64), b.astype(np.uint64), keys, sizes.astype(np.uint64))


def _feistel(networks: _Networks, segment: npt.NDArray[np.intp] | None, index: IntArray) -> IntArray:
    out = _network(networks, segment, index.astype(np.uint64))
    beyond = np.flatnonzero(out >= networks.sizes[0 if segment is None else segment])
    while len(beyond):  # a * b - size < a, so an element is walked on with probability below size ** -1/2
        part = None if segment is None else segment[beyond]
        walked = _network(networks, part, out[beyond])
        out[beyond] = walked
        beyond = beyond[walked >= networks.sizes[0 if part is None else part]]
    return out.view(np.int64)


def _network(networks: _Networks, segment: npt.NDArray[np.intp] | None, index: KeyArray) -> KeyArray:
    """A permutation of ``range(a * b)`` for each segment; both factors are below 2**32."""
    # One segment gives scalars, by which numpy divides and multiplies faster.
    pick: Any = 0 if segment is None else segment
    moduli = (networks.a[pick], networks.b[pick])
    left = index // moduli[1]
    halves = [left, index - left * moduli[1]]
    for turn in range(_ROUNDS):
        target, modulus = halves[turn % 2], moduli[turn % 2]
        drawn = halves[1 - turn % 2] + networks.keys[pick, turn]
        drawn *= _ODD_1
        drawn ^= drawn >> _HALF
        drawn *= _ODD_2
        drawn >>= _HALF
        drawn *= modulus
        drawn >>= _HALF
        target += drawn
        # Below the modulus the difference wraps round to a huge number.
        np.minimum(target, target - modulus, out=target)
    return halves[0] * moduli[1] + halves[1]


def _small(key: int, numbers: IntArray, sizes: IntArray) -> SmallArray:
    """Permutations below :data:`FEISTEL_FROM` elements, one after the other."""
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]), dtype=np.uint16)
    keys = random.words(key, numbers)
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


def _sized(table: SmallArray) -> tuple[SmallArray, int]:
    return table, table.nbytes


def _small_lookup(
    key: int,
    numbers: IntArray,
    sizes: IntArray,
    segment: npt.NDArray[np.intp],
    index: IntArray,
    cache: BoundedCache,
) -> IntArray:
    total = int(sizes.sum())
    if total <= 2 * len(index) and total <= 256 * len(numbers):
        # Many tiny permutations, used whole: looking them up one by one would take longer than making them.
        table = _small(key, numbers, sizes)
    else:
        table = np.concatenate(_small_cached(key, numbers, sizes, cache))
    starts = np.cumsum(sizes) - sizes
    return table[starts[segment] + index].astype(np.int64)


def _small_cached(key: int, numbers: IntArray, sizes: IntArray, cache: BoundedCache) -> list[SmallArray]:
    # One step per permutation, not per row.
    names = [(key, number, size) for number, size in zip(numbers.tolist(), sizes.tolist(), strict=True)]
    tables: list[SmallArray | None] = [cache.get(name) for name in names]
    missing = np.array([i for i, table in enumerate(tables) if table is None], dtype=np.intp)
    if len(missing):
        made = np.split(_small(key, numbers[missing], sizes[missing]), np.cumsum(sizes[missing])[:-1])
        for i, table in zip(missing.tolist(), made, strict=True):
            kept = table.copy()  # not a view that keeps its neighbours alive
            tables[i] = kept
            cache.put(names[i], kept, kept.nbytes)
    return [table for table in tables if table is not None]
