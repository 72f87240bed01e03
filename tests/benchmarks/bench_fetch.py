"""Fetch and batch: Parquet and JSON Lines of about 2 kB texts, against pyarrow's own scan on the same cores.

    python tests/benchmarks/bench_fetch.py [--rows 60000] [--passes 4] [--rounds 5]

Real text (Python's own library sources, cut at random places) in four shards of each format. Every round runs every
contestant once, in turn; the table gives medians of samples per second, start included, and the ratio to pyarrow
in the same run. pyarrow reads the same column of the same files whole, with its own threads; ours delivers microbatches
through ``Pipeline``, with the default settings but for the lanes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sysconfig
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

import zephon
from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

SHARDS = 4
TEXT = pa.schema([("text", pa.string())])


def make_corpus(folder: Path, rows: int) -> None:
    """Write the same rows as Parquet (row groups of 1,000) and as JSON Lines."""
    root = Path(sysconfig.get_paths()["stdlib"])
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(root.glob("*.py")))
    rng = np.random.default_rng(0)
    for shard in range(SHARDS):
        starts = rng.integers(0, len(source) - 4096, rows // SHARDS)
        lengths = rng.integers(1024, 3072, rows // SHARDS)
        texts = [source[a : a + n] for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
        table = pa.table({"text": texts, "id": np.arange(len(texts))})
        for name in ("parquet", "jsonl"):
            (folder / name).mkdir(exist_ok=True)
        pq.write_table(table, folder / "parquet" / f"{shard}.parquet", row_group_size=1000)
        with (folder / "jsonl" / f"{shard}.jsonl").open("w", encoding="utf-8") as file:
            for number, text in enumerate(texts):
                file.write(json.dumps({"text": text, "id": number}) + "\n")


def pyarrow_parquet(folder: Path, passes: int) -> int:
    """Rows of whole-file reads with threads: the fastest of pyarrow's ways, iter_batches takes 1.7 times as long."""
    paths = sorted((folder / "parquet").glob("*.parquet"))
    return sum(pq.read_table(path, columns=["text"]).num_rows for _ in range(passes) for path in paths)


def pyarrow_jsonl(folder: Path, passes: int) -> int:
    """Rows of a scan with the block parser, its threads on, parsing the one field."""
    options = pj.ParseOptions(explicit_schema=TEXT, unexpected_field_behavior="ignore")
    paths = sorted((folder / "jsonl").glob("*.jsonl"))
    return sum(pj.read_json(path, parse_options=options).num_rows for _ in range(passes) for path in paths)


def ours(folder: Path, name: str, passes: int, lanes: int, microbatch: int) -> int:
    """Rows that a pipeline delivers."""
    dataset = Dataset.from_path("x", folder / name, columns=["text"])
    work = StaticMixtureWorkSource(datasets=[dataset], mixture={"x": 1}, shuffle_shards=False, stop_after_passes=passes)
    pipeline = Pipeline(work).batch(microbatch).options(canonical_replicas=lanes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that fill no last round
        return sum(len(batch) for batch in pipeline)


def main() -> None:
    """Run all and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zephon-bench-") as temporary:
        folder = Path(temporary)
        make_corpus(folder, args.rows)
        contestants: dict[tuple[str, str], Callable[[], int]] = {}
        for name, scan in (("parquet", pyarrow_parquet), ("jsonl", pyarrow_jsonl)):
            contestants[name, "pyarrow scan"] = lambda scan=scan: scan(folder, args.passes)
            for lanes, microbatch in ((1, 8), (8, 8), (256, 8), (1, 64), (8, 64)):
                label = f"zephon, {lanes} lanes, microbatch {microbatch}"
                contestants[name, label] = lambda name=name, lanes=lanes, microbatch=microbatch: ours(
                    folder, name, args.passes, lanes, microbatch
                )
        speeds: dict[tuple[str, str], list[float]] = defaultdict(list)
        for _ in range(args.rounds):
            for key, contestant in contestants.items():
                begun = time.perf_counter()
                rows = contestant()
                speeds[key].append(rows / (time.perf_counter() - begun))
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"pyarrow {pa.__version__}, zephon {zephon.__version__}, load {os.getloadavg()[0]:.1f}\n")
    print("| format | contestant | samples/s | spread | of pyarrow's scan |\n| --- | --- | ---: | ---: | ---: |")
    for (name, label), values in speeds.items():
        median = statistics.median(values)
        base = statistics.median(speeds[name, "pyarrow scan"])
        spread = (max(values) - min(values)) / median
        print(f"| {name} | {label} | {median:,.0f} | {spread:.0%} | {median / base:.2f} |")


if __name__ == "__main__":
    main()
