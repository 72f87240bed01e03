"""What a checkpoint and a restore cost, with shuffle, tokenize and packing, on the demo's corpus.

    python tests/benchmarks/bench_resume.py [--rounds 5]

8 lanes, microbatches of 4 rows of 1,025 tokens. ``checkpoint()`` is timed in mid-run with the engine working on; the
first batch of a fresh start and of a restore are timed in turn, each in a new pipeline, the restore at several steps.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import zephon
from zephon import Pipeline
from zephon.abc import CheckpointState
from zephon.cli.demo import corpus

LANES = 8
STEPS = (1, 10, 60)


def first_batch(recipe: Path, state: CheckpointState | None) -> float:
    """Seconds from an empty pipeline to its first batch."""
    begun = time.perf_counter()
    with Pipeline.from_spec(recipe) as pipeline:
        if state is not None:
            pipeline.restore(state)
        next(iter(pipeline))
        return time.perf_counter() - begun


def states_at(recipe: Path, steps: tuple[int, ...]) -> tuple[dict[int, CheckpointState], dict[int, list[float]]]:
    """States after these rounds of one run, and the times of some checkpoints at each."""
    states, seconds = {}, {}
    with Pipeline.from_spec(recipe) as pipeline:
        batches = iter(pipeline)
        for step in range(1, max(steps) + 1):
            for _ in range(LANES):
                next(batches)
            if step in steps:
                seconds[step] = []
                for _ in range(9):
                    begun = time.perf_counter()
                    states[step] = pipeline.checkpoint()
                    seconds[step].append(time.perf_counter() - begun)
    return states, seconds


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    data = corpus.default_folder()
    corpus.prepare(data)
    with tempfile.TemporaryDirectory(prefix="zephon-bench-") as temporary:
        recipe = corpus.write_recipe(data, Path(temporary) / "recipe.toml", lanes=LANES, microbatch=4)
        states, seconds = states_at(recipe, STEPS)
        fresh: list[float] = []
        restored: dict[int, list[float]] = {step: [] for step in STEPS}
        for _ in range(args.rounds):
            fresh.append(first_batch(recipe, None))
            for step in STEPS:
                restored[step].append(first_batch(recipe, states[step]))
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"pyarrow {pa.__version__}, zephon {zephon.__version__}, load {os.getloadavg()[0]:.1f}\n")
    print("| step | checkpoint() ms | bytes | restore to first batch s | of a fresh start |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    base = statistics.median(fresh)
    print(f"| fresh | | | {base:.2f} | 1.00 |")
    for step in STEPS:
        size = len(states[step]["header"]) + sum(map(len, states[step]["lanes"].values()))
        again = statistics.median(restored[step])
        cost = 1000 * statistics.median(seconds[step])
        print(f"| {step} | {cost:.1f} | {size:,} | {again:.2f} | {again / base:.2f} |")


if __name__ == "__main__":
    main()
