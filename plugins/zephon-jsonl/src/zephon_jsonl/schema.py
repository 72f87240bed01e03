"""The schema of all rows, found piece by piece in the order of rows.

Types unite as everywhere in Zephon (:func:`zephon.block.unify_types`): null gives way, integers with floats are
doubles, structs unite, empty lists take any item. What does not unite - text and numbers in one field, integers beyond
int64 - is no error before the field is read: such a top-level field has type null in the schema, and the field
metadata :data:`META_CONFLICT` say why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.block import META_CONFLICT, list_parts
from zephon.errors import ShardError
from zephon_jsonl.strict import Integer, Real

#: Different keys of one object that are still taken for the fields of a record; more are a map's.
MAX_KEYS: Final = 4096

_BOOLEAN, _NUMBER, _STRING, _LIST, _OBJECT = "a boolean", "a number", "a string", "a list", "an object"
#: The way to a value: field names, None for "an item of the list".
_Path = tuple[str | None, ...]


class SchemaBuilder:
    """Unites the types of rows that are shown to it in order."""

    def __init__(self, shard: str) -> None:
        self._shard = shard
        self._fields: dict[str, _Node] = {}
        self._conflicts: dict[str, str] = {}
        self._last = pa.schema([])

    def add_batch(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Show consecutive rows, typed by Arrow; text that Arrow took for times is text.

        Raises:
            ShardError: ``too-many-fields``.
        """
        if batch.schema.equals(self._last):
            return
        rows = np.arange(first_row, first_row + batch.num_rows)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name not in self._conflicts:
                try:
                    self._field(name).add_column(column, rows)
                except _ConflictError:
                    self._give_up(name)
        self._last = batch.schema

    def add_row(self, value: dict[str, Any], row: int) -> None:
        """Show one row as :func:`zephon_jsonl.strict.parse` returns it.

        Raises:
            ShardError: ``too-many-fields``.
        """
        for name, item in value.items():
            if name not in self._conflicts:
                try:
                    self._field(name).add_value(item, row)
                except _ConflictError:
                    self._give_up(name)

    def finish(self) -> pa.Schema:
        """The schema in canonical types, fields in order of first appearance."""
        fields = []
        for name, node in self._fields.items():
            why = self._conflicts.get(name) or next(node.excesses((name,)), "")
            if why:
                fields.append(pa.field(name, pa.null(), metadata={META_CONFLICT: why.encode()}))
            else:
                fields.append(pa.field(name, node.type()))
        return pa.schema(fields)

    def _field(self, name: str) -> _Node:
        node = self._fields.get(name)
        if node is None:
            node = self._fields[name] = _Node()
            if len(self._fields) > MAX_KEYS:
                raise ShardError(
                    f"{self._shard}: the rows have more than {MAX_KEYS} different top-level keys",
                    found=f"the {MAX_KEYS + 1}th is {name!r}: keys seem to be data",
                    fix='write such rows as {"key": ..., "value": ...}',
                    code="too-many-fields",
                )
        return node

    def _give_up(self, name: str) -> None:
        """Note why a field has no type, and look at it no more."""
        self._conflicts[name] = next(self._fields[name].conflicts((name,)))
        self._fields[name] = _Node()


class _ConflictError(Exception):
    """A field has no type."""


