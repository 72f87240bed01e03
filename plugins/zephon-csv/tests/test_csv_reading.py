"""Records, types, dialects and damage, against the standard library and what pandas read."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon.abc import FileInfo, Shard
from zephon.errors import ConfigError, DataError, ShardError
from zephon.io import Dataset
from zephon.spec import from_plain, to_plain
from zephon_csv import content, records
from zephon_csv.table import CsvFormat
from zephon_testkit.files import DiskContext

from .fuzz_csv import GOLDEN, fuzz, read_rows, reference

EXPECTED = [json.loads(line) for line in (GOLDEN / "expected.jsonl").read_text().splitlines()]
PANDAS, STRAY = EXPECTED[:-4], EXPECTED[-4:]


def read(path: Path, data: bytes, **options: Any) -> list[dict[str, Any]]:
    path.write_bytes(data)
    return read_rows(path, CsvFormat(**options))[0].to_pylist()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("chunk", [7, 8 << 20])
@pytest.mark.parametrize(
    "name", ["pandas.csv", "pandas.tsv", "pandas.csv.gz", "pandas.csv.zst", "utf16.csv", "polars.csv", "arrow.csv"]
)
def test_golden_files_read_as_pandas_reads_them(
    name: str, is_local: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "CHUNK_BYTES", chunk)
    fmt = CsvFormat(encoding="utf-16") if name == "utf16.csv" else CsvFormat()
    batch, bad = read_rows(GOLDEN / name, fmt, is_local=is_local)
    assert batch.to_pylist() == PANDAS
    assert not bad
    assert batch.schema.types == [pa.int64(), pa.string(), pa.string(), pa.float64(), pa.bool_()]


@pytest.mark.parametrize("chunk", [3, 8 << 20])
def test_quotes_in_the_middle_of_fields_are_text(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "CHUNK_BYTES", chunk)
    assert read_rows(GOLDEN / "stray.csv", CsvFormat())[0].to_pylist() == STRAY


FIELD = st.text(st.sampled_from('ab,;\t"\n\r é漢🙂\\'), max_size=6)


@given(
    rows=st.lists(st.lists(FIELD, min_size=2, max_size=2), max_size=8),
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    chunk=st.sampled_from([1, 2, 5, 1 << 20]),
    mark=st.booleans(),
    data=st.data(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows_the_standard_library_writes_are_read_wherever_chunks_and_lines_end(
    path: Path, rows: list[list[str]], delimiter: str, end: str, quoting: Any, chunk: int, mark: bool, data: Any
) -> None:
    file = io.StringIO(newline="")
    if end != "\r\n":
        quoting = csv.QUOTE_ALL  # else the library leaves the other line end outside of quotes
    csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows([["x", "y"], *rows])
    path.write_bytes(file.getvalue().encode("utf-8-sig" if mark else "utf-8"))
    fmt = CsvFormat(delimiter=delimiter, column_types={"x": "string", "y": "string"})
    shard = Shard(url=str(path), name="rows.csv", file=FileInfo(url=str(path), size=path.stat().st_size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "CHUNK_BYTES", chunk)
        index = fmt.index(shard, DiskContext())
        reader = fmt.open(shard, index, DiskContext(is_local=False))
        assert index.rows == len(rows)
        wanted = data.draw(st.sets(st.integers(0, len(rows) - 1))) if rows else set()
        for some in (range(len(rows)), sorted(wanted)):
            found = reader.read(np.array(some, dtype=np.int64), ["y", "x"])
            assert [[row["x"], row["y"]] for row in found.to_pylist()] == [rows[i] for i in some]


@given(text=st.text(st.sampled_from('ab,"\n\r'), max_size=40), chunk=st.sampled_from([1, 3, 1 << 20]))
@settings(max_examples=150, deadline=None)
def test_any_bytes_fall_into_the_records_the_standard_library_sees(text: str, chunk: int) -> None:
    data = text.encode()
    dialect = records.Dialect(delimiter=b",", quote=b'"')
    pieces = [data[i : i + chunk] for i in range(0, len(data), chunk)]
    found = [
        (part.data[a:b], int(fields))
        for part in records.records(pieces, dialect)
        for a, b, fields in zip(part.edges[:-1], part.edges[1:], part.fields, strict=True)
    ]
    assert b"".join(record for record, _ in found) == data
    widths = [fields for record, fields in found if record.strip(b"\r\n") or len(record) > 2]
    assert widths == [len(record) for record in reference(data, ",")]


@pytest.mark.parametrize(
    ("values", "kind", "rows"),
    [
        (["1", "", "-3"], pa.int64(), [1, None, -3]),
        (["1", "2.5", "NA"], pa.float64(), [1.0, 2.5, None]),
        (["true", "False", ""], pa.bool_(), [True, False, None]),
        (["true", "1", ""], pa.string(), ["true", "1", ""]),
        (["1", "x", "NA"], pa.string(), ["1", "x", "NA"]),
        (["2024-01-01", "2024-01-02"], pa.string(), ["2024-01-01", "2024-01-02"]),
        (["9223372036854775808", "1"], pa.string(), ["9223372036854775808", "1"]),
        (["9007199254740993", "0.5"], pa.string(), ["9007199254740993", "0.5"]),
        (["9007199254740993", "1"], pa.int64(), [9007199254740993, 1]),
        (["1e300", "0.5"], pa.float64(), [1e300, 0.5]),
        (["", ""], pa.null(), [None, None]),
    ],
    ids=["ints", "floats", "booleans", "mixed", "text", "dates", "long", "long-and-fraction", "wide", "big", "nothing"],
)
@pytest.mark.parametrize("chunk", [4, 8 << 20])
def test_a_column_has_the_type_that_all_its_rows_have_however_the_file_is_cut(
    path: Path, monkeypatch: pytest.MonkeyPatch, values: list[str], kind: pa.DataType, rows: list[Any], chunk: int
) -> None:
    monkeypatch.setattr(content, "CHUNK_BYTES", chunk)
    path.write_text("x,y\n" + "".join(f"{value},z\n" for value in values))
    batch, _ = read_rows(path, CsvFormat())
    assert batch.schema.field("x").type == kind
    assert batch.column("x").to_pylist() == rows


def test_options_say_how_a_file_is_written(path: Path) -> None:
    assert read(path, b"1;a\n2;b\n", delimiter=";", header=False) == [{"f0": 1, "f1": "a"}, {"f0": 2, "f1": "b"}]
    assert read(path, b"x,y\n1,a\n", column_names=("n", "t")) == [{"n": 1, "t": "a"}]
    assert read(path, b"x,y\n1,'a,b'\n", quote="'") == [{"x": 1, "y": "a,b"}]
    assert read(path, b'x\ty\n1\t"a\n', quote="", delimiter="\t") == [{"x": 1, "y": '"a'}]
    assert read(path, b"x,y\n007,-\n", column_types={"x": "string"}) == [{"x": "007", "y": "-"}]
    assert read(path, b'x,y\n1,-\n-,"-"\n', null_values=("-",)) == [{"x": 1, "y": None}, {"x": None, "y": "-"}]
    assert read(path, "x\nnaïve\n".encode("latin-1"), encoding="latin-1") == [{"x": "naïve"}]
    assert read(path, b"") == []
    made = CsvFormat(column_types={"x": "int8"}, column_names=("x",), null_values=("",))
    assert from_plain(CsvFormat, to_plain(made)) == made


@pytest.mark.parametrize(
    "options",
    [{"delimiter": "ab"}, {"quote": "\n"}, {"encoding": "klingon"}, {"column_types": {"x": "number"}}],
    ids=["delimiter", "quote", "encoding", "column_types"],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        from_plain(CsvFormat, options)
    assert raised.value.code == "bad-spec"


@pytest.mark.parametrize("options", [{"column_types": {"z": "string"}}, {"column_names": ("a", "b", "c")}], ids=str)
def test_names_that_are_not_in_the_file_are_refused(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        read(path, b"x,y\n1,2\n", **options)
    assert raised.value.code == "column-missing"


@pytest.mark.parametrize("is_local", [True, False])
def test_bad_rows_keep_their_number_and_are_named_all_at_once(path: Path, is_local: bool) -> None:
    path.write_bytes(b'x,y\n1,a\n2\n3,b,c\n4,\xff\n\n5,d\n6,"never closed\n7,e\n')
    batch, bad = read_rows(path, CsvFormat(), is_local=is_local)
    assert batch.to_pylist() == [{"x": 1, "y": "a"}, {"x": 5, "y": "d"}]
    assert bad == [1, 2, 3, 5]
    shard = Shard(url=str(path), name="rows.csv", file=FileInfo(url=str(path), size=path.stat().st_size))
    index = CsvFormat().index(shard, DiskContext())
    assert [path.read_bytes()[offset:][:1] for _, offset, _ in index.bad_rows] == [b"2", b"3", b"4", b"6"]


def test_values_that_are_not_of_the_declared_type_make_bad_rows(path: Path) -> None:
    path.write_text("x,y\n" + "".join(f"{i if i % 40 else 'no'},t\n" for i in range(100)))
    fmt = CsvFormat(column_types={"x": "int32"})
    batch, bad = read_rows(path, fmt)
    assert bad == [0, 40, 80]
    assert batch.column("x").to_pylist() == [i for i in range(100) if i % 40]


def test_a_file_changed_after_indexing_is_noticed(path: Path) -> None:
    path.write_text("x,y\n" + "".join(f"{i},text\n" for i in range(10)))
    size = path.stat().st_size
    shard = Shard(url=str(path), name="rows.csv", file=FileInfo(url=str(path), size=size))
    index = CsvFormat().index(shard, DiskContext())
    for other in (b"x", b"z" * size, b"x,y\n" + b"\n" * (size - 4)):
        path.write_bytes(other)
        with pytest.raises(ShardError) as raised:
            CsvFormat().open(shard, index, DiskContext(is_local=False)).read(np.arange(10), ["y"])
        assert raised.value.code == "shard-changed"


def test_a_compressed_file_cut_short_or_damaged_is_said_to_be(tmp_path: Path) -> None:
    for name in ("pandas.csv.gz", "pandas.csv.zst"):
        data = (GOLDEN / name).read_bytes()
        path = tmp_path / name
        path.write_bytes(data[:-9])
        with pytest.raises(ShardError) as raised:
            read_rows(path, CsvFormat())
        assert raised.value.code == "shard-truncated"
        path.write_bytes(data[:20] + b"\xff\xff\xff\xff" + data[24:])
        with pytest.raises(ShardError) as raised:
            read_rows(path, CsvFormat())
        assert raised.value.code == "shard-corrupt"


def test_far_apart_rows_of_a_plain_file_elsewhere_are_fetched_alone(path: Path) -> None:
    path.write_text("x,y\n" + "".join(f"{i},{'t' * 1000}\n" for i in range(2000)))
    shard = Shard(url=str(path), name="rows.csv", file=FileInfo(url=str(path), size=path.stat().st_size))
    index = CsvFormat().index(shard, DiskContext())
    rows = np.array([3, 1000, 1999])
    ranges = CsvFormat().open(shard, index, DiskContext(is_local=False)).ranges(rows, None)
    assert int((ranges[:, 1] - ranges[:, 0]).sum()) < 4000
    allowed = DiskContext(is_local=False, allowed=[(int(a), int(b)) for a, b in ranges])
    assert CsvFormat().open(shard, index, allowed).read(rows, ["x"]).column(0).to_pylist() == [3, 1000, 1999]
    assert not allowed.trespasses


def test_a_dataset_of_csv_files_is_recognised(tmp_path: Path) -> None:
    for number, name in enumerate(("pandas.csv", "polars.csv")):
        shutil.copy(GOLDEN / name, tmp_path / f"{number}.csv")
    (tmp_path / "README.md").write_text("# about\n")
    assert len(Dataset.from_path("csv", tmp_path)) == 60
    shutil.copy(GOLDEN / "pandas.csv.gz", tmp_path / "only.data")
    assert len(Dataset.from_path("csv", tmp_path / "only.data", fmt="csv")) == 30


def test_columns_that_are_no_text_are_not_written(tmp_path: Path) -> None:
    batch = pa.record_batch({"x": [[1]]})
    with pytest.raises(DataError) as raised:
        CsvFormat().write(str(tmp_path / "x.csv"), [batch], batch.schema)
    assert raised.value.code == "not-csv"
    assert not list(tmp_path.iterdir())


def test_mutated_golden_files_give_errors_of_ours_or_the_right_rows() -> None:
    found = fuzz(60, 0)
    assert found["rows"]
    assert found["shard-corrupt"] + found["shard-truncated"]
