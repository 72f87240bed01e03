"""The shard format ``jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import pyarrow as pa

from zephon.abc import FileHead, FileInfo, Shard, ShardContext, ShardFormat, ShardIndex
from zephon_jsonl.content import compression_of, decompressed_head, stranger
from zephon_jsonl.indexer import index_shard
from zephon_jsonl.lines import BOM
from zephon_jsonl.plugin import jsonl
from zephon_jsonl.reader import JsonlReader
from zephon_jsonl.writer import write_shard

#: Suffixes that also name files of one JSON document, and those that do not.
_JSON: Final = tuple(suffix for suffix in jsonl.suffixes if suffix.split(".")[1] == "json")
_LINES: Final = tuple(suffix for suffix in jsonl.suffixes if suffix not in _JSON)


@attrs.frozen(slots=True)
class JsonlFormat(ShardFormat):
    """JSON Lines: one JSON object a line, lines end at the newline character alone. It has no options."""

    def recognise(self, head: FileHead) -> bool:
        """Whether a file is JSON Lines.

        A file called ``.jsonl`` or ``.ndjson`` is, unless its content is surely something else. Any other is if two
        lines of objects can be seen, the first one whole: a single one may be any JSON document. Compressed files show
        little of themselves in their first bytes; one called ``.json.gz`` or ``.json.zst`` is JSON Lines unless what
        can be seen speaks against it, as it is in the large corpora.
        """
        if stranger(head.head):
            return False
        compressed = bool(compression_of(head.head))
        content = decompressed_head(head.head)
        if _has_suffix(head.info, _LINES):
            return b"\0" not in content
        *whole, cut = content.removeprefix(BOM).lstrip(b" \t\r\n").split(b"\n")
        seen = [line for line in (*whole, cut) if line.strip()]
        consistent = all(map(_is_object, whole[:1])) and all(line.lstrip().startswith(b"{") for line in seen[:2])
        return consistent and (len(seen) > 1 or (compressed and _has_suffix(head.info, _JSON)))

    def discover(self, files: Sequence[FileInfo]) -> Iterable[Shard]:
        """Files with one of the format's suffixes; failing those, ``.json`` files; failing those, a single file.

        Files whose names begin with ``.`` or ``_`` are passed over.
        """
        visible = [file for file in files if not _base_name(file).startswith((".", "_"))]
        chosen = [file for file in visible if _has_suffix(file, _LINES)]
        chosen = chosen or [file for file in visible if _has_suffix(file, _JSON)]
        if not chosen and len(files) == 1:
            chosen = list(files)
        return [Shard(url=file.url, name=file.name or _base_name(file), file=file) for file in chosen]

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """See :func:`zephon_jsonl.indexer.index_shard`."""
        return index_shard(shard, context)

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> JsonlReader:
        """See :class:`zephon_jsonl.reader.JsonlReader`."""
        return JsonlReader(shard, index, context)

    def write(self, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """See :func:`zephon_jsonl.writer.write_shard`."""
        write_shard(path, batches, schema)


def _base_name(file: FileInfo) -> str:
    return (file.name or file.url).rstrip("/").rpartition("/")[2]


def _has_suffix(file: FileInfo, suffixes: tuple[str, ...]) -> bool:
    return _base_name(file).lower().endswith(suffixes)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
