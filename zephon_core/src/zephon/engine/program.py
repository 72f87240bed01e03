"""What a worker does with one task: read rows, apply row operators, set bad rows aside.

A program is plain data plus the source it reads from; ``open`` makes a worker's own instance with operators of its own.
Everything here is pure: a task may run anywhere, in any order, twice.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple, NoReturn

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon import random
from zephon.abc import OperatorContext, RowOperator, WorkSource
from zephon.block import Block, Origins, empty_batch
from zephon.errors import BadRow, BadRowsError, DataError, EngineError, PluginError, ZephonError
from zephon.io.reader import BlockReader
from zephon.plugins import registry
from zephon.spec import rebuilt


class Avoided(NamedTuple):
    """A row that has ended workers: the step it did so at (``read`` or an operator's label), and its origin."""

    where: str
    origin: tuple[int, ...]


class ReadTask(NamedTuple):
    """Read positions ``start:stop`` of a lane; what is to be avoided is set aside."""

    lane: int
    start: int
    stop: int
    avoid: tuple[Avoided, ...] = ()


class RereadTask(NamedTuple):
    """Make the rows of these origins again. They were good once, so nothing is set aside or counted."""

    lane: int
    origins: Origins


class ApplyTask(NamedTuple):
    """Apply the operators to a block; what is to be avoided is set aside."""

    block: Block
    avoid: tuple[Avoided, ...] = ()


class Dropped(NamedTuple):
    """A row that was set aside: where (``read`` or an operator), its origin, why, and its byte offset or -1."""

    where: str
    origin: tuple[int, ...]
    reason: str
    offset: int


class TaskResult(NamedTuple):
    """What became of a task.

    Attributes:
        block: the rows that came out.
        dropped: the rows that were set aside.
        rows_in: rows that went in.
        seconds: what it took, where that grows with the rows of a block; 0 where a task is one microbatch anyway.
    """

    block: Block
    dropped: tuple[Dropped, ...]
    rows_in: int
    seconds: float = 0.0


@attrs.frozen(slots=True, kw_only=True)
class Source:
    """Where pointers and rows come from; shared by all workers of a process.

    Attributes:
        work: the curriculum.
        lanes: how many lanes it is cut into.
        reader: reads the rows behind pointers.
        row_name: names a row of ``(dataset, shard, row)`` in errors.
    """

    work: WorkSource
    lanes: int
    reader: BlockReader
    row_name: Callable[[int, int, int], str]


@attrs.frozen(slots=True, kw_only=True)
class Step:
    """One row operator with its surroundings."""

    operator: RowOperator
    context: OperatorContext
    schema: pa.Schema

    @property
    def label(self) -> str:
        """``name``, or ``name#2`` for its second use."""
        n = self.context.occurrence
        return self.context.operator + (f"#{n + 1}" if n else "")


@attrs.frozen(slots=True, kw_only=True)
class StageProgram:
    """A fused run of row operators; the first one of a pipeline reads as well.

    Attributes:
        source: what is read from, also for naming rows in errors.
        steps: the operators, in order.
        schema: what comes out.
        skip: whether bad rows are set aside instead of stopping the run.
        whole: blocks are microbatches: they reach each operator whole and are set aside whole.
    """

    source: Source
    steps: tuple[Step, ...]
    schema: pa.Schema
    skip: bool = False
    whole: bool = False

    def open(self) -> StageWorker:
        """A worker's own instance."""
        return StageWorker(self)


class StageWorker:
    """Runs the tasks of one program, one at a time."""

    def __init__(self, program: StageProgram) -> None:
        self._program = program
        self._note: Callable[[str], None] | None = None
        self._avoid: tuple[Avoided, ...] = ()
        self._steps: list[tuple[RowOperator, Step]] = []
        for step in program.steps:
            operator = rebuilt(step.operator)
            operator.setup(step.context)
            self._steps.append((operator, step))

    def __call__(self, task: ReadTask | RereadTask | ApplyTask) -> TaskResult:
        """Carry out one task."""
        begun = perf_counter()
        result = self._carry_out(task)
        return result if self._program.whole else result._replace(seconds=perf_counter() - begun)

    def careful(self, task: ReadTask | RereadTask | ApplyTask, note: Callable[[str], None]) -> TaskResult:
        """As a call, but row by row, and each is noted before it is touched.

        For a task that has ended a worker: when it ends another, the note says at which row of which operator.
        """
        self._note = note
        try:
            return self(task)
        finally:
            self._note = None

    def _carry_out(self, task: ReadTask | RereadTask | ApplyTask) -> TaskResult:
        source = self._program.source
        dropped: list[Dropped] = []
        self._avoid = () if isinstance(task, RereadTask) else task.avoid
        if isinstance(task, ReadTask):
            pointers = source.work.read(task.lane, source.lanes, task.start, task.stop)
            block = self._read(pointers, task.lane, dropped)
            return TaskResult(self._apply_all(block, dropped), tuple(dropped), len(pointers))
        if isinstance(task, RereadTask):
            return TaskResult(self._reread(task), (), 0)
        return TaskResult(self._apply_all(task.block, dropped), tuple(dropped), len(task.block))

    def close(self) -> None:
        """Release what the operators hold."""
        for operator, _ in self._steps:
            operator.teardown()

    def _read(self, pointers: Origins, lane: int, dropped: list[Dropped]) -> Block:
        reader = self._program.source.reader
        if self._avoid:
            pointers = pointers.take(self._avoided("read", pointers, dropped))
        if self._note is not None and len(pointers) > 1:
            return Block.concat([self._read(pointers.slice(i, i + 1), lane, dropped) for i in range(len(pointers))])
        self._announce("read", pointers)
        try:
            return Block(reader.read(pointers), pointers, lane)
        except BadRowsError as error:
            if not self._program.skip:
                self._raise(error, "read", pointers)
            good = self._set_aside(error, "read", pointers, dropped)
        return Block(reader.read(good), good, lane)

    def _apply_all(self, block: Block, dropped: list[Dropped]) -> Block:
        for operator, step in self._steps:
            if len(block) == 0:
                break
            if self._program.whole:
                block = self._apply_whole(operator, step, block, dropped)
            else:
                block = self._apply_rows(operator, step, block, dropped)
        if len(block) == 0 and not block.schema.equals(self._program.schema, check_metadata=True):
            return block.with_data(empty_batch(self._program.schema))
        return block

    def _apply_rows(self, operator: RowOperator, step: Step, block: Block, dropped: list[Dropped]) -> Block:
        """Apply one operator to rows that may be cut anywhere."""
        if self._avoid:
            block = block.take(self._avoided(step.label, block.origins, dropped))
            if not len(block):
                return _no_rows(block, step)
        if self._note is not None and len(block) > 1:
            rows = [self._apply_rows(operator, step, block.slice(i, i + 1), dropped) for i in range(len(block))]
            return Block.concat(rows)
        self._announce(step.label, block.origins)
        try:
            return _checked(operator.apply(block), step)
        except BadRowsError as error:
            if not self._program.skip:
                self._raise(error, step.label, block.origins)
            good = self._set_aside(error, step.label, block.origins, dropped)
            rest = block.filter(_good_rows(error, len(block)))
            return self._apply_rows(operator, step, rest, dropped) if len(good) else _no_rows(block, step)
        except ZephonError:
            raise
        except Exception as error:
            if len(block) == 1:
                bad = _bad_row(error)
                if not self._program.skip:
                    self._raise(bad, step.label, block.origins)
                self._set_aside(bad, step.label, block.origins, dropped)
                return _no_rows(block, step)
            # The operator is pure row by row, so the halves tell which row it is.
            middle = len(block) // 2
            halves = [
                self._apply_rows(operator, step, block.slice(start, stop), dropped)
                for start, stop in ((0, middle), (middle, len(block)))
            ]
            if not self._program.skip:
                raise EngineError(
                    f"operator {step.label!r} failed on a block but on none of its rows",
                    found=f"{type(error).__name__}: {error}",
                    fix="a row operator may depend on nothing but its row: look for state it keeps between calls",
                    code="operator-impure",
                ) from error
            return Block.concat(halves)

    def _apply_whole(self, operator: RowOperator, step: Step, block: Block, dropped: list[Dropped]) -> Block:
        """Apply one operator to a microbatch, which loses no single row: it is set aside as a whole."""
        if self._avoid and len(self._avoided(step.label, block.origins, [])) < len(block):
            dropped += [Dropped(step.label, block.origins.at(i), _LOST, -1) for i in range(len(block))]
            return _no_rows(block, step)
        self._announce(step.label, block.origins)
        try:
            return _checked(operator.apply(block), step)
        except BadRowsError as error:
            bad = error
        except ZephonError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the user's function raised
            bad = _bad_row(error)
        if not self._program.skip:
            self._raise(bad, step.label, block.origins)
        for i in range(len(block)):
            dropped.append(Dropped(step.label, block.origins.at(i), bad.rows[0].reason, -1))
        return _no_rows(block, step)

    def _announce(self, where: str, origins: Origins) -> None:
        if self._note is not None and len(origins):
            self._note(noted(where, origins.at(0), self._program.source.row_name))

    def _avoided(self, where: str, origins: Origins, dropped: list[Dropped]) -> npt.NDArray[np.int64]:
        """Positions of the rows that need not be avoided here; the others are set aside."""
        bad = {avoided.origin for avoided in self._avoid if avoided.where == where}
        kept = []
        for i in range(len(origins)) if bad else ():
            if origins.at(i) in bad:
                dropped.append(Dropped(where, origins.at(i), _LOST, -1))
            else:
                kept.append(i)
        return np.array(kept, dtype=np.int64) if bad else np.arange(len(origins))

    def _set_aside(self, error: BadRowsError, where: str, origins: Origins, dropped: list[Dropped]) -> Origins:
        for bad in error.rows:
            dropped.append(Dropped(where, origins.at(bad.row), bad.reason, bad.offset))
        return origins.take(_good_rows(error, len(origins)))

    def _raise(self, error: BadRowsError, where: str, origins: Origins) -> NoReturn:
        try:
            raise_bad_rows(error, where, origins, self._program.source.row_name)
        except DataError as raised:
            named = {step.label: step.context.operator for _, step in self._steps}
            raised.add_note(_provider("operator", named[where]) if where in named else self._format_of(origins, error))
            raise

    def _format_of(self, origins: Origins, error: BadRowsError) -> str:
        """Who reads the first of these rows."""
        dataset = self._program.source.work.datasets[int(origins.dataset[error.rows[0].row])]
        return _provider("shard_format", getattr(dataset, "format_name", ""))

    def _reread(self, task: RereadTask) -> Block:
        wanted = task.origins
        keys = _keys(wanted)
        _, first = np.unique(
            _keys(attrs.evolve(wanted, part=np.zeros(len(wanted), dtype=np.uint64))), return_index=True
        )
        pointers = attrs.evolve(wanted.take(np.sort(first)), part=np.zeros(len(first), dtype=np.uint64))
        block = self._apply_all(self._read(pointers, task.lane, []), [])
        made = _keys(block.origins)
        order = np.argsort(made, kind="stable")
        at = np.searchsorted(made, keys, sorter=order)
        found = order[np.minimum(at, max(0, len(order) - 1))] if len(order) else np.zeros(len(keys), dtype=np.int64)
        result = block.take(found) if len(order) or not len(keys) else block
        if result.origins != wanted:
            raise DataError(
                "rows held by the checkpoint cannot be made again from their origins",
                found="reading them gave other rows: the data or an operator's code has changed",
                fix="restore the data and code the checkpoint was made with, or start anew",
                code="reread-differs",
            )
        return result


def _provider(point: str, name: str) -> str:
    """Which plugin it was, for people who report it."""
    try:
        plugin = registry(point).requirement(name)
    except PluginError:  # passed as an object, or in memory
        return f"{point} {name or '(none)'}: of no installed distribution"
    return f"{point}:{name} of {plugin.distribution} {plugin.version}".rstrip()


_LOST = "it has ended one worker after the other"


def noted(where: str, origin: tuple[int, ...], row_name: Callable[[int, int, int], str]) -> str:
    """What is about to happen to a row, for people and for :func:`avoidable`: operator, row, origin."""
    _, dataset, shard, row, *_ = origin
    return "\t".join([where, row_name(dataset, shard, row), ",".join(map(str, origin))])


def avoidable(note: str) -> Avoided | None:
    """The row a note speaks of, or None if it is none of :func:`noted`'s."""
    parts = note.split("\t")
    if len(parts) != 3:
        return None
    return Avoided(parts[0], tuple(int(number) for number in parts[2].split(",")))


def raise_bad_rows(
    error: BadRowsError, where: str, origins: Origins, row_name: Callable[[int, int, int], str]
) -> NoReturn:
    """Name the first bad row of a read (``where="read"``) or an operator by dataset, shard and number.

    Raises:
        DataError: with the code of ``error``, from what the user's function raised where there is such.
    """
    bad = error.rows[0]
    dataset, shard, row = (int(getattr(origins, name)[bad.row]) for name in ("dataset", "shard", "row"))
    at = f", byte {bad.offset}" if bad.offset >= 0 else ""
    more = f" (and {len(error.rows) - 1} more rows of this block)" if len(error.rows) > 1 else ""
    verb = "cannot be read" if where == "read" else f"cannot be processed by {where!r}"
    raise DataError(
        f"{row_name(dataset, shard, row)}{at} {verb}",
        found=bad.reason + more,
        fix=error.fix,
        code=error.code,
    ) from (error.__cause__ or error)


def _checked(result: Block, step: Step) -> Block:
    if not result.schema.equals(step.schema):
        raise EngineError(
            f"operator {step.label!r} returned other columns than its output_schema() promises",
            found=f"{_fields(result.schema)}; promised {_fields(step.schema)}",
            fix="make output_schema() and apply() of the operator agree",
            code="operator-schema",
        )
    if not result.schema.equals(step.schema, check_metadata=True):
        result = result.with_data(pa.RecordBatch.from_arrays(result.data.columns, schema=step.schema))
    return result


def _fields(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema) or "no field"


def _no_rows(block: Block, step: Step) -> Block:
    return block.empty().with_data(empty_batch(step.schema))


def _bad_row(error: Exception) -> BadRowsError:
    bad = BadRowsError([BadRow(0, f"{type(error).__name__}: {error}")], code="operator-failed")
    bad.__cause__ = error
    return bad


def _good_rows(error: BadRowsError, rows: int) -> npt.NDArray[np.bool_]:
    good = np.ones(rows, dtype=bool)
    good[[bad.row for bad in error.rows]] = False
    return good


def _keys(origins: Origins) -> npt.NDArray[np.uint64]:
    """One 64-bit key per origin; equality of the origins found by it is checked afterwards."""
    keys = np.zeros(len(origins), dtype=np.uint64)
    for column in origins.columns().values():
        keys = random.combine(keys, column)
    return keys
