"""Reading rows of one indexed shard."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext, ShardIndex, ShardReader
from zephon.block import MAX_COLUMN_BYTES, concat_batches, conform, empty_columns
from zephon.errors import BadRow, BadRowsError
from zephon_csv.content import Content
from zephon_csv.errors import changed, missing, too_large
from zephon_csv.layout import Layout
from zephon_csv.parse import Parser, parse_rows
from zephon_csv.records import Dialect

#: Text parsed in one go.
_PARSE_BYTES: Final = 1 << 28


class RowReader(ShardReader):
    """Reads rows of a content by where they begin. Which are bad was decided when the shard was indexed."""

    def __init__(self, encoding: str, shard: Shard, index: ShardIndex, context: ShardContext) -> None:
        if index.blob is None:
            raise changed(shard, "an index without row offsets")
        self._shard = shard
        self._schema: pa.Schema = index.schema
        self._layout = Layout.from_blob(index.blob)
        self._content = Content(shard, context, encoding)
        self._bad = {row: BadRow(row, reason, offset) for row, offset, reason in index.bad_rows}
        self._bad_rows = np.array(list(self._bad), dtype=np.int64)

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``.
            ShardError: ``shard-changed``, ``shard-corrupt``, ``shard-truncated``, ``shard-rows-too-large``.
            ConfigError: ``column-missing``.
        """
        names = list(self._schema.names if columns is None else columns)
        for name in names:
            if name not in self._schema.names:
                raise missing(self._shard, name, self._schema.names)
        met = self._bad_rows[np.isin(self._bad_rows, rows)] if len(self._bad_rows) else self._bad_rows
        if len(met):
            bad = [self._bad[int(row)] for row in met]
            raise BadRowsError(bad, what=f"{self._shard.name}: row {bad[0].row} cannot be read")
        if not names:
            return empty_columns(len(rows))
        schema = pa.schema([self._schema.field(name) for name in names])
        if len(rows) == 0:
            return pa.RecordBatch.from_pylist([], schema=schema)
        if self._layout.is_whole:
            self._content.load()
        batches = [conform(self._decode(self._pieces(part), part, schema), schema) for part in self._parts(rows)]
        for name in names:
            size = sum(batch.column(name).nbytes for batch in batches)
            if size > MAX_COLUMN_BYTES:
                what = f"field {name!r} of rows {rows[0]} to {rows[-1]} takes {size} bytes"
                raise too_large(self._shard, f"{what}; a block's column may take {MAX_COLUMN_BYTES}")
        return concat_batches(batches)

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """See :class:`zephon.abc.RangedShard`. Text has no columns: they make no difference."""
        if len(rows) == 0:
            return np.empty((0, 2), dtype=np.int64)
        if self._layout.is_whole:
            return np.array([[0, self._shard.file.size]], dtype=np.int64)
        return self._content.spans(self._layout.edges[rows], self._layout.edges[rows + 1])[1].astype(np.int64)

    def close(self) -> None:
        """See :meth:`zephon.abc.ShardReader.close`."""
        self._content.whole = None

    @abstractmethod
    def _decode(self, pieces: pa.Array, rows: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        """The rows of some pieces of the content."""

    def _pieces(self, rows: npt.NDArray[np.int64]) -> pa.Array:
        pieces = self._content.pieces(self._layout.edges[rows], self._layout.edges[rows + 1])
        last = len(self._layout.edges) - 2
        view = np.frombuffer(pieces.buffers()[2], dtype=np.uint8)
        stops = np.frombuffer(pieces.buffers()[1], dtype=np.int64)[1 : len(pieces) + 1]
        inner = stops[rows < last]
        if len(inner) and not np.isin(view[inner - 1], (10, 13)).all():
            raise changed(self._shard, "rows do not end where they did")
        return pieces

    def _parts(self, rows: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        total = np.cumsum(self._layout.edges[rows + 1] - self._layout.edges[rows])
        yield from np.split(rows, np.flatnonzero(np.diff(total // _PARSE_BYTES)) + 1)


class TableReader(RowReader):
    """Reads records with Arrow's CSV parser, only the columns asked for."""

    def __init__(
        self,
        dialect: Dialect,
        null_values: tuple[str, ...] | None,
        encoding: str,
        shard: Shard,
        index: ShardIndex,
        context: ShardContext,
    ) -> None:
        super().__init__(encoding, shard, index, context)
        self._parser = Parser(dialect=dialect, names=self._layout.names, null_values=null_values)

    def _decode(self, pieces: pa.Array, rows: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        types = {field.name: field.type for field in schema}
        batch = parse_rows(self._parser, pieces, rows, types, schema.names)
        if batch is None:
            raise changed(self._shard, f"rows {rows[0]} to {rows[-1]} do not parse as they did")
        return batch


class LineReader(RowReader):
    """Reads lines without their ends."""

    def _decode(self, pieces: pa.Array, rows: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        data, offsets = pieces.buffers()[2], np.frombuffer(pieces.buffers()[1], dtype=np.int64)[: len(pieces) + 1]
        view = np.append(np.frombuffer(data, dtype=np.uint8), 0)
        starts, stops = offsets[:-1], offsets[1:].copy()
        for end in (10, 13):
            stops -= (stops > starts) & (view[stops - 1] == end)
        edges = np.stack([starts, stops], axis=1).astype(np.int64)
        array = pa.Array.from_buffers(pa.large_binary(), 2 * len(rows) - 1, [None, pa.py_buffer(edges), data])
        try:
            texts = array.take(pa.array(np.arange(0, 2 * len(rows), 2))).cast(pa.binary()).cast(pa.string())
        except pa.ArrowInvalid as error:
            raise changed(self._shard, f"rows {rows[0]} to {rows[-1]}: {error}") from error
        return pa.RecordBatch.from_arrays([texts], schema=schema)
