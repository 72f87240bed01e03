"""Open shard readers, kept for the next block: few per shard, bounded over all, the longest unused closed first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zephon.abc import ShardReader
from zephon.errors import BadRowsError, EngineError

Key = tuple[int, int]


class ReaderPool:
    """Lends readers to threads, one thread at a time. Thread-safe.

    A thread that holds a reader never waits for another one, so waiting always ends.

    Args:
        most_open: readers open at once.
        most_per_shard: of one shard.
    """

    def __init__(self, most_open: int = 64, most_per_shard: int = 4) -> None:
        self._most_open = max(1, most_open)
        self._most_per_shard = max(1, most_per_shard)
        self._changed = threading.Condition()
        self._idle: OrderedDict[Key, list[ShardReader]] = OrderedDict()
        self._idle_count = 0
        self._busy: dict[Key, int] = {}
        self._busy_count = 0
        self._closed = False

    @contextmanager
    def lend(self, key: Key, make: Callable[[], ShardReader]) -> Iterator[ShardReader]:
        """A reader for the length of a ``with`` block; made where none is idle, closed if the block fails.

        Args:
            key: dataset and shard.
            make: opens a reader of it.

        Raises:
            EngineError: ``reader-closed``.
        """
        reader = self._take(key) or self._open(key, make)
        try:
            yield reader
        except BadRowsError:
            self._give_back(key, reader)
            raise
        except BaseException:
            # whatever state it is in, it is not used again
            self._give_back(key, None)
            reader.close()
            raise
        self._give_back(key, reader)

    def close(self) -> None:
        """Close idle readers now, busy ones when they come back. May be called twice."""
        with self._changed:
            self._closed = True
            idle = [reader for readers in self._idle.values() for reader in readers]
            self._idle.clear()
            self._idle_count = 0
            self._changed.notify_all()
        for reader in idle:
            reader.close()

    def _take(self, key: Key) -> ShardReader | None:
        """An idle reader of the shard; or None, with room made and reserved for a new one."""
        surplus: ShardReader | None = None
        with self._changed:
            while True:
                if self._closed:
                    raise EngineError(
                        "the reader of this pipeline is closed",
                        found="a block was still to be read",
                        fix="iterate over the pipeline again",
                        code="reader-closed",
                    )
                if self._idle.get(key):
                    reader = self._idle[key].pop()
                    self._idle_count -= 1
                    if not self._idle[key]:
                        del self._idle[key]
                    self._reserve(key)
                    return reader
                room = self._idle_count + self._busy_count < self._most_open
                if self._busy.get(key, 0) < self._most_per_shard and (room or self._idle_count):
                    if not room:
                        surplus = self._oldest()
                    self._reserve(key)
                    break
                self._changed.wait()
        if surplus is not None:
            surplus.close()
        return None

    def _open(self, key: Key, make: Callable[[], ShardReader]) -> ShardReader:
        try:
            return make()
        except BaseException:
            self._give_back(key, None)
            raise

    def _give_back(self, key: Key, reader: ShardReader | None) -> None:
        with self._changed:
            self._busy_count -= 1
            self._busy[key] -= 1
            if not self._busy[key]:
                del self._busy[key]
            keep = reader is not None and not self._closed
            if keep:
                assert reader is not None
                self._idle.setdefault(key, []).append(reader)
                self._idle.move_to_end(key)
                self._idle_count += 1
            self._changed.notify_all()
        if reader is not None and not keep:
            reader.close()

    def _reserve(self, key: Key) -> None:
        self._busy[key] = self._busy.get(key, 0) + 1
        self._busy_count += 1

    def _oldest(self) -> ShardReader:
        key, readers = next(iter(self._idle.items()))
        reader = readers.pop(0)
        if not readers:
            del self._idle[key]
        self._idle_count -= 1
        return reader
