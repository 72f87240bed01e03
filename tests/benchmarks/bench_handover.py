"""Blocks of 64 MB handed from a worker process to the training process, against copying as many bytes.

    python tests/benchmarks/bench_handover.py [--megabytes 64] [--rounds 31]

Every round does each of these once, in turn, and ratios are taken within the round:

copy        ``memcpy`` of a block into fresh memory. Most of it is the kernel's, which hands out zeroed pages
copy again  the same into memory that was used before
hand-over   a task that does nothing, whose result is a block: submit it, receive it. The worker writes the block into
            shared memory, and the training process uses it where it lies until nothing refers to it any more
in a row    the same with two workers and a task always waiting for each: what a run sees

The budget is 2 for ``hand-over`` over ``copy``.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pyarrow as pa

import zephon
from zephon.block import Block, Origins
from zephon_processes._runner import ProcessRunner
from zephon_testkit.blocks import sample_origins

IN_A_ROW = 6
ROWS = 4096


def make_block(size: int) -> Block:
    """Binary rows, one column."""
    raw = np.random.default_rng(0).bytes(size)
    step = size // ROWS
    offsets = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32) * step)
    column = pa.Array.from_buffers(pa.binary(), ROWS, [None, offsets, pa.py_buffer(raw)])
    origins: Origins = sample_origins(ROWS)
    return Block(pa.RecordBatch.from_arrays([column], names=["raw"]), origins)


class Gives:
    """A program whose every result is the same block."""

    def __init__(self, size: int) -> None:
        self.size = size

    def open(self) -> Callable[[Any], Any]:
        """Make the block."""
        block = make_block(self.size)
        return lambda task: block


def copied(source: memoryview, target: pa.Buffer) -> None:
    """One ``memcpy``."""
    memoryview(target).cast("B")[:] = source


def main() -> None:
    """Run all and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=31)
    args = parser.parse_args()
    size = args.megabytes << 20
    source = memoryview(make_block(size).data.column(0).buffers()[2]).cast("B")
    used = pa.allocate_buffer(size)
    one, two = ProcessRunner(parallelism=1), ProcessRunner(parallelism=2)
    for runner in (one, two):
        runner.start([Gives(size)])
    waiting: list[Future[Any]] = [two.submit(0, None) for _ in range(2)]

    def in_a_row() -> None:
        for _ in range(IN_A_ROW):
            waiting.append(two.submit(0, None))
            waiting.pop(0).result()

    def receive() -> int:
        return len(one.submit(0, None).result())

    contestants: dict[str, tuple[int, Callable[[], object]]] = {
        "copy": (1, lambda: copied(source, pa.allocate_buffer(size))),
        "copy again": (1, lambda: copied(source, used)),
        "hand-over": (1, receive),
        "in a row": (IN_A_ROW, in_a_row),
    }
    for _, contestant in contestants.values():  # workers start, and segments are made
        contestant()
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(args.rounds):
        for name, (blocks, contestant) in contestants.items():
            begun = time.perf_counter()
            contestant()
            times[name].append((time.perf_counter() - begun) / blocks)
    for runner in (one, two):
        runner.close()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"pyarrow {pa.__version__}, zephon {zephon.__version__}, load {os.getloadavg()[0]:.1f}\n")
    print(f"| {args.megabytes} MB | ms a block | GB/s | of copy |\n| --- | ---: | ---: | ---: |")
    for name, values in times.items():
        median = statistics.median(values)
        ratio = statistics.median(value / base for value, base in zip(values, times["copy"], strict=True))
        print(f"| {name} | {1000 * median:.1f} | {size / median / 1e9:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
