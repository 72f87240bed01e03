"""Order within a dataset: from the n-th draw to (epoch, shard, row).

Ordinal ``q`` is place ``q % rows`` of epoch ``q // rows``. The places of an epoch run over its shards, in the epoch's
order of shards. Windows of places are shuffled, and so are the rows within a shard.
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
    """The shards of consecutive epochs, one after the other: shard ``shards[i]`` starts at place ``starts[i]``."""

    starts: IntArray
    shards: npt.NDArray[np.int32]


class DatasetOrder:
    """The order of one dataset's rows, epoch after epoch. Immutable.

    Args:
        name: name of the dataset; all randomness is keyed by it.
        shard_rows: int64 ``[shards]``, at least one of them above 0.
        options: how to shuffle.

    Attributes:
        rows: rows in all.
        window: places in a shuffle window; 1 if there are none, ``rows`` if one window is the whole epoch.
    """

    def __init__(self, name: str, shard_rows: npt.NDArray[np.int64], options: OrderOptions) -> None:
        self._shard_rows = np.asarray(shard_rows, dtype=np.int64)
        # Empty shards have no place, and cannot shift the order of the others.
        self._shards = np.flatnonzero(self._shard_rows).astype(np.int32)
        self._sizes = self._shard_rows[self._shards]
        self.rows = int(self._sizes.sum())
        self.window = _window(options.shuffle_block_size, self.rows, int(self._sizes.max()))
        # A window that is the whole epoch makes every order equally likely already.
        self._shuffles_rows = options.shuffle_within_shard and self.window != self.rows
        self._reshuffles = options.reshuffle_on_repeat
        self._shard_key, self._window_key, self._row_key = (
            random.derive_key("curriculum", options.seed, name, level) for level in ("shards", "windows", "rows")
        )
        # Epochs that share a table; 0 where all epochs have one order of shards.
        self._epochs = max(1, _TABLE_PLACES // self.rows)
        self._fixed: _Table | None = None
        if not options.shuffle_shards or not options.reshuffle_on_repeat or len(self._shards) == 1:
            self._epochs = 0
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
            row = self._shuffle_rows(turn, shard, row, cache)
        return Located(shard, row, epoch)

    def _shuffle_windows(self, turn: IntArray, place: IntArray, cache: BoundedCache) -> IntArray:
        per_epoch = -(-self.rows // self.window)
        window = place // self.window
        start = window * self.window
        numbers, segment = compact(turn * per_epoch + window)
        sizes = np.minimum(self.window, self.rows - numbers % per_epoch * self.window)
        return start + permute(random.words(self._window_key, numbers), sizes, segment, place - start, cache)

    def _shuffle_rows(
        self, turn: IntArray, shard: npt.NDArray[np.int32], row: IntArray, cache: BoundedCache
    ) -> IntArray:
        numbers, segment = compact(turn * len(self._shard_rows) + shard)
        sizes = self._shard_rows[numbers % len(self._shard_rows)]
        return permute(random.words(self._row_key, numbers), sizes, segment, row, cache)

    def _find(self, epoch: IntArray, place: IntArray, cache: BoundedCache) -> tuple[npt.NDArray[np.int32], IntArray]:
        """The shard at each place, and the place within it."""
        if self._fixed is not None:
            return _look_up(self._fixed, place)
        groups, segment = compact(epoch // self._epochs)
        place = place + (epoch % self._epochs) * self.rows
        if segment is None:
            return _look_up(self._shared_table(int(groups[0]), cache), place)
        shard, row = np.empty(len(place), dtype=np.int32), np.empty(len(place), dtype=np.int64)
        for i, group in enumerate(groups.tolist()):
            here = np.flatnonzero(segment == i)
            shard[here], row[here] = _look_up(self._shared_table(group, cache), place[here])
        return shard, row

    def _shared_table(self, group: int, cache: BoundedCache) -> _Table:
        def make() -> tuple[_Table, int]:
            first = group * self._epochs
            table = self._table(self._shard_orders(np.arange(first, first + self._epochs)))
            return table, sum(column.nbytes for column in table)

        return cache.once(("shards", self._shard_key, group), make)

    def _shard_orders(self, turns: IntArray) -> IntArray:
        return permutations(random.words(self._shard_key, turns), len(self._shards))

    def _table(self, orders: IntArray) -> _Table:
        sizes = self._sizes[orders].ravel()
        return _Table(np.cumsum(sizes) - sizes, self._shards[orders].ravel())


def _look_up(table: _Table, place: IntArray) -> tuple[npt.NDArray[np.int32], IntArray]:
    slot = np.searchsorted(table.starts, place, side="right") - 1
    return table.shards[slot], place - table.starts[slot]


def _window(option: int | str | None, rows: int, largest: int) -> int:
    if option is None:
        return 1
    if option == "global":
        return rows
    return min(rows, AUTO_SHARDS * largest if option == "auto" else int(option))
