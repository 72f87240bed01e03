"""``zephon.checkpoint_store.v1``: where states are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypedDict


class CheckpointState(TypedDict):
    """One state, of one rank or merged.

    Attributes:
        header: what all ranks share, byte-equal on all of them: a JSON object. Its ``lanes`` is how many lanes there
            are, numbered from 0; the rest is none of a store's business.
        lanes: one entry per lane, keyed by its number in five digits (``"00012"``).
    """

    header: bytes
    lanes: dict[str, bytes]


class CheckpointStore(ABC):
    """Keeps states by step. Every rank writes its own lanes: no leader, no barrier.

    Constructed as ``Store(url, ...)``; nothing is made before something is saved. A state is complete when the lanes
    counted in its header are all there. Options and credentials stay inside: they appear in no repr, error or log.
    """

    @abstractmethod
    def save(self, step: int, state: CheckpointState) -> None:
        """Add one rank's state of a step. Atomic per lane; saving the same lane again replaces it."""

    @abstractmethod
    def load(self, step: int) -> CheckpointState:
        """Everything saved for a step, merged.

        Raises:
            CheckpointError: ``checkpoint-missing``; ``checkpoint-incomplete``, naming the lanes in ``found``;
                ``checkpoint-mixed`` where headers differ.
        """

    @abstractmethod
    def steps(self) -> Sequence[int]:
        """Steps whose state is complete, ascending."""

    @abstractmethod
    def delete(self, step: int) -> None:
        """Forget a step; unknown ones are no error."""
