"""Reading: whatever rows, columns, row groups and memory limits, the rows are those pyarrow reads from the file."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon.block import canonical_schema
from zephon.errors import BadRowsError, DataError, ShardError
from zephon_parquet import reader as reader_module
from zephon_parquet.source import FetchedFile

from .conftest import CountingContext, everything, opened, shard_at, write_groups

integers = st.integers(-(2**31), 2**31 - 1)
words = st.text(st.characters(codec="utf-8"), max_size=8)
#: Arrow types with strategies for their values; every one that a canonical type is made of, and those that become one.
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.null(), st.none()),
    (pa.string(), words),
    (pa.large_string(), words),
    (pa.string_view(), words),
    (pa.binary(), st.binary(max_size=8)),
    (pa.large_binary(), st.binary(max_size=8)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b", "ccc"])),
    (pa.date32(), st.dates()),
    (pa.decimal128(12, 2), st.decimals(-1000, 1000, places=2)),
    (pa.list_(pa.int32()), st.lists(st.none() | integers, max_size=4)),
    (pa.large_list(pa.large_string()), st.lists(st.none() | words, max_size=3)),
    (pa.list_(pa.int8(), 2), st.lists(st.integers(-128, 127), min_size=2, max_size=2)),
    (pa.list_(pa.list_(pa.string())), st.lists(st.none() | st.lists(words, max_size=2), max_size=3)),
    (pa.map_(pa.string(), pa.int32()), st.dictionaries(words, integers, max_size=3).map(lambda d: list(d.items()))),
    (
        pa.struct([("role", pa.string()), ("parts", pa.list_(pa.struct([("n", pa.int32())])))]),
        st.fixed_dictionaries(
            {"role": st.none() | words, "parts": st.lists(st.fixed_dictionaries({"n": integers}), max_size=2)}
        ),
    ),
]
NAMES = ["a", "b.c", "b", "d e", "ü"]  # a dot in a name is no path


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 40))
    columns = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
        kind, values = draw(st.sampled_from(KINDS))
        column = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[name] = pa.array(column, kind)
    return pa.table(columns)


@st.composite
def layouts(draw: st.DrawFn, rows: int) -> list[int]:
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=6)))
    return np.diff([0, *cuts, rows]).tolist()


OPTIONS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "zstd"]),
        "data_page_size": st.sampled_from([32, 1 << 20]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "use_dictionary": st.booleans(),
        "store_schema": st.booleans(),
        "write_page_checksum": st.booleans(),
    }
)
#: Limits that make every way of reading occur on small files.
LIMITS = st.fixed_dictionaries(
    {
        "_RUN_BYTES": st.sampled_from([1, 300, 1 << 26]),
        "_STEP_BYTES": st.sampled_from([1, 100, 1 << 22]),
        "_FETCH_BYTES": st.sampled_from([1, 1 << 26]),
    }
)


@contextmanager
def limits(values: dict[str, int]) -> Iterator[None]:
    with mock.patch.multiple(reader_module, **values):
        yield


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value as Python has it, maps as the canonical types have them."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [{"key": k, "value": plain(v, kind.item_type)} for k, v in value]
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if pa.types.is_nested(kind):
        return [plain(item, kind.value_type) for item in value]
    return value


def as_pyarrow_reads(path: Path, names: list[str], rows: list[int]) -> list[list[Any]]:
    table = pq.read_table(path)
    return [[plain(table.column(name)[row].as_py(), table.schema.field(name).type) for row in rows] for name in names]


def read(reader: Any, rows: list[int], names: list[str] | None) -> list[list[Any]]:
    batch = reader.read(np.array(rows, dtype=np.int64), names)
    batch.validate(full=True)
    assert batch.num_rows == len(rows)
    return [column.to_pylist() for column in batch.columns]


@given(data=st.data())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows_and_any_projection_are_what_pyarrow_reads(path: Path, data: st.DataObject) -> None:
    table = data.draw(tables())
    write_groups(path, table, data.draw(layouts(table.num_rows)), **data.draw(OPTIONS))
    names = data.draw(
        st.permutations(table.column_names).flatmap(lambda p: st.integers(1, len(p)).map(lambda n: p[:n]))
    )
    rows = sorted(data.draw(st.sets(st.integers(0, table.num_rows - 1)))) if table.num_rows else []
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    expected = as_pyarrow_reads(path, names, rows)
    with limits(data.draw(LIMITS)):
        reader, index = opened(path, CountingContext(local=data.draw(st.booleans())))
        assert index.schema.equals(canonical_schema(pq.read_schema(path)))
        assert read(reader, rows, names) == expected
        pieces = [read(reader, rows[a:b], names) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        assert [list(chain(*columns)) for columns in zip(*pieces, strict=True)] == expected
        reader.close()


@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reading_in_pieces_in_any_order_by_any_projection_leaves_no_trace(path: Path, data: st.DataObject) -> None:
    table = pa.table({"x": np.arange(60), "s": [f"text {i}" * (i % 5) for i in range(60)]})
    write_groups(path, table, data.draw(layouts(60)), data_page_size=64)
    with limits(data.draw(LIMITS)):
        reader, _ = opened(path)
        for _ in range(data.draw(st.integers(1, 6))):
            rows = sorted(data.draw(st.sets(st.integers(0, 59))))
            names = data.draw(st.sampled_from([["x"], ["s"], ["s", "x"]]))
            assert read(reader, rows, names) == [
                table.column(n).take(pa.array(rows, pa.int64())).to_pylist() for n in names
            ]


# --- cases


def test_no_columns_are_rows_without_values_and_no_rows_have_a_schema(path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3], "s": ["a", "b", "c"]}), path)
    context = CountingContext()
    reader, index = opened(path, context)
    context.requests = 0
    assert reader.read(np.array([0, 2]), []).num_rows == 2
    none = reader.read(np.array([], dtype=np.int64), ["s"])
    assert (none.num_rows, none.schema) == (0, pa.schema([("s", pa.string())]))
    assert reader.read(np.array([], dtype=np.int64), None).schema == index.schema
    assert context.requests == 0


def test_an_all_null_first_row_group_of_text(path: Path) -> None:  # case F1
    table = pa.table({"s": pa.array([None] * 5 + ["x", None, "y"])})
    write_groups(path, table, [5, 3])
    reader, index = opened(path)
    assert index.schema.field("s").type == pa.string()
    assert read(reader, [0, 4, 5, 7], None) == [[None, None, "x", "y"]]
    assert read(reader, [1], None) == [[None]]


def test_a_tensor_column_stays_a_tensor(path: Path) -> None:
    kind = pa.fixed_shape_tensor(pa.float32(), [2, 2])
    storage = pa.array([[1.0, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], kind.storage_type)
    pq.write_table(pa.table({"image": pa.ExtensionArray.from_storage(kind, storage)}), path)
    reader, _ = opened(path)
    batch = reader.read(np.array([0, 2]), None)
    assert batch.schema.field("image").type == kind
    assert batch.column(0).to_numpy_ndarray().tolist() == [[[1, 2], [3, 4]], [[9, 10], [11, 12]]]


def test_whole_row_groups_are_handed_out_without_a_copy(path: Path) -> None:
    table = pa.table({"x": np.arange(9000), "s": ["some text"] * 9000})
    pq.write_table(table, path, row_group_size=3000, use_dictionary=False)
    reader, _ = opened(path)
    pa.default_memory_pool().release_unused()
    with mock.patch.object(reader_module, "take_batch", side_effect=AssertionError("copied")):
        before = pa.total_allocated_bytes()
        batch = reader.read(np.arange(3000, 9000), None)
        held = pa.total_allocated_bytes() - before
    # What was allocated is what is handed out, but for the builders' slack of at most one doubling.
    assert batch.nbytes <= held < 2 * batch.nbytes


@pytest.mark.parametrize("rows", [[-1, 2], [0, 3]])
def test_rows_outside_the_shard_are_refused(path: Path, rows: list[int]) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3]}), path)
    with pytest.raises(IndexError):
        opened(path)[0].read(np.array(rows), None)


# --- how much is read


def wide(path: Path) -> pa.Table:
    table = pa.table({name: np.random.default_rng(i).integers(0, 2**60, 4000) for i, name in enumerate("abcd")})
    pq.write_table(table, path, row_group_size=1000)
    return table


def test_only_the_chunks_of_touched_row_groups_and_wanted_columns_are_read(path: Path) -> None:
    wide(path)
    context = CountingContext()
    reader, _ = opened(path, context)
    rows = np.array([5, 2003, 2999])
    promised = reader.ranges(rows, ["b", "d"]).tolist()
    context.reads.clear()
    context.requests = 0
    reader.read(rows, ["b", "d"])
    assert [list(r) for r in context.reads] == promised
    assert context.requests == 1
    total = sum(stop - start for start, stop in promised)
    assert 0.2 < total / path.stat().st_size < 0.3  # two of four columns of two of four row groups


def test_a_decoder_that_looks_beyond_a_chunk_gets_the_bytes_of_the_file(path: Path) -> None:
    """As it does for files of old writers, which did not count the dictionary's header (PARQUET-816)."""
    data = bytes(range(200))
    path.write_bytes(data)
    context = CountingContext()
    file = FetchedFile(shard_at(path), context)
    with file.holding([(10, 20), (30, 60)]):
        assert context.requests == 1
        for start, count, requests in (
            (10, 10, 1),
            (35, 5, 1),
            (55, 30, 2),
            (0, 5, 3),
            (20, 10, 4),
            (190, 50, 5),
            (200, 1, 5),
        ):
            file.seek(start)
            assert bytes(file.read(count)) == data[start : start + count]
            assert file.tell() == min(start + count, 200)
            assert context.requests == requests
    file.seek(10)
    assert bytes(file.read(5)) == data[10:15]
    assert context.requests == 6


