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

_JSON: Final = (".json", ".json.gz", ".json.zst", ".json.zstd")


@attrs.frozen(slots=True)
class JsonlFormat(ShardFormat):
    """JSON Lines: one JSON object a line, lines end at the newline character alone. It has no options."""

    def recognise(self, head: FileHead) -> bool:
        """Whether a file is JSON Lines.

        Under one of the format's suffixes: unless the content is surely something else. Under any other: if the first
        line with content is a whole JSON object and the next one, as far as it is seen, begins another. Of compressed
        content the first 4096 bytes may give nothing away; then the suffix decides.
        """
        named = _has_suffix(head.info, jsonl.suffixes)
        if stranger(head.head):
            return False
        content = decompressed_head(head.head)
        if named:
            return b"\0" not in content and (bool(content) or not head.head or bool(compression_of(head.head)))
        lines = [line for line in content.removeprefix(BOM).split(b"\n") if line.strip()]
        # A line that is cut off by the end of the head cannot be told from the first of a pretty-printed object.
        return len(lines) > 0 and _is_object(lines[0]) and all(line.lstrip().startswith(b"{") for line in lines[1:2])

    def discover(self, files: Sequence[FileInfo]) -> Iterable[Shard]:
        """Files with one of the format's suffixes; failing those, ``.json`` files; failing those, a single file.

        Files whose names begin with ``.`` or ``_`` are passed over.
        """
        visible = [file for file in files if not _base_name(file).startswith((".", "_"))]
        chosen = [file for file in visible if _has_suffix(file, jsonl.suffixes)]
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
