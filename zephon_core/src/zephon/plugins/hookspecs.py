"""``zephon.hooks.v1``: what a run tells its observers.

Hooks broadcast events to everybody who listens; return values are ignored, and nothing an observer does may change
what a run delivers. An implementation takes the arguments it wants, by the names below and in any order, or none::

    from zephon.plugins import hookimpl, hooks_manager

    class StepLog:
        @hookimpl
        def batch(self, round, batch):
            print(round, batch.lane, len(batch))

    hooks_manager().register(StepLog())

All hooks run in the user's process, synchronously: ``batch`` and ``checkpoint`` on the thread that consumes the
pipeline, the others on whatever thread notices the event. What happens in a worker is sent home as plain data first.
An exception raised by an observer ends the run: it is the observer's to catch what it can do without.

``run`` is in every event: the number of the iteration within this process, so that a training and an evaluation
pipeline that live side by side can be told apart.

Arguments are added within a major of the contract, never renamed or taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pluggy

if TYPE_CHECKING:
    from zephon.block import Block

#: The name pluggy markers carry; third parties use :data:`hookimpl` and need not know it.
PROJECT: Final = "zephon"

hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)


@hookspec
def plan(run: int, plan: Mapping[str, Any]) -> None:
    """A pipeline was compiled and is about to run.

    Args:
        run: number of the iteration in this process.
        plan: what ``explain()`` prints, as plain data.
    """


@hookspec
def block(run: int, stage: int, block: Block) -> None:
    """A runner gave back one block.

    Args:
        run: number of the iteration in this process.
        stage: which run of row operators made it, from 0 (the one that reads).
        block: the rows and their origins; it may be empty. Not to be modified, nor kept beyond the call: it may lie in
            memory that is used again.
    """


@hookspec
def batch(run: int, round: int, batch: Any) -> None:
    """The consumer is about to receive one microbatch; fillers are announced too.

    Args:
        run: number of the iteration in this process.
        round: number of the round the microbatch belongs to, from 0 at the start of the curriculum.
        batch: the ``zephon.Batch``.
    """


@hookspec
def checkpoint(run: int, round: int, state: Mapping[str, Any]) -> None:
    """A state was taken.

    Args:
        run: number of the iteration in this process.
        round: the round the consumer stands in.
        state: what ``checkpoint()`` returns. Not to be modified.
    """


@hookspec
def quarantine(run: int, entries: Sequence[Mapping[str, Any]]) -> None:
    """Rows were dropped under ``on_error="skip"`` or ``"quarantine"``.

    A row is announced once per run: what is read again after a restore is not repeated.

    Args:
        run: number of the iteration in this process.
        entries: one per row, plain data: its origin (``dataset``, ``shard``, ``row``, ``epoch``), ``reason`` and where
            it failed, as written to the quarantine file.
    """


@hookspec
def worker_start(run: int, runner: str, worker: str) -> None:
    """A worker is ready to take tasks.

    Args:
        run: number of the iteration in this process.
        runner: registered name of the runner.
        worker: the worker's name, unique among those alive in this run.
    """


@hookspec
def worker_stop(run: int, runner: str, worker: str, reason: str) -> None:
    """A worker has ended.

    Args:
        run: number of the iteration in this process.
        runner: registered name of the runner.
        worker: the name it started under.
        reason: empty when it was told to stop, otherwise what happened to it, in one line.
    """


@hookspec
def close(run: int, stats: Mapping[str, Any]) -> None:
    """A run is over, however it ended: everything it held has been released.

    Args:
        run: number of the iteration in this process.
        stats: what ``stats()`` returns, as plain data, counted up to the end.
    """
