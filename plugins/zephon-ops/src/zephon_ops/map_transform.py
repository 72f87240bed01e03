"""``map_transform``: a Python function applied to every row, or to whole record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa

from zephon.abc import LaneContext, RowOperator
from zephon.block import Block
from zephon.spec import execution
from zephon_ops import checks
from zephon_ops.functions import (
    Int64Array,
    Outcomes,
    Refusal,
    bad_rows,
    call_on_rows,
    conformed,
    derived,
    described,
    misfits,
    split_parents,
)
from zephon_ops.inference import Sampled, dataset_names, no_rows, schema_of_batches, schema_of_rows, unknown_schema
from zephon_ops.values import MisfitRowsError, build_batch, rows_of, schema_argument


def _names(value: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen(slots=True)
class MapTransform(RowOperator):
    """Apply a Python function to every row.

    ``fn`` gets a row as a dict of Python values and returns a dict: exactly the columns that go on, the fields it was
    given included only if it returns them (``{**row, "n": 1}``). It must be pure: the same row, the same result. Nulls,
    and fields that a row's dataset does not have, are None; tensors are read-only numpy arrays. It may return str, int,
    float, bool, bytes, None, dates and times, decimals, numpy scalars and arrays (one dimension becomes a list, several
    a tensor), and lists and dicts of these. A key it leaves out is null. Anything else is refused; nothing is pickled.

    The columns' types are those of ``schema``, or found by running ``fn`` on the first 64 rows of every dataset when
    the pipeline is planned. A later row that does not fit is a bad row, and the error shows the ``schema=`` to paste.
    Fields handed on unchanged keep their type and metadata; so do token columns.

    Args:
        fn: ``fn(dict) -> dict | None``; with ``vectorized``, ``fn(RecordBatch) -> RecordBatch``, or
            ``-> (RecordBatch, parents)`` where rows are dropped or multiplied: ``parents`` holds, for each new row, the
            position of the row it was made from, never decreasing.
        reads: the fields ``fn`` sees; None: all of them, so that none can be left unread. What it returns is still all
            that goes on.
        schema: the columns ``fn`` returns: an Arrow schema, or ``{"field": "type"}``.
        drop_none: whether returning None drops the row. False promises one row for every row, which keeps lengths
            computable: None (or, vectorized, another number of rows) is then an error.
        vectorized: hand over whole record batches. Promises that no row's result depends on the rows beside it.
        version: change it when the function's behaviour changes; enters the fingerprint together with its name.

    Raises:
        BadRowsError: ``function-failed`` for rows ``fn`` raised on, the first exception as its cause;
            ``function-result`` for rows with a result that is no dict; ``row-does-not-fit``.
        DataError: ``function-result`` for a vectorised function.
    """

    fn: Callable[..., Any] = attrs.field(validator=checks.function)
    reads: Sequence[str] | None = attrs.field(default=None, kw_only=True, converter=_names)
    schema: pa.Schema | None = attrs.field(default=None, kw_only=True, converter=schema_argument)
    drop_none: bool = attrs.field(default=True, kw_only=True)
    vectorized: bool = attrs.field(default=False, kw_only=True)
    version: str | None = attrs.field(default=None, kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    @property
    def preserves_rows(self) -> bool:
        """Only the promise ``drop_none=False`` keeps lengths computable."""
        return not self.drop_none

    @property
    def holds_gil(self) -> bool:
        """A function of a row is Python code, one of record batches calls Arrow and numpy."""
        return not self.vectorized

    @property
    def schema_is_known(self) -> bool:
        """Whether a schema was given or found."""
        return self.schema is not None

    @property
    def _label(self) -> str:
        return described("map_transform", self.fn)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The declared or frozen schema."""
        if self.schema is None:
            raise unknown_schema(self._label)
        return self.schema

    def infer(self, samples: Sequence[Block], context: LaneContext) -> MapTransform:
        """The same operator with the schema found on the samples."""
        samples = [sample for sample in samples if len(sample)]
        seen = [self._seen(sample) for sample in samples]
        given = seen[0].schema if seen else context.schema
        named = zip(dataset_names(samples, context), seen, strict=True)
        if self.vectorized:
            made = {name: self._call(batch)[0].schema for name, batch in named}
            return attrs.evolve(self, schema=schema_of_batches(self._label, made, given))
        sampled: dict[str, list[Sampled]] = {}
        failures: list[Exception] = []
        for name, batch in named:
            outcomes = call_on_rows(self.fn, rows_of(batch))
            failures += outcomes.failures.values()
            # Made anew: a function may have changed the row it was given.
            pairs = zip(rows_of(batch), outcomes.values, strict=True)
            sampled[name] = [Sampled(row, value) for row, value in pairs if isinstance(value, Mapping)]
        if failures and not any(sampled.values()):
            raise no_rows(self._label, failures[0])
        return attrs.evolve(self, schema=schema_of_rows(self._label, sampled, given))

    def apply(self, block: Block) -> Block:
        """Map one block."""
        schema = self.output_schema(block.schema)
        batch = self._seen(block)
        if self.vectorized:
            made, parents = self._call(batch)
            return derived(block, conformed(self._label, made, schema), parents)
        outcomes = call_on_rows(self.fn, rows_of(batch))
        kept, refusals = self._sorted_out(outcomes)
        try:
            data = build_batch([outcomes.values[i] for i in kept], schema)
        except MisfitRowsError as error:
            refusals.update(misfits(error, kept))
        if outcomes.failures or refusals:
            raise bad_rows(self._label, outcomes.failures, refusals)
        return block.with_data(data) if len(kept) == len(block) else block.derive(data, kept)

    def _sorted_out(self, outcomes: Outcomes) -> tuple[list[int], dict[int, Refusal]]:
        """Positions of the rows that go on, and what is wrong with those that are neither kept nor dropped."""
        kept: list[int] = []
        refusals: dict[int, Refusal] = {}
        for i, value in enumerate(outcomes.values):
            if i in outcomes.failures or (value is None and self.drop_none):
                continue
            if isinstance(value, Mapping):
                kept.append(i)
            else:
                found = "None" if value is None else f"a {type(value).__qualname__}"
                fix = "leave drop_none=True to drop the rows None is returned for" if value is None else "return a dict"
                refusals[i] = Refusal(f"the function returned {found}, not a dict", "function-result", fix)
        return kept, refusals

    def _call(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64Array | None]:
        return split_parents(self._label, self.fn(batch), batch.num_rows, may_change_rows=self.drop_none)

    def _seen(self, block: Block) -> pa.RecordBatch:
        return block.data if self.reads is None else block.data.select(self.reads)
