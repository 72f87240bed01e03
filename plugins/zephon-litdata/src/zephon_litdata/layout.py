"""Where rows lie in a chunk, and what Zephon's index keeps of it.

A chunk is the number of items ``n``, ``n + 1`` offsets of items (all 32-bit, little endian), and the items. There are
four variants: the whole of that in zstd; each item in zstd of its own; runs of items in zstd, with a directory at the
beginning ("frames"); and items kept as an Arrow table behind offsets that are all the same.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext
from zephon_litdata.catalog import Entry
from zephon_litdata.errors import changed, corrupt

PLAIN: Final = "plain"
WHOLE: Final = "whole"
EACH: Final = "each"
FRAMES: Final = "frames"
TABLE: Final = "table"

FRAMES_MAGIC: Final = b"LDFZ01\0\0"
TABLE_MAGIC: Final = b"LDARW01\0"
TABLE_END: Final = 4 + len(TABLE_MAGIC)
#: Magic, version, flags, items, items a frame, frames.
_FRAMES_HEAD: Final = struct.Struct("<8sHHIII")
_FRAME: Final = np.dtype([("first", "<u4"), ("items", "<u4"), ("at", "<u8"), ("stored", "<u4"), ("content", "<u4")])
#: Read at once beyond the offsets; holds the directory of a hundred frames.
_MORE: Final = 4096
_BLOB: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("size", pa.int64()),
        ("entry", pa.string()),
        ("offsets", pa.large_list(pa.uint32())),
        ("frames", pa.large_list(pa.int64())),
    ]
)


@attrs.frozen(slots=True, kw_only=True)
class Layout:
    """One chunk.

    Attributes:
        kind: which variant.
        size: bytes of the file.
        entry: what index.json says of it.
        offsets: uint32 ``[items + 1]``, where items begin, and the end: in the file or, for frames, in their content.
            Empty where the index was made without reading the chunk.
        frames: int64 ``[frames, 3]``: first item, and where a frame lies in the file, from and to.
    """

    kind: str
    size: int
    entry: Entry
    offsets: npt.NDArray[np.uint32] = attrs.field(eq=False)
    frames: npt.NDArray[np.int64] = attrs.field(eq=False)

    def table_span(self) -> tuple[int, int]:
        """The bytes of the Arrow table."""
        return 4 * (self.entry.items + 2), self.size - TABLE_END

    def to_blob(self) -> pa.RecordBatch:
        """As one row."""
        flat = self.frames.ravel()
        columns = [
            pa.array([self.kind]),
            pa.array([self.size], pa.int64()),
            pa.array([self.entry.to_json()]),
            pa.LargeListArray.from_arrays(pa.array([0, len(self.offsets)], pa.int64()), pa.array(self.offsets)),
            pa.LargeListArray.from_arrays(pa.array([0, len(flat)], pa.int64()), pa.array(flat)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_BLOB)

    @classmethod
    def from_blob(cls, blob: pa.RecordBatch) -> Layout:
        """Inverse of :meth:`to_blob`; the arrays share its memory."""
        return cls(
            kind=blob.column("kind")[0].as_py(),
            size=blob.column("size")[0].as_py(),
            entry=Entry.from_json(blob.column("entry")[0].as_py()),
            offsets=blob.column("offsets")[0].values.to_numpy(),
            frames=blob.column("frames")[0].values.to_numpy().reshape(-1, 3),
        )


def read_layout(shard: Shard, entry: Entry, context: ShardContext) -> Layout:
    """The layout of a chunk, from its beginning; nothing is read of one that is compressed as a whole.

    Raises:
        ShardError: ``shard-corrupt``, ``shard-changed``.
    """
    size = shard.file.size
    no_offsets, no_frames = np.empty(0, dtype=np.uint32), np.empty((0, 3), dtype=np.int64)
    if entry.compression and entry.level == "chunk":
        return Layout(kind=WHOLE, size=size, entry=entry, offsets=no_offsets, frames=no_frames)
    head = _read(shard, context, 0, min(size, 4 * (entry.items + 2) + _MORE))
    if head[: len(FRAMES_MAGIC)].to_pybytes() == FRAMES_MAGIC:
        offsets, frames = _frames(shard, entry, head, context)
        return Layout(kind=FRAMES, size=size, entry=entry, offsets=offsets, frames=frames)
    if entry.compression and entry.level == "batch":
        raise corrupt(shard, f"it begins with {head[:8].to_pybytes()!r}, not the directory of its frames")
    end = b"" if size < TABLE_END else _read(shard, context, size - TABLE_END, size).to_pybytes()
    offsets = parse_offsets(shard, entry, head, size, end)
    kind = EACH if entry.compression else PLAIN
    if entry.items and not entry.is_tokens and offsets[0] == offsets[-1]:
        kind = TABLE
        if int.from_bytes(end[:4], "little") != size - TABLE_END - int(offsets[0]):
            raise corrupt(shard, "its Arrow table has another length than stands behind it")
    return Layout(kind=kind, size=size, entry=entry, offsets=offsets, frames=no_frames)


def parse_offsets(shard: Shard, entry: Entry, head: pa.Buffer, size: int, end: bytes) -> npt.NDArray[np.uint32]:
    """The offsets at the beginning of a chunk, checked.

    Args:
        shard: for errors.
        entry: what index.json says.
        head: the chunk, or as much of it as comes before its first item.
        size: bytes of the chunk.
        end: its last bytes.

    Raises:
        ShardError: ``shard-corrupt``.
    """
    table = 4 * (entry.items + 2)
    if head.size < table:
        raise corrupt(shard, f"{head.size} bytes cannot hold the offsets of {entry.items} items")
    numbers = np.frombuffer(head, "<u4", entry.items + 2)
    if numbers[0] != entry.items:
        raise corrupt(shard, f"it begins with a count of {numbers[0]} items where index.json says {entry.items}")
    offsets: npt.NDArray[np.uint32] = numbers[1:].astype(np.uint32)
    first, last = int(offsets[0]), int(offsets[-1])
    # Behind the last item there is nothing, or a copy of all items as an Arrow table.
    if first != table or last > size or (last < size and not end.endswith(TABLE_MAGIC)):
        raise corrupt(shard, f"its items lie from byte {first} to byte {last} of {size}")
    if (offsets[1:] < offsets[:-1]).any():
        raise corrupt(shard, "the offsets of its items are out of order")
    return offsets


def _frames(
    shard: Shard, entry: Entry, head: pa.Buffer, context: ShardContext
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    size = shard.file.size
    if head.size < _FRAMES_HEAD.size:
        raise corrupt(shard, "its directory of frames is cut off")
    _, version, _, items, _, count = _FRAMES_HEAD.unpack(head[: _FRAMES_HEAD.size])
    if version != 1 or items != entry.items:
        raise corrupt(shard, f"version {version}, {items} items; index.json says {entry.items}, and version 1 is known")
    table = _FRAMES_HEAD.size + 4 * (items + 1)
    stop = table + _FRAME.itemsize * count
    if not 0 < count <= items or stop > size:
        raise corrupt(shard, f"a directory of {count} frames in {size} bytes")
    if head.size < stop:
        head = _read(shard, context, 0, stop)
    offsets: npt.NDArray[np.uint32] = np.frombuffer(head, "<u4", items + 1, _FRAMES_HEAD.size).astype(np.uint32)
    stated = np.frombuffer(head, _FRAME, count, table)
    first, at = stated["first"].astype(np.int64), stated["at"].astype(np.int64)
    stops = at + stated["stored"]
    bounds = np.append(first, items)
    is_sound = (
        first[0] == 0
        and offsets[0] == 0
        and (np.diff(bounds) == stated["items"]).all()
        and (np.diff(bounds) > 0).all()
        and (offsets[1:] >= offsets[:-1]).all()
        and (np.diff(offsets[bounds].astype(np.int64)) == stated["content"]).all()
        and (at == np.concatenate([[stop], stops[:-1]])).all()
        and stops[-1] == size
    )
    if not is_sound:
        raise corrupt(shard, "its directory of frames contradicts itself")
    return offsets, np.stack([first, at, stops], axis=1)


def _read(shard: Shard, context: ShardContext, start: int, stop: int) -> pa.Buffer:
    try:
        return context.read_ranges(shard.url, [(start, stop)])[0]
    except EOFError as error:
        raise changed(shard, f"it has fewer than the {shard.file.size} bytes it had") from error
