"""``stateful_transform``: a fold over the rows of a lane, from plain Python functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import LaneContext, LaneOperator, LaneState, Snapshot
from zephon.block import ORIGIN_DTYPES, Block, Origins, concat_batches, empty_batch
from zephon.errors import ConfigError, DataError, ZephonError
from zephon.spec import execution
from zephon_ops import checks
from zephon_ops.functions import Int64Array, Refusal, bad_rows, conformed, misfits, split_parents, wrong_result
from zephon_ops.inference import Sampled, dataset_names, no_rows, schema_of_batches, schema_of_rows, unknown_schema
from zephon_ops.plain_state import decode_state, encode_state
from zephon_ops.values import MisfitRowsError, Row, build_batch, rows_of, schema_argument


def _initial(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not callable(value) and not _is_json(value):
        raise ConfigError(
            f"init_state of stateful_transform {instance.name!r} cannot be written into a recipe",
            found=f"a {type(value).__qualname__}: {value!r:.80}",
            fix="pass a function that returns the state: a value may hold JSON only (dicts with str keys, no tuples)",
            code="state-not-plain",
        )


def _is_json(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and _is_json(item) for key, item in value.items())
    if type(value) is list:
        return all(map(_is_json, value))
    return value is None or type(value) in (bool, int, float, str)


@attrs.frozen(slots=True)
class StatefulTransform(LaneOperator):
    """Fold functions of your own over the rows of each lane.

    ``push`` gets the state and one row as a dict, and returns the new state and what to emit: None, a row, or a list
    of rows. It may change the state in place. A row it emits inherits the origin of the row it was called with; rows of
    ``flush`` that of the last row of the lane. All must be deterministic: a checkpoint holds the state between two
    rows, and the rows after it are pushed again.

    The state is plain data: None, bool, int, float, str, bytes, lists, tuples, dicts, numpy arrays, Arrow arrays and
    record batches. It is copied at every cut, Arrow data excepted; one object in two places comes back as two.

    A row that ``push`` raises on is a bad row: it leaves the state as it was before.

    Args:
        name: what to call it in ``explain()`` and in errors.
        init_state: the state every lane begins with: JSON data, or a function that returns any state.
        push: ``push(state, row) -> (state, rows)``; with ``vectorized``, ``push(state, RecordBatch)`` ``-> (state,
            RecordBatch)``, ``-> (state, None)`` or, where rows are dropped or multiplied, ``-> (state, RecordBatch,
            parents)``: ``parents`` holds, for each new row, the position of the row it belongs to, never decreasing.
        flush: ``flush(state) -> rows`` at the end of each lane; with ``vectorized``, a RecordBatch or None.
        schema: the columns that come out: an Arrow schema, or ``{"field": "type"}``. None: found by folding over the
            first 64 rows of every dataset when the pipeline is planned.
        vectorized: hand over all rows of a block at once. Promises block invariance: what comes out must not depend on
            where one record batch ends and the next begins. What is emitted may share no memory with numpy arrays that
            change later.
        version: change it when the functions' behaviour changes; enters the fingerprint together with their names.

    Raises:
        ConfigError: ``state-not-plain``.
        BadRowsError: ``function-failed``, ``function-result`` or ``row-does-not-fit``, from ``push``.
        DataError: ``function-result`` or ``row-does-not-fit``, from ``flush``.
    """

    name: str = attrs.field(validator=checks.name)
    init_state: Callable[[], Any] | Any = attrs.field(kw_only=True, validator=_initial)
    push: Callable[..., Any] = attrs.field(kw_only=True, validator=checks.function)
    flush: Callable[..., Any] | None = attrs.field(default=None, kw_only=True, validator=checks.function_or_none)
    schema: pa.Schema | None = attrs.field(default=None, kw_only=True, converter=schema_argument)
    vectorized: bool = attrs.field(default=False, kw_only=True)
    version: str | None = attrs.field(default=None, kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    @property
    def reads(self) -> Sequence[str] | None:
        """A function may read any field."""
        return None

    @property
    def schema_is_known(self) -> bool:
        """Whether a schema was given or found."""
        return self.schema is not None

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"stateful_transform({self.name!r})"

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The declared or frozen schema."""
        if self.schema is None:
            raise unknown_schema(self.label)
        return self.schema

    def infer(self, samples: Sequence[Block], context: LaneContext) -> StatefulTransform:
        """The same operator with the schema found by folding over each sample."""
        samples = [sample for sample in samples if len(sample)]
        given = samples[0].schema if samples else context.schema
        named = zip(dataset_names(samples, context), samples, strict=True)
        if self.vectorized:
            made = {name: schema for name, sample in named for schema in self._sample_batches(sample)}
            return attrs.evolve(self, schema=schema_of_batches(self.label, made, given))
        failures: list[Exception] = []
        sampled = {name: list(self._sample_rows(sample, failures)) for name, sample in named}
        if failures and not any(sampled.values()):
            raise no_rows(self.label, failures[0])
        return attrs.evolve(self, schema=schema_of_rows(self.label, sampled, given))

    def open(self, context: LaneContext) -> LaneState:
        """The initial state."""
        return _FoldState(self, context.lane, self.output_schema(context.schema))

    def first_state(self) -> Any:
        """A state of its own for every lane."""
        return self.init_state() if callable(self.init_state) else decode_state(*encode_state(self.init_state, ""))

    def push_row(self, state: Any, row: Row) -> tuple[Any, Sequence[Mapping[str, Any]]]:
        """Call ``push`` on one row.

        Raises:
            _RefusedError: it returned something else than a state and rows.
        """
        result = self.push(state, row)
        if not isinstance(result, tuple) or len(result) != 2:
            raise _RefusedError(result, "a pair (state, rows)")
        return result[0], _as_rows(result[1])

    def push_batch(self, state: Any, batch: pa.RecordBatch) -> tuple[Any, pa.RecordBatch | None, Int64Array]:
        """Call ``push`` on a record batch; returns state, batch and int64 parents.

        Raises:
            DataError: ``function-result``.
        """
        result = self.push(state, batch)
        if not isinstance(result, tuple) or len(result) not in (2, 3):
            raise wrong_result(self.label, result, "(state, RecordBatch) or (state, RecordBatch, parents)")
        state, *made = result
        if made[0] is None:
            return state, None, np.empty(0, dtype=np.int64)
        data, parents = split_parents(
            self.label, tuple(made) if len(made) == 2 else made[0], batch.num_rows, may_change_rows=True
        )
        return state, data, np.arange(batch.num_rows) if parents is None else parents

    def _sample_rows(self, sample: Block, failures: list[Exception]) -> Iterable[Sampled]:
        state = self.first_state()
        for given, row in zip(rows_of(sample.data), rows_of(sample.data), strict=True):
            try:
                state, made = self.push_row(state, row)
            except Exception as error:  # noqa: BLE001 - the run will tell, by its policy; the state is of no use now
                failures.append(error)
                return
            yield from (Sampled(given, item) for item in made)
        if self.flush is not None:
            yield from (Sampled(None, item) for item in _as_rows(self.flush(state)))

    def _sample_batches(self, sample: Block) -> Iterable[pa.Schema]:
        state, made, _ = self.push_batch(self.first_state(), sample.data)
        if made is not None or (self.flush is not None and (made := self.flush(state)) is not None):
            yield made.schema


