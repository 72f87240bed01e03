"""Whole pipelines for the cases from the field: datasets whose tokens tell where they come from, runs in stretches.

A token says which source, row and place it is of, so what was delivered can be judged without asking the loader.
"""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from zephon import Pipeline
from zephon.block import META_PAD_ID, META_ROLE
from zephon.checkpoint import DirectoryStore
from zephon.cli.rounds import Fleet
from zephon.errors import CheckpointError
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

Rounds = list[dict[int, list[str]]]
Make = Callable[[], Pipeline]

#: What padding is: the id of a token that also occurs as data, so that nobody can guess padding from ids.
PAD = 10_000_001

_SOURCE, _ROW = 10_000_000, 10_000


def token(source: int, row: int, place: int) -> int:
    """The id of one token of one row of one source."""
    assert 0 < source < 200 and row < 1000 and place < _ROW
    return source * _SOURCE + row * _ROW + place


def whose(tokens: Any) -> tuple[Any, Any, Any]:
    """Source, row and place of each token."""
    ids = np.asarray(tokens, dtype=np.int64)
    return ids // _SOURCE, ids % _SOURCE // _ROW, ids % _ROW


def sharded(name: str, table: pa.Table, shards: int | Sequence[int] = 1) -> Dataset:
    """A table as a dataset in memory: so many shards, or shards of these rows."""
    if isinstance(shards, int):
        cuts = [table.num_rows * i // shards for i in range(shards + 1)]
    else:
        cuts = [0, *itertools.accumulate(shards)]
    return Dataset.from_dict(
        name, {f"shard-{i:03d}": table.slice(a, b - a) for i, (a, b) in enumerate(itertools.pairwise(cuts))}
    )


def documents(
    name: str,
    lengths: Sequence[int],
    *,
    source: int = 1,
    shards: int | Sequence[int] = 1,
    masks: Sequence[Sequence[int]] | None = None,
    metadata: Mapping[bytes, bytes] | None = None,
) -> Dataset:
    """Token rows of these lengths, with a loss mask if one is given per row."""
    tokens = [[token(source, row, place) for place in range(length)] for row, length in enumerate(lengths)]
    role = {META_ROLE: b"tokens", META_PAD_ID: str(PAD).encode(), **(metadata or {})}
    fields = [pa.field("input_ids", pa.list_(pa.int32()), metadata=role)]
    columns: list[Any] = [tokens]
    if masks is not None:
        fields.append(pa.field("loss_mask", pa.list_(pa.int8()), metadata={META_ROLE: b"loss_mask"}))
        columns.append(masks)
    schema = pa.schema(fields)
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
    return sharded(name, pa.Table.from_arrays(arrays, schema=schema), shards)


def numbered(name: str, rows: int, shards: int | Sequence[int] = 1) -> Dataset:
    """Rows that hold nothing but their number in the dataset, ``n``."""
    return sharded(name, pa.table({"n": pa.array(range(rows), pa.int64())}), shards)


def source(*datasets: Dataset, mixture: Any = None, **settings: Any) -> StaticMixtureWorkSource:
    """A work source over these datasets, equally weighted unless a mixture is given."""
    weights = {dataset.name: 1 for dataset in datasets} if mixture is None else mixture
    return StaticMixtureWorkSource(datasets=list(datasets), mixture=weights, **settings)


class Key(NamedTuple):
    """Which sample of which pass a row is."""

    dataset: int
    shard: int
    row: int
    epoch: int


def keys(batch: Any) -> list[Key]:
    """The real rows of a batch."""
    columns = [getattr(batch.origins, name)[batch.row_mask].tolist() for name in Key._fields]
    return [Key(*values) for values in zip(*columns, strict=True)]


def delivered(batches: Iterable[Any]) -> list[Key]:
    """The real rows of batches, in order."""
    return [key for batch in batches for key in keys(batch)]


def tokens_of(batches: Iterable[Any], field: str = "input_ids") -> list[int]:
    """All tokens of the real rows of batches, in order."""
    return [t for batch in batches for row in batch.to_pylist() for t in row[field]]


def take(batches: Iterator[Any], count: int) -> list[Any]:
    """The next ``count`` batches; there have to be so many."""
    taken = list(itertools.islice(batches, count))
    assert len(taken) == count
    return taken


@contextmanager
def fleet(make: Make, groups: int = 1, **options: Any) -> Iterator[Fleet]:
    """All groups of a run, closed at the end; on the calling thread unless ``parallelism`` says otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a plan loses is the business of the tests that ask for it
        made = Fleet(make, groups, **{"parallelism": 0, **options})
        try:
            yield made
        finally:
            made.close()


def plain_run(make: Make, limit: int, **options: Any) -> Rounds:
    """The rounds of one group on the calling thread, without fillers."""
    with fleet(make, **options) as alone:
        return real(alone.rounds(limit))


def real(rounds: Rounds) -> Rounds:
    """Rounds without their fillers, which depend on the topology, as the rows do not."""
    return [{lane: rows for lane, rows in lanes.items() if rows} for lanes in rounds]


class Stretch(NamedTuple):
    """Part of a run: for so many rounds, so many groups with so many workers each."""

    rounds: int
    groups: int = 1
    workers: int = 0


def chain(make: Make, stretches: Sequence[Stretch], store: DirectoryStore | None = None, **options: Any) -> Rounds:
    """The rounds of a run that is saved, ended and restored between stretches, through a store if one is given.

    Without fillers.
    """
    rounds: Rounds = []
    states: Any = None
    for stretch in stretches:
        with fleet(make, stretch.groups, parallelism=stretch.workers, **options) as groups:
            if states is not None:
                groups.restore(states)
            rounds += groups.rounds(stretch.rounds)
            states = groups.states()
            if store is not None:
                for state in states:
                    store.save(len(rounds), state)
                states = [store.load(len(rounds))]
    return real(rounds)


def refusal(action: Callable[[], Any]) -> CheckpointError | None:
    """The error with which a state is refused, or None if it is taken."""
    try:
        action()
    except CheckpointError as error:
        return error
    return None


def threads() -> int:
    """Threads alive in this process."""
    return threading.active_count()


def descriptors() -> int:
    """Files open in this process."""
    return len(os.listdir("/proc/self/fd"))


def settles(measure: Callable[[], int], limit: int, within: float = 5.0) -> bool:
    """Whether a measure comes down to a limit within some seconds."""
    deadline = time.monotonic() + within
    while measure() > limit:
        if time.monotonic() > deadline:
            return False
        gc.collect()
        time.sleep(0.01)
    return True
