"""Kill workers at random while a pipeline runs, and compare what it delivers with a calm run.

    python tests/runners/chaos.py [--runner processes] [--seconds 60] [--every 1.0] [--parallelism 2] [--seed 0]

With ``--runner ray`` a cluster of three nodes is started on this machine; its workers are killed, and every tenth time
a node with all that is on it, which is then replaced.
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
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from zephon import Pipeline
from zephon.cli.rounds import row_digests
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_fault_files import jsonl
from zephon_scripts import command_of, descendants, workers
from zephon_testkit.leaks import Holdings, holdings
from zephon_workloads import heavy, slow_heavy

SCHEMA = {"n": "int64", "value": "int64", "digest": "string"}


class Trouble(Protocol):
    """What can be killed."""

    def victims(self) -> list[int]:
        """Process ids of the workers that run now."""

    def strike(self, count: int) -> None:
        """Whatever else there is to break, after so many kills. Called by the main thread, as Ray demands for nodes."""

    def leftovers(self, before: Holdings) -> list[str]:
        """What the run has left behind, compared with what there was."""


class OfProcesses:
    """Workers of the process runner."""

    def victims(self) -> list[int]:
        """Children of this process."""
        return workers()

    def strike(self, count: int) -> None:
        """Nothing."""

    def leftovers(self, before: Holdings) -> list[str]:
        """All that was not there before."""
        now = holdings()
        found = sorted({*now.threads, *now.shared_memory, *now.children} - {*before.threads, *before.shared_memory})
        more = len(now.files) - len(before.files)
        return [*found, *([f"{more} files"] if more > 0 else [])]


class OfRay:
    """Actors and nodes of a cluster on this machine."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._node = cluster.add_node(num_cpus=2, object_store_memory=120 << 20)

    def victims(self) -> list[int]:
        """Processes that Ray has given work to; it names them so."""
        names = {pid: command_of(pid) for pid in descendants(os.getpid())}
        return [pid for pid, name in names.items() if name.startswith("ray::") and "IDLE" not in name]

    def strike(self, count: int) -> None:
        """Every tenth time, lose a node, and get another."""
        if count % 10 == 5:
            self._cluster.remove_node(self._node, allow_graceful=False)
            self._node = self._cluster.add_node(num_cpus=2, object_store_memory=120 << 20)

    def leftovers(self, before: Holdings) -> list[str]:
        """Actors, and threads of ours; what Ray opens for a new node is Ray's."""
        threads = set(holdings().threads) - set(before.threads)
        actors = [f"actor process {pid}" for pid in self.victims()]
        return [*actors, *sorted(thread for thread in threads if thread.startswith("zephon"))]


class Killer:
    """A thread that kills a random worker every so many seconds."""

    def __init__(self, trouble: Trouble, every: float, seed: int) -> None:
        self.kills = 0
        self._trouble = trouble
        self._every = every
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer")

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every):
            victims = self._trouble.victims()
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
    folder: Path, runner: str, trouble: Trouble, seconds: float, *, every: float, parallelism: int, seed: int
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
        run = pipeline(folder, slow_heavy, runner=runner, parallelism=parallelism)
        with run, Killer(trouble, every, seed) as killer:
            begun, struck = time.monotonic(), 0
            for batch in run:
                found.append(row_digests(batch))
                if killer.kills > struck:
                    struck = killer.kills
                    trouble.strike(struck)
                if time.monotonic() - begun > seconds:
                    break
    with pipeline(folder, heavy, runner="threads") as calm:
        for number, (batch, rows) in enumerate(zip(calm, found, strict=False)):
            assert row_digests(batch) == rows, f"batch {number} of {len(found)} is another one"
    deadline = time.monotonic() + 5
    while left := trouble.leftovers(before):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.05)
    return len(found), killer.kills


@contextmanager
def trouble_of(runner: str) -> Iterator[Trouble]:
    """What there is to be broken, started if need be."""
    if runner == "processes":
        yield OfProcesses()
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.pop("RAY_ADDRESS", None)
    os.environ["PYTHONPATH"] = sys.path[0]  # Ray's workers do not get that of this process
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "object_store_memory": 120 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=2, object_store_memory=120 << 20)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield OfRay(cluster)
    finally:
        ray.shutdown()
        cluster.shutdown()


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
            Path(folder),
            args.runner,
            trouble,
            args.seconds,
            every=args.every,
            parallelism=args.parallelism,
            seed=args.seed,
        )
    said = f"{batches} batches in {args.seconds:.0f} s, {kills} workers killed"
    print(f"{args.runner}: {said}; every batch as in the calm run, nothing left behind")


if __name__ == "__main__":
    main()
