"""Sample tables of any schema: the same rows on every machine, with the values that catch mistakes."""

from __future__ import annotations

import math
from typing import Any, Final

import pyarrow as pa

#: Texts that have broken readers: nothing, other scripts, characters outside the basic plane, separators, quotes.
TEXTS: Final = (
    "plain",
    "",
    "naïve café",
    "漢字かな",
    "🙂 astral",
    "tab\tand \\ and \" and '",
    "u2028 \u2028 here",
    " edge ",
)


def sample_table(schema: pa.Schema, rows: int, *, nulls: bool = False) -> pa.Table:
    """Rows of a schema.

    Args:
        schema: of integers, floats, booleans, texts, binaries, lists and structs of these.
        rows: how many.
        nulls: whether nullable fields have nulls, too.

    Raises:
        TypeError: a type the kit has no values for; override ``table`` in your suite.
    """
    columns = []
    for place, field in enumerate(schema):
        values = [_value(field.type, row * 31 + place) for row in range(rows)]
        if nulls and field.nullable:
            values = [None if (row + place) % 5 == 3 else value for row, value in enumerate(values)]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _value(kind: pa.DataType, n: int) -> Any:
    if pa.types.is_boolean(kind):
        return n % 3 == 0
    if pa.types.is_integer(kind):
        span = 1 << (kind.bit_width - 1)
        signed = pa.types.is_signed_integer(kind)
        return (0, span - 1, -span if signed else 2 * span - 1, n % span)[n % 7 if n % 7 < 4 else 3]
    if pa.types.is_floating(kind):
        return (0.0, -0.5, float(n), math.ldexp(1.0, n % 11))[n % 4]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return f"{TEXTS[n % len(TEXTS)]} {n}" if n % 9 else ""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bytes((n * 7 + k) % 256 for k in range(n % 13))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_value(kind.value_type, n + k) for k in range(n % 6)]
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type, n + k) for k, field in enumerate(kind)}
    raise TypeError(f"the kit has no sample values of type {kind}: override table() in your suite")
