"""Reading rows of one Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NoReturn

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from zephon.abc import Shard, ShardContext, ShardReader
from zephon.block import MAX_COLUMN_BYTES, concat_batches, conform, empty_columns, take_batch
from zephon.errors import ShardError, ZephonError
from zephon_parquet.layout import Layout
from zephon_parquet.source import FetchedFile
from zephon_parquet.text import check_text

#: Units read whole are decoded together up to this size.
_RUN_BYTES: Final = 64 << 20
#: A unit of which only some rows are wanted is decoded whole up to this size, and in steps of it beyond.
_STEP_BYTES: Final = 4 << 20
#: Column chunks up to this size are fetched at once; larger ones are read through a buffer as they are decoded.
_FETCH_BYTES: Final = 64 << 20


@attrs.define(slots=True, eq=False)
class _Cursor:
    """A unit being decoded in steps. The next call often goes on where the last one stopped."""

    unit: int
    names: tuple[str, ...]
    steps: Iterator[pa.RecordBatch]
    first: int  # row of the file at which `batch` begins
    batch: pa.RecordBatch


class ParquetReader(ShardReader):
    """Decodes the row groups touched, and of them the columns wanted.

    Row groups that are wanted whole are decoded together and handed out as they are. Of a large one that is wanted in
    part, at most some megabytes are decoded at a time, and a later call that goes on in it goes on decoding: reading a
    row group piece by piece costs one pass over it.
    """

    def __init__(self, shard: Shard, schema: pa.Schema, layout: Layout, context: ShardContext) -> None:
        self._shard = shard
        self._schema = schema
        self._layout = layout
        self._context = context
        self._fetched = FetchedFile(shard, context)
        self._file = self._open(pa.PythonFile(self._fetched, mode="r"))
        self._buffered: tuple[pa.NativeFile, pq.ParquetFile] | None = None
        self._cursor: _Cursor | None = None

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``: text that is not UTF-8.
            ShardError: ``shard-corrupt``, naming row group, field and byte offset; ``shard-rows-too-large`` if the rows
                of one field take more memory than a column of a block may.
        """
        if len(rows) and not 0 <= rows[0] <= rows[-1] < self._layout.rows:
            raise IndexError(f"rows {rows[0]} to {rows[-1]} of {self._layout.rows}")
        names = tuple(self._schema.names if columns is None else columns)
        schema = pa.schema([self._schema.field(name) for name in names])
        if not names:
            return empty_columns(len(rows))
        pieces = [piece for piece in self._pieces(rows, names, schema) if piece.num_rows]
        if not pieces:
            return schema.empty_table().to_batches()[0] if len(schema) else empty_columns(0)
        self._check_size(pieces)
        batch = concat_batches(pieces)
        check_text(batch, rows)
        return batch

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """Byte ranges of the column chunks that :meth:`read` of the same arguments needs."""
        names = self._schema.names if columns is None else columns
        units = np.unique(self._layout.units_of(rows)).tolist()
        return np.array(self._layout.ranges(units, names), dtype=np.int64).reshape(-1, 2)

    def may_match(self, predicate: Any, units: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """For each unit, False if by its statistics surely no row of it matches an Arrow expression."""
        # Loads pyarrow.dataset, which most runs do without.
        from zephon_parquet.predicate import matching_groups

        return matching_groups(self._layout.metadata, predicate)[self._layout.groups[units]]

    def close(self) -> None:
        """Close the file, if one is open."""
        self._cursor = None
        self._file.close(force=True)
        if self._buffered is not None:
            self._buffered[1].close(force=True)
            self._buffered[0].close()

    def _pieces(
        self, rows: npt.NDArray[np.int64], names: tuple[str, ...], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows, in order, as batches of the schema."""
        units = self._layout.units_of(rows)
        bounds = np.flatnonzero(np.diff(units, prepend=-1)).tolist() + [len(rows)]
        run: list[int] = []
        run_start = run_bytes = 0
        for start, stop in pairwise(bounds):
            unit = int(units[start])
            size = self._layout.decoded_bytes(unit, names)
            whole = stop - start == self._layout.unit_rows(unit)
            at_once = whole or size <= _STEP_BYTES
            if run and (not at_once or run_bytes + size > _RUN_BYTES):
                yield from self._read_whole(run, names, schema, rows[run_start:start])
                run, run_bytes = [], 0
            if not at_once:
                yield from self._read_steps(unit, names, schema, rows[start:stop])
                continue
            if not run:
                run_start = start
            run.append(unit)
            run_bytes += size
        if run:
            yield from self._read_whole(run, names, schema, rows[run_start:])

    def _read_whole(
        self, units: list[int], names: tuple[str, ...], schema: pa.Schema, rows: npt.NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        groups = self._layout.groups[units].tolist()
        try:
            with self._holding(units, names) as file:
                table = file.read_row_groups(groups, columns=list(names), use_threads=False).select(names)
        except (OSError, pa.ArrowException) as error:
            self._explain(error, units, names)
        expected = sum(self._layout.unit_rows(unit) for unit in units)
        if table.num_rows != expected:
            self._explain(ValueError(f"{table.num_rows} rows instead of {expected}"), units, names)
        # Units of a run need not follow each other in the file: rows are found within each.
        held = np.concatenate([np.arange(*self._layout.bounds[unit : unit + 2]) for unit in units])
        first = 0
        for batch in table.to_batches():
            last = first + batch.num_rows
            yield _pick(batch, np.searchsorted(held[first:last], rows[(rows >= held[first]) & (rows <= held[last - 1])]), schema)
            first = last
