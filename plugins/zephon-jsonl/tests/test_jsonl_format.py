"""The format as the core sees it: recognising, finding and writing shards."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.abc import FileHead, FileInfo, RangedShard, ShardFormat, WritesShards
from zephon.errors import BadRowsError, ConfigError, DataError
from zephon_jsonl.plugin import jsonl
from zephon_jsonl.shards import JsonlFormat


def recognised(name: str, data: bytes) -> bool:
    return JsonlFormat().recognise(FileHead(info=FileInfo(url=name, name=name, size=len(data)), head=data[:4096]))


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.jsonl", b'{"a":1}\n', True),
        ("a.ndjson", b'\xef\xbb\xbf\n\n {"a":1}\n', True),
        ("a.jsonl", b"", True),
        ("A.JSONL.GZ", gzip.compress(b'{"a":1}\n', mtime=0), True),
        ("a.jsonl", zstandard.compress(b'{"a":1}\n'), True),
        ("a.jsonl", b"a first line that is damaged\n", True),
        ("a.jsonl", b"PAR1\0\0\0\0", False),
        ("a.jsonl", b'{"a":\0', False),
        ("a.json", b'{"a":1}\n{"a":2}\n', True),
        ("a.txt", b'{"a":1}\n{"a":', True),
        ("data", gzip.compress(b'{"a":1}\n{"a":2}\n', mtime=0), True),
        ("a.json", b'{\n  "a": 1\n}\n', False),
        ("a.json", b'{"a": 1,\n "b": 2}\n', False),
        ("a.json", b'[{"a":1}]\n', False),
        ("a.json", b'{"a":1}\n[2]\n', False),
        ("a.json", b"", False),
        ("a.json", b'{"a":1}\n', False),
        ("a.json", b'{"a":"' + b"x" * 5000 + b'"}\n{"a":1}\n', False),
        ("a.json.gz", gzip.compress(b'{"a":1}\n', mtime=0), True),
        ("a.json.gz", gzip.compress(b'{"a":1,\n"b":2}\n', mtime=0), False),
        ("a.json.gz", gzip.compress(b'[{"a":1}]\n', mtime=0), False),
        ("a.jsonl.gz", b"\x1f\x8bdamaged", True),
        ("README.md", b"# Title\n", False),
    ],
)
def test_files_are_recognised_by_content_first_and_suffix_second(name, data, expected):
    assert recognised(name, data) is expected


def test_a_compressed_head_that_gives_nothing_away_is_judged_by_its_suffix():
    data = zstandard.ZstdCompressor().compress(json.dumps({"a": list(range(30_000))}).encode())
    assert len(data) > 4096
    assert recognised("a.jsonl.zst", data)
    assert recognised("a.json.zst", data)
    assert not recognised("a.zst", data)


def discovered(*names: str) -> list[str]:
    files = [FileInfo(url=f"memory://d/{name}", name=name, size=1) for name in names]
    return [shard.name for shard in JsonlFormat().discover(files)]


def test_a_readme_and_hidden_files_beside_the_data_are_passed_over():
    assert discovered("README.md", "x/a.jsonl", "b.ndjson.zst", ".c.jsonl", "_d.jsonl", "info.json") == [
        "x/a.jsonl",
        "b.ndjson.zst",
    ]


def test_json_files_are_shards_where_nothing_is_called_jsonl():
    assert discovered("a.json", "b.json.gz", "README.md") == ["a.json", "b.json.gz"]


def test_one_file_of_any_name_is_a_shard_if_it_was_meant():
    assert discovered("_corpus.txt") == ["_corpus.txt"]
    assert discovered("corpus.txt", "README.md") == []


def test_the_descriptor_leads_to_a_format_with_the_abilities_it_claims(in_memory):
    implementation = jsonl.load()()
    assert isinstance(implementation, ShardFormat)
    assert jsonl.capabilities == {"ranges", "write"}
    assert isinstance(implementation, WritesShards)
    assert isinstance(in_memory(b'{"a":1}\n').open(), RangedShard)


def test_a_field_the_shard_does_not_have_is_named(in_memory):
    with pytest.raises(ConfigError) as error:
        in_memory(b'{"a":1}\n').read([0], ["b"])
    assert error.value.code == "column-missing"


def test_bad_rows_of_one_call_are_all_named_and_no_others(in_memory):
    shard = in_memory(b"x\n" * 3 + b'{"a":1}\n' + b"y\n" * 3)
    with pytest.raises(BadRowsError) as error:
        shard.read([1, 3, 5], None)
    assert [(bad.row, bad.offset) for bad in error.value.rows] == [(1, 2), (5, 16)]


SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("tags", pa.list_(pa.struct([("k", pa.string()), ("on", pa.bool_())]))),
    ]
)
rows_written = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.none() | st.text(max_size=5),
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "tags": st.none()
            | st.lists(
                st.fixed_dictionaries({"k": st.none() | st.text(max_size=2), "on": st.none() | st.booleans()}),
                max_size=2,
            ),
        }
    ),
    max_size=10,
)


@given(rows=rows_written, suffix=st.sampled_from(["", ".gz", ".zst", ".zstd"]))
@settings(max_examples=40, deadline=None)
def test_rows_written_are_the_rows_read(tmp_path_factory, on_disk, rows, suffix):
    path = tmp_path_factory.mktemp("written") / f"rows.jsonl{suffix}"
    batches = [pa.RecordBatch.from_pylist(part, schema=SCHEMA) for part in (rows[:3], rows[3:])]
    JsonlFormat().write(str(path), batches, SCHEMA)
    assert path.read_bytes()[:2] == {"": path.read_bytes()[:2], ".gz": b"\x1f\x8b"}.get(suffix, b"\x28\xb5")
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    shard = on_disk(path)
    batch = shard.read()
    assert shard.index.rows == len(rows)
    assert batch.to_pylist() == (rows if rows else [])


def test_equal_rows_give_equal_files_whenever_they_are_written(tmp_path, monkeypatch):
    batch = pa.RecordBatch.from_pylist([{"a": "ü"}])
    for clock, name in ((1.0, "a.jsonl.gz"), (2e9, "b.jsonl.gz")):
        monkeypatch.setattr("time.time", lambda clock=clock: clock)
        JsonlFormat().write(str(tmp_path / name), [batch], batch.schema)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()) == '{"a":"ü"}\n'.encode()


@pytest.mark.parametrize("value", [b"bytes", float("nan"), float("inf"), pa.scalar(0, pa.timestamp("s")).as_py()])
def test_values_json_has_no_form_for_are_refused_and_leave_no_file(tmp_path, value):
    batch = pa.RecordBatch.from_pylist([{"a": value}])
    with pytest.raises(DataError) as error:
        JsonlFormat().write(str(tmp_path / "a.jsonl"), [batch], batch.schema)
    assert error.value.code == "not-json"
    assert list(tmp_path.iterdir()) == []
