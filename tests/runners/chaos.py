"""Kill workers at random while a pipeline runs, and compare what it delivers with a calm run.

python tests/runners/chaos.py [--seconds 60] [--every 1.0] [--parallelism 2] [--seed 0]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from zephon import Pipeline
from zephon.cli.rounds import row_digests
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_fault_files import jsonl
from zephon_scripts import workers
from zephon_testkit.leaks import Holdings, holdings
from zephon_workloads import heavy, slow_heavy

SCHEMA = {"n": "int64", "value": "int64", "digest": "string"}


class Killer:
    """A thread that kills a random worker process every so many seconds.

    Args:
        every: seconds.
        seed: whom it hits.
        unless_still: wait for :meth:`moved` between two kills: on a machine that is slow enough nobody could get
            anything done otherwise.
    """

    def __init__(self, every: float, seed: int, *, unless_still: bool = False) -> None:
        self.kills = 0
        self._every = every
        self._patient = unless_still
        self._moved = threading.Event()
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer")

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._moved.set()
        self._thread.join()

    def moved(self) -> None:
        """Something got done."""
        self._moved.set()

    def _run(self) -> None:
        while not self._over.wait(self._every):
            if self._patient:
                self._moved.wait()
                self._moved.clear()
            victims = workers()
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(self._random.choice(victims), signal.SIGKILL)
                    self.kills += 1


def pipeline(folder: Path, function: Callable[[Any], Any], **options: Any) -> Pipeline:
    """An endless run over files, with state in its lanes."""
    source = StaticMixtureWorkSource(
        [Dataset.from_path("web", folder / "web"), Dataset.from_path("code", folder / "code")],
        {"web": 2, "code": 1},
        seed=5,
        shuffle_within_shard=True,
        chunk_size=16,
        exhausted_policy="repeat",
    )
    made = Pipeline(source).map_transform(function, schema=SCHEMA).shuffle(20).batch(4)
    return made.options(canonical_replicas=4, **options)


def chaos(
    folder: Path, seconds: float, *, every: float, parallelism: int, seed: int, patient: bool = False
) -> tuple[int, int]:
    """Run for so many seconds while workers are killed, then the same batches in calm.

    Returns:
        Batches compared, and workers killed.

    Raises:
        AssertionError: they differ, or something is left over.
    """
    jsonl(folder / "web", [150, 130])
    jsonl(folder / "code", [170])
    before = holdings()
    found: list[list[str]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of every worker that was lost
        run = pipeline(folder, slow_heavy, runner="processes", parallelism=parallelism)
        with run, Killer(every, seed, unless_still=patient) as killer:
            begun = time.monotonic()
            for batch in run:
                killer.moved()
                found.append(row_digests(batch))
                if time.monotonic() - begun > seconds:
                    break
    with pipeline(folder, heavy, runner="threads") as calm:
        batches = iter(calm)
        for number, rows in enumerate(found):
            assert row_digests(next(batches)) == rows, f"batch {number} of {len(found)} is another one"
    deadline = time.monotonic() + 5
    while left := _leftovers(before):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.05)
    return len(found), killer.kills


def _leftovers(before: Holdings) -> list[str]:
    """Everything that was not there before."""
    now = holdings()
    found: set[str] = set()
    for kind in ("threads", "children", "shared_memory"):
        found |= set(getattr(now, kind)) - set(getattr(before, kind))
    more = len(now.files) - len(before.files)
    return [*sorted(found), *([f"{more} files"] if more > 0 else [])]


def main() -> None:
    """Do it, and say what happened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zephon-chaos-") as folder:
        batches, kills = chaos(
            Path(folder), args.seconds, every=args.every, parallelism=args.parallelism, seed=args.seed
        )
    said = f"{batches} batches in {args.seconds:.0f} s, {kills} workers killed"
    print(f"{said}; every batch as in the calm run, nothing left behind")


if __name__ == "__main__":
    main()
