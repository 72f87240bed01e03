"""The operator ``shout``."""

import attrs
import pyarrow.compute as pc

from zephon.abc import RowOperator
from zephon.spec import execution


@attrs.frozen(slots=True)
class Shout(RowOperator):
    """Upper-cases a text field.

    Args:
        field: the field.
        parallelism: how many workers.
        placement: where they run.
    """

    field: str = "text"
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    preserves_rows = True

    @property
    def reads(self):
        return [self.field]

    def output_schema(self, schema):
        return schema

    def apply(self, block):
        place = block.schema.get_field_index(self.field)
        return block.with_data(
            block.data.set_column(place, block.schema.field(place), pc.utf8_upper(block.data.column(place)))
        )
