"""Two formats of one layout: ``minimal`` does what it must, ``maximal`` has every capability."""

import json
import os
import struct
import zlib
from itertools import pairwise
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import Shard, ShardFormat, ShardIndex, ShardReader
from zephon.block import empty_columns
from zephon.errors import ShardError

SCHEMA = pa.schema([("text", pa.string()), ("n", pa.int64())])
HEADER = struct.Struct("<4sII")
UNIT = 10


def damaged(shard, what):
    return ShardError(f"{shard.name} is damaged", found=what, fix="write it again", code="toy-damaged")


def offsets_of(shard, content):
    """Where each row begins in the file, and where the last ends; the whole file is checked."""
    if len(content) < HEADER.size:
        raise damaged(shard, f"{len(content)} bytes")
    magic, rows, crc = HEADER.unpack_from(content)
    if magic != b"TOY1" or zlib.crc32(content[HEADER.size :]) != crc:
        raise damaged(shard, "the checksum is wrong")
    place, offsets = HEADER.size, [HEADER.size]
    for _ in range(rows):
        place += 4 + struct.unpack_from("<I", content, place)[0]
        offsets.append(place)
    return np.array(offsets, dtype=np.int64)


def decode(records, columns):
    """Record batch of rows as JSON, projected."""
    if columns is not None and not columns:
        return empty_columns(len(records))
    batch = pa.RecordBatch.from_pylist([json.loads(record) for record in records], schema=SCHEMA)
    return batch if columns is None else batch.select(list(columns))


@attrs.frozen(slots=True)
class Minimal(ShardFormat):
    """Rows of JSON behind their lengths, read as whole files."""

    def recognise(self, head):
        return head.head[:4] == b"TOY1"

    def discover(self, files):
        return [Shard(url=file.url, name=file.name, file=file) for file in files if file.name.endswith(".toy")]

    def index(self, shard, context):
        rows = len(offsets_of(shard, context.read_all(shard.url).to_pybytes())) - 1
        return ShardIndex(rows=rows, units=np.array(sorted({0, rows}), dtype=np.int64), schema=SCHEMA)

    def open(self, shard, index, context):
        content = context.read_all(shard.url).to_pybytes()
        offsets = offsets_of(shard, content)
        if len(offsets) - 1 != index.rows:
            raise damaged(shard, f"{len(offsets) - 1} rows, {index.rows} when it was indexed")
        return MinimalReader([content[a + 4 : b] for a, b in pairwise(offsets)])


class MinimalReader(ShardReader):
    """All rows of a shard as JSON."""

    def __init__(self, records):
        self.records = records

    def read(self, rows, columns):
        return decode([self.records[row] for row in rows], columns)


@attrs.frozen(slots=True)
class Maximal(Minimal):
    """The same layout, read by ranges.

    Args:
        unit: rows of a unit.
    """

    unit: int = UNIT

    def index(self, shard, context):
        content = context.read_all(shard.url).to_pybytes()
        offsets = offsets_of(shard, content)
        rows = len(offsets) - 1
        units = np.append(np.arange(0, rows, self.unit), rows).astype(np.int64) if rows else np.zeros(1, np.int64)
        numbers = [json.loads(content[a + 4 : b])["n"] for a, b in pairwise(offsets)]
        smallest = [min((n for n in numbers[a:b] if n is not None), default=None) for a, b in self._spans(units)]
        largest = [max((n for n in numbers[a:b] if n is not None), default=None) for a, b in self._spans(units)]
        blob = pa.record_batch(
            [
                pa.array([offsets]),
                pa.array([smallest], pa.list_(pa.int64())),
                pa.array([largest], pa.list_(pa.int64())),
                pa.array([content[: HEADER.size]]),
            ],
            names=["offsets", "smallest", "largest", "header"],
        )
        return ShardIndex(rows=rows, units=units, schema=SCHEMA, blob=blob)

    def open(self, shard, index, context):
        header = context.read_ranges(shard.url, [(0, HEADER.size)])[0].to_pybytes()
        if header != index.blob.column("header")[0].as_py():
            raise damaged(shard, "it is not the file that was indexed")
        return MaximalReader(shard, index, context)

    def write(self, path, batches, schema):
        rows = [json.dumps(row).encode() for batch in batches for row in batch.to_pylist()]
        body = b"".join(struct.pack("<I", len(row)) + row for row in rows)
        part = f"{path}.part"
        Path(part).write_bytes(HEADER.pack(b"TOY1", len(rows), zlib.crc32(body)) + body)
        os.replace(part, path)

    def _spans(self, units):
        return list(pairwise(units.tolist()))


class MaximalReader(ShardReader):
    """Reads the bytes of the rows asked for."""

    def __init__(self, shard, index, context):
        self.shard, self.index, self.context = shard, index, context
        self.offsets = index.blob.column("offsets")[0].values.to_numpy()

    def ranges(self, rows, columns):
        spans = np.stack([self.offsets[:-1][rows], self.offsets[1:][rows]], axis=1)
        return spans if columns is None or columns else spans[:0]

    def may_match(self, predicate, units):
        text = str(predicate)
        if not text.startswith("(n =="):
            return np.ones(len(units), dtype=np.bool_)
        wanted = int(text.removeprefix("(n ==").rstrip(")"))
        smallest, largest = (self.index.blob.column(name)[0].as_py() for name in ("smallest", "largest"))
        return np.array([smallest[u] is not None and smallest[u] <= wanted <= largest[u] for u in units], np.bool_)

    def read(self, rows, columns):
        wanted = [(int(a), int(b)) for a, b in self.ranges(rows, columns)]
        if not wanted:
            return decode([b"{}"] * len(rows), columns)
        pieces = self.context.read_ranges(self.shard.url, wanted)
        return decode([piece.to_pybytes()[4:] for piece in pieces], columns)
