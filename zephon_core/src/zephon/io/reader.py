"""From pointers to rows: the one place where a run reads its datasets."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import ShardIndex, ShardReader
from zephon.block import Origins, concat_batches, conform, empty_batch, empty_columns, retained_bytes, take_batch
from zephon.errors import BadRow, BadRowsError, EngineError, PluginError, ShardError
from zephon.io.dataset import Dataset
from zephon.io.pool import ReaderPool
from zephon.io.storage import StorageContext
from zephon.io.units import Unit, UnitCache

if TYPE_CHECKING:
    from zephon.io.cache import CacheSettings, ShardCache

Rows = npt.NDArray[np.int64]

#: Shards whose facts are kept at hand.
_KNOWN_SHARDS: Final = 4096
#: Rows that are read to learn how large a unit of a compressed shard is before it is decoded.
_PROBE_ROWS: Final = 64
#: Bytes a stored byte may become before a unit's size is worth a probe.
_EXPANSION: Final = 8


class _Bad(NamedTuple):
    """A bad row, its number being that in the shard, and the error of the whole shard or unit that made it bad."""

    row: BadRow
    cause: ShardError | None = None


class _CannotOpenError(Exception):
    """A shard cannot be opened at all: there is nothing to narrow down."""

    def __init__(self, error: ShardError) -> None:
        self.error = error


@attrs.frozen(slots=True, eq=False, kw_only=True)
class _ShardFacts:
    """What reading a shard takes: its index entry and the columns wanted that it has."""

    dataset: int
    shard: int
    entry: ShardIndex
    columns: tuple[str, ...]
    bad: dict[int, BadRow]
    bad_rows: Rows

    def bounds(self, unit: int) -> tuple[int, int]:
        """First row of a decode unit, and one past its last."""
        units = self.entry.units
        assert units is not None
        return int(units[unit]), int(units[unit + 1])

    def without_bad(self, start: int, stop: int) -> Rows:
        """Rows ``start:stop`` but for those the index knows to be bad."""
        rows = np.arange(start, stop, dtype=np.int64)
        return np.setdiff1d(rows, self.bad_rows) if len(self.bad_rows) else rows


@attrs.frozen(slots=True, eq=False)
class _Piece:
    """Some rows of a batch: all of them, in order, where ``positions`` is None."""

    batch: pa.RecordBatch
    positions: Rows | None = None


class BlockReader:
    """Reads rows of several datasets by pointer. Thread-safe; one serves all lanes of a process.

    Another process that is sent one gets a reader of its own, which has read nothing.

    Args:
        datasets: what ``pointers.dataset`` indexes.
        schema: the columns wanted, in canonical types: a projection of the union of the datasets' schemas. Of each
            dataset only these are read; those it lacks are null.
        cache_bytes: decoded units are kept up to so many bytes; a larger unit is read row by row.
        open_shards: shard readers kept open.
        shards: keep whole shards of remote storage on a local disk.

    Raises:
        ConfigError: ``cache-unusable``.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        schema: pa.Schema,
        *,
        cache_bytes: int = 256 << 20,
        open_shards: int = 64,
        shards: CacheSettings | None = None,
    ) -> None:
        self.schema = schema
        self._datasets = tuple(datasets)
        self._shard_cache: ShardCache | None = None
        self._shards = shards
        if shards is not None:
            from zephon.io.cache import ShardCache

            self._shard_cache = ShardCache(shards)
        self._contexts: list[StorageContext] = [d._source.context(self._shard_cache) for d in self._datasets]
        self._open_shards = open_shards
        self._pool = ReaderPool(open_shards)
        self._cache = UnitCache(cache_bytes)
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._facts: OrderedDict[tuple[int, int], _ShardFacts] = OrderedDict()
        #: Rows decoded and the bytes they took, by dataset: what the size of units is estimated from.
        self._decoded: dict[int, tuple[int, int]] = {}
        #: Units too large to keep, with the error if they cannot be decoded to their end.
        self._large: dict[tuple[int, int, int], ShardError | None] = {}
        self._rows_decoded = 0
        self._rows_delivered = 0
        self._units_decoded = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets a reader of its own, with nothing decoded and nothing open."""
        make = partial(BlockReader, cache_bytes=self._cache_bytes, open_shards=self._open_shards, shards=self._shards)
        return make, (self._datasets, self.schema)

    def read(self, pointers: Origins) -> pa.RecordBatch:
        """The rows behind pointers, in their order.

        Whether a row is bad depends on the row alone, or on the decode unit it lies in, never on what else is asked
        for. One ascending run of one shard's rows is returned as slices, without copying, unless it would keep more
        than twice its own memory alive.

        Args:
            pointers: ``dataset``, ``shard`` and ``row`` of each row, in any order, repeats included.

        Returns:
            ``len(pointers)`` rows of exactly :attr:`schema`.

        Raises:
            BadRowsError: rows that cannot be read: *all* of this call, by position in ``pointers``. Where the first of
                them is bad because its shard or unit is, that :class:`ShardError` is the cause and gives the code.
            StorageError: the storage did not answer, or a shard is gone.
            EngineError: ``format-failed``, ``reader-closed``, ``block-too-large``.
        """
        if len(pointers) == 0:
            return empty_batch(self.schema)
        keys = pointers.dataset.astype(np.int64) << 32 | pointers.shard
        rows = pointers.row
        inverse: Rows | None = None
        if not _ascending(keys, rows):
            keys, rows, inverse = _sorted_unique(keys, rows)
        pieces: list[_Piece] = []
        bad: dict[int, _Bad] = {}
        cuts = (np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist()
        for start, stop in zip([0, *cuts], [*cuts, len(keys)], strict=True):
            facts = self._shard_facts(int(keys[start]) >> 32, int(keys[start]) & 0xFFFFFFFF)
            wanted = rows[start:stop]
            found, bad_here = self._read_shard(facts, wanted)
            pieces += found
            bad.update((start + int(np.searchsorted(wanted, number)), b) for number, b in bad_here.items())
        if bad:
            _raise_bad(bad, inverse)
        with self._lock:
            self._rows_delivered += len(pointers)
        return self._assemble(pieces, inverse)

    def stats(self) -> dict[str, Any]:
        """Counts so far: ``rows_decoded``, ``rows_delivered``, ``units_decoded``, ``cache_hits``, ``bytes_read``.

        With a shard cache, ``shard_cache`` has what it did: see :class:`zephon.io.cache.CacheCounts`.

        Rows decoded per row delivered stays near 1 unless lanes share units that are not kept long enough.
        """
        with self._lock:
            return {
                "rows_decoded": self._rows_decoded,
                "rows_delivered": self._rows_delivered,
                "units_decoded": self._units_decoded,
                "cache_hits": self._cache.hits,
                "bytes_read": sum(context.bytes_read for context in self._contexts),
                **({} if self._shard_cache is None else {"shard_cache": attrs.asdict(self._shard_cache.counts)}),
            }

    @property
    def nbytes(self) -> int:
        """Bytes of decoded units held now."""
        return self._cache.nbytes

    def close(self) -> None:
        """Close shards, forget units, give up waiting for storage. May be called twice."""
        for context in self._contexts:
            context.close()
        if self._shard_cache is not None:
            self._shard_cache.close()
        self._pool.close()
        self._cache.clear()

    # -- one shard ----------------------------------------------------------------------------------------------------

    def _shard_facts(self, dataset: int, shard: int) -> _ShardFacts:
        key = (dataset, shard)
        with self._lock:
            known = self._facts.get(key)
            if known is not None:
                self._facts.move_to_end(key)
                return known
        entry = self._datasets[dataset]._source.index(shard)
        offered = set(self._datasets[dataset].schema.names) & set(entry.schema.names)
        bad = {row: BadRow(row, reason, offset) for row, offset, reason in entry.bad_rows}
        facts = _ShardFacts(
            dataset=dataset,
            shard=shard,
            entry=entry,
            columns=tuple(name for name in self.schema.names if name in offered),
            bad=bad,
            bad_rows=np.array(sorted(bad), np.int64),
        )
        with self._lock:
            self._facts[key] = facts
            while len(self._facts) > _KNOWN_SHARDS:
                self._facts.popitem(last=False)
        return facts

    def _read_shard(self, facts: _ShardFacts, rows: Rows) -> tuple[list[_Piece], dict[int, _Bad]]:
        """Pieces that hold these ascending rows in order, and the bad ones among them by number in the shard.

        Where rows are bad, so that the block is not made, pieces may be missing.
        """
        bad: dict[int, _Bad] = {}
        if len(facts.bad_rows):
            known = np.isin(rows, facts.bad_rows)
            bad = {row: _Bad(facts.bad[row]) for row in rows[known].tolist()}
            rows = rows[~known]
        if not len(rows):
            return [], bad
        if not facts.columns:
            # nothing of the shard is wanted
            return [_Piece(conform(empty_columns(len(rows)), self.schema))], bad
        if facts.entry.units is None:
            pieces, found = self._read_rows(facts, rows)
            return pieces, bad | found
        pieces = []
        for unit, some in _by_unit(facts.entry.units, rows):
            more, found = self._read_unit(facts, unit, some)
            pieces += more
            bad |= found
        return pieces, bad

    def _read_rows(self, facts: _ShardFacts, rows: Rows) -> tuple[list[_Piece], dict[int, _Bad]]:
        """Rows of a shard whose rows can be read one by one: where a read fails as a whole, halves tell which do."""
        try:
            return [_Piece(self._decode(facts, rows))], {}
        except BadRowsError as error:
            return [], {bad.row: _Bad(bad) for bad in error.rows}
        except _CannotOpenError as error:
            return [], _all_bad(rows, error.error)
        except ShardError as error:
            if len(rows) == 1:
                return [], _all_bad(rows, error)
        middle = len(rows) // 2
        pieces_a, bad_a = self._read_rows(facts, rows[:middle])
        pieces_b, bad_b = self._read_rows(facts, rows[middle:])
        return pieces_a + pieces_b, bad_a | bad_b

    def _read_unit(self, facts: _ShardFacts, number: int, rows: Rows) -> tuple[list[_Piece], dict[int, _Bad]]:
        """Rows of one decode unit, out of the cache where it fits."""
        key = (facts.dataset, facts.shard, number)
        start, stop = facts.bounds(number)
        if key in self._large or self._estimate(facts, stop - start) > self._cache_bytes:
            return self._read_large(facts, number, rows)
        unit = self._cache.get(key, lambda: self._decode_unit(facts, number))
        if unit.failure is not None:
            return [], _all_bad(rows, unit.failure)
        bad = {row: _Bad(unit.bad[row]) for row in rows.tolist() if row in unit.bad} if unit.bad else {}
        if bad:
            return [], bad
        positions = rows - start if unit.rows is None else np.searchsorted(unit.rows, rows)
        return [_Piece(unit.data, positions)], {}

    def _decode_unit(self, facts: _ShardFacts, number: int) -> Unit:
        start, stop = facts.bounds(number)
        rows = facts.without_bad(start, stop)
        bad: dict[int, BadRow] = {}
        with self._lock:
            self._units_decoded += 1
        while True:
            try:
                data = _owned(self._decode(facts, rows))
                break
            except BadRowsError as error:
                bad.update((row.row, row) for row in error.rows)
                rows = np.setdiff1d(rows, list(bad))
            except ShardError as error:
                return Unit(data=empty_batch(self.schema), failure=error)
            except _CannotOpenError as error:
                return Unit(data=empty_batch(self.schema), failure=error.error)
        size = retained_bytes([data])
        self._learn(facts, len(rows), size)
        if size > self._cache_bytes:
            # it can be decoded to its end, and will be read by rows from now on
            self._large[facts.dataset, facts.shard, number] = None
        return Unit(data=data, rows=None if len(rows) == stop - start else rows, bad=bad)

    def _read_large(self, facts: _ShardFacts, number: int, rows: Rows) -> tuple[list[_Piece], dict[int, _Bad]]:
        """Rows of a unit that is too large to keep.

        Its last row is read once beforehand: a unit that cannot be decoded to its end is bad as a whole, whichever of
        its rows are asked for, just as it would be if it were kept.
        """
        key = (facts.dataset, facts.shard, number)
        if key not in self._large:
            start, stop = facts.bounds(number)
            self._large[key] = self._failure_of(facts, facts.without_bad(start, stop)[-1:])
        failure = self._large[key]
        if failure is None:
            try:
                return [_Piece(self._decode(facts, rows))], {}
            except BadRowsError as error:
                return [], {bad.row: _Bad(bad) for bad in error.rows}
            except _CannotOpenError as error:
                failure = error.error
            except ShardError as error:
                failure = error
            self._large[key] = failure
        return [], _all_bad(rows, failure)

    def _failure_of(self, facts: _ShardFacts, rows: Rows) -> ShardError | None:
        """What keeps these rows from being read, other than being bad themselves."""
        try:
            self._decode(facts, rows)
        except BadRowsError:
            return None
        except _CannotOpenError as error:
            return error.error
        except ShardError as error:
            return error
        return None

    def _decode(self, facts: _ShardFacts, rows: Rows) -> pa.RecordBatch:
        """Ask the format for ascending rows, in the reader's schema."""
        source = self._datasets[facts.dataset]._source

        def open_shard() -> ShardReader:
            try:
                return source.open(facts.shard, facts.entry, self._contexts[facts.dataset])
            except ShardError as error:
                raise _CannotOpenError(error) from error

        with (
            self._pool.lend((facts.dataset, facts.shard), open_shard) as reader,
            source.guard(facts.shard),
        ):
            batch = reader.read(rows, facts.columns)
        if batch.num_rows != len(rows):
            raise PluginError(
                f"a reader of dataset {self._datasets[facts.dataset].name!r} returned another number of rows",
                found=f"{batch.num_rows} rows of shard {source.names[facts.shard]!r}; {len(rows)} were asked for",
                fix="repair the format plugin",
                code="format-contract",
            )
        with self._lock:
            self._rows_decoded += len(rows)
        return conform(batch, self.schema)

    # -- how large units are ------------------------------------------------------------------------------------------

    def _estimate(self, facts: _ShardFacts, rows: int) -> float:
        """Bytes that so many rows of a shard take decoded."""
        known = self._decoded.get(facts.dataset)
        if known is None:
            source = self._datasets[facts.dataset]._source
            stored = float(source.sizes[facts.shard]) * rows / max(1, facts.entry.rows)
            if stored * _EXPANSION <= self._cache_bytes:
                return stored
            probe = facts.without_bad(0, min(_PROBE_ROWS, facts.entry.rows))
            try:
                self._learn(facts, len(probe), self._decode(facts, probe).nbytes)
            except (BadRowsError, ShardError, _CannotOpenError):
                return stored
            known = self._decoded.get(facts.dataset, (1, 0))
        return known[1] / known[0] * rows

    def _learn(self, facts: _ShardFacts, rows: int, nbytes: int) -> None:
        with self._lock:
            rows_before, bytes_before = self._decoded.get(facts.dataset, (0, 0))
            if rows:
                self._decoded[facts.dataset] = (rows_before + rows, bytes_before + nbytes)

    # -- the block ----------------------------------------------------------------------------------------------------

    def _assemble(self, pieces: Sequence[_Piece], inverse: Rows | None) -> pa.RecordBatch:
        """One batch of all pieces; ``inverse`` says which of their rows each row of the result is."""
        if len(pieces) == 1:
            piece = pieces[0]
            if inverse is None:
                return _owned(_materialise(piece))
            return take_batch(piece.batch, inverse if piece.positions is None else piece.positions[inverse])
        try:
            joined = concat_batches([_materialise(piece) for piece in pieces])
        except ValueError as error:
            raise EngineError(
                "a block of rows is too large",
                found=str(error),
                fix="rows of this size need smaller blocks: lower memory_limit",
                code="block-too-large",
            ) from error
        return joined if inverse is None else take_batch(joined, inverse)


