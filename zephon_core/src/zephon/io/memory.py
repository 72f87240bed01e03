"""Datasets in memory: rows the user already has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import FileInfo, Shard, ShardContext, ShardIndex, ShardReader
from zephon.block import canonical_schema, concat_batches, conform, empty_batch, take_batch, unify_schemas
from zephon.errors import ConfigError
from zephon.io.indexing import guarded
from zephon.io.shards import Names
from zephon.io.storage import StorageContext, Storages

#: Rows that are converted, hashed or joined at a time.
_SLAB: Final = 16384


class MemorySource:
    """Shards that are lists of record batches in canonical types.

    Args:
        name: the dataset, for errors.
        shards: rows by shard name.

    Raises:
        ConfigError: ``dataset-rows``.
        DataError: ``duplicate-field``.
    """

    def __init__(self, name: str, shards: Mapping[str, Any]) -> None:
        self._name = name
        ordered = sorted(shards)
        self.names = Names(pa.array(ordered, pa.string()))
        self._batches = [_batches_of(name, shard, shards[shard]) for shard in ordered]
        self.rows: npt.NDArray[np.int64] = np.array([sum(b.num_rows for b in s) for s in self._batches], np.int64)
        content = [_digest(batches) for batches in self._batches]
        self.digests: npt.NDArray[np.uint64] = np.array([digest for digest, _ in content], np.uint64)
        self.sizes: npt.NDArray[np.int64] = np.array([size for _, size in content], np.int64)
        self.schemas: list[pa.Schema] = []
        self.schema_ids: npt.NDArray[np.int32] = np.zeros(len(ordered), np.int32)
        for i, batches in enumerate(self._batches):
            if batches[0].schema not in self.schemas:
                self.schemas.append(batches[0].schema)
            self.schema_ids[i] = self.schemas.index(batches[0].schema)

    @property
    def format_name(self) -> str:
        """Of no format: rows in memory."""
        return "memory"

    @property
    def index_path(self) -> str:
        """There is no index."""
        return ""

    def index(self, shard: int) -> ShardIndex:
        """Any row can be read alone."""
        return ShardIndex(rows=int(self.rows[shard]), schema=self.schemas[self.schema_ids[shard]])

    def context(self, cache: object = None) -> StorageContext:
        """A context nothing is read through."""
        return StorageContext(Storages())

    def open(self, shard: int, index: ShardIndex, context: ShardContext) -> ShardReader:
        """A reader of a shard."""
        return _MemoryReader(self._batches[shard])

    def guard(self, shard: int) -> guarded:
        """Names the shard in whatever its reader raises."""
        described = Shard(url="", name=self.names[shard], file=FileInfo(url="", size=int(self.sizes[shard])))
        return guarded(self._name, "memory", described)


class _MemoryReader(ShardReader):
    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches
        self._starts = np.cumsum([0, *(b.num_rows for b in batches)])

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        cuts = np.searchsorted(rows, self._starts)
        pieces: list[pa.RecordBatch] = []
        for k, batch in enumerate(self._batches):
            wanted = rows[cuts[k] : cuts[k + 1]] - self._starts[k]
            if len(wanted) == 0 and (pieces or k + 1 < len(self._batches)):
                continue
            chosen = batch if columns is None else batch.select(list(columns))
            if len(wanted) and wanted[-1] - wanted[0] + 1 == len(wanted):
                pieces.append(chosen.slice(int(wanted[0]), len(wanted)))
            else:
                pieces.append(take_batch(chosen, wanted))
        return concat_batches(pieces)


def shards_of(name: str, data: Any) -> dict[str, Any]:
    """Rows by shard name, from whatever ``Dataset.from_dict`` takes.

    Raises:
        ConfigError: ``dataset-rows``.
    """
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return {"rows": data}
    if isinstance(data, Mapping):
        return {str(shard): rows for shard, rows in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return {"rows": data}
    raise _bad_rows(name, f"a {type(data).__qualname__}")


def _batches_of(name: str, shard: str, data: Any) -> list[pa.RecordBatch]:
    """At least one batch, all of one canonical schema."""
    if isinstance(data, pa.RecordBatch):
        found = [data]
    elif isinstance(data, pa.Table):
        found = data.to_batches()
        if not found:
            return [empty_batch(canonical_schema(data.schema))]
    elif isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        found = _from_rows(name, shard, data)
    else:
        raise _bad_rows(name, f"shard {shard!r} is a {type(data).__qualname__}")
    schema = canonical_schema(found[0].schema)
    return [conform(batch, schema) for batch in found]


def _from_rows(name: str, shard: str, rows: Sequence[Any]) -> list[pa.RecordBatch]:
    """Rows as columns: a row-wise loop, since dictionaries are what there is."""
    batches = []
    for start in range(0, max(1, len(rows)), _SLAB):
        slab = rows[start : start + _SLAB]
        for i, row in enumerate(slab):
            if not isinstance(row, Mapping) or not all(isinstance(key, str) for key in row):
                raise _bad_rows(name, f"row {start + i} of shard {shard!r} is a {type(row).__qualname__}: {row!r:.80}")
        fields = dict.fromkeys(key for row in slab for key in row)
        columns = {field: _column(name, shard, field, [row.get(field) for row in slab]) for field in fields}
        if columns:
            batches.append(pa.RecordBatch.from_pydict(columns))
        else:
            batches.append(pa.record_batch({"_": pa.nulls(len(slab))}).select([]))
    united, conflicts = unify_schemas({f"from row {i * _SLAB}": b.schema for i, b in enumerate(batches)})
    for field, types in conflicts.items():
        raise _mixed(name, shard, field, "; ".join(f"{t} {where}" for where, t in types.items()))
    return [conform(batch, united) for batch in batches]


def _column(name: str, shard: str, field: str, values: Sequence[Any]) -> pa.Array:
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise _mixed(name, shard, field, str(error)) from error
    if isinstance(array, pa.ChunkedArray):
        raise _mixed(name, shard, field, f"{_SLAB} values of over 2 GB together; give them as several Arrow batches")
    return array


def _digest(batches: Sequence[pa.RecordBatch]) -> tuple[int, int]:
    """A hash of the rows, and their bytes, neither depending on how they are cut into batches or lie in memory."""
    hasher = hashlib.blake2b(batches[0].schema.serialize().to_pybytes(), digest_size=8)
    size = 0
    rest: list[pa.RecordBatch] = []
    for batch in [*(b.slice(i, _SLAB) for b in batches for i in range(0, b.num_rows, _SLAB)), None]:
        if batch is not None:
            rest.append(batch)
        have = sum(b.num_rows for b in rest)
        if have >= _SLAB or (batch is None and have):
            joined = concat_batches(rest)
            # taking copies the rows into fresh buffers, whatever they were slices of
            serialized = take_batch(joined, np.arange(min(_SLAB, have))).serialize()
            hasher.update(serialized)
            size += serialized.size
            rest = [joined.slice(_SLAB)]
    return int.from_bytes(hasher.digest(), "little"), size


def _bad_rows(name: str, found: str) -> ConfigError:
    return ConfigError(
        f"dataset {name!r} is not made of rows",
        found=found,
        fix='give a list of dicts, an Arrow table, or a dict of these: {"shard-0": [{"text": "..."}, ...]}',
        code="dataset-rows",
    )


def _mixed(name: str, shard: str, field: str, found: str) -> ConfigError:
    return ConfigError(
        f"field {field!r} in shard {shard!r} of dataset {name!r} has no single type",
        found=found,
        fix=f"give {field!r} one type, or pass an Arrow table with the schema you mean",
        code="dataset-rows",
    )
