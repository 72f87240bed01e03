"""What the loader takes from a training loop that is busy in pure Python, with and without ``isolate=True``.

    python tests/benchmarks/bench_isolate.py [--rounds 15] [--steps 100]

The loop does the same arithmetic for some milliseconds a step and takes one batch. It is run with batches that are
there already (its own speed), with the loader in its process, and with the loader isolated; in short rounds that begin
with another of the three each time, as machines are faster at one time than at another; medians of the ratios within
a round. The loader tokenizes nothing: reading, a shuffle, and batches of 64 rows of 2 kB of text, from memory.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from itertools import cycle, islice

import pyarrow as pa

import zephon
from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

VARIANTS = {"loader in the training process": False, "isolate=True": True}


def busy(iterations: int) -> int:
    """Pure Python that holds the interpreter lock."""
    total = 0
    for i in range(iterations):
        total += i * i % 7
    return total


def calibrated(seconds: float) -> int:
    """Iterations that take so long."""
    begun = time.perf_counter()
    busy(200_000)
    return int(200_000 * seconds / (time.perf_counter() - begun))


def pipeline(rows: Dataset, *, isolate: bool) -> Pipeline:
    """An endless run over the rows."""
    source = StaticMixtureWorkSource([rows], {"rows": 1}, seed=1, exhausted_policy="repeat")
    made: Pipeline = Pipeline(source).shuffle(buffer_size=1000).batch(64)
    return made.options(canonical_replicas=2, isolate=isolate)


def steps_per_second(batches, steps: int, iterations: int) -> float:
    """The loop's speed, once the loader has started, filled its buffers and found its pace."""
    for _ in islice(batches, 100):
        busy(iterations)
    begun = time.perf_counter()
    for _ in islice(batches, steps):
        busy(iterations)
    return steps / (time.perf_counter() - begun)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-ms", type=float, default=10.0)
    args = parser.parse_args()
    rows = Dataset.from_dict("rows", pa.table({"n": range(20_000), "text": ["x" * 2000] * 20_000}))
    iterations = calibrated(args.step_ms / 1000)
    speeds: dict[str, list[float]] = {"no loader": [], **{name: [] for name in VARIANTS}}
    names = list(speeds)
    for round_ in range(args.rounds):
        for name in names[round_ % 3 :] + names[: round_ % 3]:
            if name == "no loader":
                speeds[name].append(steps_per_second(cycle([None]), args.steps, iterations))
                continue
            with pipeline(rows, isolate=VARIANTS[name]) as running:
                speeds[name].append(steps_per_second(iter(running), args.steps, iterations))
    print(f"zephon {zephon.__version__}, Python {platform.python_version()}, {os.cpu_count()} CPUs, {sys.platform}")
    print(f"{args.rounds} rounds of {args.steps} steps of about {args.step_ms:.0f} ms of pure Python")
    print(f"{'':34}{'steps/s':>10}{'spread':>16}{'of its own speed':>20}{'best of best':>15}")
    own = speeds["no loader"]
    for name, found in speeds.items():
        share = statistics.median(a / b for a, b in zip(found, own, strict=True))
        spread = f"{min(found):.1f}-{max(found):.1f}"
        print(f"{name:34}{statistics.median(found):>10.1f}{spread:>16}{share:>19.1%}{max(found) / max(own):>15.1%}")


if __name__ == "__main__":
    main()
