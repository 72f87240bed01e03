"""Kill workers at random while a pipeline runs, and compare what it delivers with a calm run.

python tests/runners/chaos.py [--runner processes] [--seconds 60] [--every 1.0] [--parallelism 2] [--seed 0]

With ``--runner ray`` a cluster of three nodes is started on this machine; its workers are killed, and with every eighth
of them a node with all that is on it, which is then replaced.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from zephon import Pipeline
from zephon.cli.rounds import row_digests
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_fault_files import jsonl
from zephon_ray_cluster import NODE, ray_cluster
from zephon_scripts import workers
from zephon_testkit.leaks import Holdings, holdings
from zephon_workloads import heavy, slow_heavy

SCHEMA = {"n": "int64", "value": "int64", "digest": "string"}
#: With how many workers killed something greater is broken, for the first time half way there.
STRIKE_EVERY = 8


class OfProcesses:
    """What there is to be broken where workers are children of this process."""

    name = "processes"

    def victims(self) -> list[int]:
        """Process ids of the workers that run now."""
        return workers()

    def strike(self) -> None:
        """Break something greater: there is nothing."""

    def leftovers(self, before: Holdings) -> list[str]:
        """Everything that was not there before."""
        now = holdings()
        found: set[str] = set()
        for kind in ("threads", "children", "shared_memory"):
            found |= set(getattr(now, kind)) - set(getattr(before, kind))
        more = len(now.files) - len(before.files)
        return [*sorted(found), *([f"{more} files"] if more > 0 else [])]


class OfRay:
    """The same where workers are actors of a cluster."""

    name = "ray"

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._node = cluster.add_node(**NODE)

    def victims(self) -> list[int]:
        """Process ids of the actors; Ray has processes call themselves by what they do."""
        return workers(module="ray::Worker")

    def strike(self) -> None:
        """Lose a node, and get another."""
        self._cluster.remove_node(self._node, allow_graceful=False)
        self._node = self._cluster.add_node(**NODE)

    def leftovers(self, before: Holdings) -> list[str]:
        """Actors, and threads of ours; what Ray opens for a new node is Ray's."""
        threads = set(holdings().threads) - set(before.threads)
        actors = [f"actor process {pid}" for pid in self.victims()]
        return [*actors, *sorted(thread for thread in threads if thread.startswith("zephon"))]


class Killer:
    """A thread that kills a random worker process every so many seconds.

    Args:
        victims: process ids of the workers that run now.
        every: seconds.
        seed: whom it hits.
        unless_still: wait for :meth:`moved` between two kills: on a machine that is slow enough nobody could get
            anything done otherwise.
    """

    def __init__(
        self, victims: Callable[[], list[int]], every: float, seed: int, *, unless_still: bool = False
    ) -> None:
        self.kills = 0
        self._victims = victims
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
            victims = self._victims()
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
    trouble: OfProcesses | OfRay,
    folder: Path,
    seconds: float,
    *,
    every: float,
    parallelism: int,
    seed: int,
    patient: bool = False,
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
        run = pipeline(folder, slow_heavy, runner=trouble.name, parallelism=parallelism)
        with run, Killer(trouble.victims, every, seed, unless_still=patient) as killer:
            begun, strikes = time.monotonic(), 0
            for batch in run:
                killer.moved()
                found.append(row_digests(batch))
                if (killer.kills + STRIKE_EVERY // 2) // STRIKE_EVERY > strikes:
                    strikes += 1
                    trouble.strike()  # on the main thread, as Ray demands for nodes
                if time.monotonic() - begun > seconds:
                    break
    with pipeline(folder, heavy, runner="threads") as calm:
        batches = iter(calm)
        for number, rows in enumerate(found):
            assert row_digests(next(batches)) == rows, f"batch {number} of {len(found)} is another one"
    deadline = time.monotonic() + 5
    while left := trouble.leftovers(before):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.05)
    return len(found), killer.kills


@contextmanager
def trouble_of(runner: str) -> Iterator[OfProcesses | OfRay]:
    """What there is to be broken, started if need be."""
    if runner == "processes":
        yield OfProcesses()
        return
    with ray_cluster() as cluster:
        yield OfRay(cluster)


def main() -> None:
    """Do it, and say what happened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runner", choices=["processes", "ray"], default="processes")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zephon-chaos-") as folder, trouble_of(args.runner) as trouble:
        batches, kills = chaos(
            trouble, Path(folder), args.seconds, every=args.every, parallelism=args.parallelism, seed=args.seed
        )
    said = f"{batches} batches in {args.seconds:.0f} s, {kills} workers killed"
    print(f"{args.runner}: {said}; every batch as in the calm run, nothing left behind")


if __name__ == "__main__":
    main()
