"""Directories of MDS shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import FileHead, FileInfo, Shard, ShardContext, ShardFormat, ShardIndex
from zephon.block import META_CONFLICT, canonical_schema
from zephon_mds import columns
from zephon_mds.catalog import INDEX_NAME, Entry, entry_of
from zephon_mds.content import new_hash, read_whole, refuse_unknown_compression
from zephon_mds.errors import changed, corrupt
from zephon_mds.layout import Layout, parse_offsets, read_offsets
from zephon_mds.plugin import mds
from zephon_mds.reader import MdsReader

#: Of a shard's first bytes: where its own description begins, in the order in which MDS writes it.
_DESCRIPTION: Final = b'{"column_encodings"'


@attrs.frozen(slots=True, kw_only=True)
class MdsFormat(ShardFormat):
    """Directories with an index.json and the shards it lists, one Zephon shard each.

    Attributes:
        validate_hash: compare each shard with its hash of this name in index.json when it is read, e.g. ``"sha1"``;
            this reads whole shards. "" for none.
        allow_pickle: hand out columns of pickles as bytes. They are never loaded here.
    """

    validate_hash: str = attrs.field(default="", validator=attrs.validators.instance_of(str))
    allow_pickle: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def recognise(self, head: FileHead) -> bool:
        """An index.json that speaks of MDS, or a shard by its own description; a compressed one by its suffix."""
        base = head.info.name.rpartition("/")[2].lower()
        if base == INDEX_NAME:
            squeezed = head.head.replace(b" ", b"")
            is_empty = squeezed.startswith(b'{"shards":[],"version":2')
            return squeezed.startswith(b'{"') and (is_empty or b'"column_encodings"' in squeezed)
        if not base.endswith(mds.suffixes) or not head.head:
            return False
        if not base.endswith(".mds") or len(head.head) < 8:
            return True
        table = 8 + 4 * int.from_bytes(head.head[:4], "little")
        seen = head.head[table : table + len(_DESCRIPTION)]
        return _DESCRIPTION.startswith(seen)

    def discover(self, files: Sequence[FileInfo]) -> Iterator[Shard]:
        """Files with an MDS suffix; of one that is there both compressed and not, the latter.

        Each belongs to the nearest index.json at or above it: those of merged indexes lie above.
        """
        folders = {_folder(file.name) for file in files if file.name.rpartition("/")[2] == INDEX_NAME}
        named = {file.name for file in files}
        for file in files:
            base = file.name.rpartition("/")[2]
            if not base.endswith(mds.suffixes) or base.startswith("."):
                continue
            if not base.endswith(".mds") and file.name.rpartition(".")[0] in named:
                continue
            yield Shard(url=file.url, part=_below(_folder(file.name), folders), name=file.name, file=file)

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """Rows and columns from index.json, offsets from the beginning of the shard; a compressed one is not read.

        Only where arrays of undeclared dimensions are among the columns, the first row is looked at, for which a
        compressed shard is decompressed.

        Raises:
            ShardError: ``index-file-mismatch``, ``shard-corrupt``, ``shard-changed``, ``shard-unsupported``.
            ConfigError: ``hash-unavailable``.
        """
        entry = entry_of(shard, context)
        refuse_unknown_compression(shard, entry)
        if self.validate_hash:
            new_hash(shard, entry, self.validate_hash)
        offsets = None if entry.compression else read_offsets(shard, entry, context)
        first: dict[str, bytes] = {}
        if entry.rows and any(map(columns.needs_a_row, entry.encodings, entry.sizes)):
            first = self._first_row(shard, entry, offsets, context)
        is_whole = bool(entry.compression or self.validate_hash)
        return ShardIndex(
            rows=entry.rows,
            units=np.array([0, entry.rows] if entry.rows else [0], dtype=np.int64) if is_whole else None,
            schema=self._schema(entry, first),
            blob=Layout(size=shard.file.size, entry=entry, offsets=offsets).to_blob(),
        )

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> MdsReader:
        """A reader; nothing is read before rows are.

        Raises:
            ShardError: ``shard-changed``.
        """
        if index.blob is None:
            raise changed(shard, "an index without offsets")
        return MdsReader(shard, index.schema, Layout.from_blob(index.blob), context, self.validate_hash)

    def _first_row(
        self,
        shard: Shard,
        entry: Entry,
        offsets: npt.NDArray[np.uint32] | None,
        context: ShardContext,
    ) -> dict[str, bytes]:
        """The bytes of each column of the first row."""
        if offsets is None:
            content = read_whole(shard, entry, context, "")
            offsets = parse_offsets(shard, entry, content)
            row = content[int(offsets[0]) : int(offsets[1])]
        else:
            (row,) = context.read_ranges(shard.url, [(int(offsets[0]), int(offsets[1]))])
        ends = np.array([row.size], dtype=np.int64)
        bounds, is_whole = columns.sizes_of(
            np.frombuffer(row, np.uint8), np.zeros(1, dtype=np.int64), ends, list(entry.sizes)
        )
        if not is_whole[0]:
            raise corrupt(shard, f"the columns of its first row do not add up to the row's {row.size} bytes")
        edges = bounds[0].tolist()
        return {
            name: row[start:stop].to_pybytes()
            for name, start, stop in zip(entry.names, edges[:-1], edges[1:], strict=True)
        }

    def _schema(self, entry: Entry, first: dict[str, bytes]) -> pa.Schema:
        fields = []
        for name, encoding, size in zip(entry.names, entry.encodings, entry.sizes, strict=True):
            if columns.needs_a_row(encoding, size) and not first:
                continue  # no row, no type
            kind = columns.type_of(encoding, size, first.get(name, b""), self.allow_pickle)
            if isinstance(kind, str):
                fields.append(pa.field(name, pa.null(), metadata={META_CONFLICT: kind.encode()}))
            else:
                fields.append(pa.field(name, kind))
        return canonical_schema(pa.schema(fields))


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _below(folder: str, indexed: set[str]) -> str:
    """The path of a folder below the nearest one above it that has an index.json; "" for itself, and for none."""
    parts = folder.split("/") if folder else []
    for depth in range(len(parts), -1, -1):
        if "/".join(parts[:depth]) in indexed:
            return "/".join(parts[depth:])
    return ""
