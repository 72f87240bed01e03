"""Writing one shard."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import pyarrow as pa

#: A record batch ends at whichever comes first. It is the unit of decoding.
BATCH_ROWS: Final = 4096
BATCH_BYTES: Final = 32 << 20


def write_shard(path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """Write a local IPC file that can be mapped: not compressed. It appears under its name when it is whole."""
    temporary = os.path.join(os.path.dirname(path) or ".", f".zephon-{secrets.token_hex(8)}.tmp")
    # Files hold one dictionary a field: batches with others of their own are said to extend or replace it.
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True, unify_dictionaries=True)
    try:
        with pa.ipc.new_file(temporary, schema, options=options) as writer:
            for batch in batches:
                step = max(1, min(BATCH_ROWS, batch.num_rows * BATCH_BYTES // max(batch.nbytes, 1)))
                writer.write_table(pa.Table.from_batches([batch], schema), max_chunksize=step)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
