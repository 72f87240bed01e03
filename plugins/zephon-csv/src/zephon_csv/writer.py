"""Writing one shard."""

from __future__ import annotations

import csv
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

import pyarrow as pa

from zephon.errors import DataError


def write_table(path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, delimiter: str, header: bool) -> None:
    """Write one record a row, not compressed, text in quotes; the file appears under its name when it is whole.

    Raises:
        DataError: ``not-csv`` for columns that are neither text nor numbers nor booleans.
    """
    for field in schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            raise _not_csv(f"field {field.name!r} of type {field.type}", "text, numbers and booleans")
    with _appearing(path) as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        if header:
            writer.writerow(schema.names)
        for batch in batches:
            # Row by row: Arrow's writer quotes no header, and writing shards is no part of training.
            writer.writerows(zip(*(column.to_pylist() for column in batch.cast(schema).columns), strict=True))


def write_lines(path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """Write the texts of a single column, a line each; the file appears under its name when it is whole.

    Raises:
        DataError: ``not-csv`` for other columns, for null, and for text that has line ends.
    """
    if len(schema) != 1 or not (pa.types.is_string(schema.types[0]) or pa.types.is_large_string(schema.types[0])):
        raise _not_csv(f"fields {schema.names}", "a single field of text")
    with _appearing(path) as file:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                if text is None or "\n" in text or "\r" in text:
                    raise _not_csv(repr(text)[:80], "text without line ends")
                file.write(text + "\n")


def _not_csv(found: str, expected: str) -> DataError:
    return DataError(
        "a row cannot be written as text",
        found=f"{found}; expected {expected}",
        fix="choose another format, e.g. jsonl or parquet",
        code="not-csv",
    )


@contextmanager
def _appearing(path: str) -> Iterator[IO[str]]:
    """A file that gets its name when it is whole, and does not stay otherwise."""
    temporary = os.path.join(os.path.dirname(path) or ".", f".zephon-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
