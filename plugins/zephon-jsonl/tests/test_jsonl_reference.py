"""For any bytes at all: rows, bad rows, schema and values are those of a plain reader that takes one line at a time."""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon.errors import BadRowsError, ShardError
from zephon_jsonl import content, indexer, lines, schema, strict

BOM = b"\xef\xbb\xbf"


class Conflict(Exception):
    pass


def refuse(literal):
    raise ValueError(literal)


def finite(literal):
    return float(literal) if math.isfinite(float(literal)) else refuse(literal)


def integer(literal):
    finite(literal)
    return int(literal)


def nesting(value):
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (1 + max(map(nesting, children), default=0)) if isinstance(value, dict | list) else 0


def reference_row(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=refuse, parse_float=finite, parse_int=integer)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and nesting(value) <= strict.MAX_DEPTH else None


def reference_rows(data: bytes) -> list[tuple[int, dict[str, Any] | None]]:
    rows, offset = [], 0
    for line in data.split(b"\n"):
        text = line[3:] if offset == 0 and line.startswith(BOM) else line
        if text.strip(b" \t\r"):
            start = offset + len(line) - len(text.lstrip(b" \t\r"))
            rows.append((start, reference_row(text.strip(b" \t\r"))))
        offset += len(line) + 1
    return rows


def type_of(value: Any) -> Any:
    if isinstance(value, list):
        found = None
        for item in value:
            found = unite(found, type_of(item))
        return [found]
    if isinstance(value, dict):
        return {key: type_of(item) for key, item in value.items()}
    if isinstance(value, int) and not isinstance(value, bool):
        return "int" if -(2**63) <= value < 2**63 else "wide"
    return {bool: "bool", float: "float", str: "str", type(None): None}[type(value)]


def unite(a: Any, b: Any) -> Any:
    if a is None or b is None or a == b:
        return b if a is None else a
    if isinstance(a, dict) and isinstance(b, dict):
        return {**a, **{key: unite(a.get(key), b[key]) for key in b}}
    if isinstance(a, list) and isinstance(b, list):
        return [unite(a[0], b[0])]
    numbers = ["int", "wide", "float"]
    if a in numbers and b in numbers:
        return max(a, b, key=numbers.index)
    raise Conflict


def arrow_type(t: Any) -> pa.DataType:
    if t == "wide":
        raise Conflict
    if isinstance(t, dict):
        return pa.struct([(key, arrow_type(item)) for key, item in t.items()])
    if isinstance(t, list):
        return pa.list_(arrow_type(t[0]))
    return {None: pa.null(), "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string()}[t]


def reference_schema(values: list[dict[str, Any]]) -> dict[str, pa.DataType | None]:
    """Types by top-level field, in order of appearance; None for a field without one type."""
    names = list(dict.fromkeys(name for value in values for name in value))
    found: dict[str, pa.DataType | None] = {}
    for name in names:
        try:
            united = None
            for value in values:
                united = unite(united, type_of(value.get(name)))
            found[name] = arrow_type(united)
        except Conflict:
            found[name] = None
    return found


def shaped(value: Any, t: pa.DataType) -> Any:
    """A value as Arrow gives it back: absent fields are null, integers in a double column are floats."""
    if value is None:
        return None
    if pa.types.is_struct(t):
        return {field.name: shaped(value.get(field.name), field.type) for field in t}
    if pa.types.is_list(t):
        return [shaped(item, t.value_type) for item in value]
    return float(value) if pa.types.is_floating(t) else value


names = st.sampled_from(["a", "b", "", "\u0000", "é", "a.b"]) | st.text(max_size=3)
words = st.text(max_size=5) | st.sampled_from(
    ["2020-01-01", "2020-01-01T00:00:00Z", "NaN", "}\\n{", '"', "\u2028", "😀"]
)
numbers = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 1e308, 5e-324, 2.0**63]),
)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(names, values, max_size=4)
written = st.builds(
    lambda value, ascii, gap: json.dumps(value, ensure_ascii=ascii, separators=(f",{gap}", f"{gap}:")).encode(
        "utf-8", "surrogatepass"
    ),
    objects,
    st.booleans(),
    st.sampled_from(["", " ", "\t", "\r"]),
)
pieces = rb"""
    { } [ ] , : "a" "b" 1 -0 null true NaN -Infinity 1e999 0e999 "\ud800" "\ud83d\ude00" "\udc00" " \ // '
    {"a":1} {"a": {"a":{ "a":1,"a": {"a":"x"} [null,
""".split()
tokens = st.sampled_from(
    [*pieces, BOM, b"\xff", b"\xed\xa0\x80", b"\xc2\xa0", b"\0", b"\x0b", b" ", b"\t", b"\r", b"9" * 400, b"1" * 5000]
    + [b"[" * depth + b"]" * depth for depth in (63, 64, 70)]
    + [b'"' + b"[" * 70 + b'"']
)
soup = st.lists(tokens, max_size=8).map(b"".join)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """An object's line with a few bytes taken out, put in or replaced."""
    line = draw(written)
    at, width = draw(st.integers(0, len(line))), draw(st.integers(0, 3))
    return line[:at] + draw(tokens | st.binary(max_size=2)) + line[at + width :]


