"""The conformance kit, on files written as their layouts are documented."""

import numpy as np
import pyarrow as pa

from zephon_megatron.samples import MegatronSamples
from zephon_testkit import ShardFormatTests


class TestMegatronIndexed(MegatronSamples, ShardFormatTests):
    """``.bin`` with ``.idx`` beside it."""

    plugin = "megatron"


class TestTokenFiles(MegatronSamples, ShardFormatTests):
    """``.ds`` with ``.ds.index`` beside it."""

    plugin = "megatron"

    def table(self, rows):
        lists = [[token % 65536 for token in tokens] for tokens in super().table(rows)["input_ids"].to_pylist()]
        return pa.table([pa.array(lists, pa.list_(pa.int32()))], schema=self.schema)

    def write(self, path, table):
        lists = table["input_ids"].to_pylist()
        path.with_suffix(".ds").write_bytes(b"".join(np.array(tokens, "<u2").tobytes() for tokens in lists))
        ends = np.cumsum([len(tokens) for tokens in lists], dtype="<u8")
        path.with_suffix(".ds.index").write_bytes(ends.tobytes())


class TestTwoDimensionalArrays(MegatronSamples, ShardFormatTests):
    """``.npy`` files."""

    plugin = "megatron"

    def table(self, rows):
        lists = (np.arange(rows * 7, dtype=np.int64) * 2654435761 % 2**31).reshape(rows, 7).tolist()
        return pa.table([pa.array(lists, pa.list_(pa.int32()))], schema=self.schema)

    def write(self, path, table):
        lists = table["input_ids"].to_pylist()
        np.save(path.with_suffix(".npy"), np.array(lists, np.uint32).reshape(len(lists), 7))
