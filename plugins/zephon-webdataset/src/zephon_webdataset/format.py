"""The shard format ``webdataset``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import FileHead, FileInfo, Shard, ShardContext, ShardFormat, ShardIndex
from zephon.errors import ConfigError
from zephon_webdataset.content import compression_of, decompressed_head, open_content
from zephon_webdataset.decoding import EVERY, KINDS, infer, kind_of
from zephon_webdataset.grouping import Grouping, Policy
from zephon_webdataset.headers import members
from zephon_webdataset.layout import Layout
from zephon_webdataset.names import KEY
from zephon_webdataset.plugin import webdataset
from zephon_webdataset.reader import Members, WebDatasetReader

#: Where ustar and GNU headers say so (POSIX.1-2017, pax, "ustar Interchange Format").
_MAGIC: Final = slice(257, 262)
_USTAR: Final = b"ustar"
#: JSON members looked at together.
_INFERRED_ROWS: Final = 4096


def _known_extensions(instance: Any, attribute: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    for name in value:
        if name != EVERY and name.rpartition(".")[2] not in KINDS:
            raise ConfigError(
                f"members {name!r} cannot be decoded",
                found=f"decode={list(value)}; there are decoders for {', '.join(KINDS)}",
                fix=f'leave {name!r} out: its column holds bytes, for .map_transform to decode; or pass ["{EVERY}"]',
                code="option-invalid",
            )


def _choice(*values: str) -> Any:
    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value not in values:
            raise ConfigError(
                f"{attribute.name}={value!r} is no policy of the format webdataset",
                found=repr(value),
                fix=f"pass one of {', '.join(map(repr, values))}",
                code="option-invalid",
            )

    return attrs.field(default=values[0], validator=check)


@attrs.frozen(slots=True, kw_only=True)
class WebDatasetFormat(ShardFormat):
    """Tar archives; the members of one key are a row.

    Attributes:
        decode: fields to decode, by their whole extension (``"txt"``, ``"meta.json"``), or ``"*"`` for all there is a
            decoder for: txt, text, transcript as text; cls, cls2, index, inx, id as 64-bit integers; json, jsn. All
            others stay bytes.
        truncated: an archive that ends too early is an error, or the rows that are surely whole are kept.
        interleaved: a key that comes again after other keys is an error, or adds to the row it has, or begins a row of
            its own each time, as in the webdataset library.
        duplicate: a second member for one field of one row is an error, or the first or the last of them counts.
        links: hard and symbolic links named like members are an error, or are passed over.
    """

    decode: tuple[str, ...] = attrs.field(default=(), converter=tuple, validator=_known_extensions)
    truncated: Literal["error", "keep"] = _choice("error", "keep")
    interleaved: Literal["error", "group", "split"] = _choice("error", "group", "split")
    duplicate: Literal["error", "first", "last"] = _choice("error", "first", "last")
    links: Literal["error", "skip"] = _choice("error", "skip")

    def recognise(self, head: FileHead) -> bool:
        """A tar by its magic, also inside gzip or zstd; what shows too little of itself, by its suffix."""
        content = decompressed_head(head.head)
        if content[_MAGIC] == _USTAR:
            return True
        # Archives older than POSIX have no magic, and an archive without members is zeros.
        compressed = bool(compression_of(head.head))
        return _has_suffix(head.info) and (not content[:1].strip(b"\0") or compressed or len(content) > _MAGIC.stop)

    def discover(self, files: Sequence[FileInfo]) -> Iterator[Shard]:
        """Files with one of the format's suffixes; failing those, a single file."""
        visible = [file for file in files if not _base_name(file).startswith((".", "_"))]
        chosen = [file for file in visible if _has_suffix(file)]
        if not chosen and len(files) == 1:
            chosen = list(files)
        for file in chosen:
            yield Shard(url=file.url, name=file.name or _base_name(file), file=file)

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """Read the headers; of compressed shards everything, and the JSON members that are to be decoded.

        Raises:
            ShardError: ``shard-truncated``, ``shard-corrupt``, ``shard-unsupported``, ``tar-key-interleaved``,
                ``tar-member-duplicate``, ``tar-member-link``, ``too-many-fields``.
        """
        size = context.size(shard.url)
        head = context.read_ranges(shard.url, [(0, min(16, size))])[0].to_pybytes() if size else b""
        compression = compression_of(head)
        grouping = Grouping(shard.name, self._policy())
        content = open_content(shard, context, size, compression)
        grouping.take_all(members(content, None if compression else size, shard.name))
        layout, bad = grouping.finish(compression, size)
        return ShardIndex(
            rows=layout.rows,
            units=layout.units(),
            schema=self._schema(shard, layout, context),
            blob=layout.to_blob(),
            bad_rows=bad,
        )

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> WebDatasetReader:
        """See :class:`zephon_webdataset.reader.WebDatasetReader`."""
        return WebDatasetReader(shard, index, context, self.decode)

    def _policy(self) -> Policy:
        return Policy(
            truncated=self.truncated, interleaved=self.interleaved, duplicate=self.duplicate, links=self.links
        )

    def _schema(self, shard: Shard, layout: Layout, context: ShardContext) -> pa.Schema:
        plain = {"": pa.binary(), "text": pa.string(), "number": pa.int64()}
        fields = [pa.field(KEY, pa.string())]
        for place, name in enumerate(layout.names):
            kind = kind_of(name, self.decode)
            if kind == "json":
                fields.append(infer(_columns(Members(shard, layout, context), layout.rows, place), name))
            else:
                fields.append(pa.field(name, plain[kind]))
        return pa.schema(fields)


def _columns(found: Members, rows: int, field: int) -> Iterable[pa.Array]:
    for start in range(0, rows, _INFERRED_ROWS):
        yield found.columns(np.arange(start, min(rows, start + _INFERRED_ROWS)), [field])[0]


def _base_name(file: FileInfo) -> str:
    return (file.name or file.url).rstrip("/").rpartition("/")[2]


def _has_suffix(file: FileInfo) -> bool:
    return _base_name(file).lower().endswith(webdataset.suffixes)
