"""What a pointer costs: reading the curriculum in blocks of 4,096, at position 0 and at 10**12.

    python tests/benchmarks/bench_curriculum.py [--rounds 7]

Three datasets of a million rows in a thousand shards each, 32 lanes, an endless mixture, every order of rows. The
budget is 0.2 microseconds a pointer, the same at both ends.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from typing import Any

import numpy as np

import zephon
from zephon.work import StaticMixtureWorkSource

LANES = 32
BLOCK = 4096
FAR = 10**12 // LANES
ORDERS: dict[str, dict[str, Any]] = {
    "as it lies": {"shuffle_shards": False},
    "shards shuffled (default)": {},
    "within shards": {"shuffle_within_shard": True},
    "windows, auto": {"shuffle_block_size": "auto"},
    "everything": {"shuffle_block_size": "global"},
}


class Rows:
    """A dataset that is only counted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shard_rows = np.full(1000, 1000, dtype=np.int64)


def nanoseconds(source: StaticMixtureWorkSource, start: int) -> float:
    """CPU time of a pointer, over 16 blocks."""
    begun = time.process_time()
    for i in range(16):
        source.read(i % LANES, LANES, start + i * BLOCK, start + (i + 1) * BLOCK)
    return (time.process_time() - begun) / (16 * BLOCK) * 1e9


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    datasets = [Rows(name) for name in ("books", "code", "web")]
    mixture = {"web": 0.7, "code": 0.2, "books": 0.1}
    sources = {
        label: StaticMixtureWorkSource(datasets=datasets, mixture=mixture, exhausted_policy="repeat", **order)
        for label, order in ORDERS.items()
    }
    times: dict[tuple[str, int], list[float]] = {(label, at): [] for label in ORDERS for at in (0, FAR)}
    for _ in range(args.rounds):
        for (label, at), measured in times.items():
            measured.append(nanoseconds(sources[label], at))
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"numpy {np.__version__}, zephon {zephon.__version__}, load {os.getloadavg()[0]:.1f}\n")
    print("| order | ns at 0 | ns at 10^12 |\n| --- | ---: | ---: |")
    for label in ORDERS:
        print(f"| {label} | {statistics.median(times[label, 0]):.0f} | {statistics.median(times[label, FAR]):.0f} |")


if __name__ == "__main__":
    main()