@given(st.sets(st.integers(0, 3999), max_size=20), st.sets(st.sampled_from("abcd")))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_ranges_are_sorted_apart_and_inside_the_file(path: Path, rows: set[int], names: set[str]) -> None:
    if not path.exists():
        wide(path)
    reader, _ = opened(path)
    ranges = reader.ranges(np.array(sorted(rows), dtype=np.int64), sorted(names))
    assert (ranges.dtype, ranges.shape[1]) == (np.int64, 2)
    assert bool(len(ranges)) == bool(rows and names)
    flat = ranges.ravel()
    assert (np.diff(flat) > 0).all()
    assert not len(flat) or (flat[0] >= 4 and flat[-1] < path.stat().st_size)


@pytest.mark.parametrize("fetch", [1 << 26, 1000])
def test_a_large_row_group_read_piece_by_piece_is_decoded_once(path: Path, fetch: int) -> None:
    table = pa.table({"x": np.random.default_rng(0).integers(0, 2**60, 50_000)})
    pq.write_table(table, path, row_group_size=50_000, use_dictionary=False)
    context = CountingContext()
    with limits({"_STEP_BYTES": 10_000, "_FETCH_BYTES": fetch}):
        reader, _ = opened(path, context)
        context.requests = 0
        with mock.patch.object(reader, "_steps", wraps=reader._steps) as begun:
            got = [reader.read(np.arange(start, start + 700), None) for start in range(0, 49_700, 700)]
        assert begun.call_count == 1
        assert context.requests == 1
        assert pa.Table.from_batches(got).column("x").to_pylist() == table.column("x").to_pylist()[:49_700]


