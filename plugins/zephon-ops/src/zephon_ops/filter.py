"""``filter``: keep the rows a function, or an Arrow expression, is true for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon.abc import RowOperator
from zephon.block import Block
from zephon.errors import ConfigError
from zephon.spec import execution
from zephon_ops.expression import TAG, ArrowExpression
from zephon_ops.functions import Refusal, bad_rows, call_on_rows, described
from zephon_ops.values import rows_of

Predicate = Callable[[dict[str, Any]], bool] | ArrowExpression


def _predicate(value: Predicate | pc.Expression | Mapping[str, Any]) -> Predicate:
    if isinstance(value, pc.Expression):
        return ArrowExpression(value)
    if isinstance(value, Mapping) and set(value) == {TAG}:
        return ArrowExpression.from_plain(value)
    if isinstance(value, ArrowExpression) or callable(value):
        return value
    raise ConfigError(
        "filter needs a function or an Arrow expression",
        found=f"a {type(value).__qualname__}: {value!r:.80}",
        fix='pass a function of a row, or an expression such as pyarrow.compute.field("score") > 0.5',
        code="operator-argument",
    )


@attrs.frozen(slots=True)
class Filter(RowOperator):
    """Keep the rows a predicate is true for.

    An Arrow expression is evaluated on whole columns, reads only the fields it names, and can be pushed down into
    readers that skip what it excludes; where it is null, the row is dropped, as Arrow and SQL have it. A function gets
    one row at a time as a dict and is clearly the slow path.

    Args:
        predicate: ``fn(dict) -> bool``, or a ``pyarrow.compute.Expression`` over field names.
        version: change it when the function's behaviour changes; enters the fingerprint together with its name.

    Raises:
        ConfigError: ``operator-argument``; ``filter-expression`` for an expression that has no address in the data
            (fields by position) or is not pure.
        PlanError: ``filter-expression`` for one that cannot be evaluated on these rows, or is not boolean.
        BadRowsError: ``function-failed`` for rows the function raised on, the first exception as its cause;
            ``function-result`` for rows it returned anything but a bool for.
    """

    predicate: Predicate = attrs.field(converter=_predicate)
    version: str | None = attrs.field(default=None, kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    @property
    def expression(self) -> pc.Expression | None:
        """The Arrow expression, for readers that can skip units by it; None for a function."""
        return self.predicate.expression if isinstance(self.predicate, ArrowExpression) else None

    @property
    def holds_gil(self) -> bool:
        """A function is Python code, an expression is Arrow's."""
        return not isinstance(self.predicate, ArrowExpression)

    @property
    def reads(self) -> Sequence[str] | None:
        """The fields the expression names; a function may read any."""
        return self.predicate.fields if isinstance(self.predicate, ArrowExpression) else None

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """What comes in, once the expression is known to work on it."""
        if isinstance(self.predicate, ArrowExpression):
            self.predicate.check(schema)
        return schema

    def apply(self, block: Block) -> Block:
        """Keep the rows it is true for."""
        if isinstance(self.predicate, ArrowExpression):
            return block.filter(self.predicate.mask(block.data))
        return block.filter(self._call(self.predicate, block.data))

    def _call(self, fn: Callable[[dict[str, Any]], bool], data: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        outcomes = call_on_rows(fn, rows_of(data))
        refusals = {
            i: Refusal(
                f"the function returned {'None' if value is None else f'a {type(value).__qualname__}'}, not a bool",
                "function-result",
                "return True or False, e.g. bool(...)",
            )
            for i, value in enumerate(outcomes.values)
            if not isinstance(value, (bool, np.bool_)) and i not in outcomes.failures
        }
        if outcomes.failures or refusals:
            raise bad_rows(described("filter", fn), outcomes.failures, refusals)
        return np.array(outcomes.values, dtype=bool)
