"""Nested values damaged anywhere: text, or a bad value."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon_litdata import nested
from zephon_litdata.cells import BadValuesError, Cells


def text_of(value):
    (text,) = nested.decode(
        Cells(pa.py_buffer(value), *(pa.array([n]).to_numpy() for n in (0, len(value))))
    ).to_pylist()
    return text


def u32(number):
    return number.to_bytes(4, "little")


VALUES = {
    "json": (b"\x00" + u32(4) + b"[{}]", [{}]),
    "legacy": (b'{"a": 1}', {"a": 1}),
    "texts": (b"\x01" + u32(2) + u32(1) + b"a" + u32(0), ["a", ""]),
    "ints": (b"\x02" + u32(1) + (7).to_bytes(8, "little"), [7]),
    "floats": (b"\x03" + u32(1) + b"\0\0\0\0\0\0\xf8\x3f", [1.5]),
    "bools": (b"\x04" + u32(2) + b"\1\0", [True, False]),
    "dict": (b"\x05" + u32(1) + u32(1) + b"k" + b"\x0a\x01", {"k": True}),
    "rows": (b"\x06" + u32(2) + u32(1) + u32(1) + b"k" + b"\x10\x14\x01", [{"k": None}, {"k": True}]),
    "text": (b"\x07" + u32(2) + "é".encode(), "é"),
    "none": (b"\x0b", None),
}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_values_of_every_tag_are_json(name):
    value, wanted = VALUES[name]
    assert json.loads(text_of(value)) == wanted


@pytest.mark.parametrize("name", sorted(set(VALUES) - {"legacy"}))
def test_a_value_cut_anywhere_is_a_bad_value(name):
    value, _ = VALUES[name]
    for size in range(len(value)):
        with pytest.raises(BadValuesError):
            text_of(value[:size])


@given(st.binary(max_size=40))
def test_any_bytes_are_json_or_a_bad_value(value):
    try:
        text = text_of(value)
    except BadValuesError:
        return
    json.loads(text)


def test_half_a_surrogate_pair_is_a_bad_value():
    with pytest.raises(BadValuesError):
        text_of(b'"\\ud800"')


def test_nesting_has_an_end():
    deep = b"\x05" + u32(1) + u32(0)
    with pytest.raises(BadValuesError):
        text_of(deep * 100 + b"\x0b")