def test_a_large_row_group_read_in_part_is_never_decoded_whole(path: Path) -> None:
    rows = 40_000
    pq.write_table(pa.table({"s": ["x" * 1000] * rows}), path, row_group_size=rows, use_dictionary=False)
    with limits({"_STEP_BYTES": 1 << 20, "_FETCH_BYTES": 1 << 20}):
        reader, _ = opened(path)
        pool = pa.default_memory_pool()
        before = pool.bytes_allocated()
        most = 0
        for start in range(0, rows - 500, 2000):
            reader.read(np.arange(start, start + 500), None)
            most = max(most, pool.bytes_allocated() - before)
    assert most < 12 << 20  # of 40 MB


def test_more_than_a_column_may_hold_is_an_error_and_less_is_read(path: Path) -> None:
    pq.write_table(pa.table({"s": ["x" * 100] * 100}), path, row_group_size=30)
    with mock.patch.object(reader_module, "MAX_COLUMN_BYTES", 5000):
        reader, _ = opened(path)
        with pytest.raises(ShardError) as excinfo:
            reader.read(np.arange(60), None)
        assert excinfo.value.code == "shard-rows-too-large"
        assert reader.read(np.arange(30, 70), None).num_rows == 40


def test_large_text_that_outgrows_the_canonical_type_is_an_error_and_less_is_read(path: Path) -> None:
    """A stand-in for a row group with over 2 GiB of text, which Arrow refuses to convert as a whole."""
    pq.write_table(pa.table({"s": pa.array(["x" * 100] * 100, pa.large_string())}), path)
    convert = reader_module.conform

    def limited(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if batch.nbytes > 5000:
            raise DataError("too large", found="input array too large", code="field-type-mismatch")
        return convert(batch, schema)

    with mock.patch.multiple(reader_module, MAX_COLUMN_BYTES=5000, conform=limited):
        reader, _ = opened(path)
        with pytest.raises(ShardError) as excinfo:
            reader.read(np.arange(100), None)
        assert excinfo.value.code == "shard-rows-too-large"
        assert reader.read(np.array([0, 50, 99]), None).column("s").to_pylist() == ["x" * 100] * 3


def test_chunked_columns_are_not_cut(path: Path) -> None:
    """Arrow reads a dictionary column as one chunk per row group, a long text column as one per 2 GiB."""
    table = pa.table({"d": pa.array(list("abcabdxyz")).dictionary_encode(), "x": range(9)})
    write_groups(path, table, [3, 3, 3])
    reader, index = opened(path)
    assert everything(reader, index).to_pydict() == {"d": list("abcabdxyz"), "x": list(range(9))}


# --- text


def test_text_that_is_not_utf8_is_a_bad_row_and_all_others_can_be_read(path: Path) -> None:
    raw = pa.array([b"fine", b"\xff", None, b"fine", b"\xc3", b"fine"])
    broken = pa.Array.from_buffers(pa.string(), 6, raw.buffers())
    listed = pa.array([[b"a"], [b"b"], [b"\xff", b"c"], None, [], [b"d"]])
    nested = pa.Array.from_buffers(
        pa.list_(pa.string()),
        6,
        listed.buffers()[:2],
        children=[pa.Array.from_buffers(pa.string(), len(listed.values), listed.values.buffers())],
    )
    pq.write_table(pa.table({"s": broken, "l": nested, "x": range(6)}), path)
    reader, _ = opened(path)
    with pytest.raises(BadRowsError) as excinfo:
        reader.read(np.array([0, 1, 2, 4, 5]), None)
    assert excinfo.value.code == "bad-row"
    assert [bad.row for bad in excinfo.value.rows] == [1, 2, 4]
    assert reader.read(np.array([0, 3, 5]), None).column("s").to_pylist() == ["fine"] * 3
    assert reader.read(np.arange(6), ["x"]).num_rows == 6


# --- threads


def test_several_readers_at_once_read_the_same(path: Path) -> None:
    table = pa.table({"x": np.arange(30_000), "s": [f"{i:020d}" for i in range(30_000)]})
    pq.write_table(table, path, row_group_size=1000)
    wrong: list[int] = []

    def scan(seed: int) -> None:
        rng = np.random.default_rng(seed)
        reader, _ = opened(path)
        for _ in range(5):
            rows = np.flatnonzero(rng.random(30_000) < 0.05)
            batch = reader.read(rows, ["s", "x"])
            if (
                not np.array_equal(batch.column("x").to_numpy(), rows)
                or batch.column("s")[3].as_py() != f"{rows[3]:020d}"
            ):
                wrong.append(seed)
        reader.close()

    threads = [threading.Thread(target=scan, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
