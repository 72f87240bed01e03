"""Files for the conformance kit, written byte by byte as their layout is documented; imported by nobody else."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa


class MegatronSamples:
    """``.bin`` with ``.idx`` beside it; every document is one sequence, and some are empty."""

    schema = pa.schema([("input_ids", pa.list_(pa.int32()))])

    def write(self, path: Path, table: pa.Table) -> None:
        """One shard: two files."""
        lists = table["input_ids"].to_pylist()
        path.with_suffix(".bin").write_bytes(b"".join(np.array(tokens, "<i4").tobytes() for tokens in lists))
        lengths = np.array([len(tokens) for tokens in lists], "<i4")
        pointers = (np.cumsum(lengths, dtype="<i8") - lengths) * 4
        bounds = np.arange(len(lists) + 1, dtype="<i8")
        header = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 4, len(lists), len(bounds))
        index = header + lengths.tobytes() + pointers.astype("<i8").tobytes() + bounds.tobytes()
        path.with_suffix(".idx").write_bytes(index)
