"""Chunks whose items are an Arrow table: nested rows, as LitData writes them since 0.2.7x."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext
from zephon.block import canonical_schema, conform
from zephon.errors import DataError
from zephon_litdata.errors import changed, corrupt
from zephon_litdata.layout import Layout

#: An Arrow IPC file begins with this, padded to eight bytes, and then as a stream does: with a message, the schema.
_FILE_MAGIC: Final = b"ARROW1"
_PADDED: Final = 8
#: Read at once from the beginning of a table; holds most schemas.
_FIRST_READ: Final = 1 << 16


def read_schema(shard: Shard, layout: Layout, context: ShardContext) -> pa.Schema:
    """The fields of a chunk's table, in canonical types, without reading its rows.

    Raises:
        ShardError: ``shard-corrupt``, ``shard-changed``.
    """
    start, stop = layout.table_span()
    head = _read(shard, layout, context, start, min(stop, start + _FIRST_READ))
    at = _PADDED if _is_file(head) else 0
    # A message is four bytes of 0xff, its length in four bytes, and itself.
    needed = at + 8 + int.from_bytes(head[at + 4 : at + 8].to_pybytes(), "little")
    if head.size < needed <= stop - start:
        head = _read(shard, layout, context, start, start + needed)
    try:
        return canonical_schema(pa.ipc.read_schema(head[at:]))
    except (OSError, ValueError, EOFError, pa.ArrowException, DataError) as error:
        raise corrupt(shard, f"the schema of its Arrow table cannot be read: {error}") from error


def read_table(shard: Shard, layout: Layout, context: ShardContext) -> pa.RecordBatch:
    """All rows of a chunk.

    Raises:
        ShardError: ``shard-corrupt``, ``shard-changed``.
    """
    content = _read(shard, layout, context, *layout.table_span())
    try:
        with pa.ipc.open_file(content) if _is_file(content) else pa.ipc.open_stream(content) as reader:
            table = reader.read_all()
        table.validate(full=True)
        schema = canonical_schema(table.schema)
        batches = table.combine_chunks().to_batches()
        batch = conform(batches[0], schema) if batches else pa.RecordBatch.from_pylist([], schema=schema)
    except (OSError, ValueError, pa.ArrowException, DataError) as error:
        raise corrupt(shard, f"its Arrow table cannot be read: {error}") from error
    if batch.num_rows != layout.entry.items:
        raise corrupt(shard, f"its Arrow table has {batch.num_rows} rows, index.json says {layout.entry.items}")
    return batch


def take(batch: pa.RecordBatch, rows: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
    """Some rows and fields."""
    return batch.select(schema.names).take(pa.array(rows))


def _is_file(content: pa.Buffer) -> bool:
    return bool(content[: len(_FILE_MAGIC)].to_pybytes() == _FILE_MAGIC)


def _read(shard: Shard, layout: Layout, context: ShardContext, start: int, stop: int) -> pa.Buffer:
    try:
        return context.read_ranges(shard.url, [(start, stop)])[0]
    except EOFError as error:
        raise changed(shard, f"it has fewer than the {layout.size} bytes it had") from error
