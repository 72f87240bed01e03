"""Reading rows of an indexed chunk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext, ShardReader
from zephon.block import MAX_COLUMN_BYTES, META_CONFLICT, canonical_type, empty_batch, empty_columns
from zephon.errors import BadRow, BadRowsError, ConfigError, ShardError
from zephon_litdata import arrays, leaves
from zephon_litdata.cells import BadValuesError, Cells, TooLargeError
from zephon_litdata.errors import changed
from zephon_litdata.layout import EACH, PLAIN, TABLE, Layout
from zephon_litdata.source import source_of
from zephon_litdata.table import read_table, take
from zephon_litdata.tree import Node, columns_of

_UNEVEN = "the sizes of its leaves do not add up to the item's"


class LitDataReader(ShardReader):
    """Reads rows of one chunk."""

    def __init__(self, shard: Shard, schema: pa.Schema, layout: Layout, block_size: int, context: ShardContext) -> None:
        self._shard = shard
        self._schema = schema
        self._layout = layout
        self._context = context
        window = block_size * arrays.itemsize(schema.field(0).type) if block_size else 0
        self._source = source_of(shard, layout, window, context)
        self._table: pa.RecordBatch | None = None

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``.
            ShardError: ``field-conflict`` for a column that cannot be read; ``shard-changed``, ``shard-corrupt``,
                ``shard-rows-too-large``.
            ConfigError: ``column-missing``.
        """
        schema = self._projection(columns)
        if len(schema) == 0:
            return empty_columns(len(rows))
        if len(rows) == 0:
            return empty_batch(schema)
        if self._layout.kind == TABLE:
            if self._table is None:
                table = read_table(self._shard, self._layout, self._context)
                if not table.schema.equals(self._schema):
                    raise changed(self._shard, f"its Arrow table has the fields {table.schema.names}, or other types")
                self._table = table
            return take(self._table, rows, schema)
        return self._decode(rows, schema)

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """See :class:`zephon.abc.RangedShard`. The leaves of an item lie together: columns make no difference."""
        if len(rows) == 0:
            return np.empty((0, 2), dtype=np.int64)
        if self._layout.kind == TABLE:
            return np.array([self._layout.table_span()], dtype=np.int64)
        return self._source.ranges(rows)

    def close(self) -> None:
        """Let go of the content."""
        self._source.close()
        self._table = None

    def _decode(self, rows: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        entry = self._layout.entry
        data, starts, stops = self._source.fetch(rows)
        if entry.is_tokens:
            bounds, is_whole = np.stack([starts, stops], axis=1), np.ones(len(rows), dtype=np.bool_)
        else:
            bounds, is_whole = leaf_bounds(np.frombuffer(data, np.uint8), starts, stops, len(entry.formats))
        bad = dict.fromkeys(np.flatnonzero(~is_whole).tolist(), _UNEVEN)
        kept = np.flatnonzero(is_whole)
        by_name = {column.name: column for column in columns_of(entry.spec, len(entry.formats), entry.is_tokens)}
        columns = []
        for field in schema:
            node = by_name[field.name]
            types = self._leaf_types(node, field.type)
            decoded = {}
            for leaf in node.leaves():
                cells = Cells(data, bounds[kept, leaf], bounds[kept, leaf + 1])
                try:
                    decoded[leaf] = leaves.decode(entry.formats[leaf], types[leaf], cells)
                except BadValuesError as error:
                    for place, reason in error.reasons.items():
                        bad.setdefault(int(kept[place]), f"field {field.name!r}: {reason}")
                except TooLargeError as error:
                    raise self._too_large(field.name, len(rows)) from error
            if not bad:
                columns.append(node.array_of(decoded.__getitem__).cast(canonical_type(field.type)))
        if bad:
            self._refuse(rows, bad)
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _leaf_types(self, node: Node, kind: pa.DataType) -> dict[int, pa.DataType]:
        """The Arrow type of each leaf in a field of a type."""
        if node.leaf is not None:
            return {node.leaf: kind}
        found: dict[int, pa.DataType] = {}
        for child in node.children:
            found |= self._leaf_types(child, kind.field(child.name).type)
        return found

    def _projection(self, columns: Sequence[str] | None) -> pa.Schema:
        fields = []
        for name in self._schema.names if columns is None else columns:
            place = self._schema.get_field_index(name)
            if place < 0:
                raise ConfigError(
                    f"{self._shard.name} has no field {name!r}",
                    found=f"its fields are {self._schema.names}",
                    fix="ask for fields of the shard's schema only",
                    code="column-missing",
                )
            fields.append(self._schema.field(place))
        for field in fields:
            why = (field.metadata or {}).get(META_CONFLICT)
            if why is not None:
                readable = [f.name for f in self._schema if META_CONFLICT not in (f.metadata or {})]
                raise ShardError(
                    f"{self._shard.name}: field {field.name!r} cannot be read",
                    found=why.decode(),
                    fix=f"leave it out: Dataset.from_path(..., columns={readable})",
                    code="field-conflict",
                )
        return pa.schema(fields)

    def _refuse(self, rows: npt.NDArray[np.int64], bad: dict[int, str]) -> None:
        has_place = self._layout.kind in (PLAIN, EACH)
        found = [
            BadRow(int(rows[place]), bad[place], int(self._layout.offsets[rows[place]]) if has_place else -1)
            for place in sorted(bad)
        ]
        raise BadRowsError(found, what=f"{self._shard.name}: row {found[0].row} cannot be read")

    def _too_large(self, name: str, rows: int) -> ShardError:
        return ShardError(
            f"{rows} rows of {self._shard.name} are too large to be read at once",
            found=f"field {name!r} takes more than the {MAX_COLUMN_BYTES} bytes a column of a block may take",
            fix="read fewer rows at a time, or leave the field out with columns=",
            code="shard-rows-too-large",
        )


def leaf_bounds(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Where the leaves of items begin and end: an item begins with their sizes, 32 bits each.

    Args:
        data: bytes.
        starts: int64 ``[n]``, where items begin in them.
        stops: int64 ``[n]``, where they end.
        count: leaves of an item.

    Returns:
        int64 ``[n, count + 1]`` boundaries in ``data``, and bool ``[n]``: the items whose sizes add up.
    """
    fits = stops - starts >= 4 * count
    bounds = np.zeros((len(starts), count + 1), dtype=np.int64)
    bounds[:, 0] = starts + 4 * count
    if fits.any():
        places = starts[fits, None] + np.arange(4 * count)
        bounds[fits, 1:] = np.ascontiguousarray(data[places]).view("<u4")
    bounds = np.cumsum(bounds, axis=1)
    return bounds, fits & (bounds[:, -1] == stops)
