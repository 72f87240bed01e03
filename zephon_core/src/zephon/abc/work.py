"""``zephon.work_source.v1``: curricula."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from zephon.abc.operator import PhaseWeights
from zephon.block import Origins


class DatasetInfo(Protocol):
    """What a curriculum needs to know of a dataset."""

    @property
    def name(self) -> str:
        """Unique name; randomness is keyed by it."""

    @property
    def shard_rows(self) -> npt.NDArray[np.int64]:
        """Rows of each shard, int64 ``[shards]``, shards in order of their names."""


class WorkSource(ABC):
    """A curriculum: the global order of pointers, cut into lanes. Pure, thread-safe, free of state.

    ``origins.dataset`` and ``origins.component`` of what ``read`` returns index ``datasets`` and ``components``.
    """

    @abstractmethod
    def read(self, lane: int, lanes: int, start: int, stop: int) -> Origins:
        """The pointers at positions ``start:stop`` of one lane (``part`` is 0).

        Costs the same at every ``start``. ``read(a, b) ++ read(b, c) == read(a, c)``.

        Args:
            lane: in ``[0, lanes)``.
            lanes: number of lanes the curriculum is cut into.
            start: first position, from 0.
            stop: one past the last; at most :meth:`lane_length`.

        Raises:
            ConfigError: ``position-out-of-range``, or what is wrong with the lane.
        """

    @abstractmethod
    def lane_length(self, lane: int, lanes: int) -> int | None:
        """Rows of the lane, or None if it never ends."""

    @property
    @abstractmethod
    def datasets(self) -> Sequence[DatasetInfo]:
        """The datasets pointers refer to, in the order of their first use, then of their names."""

    @abstractmethod
    def to_plain(self) -> Mapping[str, Any]:
        """The spec, as plain data; with its datasets' identity it determines every pointer.

        It survives JSON. Without ``datasets``, it holds the arguments that make the source again; where it holds more,
        a method ``settings`` returns those arguments.
        """

    @abstractmethod
    def continues(self, old: Mapping[str, Any], lanes: int, positions: Sequence[int]) -> Sequence[str]:
        """Whether a run of the curriculum ``old`` (from ``to_plain``) may go on with this one.

        Args:
            old: the spec the run was made with.
            lanes: number of lanes.
            positions: furthest position every lane has read, int ``[lanes]``.

        Returns:
            The differences that forbid it, each one sentence with old and new; empty if all positions read so far hold
            the same pointers under both. A source that has to keep what ``old`` has settled has a method ``resumed``
            with the same arguments, which returns the source to go on with.
        """

    @property
    def components(self) -> Sequence[str]:
        """Names of the mixture's components; by default one per dataset, of its name."""
        return [d.name for d in self.datasets]

    @property
    def phases(self) -> Sequence[PhaseWeights]:
        """Integer mixture weights of each phase; ``origins.phase`` indexes them."""
        return (PhaseWeights(weights=dict.fromkeys(self.components, 1)),)

    @property
    def seed(self) -> int:
        """The seed operators derive their randomness from."""
        return 0
