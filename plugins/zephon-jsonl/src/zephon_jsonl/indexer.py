"""Indexing: one pass over the content finds rows, their schema, and the rows that need care."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from zephon.abc import Shard, ShardContext, ShardIndex
from zephon.errors import ShardError
from zephon_jsonl import fast, strict
from zephon_jsonl.content import StoredFile, compression_of, decompress, stranger
from zephon_jsonl.layout import Layout
from zephon_jsonl.lines import BOM, Chunk, chunks
from zephon_jsonl.schema import SchemaBuilder, count_leaves

#: Rows the block parser refused are shown to it again in this many parts, ...
_PARTS: Final = 16
#: ... until so few are left that they are looked at one by one.
_FEW: Final = 32
#: So many different keys are normal even where rows are few.
_FEW_FIELDS: Final = 256
#: Values, nulls included, of one inferred batch. Rows that all have keys of their own would make it explode.
_MAX_VALUES: Final = 1 << 22
#: Content between two restarts worth noting.
_RESTART_BYTES: Final = 1 << 20


def index_shard(shard: Shard, context: ShardContext) -> ShardIndex:
    """Read a shard once, in constant memory but for eight bytes a row and the longest line.

    Raises:
        ShardError: ``shard-truncated``, ``shard-corrupt``, ``not-jsonl``, ``too-many-fields``, ``shard-changed``.
    """
    return _Indexing(shard, context).run()


class _Indexing:
    def __init__(self, shard: Shard, context: ShardContext) -> None:
        self._shard = shard
        self._file = StoredFile(shard, context, context.size(shard.url))
        self._schema = SchemaBuilder(shard.name)
        self._bad: list[tuple[int, int, str]] = []
        self._awkward: list[int] = []
        self._restarts: list[tuple[int, int]] = []
        self._compression = ""
        self._content_bytes = 0
        #: Rows to infer together: few at first, many when they turn out to have few fields.
        self._together = 256

    def run(self) -> ShardIndex:
        rows = 0
        offsets = []
        for chunk in chunks(self._pieces()):
            offsets.append(chunk.base + chunk.starts)
            self._examine_all(chunk, rows)
            rows += len(chunk)
        ends = np.concatenate([*offsets, [self._content_bytes]]).astype(np.int64)
        layout = Layout(
            compression=self._compression,
            size=self._file.size,
            offsets=ends,
            # A row with a gigabyte of blank lines behind it is cut out of them before it is parsed.
            awkward=np.union1d(self._awkward, np.flatnonzero(np.diff(ends) > strict.MAX_LINE)).astype(np.int64),
            restart_stored=np.array([stored for stored, _ in self._restarts], dtype=np.int64),
            restart_content=np.array([content for _, content in self._restarts], dtype=np.int64),
        )
        return ShardIndex(
            rows=rows,
            units=layout.units(),
            schema=self._schema.finish(),
            blob=layout.to_blob(),
            bad_rows=tuple(self._bad),
        )

    def _pieces(self) -> Iterator[pa.Buffer]:
        """The content; notes on the way where decompression can begin."""
        stored = self._file.chunks()
        first = next(stored, None)
        if first is None:
            return
        head = first[:16].to_pybytes()
        if what := stranger(head):
            raise ShardError(
                f"{self._shard.name} does not hold JSON Lines",
                found=f"{what}; expected lines of UTF-8 text, plain or in gzip or zstd",
                fix='convert it, or leave it out: Dataset.from_path(name, "DIRECTORY/*.jsonl")',
                code="not-jsonl",
            )
        self._compression = compression_of(head)
        if not self._compression:
            self._content_bytes = self._file.size
            yield from chain([first], stored)
            return
        for member, content in decompress(self._file, self._compression, chain([first], stored), 0):
            if not self._restarts or (
                member != self._restarts[-1][0] and self._content_bytes - self._restarts[-1][1] >= _RESTART_BYTES
            ):
                self._restarts.append((member, self._content_bytes))
            self._content_bytes += len(content)
            yield pa.py_buffer(content)

    def _examine_all(self, chunk: Chunk, before: int) -> None:
        """Take a chunk into the index; its first row is the shard's row ``before``."""
        singles: list[int] = []
        start = 0
        while start < len(chunk):
            stop = min(start + self._together, len(chunk))
            met = len(singles)
            fields = self._examine(chunk, start, stop, before, singles)
            if (len(singles) - met) * 2 > stop - start or fields > max(stop - start, _FEW_FIELDS):
                # Most rows had to be looked at one by one, or their keys differ so much that columns make no sense.
                self._examine_each(chunk, stop, len(chunk), before, singles)
                break
            start = stop
        self._find_awkward(chunk, singles, before)

    def _examine(self, chunk: Chunk, start: int, stop: int, before: int, singles: list[int]) -> int:
        """Rows ``start:stop`` of a chunk, together if the block parser can, else in parts.

        Returns:
            The number of fields, where they were taken together.
        """
        if not chunk.suspect[start:stop].any():
            batch = fast.infer(chunk.lines(start, stop), stop - start)
            if batch is not None:
                self._schema.add_batch(batch, before + start)
                fields = count_leaves(batch.schema)
                self._together = min(self._together * 4, max(1, _MAX_VALUES // max(1, fields)))
                return fields
        if stop - start <= _FEW:
            self._examine_each(chunk, start, stop, before, singles)
        else:
            step = -(-(stop - start) // _PARTS)
            for part in range(start, stop, step):
                self._examine(chunk, part, min(part + step, stop), before, singles)
        return 0

    def _examine_each(self, chunk: Chunk, start: int, stop: int, before: int, singles: list[int]) -> None:
        """Rows one by one, in Python: each may be bad or odd in its own way. ``singles`` gets the others."""
        for row in range(start, stop):
            try:
                parsed = strict.parse(chunk.line(row))
            except strict.BadLineError as error:
                at = int(chunk.starts[row])
                marked = chunk.data[at : at + len(BOM)].to_pybytes() == BOM
                reason = "a byte order mark within the file" if marked else str(error)
                self._bad.append((before + row, chunk.base + at, reason))
                continue
            self._schema.add_row(parsed.value, before + row)
            if parsed.duplicates:
                self._awkward.append(before + row)
            else:
                singles.append(row)

    def _find_awkward(self, chunk: Chunk, rows: list[int], before: int) -> None:
        """Which of these valid rows the block parser refuses, whatever their fields."""
        text = b"\n".join(chunk.line(row) for row in rows)
        if not rows or fast.is_readable(pa.py_buffer(text), len(rows)):
            return
        if len(rows) == 1:
            self._awkward.append(before + rows[0])
            return
        step = -(-len(rows) // _PARTS)
        for start in range(0, len(rows), step):
            self._find_awkward(chunk, rows[start : start + step], before)