line = st.one_of(written, written, damaged(), soup, soup.map(lambda s: b'{"a":' + s + b"}"), st.binary(max_size=12))
endings = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \t\n", b" \n", b"\n" + b" " * 20])
contents = st.builds(
    lambda start, parts, last: start + b"".join(a + b for a, b in parts) + last,
    st.sampled_from([b"", b"", b"", BOM, b"\n", b"  "]),
    st.lists(st.tuples(line, endings), max_size=12),
    line | st.just(b""),
).filter(lambda data: not (content.stranger(data) or content.compression_of(data)))


def check(data: bytes, shard) -> None:
    expected = reference_rows(data)
    bad = [(row, offset) for row, (offset, value) in enumerate(expected) if value is None]
    good = np.array([row for row, (_, value) in enumerate(expected) if value is not None], dtype=np.int64)
    fields = reference_schema([value for _, value in expected if value is not None])
    index = shard.index
    assert index.rows == len(expected)
    assert [(row, offset) for row, offset, _ in index.bad_rows] == bad
    assert index.schema.names == list(fields)
    for field in index.schema:
        assert (fields[field.name] is None) == (schema.META_CONFLICT in (field.metadata or {}))
        assert field.type == (pa.null() if fields[field.name] is None else fields[field.name])
    readable = [name for name, found in fields.items() if found is not None]
    batch = shard.read(good, readable)
    assert batch.schema == pa.schema([(name, fields[name]) for name in readable])
    rows = [expected[row][1] for row in good]
    assert batch.to_pylist() == [{name: shaped(row.get(name), fields[name]) for name in readable} for row in rows]
    for name in set(fields) - set(readable):
        with pytest.raises(ShardError) as conflict:
            shard.read(good, [name])
        assert conflict.value.code == "field-conflict"
    if bad:
        with pytest.raises(BadRowsError) as error:
            shard.read(None, readable)
        assert [(row.row, row.offset) for row in error.value.rows] == bad


@given(data=contents)
@settings(max_examples=250, deadline=None)
def test_any_bytes_index_and_read_as_one_line_at_a_time(in_memory, data):
    check(data, in_memory(data))


@given(
    data=contents, few=st.integers(1, 3), parts=st.integers(2, 3), chunk=st.integers(1, 64), window=st.integers(1, 9)
)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_result_depends_on_how_indexing_cuts_the_content(in_memory, monkeypatch, data, few, parts, chunk, window):
    whole = in_memory(data)
    with monkeypatch.context() as patch:
        patch.setattr(indexer, "_FEW", few)
        patch.setattr(indexer, "_PARTS", parts)
        patch.setattr(lines, "CHUNK_BYTES", chunk)
        patch.setattr("zephon_jsonl.content.CHUNK_BYTES", chunk)
        patch.setattr(lines, "_WINDOW", window)
        cut = in_memory(data)
    assert cut.index.schema.equals(whole.index.schema, check_metadata=True)
    assert cut.index.bad_rows == whole.index.bad_rows
    assert cut.index.blob.column("offsets") == whole.index.blob.column("offsets")
    check(data, cut)


@given(data=contents, compression=st.sampled_from([gzip.compress, zstandard.compress]), cut=st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_compressed_content_reads_as_plain_content(in_memory, data, compression, cut):
    middle = int(cut * len(data))
    plain, packed = in_memory(data), in_memory(compression(data[:middle]) + compression(data[middle:]))
    assert packed.index.schema.equals(plain.index.schema, check_metadata=True)
    assert packed.index.bad_rows == plain.index.bad_rows
    check(data, packed)


@given(data=contents, data_of_test=st.data())
@settings(max_examples=80, deadline=None)
def test_a_read_is_the_concatenation_of_reads_of_any_split(in_memory, data, data_of_test):
    shard = in_memory(data)
    bad = {row for row, _, _ in shard.index.bad_rows}
    rows = [row for row in range(shard.index.rows) if row not in bad and data_of_test.draw(st.booleans())]
    columns = [field.name for field in shard.index.schema if schema.META_CONFLICT not in (field.metadata or {})]
    cuts = sorted(data_of_test.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    reader = shard.open()
    pieces = [
        reader.read(np.array(rows[start:stop], dtype=np.int64), columns)
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True)
    ]
    assert [row for piece in pieces for row in piece.to_pylist()] == shard.read(rows, columns).to_pylist()
    assert {str(piece.schema) for piece in pieces} == {str(pieces[0].schema)}
