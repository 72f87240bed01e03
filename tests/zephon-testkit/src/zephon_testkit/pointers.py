"""Pointers as they can be compared, and a work source as a fresh interpreter sees it.

Run as ``python -m zephon_testkit.pointers``, with a list of :class:`Question` as JSON on standard input; prints the
digests of the pointers as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from zephon.abc import WorkSource
from zephon.block import Origins
from zephon.plugins import registry

#: Seconds a fresh interpreter may take.
PATIENCE = 120.0

#: A pointer by names: dataset, component, shard, row, epoch, phase.
Named = tuple[str, str, int, int, int, int]

#: What is read: lane, lanes, start, stop.
Reading = tuple[int, int, int, int]


def _own_array(rows: npt.ArrayLike) -> npt.NDArray[np.int64]:
    return np.array(rows, dtype=np.int64)


@attrs.frozen(slots=True)
class Sizes:
    """A dataset that is its name and its rows by shard, int64 ``[shards]``: all a curriculum may ask for."""

    name: str
    shard_rows: npt.NDArray[np.int64] = attrs.field(converter=_own_array, eq=attrs.cmp_using(eq=np.array_equal))


def named(source: WorkSource, origins: Origins) -> list[Named]:
    """Pointers with datasets and components by name, which mean the same to every instance."""
    datasets = [dataset.name for dataset in source.datasets]
    components = list(source.components)
    columns = (origins.dataset, origins.component, origins.shard, origins.row, origins.epoch, origins.phase)
    return [
        (datasets[dataset], components[component], shard, row, epoch, phase)
        for dataset, component, shard, row, epoch, phase in zip(*(c.tolist() for c in columns), strict=True)
    ]


def digest(source: WorkSource, readings: Sequence[Reading]) -> str:
    """A hash of the pointers of several ranges, of their order and of their names."""
    found = hashlib.sha256()
    for lane, lanes, start, stop in readings:
        found.update(json.dumps(named(source, source.read(lane, lanes, start, stop))).encode())
    return found.hexdigest()


@attrs.frozen(slots=True, kw_only=True)
class Question:
    """What a fresh interpreter is to make and to read.

    Attributes:
        plugin: registered name of the work source.
        settings: what it is made with beside datasets.
        datasets: rows by shard, by name of the dataset.
        readings: the ranges to read.
    """

    plugin: str
    settings: Mapping[str, Any]
    datasets: Mapping[str, Sequence[int]]
    readings: Sequence[Reading]

    def answer(self) -> str:
        """The digest, computed here."""
        datasets = [Sizes(name, rows) for name, rows in self.datasets.items()]
        source = registry("work_source").load(self.plugin)(datasets=datasets, **self.settings)
        return digest(source, self.readings)


def answers_elsewhere(questions: Sequence[Question]) -> list[str]:
    """The digests, computed by a fresh interpreter that seeds ``hash()`` otherwise than this one.

    Raises:
        AssertionError: it failed there, or did not come to an end.
    """
    path = os.pathsep.join(entry for entry in sys.path if entry)
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "zephon_testkit.pointers"],
            input=json.dumps([attrs.asdict(question) for question in questions]),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"a fresh interpreter has not answered after {PATIENCE:.0f} s") from error
    assert done.returncode == 0, f"in a fresh interpreter: {done.stderr.strip()}"
    answers: list[str] = json.loads(done.stdout.splitlines()[-1])
    return answers


if __name__ == "__main__":
    print(json.dumps([Question(**question).answer() for question in json.load(sys.stdin)]))
