"""Decoded units: each decoded once, kept while there is room, shared by all lanes and threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.block import retained_bytes
from zephon.errors import BadRow, ShardError

Key = tuple[int, int, int]


@attrs.frozen(slots=True, eq=False, kw_only=True)
class Unit:
    """The rows of one decode unit that can be read.

    Attributes:
        data: the rows, conforming to the reader's schema.
        rows: their numbers in the shard, int64, where some are missing; None where all are there.
        bad: the rows that cannot be read, by number in the shard.
        failure: why none can be read, if so.
    """

    data: pa.RecordBatch
    rows: npt.NDArray[np.int64] | None = None
    bad: Mapping[int, BadRow] = attrs.field(factory=dict)
    failure: ShardError | None = None


class UnitCache:
    """Least recently used units, bounded in bytes of distinct Arrow buffers. Thread-safe.

    Several threads that want one unit at once get it from the one that came first. Decoding happens outside the lock
    and waits for no other unit.

    Args:
        limit: bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._units: OrderedDict[Key, tuple[Unit, int]] = OrderedDict()
        self._pending: dict[Key, Future[Unit]] = {}
        self._bytes = 0
        self.hits = 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._bytes

    def get(self, key: Key, decode: Callable[[], Unit]) -> Unit:
        """The unit of a key, decoded by this call or by another one, now or earlier.

        Raises:
            Exception: whatever decoding raised; then the next call tries again.
        """
        with self._lock:
            if key in self._units:
                self._units.move_to_end(key)
                self.hits += 1
                return self._units[key][0]
            waiting = self._pending.get(key)
            if waiting is None:
                mine: Future[Unit] = Future()
                self._pending[key] = mine
            else:
                self.hits += 1
        if waiting is not None:
            return waiting.result()
        try:
            unit = decode()
        except BaseException as error:
            with self._lock:
                del self._pending[key]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._pending[key]
            self._keep(key, unit)
        mine.set_result(unit)
        return unit

    def clear(self) -> None:
        """Forget all units."""
        with self._lock:
            self._units.clear()
            self._bytes = 0

    def _keep(self, key: Key, unit: Unit) -> None:
        size = retained_bytes([unit.data])
        if size > self._limit:
            return
        self._units[key] = (unit, size)
        self._bytes += size
        while self._bytes > self._limit:
            _, (_, dropped) = self._units.popitem(last=False)
            self._bytes -= dropped
