"""Arrow compute expressions as plain data: readable, comparable, free of any schema.

Arrow itself writes an expression down as one Arrow IPC file: the expression's nodes in prefix order as the schema's
metadata, its literals and function options as columns. That form needs no schema to bind to and covers every function,
which Substrait as Arrow implements it does not (no casts, no regular expressions, no function with options). Its bytes
are an implementation detail, so a spec holds the same tree in plain data instead::

    {"call": "greater", "arguments": [{"field": "score"}, {"value": 3, "type": "int64"}]}

The schema's metadata repeats keys, which pyarrow's dictionary view of it hides; it is read through the Arrow C data
interface (https://arrow.apache.org/docs/format/CDataInterface.html), where it is a list of pairs.
"""

from __future__ import annotations

import base64
import ctypes
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon.errors import ConfigError, PlanError
from zephon.spec.codec import type_from_plain

Plain = dict[str, Any]
Pairs = list[tuple[bytes, bytes]]

TAG: Final = "$expression"
_TYPE_NAME: Final = "_type_name"  # Arrow's own field for the class of function options
_IMPURE: Final = frozenset({"random"})


class ArrowExpression:
    """An Arrow compute expression inside a spec.

    Attributes:
        expression: the expression itself.
        fields: top-level fields it refers to, in order of first appearance.

    Raises:
        ConfigError: ``filter-expression`` for one that refers to fields by position, or draws random numbers.
    """

    __slots__ = ("_tree", "expression", "fields")

    def __init__(self, expression: pc.Expression) -> None:
        try:
            _, (buffer,) = expression.__reduce__()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise _refused(str(expression), str(error), "refer to fields by name: pc.field('name')") from error
        reader = pa.ipc.open_file(pa.py_buffer(bytes(buffer)))
        literals = reader.get_batch(0)
        pairs = iter(_metadata_pairs(reader.schema))
        self.expression = expression
        self._tree = _read_node(next(pairs), pairs, literals)
        if impure := sorted(set(_calls(self._tree)) & _IMPURE):
            raise _refused(
                str(expression),
                f"the function {impure[0]!r}: its result is another one at every call",
                "draw from the data: compare a hash or an id of the row",
            )
        self.fields = tuple(dict.fromkeys(_top_level_fields(self._tree)))

    def to_plain(self) -> Plain:
        """The expression as plain data."""
        return {TAG: self._tree}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> ArrowExpression:
        """Inverse of :meth:`to_plain`.

        Raises:
            ConfigError: ``filter-expression`` for data that is not an expression.
        """
        try:
            pairs: Pairs = []
            literals: list[pa.Array] = []
            _write_node(plain[TAG], pairs, literals)
            return ArrowExpression(_deserialize(pairs, literals))
        except ConfigError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
            raise _refused(str(plain)[:200], f"{type(error).__name__}: {error}", "write it with to_spec()") from error

    def mask(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which rows it is true for: bool ``[rows]``, false where it is null."""
        result = self._evaluate(batch)
        return pc.fill_null(result, False).to_numpy()

    def check(self, schema: pa.Schema) -> None:
        """Check that it can be evaluated on rows of this schema and gives booleans.

        Raises:
            PlanError: ``filter-expression``.
        """
        try:
            found = self._evaluate(pa.RecordBatch.from_pylist([], schema=schema)).type
        except (pa.ArrowException, KeyError) as error:
            raise PlanError(
                f"the expression of filter, {self}, cannot be evaluated on the rows that reach it",
                found=f"{error}; the rows have {_signature(schema)}",
                fix="compare fields with values of their own type, or cast: pc.field('name').cast('int64')",
                code="filter-expression",
            ) from error
        if found != pa.bool_():
            raise PlanError(
                f"the expression of filter, {self}, does not give true or false",
                found=f"{found}; expected bool",
                fix="compare it with something: pc.field('name') > 0",
                code="filter-expression",
            )

    def _evaluate(self, batch: pa.RecordBatch) -> pa.ChunkedArray:
        from pyarrow import acero  # imports all of pyarrow.dataset

        needed = batch.select(self.fields) if self.fields else pa.record_batch({"": pa.nulls(batch.num_rows)})
        source = acero.TableSourceNodeOptions(pa.Table.from_batches([needed]))
        plan = acero.Declaration.from_sequence(
            [
                acero.Declaration("table_source", source),
                acero.Declaration("project", acero.ProjectNodeOptions([self.expression], ["mask"])),
            ]
        )
        return plan.to_table(use_threads=False).column(0)

    def __eq__(self, other: object) -> bool:
        return self._tree == other._tree if isinstance(other, ArrowExpression) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fields)

    def __repr__(self) -> str:
        return str(self.expression)

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowExpression.from_plain, (self.to_plain(),)


# -- Arrow's form to the tree ---------------------------------------------------------------------------------------


class _ArrowSchema(ctypes.Structure):
    """The first members of ``struct ArrowSchema`` of the C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata_pairs(schema: pa.Schema) -> Pairs:
    """All key-value pairs of a schema's metadata, in order, repeated keys included."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at: int | None = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if at is None:
        return []

    def number() -> int:
        nonlocal at
        value = ctypes.c_int32.from_address(at).value
        at += 4
        return value

    def text() -> bytes:
        nonlocal at
        length = number()
        value = ctypes.string_at(at, length)
        at += length
        return value

    return [(text(), text()) for _ in range(number())]


def _read_node(pair: tuple[bytes, bytes], rest: Iterator[tuple[bytes, bytes]], literals: pa.RecordBatch) -> Plain:
    kind, value = pair[0].decode(), pair[1].decode()
    if kind == "field_ref":
        return {"field": value}
    if kind == "nested_field_ref":
        return {"field": [next(rest)[1].decode() for _ in range(int(value))]}
    if kind == "literal":
        return _literal_to_plain(literals.column(int(value)))
    if kind != "call":
        raise _refused(value, f"a node of kind {kind!r}", "report this expression: its form is not known")
    node: Plain = {"call": value, "arguments": []}
    for key, what in rest:
        if key == b"end":
            return node
        if key == b"options":
            options = literals.column(int(what))
            items = {field.name: options.field(i) for i, field in enumerate(options.type)}
            node["options"] = {
                name: item[0].as_py().decode() if name == _TYPE_NAME else _literal_to_plain(item)
                for name, item in items.items()
            }
        else:
            node["arguments"].append(_read_node((key, what), rest, literals))
    raise _refused(value, "a call without end", "report this expression: its form is not known")


def _literal_to_plain(literal: pa.Array) -> Plain:
    """A one-row array as its value, or as Arrow IPC where JSON has no such value."""
    if _is_natural(literal.type):
        value = literal[0].as_py()
        if value is None:
            return {"type": str(literal.type)}
        if _is_finite(value):
            return {"value": value, "type": str(literal.type)}
    batch = pa.record_batch([literal], names=["literal"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return {"arrow": base64.b64encode(sink.getvalue()).decode()}


def _is_natural(t: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(t):
        return t == pa.list_(t.value_type) and _is_natural(t.value_type)
    plain = types.is_null(t) or types.is_boolean(t) or types.is_integer(t) or types.is_string(t)
    return bool(plain or types.is_float32(t) or types.is_float64(t))


def _is_finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_finite(item) for item in value)
    return not isinstance(value, float) or math.isfinite(value)


def _calls(node: Plain) -> Iterator[str]:
    if "call" in node:
        yield node["call"]
        for argument in node["arguments"]:
            yield from _calls(argument)


def _top_level_fields(node: Plain) -> Iterator[str]:
    if "field" in node:
        yield node["field"] if isinstance(node["field"], str) else node["field"][0]
    for argument in node.get("arguments", ()):
        yield from _top_level_fields(argument)


# -- the tree to Arrow's form ---------------------------------------------------------------------------------------


def _write_node(node: Mapping[str, Any], pairs: Pairs, literals: list[pa.Array]) -> None:
    def refer(key: bytes, literal: pa.Array) -> None:
        pairs.append((key, str(len(literals)).encode()))
        literals.append(literal)

    if "field" in node:
        names = node["field"]
        if not isinstance(names, str):
            pairs.append((b"nested_field_ref", str(len(names)).encode()))
        pairs.extend((b"field_ref", name.encode()) for name in ([names] if isinstance(names, str) else names))
    elif "call" in node:
        call = node["call"].encode()
        pairs.append((b"call", call))
        for argument in node["arguments"]:
            _write_node(argument, pairs, literals)
        if "options" in node:
            options = {
                name: pa.array([item.encode()]) if name == _TYPE_NAME else _literal_from_plain(item)
                for name, item in node["options"].items()
            }
            refer(b"options", pa.StructArray.from_arrays(list(options.values()), names=list(options)))
        pairs.append((b"end", call))
    else:
        refer(b"literal", _literal_from_plain(node))


def _literal_from_plain(plain: Mapping[str, Any]) -> pa.Array:
    if "arrow" in plain:
        with pa.ipc.open_stream(base64.b64decode(plain["arrow"])) as reader:
            return reader.read_next_batch().column(0)
    return pa.array([plain.get("value")], type=type_from_plain(plain["type"]))


def _deserialize(pairs: Pairs, literals: Sequence[pa.Array]) -> pc.Expression:
    arrays = list(literals) or [pa.nulls(1)]  # Arrow wants one row even where there is no literal
    schema = pa.schema([pa.field("", array.type) for array in arrays], metadata=pa.KeyValueMetadata(pairs))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    rebuild, _ = pc.scalar(None).__reduce__()
    return rebuild(sink.getvalue())


def _refused(expression: str, found: str, fix: str) -> ConfigError:
    return ConfigError(f"filter cannot use the expression {expression}", found=found, fix=fix, code="filter-expression")


def _signature(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "no field"
