"""Damages the golden archives and looks at what comes out: an error of ours, or the rows Python's tarfile reads.

Members have no checksums, so a flipped byte of a member is content, to us as to tarfile. As a script::

    python fuzz_webdataset.py 2000 1
"""

from __future__ import annotations

import gzip
import io
import random
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from zephon.abc import FileInfo, Shard
from zephon.errors import DataError
from zephon_testkit.files import DiskContext
from zephon_webdataset.format import WebDatasetFormat
from zephon_webdataset.names import split_name

GOLDEN = Path(__file__).parent / "golden"


class Damaged(DiskContext):
    """A store elsewhere with one file in it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(is_local=False)
        self._data = data

    def size(self, url: str) -> int:
        return len(self._data)

    def read_ranges(self, url: str, ranges: Any) -> list[pa.Buffer]:
        if any(stop > len(self._data) for _, stop in ranges):
            raise EOFError(url)
        return [pa.py_buffer(self._data[start:stop]) for start, stop in ranges]


def mutations(data: bytes, count: int, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Damaged copies: cut, or with bytes flipped; most flips fall where there is something but zeros."""
    filled = [i for i, byte in enumerate(data) if byte]
    for _ in range(count):
        if draw.random() < 0.3:
            cut = draw.randrange(len(data))
            yield f"cut at {cut}", data[:cut]
            continue
        changed = bytearray(data)
        places = [
            draw.choice(filled) if draw.random() < 0.8 else draw.randrange(len(data))
            for _ in range(draw.choice((1, 1, 4)))
        ]
        for place in places:
            changed[place] ^= 1 << draw.randrange(8) if draw.random() < 0.5 else draw.randrange(1, 256)
        yield f"bytes {places} flipped", bytes(changed)


def ours(data: bytes) -> list[dict[str, Any]]:
    """The rows we read; bad ones left out."""
    shard = Shard(url="m://x", name="x.tar", file=FileInfo(url="m://x", name="x.tar", size=len(data)))
    made, context = WebDatasetFormat(), Damaged(data)
    index = made.index(shard, context)
    rows = np.setdiff1d(np.arange(index.rows), [row for row, _, _ in index.bad_rows])
    return made.open(shard, index, context).read(rows, None).to_pylist()


def theirs(data: bytes) -> list[dict[str, Any]]:
    """The rows tarfile reads; those whose names are no text left out."""
    rows: list[dict[str, Any]] = []
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        data = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, check=True).stdout
    elif data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|") as tar:
        for info in tar:
            parts = split_name(info.name)
            if not info.isreg() or parts is None:
                continue
            if not rows or rows[-1]["__key__"] != parts[0]:
                rows.append({"__key__": parts[0]})
            content = tar.extractfile(info)
            assert content is not None
            rows[-1][parts[1]] = content.read()
    return [row for row in rows if all(_is_text(str(value)) for value in (row["__key__"], *row))]


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character < "\ue000" for character in name)


def fuzz(count: int, seed: int) -> Counter[str]:
    """Damage golden archives ``count`` times.

    Returns:
        How often which came out: error codes, or "rows".

    Raises:
        AssertionError: rows that tarfile does not read.
    """
    draw = random.Random(seed)
    outcomes: Counter[str] = Counter()
    names = sorted(path.name for path in GOLDEN.iterdir() if path.name.endswith((".tar", ".gz", ".zst")))
    for place, name in enumerate(names):
        data = (GOLDEN / name).read_bytes()
        for what, damaged in mutations(data, (count + place) // len(names), draw):
            try:
                found = ours(damaged)
            except DataError as error:
                outcomes[error.code if error.found else "an error without a place"] += 1
                continue
            outcomes["rows"] += 1
            plain = [{key: value for key, value in row.items() if value is not None} for row in found]
            assert plain == theirs(damaged), f"{name}, {what}: other rows than tarfile reads"
    return outcomes


if __name__ == "__main__":
    print(dict(fuzz(int(sys.argv[1]), int(sys.argv[2]))))
