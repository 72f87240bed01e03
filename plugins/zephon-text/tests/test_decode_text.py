"""decode_text: what Python's own decoder says, row by row, by whole columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.errors import BadRowsError, ConfigError, PlanError
from zephon_text.decode import DecodeText

TEXTS = st.text(alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from("\r\n\u2028 ")), max_size=20)
#: Mostly valid UTF-8 with some damage, and now and then no bytes at all.
BYTES = st.one_of(
    TEXTS.map(str.encode),
    st.binary(max_size=8),
    st.sampled_from([b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"ok\xff", b"\xe2\x82", b"\xef\xbb\xbfbom"]),
)
CUTS = st.lists(st.integers(0, 12), max_size=4)


def normalized(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def binary(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, type=pa.binary())


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=12), CUTS)
@settings(max_examples=60)
def test_utf8_becomes_the_same_text_whatever_the_block_boundaries(make_block, apply_in_pieces, texts, cuts):
    block = make_block({"text": binary([None if t is None else t.encode() for t in texts])})
    out = apply_in_pieces(DecodeText(), block, cuts)
    assert out.data.column("text").type == pa.string()
    assert out.data.column("text").to_pylist() == [None if t is None else normalized(t) for t in texts]
    assert out.origins == block.origins


@given(st.lists(st.none() | BYTES, min_size=1, max_size=12), st.sampled_from(["utf-8", "UTF8", "ascii", "utf-16"]))
@settings(max_examples=120)
def test_exactly_the_rows_python_refuses_are_bad_with_their_byte_offset(make_block, values, encoding):
    block = make_block({"text": binary(values)})
    expected, bad = [], {}
    for row, value in enumerate(values):
        try:
            expected.append(None if value is None else value.decode(encoding))
        except UnicodeDecodeError as error:
            bad[row] = error.start
    operator = DecodeText(encoding=encoding, normalize_newlines=False)
    if not bad:
        assert operator.apply(block).data.column("text").to_pylist() == expected
        return
    with pytest.raises(BadRowsError) as caught:
        operator.apply(block)
    assert caught.value.code == "text-undecodable"
    assert [r.row for r in caught.value.rows] == list(bad)
    assert all(f"byte {bad[r.row]} " in r.reason and "'text'" in r.reason for r in caught.value.rows)
    good = [i for i in range(len(values)) if i not in bad]
    if good:
        rest = operator.apply(make_block({"text": binary([values[i] for i in good])}))
        assert rest.data.column("text").to_pylist() == expected


@given(
    st.lists(st.none() | BYTES, min_size=1, max_size=12),
    st.sampled_from(["utf-8", "latin-1", "gb18030", "utf-8-sig"]),
    st.sampled_from(["replace", "ignore"]),
)
@settings(max_examples=120)
def test_replace_and_ignore_do_what_python_does(make_block, values, encoding, errors):
    block = make_block({"text": binary(values)})
    out = DecodeText(encoding=encoding, errors=errors, normalize_newlines=False).apply(block)
    assert out.data.column("text").to_pylist() == [None if v is None else v.decode(encoding, errors) for v in values]


def test_bad_rows_of_all_fields_are_named_in_one_error(make_block):
    block = make_block({"a": binary([b"x", b"\xff", b"y"]), "b": binary([b"x", b"y", b"\xfe"])})
    with pytest.raises(BadRowsError) as caught:
        DecodeText(fields=("a", "b")).apply(block)
    assert [(r.row, "'a'" in r.reason) for r in caught.value.rows] == [(1, True), (2, False)]


def test_string_columns_pass_with_their_line_ends_normalized(make_block):
    block = make_block({"text": pa.array(["a\r\nb\rc\n", None, ""])})
    assert DecodeText().apply(block).data.column("text").to_pylist() == ["a\nb\nc\n", None, ""]
    assert DecodeText(normalize_newlines=False).apply(block).data.column("text").to_pylist() == [
        "a\r\nb\rc\n",
        None,
        "",
    ]


def test_garbage_under_a_null_is_not_looked_at(make_block):
    column = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x02"), pa.array([0, 1, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xffa")]
    )
    assert DecodeText().apply(make_block({"text": column})).data.column("text").to_pylist() == [None, "a"]


def test_text_with_lone_surrogates_is_a_bad_row(make_block):
    with pytest.raises(BadRowsError) as caught:
        DecodeText(encoding="unicode_escape").apply(make_block({"text": binary([b"fine", b"\\ud800"])}))
    assert [r.row for r in caught.value.rows] == [1]


def test_large_and_view_columns_are_decoded_too(make_block):
    for kind in (pa.large_binary(), pa.binary_view(), pa.large_string(), pa.string_view()):
        value = "ä\r" if "string" in str(kind) else "ä\r".encode()
        out = DecodeText().apply(make_block({"text": pa.array([value], type=kind)}))
        assert out.data.column("text") == pa.array(["ä\n"])


def test_other_columns_and_metadata_stay(make_block):
    schema = pa.schema([pa.field("text", pa.binary(), metadata={b"k": b"v"}), pa.field("n", pa.int64())], {b"s": b"t"})
    out = DecodeText().output_schema(schema)
    assert out.metadata == {b"s": b"t"} and out.field("text").metadata == {b"k": b"v"}
    assert out.field("text").type == pa.string() and out.field("n") == schema.field("n")


def test_a_single_name_is_one_field():
    assert DecodeText(fields="text").fields == ("text",) == DecodeText().reads


@pytest.mark.parametrize(
    ("schema", "code"),
    [(pa.schema([("body", pa.binary())]), "field-missing"), (pa.schema([("text", pa.int64())]), "field-type")],
)
def test_missing_and_mistyped_fields_are_found_when_planned(schema, code):
    with pytest.raises(PlanError) as caught:
        DecodeText().output_schema(schema)
    assert caught.value.code == code
    assert "decode_text" in caught.value.what and "'text'" in caught.value.what


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"encoding": "klingon"}, "encoding-unknown"),
        ({"encoding": "hex"}, "encoding-unknown"),
        ({"errors": "surrogateescape"}, "option-invalid"),
    ],
)
def test_encodings_and_handlers_that_give_no_text_are_refused(options, code):
    with pytest.raises(ConfigError) as caught:
        DecodeText(**options)
    assert caught.value.code == code
