"""Damages the golden files and looks at what comes out: an error of ours, or the rows that are written there.

Tokens have no checksums: a flipped byte of a token is another token, and a flipped byte of an index that contradicts
nothing is another index. What is written there is read by numpy, or by the few lines that decode an index as
Megatron and datatrove do, without looking whether it makes sense. As a script::

    python fuzz_megatron.py 2000 1
"""

from __future__ import annotations

import io
import random
import struct
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from zephon.abc import FileInfo, Shard
from zephon.errors import BadRowsError, ConfigError, DataError
from zephon_megatron.format import MegatronFormat
from zephon_testkit.files import DiskContext

GOLDEN = Path(__file__).parent / "golden"
_TYPES = (None, "u1", "i1", "<i2", "<i4", "<i8", "<f8", "<f4", "<u2")
Rows = list[list[Any]]


class Damaged(DiskContext):
    """A store elsewhere with a few files in it."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(is_local=False)
        self._files = files

    def size(self, url: str) -> int:
        if url not in self._files:
            raise FileNotFoundError(url)
        return len(self._files[url])

    def read_ranges(self, url: str, ranges: Any) -> list[pa.Buffer]:
        if any(stop > len(self._files[url]) for _, stop in ranges):
            raise EOFError(url)
        return [pa.py_buffer(self._files[url][start:stop]) for start, stop in ranges]


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A copy that is cut, is longer, or has some bytes flipped."""
    kind = draw.random()
    if kind < 0.2:
        return data[: draw.randrange(len(data))]
    if kind < 0.25:
        return data + draw.randbytes(draw.randrange(1, 20))
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 3))):
        place = draw.randrange(len(data)) if draw.random() < 0.5 else draw.randrange(min(len(data), 128))
        changed[place] ^= 1 << draw.randrange(8) if draw.random() < 0.5 else draw.randrange(1, 256)
    return bytes(changed)


def ours(files: dict[str, bytes], name: str, options: dict[str, Any]) -> Rows:
    """The rows we read; bad ones left out."""
    shard = Shard(url=name, name=name, file=FileInfo(url=name, name=name, size=len(files[name])))
    made, context = MegatronFormat(**options), Damaged(files)
    index = made.index(shard, context)
    rows, reader = np.arange(index.rows), made.open(shard, index, context)
    try:
        found = reader.read(rows, None)
    except BadRowsError as error:
        found = reader.read(np.setdiff1d(rows, [bad.row for bad in error.rows]), None)
    listed: Rows = found.column(0).to_pylist()
    return listed


def written(files: dict[str, bytes], name: str, options: dict[str, Any]) -> Rows:
    """The rows that are written there, read without any check; those with too large values left out."""
    data, window = files[name], options.get("window")
    rows: list[np.ndarray[Any, Any]]
    if name.endswith(".npy"):
        array = np.load(io.BytesIO(data), allow_pickle=False)
        rows = list(array) if window is None else _windows(array, window)
    elif name.endswith(".bin"):
        index = files[name.replace(".bin", ".idx")]
        code, sequences, bounds = struct.unpack_from("<BQQ", index, 17)
        lengths = np.frombuffer(index, "<i4", sequences, 34)
        pointers = np.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
        documents = np.frombuffer(index, "<i8", bounds, 34 + 12 * sequences)
        parts = [
            np.frombuffer(data, _TYPES[code], length, pointer)
            for length, pointer in zip(lengths, pointers, strict=True)
        ]
        rows = [np.concatenate([parts[0][:0], *parts[a:b]]) for a, b in pairwise(documents)]
    else:
        ends = np.frombuffer(files.get(f"{name}.index", b""), "<u8").tolist()
        size = len(data) // ends[-1] if ends and ends[-1] else int(name[7])
        tokens = np.frombuffer(data, f"<u{size}")
        rows = (
            [tokens[a:b] for a, b in zip([0, *ends], ends, strict=False)]
            if window is None
            else _windows(tokens, window)
        )
    return [row.tolist() for row in rows if row.dtype.kind != "u" or _fit(row)]


def _windows(array: np.ndarray[Any, Any], window: int) -> list[np.ndarray[Any, Any]]:
    return [array[start : start + window] for start in range(0, len(array) - window + 1, window)]


def _fit(row: np.ndarray[Any, Any]) -> bool:
    return row.dtype.itemsize < 4 or len(row) == 0 or int(row.max()) < 1 << (8 * row.dtype.itemsize - 1)


def fuzz(count: int, seed: int) -> Counter[str]:
    """Damage golden files ``count`` times.

    Returns:
        How often which came out: error codes, or "rows".

    Raises:
        AssertionError: rows that are not written there.
    """
    draw = random.Random(seed)
    outcomes: Counter[str] = Counter()
    golden = {path.name: path.read_bytes() for path in sorted(GOLDEN.iterdir())}
    names = [name for name in golden if name.endswith((".bin", ".ds", ".npy"))]
    for turn in range(count):
        name = names[turn % len(names)]
        options = {} if name.endswith((".bin", "2d.npy", "2.ds", "4.ds")) else {"window": 9}
        files = dict(golden)
        beside = [n for n in (name.replace(".bin", ".idx"), f"{name}.index", f"{name}.metadata") if n in files]
        target = draw.choice(beside if draw.random() < 0.8 else [name])
        files[target] = damaged(files[target], draw)
        try:
            found = ours(files, name, options)
        except (DataError, ConfigError) as error:
            outcomes[error.code] += 1
            continue
        outcomes["rows"] += 1
        # As text: a damaged float may be no number, which equals nothing.
        assert repr(found) == repr(written(files, name, options)), f"turn {turn}: {target} damaged, other rows"
    return outcomes


if __name__ == "__main__":
    print(dict(fuzz(int(sys.argv[1]), int(sys.argv[2]))))
