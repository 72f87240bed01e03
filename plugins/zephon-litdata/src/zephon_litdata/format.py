"""Directories of LitData chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import FileHead, FileInfo, Shard, ShardContext, ShardFormat, ShardIndex
from zephon.block import META_CONFLICT, canonical_schema
from zephon.errors import ConfigError
from zephon_litdata import arrays, leaves
from zephon_litdata.catalog import INDEX_NAME, Entry, entry_of
from zephon_litdata.errors import changed, corrupt
from zephon_litdata.layout import FRAMES, FRAMES_MAGIC, TABLE, WHOLE, Layout, read_layout
from zephon_litdata.reader import LitDataReader, leaf_bounds
from zephon_litdata.source import source_of
from zephon_litdata.table import read_schema
from zephon_litdata.tree import columns_of

#: ``chunk-RANK-NUMBER.bin``, with the compression before the suffix.
_NAME: Final = re.compile(r"chunk-\d+-\d+(\.[\w:]+)?\.bin")
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"


def _is_block_size(_: object, __: object, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"block_size is a number of tokens, or 0 for items as they are, not {value!r}")


@attrs.frozen(slots=True, kw_only=True)
class LitDataFormat(ShardFormat):
    """Directories with an index.json and the chunks it lists, one Zephon shard each.

    Attributes:
        block_size: of token streams, tokens in a row: each chunk is cut into rows of exactly so many, and what is left
            at its end is left out, as LitData's ``TokensLoader(block_size=...)`` does. 0 for one row per item.
        allow_pickle: hand out pickles as bytes. They are never loaded here.
    """

    block_size: int = attrs.field(default=0, validator=_is_block_size)
    allow_pickle: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def recognise(self, head: FileHead) -> bool:
        """An index.json that speaks of chunks, or a chunk by its offsets, its frames or its compression."""
        base = head.info.name.rpartition("/")[2]
        if base == INDEX_NAME:
            squeezed = head.head.replace(b" ", b"")
            return squeezed.startswith(b'{"chunks":[') and (b'"chunk_bytes"' in squeezed or b'"config"' in squeezed)
        if not _NAME.fullmatch(base):
            return False
        if head.head.startswith((FRAMES_MAGIC, _ZSTD_MAGIC)):
            return True
        items, first = int.from_bytes(head.head[:4], "little"), int.from_bytes(head.head[4:8], "little")
        return len(head.head) >= 8 and first == 4 * (items + 2)

    def discover(self, files: Sequence[FileInfo]) -> Iterator[Shard]:
        """Files that are called as LitData calls chunks."""
        for file in files:
            if _NAME.fullmatch(file.name.rpartition("/")[2]):
                yield Shard(url=file.url, name=file.name, file=file)

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """Rows from index.json, offsets from the beginning of the chunk; one compressed as a whole is not read.

        Where arrays with a head are among the leaves, the first row is looked at; of an Arrow table, its schema.

        Raises:
            ShardError: ``index-file-mismatch``, ``shard-corrupt``, ``shard-changed``, ``shard-unsupported``.
            ConfigError: ``block-size-without-tokens``.
        """
        entry = entry_of(shard, context)
        self._check_block_size(shard, entry)
        layout = read_layout(shard, entry, context)
        schema = read_schema(shard, layout, context) if layout.kind == TABLE else self._schema(shard, layout, context)
        rows = self._rows(shard, layout, schema)
        units = None
        if layout.kind in (WHOLE, TABLE):
            units = np.array([0, rows] if rows else [0], dtype=np.int64)
        elif layout.kind == FRAMES:
            units = np.append(layout.frames[:, 0], rows)
        return ShardIndex(rows=rows, units=units, schema=schema, blob=layout.to_blob())

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> LitDataReader:
        """A reader; nothing is read before rows are.

        Raises:
            ShardError: ``shard-changed``.
        """
        if index.blob is None:
            raise changed(shard, "an index without offsets")
        return LitDataReader(shard, index.schema, Layout.from_blob(index.blob), self.block_size, context)

    def _check_block_size(self, shard: Shard, entry: Entry) -> None:
        if self.block_size and not entry.is_tokens:
            raise ConfigError(
                f"{shard.name} cannot be cut into rows of {self.block_size} tokens",
                found=f"it was not written with TokensLoader; its items are {', '.join(entry.formats)}",
                fix="leave block_size out, and pack the rows with .pack_flat(...)",
                code="block-size-without-tokens",
            )

    def _rows(self, shard: Shard, layout: Layout, schema: pa.Schema) -> int:
        entry = layout.entry
        if not entry.is_tokens or not self.block_size:
            return entry.items
        kind = schema.field(0).type
        if entry.tokens is None or not pa.types.is_list(kind):
            raise corrupt(shard, f"index.json says it has {entry.tokens} tokens of {entry.formats[0]}")
        if layout.kind != WHOLE:
            stored = int(layout.offsets[-1]) - int(layout.offsets[0])
            if stored != entry.tokens * arrays.itemsize(kind):
                raise corrupt(shard, f"{stored} bytes are not the {entry.tokens} tokens that index.json says")
        return entry.tokens // self.block_size

    def _schema(self, shard: Shard, layout: Layout, context: ShardContext) -> pa.Schema:
        entry = layout.entry
        first: list[bytes] = [b""] * len(entry.formats)
        if any(map(leaves.needs_a_row, entry.formats)) and entry.items:
            first = _first_row(shard, layout, context)
        found = [
            leaves.type_of(name, value, self.allow_pickle) for name, value in zip(entry.formats, first, strict=True)
        ]
        types = [pa.null() if isinstance(kind, str) else kind for kind in found]
        try:
            columns = columns_of(entry.spec, len(entry.formats), entry.is_tokens)
        except ValueError as error:
            raise corrupt(shard, f"its index.json cannot be understood: {error}") from error
        fields = []
        for column in columns:
            reasons = [why for leaf in column.leaves() if isinstance(why := found[leaf], str)]
            if reasons:
                fields.append(pa.field(column.name, pa.null(), metadata={META_CONFLICT: reasons[0].encode()}))
            elif column.leaf is not None or column.children:
                fields.append(pa.field(column.name, column.type_of(types)))
        return canonical_schema(pa.schema(fields))


def _first_row(shard: Shard, layout: Layout, context: ShardContext) -> list[bytes]:
    """The bytes of each leaf of the first item."""
    rows: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
    data, starts, stops = source_of(shard, layout, 0, context).fetch(rows)
    bounds, is_whole = leaf_bounds(np.frombuffer(data, np.uint8), starts, stops, len(layout.entry.formats))
    if not is_whole[0]:
        raise corrupt(shard, "the leaves of its first item do not add up to the item")
    edges = bounds[0].tolist()
    return [data[start:stop].to_pybytes() for start, stop in pairwise(edges)]
