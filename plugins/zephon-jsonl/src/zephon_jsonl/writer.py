"""Writing one shard."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
import zstandard

from zephon.errors import DataError

_GZIP_SUFFIX: Final = ".gz"
_ZSTD_SUFFIXES: Final = (".zst", ".zstd")


def write_shard(path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """Write one object a line, compressed as the suffix says; the file appears under its name when it is complete.

    Raises:
        DataError: ``not-json`` for values JSON has no form for: bytes, times, NaN and infinities.
    """
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with ExitStack() as stack:
            file = _compressing(stack.enter_context(open(partial, "wb")), path, stack)
            for batch in batches:
                # Row by row: Arrow has no JSON writer, and writing shards is no part of training.
                for row in batch.cast(schema).to_pylist():
                    file.write(_line(row))
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)


def _compressing(raw: IO[bytes], path: str, stack: ExitStack) -> IO[bytes]:
    if path.endswith(_GZIP_SUFFIX):
        # No time and no name in the header: equal rows give equal files.
        return stack.enter_context(io.BufferedWriter(gzip.GzipFile("", "wb", fileobj=raw, mtime=0)))
    if path.endswith(_ZSTD_SUFFIXES):
        return stack.enter_context(zstandard.ZstdCompressor().stream_writer(raw, closefd=False))
    return raw


def _line(row: dict[str, object]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise DataError(
            "a row cannot be written as JSON",
            found=str(error),
            fix="write numbers, text, lists and records, or choose another format, e.g. parquet",
            code="not-json",
        ) from error
