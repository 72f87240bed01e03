"""Operators at work on blocks as the engine has them work: row operators apply, lane operators fold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final

import attrs
import pyarrow as pa

from zephon.abc import LaneContext, LaneOperator, OperatorContext, RowOperator
from zephon.block import Block
from zephon.spec import execution
from zephon_testkit.blocks import DATASETS, cut, sample_context, through_bytes
from zephon_testkit.installed import operator

#: Rows of a microbatch, for operators that run after ``batch``.
MICROBATCH: Final = 4


def surroundings(operator: Any, name: str, schema: pa.Schema, *, after_batch: bool, **changes: Any) -> OperatorContext:
    """The context of an operator on sample rows: one that knows a lane for lane operators alone."""
    names = tuple(changes.get("datasets", DATASETS))
    view = batch_view(names) if after_batch else None
    made = sample_context(schema, **{"operator": name, "batch_view": view, **changes})
    if isinstance(operator, LaneOperator):
        return made
    shared = {field.name: getattr(made, field.name) for field in attrs.fields(OperatorContext)}
    return OperatorContext(**shared)


def units(block: Block, *, after_batch: bool) -> list[Block]:
    """The block in pieces as small as may be: rows, or microbatches."""
    return cut(block, [MICROBATCH if after_batch else 1] * len(block))


def outcome(operator: Any, given: Sequence[Block], context: OperatorContext) -> list[Block]:
    """What becomes of blocks in a run of their own, from its beginning to its end."""
    if isinstance(operator, RowOperator):
        return applied(operator, given, context)
    assert isinstance(operator, LaneOperator), f"{operator!r} is no operator"
    assert isinstance(context, LaneContext)
    return folded(operator, given, context)


def applied(operator: RowOperator, given: Iterable[Block], context: OperatorContext) -> list[Block]:
    """What a worker makes of blocks."""
    operator.setup(context)
    try:
        return [operator.apply(block) for block in given]
    finally:
        operator.teardown()


def folded(
    operator: LaneOperator,
    given: Iterable[Block],
    context: LaneContext,
    *,
    restore_after: Callable[[int], bool] = lambda number: False,
    finish: bool = True,
) -> list[Block]:
    """What a lane emits.

    Args:
        operator: of the lane.
        given: its blocks.
        context: of the lane.
        restore_after: after which pushes it goes on in a fresh state, made from the bytes of the state so far; -1 is
            before the first.
        finish: whether the lane ends.
    """
    state = operator.open(context)
    made: list[Block] = []
    for number, block in enumerate([None, *given], start=-1):
        if block is not None:
            made += state.push(block)
        if restore_after(number):
            snapshot = through_bytes(state.snapshot())
            state = operator.open(context)
            state.restore(snapshot)
    return [*made, *state.finish()] if finish else made


def in_turns(
    operators: Sequence[Any], given: Sequence[Block], contexts: Sequence[OperatorContext]
) -> list[list[Block]]:
    """What becomes of the same blocks in several runs that go on in turns, one for every operator and context."""
    made: list[list[Block]] = [[] for _ in operators]
    if isinstance(operators[0], RowOperator):
        for operator, context in zip(operators, contexts, strict=True):
            operator.setup(context)
        for block in given:
            for operator, out in zip(operators, made, strict=True):
                out.append(operator.apply(block))
        for operator in operators:
            operator.teardown()
        return made
    states = [operator.open(context) for operator, context in zip(operators, contexts, strict=True)]
    for block in given:
        for state, out in zip(states, made, strict=True):
            out.extend(state.push(block))
    for state, out in zip(states, made, strict=True):
        out.extend(state.finish())
    return made


@attrs.frozen(slots=True)
class _Watcher(RowOperator):
    """Passes microbatches on, and keeps the surroundings it was set up with."""

    seen: list[OperatorContext] = execution(factory=list)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def setup(self, context: OperatorContext) -> None:
        self.seen.append(context)

    def apply(self, block: Block) -> Block:
        return block


@cache
def batch_view(datasets: tuple[str, ...]) -> Callable[[Block], Any]:
    """What makes a ``Batch`` of a microbatch: the engine's own, where these are the names of the datasets.

    Raises:
        Incomplete: the operator ``batch`` is not installed.
    """
    from zephon import Pipeline
    from zephon.io import Dataset
    from zephon.work import StaticMixtureWorkSource

    sources = [Dataset.from_dict(name, [{"n": 1}]) for name in datasets]
    work = StaticMixtureWorkSource(sources, dict.fromkeys(datasets, 1))
    watcher = _Watcher()
    pipeline: Any = Pipeline(work).pipe(operator("batch", 1, drop_last=False)).pipe(watcher)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pipeline.options(runner="inline", parallelism=0, canonical_replicas=1) as running:
            next(iter(running))
    view = watcher.seen[0].batch_view
    assert view is not None
    return view
