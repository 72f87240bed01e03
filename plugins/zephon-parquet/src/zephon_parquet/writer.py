"""Writing one shard."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

#: A row group ends at whichever comes first. It is the unit of decoding: what a reader holds to deliver one row.
GROUP_ROWS: Final = 8192
GROUP_BYTES: Final = 32 << 20


def write_shard(path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """Write a local Parquet file, zstd-compressed, with page checksums; it appears under its name when it is whole."""
    directory = os.path.dirname(path) or "."
    temporary = os.path.join(directory, f".zephon-{secrets.token_hex(8)}.tmp")
    try:
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for group in _groups(batches, schema):
                writer.write_table(group, row_group_size=group.num_rows)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for piece in _pieces(batch):
            if pending and (rows + piece.num_rows > GROUP_ROWS or size + piece.nbytes > GROUP_BYTES):
                yield pa.Table.from_batches(pending, schema)
                pending, rows, size = [], 0, 0
            pending.append(piece)
            rows += piece.num_rows
            size += piece.nbytes
    if rows:
        yield pa.Table.from_batches(pending, schema)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of about a sixteenth of a row group."""
    step = max(1, min(GROUP_ROWS // 16, batch.num_rows * (GROUP_BYTES // 16) // max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)
