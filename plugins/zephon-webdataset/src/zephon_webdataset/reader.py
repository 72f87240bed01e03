"""Reading rows of an indexed shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext, ShardIndex, ShardReader
from zephon.block import MAX_COLUMN_BYTES, META_CONFLICT, empty_batch, empty_columns
from zephon.errors import BadRow, BadRowsError, ConfigError, ShardError
from zephon_webdataset.content import open_content
from zephon_webdataset.decoding import decode, kind_of, refuse
from zephon_webdataset.failures import changed
from zephon_webdataset.layout import MISSING, Layout
from zephon_webdataset.names import KEY

#: Members with at most so many bytes between them are fetched together: more than two headers and padding.
_GAP: Final = 1 << 12


class Members:
    """Members of one shard by row and field, as columns of bytes."""

    def __init__(self, shard: Shard, layout: Layout, context: ShardContext) -> None:
        self._shard = shard
        self._layout = layout
        self._context = context
        self._content = open_content(shard, context, layout.size, layout.compression)
        self._is_checked = False

    def columns(self, rows: npt.NDArray[np.int64], fields: Sequence[int]) -> list[pa.Array]:
        """A binary column for each field, null where a row has no such member.

        Raises:
            ShardError: ``shard-changed``, ``shard-corrupt``, ``shard-truncated``, ``shard-rows-too-large``.
        """
        starts, sizes = self._places(rows, fields)
        for field, total in zip(fields, sizes.sum(axis=1).tolist(), strict=True):
            if total > MAX_COLUMN_BYTES:
                raise ShardError(
                    f"{self._shard.name}: {len(rows)} rows are too large to be read at once",
                    found=f"field {self._layout.names[field]!r} of rows {rows[0]} to {rows[-1]} takes {total} bytes; a "
                    f"block's column may take {MAX_COLUMN_BYTES}",
                    fix="read fewer rows at a time, or leave the field out with columns=",
                    code="shard-rows-too-large",
                )
        present = starts != MISSING
        count = int(present.sum())
        if not count:
            return [pa.nulls(len(rows), pa.binary()) for _ in fields]
        self._check()
        order = np.argsort(starts[present], kind="stable")
        firsts, lengths = starts[present][order], sizes[present][order]
        groups, spans = _together(firsts, firsts + lengths)
        wanted = spans[spans[:, 1] > spans[:, 0]]
        fetched = self._content.fetch([(start, stop) for start, stop in wanted.tolist()]) if len(wanted) else b""
        # Where each member lies in what was fetched.
        widths = spans[:, 1] - spans[:, 0]
        firsts = firsts + np.repeat(np.cumsum(widths) - spans[:, 1], np.diff(np.append(groups, count)))
        edges = np.stack([firsts, firsts + lengths], axis=1)
        # Every other entry of (start, stop, start, stop, ...) is a member; those between are gaps.
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(fetched)]
        pieces = pa.Array.from_buffers(pa.large_binary(), 2 * count - 1, buffers)
        places = np.empty(present.shape, dtype=np.int64)
        ranks = np.empty(count, dtype=np.int64)
        ranks[order] = np.arange(0, 2 * count, 2)
        places[present] = ranks
        return [pieces.take(pa.array(places[i], mask=~present[i])).cast(pa.binary()) for i in range(len(fields))]

    def ranges(self, rows: npt.NDArray[np.int64], fields: Sequence[int]) -> npt.NDArray[np.int64]:
        """int64 ``[n, 2]``, the stored bytes :meth:`columns` reads."""
        starts, sizes = self._places(rows, fields)
        present = starts != MISSING
        if not present.any():
            return np.empty((0, 2), dtype=np.int64)
        if self._layout.compression:
            return np.array([[0, self._layout.size]], dtype=np.int64)
        order = np.argsort(starts[present], kind="stable")
        firsts = starts[present][order]
        spans = _together(firsts, firsts + sizes[present][order])[1]
        return spans[spans[:, 1] > spans[:, 0]]

    def _places(
        self, rows: npt.NDArray[np.int64], fields: Sequence[int]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        chosen = np.ix_(np.array(fields, dtype=np.int64), rows)
        return self._layout.starts[chosen], self._layout.sizes[chosen]

    def _check(self) -> None:
        """Once, where it costs nothing: a file elsewhere that became shorter shows when it is read."""
        if not self._is_checked and self._context.local_path(self._shard.url) is not None:
            size = self._context.size(self._shard.url)
            if size != self._layout.size:
                raise changed(self._shard.name, f"{size} bytes, {self._layout.size} when it was indexed")
        self._is_checked = True


class WebDatasetReader(ShardReader):
    """Reads rows of one shard: the bytes of the members asked for, decoded where the format's options say so."""

    def __init__(self, shard: Shard, index: ShardIndex, context: ShardContext, decode: Sequence[str]) -> None:
        if index.blob is None:
            raise changed(shard.name, "an index without members")
        self._shard = shard
        self._schema: pa.Schema = index.schema
        self._bad = index.bad_rows
        self._decode = decode
        self._layout = Layout.from_blob(index.blob)
        self._members = Members(shard, self._layout, context)
        self._places = {name: place for place, name in enumerate(self._layout.names)}

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``: text that is not UTF-8, numbers that are none, malformed JSON.
            ShardError: ``field-conflict`` for JSON that has no one type; ``shard-changed``, ``shard-corrupt``,
                ``shard-truncated``, ``shard-rows-too-large``.
            ConfigError: ``column-missing``.
        """
        schema = self._projection(columns)
        asked = set(rows.tolist()) if self._bad else set()
        known = [BadRow(row, reason, offset) for row, offset, reason in self._bad if row in asked]
        if known:
            raise BadRowsError(known)
        if len(schema) == 0:
            return empty_columns(len(rows))
        if len(rows) == 0:
            return empty_batch(schema)
        names = [name for name in schema.names if name != KEY]
        found = dict(zip(names, self._members.columns(rows, [self._places[n] for n in names]), strict=True))
        bad: dict[int, str] = {}
        made = [
            self._layout.keys.take(pa.array(rows))
            if field.name == KEY
            else decode(found[field.name], kind_of(field.name, self._decode), field, bad)
            for field in schema
        ]
        refuse(bad, rows)
        return pa.RecordBatch.from_arrays(made, schema=schema)

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """See :class:`zephon.abc.RangedShard`."""
        names = self._layout.names if columns is None else [name for name in columns if name != KEY]
        return self._members.ranges(rows, [self._places[name] for name in names])

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
            field = self._schema.field(position)
            why = (field.metadata or {}).get(META_CONFLICT)
            if why is not None:
                raise ShardError(
                    f"{self._shard.name}: field {name!r} cannot be read",
                    found=f"{why.decode()}; a column has one type",
                    fix="leave the field out with columns=, or out of the format's option decode: it then stays bytes",
                    code="field-conflict",
                )
            fields.append(field)
        return pa.schema(fields)


def _together(
    starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ascending members to fetch together: where each group begins, and int64 ``[n, 2]`` ranges of the content."""
    groups = np.append(0, np.flatnonzero(starts[1:] - stops[:-1] > _GAP) + 1)
    return groups, np.stack([starts[groups], stops[np.append(groups[1:], len(starts)) - 1]], axis=1)
