"""Many lines at once: Arrow's block parser, and when its rows are the lines.

Arrow parses a *sequence of values*; it does not look at line ends. It takes two objects on one line for two rows and
an object over two lines for one, so that errors of both kinds may cancel out. The callers here pass only lines that
begin with ``{`` and end with ``}`` (whitespace aside), and then rows equal lines if their numbers do: no string
holds a newline, hence a line's last ``}`` and the next line's first ``{`` are tokens, which follow each other nowhere
but between two values of the sequence. No object spans lines, every line holds at least one, and the count says that
none holds more. (That ``{`` also keeps ``null`` from being the first value, which crashes pyarrow up to 26.0.)

What Arrow accepts and a row may not hold is kept from it (text that is not UTF-8) or found in what it returns
(``NaN``, numbers that overflow). What it refuses and a row may hold (repeated keys, ``0e999``) is written anew by
:func:`zephon_jsonl.strict.normalise`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from zephon.block import concat_batches, empty_columns

#: Arrow counts a block's bytes in 32 bits.
_MAX_BLOCK: Final = (1 << 31) - 1
#: From here on a double may stand for an integer that int64 does not hold.
_INT64_LIMIT: Final = pa.scalar(2.0**63)


def infer(lines: pa.Buffer, rows: int) -> pa.RecordBatch | None:
    """Parse with types as found. Strings that look like times come out as timestamps: use the type, not the values.

    Returns:
        ``rows`` rows, or None where the lines have to be looked at one by one: the parser refuses one or does not see
        one row per line, a field has several types, or a number is not finite or may be an integer beyond int64.
    """
    batch = _read(lines, rows, pj.ParseOptions(unexpected_field_behavior="infer"))
    return None if batch is None or any(map(_has_extremes, batch.columns)) else batch


def parse(lines: pa.Buffer, rows: int, schema: pa.Schema) -> pa.RecordBatch | None:
    """Parse the fields of ``schema`` only, into exactly its types.

    Returns:
        ``rows`` rows of ``schema``, or None where the lines do not hold them.
    """
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    batch = _read(lines, rows, options)
    return None if batch is None else pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def is_readable(lines: pa.Buffer, rows: int) -> bool:
    """Whether :func:`parse` takes these lines if the types fit."""
    return (
        _read(lines, rows, pj.ParseOptions(explicit_schema=pa.schema([]), unexpected_field_behavior="ignore"))
        is not None
    )


def _read(lines: pa.Buffer, rows: int, options: pj.ParseOptions) -> pa.RecordBatch | None:
    if lines.size >= _MAX_BLOCK:
        return None
    # One block: types are inferred once, for all lines together, and nothing is cut.
    read_options = pj.ReadOptions(use_threads=False, block_size=lines.size + 1)
    try:
        table = pj.read_json(pa.BufferReader(lines), read_options=read_options, parse_options=options)
    except pa.ArrowException:
        return None
    if table.num_rows != rows:
        return None
    if table.num_columns == 0:
        return empty_columns(rows)
    batch = concat_batches(table.to_batches())
    try:
        batch.validate()
    except pa.ArrowInvalid:
        columns = [_mended(column) for column in batch.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return batch


def _mended(array: pa.Array) -> pa.Array:
    """Put back the nulls that Arrow drops from the front of list items of unknown or null type (apache/arrow#51305)."""
    t = array.type
    if pa.types.is_struct(t):
        children = [_mended(array.field(i)) for i in range(t.num_fields)]
        return pa.Array.from_buffers(t, len(array), array.buffers()[:1], children=children)
    if pa.types.is_list(t):
        values = _mended(array.values)
        missing = int(array.offsets[-1].as_py()) - len(values)
        if missing > 0:
            values = pa.concat_arrays([pa.nulls(missing, values.type), values])
        return pa.Array.from_buffers(t, len(array), array.buffers()[:2], children=[values])
    return array


def _has_extremes(array: pa.Array) -> bool:
    if pa.types.is_struct(array.type):
        return any(_has_extremes(array.field(i)) for i in range(array.type.num_fields))
    if pa.types.is_list(array.type):
        return _has_extremes(array.values)
    if pa.types.is_floating(array.type):
        # A NaN is not below anything.
        return not pc.all(pc.less(pc.abs(array), _INT64_LIMIT), min_count=0).as_py()
    return False
