"""Origins: where each row comes from, as parallel numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon import random

#: Columns of an origin, with their dtypes; the order is part of the checkpoint format.
ORIGIN_DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "component": np.dtype(np.int16),
    "dataset": np.dtype(np.int16),
    "shard": np.dtype(np.int32),
    "row": np.dtype(np.int64),
    "epoch": np.dtype(np.int64),
    "part": np.dtype(np.uint64),
    "phase": np.dtype(np.int32),
}

#: Column of packed rows: the documents of each row, in order, with their token ranges.
DOCUMENTS_FIELD: Final = "documents"

#: Arrow type of one entry of :data:`DOCUMENTS_FIELD`. ``start`` is the offset *within the document* of the
#: first token taken, ``length`` the number of tokens taken; entries of a row follow each other without gap.
DOCUMENT_TYPE: Final = pa.struct(
    [
        ("component", pa.int16()),
        ("dataset", pa.int16()),
        ("shard", pa.int32()),
        ("row", pa.int64()),
        ("epoch", pa.int64()),
        ("part", pa.uint64()),
        ("phase", pa.int32()),
        ("start", pa.int32()),
        ("length", pa.int32()),
    ]
)


def _column(name: str) -> Any:
    dtype = ORIGIN_DTYPES[name]

    def convert(value: npt.ArrayLike) -> npt.NDArray[Any]:
        return np.ascontiguousarray(value, dtype=dtype)

    return attrs.field(converter=convert, eq=attrs.cmp_using(eq=np.array_equal))


@attrs.frozen(slots=True, kw_only=True)
class Origins:
    """Where rows come from: parallel numpy arrays of one length, and, with ``part`` 0, pointers not yet read.

    ``component`` and ``dataset`` index the work source's lists; ``shard`` the dataset's shards; ``row`` the
    shard's rows. ``part`` tells apart the rows split from one sample. ``phase`` is the curriculum phase the row
    was drawn in. A row made of several samples (a packed row) has component -1, dataset -1, ``shard`` = lane and
    ``row`` = its ordinal in the lane, so that randomness keyed by origin is keyed by (lane, ordinal) after packing.
    """

    component: npt.NDArray[np.int16] = _column("component")
    dataset: npt.NDArray[np.int16] = _column("dataset")
    shard: npt.NDArray[np.int32] = _column("shard")
    row: npt.NDArray[np.int64] = _column("row")
    epoch: npt.NDArray[np.int64] = _column("epoch")
    part: npt.NDArray[np.uint64] = _column("part")
    phase: npt.NDArray[np.int32] = _column("phase")

    def __attrs_post_init__(self) -> None:
        lengths = {len(column) for column in self.columns().values()}
        if len(lengths) != 1:
            raise ValueError(f"origin columns differ in length: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.row)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, in the order of :data:`ORIGIN_DTYPES`."""
        return {name: getattr(self, name) for name in ORIGIN_DTYPES}

    def at(self, row: int) -> tuple[int, ...]:
        """One row's origin as plain integers, in the order of :data:`ORIGIN_DTYPES`."""
        return tuple(int(column[row]) for column in self.columns().values())

    def slice(self, start: int, stop: int) -> Origins:
        """Rows ``start:stop`` as views."""
        return self._picked(slice(start, stop))

    def take(self, indices: npt.NDArray[Any]) -> Origins:
        """The rows at ``indices`` (integers or a boolean mask), copied."""
        return self._picked(indices)

    def _picked(self, rows: Any) -> Origins:
        """Some rows. Every microbatch comes through here, so the checks of ``__init__`` are left out."""
        picked = object.__new__(Origins)
        put = object.__setattr__
        put(picked, "component", self.component[rows])
        put(picked, "dataset", self.dataset[rows])
        put(picked, "shard", self.shard[rows])
        put(picked, "row", self.row[rows])
        put(picked, "epoch", self.epoch[rows])
        put(picked, "part", self.part[rows])
        put(picked, "phase", self.phase[rows])
        return picked

    def children(self, parents: npt.NDArray[np.int64]) -> Origins:
        """Origins of rows made from these: row ``i`` of the result is a child of ``parents[i]``.

        Children of one parent must be neighbours. An only child keeps its parent's ``part``; the k-th of several gets a
        mix of it and k, which depends on nothing else and so not on where a block ends.

        Args:
            parents: int64 ``[n]``, non-decreasing.
        """
        parents = np.asarray(parents, dtype=np.int64)
        taken = self.take(parents)
        if len(parents) < 2:
            return taken
        first = np.empty(len(parents), dtype=bool)
        first[0] = True
        np.not_equal(parents[1:], parents[:-1], out=first[1:])
        if first.all():
            return taken
        starts = np.flatnonzero(first)
        siblings = np.diff(np.append(starts, len(parents)))
        nth = np.arange(1, len(parents) + 1) - np.repeat(starts, siblings)
        split = np.repeat(siblings, siblings) > 1
        part = taken.part.copy()
        part[split] = random.combine(part[split], nth[split])
        return attrs.evolve(taken, part=part)

    @staticmethod
    def concat(pieces: Sequence[Origins]) -> Origins:
        """One after the other; no pieces give no rows."""
        if len(pieces) == 1:
            return pieces[0]
        return Origins(
            **{
                name: np.concatenate([np.empty(0, dtype), *(getattr(p, name) for p in pieces)])
                for name, dtype in ORIGIN_DTYPES.items()
            }
        )

    @staticmethod
    def empty() -> Origins:
        """No rows."""
        return Origins.concat([])

    @staticmethod
    def of_lane(lane: int, ordinals: npt.NDArray[np.int64]) -> Origins:
        """Origins of rows made of several samples: addressed by lane and ordinal."""
        n = len(ordinals)
        return Origins(
            component=np.full(n, -1),
            dataset=np.full(n, -1),
            shard=np.full(n, lane),
            row=ordinals,
            epoch=np.zeros(n, dtype=np.int64),
            part=np.zeros(n, dtype=np.uint64),
            phase=np.full(n, -1),
        )
