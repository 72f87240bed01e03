"""The first rows of a dataset, for planning and for looking at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import ShardContext
from zephon.block import ORIGIN_DTYPES, Origins, concat_batches, conform, empty_batch
from zephon.errors import BadRowsError, ShardError

if TYPE_CHECKING:
    from zephon.io.dataset import Dataset


def first_rows(dataset: Dataset, n: int) -> tuple[pa.RecordBatch, Origins]:
    """The first ``n`` rows by row number, over shards in order, read without any cache.

    Rows that cannot be read are passed over, and so are the rows wanted of a shard that cannot.

    Args:
        dataset: where from.
        n: how many at most.

    Returns:
        The rows, with the dataset's schema, and their origins: component, dataset, epoch, part and phase are 0.

    Raises:
        ShardError: no row could be read at all.
    """
    schema = dataset.schema
    batches: list[pa.RecordBatch] = []
    places: list[tuple[int, npt.NDArray[np.int64]]] = []
    context = dataset._source.context()
    failure: ShardError | None = None
    left = n
    try:
        for shard, rows in enumerate(dataset.shard_rows.tolist()):
            if left <= 0:
                break
            wanted = np.arange(min(rows, left), dtype=np.int64)
            left -= len(wanted)
            if not len(wanted):
                continue
            try:
                good, batch = _read_good(dataset, shard, wanted, schema, context)
            except ShardError as error:
                failure = failure or error
                continue
            batches.append(batch)
            places.append((shard, good))
    finally:
        context.close()
    if failure is not None and not any(len(rows) for _, rows in places):
        raise failure
    data = concat_batches(batches) if batches else empty_batch(schema)
    shards = np.concatenate([np.empty(0, np.int64), *(np.full(len(rows), shard) for shard, rows in places)])
    numbers = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in places)])
    columns = {name: np.zeros(len(numbers), dtype) for name, dtype in ORIGIN_DTYPES.items()}
    origins = Origins(**{**columns, "shard": shards.astype(np.int32), "row": numbers})
    return data, origins


def _read_good(
    dataset: Dataset, shard: int, wanted: npt.NDArray[np.int64], schema: pa.Schema, context: ShardContext
) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
    source = dataset._source
    entry = source.index(shard)
    columns = [name for name in schema.names if name in entry.schema.names]
    good = np.setdiff1d(wanted, [row for row, _, _ in entry.bad_rows])
    reader = source.open(shard, entry, context)
    with source.guard(shard):
        try:
            while True:
                try:
                    return good, conform(reader.read(good, columns), schema)
                except BadRowsError as error:
                    fewer = np.setdiff1d(good, [bad.row for bad in error.rows])
                    if len(fewer) == len(good):
                        raise
                    good = fewer
        finally:
            reader.close()
