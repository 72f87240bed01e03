"""The shard format ``lines``: every line of a file is a row with one field, ``text``."""

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import Shard, ShardFormat, ShardIndex, ShardReader

SCHEMA = pa.schema([("text", pa.string())])


@attrs.frozen(slots=True)
class LinesFormat(ShardFormat):
    """Files that end in ``.lines``."""

    def recognise(self, head):
        return head.info.name.endswith(".lines")

    def discover(self, files):
        for file in files:
            if file.name.endswith(".lines"):
                yield Shard(url=file.url, name=file.name, file=file)

    def index(self, shard, context):
        lines = context.read_all(shard.url).to_pybytes().count(b"\n")
        return ShardIndex(rows=lines, units=np.array([0, lines], dtype=np.int64), schema=SCHEMA)

    def open(self, shard, index, context):
        return LinesReader(context.read_all(shard.url))


class LinesReader(ShardReader):
    """Holds a file's lines."""

    def __init__(self, content):
        self._lines = content.to_pybytes().decode().splitlines()

    def read(self, rows, columns):
        texts = pa.array([self._lines[row] for row in rows], pa.string())
        if columns is not None and "text" not in columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return pa.RecordBatch.from_arrays([texts], schema=SCHEMA)
