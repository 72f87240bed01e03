"""Reading rows of one shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext, ShardReader
from zephon.block import MAX_COLUMN_BYTES, concat_batches, conform, empty_columns, take_batch
from zephon.errors import ConfigError, DataError, ShardError
from zephon_arrow.check import check_rows, check_shape
from zephon_arrow.decode import buffers_of, decode
from zephon_arrow.errors import corrupt
from zephon_arrow.fetch import Bytes, assemble, check_head, needed
from zephon_arrow.layout import Layout, Message

#: Record batches fetched in one request, together at most.
_TOGETHER: Final = 64 << 20
#: 32-bit offsets reach so far; a slice of a larger column is copied out of it.
_FAR: Final = 1 << 31


class ArrowReader(ShardReader):
    """Reads the record batches touched, and of them the columns wanted.

    On this machine's disk a batch is a view of the mapped file, and rows that follow each other are a view of the
    batch. Elsewhere the buffers of the columns are fetched. The last batch is kept, so that reading a batch in steps
    fetches or decompresses it once.
    """

    def __init__(self, shard: Shard, schema: pa.Schema, layout: Layout, context: ShardContext) -> None:
        self._shard = shard
        self._schema = schema
        self._layout = layout
        self._bytes = Bytes(shard, context)
        self._bounds = layout.bounds()
        self._batches = layout.batches()
        self._stored: pa.Schema = pa.ipc.read_schema(pa.py_buffer(layout.schema.bytes))
        self._dictionaries: tuple[tuple[Message, ...], list[pa.Buffer]] = ((), [])
        self._last: tuple[int, tuple[str, ...], pa.RecordBatch] | None = None

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``, text that is not UTF-8.
            ShardError: ``shard-corrupt``, ``shard-changed``, ``shard-rows-too-large``.
            ConfigError: ``column-missing``.
        """
        schema = self._projection(columns)
        if len(schema) == 0:
            return empty_columns(len(rows))
        if len(rows) == 0:
            return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
        pieces, doubtful = [], False
        for number, batch in self._decoded(rows, tuple(schema.names)):
            inside = self._inside(rows, number)
            low, high = int(inside[0]), int(inside[-1]) + 1
            piece = batch.slice(low, high - low)
            doubtful |= check_shape(self._shard, piece, self._place(number))
            if high - low != len(inside) or batch.nbytes >= _FAR:
                piece = _taken(piece, inside - low, schema)
            pieces.append(piece)
        if doubtful:
            check_rows(pieces, rows)
        return self._joined(pieces, schema, rows)

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """See :class:`zephon.abc.RangedShard`."""
        schema = self._projection(columns)
        if len(schema) == 0 or len(rows) == 0:
            return np.empty((0, 2), dtype=np.int64)
        numbers = self._numbers(rows)
        found = [self._needed(number, tuple(schema.names)) for number in numbers]
        held = {m.start: m for number in numbers for m in self._batches[number][1]}
        found += [np.array([[m.start, m.stop]]) for m in held.values()]
        joined = np.concatenate(found)
        return joined[np.argsort(joined[:, 0], kind="stable")].astype(np.int64)

    def close(self) -> None:
        """See :meth:`zephon.abc.ShardReader.close`."""
        self._bytes.close()
        self._last = None
        self._dictionaries = ((), [])

    def _projection(self, columns: Sequence[str] | None) -> pa.Schema:
        fields = []
        for name in self._schema.names if columns is None else columns:
            position = self._schema.get_field_index(name)
            if position < 0:
                raise ConfigError(
                    f"{self._shard.name} has no field {name!r}",
                    found=f"its fields are {self._schema.names}",
                    fix="ask for fields of the shard's schema only",
                    code="column-missing",
                )
            fields.append(self._schema.field(position))
        return pa.schema(fields)

    def _numbers(self, rows: npt.NDArray[np.int64]) -> list[int]:
        """The record batches these rows are in."""
        found: list[int] = np.unique(np.searchsorted(self._bounds, rows, side="right") - 1).tolist()
        return found

    def _inside(self, rows: npt.NDArray[np.int64], number: int) -> npt.NDArray[np.int64]:
        """Those of the rows that are in one record batch, by their place in it."""
        first, last = np.searchsorted(rows, self._bounds[number : number + 2])
        inside: npt.NDArray[np.int64] = rows[first:last] - self._bounds[number]
        return inside

    def _place(self, number: int) -> str:
        first, last = self._bounds[number : number + 2]
        return f"record batch {number} at byte {self._batches[number][0].start}, rows {first} to {last - 1}"

    def _needed(self, number: int, names: tuple[str, ...]) -> npt.NDArray[np.int64]:
        return needed(self._batches[number][0], buffers_of(self._stored, names))

    def _spans(self, number: int, names: tuple[str, ...]) -> list[tuple[int, int]]:
        """What to fetch of a record batch; all of it where that costs nothing."""
        if self._bytes.is_mapped:
            message = self._batches[number][0]
            return [(message.start, message.stop)]
        return [(int(start), int(stop)) for start, stop in self._needed(number, names)]

    def _decoded(self, rows: npt.NDArray[np.int64], names: tuple[str, ...]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The record batches these rows are in, in order, with the columns of these names."""
        numbers = self._numbers(rows)
        if self._last is not None and self._last[:2] == (numbers[0], names):
            if self._bytes.is_mapped:
                self._bytes.read([])  # has the file changed?
            yield numbers[0], self._last[2]
            numbers = numbers[1:]
        while numbers:
            spans = {number: self._spans(number, names) for number in numbers}
            sizes = np.cumsum([sum(b - a for a, b in span) for span in spans.values()])
            count = max(1, int(np.searchsorted(sizes, _TOGETHER, side="right")))
            together, numbers = numbers[:count], numbers[count:]
            fetched = iter(self._bytes.read([span for number in together for span in spans[number]]))
            for number in together:
                message, dictionaries = self._batches[number]
                parts = assemble(message, spans[number], [next(fetched) for _ in spans[number]])
                check_head(self._shard, message, parts[0])
                before = [pa.py_buffer(self._layout.schema.bytes), *self._dictionary_parts(dictionaries)]
                batch = decode(self._shard, self._place(number), [*before, *parts], self._stored, names)
                if batch.num_rows != message.rows:
                    raise corrupt(self._shard, f"{self._place(number)}: {batch.num_rows} rows")
                self._last = (number, names, batch)
                yield number, batch

    def _dictionary_parts(self, messages: tuple[Message, ...]) -> list[pa.Buffer]:
        """The dictionaries that a record batch needs, kept for the next one that needs the same."""
        if messages != self._dictionaries[0]:
            parts = []
            for message, whole in zip(messages, self._bytes.read([(m.start, m.stop) for m in messages]), strict=True):
                parts += [whole.slice(0, message.head), whole.slice(message.head)]
                check_head(self._shard, message, parts[-2])
            self._dictionaries = (messages, parts)
        return self._dictionaries[1]

    def _joined(self, pieces: list[pa.RecordBatch], schema: pa.Schema, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        try:
            batches = [conform(piece, schema) for piece in pieces]
            if len(batches) == 1:
                return batches[0]
            return concat_batches(batches)
        except (DataError, ValueError, pa.ArrowException) as error:
            for i, field in enumerate(schema):
                size = sum(piece.column(i).nbytes for piece in pieces)
                if size > MAX_COLUMN_BYTES:
                    raise ShardError(
                        f"{self._shard.name}: {len(rows)} rows are too large to be read at once",
                        found=f"field {field.name!r} of rows {rows[0]} to {rows[-1]} takes {size} bytes; a block's "
                        f"column may take {MAX_COLUMN_BYTES}",
                        fix="read fewer rows at a time, or leave the field out with columns=",
                        code="shard-rows-too-large",
                    ) from error
            raise corrupt(self._shard, f"rows {rows[0]} to {rows[-1]}: {error}") from error


def _taken(batch: pa.RecordBatch, places: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a batch, as stored where Arrow can take such rows, else in canonical types."""
    try:
        return take_batch(batch, places)
    except pa.ArrowNotImplementedError:
        return take_batch(conform(batch, schema), places)
