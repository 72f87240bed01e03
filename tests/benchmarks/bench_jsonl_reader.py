"""JSON Lines: reading in blocks and indexing, beside what pyarrow alone takes for the same bytes.

Run it::

    python tests/benchmarks/bench_jsonl_reader.py [--megabytes 100] [--rounds 5]

Texts of about 2 kB with an id and a nested record beside them; one column is read. Everything runs on one thread, in
turns, so that a busy machine slows all alike; the figures are medians. Budget (docs/design, 13): reading blocks of 1024
rows within 1.5 times of pyarrow's own scan.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pj
import zstandard

from zephon.abc import FileInfo, Shard
from zephon.io.storage import StorageContext, Storages
from zephon_jsonl.shards import JsonlFormat

BLOCK_ROWS = 1024
WORDS = [
    "the",
    "of",
    "a",
    "training",
    "language",
    "model",
    "data",
    "(see",
    "3.1)",
    "café",
    "“quoted”",
    "tokens\n\n",
    "42",
]
Rows = npt.NDArray[np.int64]


def write_file(path: Path, megabytes: int) -> int:
    """Some 2 kB of text a row; returns the rows."""
    draw = random.Random(0)
    rows = size = 0
    with open(path, "wb") as file:
        while size < megabytes * 1_000_000:
            text = " ".join(draw.choices(WORDS, k=320))
            meta = {"url": f"https://example.org/{rows}", "score": draw.random(), "tags": ["a", "b"]}
            line = json.dumps({"id": rows, "text": text, "meta": meta}, ensure_ascii=False).encode() + b"\n"
            size += file.write(line)
            rows += 1
    return rows


def shard_of(path: Path) -> Shard:
    return Shard(url=str(path), name=path.name, file=FileInfo(url=str(path), size=path.stat().st_size))


def alone(path: Path, columns: dict[str, pa.DataType]) -> int:
    """Pyarrow's own scan, strings only, in its default blocks."""
    options = pj.ParseOptions(explicit_schema=pa.schema(list(columns.items())), unexpected_field_behavior="ignore")
    return pj.read_json(path, read_options=pj.ReadOptions(use_threads=False), parse_options=options).num_rows


def infer_alone(path: Path) -> int:
    return pj.read_json(path, read_options=pj.ReadOptions(use_threads=False)).num_rows


class Subject:
    """One indexed shard."""

    def __init__(self, path: Path) -> None:
        self.shard = shard_of(path)
        self.context = StorageContext(Storages())
        self.format = JsonlFormat()
        self.index = self.format.index(self.shard, self.context)

    def read(self, blocks: Sequence[Rows]) -> int:
        reader = self.format.open(self.shard, self.index, self.context)
        return sum(reader.read(rows, ["text"]).num_rows for rows in blocks)

    def reindex(self) -> int:
        return self.format.index(self.shard, self.context).rows


def measure(cases: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """Median seconds by case, the cases taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds + 1):
        for name, case in cases.items():
            start = time.perf_counter()
            case()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values[1:]) for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as folder:
        plain, gz, zst = (Path(folder) / f"rows.jsonl{suffix}" for suffix in ("", ".gz", ".zst"))
        rows = write_file(plain, arguments.megabytes)
        gz.write_bytes(gzip.compress(plain.read_bytes(), 6))
        zst.write_bytes(zstandard.compress(plain.read_bytes()))
        subjects = {path.suffix: Subject(path) for path in (plain, gz, zst)}
        count = -(-rows // BLOCK_ROWS)
        every = np.array_split(np.arange(rows), count)
        # As a shuffle within the shard asks for rows: each block's from all over the file.
        scattered = [np.arange(start, rows, count) for start in range(count)]
        times = measure(
            {
                "pyarrow, one column": lambda: alone(plain, {"text": pa.string()}),
                "read, blocks of 1024": lambda: subjects[".jsonl"].read(every),
                "read, blocks of scattered rows": lambda: subjects[".jsonl"].read(scattered),
                "read gzip, blocks of 1024": lambda: subjects[".gz"].read(every),
                "read zstd, blocks of 1024": lambda: subjects[".zst"].read(every),
                "pyarrow, types inferred": lambda: infer_alone(plain),
                "index": subjects[".jsonl"].reindex,
                "index gzip": subjects[".gz"].reindex,
                "index zstd": subjects[".zst"].reindex,
            },
            arguments.rounds,
        )
        size = plain.stat().st_size / 1e6
        print(f"{rows} rows, {size:.0f} MB of text; one thread; medians of {arguments.rounds}")
        for name, seconds in times.items():
            base = times["pyarrow, types inferred" if "index" in name else "pyarrow, one column"]
            print(f"{name:32} {size / seconds:7.0f} MB/s {rows / seconds:10.0f} rows/s {seconds / base:6.2f}x")


if __name__ == "__main__":
    main()
