"""Rows and origins as Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from zephon.batch.facts import BatchFacts
from zephon.block import ORIGIN_DTYPES, Block


class Origin(NamedTuple):
    """Where a row comes from, in names.

    A row packed from several samples has no component and no dataset: its ``shard`` is its lane and its ``row`` its
    ordinal in the lane. A fill row has ``row`` -1.

    Attributes:
        component: name of the mixture's component, its index if it has no known name, or None.
        dataset: name of the dataset, its index if it has no known name, or None.
        shard: name of the shard, or its index if it has no known name.
        row: number of the row in its shard.
        epoch: pass over the dataset, from 0.
        part: tells apart the rows split from one sample; 0 where it was not split.
        phase: phase of the curriculum.
    """

    component: str | int | None
    dataset: str | int | None
    shard: str | int
    row: int
    epoch: int
    part: int
    phase: int


class Record(NamedTuple):
    """One row.

    Attributes:
        payload: its fields; one that the row's dataset does not have is not in it.
        origin: where it comes from.
    """

    payload: dict[str, Any]
    origin: Origin


def origin_list(columns: Mapping[str, npt.NDArray[Any]], facts: BatchFacts) -> list[Origin]:
    """One :class:`Origin` per row of parallel arrays, named as :data:`zephon.block.ORIGIN_DTYPES`."""
    values = (columns[name].tolist() for name in ORIGIN_DTYPES)
    # Python objects are what is asked for, hence the loop.
    return [
        Origin(
            component=facts.component_name(component),
            dataset=facts.dataset_name(dataset),
            shard=facts.shard_name(dataset, shard),
            row=row,
            epoch=epoch,
            part=part,
            phase=phase,
        )
        for component, dataset, shard, row, epoch, part, phase in zip(*values, strict=True)
    ]


class Records(Sequence[Record]):
    """The rows of a block as records, made when they are looked at."""

    __slots__ = ("_block", "_facts")

    def __init__(self, block: Block, facts: BatchFacts) -> None:
        self._block = block
        self._facts = facts

    def __len__(self) -> int:
        return len(self._block)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice):
            return Records(self._block.take(np.arange(len(self), dtype=np.int64)[index]), self._facts)
        row = range(len(self))[index]
        return _records(self._block.slice(row, row + 1), self._facts)[0]

    def __iter__(self) -> Iterator[Record]:
        return iter(_records(self._block, self._facts))

    def __repr__(self) -> str:
        return f"<{len(self)} records of {', '.join(self._block.schema.names)}>"


def _records(block: Block, facts: BatchFacts) -> list[Record]:
    origins = origin_list(block.origins.columns(), facts)
    payloads = block.data.to_pylist() if block.data.num_columns else [{} for _ in origins]
    for payload, dataset in zip(payloads, block.origins.dataset.tolist(), strict=True):
        present = facts.fields.get(dataset)
        if present is not None:
            for name in [n for n, value in payload.items() if value is None and n not in present]:
                del payload[name]
    return [Record(payload, origin) for payload, origin in zip(payloads, origins, strict=True)]
