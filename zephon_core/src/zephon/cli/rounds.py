"""All groups of a run in one process, in lockstep, and the digest of every round they deliver.

This is how the promise is checked: whatever the number of groups, runners and restarts, round ``k`` must have the same
digest. Rows are digested one by one and put in order by lane and place, so that groups that share a lane add up to the
same round as one group that owns it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from zephon._pipeline import Pipeline
from zephon.abc import CheckpointState
from zephon.batch import Batch
from zephon.engine.session import BatchIterator


def row_digests(batch: Batch) -> list[str]:
    """One digest per real row of a batch: of its values and its origin, not of where its bytes lie."""
    rows = batch.to_pylist()
    real = batch.row_mask
    origins = batch.origins.columns()
    digests = []
    for i, row in enumerate(rows):
        if real[i]:
            origin = tuple(int(column[i]) for column in origins.values())
            digests.append(hashlib.blake2b(repr((row, origin)).encode(), digest_size=8).hexdigest())
    return digests


def round_digest(lanes: dict[int, list[str]]) -> str:
    """The digest of one round: its rows by lane, then by place."""
    text = ";".join(f"{lane}:{','.join(rows)}" for lane, rows in sorted(lanes.items()) if rows)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Fleet:
    """One pipeline per data-parallel group.

    Args:
        make: makes a new pipeline, all groups alike.
        degree: number of groups.
        options: execution settings for all of them.
        agree: give the groups an ``agree`` function of their own (each then runs on its own thread).
    """

    def __init__(self, make: Callable[[], Pipeline], degree: int, *, agree: bool = False, **options: Any) -> None:
        self._barrier = threading.Barrier(degree)
        self._offers = [0] * degree
        self._degree = degree
        self.pipelines = []
        for group in range(degree):
            settings = {**options, "dp_degree": degree, "dp_group_id": group}
            if agree:
                settings["agree"] = self._agreement(group)
            self.pipelines.append(make().options(**settings))
        self._iterators: list[BatchIterator] | None = None
        self._pool = ThreadPoolExecutor(degree) if agree else None

    def restore(self, states: Sequence[CheckpointState]) -> None:
        """Restore every group from the states of all."""
        for pipeline in self.pipelines:
            pipeline.restore(list(states))

    def round(self) -> dict[int, list[str]] | None:
        """The row digests of the next round by lane, or None at the end."""
        if self._iterators is None:
            self._iterators = [iter(pipeline) for pipeline in self.pipelines]
        if self._pool is not None:
            shares = list(self._pool.map(self._share, range(self._degree)))
        else:
            shares = [self._share(group) for group in range(self._degree)]
        ended = [share is None for share in shares]
        if any(ended):
            if not all(ended):
                raise AssertionError(f"groups disagree about the end: {ended}")
            return None
        lanes: dict[int, list[str]] = {}
        for share in shares:
            for lane, rows in share or []:
                lanes.setdefault(lane, []).extend(rows)
        return lanes

    def rounds(self, count: int) -> list[dict[int, list[str]]]:
        """Up to ``count`` rounds."""
        found: list[dict[int, list[str]]] = []
        while len(found) < count:
            lanes = self.round()
            if lanes is None:
                break
            found.append(lanes)
        return found

    def states(self) -> list[CheckpointState]:
        """Every group's state."""
        return [pipeline.checkpoint() for pipeline in self.pipelines]

    def close(self) -> None:
        """Close every pipeline."""
        for pipeline in self.pipelines:
            pipeline.close()
        if self._pool is not None:
            self._pool.shutdown()

    def _share(self, group: int) -> list[tuple[int, list[str]]] | None:
        """What one group delivers in a round: row digests with their lane, in order."""
        assert self._iterators is not None
        share = []
        for _ in range(self.pipelines[group].slots_per_round):
            batch = next(self._iterators[group], None)
            if batch is None:
                return None
            share.append((batch.lane, row_digests(batch)))
        return share

    def _agreement(self, group: int) -> Callable[[int], int]:
        def agree(offer: int) -> int:
            self._offers[group] = offer
            self._barrier.wait(timeout=60)
            granted = min(self._offers)
            self._barrier.wait(timeout=60)
            return granted

        return agree
