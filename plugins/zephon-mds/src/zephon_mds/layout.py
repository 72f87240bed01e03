"""Where rows lie in a shard, and what Zephon's index keeps of it.

A shard begins with the number of rows ``n``, then ``n + 1`` offsets of rows (all 32-bit, little endian), then its own
description as JSON, then the rows. A row begins with the sizes of those of its columns whose size varies, 32 bits each.
"""

from __future__ import annotations

import json
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext
from zephon_mds.catalog import Entry
from zephon_mds.errors import changed, corrupt

#: Read at once beyond the offsets; holds most descriptions.
_DESCRIPTION: Final = 4096
_BLOB: Final = pa.schema([("size", pa.int64()), ("entry", pa.string()), ("offsets", pa.large_list(pa.uint32()))])


@attrs.frozen(slots=True, kw_only=True)
class Layout:
    """One shard.

    Attributes:
        size: bytes of the file.
        entry: what index.json says of it.
        offsets: uint32 ``[rows + 1]``, where rows begin, and the end; None where the shard is compressed.
    """

    size: int
    entry: Entry
    offsets: npt.NDArray[np.uint32] | None = attrs.field(eq=False)

    def to_blob(self) -> pa.RecordBatch:
        """As one row."""
        offsets = None if self.offsets is None else pa.array(self.offsets, pa.uint32())
        lists = pa.nulls(1, _BLOB.field("offsets").type)
        if offsets is not None:
            lists = pa.LargeListArray.from_arrays(pa.array([0, len(offsets)], pa.int64()), offsets)
        return pa.RecordBatch.from_arrays(
            [pa.array([self.size], pa.int64()), pa.array([self.entry.to_json()]), lists], schema=_BLOB
        )

    @classmethod
    def from_blob(cls, blob: pa.RecordBatch) -> Layout:
        """Inverse of :meth:`to_blob`; the offsets share its memory."""
        values = blob.column("offsets")[0].values
        return cls(
            size=blob.column("size")[0].as_py(),
            entry=Entry.from_json(blob.column("entry")[0].as_py()),
            offsets=None if values is None else values.to_numpy(),
        )


def read_offsets(shard: Shard, entry: Entry, context: ShardContext) -> npt.NDArray[np.uint32]:
    """The offsets of an uncompressed shard, and of nothing else of it than its description.

    Raises:
        ShardError: ``shard-corrupt``, ``shard-changed``.
    """
    table = 4 * (entry.rows + 2)
    if table > shard.file.size:
        raise corrupt(shard, f"{shard.file.size} bytes cannot hold the offsets of {entry.rows} rows")
    try:
        (head,) = context.read_ranges(shard.url, [(0, min(shard.file.size, table + _DESCRIPTION))])
        first = int(np.frombuffer(head, "<u4", 1, 4)[0])
        if head.size < first <= shard.file.size:
            (head,) = context.read_ranges(shard.url, [(0, first)])
    except EOFError as error:
        raise changed(shard, f"it has fewer than the {shard.file.size} bytes it had") from error
    return parse_offsets(shard, entry, head)


def parse_offsets(shard: Shard, entry: Entry, head: pa.Buffer) -> npt.NDArray[np.uint32]:
    """The offsets at the beginning of a shard, checked against index.json.

    Args:
        shard: for errors.
        entry: what index.json says.
        head: the shard, or as much of it as comes before its first row.

    Raises:
        ShardError: ``shard-corrupt``.
    """
    table = 4 * (entry.rows + 2)
    if head.size < table:
        raise corrupt(shard, f"{head.size} bytes cannot hold the offsets of {entry.rows} rows")
    numbers = np.frombuffer(head, "<u4", entry.rows + 2)
    if numbers[0] != entry.rows:
        raise corrupt(shard, f"it begins with a count of {numbers[0]} rows where index.json says {entry.rows}")
    offsets: npt.NDArray[np.uint32] = numbers[1:].astype(np.uint32)
    first, last = int(offsets[0]), int(offsets[-1])
    if first < table or last != entry.raw_bytes or first > head.size or (offsets[1:] < offsets[:-1]).any():
        raise corrupt(shard, f"its rows lie from byte {first} to byte {last} of {entry.raw_bytes}, or out of order")
    described = _description(head[table:first].to_pybytes())
    expected = (list(entry.names), list(entry.encodings), list(entry.sizes))
    if described != expected:
        raise corrupt(shard, f"its own description of its columns is {described}, that of index.json is {expected}")
    return offsets


def _description(text: bytes) -> Any:
    try:
        stated = json.loads(text)
        return stated["column_names"], stated["column_encodings"], stated["column_sizes"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return f"{text[:40]!r}, no JSON"
