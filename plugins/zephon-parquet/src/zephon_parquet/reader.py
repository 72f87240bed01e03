"""Reading rows of one Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Final, NoReturn

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from zephon.abc import Shard, ShardContext, ShardReader
from zephon.block import MAX_COLUMN_BYTES, concat_batches, conform, empty_columns, take_batch
from zephon.errors import DataError, ShardError
from zephon_parquet.layout import Layout
from zephon_parquet.source import FetchedFile
from zephon_parquet.text import check_text

#: Units read whole are decoded together up to this size.
_RUN_BYTES: Final = 64 << 20
#: A unit of which only some rows are wanted is decoded whole up to this size, and in steps of it beyond.
_STEP_BYTES: Final = 4 << 20
#: Of a unit decoded in steps, column chunks up to this size are fetched at once; larger ones are read through buffers
#: of this size in all. What a reader keeps between two calls is a step and this.
_FETCH_BYTES: Final = 8 << 20
_SMALLEST_BUFFER: Final = 1 << 16


@attrs.define(slots=True, eq=False)
class _Cursor:
    """A unit being decoded in steps: the batch at hand, its first row in the file, and what follows."""

    unit: int
    names: tuple[str, ...]
    steps: Iterator[pa.RecordBatch]
    batch: pa.RecordBatch
    first: int

    @property
    def last(self) -> int:
        """The row after the batch."""
        return self.first + int(self.batch.num_rows)


class ParquetReader(ShardReader):
    """Decodes the row groups touched, and of them the columns wanted.

    Row groups that are wanted whole are decoded together and handed out as they are. A large one that is wanted in part
    is decoded some megabytes at a time, and a later call that goes on in it goes on decoding: reading a row group piece
    by piece costs one pass over it.
    """

    def __init__(self, shard: Shard, schema: pa.Schema, layout: Layout, context: ShardContext) -> None:
        self._shard = shard
        self._schema = schema
        self._layout = layout
        self._context = context
        self._fetched = FetchedFile(shard, context)
        self._file = self._parquet_file(pa.PythonFile(self._fetched, mode="r"))
        self._random_access: pa.NativeFile | None = None
        self._cursor: _Cursor | None = None

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``: text that is not UTF-8.
            ShardError: ``shard-corrupt``, naming row group, field and byte offset; ``shard-changed``;
                ``shard-rows-too-large`` if the rows of one field take more memory than a column of a block may.
        """
        if len(rows) and not 0 <= rows[0] <= rows[-1] < self._layout.rows:
            raise IndexError(f"rows {rows[0]} to {rows[-1]} of {self._layout.rows}")
        names = tuple(self._schema.names if columns is None else columns)
        if not names:
            return empty_columns(len(rows))
        schema = pa.schema([self._schema.field(name) for name in names])
        pieces = list(self._pieces(rows, names, schema))
        if not pieces:
            return conform(empty_columns(0), schema)
        self._check_size(pieces)
        batch = concat_batches(pieces)
        check_text(batch, rows)
        return batch

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """Byte ranges of the column chunks that :meth:`read` of the same arguments needs."""
        names = self._schema.names if columns is None else columns
        units = [unit for unit, _ in self._layout.by_unit(rows)]
        return np.array(self._layout.ranges(units, names), dtype=np.int64).reshape(-1, 2)

    def may_match(self, predicate: Any, units: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """For each unit, False if by its statistics surely no row of it matches an Arrow expression."""
        # Loads pyarrow.dataset, which most runs do without.
        from zephon_parquet.predicate import matching_groups

        return matching_groups(self._layout, predicate)[self._layout.groups[units]]

    def close(self) -> None:
        """Close the file, if one is open."""
        self._cursor = None
        self._file.close(force=True)
        if self._random_access is not None:
            self._random_access.close()

    def _pieces(
        self, rows: npt.NDArray[np.int64], names: tuple[str, ...], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows in order, as batches of the schema that are not empty."""
        run: list[tuple[int, npt.NDArray[np.int64]]] = []
        run_bytes = 0
        for unit, some in self._layout.by_unit(rows):
            size = self._layout.decoded_bytes(unit, names)
            at_once = size <= _STEP_BYTES or len(some) == self._layout.unit_rows(unit)
            if run and (not at_once or run_bytes + size > _RUN_BYTES):
                yield from self._read_run(run, names, schema)
                run, run_bytes = [], 0
            if at_once:
                run.append((unit, some))
                run_bytes += size
            else:
                yield from self._read_steps(unit, names, schema, some)
        if run:
            yield from self._read_run(run, names, schema)

    def _read_run(
        self, run: Sequence[tuple[int, npt.NDArray[np.int64]]], names: tuple[str, ...], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Rows of some units that are decoded together."""
        units = [unit for unit, _ in run]
        starts = [0, *accumulate(self._layout.unit_rows(unit) for unit in units)]
        groups = self._layout.groups[units].tolist()
        try:
            with self._fetched.holding(self._layout.ranges(units, names)), _decoding():
                table = self._file.read_row_groups(groups, columns=list(names), use_threads=False).select(names)
                _expect(table.num_rows, starts[-1])
        except _DecodingError as error:
            self._explain(error, units, names)
        # Where each row stands in the table: the units of a run need not follow each other in the file.
        moved = [some + (start - self._layout.bounds[unit]) for (unit, some), start in zip(run, starts, strict=False)]
        places = moved[0] if len(moved) == 1 else np.concatenate(moved)
        first = 0
        for batch in table.to_batches():
            begin, end = places.searchsorted([first, first + batch.num_rows])
            if begin < end:
                yield self._pick(batch, places[begin:end] - first, schema)
            first += batch.num_rows

    def _read_steps(
        self, unit: int, names: tuple[str, ...], schema: pa.Schema, rows: npt.NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        """Rows of one unit that is decoded in steps, going on from the last call where that is possible."""
        cursor, self._cursor = self._cursor, None
        at_end = rows[-1] + 1 == self._layout.bounds[unit + 1]
        try:
            if cursor is None or (cursor.unit, cursor.names) != (unit, names) or rows[0] < cursor.first:
                steps = self._steps(unit, names)
                cursor = _Cursor(unit, names, steps, next(steps), int(self._layout.bounds[unit]))
            while len(rows):
                here = int(np.searchsorted(rows, cursor.last))
                if here:
                    yield self._pick(cursor.batch, rows[:here] - cursor.first, schema)
                    rows = rows[here:]
                if len(rows):
                    cursor.first = cursor.last
                    cursor.batch = next(cursor.steps)
        except _DecodingError as error:
            self._explain(error, [unit], names)
        if not at_end:
            self._cursor = cursor

    def _steps(self, unit: int, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The whole unit in batches of about `_STEP_BYTES`."""
        rows = self._layout.unit_rows(unit)
        step = max(1, min(rows, _STEP_BYTES * rows // max(1, self._layout.decoded_bytes(unit, names))))
        group = int(self._layout.groups[unit])
        ranges = self._layout.ranges([unit], names)
        if sum(stop - start for start, stop in ranges) <= _FETCH_BYTES:
            # Decoding takes hold of all chunks when it begins.
            with self._fetched.holding(ranges):
                steps = _batches(self._file, group, names, step)
                batch = next(steps, None)
        else:
            steps = _batches(self._buffered_file(names), group, names, step)
            batch = next(steps, None)
        done = 0
        while batch is not None:
            done += batch.num_rows
            yield batch
            batch = next(steps, None)
        with _decoding():
            _expect(done, rows)

    def _buffered_file(self, names: tuple[str, ...]) -> pq.ParquetFile:
        """The file, read through one buffer per column."""
        if self._random_access is None:
            self._random_access = self._context.open_random_access(self._shard.url)
        columns = sum(len(self._layout.leaves[name]) for name in names)
        return self._parquet_file(self._random_access, buffer_size=max(_SMALLEST_BUFFER, _FETCH_BYTES // columns))

    def _parquet_file(self, source: pa.NativeFile, buffer_size: int = 0) -> pq.ParquetFile:
        return pq.ParquetFile(
            source, metadata=self._layout.metadata, buffer_size=buffer_size, page_checksum_verification=True
        )

    def _pick(self, batch: pa.RecordBatch, places: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        """Some rows in canonical types: shared where they follow each other, copied otherwise."""
        if places[-1] - places[0] + 1 == len(places):
            return self._conform(batch.slice(places[0], len(places)), schema)
        if batch.nbytes > MAX_COLUMN_BYTES:
            return self._conform(take_batch(batch, places), schema)  # the whole may not fit the canonical types
        return take_batch(self._conform(batch, schema), places)

    def _conform(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        try:
            return conform(batch, schema)
        except DataError as error:
            # The schema is that of the file: all that can fail is large text that outgrows 32-bit offsets.
            raise self._too_large(batch.num_rows, error.found) from error

    def _check_size(self, pieces: Sequence[pa.RecordBatch]) -> None:
        for i, name in enumerate(pieces[0].schema.names):
            size = sum(piece.column(i).nbytes for piece in pieces)
            if size > MAX_COLUMN_BYTES:
                raise self._too_large(sum(piece.num_rows for piece in pieces), f"field {name!r} takes {size} bytes")

    def _too_large(self, rows: int, found: str) -> ShardError:
        return ShardError(
            f"{rows} rows of {self._shard.name} are too large to be read at once",
            found=f"{found}; a column of a block may take {MAX_COLUMN_BYTES} bytes",
            fix="read fewer rows at a time, or leave the field out with columns=",
            code="shard-rows-too-large",
        )

    def _explain(self, error: _DecodingError, units: Sequence[int], names: Sequence[str]) -> NoReturn:
        """Find the column chunk that cannot be decoded, and say so.

        Raises:
            ShardError: ``shard-corrupt``.
        """
        for unit in units:
            for name in names:
                try:
                    for _ in self._steps(unit, (name,)):
                        pass
                except _DecodingError as found:
                    raise self._corrupt(unit, name, found) from found
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__  # all columns at once were too much; sizes that are corrupt fail alone as well
        raise self._corrupt(units[0], names[0], error) from error

    def _corrupt(self, unit: int, name: str, found: Exception) -> ShardError:
        return ShardError(
            f"row group {self._layout.groups[unit]} of {self._shard.name} cannot be decoded",
            found=f"field {name!r}, whose column chunk begins at byte {self._layout.chunk_start(unit, name)} "
            f"(rows {self._layout.bounds[unit]} to {self._layout.bounds[unit + 1] - 1}): {found}",
            fix="write or copy the file again; the other row groups can be read",
            code="shard-corrupt",
        )


class _DecodingError(Exception):
    """Bytes that are there, but not what Parquet has in that place."""


@contextmanager
def _decoding() -> Iterator[None]:
    """Tells Arrow's complaints about content from those of the storage below it.

    Both come as OSError; what the storage raises has a number or a class of its own.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
            raise
        raise _DecodingError(str(error)) from error


def _batches(file: pq.ParquetFile, group: int, names: Sequence[str], step: int) -> Iterator[pa.RecordBatch]:
    batches = file.iter_batches(step, row_groups=[group], columns=list(names), use_threads=False)
    while True:
        with _decoding():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch.select(names)


def _expect(found: int, rows: int) -> None:
    """Complain as Arrow does, if it came to another number of rows without noticing."""
    if found != rows:
        raise pa.ArrowInvalid(f"{found} rows were decoded instead of {rows}")
