"""The schema of all rows, found piece by piece in the order of rows.

Types unite as everywhere in Zephon (:func:`zephon.block.unify_types`): null gives way, integers with floats are
doubles, structs unite, empty lists take any item. What does not unite - text and numbers in one field, integers beyond
int64 - is no error before the field is read: such a top-level field has type null in the schema, and the field
metadata :data:`META_CONFLICT` say why.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from zephon.block import list_parts, unify_types
from zephon.errors import ShardError

from zephon_jsonl.strict import Integer, Real

#: Key of field metadata: the field cannot be read from this shard; the value, text in UTF-8, says why.
META_CONFLICT: Final = b"zephon.conflict"
#: Different keys of one object that are still taken for the fields of a record; more are a map's.
MAX_KEYS: Final = 4096

#: Stands for integers int64 does not hold; unites with integers and floats as they do. JSON itself has no decimals.
_WIDE: Final = pa.decimal128(38, 0)

#: The way to a value: field names, None for "an item of the list".
_Path = tuple[str | None, ...]


class SchemaBuilder:
    """Unites the types of rows that are shown to it in order."""

    def __init__(self, shard: str) -> None:
        self._shard = shard
        self._types: dict[str, pa.DataType] = {}
        self._conflicts: dict[str, str] = {}
        #: The first row in which a kind of value was met, for messages.
        self._kinds: dict[_Path, dict[str, int]] = {}
        self._last = pa.schema([])

    def add_batch(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Show consecutive rows, typed by Arrow.

        Raises:
            ShardError: ``too-many-fields``.
        """
        if batch.schema.equals(self._last):
            return
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if field.name in self._conflicts:
                continue
            found = _without_times(field.type)
            for path, kind in _kinds_of(found, (field.name,)):
                if kind not in self._kinds.setdefault(path, {}):
                    self._kinds[path][kind] = first_row + _first_row(column, path[1:])
            self._add(field.name, found)
        self._last = batch.schema

    def add_row(self, value: dict[str, Any], row: int) -> None:
        """Show one row as :func:`zephon_jsonl.strict.parse` returns it.

        Raises:
            ShardError: ``too-many-fields``.
        """
        for name, item in value.items():
            if name not in self._conflicts:
                self._add(name, self._type_of(item, (name,), row))

    def finish(self) -> pa.Schema:
        """The schema in canonical types, fields in order of first appearance."""
        for name, found in self._types.items():
            wide = next(_wide_paths(found, (name,)), None)
            if wide is not None and name not in self._conflicts:
                self._conflicts[name] = (
                    f"{_dotted(wide)} is beyond a 64-bit integer in row {self._kinds[wide]['a wide integer']}"
                )
        return pa.schema(
            [
                pa.field(name, pa.null(), metadata={META_CONFLICT: self._conflicts[name].encode()})
                if name in self._conflicts
                else pa.field(name, found)
                for name, found in self._types.items()
            ]
        )

    def _add(self, name: str, found: pa.DataType | None) -> None:
        """Unite one top-level field; None is a conflict within the value itself."""
        former = self._types.get(name)
        if former is None:
            self._types[name] = pa.null()
            if len(self._types) > MAX_KEYS:
                raise ShardError(
                    f"{self._shard}: the rows have more than {MAX_KEYS} different top-level keys",
                    found=f"the {MAX_KEYS + 1}th is {name!r}: keys seem to be data",
                    fix='write such rows as {"key": ..., "value": ...}',
                    code="too-many-fields",
                )
        elif found is not None and found.equals(former):
            return
        united = None if found is None else unify_types(self._types[name], found)
        if united is None:
            self._conflicts[name] = self._mixture(name)
        elif _widest(united) > MAX_KEYS:
            self._conflicts[name] = f"{name} has more than {MAX_KEYS} different keys: a map, not a record"
        else:
            self._types[name] = united

    def _mixture(self, name: str) -> str:
        """Where values of several kinds were met first below a field."""
        for path, kinds in self._kinds.items():
            several = [(row, kind) for kind, row in kinds.items() if kind != "a wide integer"]
            if path[0] == name and len(several) > 1:
                (row, kind), (other_row, other) = sorted(several)[:2]
                return f"{_dotted(path)} is {kind} in row {row} and {other} in row {other_row}"
        raise AssertionError("types that do not unite are of different kinds")

    def _type_of(self, value: Any, path: _Path, row: int) -> pa.DataType | None:
        """The type of one value, or None if its own items do not unite."""
        if value is None:
            return pa.null()
        kind, found = _SCALARS.get(type(value), ("", None))
        if isinstance(value, Integer) and not value.fits:
            self._kinds.setdefault(path, {}).setdefault("a wide integer", row)
            found = _WIDE
        elif isinstance(value, dict):
            kind = "an object"
            fields = [(key, self._type_of(item, (*path, key), row)) for key, item in value.items()]
            found = None if any(t is None for _, t in fields) else pa.struct(fields)
        elif isinstance(value, list):
            kind = "a list"
            items = [self._type_of(item, (*path, None), row) for item in value]
            item = reduce(_unite, dict.fromkeys(items), pa.null())
            found = None if item is None else pa.list_(item)
        self._kinds.setdefault(path, {}).setdefault(kind, row)
        return found


