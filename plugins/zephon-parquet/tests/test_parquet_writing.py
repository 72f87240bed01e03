"""Writing: what is written is read back, in row groups of bearable size, or not at all."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon_parquet.format import ParquetFormat

from .conftest import everything, opened


def write(path: Path, batches: list[pa.RecordBatch], schema: pa.Schema) -> None:
    ParquetFormat().write(str(path), batches, schema)


def groups(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def test_what_is_written_is_read_back(path: Path) -> None:
    kind = pa.fixed_shape_tensor(pa.int8(), [2])
    schema = pa.schema(
        [
            pa.field("ids", pa.list_(pa.int32()), metadata={b"zephon.pad_id": b"0"}),
            pa.field("text", pa.string()),
            pa.field("chat", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
            pa.field("tensor", kind),
        ]
    )
    tensor = pa.ExtensionArray.from_storage(kind, pa.array([[1, 2], None, [3, 4]], kind.storage_type))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([[1, 2], [], None], schema.field("ids").type),
            pa.array(["a", None, "ü"]),
            pa.array([[{"role": "user", "content": "x"}], [], None], schema.field("chat").type),
            tensor,
        ],
        schema=schema,
    )
    write(path, [batch, batch.slice(1, 0), batch], schema)
    reader, index = opened(path)
    assert index.schema.equals(schema, check_metadata=True)
    found = everything(reader, index)
    assert pa.Table.from_batches([found]).equals(pa.Table.from_batches([batch, batch]))


@pytest.mark.parametrize("size", [1, 100, 8192, 9000, 20_000])
def test_row_groups_do_not_depend_on_the_batches_they_came_in(path: Path, size: int) -> None:
    batch = pa.record_batch({"x": np.arange(20_000)})
    write(path, [batch.slice(start, size) for start in range(0, 20_000, size)], batch.schema)
    assert sum(groups(path)) == 20_000
    assert max(groups(path)) <= 8192
    assert min(groups(path)[:-1]) > 7000
    assert pq.read_table(path).column("x").to_pylist() == list(range(20_000))


def test_row_groups_of_large_rows_are_small(path: Path) -> None:
    batch = pa.record_batch({"image": [os.urandom(1 << 20)] * 40})
    write(path, [batch, batch], batch.schema)
    assert sum(groups(path)) == 80
    assert max(groups(path)) <= 32


def test_no_batches_make_a_file_without_rows(path: Path) -> None:
    write(path, [], pa.schema([("x", pa.int64())]))
    _, index = opened(path)
    assert (index.rows, index.schema.names) == (0, ["x"])


def test_pages_have_checksums(path: Path) -> None:
    batch = pa.record_batch({"x": np.arange(1000)})
    write(path, [batch], batch.schema)
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(0)
    data[chunk.dictionary_page_offset + chunk.total_compressed_size - 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


def test_a_failure_leaves_nothing_behind_and_the_old_file_alone(path: Path) -> None:
    batch = pa.record_batch({"x": [1, 2]})
    write(path, [batch], batch.schema)

    def failing() -> Iterator[pa.RecordBatch]:
        yield batch
        raise RuntimeError("the source broke off")

    with pytest.raises(RuntimeError):
        ParquetFormat().write(str(path), failing(), batch.schema)
    assert os.listdir(path.parent) == [path.name]
    assert pq.read_table(path).num_rows == 2
