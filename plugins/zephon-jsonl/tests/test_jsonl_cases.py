"""Cases from the field: what JSON Lines files really look like."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from zephon.errors import BadRowsError, ShardError
from zephon_jsonl import schema, strict


def written(rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_a_field_that_is_null_in_the_first_thousand_rows_and_then_text_is_text(in_memory):
    shard = in_memory(written([{"a": None}] * 1000 + [{"a": "x"}]))
    assert shard.index.schema == pa.schema([("a", pa.string())])
    assert shard.read([0, 1000]).to_pylist() == [{"a": None}, {"a": "x"}]


def test_empty_lists_followed_by_lists_of_text_are_lists_of_text(in_memory):
    shard = in_memory(written([{"a": []}] * 1000 + [{"a": ["x"]}]))
    assert shard.index.schema == pa.schema([("a", pa.list_(pa.string()))])
    assert shard.read([0, 1000]).to_pylist() == [{"a": []}, {"a": ["x"]}]


def test_one_extra_nested_key_in_row_5000_is_part_of_the_schema(in_memory):
    shard = in_memory(written([{"m": {"a": 1}}] * 5000 + [{"m": {"a": 1, "b": {"c": "x"}}}]))
    assert shard.index.schema.field("m").type == pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
    assert shard.read([4999, 5000]).column("m").to_pylist() == [
        {"a": 1, "b": None},
        {"a": 1, "b": {"c": "x"}},
    ]


def test_blank_lines_are_no_rows(in_memory):
    shard = in_memory(b'\n\n{"a":1}\n \t \r\n\n{"a":2}\n' + b" " * 100 + b"\n")
    assert shard.read().to_pylist() == [{"a": 1}, {"a": 2}]


def test_windows_line_ends_are_whitespace(in_memory):
    assert in_memory(b'{"a":"x"}\r\n{"a":"y"}\r\n').read().to_pylist() == [{"a": "x"}, {"a": "y"}]


def test_a_line_separator_inside_a_string_ends_no_line(in_memory):
    shard = in_memory('{"a":"x\u2028y\u2029z\x85"}\n{"a":"b"}\n'.encode())
    assert shard.read().to_pylist() == [{"a": "x\u2028y\u2029z\x85"}, {"a": "b"}]


def test_the_last_line_needs_no_newline(in_memory):
    assert in_memory(b'{"a":1}\n{"a":2}').read().to_pylist() == [{"a": 1}, {"a": 2}]


def test_a_byte_order_mark_is_no_part_of_the_first_row_but_spoils_any_other(in_memory):
    shard = in_memory(b'\xef\xbb\xbf{"a":1}\n\xef\xbb\xbf{"a":2}\n{"a":3}\n')
    assert [(row, offset) for row, offset, _ in shard.index.bad_rows] == [(1, 11)]
    assert shard.read([0, 2]).to_pylist() == [{"a": 1}, {"a": 3}]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"a":"\xff"}', id="invalid UTF-8"),
        pytest.param(b'{"b":"\xed\xa0\x80"}', id="a surrogate in UTF-8"),
        pytest.param(b'{"a":"\\ud800"}', id="a lone high surrogate escape"),
        pytest.param(b'{"\\udc00":1}', id="a lone low surrogate escape in a key"),
        pytest.param(b'{"a":1} {"a":2}', id="two objects"),
        pytest.param(b'{"a":1}{"a":2}', id="two objects without a gap"),
        pytest.param(b'{"a":1} null {"a":2}', id="null between objects"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(b"null", id="null, which crashes pyarrow"),
        pytest.param(b"1", id="a number"),
        pytest.param(b'{"a":', id="a truncated line"),
        pytest.param(b'"a":1}', id="the rest of a truncated line"),
        pytest.param(b'{"a":NaN}', id="NaN"),
        pytest.param(b'{"b":[{"c":-Infinity}]}', id="infinity, nested"),
        pytest.param(b'{"a":1e999}', id="a float beyond a double"),
        pytest.param(b'{"b":' + b"9" * 400 + b"}", id="an integer beyond a double"),
        pytest.param(b'{"a":"\0"}', id="a NUL byte"),
        pytest.param(b'{"a":"\t"}', id="a raw control character"),
        pytest.param(b'{"b":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="nesting that overflows pyarrow's stack"),
        pytest.param(b'{"a":1,}', id="a trailing comma"),
        pytest.param(b'{"a":1} // x', id="a comment"),
        pytest.param(b"\x0c", id="a form feed, which is no JSON whitespace"),
    ],
)
def test_a_bad_line_is_a_row_that_cannot_be_read_and_spoils_no_other(in_memory, line):
    shard = in_memory(b'{"a":1}\n' * 100 + line + b"\n" + b'{"a":2}\n' * 100)
    assert shard.index.rows == 201
    assert [(row, offset) for row, offset, _ in shard.index.bad_rows] == [(100, 800)]
    for columns in (None, ["a"], []):
        with pytest.raises(BadRowsError) as error:
            shard.read(None, columns)
        assert error.value.code == "bad-row"
        assert [(bad.row, bad.offset) for bad in error.value.rows] == [(100, 800)]
        assert error.value.rows[0].reason
    others = [row for row in range(201) if row != 100]
    assert shard.read(others).column("a").to_pylist() == [1] * 100 + [2] * 100


@pytest.mark.parametrize(
    ("lines", "bad"),
    [
        (b'{"a":1}{"a":2}\n{"a":\n3}\n{"a":4}\n', [0, 1, 2]),
        (b'{"a":{"b":1}}{"a":{"b":2}}\n{"a":\n{"b":3}}\n{"a":{"b":4}}', [0, 1, 2]),
        (b'{"a":[]} {"a":[]}\n{"a":[{}\n,{}]}\n{"a":[]}', [0, 1, 2]),
        (b'{"a":{}}\nnull\n{"a":{}}', [1]),
        (b'{"a":1}{"a":2}\n\n\n{"a":3}', [0]),
    ],
)
def test_an_object_over_two_lines_and_two_objects_on_one_do_not_cancel_out(in_memory, lines, bad):
    # Arrow sees as many rows as there are lines.
    assert [row for row, _, _ in in_memory(lines).index.bad_rows] == bad


def test_strings_that_look_like_times_are_strings(in_memory):
    rows = [{"a": "2020-01-01", "b": ["2020-01-01 00:00:00"], "c": {"d": [{"e": "2020-01-01T00:00:00Z"}]}}] * 300
    shard = in_memory(written(rows))
    assert shard.index.schema == pa.schema(
        [
            ("a", pa.string()),
            ("b", pa.list_(pa.string())),
            ("c", pa.struct([("d", pa.list_(pa.struct([("e", pa.string())])))])),
        ]
    )
    assert shard.read().to_pylist() == rows


def test_integers_and_floats_in_one_field_are_doubles_in_every_row(in_memory):
    shard = in_memory(written([{"a": 1}] * 500 + [{"a": 0.5}] + [{"a": 2}] * 500))
    assert shard.index.schema.field("a").type == pa.float64()
    assert shard.read([0]).column("a") == pa.array([1.0])


def test_a_field_of_mixed_types_is_an_error_only_if_it_is_read(in_memory):
    rows = [{"id": n, "text": "x", "m": {"k": [n]}} for n in range(700)]
    rows[300]["id"] = "three"
    rows[500]["m"] = {"k": [1, {}]}
    shard = in_memory(written(rows))
    assert shard.index.bad_rows == ()
    assert shard.index.schema.field("id").type == pa.null()
    assert (
        shard.index.schema.field("id").metadata[schema.META_CONFLICT]
        == b"id is a number in row 0 and a string in row 300"
    )
    assert shard.index.schema.field("m").metadata[schema.META_CONFLICT] == (
        b"m.k[] is a number in row 0 and an object in row 500"
    )
    assert shard.read(None, ["text"]).column("text").to_pylist() == ["x"] * 700
    for columns in (None, ["id"], ["text", "m"]):
        with pytest.raises(ShardError) as error:
            shard.read([0], columns)
        assert error.value.code == "field-conflict"
        assert "columns=['text']" in error.value.fix


def test_integers_beyond_64_bits_are_an_error_only_if_they_are_read(in_memory):
    shard = in_memory(written([{"a": 1, "b": 1}] * 400 + [{"a": 2**63, "b": 2}]))
    assert shard.read([400], ["b"]).to_pylist() == [{"b": 2}]
    assert shard.index.schema.field("a").metadata[schema.META_CONFLICT] == b"a is beyond a 64-bit integer in row 400"
    with pytest.raises(ShardError) as error:
        shard.read([0], ["a"])
    assert error.value.code == "field-conflict"


def test_integers_beyond_64_bits_among_floats_are_doubles(in_memory):
    shard = in_memory(b'{"a":100000000000000000000}\n{"a":0.5}\n')
    assert shard.read().column("a") == pa.array([1e20, 0.5])


def test_the_edges_of_64_bits_stay_integers(in_memory):
    shard = in_memory(written([{"a": 2**63 - 1}, {"a": -(2**63)}]))
    assert shard.read().column("a") == pa.array([2**63 - 1, -(2**63)])


def test_of_a_key_that_occurs_twice_the_last_value_counts(in_memory):
    lines = [b'{"a":1,"b":"x"}'] * 200
    lines[50] = b'{"a":1,"b":"x","a":2}'
    lines[150] = b'{"m":{"k":-0,"k":1e-5,"k":-0},"a":"x","a":3}'
    shard = in_memory(b"\n".join(lines))
    assert shard.index.bad_rows == ()
    assert shard.read([49, 50, 51, 150]).column("a").to_pylist() == [1, 2, 1, 3]
    assert shard.read([50], ["b"]).to_pylist() == [{"b": "x"}]


def test_a_number_reads_the_same_beside_a_repeated_key_and_without_one(in_memory):
    numbers = ["-0", "-0.0", "0.1", "1e-400", "123456789012345678901234567890", "5e-324", "1.7976931348623157e308"]
    numbers += ["0.30000000000000004", "9007199254740993", "1E+2"]
    plain = in_memory("\n".join(f'{{"a":{n}}}' for n in numbers).encode())
    repeated = in_memory("\n".join(f'{{"a":null,"a":{n}}}' for n in numbers).encode())
    expected = [float(n) for n in numbers]
    for shard in (plain, repeated):
        values = shard.read().column("a").to_numpy()
        assert values.tobytes() == np.array(expected).tobytes()


def test_zeros_with_an_exponent_the_block_parser_refuses_are_zeros(in_memory):
    assert in_memory(b'{"a":0e999}\n{"a":-0E99999}\n').read().column("a").to_pylist() == [0.0, -0.0]


def test_lists_that_begin_with_nulls_keep_them(in_memory):
    # apache/arrow#51305: inference drops them.
    rows = [{"a": [None, None, 1], "b": [None, None], "c": [None, [None, None]]}, {"a": [2], "b": [None], "c": None}]
    assert in_memory(written(rows * 200)).read().to_pylist() == rows * 200


def test_lists_of_more_brackets_than_levels_are_no_deep_nesting(in_memory):
    rows = [{"boxes": [[n, n + 1]] * 100, "text": "[" * 1000} for n in range(100)]
    shard = in_memory(written(rows))
    assert shard.index.bad_rows == ()
    assert shard.read().to_pylist() == rows


def test_nesting_is_allowed_to_the_depth_arrow_can_send(in_memory):
    value: object = 1
    for _ in range(strict.MAX_DEPTH - 1):
        value = [value]
    batch = in_memory(written([{"a": value}, {"a": None}])).read()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().to_pylist() == [{"a": value}, {"a": None}]


def test_objects_with_keys_of_their_own_are_a_map_and_no_record(in_memory, monkeypatch):
    monkeypatch.setattr(schema, "MAX_KEYS", 50)
    shard = in_memory(written([{"counts": {f"w{n}": 1}, "text": "x"} for n in range(60)]))
    assert schema.META_CONFLICT in shard.index.schema.field("counts").metadata
    assert shard.read([7], ["text"]).to_pylist() == [{"text": "x"}]


def test_rows_with_top_level_keys_of_their_own_are_refused(in_memory, monkeypatch):
    monkeypatch.setattr(schema, "MAX_KEYS", 50)
    with pytest.raises(ShardError) as error:
        in_memory(written([{f"w{n}": 1} for n in range(60)]))
    assert error.value.code == "too-many-fields"


def test_an_empty_file_has_no_rows_and_no_fields(in_memory):
    for data in (b"", b"\n\n", b"\xef\xbb\xbf", gzip.compress(b""), zstandard.compress(b"")):
        shard = in_memory(data)
        assert (shard.index.rows, len(shard.index.schema), shard.index.bad_rows) == (0, 0, ())
        assert shard.read().num_rows == 0


def test_rows_without_fields_are_rows(in_memory):
    batch = in_memory(b"{}\n{}\n{}\n").read([0, 2])
    assert (batch.num_rows, batch.num_columns) == (2, 0)


def test_columns_come_in_the_order_asked_for_and_none_at_all_may_be_asked_for(in_memory):
    shard = in_memory(written([{"a": 1, "b": "x", "c": None}] * 3))
    assert shard.read([1], ["b", "a"]).to_pydict() == {"b": ["x"], "a": [1]}
    batch = shard.read([0, 2], [])
    assert (batch.num_rows, batch.num_columns) == (2, 0)
    assert shard.read([], ["c", "a"]).schema == pa.schema([("c", pa.null()), ("a", pa.int64())])


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compressed_content_under_a_plain_name_is_decompressed(in_memory, compress):
    rows = [{"a": n} for n in range(1000)]
    assert in_memory(compress(written(rows)), "rows.jsonl").read().to_pylist() == rows


def test_plain_content_under_a_compressed_name_is_read_as_it_is(in_memory):
    assert in_memory(b'{"a":1}\n', "rows.jsonl.gz").read().to_pylist() == [{"a": 1}]


def test_a_line_of_200_megabytes_is_a_row(tmp_path, on_disk):
    path = tmp_path / "long.jsonl"
    with open(path, "wb") as file:
        file.write(b'{"text":"first"}\n{"text":"')
        for _ in range(200):
            file.write(b"0123456789abcdef" * 62_500)
        file.write(b'"}\n{"text":"last"}\n')
    shard = on_disk(path)
    assert shard.index.rows == 3
    column = shard.read([1, 2], ["text"]).column("text")
    assert (len(column[0].as_buffer()), column[1].as_py()) == (200_000_000, "last")


def test_a_line_longer_than_a_column_may_be_is_a_bad_row(in_memory, monkeypatch):
    monkeypatch.setattr(strict, "MAX_LINE", 100)
    shard = in_memory(written([{"a": "x"}, {"a": "y" * 200}, {"a": "z"}]))
    assert [row for row, _, _ in shard.index.bad_rows] == [1]
    assert shard.read([0, 2]).to_pylist() == [{"a": "x"}, {"a": "z"}]


def test_more_blank_lines_than_a_parser_takes_do_not_spoil_the_row_before_them(in_memory, monkeypatch):
    monkeypatch.setattr(strict, "MAX_LINE", 100)
    shard = in_memory(b'{"a":1}' + b"\n" * 200 + b'{"a":2}\n' + b" " * 200)
    assert shard.index.blob.column("awkward").to_pylist() == [[0, 1]]
    assert shard.read().to_pylist() == [{"a": 1}, {"a": 2}]
