"""Plain text: a row is a line, or a file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon.abc import FileInfo, Shard
from zephon.errors import BadRowsError, DataError, ShardError
from zephon.io import Dataset
from zephon_csv import content
from zephon_csv.text import TextFormat
from zephon_testkit.files import DiskContext, head, listing

from .fuzz_csv import read_rows


@given(
    lines=st.lists(st.text(st.sampled_from('ab" ,é漢\u2028\x0b'), max_size=5), max_size=10),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    chunk=st.sampled_from([1, 3, 1 << 20]),
    is_ended=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_line_is_a_row_blank_ones_too(
    tmp_path: Path, lines: list[str], end: str, chunk: int, is_ended: bool
) -> None:
    path = tmp_path / "lines.txt"
    is_ended = is_ended or not lines or not lines[-1]
    path.write_bytes((end.join(lines) + (end if is_ended and lines else "")).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "CHUNK_BYTES", chunk)
        for is_local in (True, False):
            batch, bad = read_rows(path, TextFormat(), is_local=is_local)
            assert batch.column("text").to_pylist() == lines
            assert not bad


def test_lines_that_are_not_utf8_are_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"good\n\xff\xfe\n\ngood\n\xe9")
    batch, bad = read_rows(path, TextFormat())
    assert bad == [1, 4]
    assert batch.column("text").to_pylist() == ["good", "", "good"]
    batch, bad = read_rows(path, TextFormat(encoding="latin-1"))
    assert batch.column("text").to_pylist() == ["good", "ÿþ", "", "good", "é"]
    assert not bad


def test_lines_of_a_compressed_file_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt.gz"
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\nthree"))
    assert read_rows(path, TextFormat(), is_local=False)[0].column(0).to_pylist() == ["one", "two", "three"]


@pytest.mark.parametrize("is_local", [True, False])
def test_a_file_is_a_row(tmp_path: Path, is_local: bool) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_bytes("\ufefftwo\n\nlines\n".encode())
    (tmp_path / "one.txt.gz").write_bytes(gzip.compress(b"one"))
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "bad.txt").write_bytes(b"a\xffb")
    dataset = Dataset.from_path("files", tmp_path, fmt="text", format_options={"row": "file"})
    assert len(dataset) == 4
    found = {}
    fmt = TextFormat(row="file")
    for shard in fmt.discover(listing(tmp_path)):
        context = DiskContext(is_local=is_local)
        reader = fmt.open(shard, fmt.index(shard, context), context)
        assert reader.read(np.arange(1), ["name"]).to_pylist() == [{"name": shard.name}]
        assert reader.read(np.arange(0), None).num_rows == 0
        try:
            found[shard.name] = reader.read(np.arange(1), None).to_pylist()[0]["text"]
        except BadRowsError as error:
            found[shard.name] = [(bad.row, bad.offset) for bad in error.rows]
        reader.close()
    assert found == {"b/two.txt": "two\n\nlines\n", "one.txt.gz": "one", "empty.txt": "", "bad.txt": [(0, 1)]}


def test_a_file_that_is_a_row_and_has_changed_is_said_to_have(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("one")
    shard = Shard(url=str(path), name="one.txt", file=FileInfo(url=str(path), size=3))
    fmt = TextFormat(row="file")
    reader = fmt.open(shard, fmt.index(shard, DiskContext()), DiskContext(is_local=False))
    path.write_text("another")
    with pytest.raises(ShardError) as raised:
        reader.read(np.arange(1), None)
    assert raised.value.code == "shard-changed"


def test_text_is_recognised_by_its_suffix_and_by_holding_no_zeros(tmp_path: Path) -> None:
    for name, data in (("a.txt", b"text"), ("b.txt", b"\0\1"), ("c.md", b"text"), ("d.txt", "text".encode("utf-16"))):
        (tmp_path / name).write_bytes(data)
    assert [file.name for file in listing(tmp_path) if TextFormat().recognise(head(file))] == ["a.txt", "d.txt"]


def test_a_text_with_line_ends_is_not_written_as_a_line(tmp_path: Path) -> None:
    for column in (["two\nlines"], [None], [1]):
        batch = pa.record_batch({"text": column})
        with pytest.raises(DataError) as raised:
            TextFormat().write(str(tmp_path / "x.txt"), [batch], batch.schema)
        assert raised.value.code == "not-csv"
    assert not list(tmp_path.iterdir())