def _ascending(keys: Rows, rows: Rows) -> bool:
    """Whether pointers are in order of dataset, shard and row, each once."""
    step = keys[1:] - keys[:-1]
    return bool(((step > 0) | ((step == 0) & (rows[1:] > rows[:-1]))).all())


def _sorted_unique(keys: Rows, rows: Rows) -> tuple[Rows, Rows, Rows]:
    """Distinct pointers in order, and which of them each given one is."""
    order = np.lexsort((rows, keys))
    keys, rows = keys[order], rows[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1])
    inverse = np.empty(len(keys), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    return keys[new], rows[new], inverse


def _by_unit(units: Rows, rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Ascending rows, cut where the decode unit changes."""
    numbers = np.searchsorted(units, rows, side="right") - 1
    cuts = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
    for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        yield int(numbers[start]), rows[start:stop]


def _materialise(piece: _Piece) -> pa.RecordBatch:
    positions = piece.positions
    if positions is None:
        return piece.batch
    first = int(positions[0])
    if int(positions[-1]) - first + 1 == len(positions):
        return piece.batch.slice(first, len(positions))
    return take_batch(piece.batch, positions)


def _owned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, copied if it keeps more than twice its own bytes alive."""
    if batch.num_columns == 0 or retained_bytes([batch]) <= 2 * batch.nbytes:
        return batch
    # concatenating copies buffers as they are, which is faster than taking rows; an empty second part makes it copy
    columns = [pa.concat_arrays([column, column.slice(0, 0)]) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _all_bad(rows: Rows, cause: ShardError) -> dict[int, _Bad]:
    reason = f"{cause.what}: {cause.found}" if cause.found else cause.what
    return {row: _Bad(BadRow(row, reason), cause) for row in rows.tolist()}


def _raise_bad(bad: dict[int, _Bad], inverse: Rows | None) -> NoReturn:
    """Raise the error for bad rows, given by their place among the distinct pointers."""
    places = np.array(sorted(bad), np.int64)
    positions = places if inverse is None else np.flatnonzero(np.isin(inverse, places))
    found = [(int(p), bad[int(p if inverse is None else inverse[p])]) for p in positions]
    rows = [b.row._replace(row=position) for position, b in found]
    cause = found[0][1].cause
    if cause is None:
        raise BadRowsError(rows)
    fix = f'{cause.fix}; to drop and count its rows instead, pass .options(on_error="skip") or "quarantine"'
    raise BadRowsError(rows, code=cause.code, fix=fix) from cause
