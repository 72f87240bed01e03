"""CSV and TSV as shards."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa

from zephon.abc import FileHead, FileInfo, Shard, ShardContext, ShardFormat, ShardIndex
from zephon_csv.content import decompressed_head, valid_encoding
from zephon_csv.files import base_name, has_suffix, shards_of
from zephon_csv.indexer import index_table
from zephon_csv.plugin import csv as descriptor
from zephon_csv.reader import TableReader
from zephon_csv.records import Dialect
from zephon_csv.writer import write_table

_TABS = (".tsv", ".tab")


def _one_byte(_: Any, attribute: Any, value: str) -> None:
    if value and (len(value.encode()) != 1 or value in "\r\n"):
        raise ValueError(f"{attribute.name}={value!r} is not one ASCII character")


def _types(_: Any, attribute: Any, value: Mapping[str, str]) -> None:
    for name, alias in value.items():
        try:
            pa.type_for_alias(alias)
        except ValueError:
            raise ValueError(
                f"{attribute.name}[{name!r}]={alias!r} is no Arrow type, e.g. int64, double, string"
            ) from None


@attrs.frozen(slots=True, kw_only=True)
class CsvFormat(ShardFormat):
    """CSV files, one shard each; a record is a row.

    Attributes:
        delimiter: one character between fields; "" for a tab in files called .tsv or .tab, and a comma in all others.
        quote: one character around fields, doubled inside them; "" where quotes are text like any other.
        header: whether the first record names the columns.
        column_names: names of the columns, instead of those in the header or, without one, f0, f1, ...
        column_types: types of columns by name, as Arrow calls them; those of others are found by looking at all rows.
        null_values: what stands for no value, in columns of any type; None for the usual spellings (nothing, NA, null,
            NaN, ...), in columns that are not text.
        encoding: of the text, as Python calls it.
    """

    delimiter: str = attrs.field(default="", validator=_one_byte)
    quote: str = attrs.field(default='"', validator=_one_byte)
    header: bool = True
    column_names: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    column_types: dict[str, str] = attrs.field(factory=dict, converter=dict, validator=_types, hash=False)
    null_values: tuple[str, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(tuple))
    encoding: str = attrs.field(default="utf-8", validator=valid_encoding)

    def recognise(self, head: FileHead) -> bool:
        """By the suffix, if the content may be text."""
        if not has_suffix(head.info, descriptor.suffixes):
            return False
        content = decompressed_head(head.head)
        return b"\0" not in content or content.startswith((b"\xff\xfe", b"\xfe\xff"))

    def discover(self, files: Sequence[FileInfo]) -> Iterable[Shard]:
        """Files with one of the suffixes, or a single file; names that begin with ``.`` or ``_`` are passed over."""
        return shards_of(files, descriptor.suffixes)

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """Read all of a shard once: where rows begin, which are bad, what type columns have.

        Raises:
            ShardError: ``shard-corrupt``, ``shard-truncated``, ``shard-changed``, ``duplicate-field``.
            ConfigError: ``column-missing`` for a name in ``column_types`` or a number of ``column_names`` that does not
                fit.
        """
        return index_table(self, shard, context)

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> TableReader:
        """A reader; nothing is read yet."""
        return TableReader(self.dialect(shard), self.null_values, self.encoding, shard, index, context)

    def write(self, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """See :func:`zephon_csv.writer.write_table`; the delimiter and the quotes are this format's."""
        tabs = path.lower().endswith(_TABS)
        write_table(path, batches, schema, self.delimiter or ("\t" if tabs else ","), self.header)

    def dialect(self, shard: Shard) -> Dialect:
        """What separates records and fields of a shard."""
        name = base_name(shard.file).lower()
        tabs = name.endswith(tuple(tab + packed for tab in _TABS for packed in ("", ".gz", ".zst", ".zstd")))
        return Dialect(delimiter=(self.delimiter or ("\t" if tabs else ",")).encode(), quote=self.quote.encode())

    def fields(self, record: bytes, dialect: Dialect) -> list[str]:
        """The fields of a record that is UTF-8."""
        text, delimiter = record.decode().rstrip("\r\n"), dialect.delimiter.decode()
        if not dialect.quote:
            return text.split(delimiter)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quotechar=dialect.quote.decode())
        return next(reader, [""])
