"""Parquet: a full scan through the shard reader, beside what pyarrow alone takes for the same columns.

Run it::

    python tests/benchmarks/bench_parquet_reader.py [--megabytes 120] [--rounds 7]

Texts of about 2 kB with an id and a language beside them, in row groups of 1,000 and of 8,000 rows, compressed with
snappy and with zstd. One and all columns are read, row group by row group as a run does, then in blocks of 1,024 rows,
which decode the small row groups they end in twice. Everything runs on one thread, in turns; the figures are medians of
processor time, so that they can be read on a busy machine. Budget: at least half of what pyarrow scans.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from zephon.abc import FileInfo, Shard
from zephon.io.storage import StorageContext, Storages
from zephon_parquet.format import ParquetFormat

BLOCK_ROWS = 1024


def table_of(megabytes: int) -> pa.Table:
    """Rows of some 2 kB."""
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlucmfwyp", k=draw.randint(1, 9))) for _ in range(20_000)]
    rows = megabytes * 1_000_000 // 2_000
    texts = [" ".join(draw.choices(words, k=330)) for _ in range(rows)]
    return pa.table({"id": np.arange(rows), "text": texts, "lang": [f"l{i % 30}" for i in range(rows)]})


def shard_of(path: Path) -> Shard:
    info = FileInfo(url=str(path), name=path.name, size=path.stat().st_size)
    return Shard(url=str(path), name=path.name, file=info)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    table = table_of(options.megabytes)
    print(f"{table.num_rows} rows, {table.nbytes / 1e6:.0f} MB in memory; medians of {options.rounds} rounds, MB/s")
    print("ratio: the reader's speed over that of pyarrow's faster scan")
    with tempfile.TemporaryDirectory() as directory:
        for compression in ("snappy", "zstd"):
            for group_rows in (1000, 8000):
                path = Path(directory) / f"{compression}-{group_rows}.parquet"
                pq.write_table(table, path, row_group_size=group_rows, compression=compression)
                for columns in (["text"], table.column_names):
                    compare(path, columns, table.select(columns).nbytes, options.rounds)


def compare(path: Path, columns: list[str], nbytes: int, rounds: int) -> None:
    context = StorageContext(Storages())
    shard = shard_of(path)
    index = ParquetFormat().index(shard, context)
    assert index.units is not None
    units = list(pairwise(index.units.tolist()))
    blocks = list(pairwise([*range(0, index.rows, BLOCK_ROWS), index.rows]))

    def by_reader(cuts: list[tuple[int, int]]) -> int:
        reader = ParquetFormat().open(shard, index, context)
        rows = sum(reader.read(np.arange(start, stop), columns).num_rows for start, stop in cuts)
        reader.close()
        return rows

    def by_iter_batches() -> int:
        with pq.ParquetFile(path) as file:
            return sum(b.num_rows for b in file.iter_batches(BLOCK_ROWS, columns=columns, use_threads=False))

    def by_dataset() -> int:
        scanner = pads.dataset(path).scanner(columns=columns, use_threads=False)
        return sum(batch.num_rows for batch in scanner.to_batches())

    contestants: dict[str, Callable[[], int]] = {
        "pyarrow iter_batches": by_iter_batches,
        "pyarrow dataset": by_dataset,
        "reader, row groups": lambda: by_reader(units),
        "reader, blocks of 1024": lambda: by_reader(blocks),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds + 1):  # the first warms caches and is not counted
        for name, run in contestants.items():
            start = time.process_time()
            rows = run()
            times[name].append(time.process_time() - start)
            assert rows == index.rows
    medians = {name: statistics.median(taken[1:]) for name, taken in times.items()}
    alone = min(medians["pyarrow iter_batches"], medians["pyarrow dataset"])
    print(f"\n{path.stem}, {len(units)} row groups, columns {', '.join(columns)}")
    for name, taken in medians.items():
        ratio = f"   ratio {alone / taken:.2f}" if name.startswith("reader") else ""
        print(f"  {name:28}{nbytes / 1e6 / taken:8.0f}{ratio}")


if __name__ == "__main__":
    main()
