"""Parquet files as shards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs
import pyarrow as pa

from zephon.abc import FileHead, FileInfo, Shard, ShardContext, ShardFormat, ShardIndex
from zephon.block import canonical_schema
from zephon.errors import DataError, ShardError
from zephon_parquet.footer import ENCRYPTED_MAGIC, MAGIC, layout_of, read_footer
from zephon_parquet.plugin import parquet
from zephon_parquet.reader import ParquetReader
from zephon_parquet.writer import write_shard

#: Hive and others write files without a suffix, named like ``000000_0`` or ``part-00000``.
_NUMBERED: Final = re.compile(r"[^./]*[0-9][^./]*")


@attrs.frozen(slots=True)
class ParquetFormat(ShardFormat):
    """Parquet files, one shard each; a unit is a row group.

    Rows are those of the file: columns that directory names spell out (``lang=en/part-0.parquet``) are not added.
    """

    def recognise(self, head: FileHead) -> bool:
        """By the first four bytes; a file that is empty or damaged, by its suffix."""
        return head.head.startswith((MAGIC, ENCRYPTED_MAGIC)) or _has_suffix(head.info)

    def discover(self, files: Sequence[FileInfo]) -> Iterator[Shard]:
        """Every file with a Parquet suffix; where there is none, files without a suffix that have a number."""
        named = [file for file in files if _has_suffix(file)]
        for file in named or [file for file in files if _NUMBERED.fullmatch(file.url.rpartition("/")[2])]:
            yield Shard(url=file.url, name=file.name, file=file)

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """Read the footer.

        Raises:
            ShardError: ``shard-corrupt``, ``shard-encrypted``; ``shard-unsupported`` for types Arrow cannot hold;
                ``duplicate-field``.
        """
        layout, blob = read_footer(shard, context)
        try:
            schema = canonical_schema(layout.schema)
        except DataError as error:
            raise ShardError(
                f"{shard.name}: {error.what}", found=error.found, fix=error.fix, code=error.code
            ) from error
        return ShardIndex(rows=layout.rows, units=layout.bounds, schema=schema, blob=blob)

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> ParquetReader:
        """A reader; the footer comes from the index, unless it was too large to be kept there.

        Raises:
            ShardError: ``shard-changed``.
        """
        return ParquetReader(shard, index.schema, layout_of(shard, index.blob, context), context)

    def write(self, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Write one shard: zstd, page checksums, row groups of at most 8192 rows and about 32 MiB."""
        write_shard(path, batches, schema)


def _has_suffix(file: FileInfo) -> bool:
    path = file.url.partition("::")[0]
    if path.startswith(("http://", "https://")):
        path = path.partition("?")[0]
    return path.lower().endswith(parquet.suffixes)
