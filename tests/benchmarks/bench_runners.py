"""Where row operators run: inline, threads, processes and ``auto``, on three kinds of pipeline.

    python tests/benchmarks/bench_runners.py [--rows 6000] [--rounds 5] [--parallelism 2] [--kinds KIND ...]

Real text (Python's own library sources, cut at random places) in four Parquet shards of about 2 kB rows. The heavy map
is pure Python and holds the interpreter lock: processes must deliver at least 1.7 times the rows of one core on two.
The light map is Python as well, but about as much goes into sending its rows and making batches, and the expression
releases the lock: both are to stay on threads. Every round runs every contestant once, in turn, and their ratios are
taken within the round; the table gives medians of the rounds, start of the workers included, and where ``auto`` ended.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sysconfig
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import zephon
from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

SHARDS = 4


def make_corpus(folder: Path, rows: int) -> None:
    """Write the rows as Parquet, in row groups of 500."""
    root = Path(sysconfig.get_paths()["stdlib"])
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(root.glob("*.py")))
    rng = np.random.default_rng(0)
    for shard in range(SHARDS):
        starts = rng.integers(0, len(source) - 4096, rows // SHARDS)
        lengths = rng.integers(1024, 3072, rows // SHARDS)
        texts = [source[a : a + n] for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
        pq.write_table(pa.table({"text": texts}), folder / f"{shard}.parquet", row_group_size=500)


def heavy(row: dict[str, Any]) -> dict[str, Any]:
    """Half a millisecond of plain Python a row: character trigrams, counted."""
    text = row["text"]
    counts = Counter(text[i : i + 3] for i in range(len(text) - 2))
    score = sum(count * count for count in counts.values())
    for _ in range(3):
        score ^= sum(ord(character) for character in text)
    return {"text": text, "score": score}


def light(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its length."""
    return {"text": row["text"], "score": len(row["text"])}


def run(folder: Path, kind: str, passes: int, runner: str, parallelism: int) -> tuple[int, str]:
    """Rows delivered, and where the first stage ran in the end."""
    dataset = Dataset.from_path("x", folder, columns=["text"])
    work = StaticMixtureWorkSource(datasets=[dataset], mixture={"x": 1}, stop_after_passes=passes)
    schema = {"text": "string", "score": "int64"}
    made: Any = Pipeline(work)
    if kind == "expression":
        made = made.filter(pc.field("text") != "").filter(pc.utf8_length(pc.field("text")) > 1)
    else:
        made = made.map_transform(heavy if kind == "heavy map" else light, schema=schema, drop_none=False)
    pipeline = made.batch(8).options(canonical_replicas=4, runner=runner, parallelism=parallelism)
    with pipeline, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that fill no last round
        rows = sum(len(batch) for batch in pipeline)
        return rows, next(iter(pipeline.stats()["runners"].values()))["runner"]


def main() -> None:
    """Run all and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", default=["heavy map", "light map", "expression"])
    args = parser.parse_args()
    runners = {"inline": 0, "threads": args.parallelism, "processes": args.parallelism, "auto": args.parallelism}
    passes = {"heavy map": 8, "light map": 60, "expression": 200}
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    rows: dict[str, int] = {}
    ended: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory(prefix="zephon-bench-") as temporary:
        folder = Path(temporary)
        make_corpus(folder, args.rows)
        for _ in range(args.rounds):
            for kind in args.kinds:
                for runner, parallelism in runners.items():
                    begun = time.perf_counter()
                    rows[kind], where = run(folder, kind, passes[kind], runner, parallelism)
                    seconds[kind, runner].append(time.perf_counter() - begun)
                    ended[kind, runner][where] += 1
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"pyarrow {pa.__version__}, zephon {zephon.__version__}, load {os.getloadavg()[0]:.1f}\n")
    print("| pipeline | runner | rows/s | spread | of inline, same round | ended on |")
    print("| --- | --- | ---: | ---: | ---: | --- |")
    for (kind, runner), values in seconds.items():
        median = statistics.median(values)
        ratios = [base / value for base, value in zip(seconds[kind, "inline"], values, strict=True)]
        where = ", ".join(f"{name} {times}x" for name, times in ended[kind, runner].most_common())
        spread = (max(values) - min(values)) / median
        label = f"{runner}, {runners[runner]}" if runners[runner] else runner
        ratio = statistics.median(ratios)
        print(f"| {kind} | {label} | {rows[kind] / median:,.0f} | {spread:.0%} | {ratio:.2f} | {where} |")


if __name__ == "__main__":
    main()
