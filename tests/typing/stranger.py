"""An operator of a stranger's plugin, with a type of its own among its arguments."""

import attrs
import pyarrow as pa

from zephon.abc import RowOperator
from zephon.block import Block
from zephon.spec import execution


@attrs.frozen
class Kind:
    """What rows may be like."""

    name: str


@attrs.frozen(slots=True)
class Repeat(RowOperator):
    r"""Repeat every row, as in \1\1.

    Args:
        times: how often.
        like: rows of this kind only.
    """

    times: int = attrs.field(default=2, converter=int)
    like: "Kind | None" = attrs.field(default=None, kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The same."""
        return schema

    def apply(self, block: Block) -> Block:
        """Repeat the rows."""
        return block
