"""F1, F2: whatever a file looks like, a pipeline delivers exactly the rows Python itself reads from it, by number.

The cases one by one, at the level of the readers, are in the tests of zephon-jsonl (``test_jsonl_cases``) and
zephon-parquet (``test_parquet_index``, ``test_parquet_reading``).
"""

import gzip
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon_fault_files import inline, work

SLOW = settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))


def bare(value):
    """A value without the nulls that stand for absent keys."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if item is not None}
    return [bare(item) for item in value] if isinstance(value, list) else value


def delivered(folder, **options):
    """All rows of a run by shard name and row number, and the rows set aside."""
    pipeline = inline(Pipeline(work(web=folder)).batch(3), **options)
    rows = {}
    for batch in pipeline:
        if not batch.is_filler:
            for record in batch.records:
                place = record.origin.shard, record.origin.row
                assert place not in rows
                rows[place] = bare(record.payload)
    return rows, pipeline.stats()["skipped"].get("web", 0)


# -- JSON Lines --------------------------------------------------------------------------------------------------------


def no_constant(name):
    raise ValueError(name)


def python_rows(data):
    """Rows by number, and how many lines are none, as Python's own json module sees it, line by line."""
    rows, bad, number = {}, 0, 0
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.strip(b" \t\r"):
            continue
        try:
            value = json.loads(line.decode(), parse_constant=no_constant)
            json.dumps(value, ensure_ascii=False).encode()
            assert isinstance(value, dict)
            rows[number] = bare(value)
        except (ValueError, AssertionError):
            bad += 1
        number += 1
    return rows, bad


VALUES = st.fixed_dictionaries(
    {"n": st.none() | st.integers(-(2**63), 2**63 - 1)},
    optional={
        "text": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.just("a\u2028b\x85c"),
        "x": st.none() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False, width=32),
        "tags": st.lists(st.none() | st.sampled_from(["a", "é"]), max_size=3),
        "meta": st.fixed_dictionaries({}, optional={"k": st.booleans(), "deep": st.just({"z": 1})}),
    },
)
LINES = st.one_of(
    VALUES.map(lambda row: json.dumps(row, ensure_ascii=False).encode()),
    VALUES.map(lambda row: json.dumps(row).encode() + b" \r"),
    st.sampled_from([b"", b"  ", b"\r", b"\t\r"]),
    st.sampled_from([b"{", b"[]", b'{"n": 1} {"n": 2}', b'{"text": "\xff"}', b'{"text": "\\ud800"}', b'{"n": NaN}']),
)


@SLOW
@given(
    files=st.lists(
        st.tuples(st.lists(LINES, max_size=12), st.booleans(), st.sampled_from(["", "gz", "zst"])),
        min_size=1,
        max_size=3,
    ),
    mark=st.booleans(),
)
def test_a_run_over_any_json_lines_delivers_what_python_reads(files, mark):
    with tempfile.TemporaryDirectory() as folder:
        expected, bad = {(f"{len(files)}.jsonl", 0): {"n": 0}}, 0
        (Path(folder) / f"{len(files)}.jsonl").write_bytes(b'{"n": 0}')  # so that there is a row
        for number, (some, newline, compression) in enumerate(files):
            data = (b"\xef\xbb\xbf" if mark else b"") + b"\n".join(some) + (b"\n" if newline else b"")
            rows, none = python_rows(data)
            # Compressed content under a plain name goes by its first bytes.
            stored = {"gz": gzip.compress, "zst": zstandard.compress}.get(compression, bytes)(data)
            (Path(folder) / f"{number}.jsonl").write_bytes(stored)
            expected |= {(f"{number}.jsonl", row): value for row, value in rows.items()}
            bad += none
        assert delivered(folder, on_error="skip") == (expected, bad)


