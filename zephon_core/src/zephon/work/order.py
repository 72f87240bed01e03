"""Order within a dataset: from the n-th draw to (epoch, shard, row).

Ordinal ``q`` is place ``q % rows`` of epoch ``q // rows``. The places of an epoch run over its shards, in the epoch's
order of shards. Windows of places are shuffled. So are the rows within a shard, unless one window holds them all: it
has made every order of them equally likely already.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import attrs
import numpy as np
import numpy.typing as npt

from zephon import random
from zephon.work.permutation import BoundedCache, IntArray, compact, permutations, permute

#: What ``shuffle_block_size="auto"`` means, in units of the largest shard.
AUTO_SHARDS: Final = 8

# Small datasets pass through many epochs in one read: so many places share one table of shard orders.
_TABLE_PLACES: Final = 1 << 15

# Shards in one bucket that are tried one after the other before searching.
_BUCKET_STEPS: Final = 4


class Located(NamedTuple):
    """Rows: which shard, which row of it, in which pass over the dataset."""

    shard: npt.NDArray[np.int32]
    row: IntArray
    epoch: IntArray


@attrs.frozen(slots=True, kw_only=True)
class OrderOptions:
    """How places map to rows; ``StaticMixtureWorkSource`` documents each."""

    seed: int
    shuffle_shards: bool
    shuffle_within_shard: bool
    shuffle_block_size: int | str | None
    reshuffle_on_repeat: bool


class _Table(NamedTuple):
    """The shards of consecutive epochs, one after the other.

    Attributes:
        edges: int64 ``[n + 1]``, the place at which each starts, and the end of the last.
        shards: int32 ``[n]``.
        buckets: int32, for every ``width`` places the last of the shards that start no later; empty where places are
            looked up in order, for which a binary search is fast.
        width: places in a bucket, about half a shard on average.
    """

    edges: IntArray
    shards: npt.NDArray[np.int32]
    buckets: npt.NDArray[np.int32]
    width: int

    @property
    def nbytes(self) -> int:
        return self.edges.nbytes + self.shards.nbytes + self.buckets.nbytes

    def look_up(self, place: IntArray) -> tuple[npt.NDArray[np.int32], IntArray]:
        """The shard at each place, and the place within it."""
        if len(self.buckets):
            slot = self._from_buckets(place)
        else:
            slot = np.searchsorted(self.edges, place, side="right") - 1
        return self.shards[slot], place - self.edges[slot]

    def _from_buckets(self, place: IntArray) -> npt.NDArray[np.intp]:
        ends = self.edges[1:]
        slot = self.buckets[place // self.width].astype(np.intp)
        for _ in range(_BUCKET_STEPS):
            beyond = ends[slot] <= place
            if not beyond.any():
                return slot
            slot += beyond
        rest = np.flatnonzero(ends[slot] <= place)
        slot[rest] = np.searchsorted(ends, place[rest], side="right")
        return slot


class DatasetOrder:
    """The order of one dataset's rows, epoch after epoch. Immutable.

    Args:
        name: name of the dataset; all randomness is keyed by it.
        shard_rows: int64 ``[shards]``, at least one of them above 0.
        options: how to shuffle.

    Attributes:
        rows: rows in all.
        table_bytes: bytes of one table of shard orders in the cache; 0 if none is kept there.
        window: places in a shuffle window; 1 if there are none, ``rows`` if one window is the whole epoch.
    """

    def __init__(self, name: str, shard_rows: npt.NDArray[np.int64], options: OrderOptions) -> None:
        # From here on shards are numbered without the empty ones, which have no place and cannot move the others.
        self._shards = np.flatnonzero(shard_rows).astype(np.int32)
        self._sizes = np.asarray(shard_rows, dtype=np.int64)[self._shards]
        self.rows = int(self._sizes.sum())
        self.window = _window(options.shuffle_block_size, self.rows, int(self._sizes.max()))
        self._shuffles_rows = options.shuffle_within_shard
        self._reshuffles = options.reshuffle_on_repeat
        self._shard_key, self._window_key, self._row_key = (
            random.derive_key("curriculum", options.seed, name, level) for level in ("shards", "windows", "rows")
        )
        # Epochs that share a table; 0 where all epochs have one order of shards.
        self._epochs = max(1, _TABLE_PLACES // self.rows)
        self._fixed: _Table | None = None
        # Edges, shards and, with windows, two buckets for each shard.
        self.table_bytes = self._epochs * len(self._shards) * (8 + 4 + (8 if self.window > 1 else 0))
        if not options.shuffle_shards or not options.reshuffle_on_repeat or len(self._shards) == 1:
            self._epochs = self.table_bytes = 0
            self._fixed = self._table(np.arange(len(self._shards))[None, :])
            if options.shuffle_shards:
                self._fixed = self._table(self._shard_orders(np.zeros(1, dtype=np.int64)))

    def locate(self, ordinals: IntArray, cache: BoundedCache) -> Located:
        """The rows behind draws.

        Args:
            ordinals: int64 ``[n]``, from 0, n > 0.
            cache: keeps shard orders and small permutations; no result depends on it.
        """
        epoch = ordinals // self.rows
        place = ordinals - epoch * self.rows
        turn = epoch if self._reshuffles else np.zeros_like(epoch)
        if self.window > 1:
            place = self._shuffle_windows(turn, place, cache)
        shard, row = self._find(epoch, place, cache)
        if self._shuffles_rows:
            self._shuffle_rows(turn, shard, row, place - row, cache)
        return Located(self._shards[shard], row, epoch)

    def _shuffle_windows(self, turn: IntArray, place: IntArray, cache: BoundedCache) -> IntArray:
        per_epoch = -(-self.rows // self.window)
        window = place // self.window
        start = window * self.window
        numbers, segment = compact(turn * per_epoch + window)
        sizes = np.minimum(self.window, self.rows - numbers % per_epoch * self.window)
        return start + permute(self._window_key, numbers, sizes, segment, place - start, cache)

    def _shuffle_rows(
        self, turn: IntArray, shard: npt.NDArray[np.int32], row: IntArray, start: IntArray, cache: BoundedCache
    ) -> None:
        """Shuffle rows in place, given the place at which the shard of each starts."""
        here = np.arange(len(row))
        if self.window > 1:
            last = start + self._sizes[shard] - 1
            here = np.flatnonzero(start // self.window != last // self.window)
        if len(here):
            numbers, segment = compact(turn[here] * len(self._sizes) + shard[here])
            sizes = self._sizes[numbers % len(self._sizes)]
            row[here] = permute(self._row_key, numbers, sizes, segment, row[here], cache)

    def _find(self, epoch: IntArray, place: IntArray, cache: BoundedCache) -> tuple[npt.NDArray[np.int32], IntArray]:
        if self._fixed is not None:
            return self._fixed.look_up(place)
        group = epoch // self._epochs
        place = place + (epoch - group * self._epochs) * self.rows
        groups, segment = compact(group)
        if segment is None:
            return self._shared_table(int(groups[0]), cache).look_up(place)
        shard, row = np.empty(len(place), dtype=np.int32), np.empty(len(place), dtype=np.int64)
        for i, number in enumerate(groups.tolist()):
            here = np.flatnonzero(segment == i)
            shard[here], row[here] = self._shared_table(number, cache).look_up(place[here])
        return shard, row

    def _shared_table(self, group: int, cache: BoundedCache) -> _Table:
        def make() -> tuple[_Table, int]:
            first = group * self._epochs
            table = self._table(self._shard_orders(np.arange(first, first + self._epochs)))
            return table, table.nbytes

        return cache.once(("shards", self._shard_key, group), make)

    def _shard_orders(self, turns: IntArray) -> IntArray:
        return permutations(self._shard_key, turns, len(self._shards))

    def _table(self, orders: IntArray) -> _Table:
        order = orders.ravel()
        edges = np.concatenate([[0], np.cumsum(self._sizes[order])])
        width = max(1, int(edges[-1]) // (2 * len(order)))
        marks = np.arange(0, int(edges[-1]) if self.window > 1 else 0, width)
        buckets = (np.searchsorted(edges, marks, side="right") - 1).astype(np.int32)
        return _Table(edges, order.astype(np.int32), buckets, width)


def _window(option: int | str | None, rows: int, largest: int) -> int:
    if option is None:
        return 1
    if option == "global":
        return rows
    return min(rows, AUTO_SHARDS * largest if option == "auto" else int(option))
