"""Reading rows of an indexed shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext, ShardIndex, ShardReader
from zephon.block import MAX_COLUMN_BYTES, META_CONFLICT, concat_batches, empty_columns
from zephon.errors import BadRow, BadRowsError, ConfigError, ShardError
from zephon_jsonl import fast, strict
from zephon_jsonl.content import changed, open_content
from zephon_jsonl.layout import Layout

#: Text parsed in one go; with one more line it stays below the 2 GiB Arrow's parser takes.
_PARSE_BYTES: Final = 1 << 28


class JsonlReader(ShardReader):
    """Reads rows of one shard: their bytes by offset, then only the fields asked for.

    Which rows are bad was decided when the shard was indexed, line by line: it depends neither on the columns nor on
    the other rows of a call. All other rows go through Arrow's block parser with the index's types; the few it
    stumbles over are written anew first.
    """

    def __init__(self, shard: Shard, index: ShardIndex, context: ShardContext) -> None:
        if index.blob is None:
            raise changed(shard, "an index without line offsets")
        self._shard = shard
        self._schema: pa.Schema = index.schema
        self._layout = Layout.from_blob(index.blob)
        self._content = open_content(shard, self._layout, context)
        self._bad_rows = np.array([row for row, _, _ in index.bad_rows], dtype=np.int64)
        self._bad = index.bad_rows

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``.
            ShardError: ``field-conflict`` for a column whose values are of no one type; ``shard-changed``,
                ``shard-corrupt``, ``shard-truncated``, ``shard-rows-too-large``.
            ConfigError: ``column-missing``.
        """
        schema = self._projection(columns)
        self._refuse_bad(rows)
        if len(schema) == 0:
            return empty_columns(len(rows))
        if len(rows) == 0:
            return pa.RecordBatch.from_pylist([], schema=schema)
        batches = []
        for part in self._parts(rows):
            batch = fast.parse(self._text(part), len(part), schema)
            if batch is None:
                raise changed(self._shard, f"rows {part[0]} to {part[-1]} do not parse as they did")
            batches.append(batch)
        for i, field in enumerate(schema):
            size = sum(batch.column(i).nbytes for batch in batches)
            if size > MAX_COLUMN_BYTES:
                raise ShardError(
                    f"{self._shard.name}: {len(rows)} rows are too large to be read at once",
                    found=f"field {field.name!r} of rows {rows[0]} to {rows[-1]} takes {size} bytes; a block's column "
                    f"may take {MAX_COLUMN_BYTES}",
                    fix="read fewer rows at a time, or leave the field out with columns=",
                    code="shard-rows-too-large",
                )
        return concat_batches(batches)

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """See :class:`zephon.abc.RangedShard`. JSON has no columns: they make no difference."""
        if len(rows) == 0:
            return np.empty((0, 2), dtype=np.int64)
        found = self._content.stored_ranges(self._spans(rows)[1])
        fresh = np.append(True, found[1:, 0] > np.maximum.accumulate(found[:-1, 1]))
        starts = np.flatnonzero(fresh)
        return np.stack([found[starts, 0], np.maximum.reduceat(found[:, 1], starts)], axis=1)

    def close(self) -> None:
        """See :meth:`zephon.abc.ShardReader.close`."""
        self._content.close()

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
        for field in fields:
            why = (field.metadata or {}).get(META_CONFLICT)
            if why is not None:
                readable = [f.name for f in self._schema if META_CONFLICT not in (f.metadata or {})]
                raise ShardError(
                    f"{self._shard.name}: field {field.name!r} cannot be read",
                    found=f"{why.decode()}; a column has one type",
                    fix=f"leave it out: Dataset.from_path(..., columns={readable}), or give it one type in the files",
                    code="field-conflict",
                )
        return pa.schema(fields)

    def _refuse_bad(self, rows: npt.NDArray[np.int64]) -> None:
        met = np.flatnonzero(np.isin(self._bad_rows, rows)) if len(self._bad_rows) else ()
        bad = [BadRow(row, reason, offset) for row, offset, reason in (self._bad[i] for i in met)]
        if bad:
            raise BadRowsError(bad, what=f"{self._shard.name}: row {bad[0].row} cannot be read")

    def _parts(self, rows: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        offsets = self._layout.offsets
        total = np.cumsum(offsets[rows + 1] - offsets[rows])
        yield from np.split(rows, np.flatnonzero(np.diff(total // _PARSE_BYTES)) + 1)

    def _spans(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows to fetch together: where each group begins in ``rows``, and int64 ``[n, 2]`` ranges of the content."""
        offsets = self._layout.offsets
        starts, stops = offsets[rows], offsets[rows + 1]
        groups = np.append(0, np.flatnonzero(starts[1:] - stops[:-1] > self._content.gap) + 1)
        return groups, np.stack([starts[groups], stops[np.append(groups[1:], len(rows)) - 1]], axis=1)

    def _text(self, rows: npt.NDArray[np.int64]) -> pa.Buffer:
        """The rows' lines, one after the other, in a form the block parser takes."""
        groups, spans = self._spans(rows)
        fetched = self._content.fetch([(start, stop) for start, stop in spans.tolist()])
        # Where each row lies in what was fetched.
        lengths = spans[:, 1] - spans[:, 0]
        shifts = np.repeat(np.cumsum(lengths) - spans[:, 1], np.diff(np.append(groups, len(rows))))
        edges = np.stack([self._layout.offsets[rows] + shifts, self._layout.offsets[rows + 1] + shifts], axis=1)
        size = int((edges[:, 1] - edges[:, 0]).sum())
        awkward = np.flatnonzero(np.isin(rows, self._layout.awkward)) if len(self._layout.awkward) else ()
        if size == fetched.size and len(awkward) == 0:
            return fetched
        # Every other entry of (start, stop, start, stop, ...) is a line; those between are gaps.
        pieces = pa.Array.from_buffers(pa.large_binary(), 2 * len(rows) - 1, [None, pa.py_buffer(edges), fetched])
        lines = pieces.take(pa.array(np.arange(0, 2 * len(rows), 2)))
        if len(awkward) == 0:
            return lines.buffers()[2][:size]
        texts = lines.to_pylist()
        for i in awkward:
            try:
                texts[i] = strict.normalise(texts[i].strip(b" \t\r\n"))
            except strict.BadLineError as error:
                raise changed(self._shard, f"row {rows[i]}: {error}") from error
        return pa.py_buffer(b"".join(texts))
