"""Indexing: units, schemas, footers kept, files that are not what they seem."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from zephon.abc import FileHead, FileInfo, RangedShard, ShardFormat, WritesShards
from zephon.abc.shard import PushesPredicate
from zephon.errors import ShardError
from zephon_parquet import plugin
from zephon_parquet.format import ParquetFormat
from zephon_parquet.reader import ParquetReader

from .conftest import CountingContext, canonical, everything, opened, shard_at, write_groups


def index(path: Path) -> Any:
    return ParquetFormat().index(shard_at(path), CountingContext())


def test_the_descriptor_declares_what_the_implementation_can() -> None:
    assert plugin.parquet.load() is ParquetFormat
    assert issubclass(ParquetFormat, ShardFormat)
    assert plugin.parquet.capabilities == {"ranges", "predicate", "write"}
    assert issubclass(ParquetReader, RangedShard)
    assert issubclass(ParquetReader, PushesPredicate)
    assert isinstance(ParquetFormat(), WritesShards)


def test_units_are_row_groups(path: Path) -> None:
    sizes = [128] * 6 + [14, 11]  # case F1
    write_groups(path, pa.table({"x": np.arange(sum(sizes))}), sizes)
    found = index(path)
    assert found.rows == 793
    assert found.units.tolist() == [0, 128, 256, 384, 512, 640, 768, 782, 793]
    assert found.units.dtype == np.int64


@pytest.mark.parametrize("sizes", [[0, 3, 0, 0, 2, 0], [0], [0, 0], []])
def test_row_groups_without_rows_are_no_units(path: Path, sizes: list[int]) -> None:
    rows = sum(sizes)
    write_groups(path, pa.table({"x": np.arange(rows), "s": [str(i) for i in range(rows)]}), sizes)
    reader, found = opened(path)
    assert found.units.tolist() == ([0, 3, 5] if rows else [0])
    assert everything(reader, found).to_pydict() == {"x": list(range(rows)), "s": [str(i) for i in range(rows)]}


def test_a_file_without_rows_has_a_schema(path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array([], pa.large_string())}), path)
    found = index(path)
    assert (found.rows, found.units.tolist(), found.schema) == (0, [0], pa.schema([("text", pa.string())]))


def test_a_file_without_columns_has_rows(path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3]}).select([]), path)
    reader, found = opened(path)
    assert found.schema.names == []
    assert everything(reader, found).num_rows == found.rows


def test_the_schema_is_canonical(path: Path) -> None:
    table = pa.table(
        {
            "large": pa.array(["a"], pa.large_string()),
            "dictionary": pa.array(["a"]).dictionary_encode(),
            "view": pa.array(["a"], pa.string_view()),
            "fixed": pa.array([[1, 2]], pa.list_(pa.int8(), 2)),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    pq.write_table(table.replace_schema_metadata({"pandas": "{}"}), path)
    reader, found = opened(path)
    key_value = pa.struct([("key", pa.string()), ("value", pa.int32())])
    assert found.schema.equals(
        pa.schema(
            [
                ("large", pa.string()),
                ("dictionary", pa.string()),
                ("view", pa.string()),
                ("fixed", pa.list_(pa.int8())),
                ("map", pa.list_(key_value)),
            ]
        ),
        check_metadata=True,
    )
    assert everything(reader, found).schema.equals(found.schema, check_metadata=True)


def test_indexing_reads_the_ends_of_a_file_and_opening_reads_nothing(path: Path) -> None:
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({"x": rng.integers(0, 2**60, 200_000)}), path, row_group_size=1000)
    context = CountingContext()
    reader, found = opened(path, context)
    assert context.requests == 1
    assert sum(stop - start for start, stop in context.reads) < path.stat().st_size / 10
    context.requests = 0
    shard = shard_at(path)
    ParquetFormat().open(shard, found, context)
    assert context.requests == 0
    assert everything(reader, found).equals(canonical(path).combine_chunks().to_batches()[0])


def long_statistics(path: Path, seed: int = 0) -> pa.Table:
    """A table whose footer is too large to be kept in the index."""
    words = np.random.default_rng(seed).integers(33, 126, (300, 2000), dtype=np.uint8)
    table = pa.table({"text": [row.tobytes().decode() for row in words]})
    pq.write_table(table, path, row_group_size=1)
    return table


def test_a_very_large_footer_is_left_in_the_file_and_read_in_one_piece(path: Path) -> None:
    table = long_statistics(path)
    context = CountingContext()
    shard = shard_at(path)
    found = ParquetFormat().index(shard, context)
    assert found.blob.nbytes < 1000
    context.reads.clear()
    reader = ParquetFormat().open(shard, found, context)
    assert len(context.reads) == 1
    assert everything(reader, found).column(0).to_pylist() == table.column(0).to_pylist()
    again = ParquetFormat().open(shard, found, context)
    assert len(context.reads) == 2  # one row read, no footer: open readers of a shard share it
    assert everything(again, found).num_rows == 300


@pytest.mark.parametrize("cut", [0, 5000])
def test_a_large_footer_that_has_changed_is_noticed(path: Path, cut: int) -> None:
    long_statistics(path, seed=7)
    shard, context = shard_at(path), CountingContext()
    found = ParquetFormat().index(shard, context)
    long_statistics(path, seed=8)
    if cut:
        path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ShardError) as excinfo:
        ParquetFormat().open(shard, found, context)
    assert excinfo.value.code == "shard-changed"


# --- files that are not what they seem


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:7],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: b'{"text": "a"}\n' * 10,
        lambda data: data[:-8] + (10**9).to_bytes(4, "little") + b"PAR1",
        lambda data: data[:-8] + (3).to_bytes(4, "little") + b"PAR1",
        lambda data: data[:-60] + b"\xff" * 40 + data[-20:],
        lambda data: b"PAR1" + bytes(8) + b"PAR1",
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(path: Path, damage: Any) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3]}), path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ShardError) as excinfo:
        index(path)
    assert excinfo.value.code == "shard-corrupt"
    assert path.name in excinfo.value.what
    assert excinfo.value.found


class PlainKms(pe.KmsClient):
    def __init__(self, config: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64decode(key)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_named_as_such(path: Path, plaintext_footer: bool) -> None:
    factory = pe.CryptoFactory(PlainKms)
    configuration = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["b"]}, plaintext_footer=plaintext_footer
    )
    table = pa.table({"a": [1], "b": ["x"]})
    keys = factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    with pq.ParquetWriter(path, table.schema, encryption_properties=keys) as writer:
        writer.write_table(table)
    with pytest.raises(ShardError) as excinfo:
        index(path)
    assert excinfo.value.code == "shard-encrypted"


def test_two_columns_of_one_name_are_refused_with_the_files_name(path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), path)
    with pytest.raises(ShardError) as excinfo:
        index(path)
    assert excinfo.value.code == "duplicate-field"
    assert path.name in excinfo.value.what


# --- which files


def info(name: str) -> FileInfo:
    return FileInfo(url=f"/data/{name}", name=name, size=100)


def test_content_decides_before_the_suffix() -> None:
    recognise = ParquetFormat().recognise
    assert recognise(FileHead(info=info("x.bin"), head=b"PAR1\x15\x04"))
    assert recognise(FileHead(info=info("x.bin"), head=b"PARE\x15\x04"))
    assert recognise(FileHead(info=info("x.PARQUET"), head=b""))
    assert not recognise(FileHead(info=info("x.jsonl"), head=b"{}"))


def test_files_of_other_formats_are_passed_over() -> None:
    files = [info(name) for name in ("README.md", "a.parquet", "b/c.pq", "d.parq", "e.snappy.parquet", "f.parquet.crc")]
    found = list(ParquetFormat().discover(files))
    assert [shard.name for shard in found] == ["a.parquet", "b/c.pq", "d.parq", "e.snappy.parquet"]
    assert [shard.file for shard in found] == [files[i] for i in (1, 2, 3, 4)]


def test_numbered_files_without_a_suffix_are_taken_where_there_are_no_others() -> None:
    names = ["dt=1/000000_0", "part-00001", "README", "LICENSE.md"]
    assert [s.name for s in ParquetFormat().discover([info(n) for n in names])] == names[:2]
    assert [s.name for s in ParquetFormat().discover([info(n) for n in [*names, "a.pq"]])] == ["a.pq"]


def test_the_query_of_a_web_address_is_no_suffix() -> None:
    web = FileInfo(url="https://host/a.parquet?download=true", name="a.parquet", size=1)
    local = FileInfo(url="/data/a.txt?b.parquet", name="a.txt?b.parquet", size=1)
    chained = FileInfo(url="zip://a.parquet::s3://bucket/b.zip", name="a.parquet", size=1)
    assert len(list(ParquetFormat().discover([web, local, chained]))) == 3
