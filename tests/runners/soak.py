"""Run for minutes with restarts at random moments, and see whether the resident set grows.

    python tests/runners/soak.py [--seconds 600] [--seed 0] [--slope 0.5]

Every stretch is restored from the checkpoint of the one before, with another runner, number of workers and number of
groups, on other block sizes, with workers killed meanwhile, and is left in the middle by an exception. Its rounds are
compared with those of one calm run that is never interrupted. After each stretch everything is closed and the resident
set is taken.

Ends with an error if a round differs, or if the slope over the last four fifths is above ``--slope`` MiB a minute with
95 % confidence.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

from chaos import Killer, OfProcesses, pipeline

from zephon.cli.rounds import Fleet, round_digest, row_digests
from zephon_fault_files import jsonl
from zephon_scripts import resident_without_spare
from zephon_slopes import slope
from zephon_workloads import heavy, slow_heavy

MIB = 1 << 20
#: Seconds of a stretch, at most.
LONGEST = 6.0
#: Seconds between two kills: longer than a worker needs to start on a busy machine, or a single one never gets to work.
BETWEEN_KILLS = 2.5


class Left(Exception):
    """What a training loop raises to end a stretch in the middle."""


def stretch(folder: Path, states: Any, chance: random.Random, calm: Iterator[str]) -> tuple[Any, int, str]:
    """One stretch: its states at the end, its rounds, and what it was.

    Raises:
        AssertionError: a round is not that of the calm run.
    """
    runner = chance.choice(["inline", "threads", "processes"])
    workers = 0 if runner == "inline" else chance.randint(1, 3)
    groups = chance.choice([1, 2, 4])
    isolate = groups == 1 and chance.random() < 0.3
    settings = {
        "runner": runner,
        "parallelism": workers,
        "block_rows": chance.choice([None, 3, 40]),
        "isolate": isolate,
    }
    until = time.monotonic() + chance.uniform(0.3, LONGEST)
    rounds = 0
    fleet = Fleet(lambda: pipeline(folder, slow_heavy), groups, **settings)
    try:
        if states is not None:
            fleet.restore(states)
        with suppress(Left), Killer(OfProcesses().victims, BETWEEN_KILLS, chance.randrange(1 << 30)):
            while True:
                found, expected = round_digest(fleet.round() or {}), next(calm)
                assert found == expected, f"round {rounds} of a stretch with {settings} and {groups} groups differs"
                rounds += 1
                if time.monotonic() > until:
                    raise Left
        return fleet.states(), rounds, f"{runner} x{workers}, {groups} groups" + (", isolated" if isolate else "")
    finally:
        fleet.close()


def soak(folder: Path, seconds: float, seed: int) -> tuple[list[int], int]:
    """Stretches for so many seconds: the resident set after each, and the rounds of all."""
    # Large enough for few passes: the orders of small shards are cached for every pass, which would look like growth.
    jsonl(folder / "web", [6000, 5000])
    jsonl(folder / "code", [6000])
    chance = random.Random(seed)
    sizes: list[int] = []
    states, total, begun, said = None, 0, time.monotonic(), 0.0
    with pipeline(folder, heavy, runner="inline", parallelism=0) as steady:
        calm = _rounds(steady)
        while time.monotonic() - begun < seconds:
            states, rounds, what = stretch(folder, states, chance, calm)
            total += rounds
            sizes.append(resident_without_spare())
            if time.monotonic() - said > 30:
                said = time.monotonic()
                print(
                    f"{said - begun:5.0f} s  {len(sizes):4} stretches  {sizes[-1] / MIB:6.1f} MiB  last: {what}",
                    flush=True,
                )
    return sizes, total


def _rounds(steady: Any) -> Iterator[str]:
    """The digests of the rounds of a run that is never interrupted."""
    batches = iter(steady)
    while True:
        lanes: dict[int, list[str]] = {}
        for _ in range(steady.slots_per_round):
            batch = next(batches)
            lanes.setdefault(batch.lane, []).extend(row_digests(batch))
        yield round_digest(lanes)


def main() -> int:
    """Soak, and judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slope", type=float, default=0.5)
    args = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zephon-soak-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of workers that were lost, and of topologies
        sizes, rounds = soak(Path(folder), args.seconds, args.seed)
    minutes = (time.monotonic() - begun) / 60
    grown = slope([size / MIB for size in sizes[len(sizes) // 5 :]])
    per_minute = len(sizes) / minutes
    value, margin = grown.value * per_minute, grown.margin * per_minute
    print(f"{minutes:.1f} min, {len(sizes)} stretches, {rounds} rounds, each as in the calm run")
    print(f"resident set {sizes[len(sizes) // 5] / MIB:.1f} -> {sizes[-1] / MIB:.1f} MiB, ", end="")
    print(f"slope {value:+.3f} +- {margin:.3f} MiB a minute (95 %)")
    return 1 if value - margin > args.slope else 0


if __name__ == "__main__":
    raise SystemExit(main())
