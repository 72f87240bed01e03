"""The least a row operator can be, and one with everything a row operator may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon import random
from zephon.abc import OperatorContext, RowOperator
from zephon.block import Block, take_batch
from zephon.errors import BadRow, BadRowsError, PlanError
from zephon.spec import execution, runtime


@attrs.frozen(slots=True)
class Minimal(RowOperator):
    """Hands every row on."""

    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """What comes in."""
        return schema

    def apply(self, block: Block) -> Block:
        """The block itself."""
        return block


@attrs.frozen(slots=False)
class Maximal(RowOperator):
    """Drops rows at random, multiplies others, measures a text, and names the dataset.

    Args:
        field: the text to measure.
        keep: share of the rows that are kept.
        copies: most copies of a row.
        missing: what a row without text is: a bad row, or one of length 0.
    """

    field: str = "text"
    keep: float = attrs.field(default=0.7, kw_only=True)
    copies: int = attrs.field(default=2, kw_only=True)
    missing: Literal["error", "empty"] = attrs.field(default="error", kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)
    _runtime: Any = runtime()

    @property
    def reads(self) -> Sequence[str] | None:
        """The text."""
        return (self.field,)

    @property
    def optional_reads(self) -> Sequence[str]:
        """A number that counts on top, where there is one."""
        return ("n",)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """Two fields more."""
        if self.field not in schema.names or not pa.types.is_string(schema.field(self.field).type):
            raise PlanError(f"no text in {self.field!r}", fix="name a field of text", code="field-type")
        length = pa.field("length", pa.int64(), metadata={b"zephon.unit": b"characters"})
        return schema.append(length).append(pa.field("source", pa.string()))

    def setup(self, context: OperatorContext) -> None:
        """Keep the surroundings."""
        self._runtime.context = context

    def teardown(self) -> None:
        """Let go of them."""
        vars(self._runtime).clear()

    def apply(self, block: Block) -> Block:
        """Map one block."""
        bad = self.bad_rows(block)
        if bad:
            raise BadRowsError(bad, what=f"no text in {self.field!r}", code="text-missing")
        words = self.words(block)
        kept = np.flatnonzero(random.uniform(words) < self.keep)
        parents = np.repeat(kept, 1 + random.below(random.words(words[kept], 1), self.copies))
        return self.derived(block, parents, self.length(block))

    def bad_rows(self, block: Block) -> list[BadRow]:
        """Rows without text."""
        if self.missing == "empty":
            return []
        missing = block.data.column(self.field).is_null().to_numpy(zero_copy_only=False)
        return [BadRow(int(row), "null") for row in np.flatnonzero(missing)]

    def words(self, block: Block) -> npt.NDArray[np.uint64]:
        """A random word a row."""
        context: OperatorContext = self._runtime.context
        return context.row_words(block.origins)

    def length(self, block: Block) -> pa.Array:
        """What is measured, int64."""
        measured = pc.fill_null(pc.utf8_length(block.data.column(self.field)), 0).cast(pa.int64())
        if "n" in block.schema.names and pa.types.is_integer(block.schema.field("n").type):
            measured = pc.add(measured, pc.fill_null(block.data.column("n"), 0))
        return measured

    def derived(self, block: Block, parents: npt.NDArray[np.int64], length: pa.Array) -> Block:
        """The rows that come out."""
        return block.derive(self.table(block, parents, length), parents)

    def table(self, block: Block, parents: npt.NDArray[np.int64], length: pa.Array) -> pa.RecordBatch:
        """Their columns."""
        names = np.array(self._runtime.context.datasets, dtype=object)[block.origins.dataset[parents]]
        data = take_batch(block.data, parents)
        columns = [*data.columns, length.take(pa.array(parents)), pa.array(names.tolist(), pa.string())]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema(block.schema))


@attrs.frozen
class NeedsArguments(Minimal):
    """Cannot be made without being told how."""

    share: float = attrs.field(kw_only=True)


class ReadsAnotherField(Minimal):
    """Right, but not on the rows that the kit makes up."""

    reads = ("document",)
