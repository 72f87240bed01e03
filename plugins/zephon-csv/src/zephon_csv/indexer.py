"""Indexing: one pass over the content finds rows, bad rows, and the types of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext, ShardIndex
from zephon.block import canonical_schema
from zephon.errors import DataError, ShardError
from zephon_csv.content import Content
from zephon_csv.errors import missing
from zephon_csv.layout import Layout
from zephon_csv.parse import Parser, Types
from zephon_csv.records import Dialect, Records, records

if TYPE_CHECKING:
    from zephon_csv.table import CsvFormat

#: A record of more bytes is a quote that was never closed, or no row to train on; Arrow's parser takes 2 GiB.
_LONGEST: Final = 1 << 30
#: Text parsed in one go, with one more record.
_TOGETHER: Final = 1 << 28


def index_lines(shard: Shard, context: ShardContext, encoding: str) -> ShardIndex:
    """Index a text file of which every line is a row, blank ones too."""
    content = Content(shard, context, encoding)
    is_whole = content.examine()
    edges: list[npt.NDArray[np.int64]] = []
    bad: list[tuple[int, int, str]] = []
    rows = end = 0
    for part in records(content.chunks(), Dialect(delimiter=b"", quote=b""), content.begin()):
        edges.append(part.base + part.edges[:-1])
        end = part.base + int(part.edges[-1])
        bad += [(rows + i, part.base + int(part.edges[i]), reason) for i, reason in _undecodable(part)]
        rows += len(part.fields)
    layout = Layout(is_whole=is_whole, names=["text"], edges=np.concatenate([*edges, [end]]).astype(np.int64))
    schema = pa.schema([("text", pa.string())])
    return ShardIndex(rows=rows, units=layout.units(), schema=schema, blob=layout.to_blob(), bad_rows=tuple(bad))


def index_table(fmt: CsvFormat, shard: Shard, context: ShardContext) -> ShardIndex:
    """Index a CSV file; see :meth:`zephon_csv.table.CsvFormat.index`."""
    content = Content(shard, context, fmt.encoding)
    is_whole = content.examine()
    indexing = _Table(fmt, shard)
    for part in records(content.chunks(), fmt.dialect(shard), content.begin()):
        indexing.add(part)
    return indexing.finish(is_whole)


def _undecodable(part: Records) -> list[tuple[int, str]]:
    """Records that are not UTF-8; looked at one by one only where there are any."""
    try:
        part.data[: int(part.edges[-1])].decode()
    except UnicodeDecodeError:
        pass
    else:
        return []
    found = []
    edges = part.edges.tolist()
    for i in range(len(part.fields)):
        try:
            part.data[edges[i] : edges[i + 1]].decode()
        except UnicodeDecodeError as error:
            found.append((i, f"text that is not UTF-8: {error.reason} at byte {error.start} of the row"))
    return found


@attrs.define(slots=True, eq=False)
class _Table:
    fmt: CsvFormat
    shard: Shard
    rows: int = 0
    end: int = 0
    names: list[str] | None = None
    types: Types | None = None
    bad: list[tuple[int, int, str]] = attrs.field(factory=list)
    edges: list[npt.NDArray[np.int64]] = attrs.field(factory=list)

    def add(self, part: Records) -> None:
        """Take records into the index."""
        reasons = dict(_undecodable(part))
        kept = np.flatnonzero(self._is_row(part))
        if self.names is None and len(kept):
            first, last = part.edges[kept[0] : kept[0] + 2]
            if int(kept[0]) in reasons:
                raise self._no_text(part.base + int(first), reasons[int(kept[0])])
            self._begin(self.fmt.fields(part.data[first:last], self.fmt.dialect(self.shard)))
            kept = kept[1:] if self.fmt.header else kept
        self.end = max(self.end, part.base + int(part.edges[-1]))
        if self.names is None or self.types is None or not len(kept):
            return
        width = len(self.names)
        lengths = part.edges[kept + 1] - part.edges[kept]
        wrong = np.flatnonzero((part.fields[kept] != width) | (lengths > _LONGEST))
        for place in kept[wrong].tolist():
            reasons.setdefault(place, f"{part.fields[place]} fields; expected {width}")
        if part.is_open:
            reasons[len(part.fields) - 1] = "a quote that is never closed"
        for number, place in enumerate(kept.tolist() if reasons else ()):
            if place in reasons:
                self.bad.append((self.rows + number, part.base + int(part.edges[place]), reasons[place]))
        good = kept[~np.isin(kept, list(reasons))] if reasons else kept
        self._infer(part, good)
        self.edges.append(part.base + part.edges[kept])
        self.rows += len(kept)

    def finish(self, is_whole: bool) -> ShardIndex:
        """The index."""
        if self.names is None:
            self._begin(list(self.fmt.column_names))
        names, types = self.names or [], self.types.finish() if self.types is not None else {}
        try:
            schema = canonical_schema(pa.schema([(name, types[name]) for name in names]))
        except DataError as error:
            raise ShardError(
                f"{self.shard.name}: {error.what}", found=error.found, fix=error.fix, code=error.code
            ) from error
        layout = Layout(
            is_whole=is_whole, names=names, edges=np.concatenate([*self.edges, [self.end]]).astype(np.int64)
        )
        return ShardIndex(
            rows=self.rows, units=layout.units(), schema=schema, blob=layout.to_blob(), bad_rows=tuple(self.bad)
        )

    def _begin(self, first: Sequence[str]) -> None:
        names = list(first) if self.fmt.header else [f"f{i}" for i in range(len(first))]
        if self.fmt.column_names:
            if first and len(self.fmt.column_names) != len(first):
                raise missing(self.shard, f"{len(first)} columns", list(self.fmt.column_names))
            names = list(self.fmt.column_names)
        for name in self.fmt.column_types:
            if names and name not in names:
                raise missing(self.shard, name, names)
        given = {name: pa.type_for_alias(alias) for name, alias in self.fmt.column_types.items() if name in names}
        dialect = self.fmt.dialect(self.shard)
        self.names = names
        self.types = Types(Parser(dialect=dialect, names=names, null_values=self.fmt.null_values), given)

    def _is_row(self, part: Records) -> npt.NDArray[np.bool_]:
        """Whether a record is more than a line end."""
        view = np.frombuffer(part.data + b"\n", dtype=np.uint8)
        starts, lengths = part.edges[:-1], np.diff(part.edges)
        is_end = np.isin(view[starts], (10, 13))
        blank: npt.NDArray[np.bool_] = is_end & (lengths <= 2)
        return ~blank

    def _infer(self, part: Records, good: npt.NDArray[np.int64]) -> None:
        """Show sound records to the types, not too many at once: Arrow's parser takes 2 GiB."""
        if not len(good) or self.types is None:
            return
        total = np.cumsum(part.edges[good + 1] - part.edges[good])
        for some in np.split(good, np.flatnonzero(np.diff(total // _TOGETHER)) + 1):
            if some[-1] - some[0] + 1 == len(some):
                text = pa.py_buffer(part.data)[int(part.edges[some[0]]) : int(part.edges[some[-1] + 1])]
            else:
                edges = part.edges.tolist()
                text = pa.py_buffer(b"".join(part.data[edges[i] : edges[i + 1]] for i in some.tolist()))
            try:
                self.types.add(text)
            except pa.ArrowInvalid as error:
                raise self._no_text(part.base + int(part.edges[some[0]]), str(error)) from error

    def _no_text(self, place: int, found: str) -> ShardError:
        return ShardError(
            f"{self.shard.name} cannot be read as CSV",
            found=f"at byte {place} of its content: {found}",
            fix="say how it is written: format_options={'encoding': ..., 'delimiter': ..., 'quote': ...}",
            code="shard-corrupt",
        )
