"""Damaged files: the place is named, the rest can be read, and nothing wrong is ever handed out."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon.errors import BadRowsError, ShardError, StorageError
from zephon_parquet import reader as reader_module

from .conftest import CountingContext, canonical, opened


def written(path: Path, **options: Any) -> pa.Table:
    """Four row groups of three columns."""
    table = pa.table(
        {
            "x": np.arange(400),
            "text": [f"document {i} " * 5 for i in range(400)],
            "tags": [[f"t{i % 7}"] * (i % 3) for i in range(400)],
        }
    )
    pq.write_table(table, path, row_group_size=100, **{"compression": "zstd", "write_page_checksum": True, **options})
    return table


def chunk(path: Path, group: int, column: int) -> tuple[int, int]:
    found = pq.read_metadata(path).row_group(group).column(column)
    start = found.dictionary_page_offset or found.data_page_offset
    return start, start + found.total_compressed_size


def flip(path: Path, position: int, mask: int = 0xFF) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ mask]))


@pytest.mark.parametrize("step", [1, 1 << 22])
def test_a_corrupt_page_names_row_group_field_and_byte_and_leaves_the_rest(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(reader_module, "_STEP_BYTES", step)
    table = written(path)
    start, stop = chunk(path, 2, 1)
    flip(path, stop - 10)
    reader, _ = opened(path)
    for rows in (np.arange(400), np.array([10, 250]), np.array([201])):
        with pytest.raises(ShardError) as excinfo:
            reader.read(rows, None)
        error = excinfo.value
        assert error.code == "shard-corrupt"
        assert "row group 2" in error.what
        assert path.name in error.what
        assert "'text'" in error.found
        assert f"byte {start} " in error.found
    fine = np.r_[0:200, 300:400]
    assert reader.read(fine, None).column("text").to_pylist() == table.column("text").take(pa.array(fine)).to_pylist()
    assert reader.read(np.arange(400), ["x"]).num_rows == 400


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), step=st.sampled_from([1, 1 << 22]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_flipped_bit_is_noticed_or_harmless(path: Path, place: float, bit: int, step: int) -> None:
    """With page checksums, which pages written by Zephon, Spark and others have."""
    written(path)
    expected = canonical(path).combine_chunks().to_batches()[0]
    first, _ = chunk(path, 0, 0)
    _, last = chunk(path, 3, 2)
    position = first + int(place * (last - first))
    reader, _ = opened(path)
    flip(path, position, 1 << bit)
    for group in range(4):
        rows = np.arange(group * 100, group * 100 + 100)
        inside = any(start <= position < stop for start, stop in (chunk(path, group, c) for c in range(3)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reader_module, "_STEP_BYTES", step)
            try:
                batch = reader.read(rows[:60] if step == 1 else rows, None)
            except (ShardError, BadRowsError) as error:
                failure = error.code if inside else "a row group was blamed for what happened to another"
            else:
                failure = ""
                assert batch.equals(expected.slice(rows[0], batch.num_rows))
        assert failure in {"", "shard-corrupt", "bad-row"}
    reader.close()


def test_a_file_cut_short_after_indexing_has_changed(path: Path) -> None:
    written(path)
    reader, _ = opened(path)
    os.truncate(path, chunk(path, 2, 0)[0])
    assert reader.read(np.arange(100), None).num_rows == 100
    with pytest.raises(ShardError) as excinfo:
        reader.read(np.arange(400), None)
    assert excinfo.value.code == "shard-changed"


def test_another_file_in_its_place_is_never_taken_for_it(path: Path) -> None:
    written(path)
    reader, _ = opened(path)
    pq.write_table(pa.table({"y": ["z" * 99_999]}), path, compression="none", use_dictionary=False)
    with pytest.raises(ShardError) as excinfo:
        reader.read(np.arange(400), None)
    assert excinfo.value.code in {"shard-corrupt", "shard-changed"}


@pytest.mark.parametrize(
    "error", [StorageError("gone", code="storage-unavailable"), TimeoutError("slow"), OSError(5, "x")]
)
@pytest.mark.parametrize("fetch", [1, 1 << 26])
def test_what_the_storage_raises_is_not_taken_for_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, fetch: int
) -> None:
    monkeypatch.setattr(reader_module, "_STEP_BYTES", 1)
    monkeypatch.setattr(reader_module, "_FETCH_BYTES", fetch)
    written(path)
    context = CountingContext()
    reader, _ = opened(path, context)

    class Failing(io.BytesIO):
        """An open file whose storage fails."""

        def read(self, *args: Any) -> bytes:
            raise error

    def fail(*args: Any) -> Any:
        raise error

    monkeypatch.setattr(context, "read_ranges", fail)
    monkeypatch.setattr(context, "open_random_access", lambda url: pa.PythonFile(Failing(path.read_bytes()), mode="r"))
    for rows in (np.arange(400), np.arange(50)):
        with pytest.raises(type(error)):
            reader.read(rows, None)