def written(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


FIELD = {
    "nulls, then text": written([{"n": 0, "t": None}] * 1000 + [{"n": 1, "t": "x"}]),
    "empty lists, then lists of text": written([{"l": []}] * 300 + [{"l": ["x"]}]),
    "one extra nested key in row 5000": written([{"m": {"a": 1}}] * 5000 + [{"m": {"a": 1, "b": "x"}}]),
    "blank lines": b'\n\n{"a":1}\n \t \r\n\n{"a":2}\n' + b" " * 100 + b"\n",
    "line ends of Windows": b'{"a":"x"}\r\n{"a":"y"}\r\n',
    "a line separator in a string": '{"a":"x\u2028y"}\n{"a":"b"}\n'.encode(),
    "no last newline": b'{"a":1}\n{"a":2}',
    "bytes that are not UTF-8": b'{"a":"x"}\n{"a":"\xe9"}\n{"a":"y"}\n',
    "a lone surrogate": b'{"a":"x"}\n{"a":"\\ud83d"}\n{"a":"\\ud83d\\ude00"}\n',
    "a line of two megabytes": b'{"a":"x"}\n{"a":"' + b"0123456789abcdef" * 131_072 + b'"}\n{"a":"y"}\n',
    "two objects on one line": b'{"a":1}\n{"a":2}{"a":3}\n{"a":4}\n',
    "an empty file beside": b'{"a":1}\n',
}


@pytest.mark.parametrize("case", FIELD)
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_the_cases_of_the_field_reach_the_consumer_row_by_row(tmp_path, case, compress):
    (tmp_path / "a.jsonl").write_bytes(compress(FIELD[case]))
    (tmp_path / "b.jsonl").write_bytes(b"")
    rows, bad = python_rows(FIELD[case])
    assert delivered(tmp_path, on_error="skip") == ({("a.jsonl", n): row for n, row in rows.items()}, bad)


# -- Parquet -----------------------------------------------------------------------------------------------------------


def write_groups(path, table, groups):
    """A file with row groups of exactly these sizes."""
    with pq.ParquetWriter(path, table.schema) as writer:
        start = 0
        for size in groups:
            writer.write_table(table.slice(start, size), row_group_size=max(1, size))
            start += size


def numbered(start, count, nulls=0):
    """Rows of several types, the first ones without any text."""
    return pa.table(
        {
            "n": pa.array(range(start, start + count), pa.int32()),
            "text": pa.array([None if i < nulls else f"row {start + i}" for i in range(count)], pa.large_string()),
            "tags": pa.array([[f"t{i}"] * (i % 3) for i in range(count)], pa.list_(pa.string())),
            "when": pa.array(range(count), pa.timestamp("ms")),
        }
    )


@SLOW
@given(
    files=st.lists(st.lists(st.sampled_from([0, 1, 2, 7]), max_size=4), min_size=1, max_size=3),
    nulls=st.integers(0, 9),
)
def test_a_run_over_any_parquet_files_delivers_what_pyarrow_reads(files, nulls):
    with tempfile.TemporaryDirectory() as folder:
        write_groups(Path(folder) / f"{len(files)}.parquet", numbered(-1, 1), [1])
        for number, groups in enumerate(files):
            write_groups(Path(folder) / f"{number}.parquet", numbered(100 * number, sum(groups), nulls), groups)
        expected = {}
        for path in Path(folder).glob("*.parquet"):
            # Of this file alone: given a path it would unite all of a directory.
            table = pq.ParquetFile(path).read()
            expected |= {(path.name, n): bare(row) for n, row in enumerate(table.to_pylist())}
        assert delivered(folder) == (expected, 0)


def test_row_groups_of_the_field_reach_the_consumer_row_by_row(tmp_path):
    sizes = [128] * 6 + [0, 14, 11]
    write_groups(tmp_path / "a.parquet", numbered(0, sum(sizes), nulls=128), sizes)  # the first group all null
    write_groups(tmp_path / "b.parquet", numbered(0, 0), [])
    rows, _ = delivered(tmp_path)
    table = pq.read_table(tmp_path / "a.parquet")
    assert rows == {("a.parquet", n): bare(row) for n, row in enumerate(table.to_pylist())}