class _RefusedError(Exception):
    """A function returned something it may not return."""

    def __init__(self, result: Any, expected: str) -> None:
        found = "None" if result is None else f"a {type(result).__qualname__}"
        super().__init__(f"the function returned {found}, not {expected}")
        self.result, self.expected = result, expected


def _as_rows(result: Any) -> Sequence[Mapping[str, Any]]:
    if result is None:
        return ()
    if isinstance(result, Mapping):
        return (result,)
    if isinstance(result, (list, tuple)) and all(isinstance(item, Mapping) for item in result):
        return result
    raise _RefusedError(result, "None, a dict or a list of dicts")


class _Made(NamedTuple):
    """What a fold over a block gave: the state after it, the new rows, and int64 positions of their parents."""

    state: Any
    data: pa.RecordBatch
    parents: Int64Array


class _BadRowError(Exception):
    """A row that cannot be pushed."""

    def __init__(self, position: int, trouble: Exception | Refusal) -> None:
        super().__init__(position)
        self.position, self.trouble = position, trouble


class _FoldState(LaneState):
    """The user's state, and what the origins of flushed rows follow from."""

    def __init__(self, spec: StatefulTransform, lane: int, schema: pa.Schema) -> None:
        self._spec = spec
        self._lane = lane
        self._schema = schema
        self._state = spec.first_state()
        self._last: Origins | None = None  # of the last row pushed
        self._children = 0  # rows it has given
        self._frozen: tuple[Any, Mapping[str, pa.RecordBatch]] | None = None
        self._freeze()  # what cannot be kept is refused before the run

    def push(self, block: Block) -> Iterable[Block]:
        made = self._fold(block)
        self._state, self._frozen = made.state, None
        last = len(block) - 1
        self._last = block.origins.take(np.array([last]))
        self._children = int(np.count_nonzero(made.parents == last))
        return [block.derive(made.data, made.parents)] if made.data.num_rows else []

    def _fold(self, block: Block) -> _Made:
        """Fold over a block, or find all its bad rows and leave the state as it was.

        A function that raises may have changed the state already, so the fold begins anew without the row.

        Raises:
            BadRowsError: naming all bad rows.
        """
        spec = self._spec
        before = self._freeze()
        bad: dict[int, Exception | Refusal] = {}
        state, whole, first = self._state, spec.vectorized, None
        while True:
            try:
                made = self._fold_once(state, block, bad, whole)
                break
            except _BadRowError as error:
                state = decode_state(*before)
                first = first or error
                if whole:
                    whole = False  # the promised block invariance lets single rows tell which it is
                else:
                    bad[error.position] = error.trouble
        if bad:
            self._state = decode_state(*before)
            failures = {i: trouble for i, trouble in bad.items() if isinstance(trouble, Exception)}
            refusals = {i: trouble for i, trouble in bad.items() if isinstance(trouble, Refusal)}
            raise bad_rows(spec.label, failures, refusals)
        if first is not None:
            raise DataError(
                f"{spec.label} failed on a block but on none of its rows",
                found=str(first.trouble),
                fix="vectorized=True promises that record batches may end anywhere: make push hold to it, or drop it",
                code="function-failed",
            ) from first.__cause__
        return made

    def _fold_once(self, state: Any, block: Block, skipped: Collection[int], whole: bool) -> _Made:
        if self._spec.vectorized:
            return self._fold_batches(state, block, skipped, whole)
        return self._fold_rows(state, block, skipped)

    def _fold_rows(self, state: Any, block: Block, skipped: Collection[int]) -> _Made:
        batches, parents = [], []
        for i, row in enumerate(rows_of(block.data)):  # a fold over Python state: one row after the other
            if i in skipped:
                continue
            try:
                state, rows = self._spec.push_row(state, row)
                # At once, for the function may keep a row it returns in its state and change it later.
                made = build_batch(rows, self._schema) if rows else None
            except MisfitRowsError as error:
                raise _BadRowError(i, next(iter(misfits(error).values()))) from None
            except _RefusedError as error:
                raise _BadRowError(i, Refusal(str(error), "function-result", "return (state, rows)")) from None
            except Exception as error:
                raise _BadRowError(i, error) from error
            if made is not None:
                batches.append(made)
                parents.append(np.full(made.num_rows, i))
        return self._joined(state, batches, parents)

    def _fold_batches(self, state: Any, block: Block, skipped: Collection[int], whole: bool) -> _Made:
        rows = [(0, len(block))] if whole else [(i, i + 1) for i in range(len(block)) if i not in skipped]
        batches, parents = [], []
        for start, stop in rows:
            try:
                state, data, made_from = self._spec.push_batch(state, block.data.slice(start, stop - start))
                made = None if data is None else conformed(self._spec.label, data, self._schema)
            except ZephonError:
                raise
            except Exception as error:
                raise _BadRowError(start, error) from error
            if made is not None:
                batches.append(made)
                parents.append(made_from + start)
        return self._joined(state, batches, parents)

    def _joined(self, state: Any, batches: Sequence[pa.RecordBatch], parents: Sequence[Int64Array]) -> _Made:
        if not batches:
            return _Made(state, empty_batch(self._schema), np.empty(0, dtype=np.int64))
        return _Made(state, concat_batches(batches), np.concatenate(parents))

    def finish(self) -> Iterable[Block]:
        data = self._flushed()
        if data is None or data.num_rows == 0:
            return []
        # A lane without rows has no last one: what it flushes is addressed by the lane.
        last = self._last if self._last is not None else Origins.of_lane(self._lane, np.zeros(1, dtype=np.int64))
        total = self._children + data.num_rows
        origins = last.children(np.zeros(total, dtype=np.int64)).slice(self._children, total)
        return [Block(data, origins, self._lane)]

    def _flushed(self) -> pa.RecordBatch | None:
        spec = self._spec
        if spec.flush is None:
            return None
        result = spec.flush(self._state)
        if spec.vectorized:
            if result is None:
                return None
            if not isinstance(result, pa.RecordBatch):
                raise wrong_result(f"flush of {spec.label}", result, "a RecordBatch or None")
            return conformed(f"flush of {spec.label}", result, self._schema)
        try:
            return build_batch(_as_rows(result), self._schema)
        except _RefusedError as error:
            raise wrong_result(f"flush of {spec.label}", error.result, error.expected) from None
        except MisfitRowsError as error:
            refusal = next(iter(misfits(error).values()))
            raise DataError(
                f"flush of {spec.label} returned a row that does not fit",
                found=refusal.reason,
                fix=refusal.fix,
                code=refusal.code,
            ) from None

    def _freeze(self) -> tuple[Any, Mapping[str, pa.RecordBatch]]:
        if self._frozen is None:
            self._frozen = encode_state(self._state, self._spec.label)
        return self._frozen

    def snapshot(self) -> Snapshot:
        tree, tables = self._freeze()
        last = None
        if self._last is not None:
            last = [int(column[0]) for column in self._last.columns().values()]
        return Snapshot(meta={"state": tree, "last": last, "children": self._children}, tables=tables)

    def restore(self, snapshot: Snapshot) -> None:
        meta = snapshot.meta
        self._state = decode_state(meta["state"], snapshot.tables)
        self._frozen = meta["state"], snapshot.tables
        self._children = meta["children"]
        if meta["last"] is not None:
            pairs = zip(ORIGIN_DTYPES.items(), meta["last"], strict=True)
            self._last = Origins(**{name: np.array([value], dtype) for (name, dtype), value in pairs})
