"""Functions and operators that recipes name, and recipes themselves, for the tests of the command line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import attrs

from zephon.abc import RowOperator
from zephon.block import Block

_CALLS = itertools.count()


def with_length(row: dict[str, Any]) -> dict[str, Any]:
    """Pure: a row and the length of its text."""
    return {**row, "length": len(row["text"])}


def long_enough(row: dict[str, Any]) -> bool:
    """A predicate."""
    return len(row["text"]) > 6


def counted(row: dict[str, Any]) -> dict[str, Any]:
    """Not pure: what comes out depends on how often it was called before."""
    return {**row, "calls": next(_CALLS)}


def running_total(state: int, row: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A fold."""
    return state + row["n"], {**row, "total": state + row["n"]}


def not_the_last_of_ten(batch: Any) -> Any:
    """Drops every tenth microbatch."""
    return None if batch.index % 10 == 9 else batch


def smallest(offer: int) -> int:
    """Agreement of a single rank with itself."""
    return offer


@attrs.frozen(slots=True)
class Doubled(RowOperator):
    """An operator without a registered name.

    Args:
        field: a column of integers.
        times: how often it is doubled.
    """

    preserves_rows: ClassVar[bool] = True

    field: str
    times: int = attrs.field(default=1, kw_only=True)

    @property
    def reads(self) -> tuple[str, ...]:
        """The field."""
        return (self.field,)

    def output_schema(self, schema: Any) -> Any:
        """What comes in."""
        return schema

    def apply(self, block: Block) -> Block:
        """Double the column."""
        import pyarrow.compute as pc

        place = block.schema.get_field_index(self.field)
        doubled = pc.multiply(block.data.column(self.field), 2**self.times)
        return block.with_data(block.data.set_column(place, block.schema.field(place), doubled))


def toml(value: Mapping[str, Any]) -> str:
    """Plain data as TOML: every top-level value on a line of its own, tables inline."""
    return "".join(f"{json.dumps(key)} = {_inline(item)}\n" for key, item in value.items())


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # a basic string of TOML escapes as JSON does
    if isinstance(value, Iterable):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if value is None:
        raise TypeError("TOML has no null")
    return json.dumps(value)