_SCALARS: Final[dict[type, tuple[str, pa.DataType]]] = {
    bool: ("a boolean", pa.bool_()),
    str: ("a string", pa.string()),
    Integer: ("a number", pa.int64()),
    Real: ("a number", pa.float64()),
}


def count_leaves(schema: pa.Schema) -> int:
    """How many columns of plain values a schema comes down to."""
    return sum(_leaves(field.type) for field in schema)


def _leaves(t: pa.DataType) -> int:
    return sum(map(_leaves, _children(t))) if t.num_fields else 1


def _children(t: pa.DataType) -> list[pa.DataType]:
    return [t.field(i).type for i in range(t.num_fields)]


def _widest(t: pa.DataType) -> int:
    own = t.num_fields if pa.types.is_struct(t) else 0
    return max(own, *map(_widest, _children(t))) if t.num_fields else own


def _unite(a: pa.DataType | None, b: pa.DataType | None) -> pa.DataType | None:
    return None if a is None or b is None else unify_types(a, b)


def _without_times(t: pa.DataType) -> pa.DataType:
    """Strings that Arrow took for times are strings."""
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _without_times(f.type)) for f in t])
    if pa.types.is_list(t):
        return pa.list_(_without_times(t.value_type))
    return pa.string() if pa.types.is_temporal(t) else t


def _kinds_of(t: pa.DataType, path: _Path) -> Iterator[tuple[_Path, str]]:
    if pa.types.is_struct(t):
        yield path, "an object"
        for field in t:
            yield from _kinds_of(field.type, (*path, field.name))
    elif pa.types.is_list(t):
        yield path, "a list"
        yield from _kinds_of(t.value_type, (*path, None))
    else:
        yield from ((path, kind) for kind, scalar in _SCALARS.values() if scalar.equals(t))


def _wide_paths(t: pa.DataType, path: _Path) -> Iterator[_Path]:
    if t.equals(_WIDE):
        yield path
    elif pa.types.is_struct(t):
        for field in t:
            yield from _wide_paths(field.type, (*path, field.name))
    elif pa.types.is_list(t):
        yield from _wide_paths(t.value_type, (*path, None))


def _first_row(column: pa.Array, path: _Path) -> int:
    """The first row with a value at the end of the path."""
    rows: npt.NDArray[np.int64] = np.arange(len(column))
    for step in path:
        if step is None:
            offsets, column = list_parts(column)
            rows = np.repeat(rows, np.diff(offsets))
        else:
            column = column.field(step)
    return int(rows[column.is_valid().to_numpy(zero_copy_only=False)][0])


def _dotted(path: _Path) -> str:
    return path[0] + "".join("[]" if step is None else f".{step}" for step in path[1:]) if path[0] else ""
