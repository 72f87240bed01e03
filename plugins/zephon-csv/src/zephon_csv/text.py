"""Plain text as shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import FileHead, FileInfo, Shard, ShardContext, ShardFormat, ShardIndex, ShardReader
from zephon.block import MAX_COLUMN_BYTES, empty_columns
from zephon.errors import BadRow, BadRowsError
from zephon_csv.content import BOM, Content, decompressed_head, valid_encoding
from zephon_csv.errors import changed, missing, too_large
from zephon_csv.files import has_suffix, shards_of
from zephon_csv.indexer import index_lines
from zephon_csv.reader import LineReader
from zephon_csv.writer import write_lines

_SUFFIXES = tuple(name + packed for name in (".txt", ".text") for packed in ("", ".gz", ".zst", ".zstd"))
_FILE_SCHEMA = pa.schema([("text", pa.string()), ("name", pa.string())])


@attrs.frozen(slots=True, kw_only=True)
class TextFormat(ShardFormat):
    """Text files, one shard each.

    Attributes:
        row: "line", every line is a row, blank ones too, with the field ``text``; or "file", every file is one, with
            the fields ``text`` and ``name``.
        encoding: of the text, as Python calls it.
    """

    row: str = attrs.field(default="line", validator=attrs.validators.in_(("line", "file")))
    encoding: str = attrs.field(default="utf-8", validator=valid_encoding)

    def recognise(self, head: FileHead) -> bool:
        """By the suffix, if the content may be text."""
        content = decompressed_head(head.head)
        return has_suffix(head.info, _SUFFIXES) and (b"\0" not in content or content[:2] in (b"\xff\xfe", b"\xfe\xff"))

    def discover(self, files: Sequence[FileInfo]) -> Iterable[Shard]:
        """Files called .txt or .text, or a single file; names that begin with ``.`` or ``_`` are passed over."""
        return shards_of(files, _SUFFIXES)

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """Find the lines; of files that are one row each, nothing is read.

        Raises:
            ShardError: ``shard-corrupt``, ``shard-truncated``, ``shard-changed``.
        """
        if self.row == "file":
            return ShardIndex(rows=1, schema=_FILE_SCHEMA)
        return index_lines(shard, context, self.encoding)

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> ShardReader:
        """A reader; nothing is read yet."""
        if self.row == "file":
            return FileReader(self.encoding, shard, context)
        return LineReader(self.encoding, shard, index, context)

    def write(self, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """See :func:`zephon_csv.writer.write_lines`."""
        write_lines(path, batches, schema)


class FileReader(ShardReader):
    """Reads a file as one row."""

    def __init__(self, encoding: str, shard: Shard, context: ShardContext) -> None:
        self._shard = shard
        self._context = context
        self._encoding = encoding

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``, text that is not UTF-8.
            ShardError: ``shard-changed``, ``shard-corrupt``, ``shard-truncated``, ``shard-rows-too-large``.
            ConfigError: ``column-missing``.
        """
        names = list(_FILE_SCHEMA.names if columns is None else columns)
        for name in names:
            if name not in _FILE_SCHEMA.names:
                raise missing(self._shard, name, _FILE_SCHEMA.names)
        if not names:
            return empty_columns(len(rows))
        row = {"name": self._shard.name}
        if len(rows) and "text" in names:
            row["text"] = self._text()
        return pa.RecordBatch.from_pylist([row] * len(rows), schema=pa.schema([_FILE_SCHEMA.field(n) for n in names]))

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """See :class:`zephon.abc.RangedShard`."""
        wanted = len(rows) and (columns is None or "text" in columns)
        return np.array([[0, self._shard.file.size]] if wanted else [], dtype=np.int64).reshape(-1, 2)

    def _text(self) -> str:
        if self._context.size(self._shard.url) != self._shard.file.size:
            raise changed(self._shard, f"it had {self._shard.file.size} bytes")
        data = Content(self._shard, self._context, self._encoding).load()
        if len(data) > MAX_COLUMN_BYTES:
            raise too_large(self._shard, f"{len(data)} bytes of text; a block's column may take {MAX_COLUMN_BYTES}")
        try:
            return data.removeprefix(BOM).decode()
        except UnicodeDecodeError as error:
            what = f"{self._shard.name} cannot be read"
            raise BadRowsError(
                [BadRow(0, f"text that is not UTF-8: {error.reason}", error.start)], what=what
            ) from error
