"""States of real pipelines, for the suite of checkpoint stores."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from zephon import Pipeline
from zephon.abc import CheckpointState
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_testkit.incomplete import Incomplete

LANES: Final = 4
#: Rounds a run has.
ROUNDS: Final = 4
_ROWS_PER_BATCH: Final = 4


def pipeline(rank: int = 0, degree: int = 1, block_rows: int = 1) -> Pipeline:
    """One rank of a small run; what it delivers does not depend on the arguments.

    Raises:
        Incomplete: there is no operator ``batch``.
    """
    from zephon.plugins import registry

    draw = random.Random(7)
    count = LANES * ROUNDS * _ROWS_PER_BATCH
    rows = [{"n": number, "text": draw.randbytes(2_000).hex()} for number in range(count)]
    work = StaticMixtureWorkSource([Dataset.from_dict("data", rows)], {"data": 1.0}, seed=3)
    try:
        batch = registry("operator").load("batch")(_ROWS_PER_BATCH)
    except Exception as error:
        raise Incomplete(f"pipelines need the operator batch: install zephon-ops\n{error}") from error
    made: Pipeline = Pipeline(work).pipe(batch)
    made = made.options(canonical_replicas=LANES, dp_degree=degree, dp_group_id=rank)
    return made.options(runner="inline", block_rows=block_rows)


def ranks(rounds: int, degree: int = 2, *, other: bool = False) -> list[CheckpointState]:
    """The states of all ranks after some rounds.

    Args:
        rounds: 0 to :data:`ROUNDS`.
        degree: how many ranks.
        other: the same moment, with the same header, and other bytes for every lane: those of a run that read larger
            blocks.
    """
    return [{"header": header, "lanes": dict(lanes)} for header, lanes in _ranks(rounds, degree, other)]


@cache
def _ranks(rounds: int, degree: int, other: bool) -> Sequence[tuple[bytes, dict[str, bytes]]]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what planning has to say is no finding about a store
        for rank in range(degree):
            with pipeline(rank, degree, 7 if other else 1) as running:
                batches = iter(running)
                for _ in range(rounds * running.slots_per_round):
                    next(batches)
                state = running.checkpoint()
                found.append((state["header"], state["lanes"]))
    return found


def merged(states: Iterable[CheckpointState]) -> CheckpointState:
    """The states of ranks in one; the later one counts where two have a lane."""
    header, lanes = b"", {}
    for state in states:
        header = state["header"]
        lanes.update(state["lanes"])
    return {"header": header, "lanes": dict(sorted(lanes.items()))}
