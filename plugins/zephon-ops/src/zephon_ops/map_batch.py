"""``map_batch``: a Python function applied to every microbatch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa

from zephon.abc import LaneContext, OperatorContext, RowOperator
from zephon.block import Block, empty_batch
from zephon.errors import PlanError
from zephon.spec import execution, runtime
from zephon_ops import checks
from zephon_ops.functions import conformed, described, wrong_result
from zephon_ops.inference import dataset_names, schema_of_batches, unknown_schema
from zephon_ops.values import schema_argument


@attrs.frozen(slots=True)
class MapBatch(RowOperator):
    """Apply a Python function to every microbatch, after ``batch``.

    ``fn`` gets what the training loop would get, a ``Batch``, and returns a ``Batch``, or None to drop the microbatch.
    It must be pure: the same microbatch, the same result. When the pipeline is planned it is run once on the first rows
    of every dataset, unless ``schema`` is given.

    Args:
        fn: ``fn(Batch) -> Batch | None``.
        schema: the columns ``fn`` returns: an Arrow schema, or ``{"field": "type"}``.
        drop_none: whether returning None drops the microbatch. False promises a row for every row, which keeps lengths
            computable: None or another number of rows is then an error.
        version: change it when the function's behaviour changes; enters the fingerprint together with its name.

    Raises:
        DataError: ``function-result`` for a result that is no ``Batch``.
    """

    fn: Callable[[Any], Any] = attrs.field(validator=checks.function)
    schema: pa.Schema | None = attrs.field(default=None, kw_only=True, converter=schema_argument)
    drop_none: bool = attrs.field(default=True, kw_only=True)
    version: str | None = attrs.field(default=None, kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)
    _runtime: Any = runtime()

    holds_gil = True

    @property
    def preserves_rows(self) -> bool:
        """Only the promise ``drop_none=False`` keeps lengths computable."""
        return not self.drop_none

    @property
    def schema_is_known(self) -> bool:
        """Whether a schema was given or found."""
        return self.schema is not None

    @property
    def reads(self) -> Sequence[str] | None:
        """A function may read any field."""
        return None

    @property
    def _label(self) -> str:
        return described("map_batch", self.fn)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The declared or frozen schema."""
        if self.schema is None:
            raise unknown_schema(self._label)
        return self.schema

    def infer(self, samples: Sequence[Block], context: LaneContext) -> MapBatch:
        """The same operator with the schema found on the samples."""
        view = self._view(context)
        samples = [sample for sample in samples if len(sample)]
        made: dict[str, pa.Schema] = {}
        for name, sample in zip(dataset_names(samples, context), samples, strict=True):
            result = self._call(view, sample)
            if result is not None:
                made[name] = result.schema
        given = samples[0].schema if samples else context.schema
        return attrs.evolve(self, schema=schema_of_batches(self._label, made, given))

    def setup(self, context: OperatorContext) -> None:
        """Take what makes a ``Batch`` of a block."""
        self._runtime.view = self._view(context)

    def apply(self, block: Block) -> Block:
        """Map one microbatch."""
        schema = self.output_schema(block.schema)
        result = self._call(self._runtime.view, block)
        if result is None:
            return block.empty().with_data(empty_batch(schema))
        data = conformed(self._label, result.data, schema)
        return attrs.evolve(result, data=data, lane=block.lane, index=block.index)

    def _view(self, context: OperatorContext) -> Callable[[Block], Any]:
        if context.batch_view is None:
            raise PlanError(
                f"{self._label} has no microbatches to work on",
                found="no batch before it",
                fix="add .batch(microbatch_size=...) before .map_batch(...), or use map_transform for single rows",
                code="needs-batch",
            )
        return context.batch_view

    def _call(self, view: Callable[[Block], Any], block: Block) -> Block | None:
        returned = self.fn(view(block))
        if returned is None and self.drop_none:
            return None
        result = getattr(returned, "block", None)
        if not isinstance(result, Block):
            raise wrong_result(self._label, returned, "a Batch" + (" or None" if self.drop_none else ""))
        if not self.drop_none and len(result) != len(block):
            raise wrong_result(self._label, returned, f"a Batch of {len(block)} rows, not {len(result)}")
        return result