class _Node:
    """What is known of the values at one place: grown in place, so that a row costs what the row holds."""

    __slots__ = ("fields", "item", "kinds", "real", "wide")

    def __init__(self) -> None:
        #: Kinds of values met, null apart, each with the first row that has it; more than one are a conflict.
        self.kinds: dict[str, int] = {}
        #: Whether some number has a fraction or an exponent.
        self.real = False
        #: The first row with an integer that int64 does not hold.
        self.wide: int | None = None
        self.fields: dict[str, _Node] = {}
        self.item: _Node | None = None

    def add_value(self, value: Any, row: int) -> None:
        if isinstance(value, dict):
            self._add_kind(_OBJECT, row)
            for name, item in value.items():
                self._field(name).add_value(item, row)
        elif isinstance(value, list):
            self._add_kind(_LIST, row)
            for item in value:
                self._item().add_value(item, row)
        elif isinstance(value, Integer):
            self._add_kind(_NUMBER, row)
            if self.wide is None and not value.fits:
                self.wide = row
        elif isinstance(value, Real):
            self._add_kind(_NUMBER, row)
            self.real = True
        elif value is not None:
            self._add_kind(_BOOLEAN if isinstance(value, bool) else _STRING, row)

    def add_column(self, column: pa.Array, rows: npt.NDArray[np.int64]) -> None:
        """Values of one type; ``rows`` tells the row each is from."""
        t = column.type
        kind = _kind_of(t)
        if kind is None:
            return
        if kind not in self.kinds:
            valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            if len(valid) == 0:
                return
            self._add_kind(kind, int(rows[valid[0]]))
        self.real = self.real or pa.types.is_floating(t)
        if kind == _OBJECT:
            for i in range(t.num_fields):
                self._field(t.field(i).name).add_column(column.field(i), rows)
        elif kind == _LIST:
            offsets, values = list_parts(column)
            self._item().add_column(values, np.repeat(rows, np.diff(offsets)))

    def type(self) -> pa.DataType:
        """The one type of all values; null where there is none yet."""
        kind = next(iter(self.kinds), "")
        if kind == _OBJECT:
            return pa.struct([(name, node.type()) for name, node in self.fields.items()])
        if kind == _LIST:
            return pa.list_(self.item.type() if self.item is not None else pa.null())
        if kind == _NUMBER:
            return pa.float64() if self.real else pa.int64()
        return {"": pa.null(), _BOOLEAN: pa.bool_(), _STRING: pa.string()}[kind]

    def conflicts(self, path: _Path) -> Iterator[str]:
        """Why there is no type, for every place at or below this one that has none."""
        if len(self.kinds) > 1:
            (row, kind), (other_row, other) = sorted((row, kind) for kind, row in self.kinds.items())[:2]
            yield f"{_dotted(path)} is {kind} in row {row} and {other} in row {other_row}"
        if len(self.fields) > MAX_KEYS:
            yield f"{_dotted(path)} has more than {MAX_KEYS} different keys: a map, not a record"
        for step, node in self._children():
            yield from node.conflicts((*path, step))

    def excesses(self, path: _Path) -> Iterator[str]:
        """The places at or below this one whose integers do not fit and that are not doubles."""
        if self.wide is not None and not self.real:
            yield f"{_dotted(path)} is beyond a 64-bit integer in row {self.wide}"
        for step, node in self._children():
            yield from node.excesses((*path, step))

    def _children(self) -> Iterator[tuple[str | None, _Node]]:
        yield from self.fields.items()
        if self.item is not None:
            yield None, self.item

    def _add_kind(self, kind: str, row: int) -> None:
        self.kinds.setdefault(kind, row)
        if len(self.kinds) > 1:
            raise _ConflictError

    def _field(self, name: str) -> _Node:
        node = self.fields.get(name)
        if node is None:
            node = self.fields[name] = _Node()
            if len(self.fields) > MAX_KEYS:
                raise _ConflictError
        return node

    def _item(self) -> _Node:
        if self.item is None:
            self.item = _Node()
        return self.item


def count_leaves(schema: pa.Schema) -> int:
    """How many columns of plain values a schema comes down to."""
    return sum(_leaves(field.type) for field in schema)


def _leaves(t: pa.DataType) -> int:
    return sum(_leaves(t.field(i).type) for i in range(t.num_fields)) if t.num_fields else 1


def _kind_of(t: pa.DataType) -> str | None:
    types = pa.types
    if types.is_struct(t):
        return _OBJECT
    if types.is_list(t):
        return _LIST
    if types.is_null(t):
        return None
    if types.is_boolean(t):
        return _BOOLEAN
    return _NUMBER if types.is_integer(t) or types.is_floating(t) else _STRING


def _dotted(path: _Path) -> str:
    return "".join("[]" if step is None else f".{step}" for step in path)[1:]
