"""Reading blocks by pointer: equal to a naive row-by-row reference, whatever the units, cache and order."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.block import Origins, retained_bytes, unify_schemas
from zephon.errors import BadRowsError, EngineError, PluginError, ShardError, StorageError
from zephon.io import BlockReader, Dataset, first_rows

SETTINGS = settings(max_examples=40, deadline=None)


def pointers(triples):
    triples = list(triples)
    zeros = [0] * len(triples)
    columns = dict.fromkeys(("component", "epoch", "part", "phase"), zeros)
    return Origins(
        dataset=[d for d, _, _ in triples], shard=[s for _, s, _ in triples], row=[r for _, _, r in triples], **columns
    )


def union(datasets):
    return unify_schemas({d.name: d.schema for d in datasets})[0]


row = st.fixed_dictionaries(
    {},
    optional={
        "x": st.integers(-9, 9) | st.none(),
        "s": st.text(max_size=5) | st.none(),
        "l": st.lists(st.integers(0, 9), max_size=3),
        "n": st.fixed_dictionaries({}, optional={"a": st.integers(0, 9), "b": st.text(max_size=2)}),
    },
)
floats = st.fixed_dictionaries({"x": st.floats(-9, 9).map(lambda v: round(v, 1) + 0.05), "only": st.booleans()})


@st.composite
def worlds(draw, bad=False):
    """Datasets as ``{shard: rows}`` with a unit size each, and pointers into them."""
    kinds = draw(st.lists(st.sampled_from([row, floats]), min_size=1, max_size=3))
    datasets = []
    for kind in kinds:
        line = kind
        if bad:
            line = st.one_of(kind, kind, st.sampled_from(["?malformed", "!torn"]))
        shards = draw(st.lists(st.lists(line, max_size=12), min_size=1, max_size=3))
        if not any(isinstance(r, dict) for rows in shards for r in rows):
            shards[0] = [{"x": 1}]
        datasets.append((shards, draw(st.sampled_from([0, 1, 2, 3, 5, 100])), draw(st.booleans())))
    places = [
        (d, s, r) for d, (shards, *_) in enumerate(datasets) for s, rows in enumerate(shards) for r in range(len(rows))
    ]
    asked = draw(st.lists(st.sampled_from(places), max_size=30))
    if draw(st.booleans()):
        asked = sorted(set(asked))
    return datasets, asked


def build(doubles, datasets):
    doubles.FILES.clear()
    made = []
    for i, (shards, unit, known_bad) in enumerate(datasets):
        for j, rows in enumerate(shards):
            doubles.FILES[f"fake://d{i}/{j}.rows"] = doubles.rows_file(rows)
        made.append(Dataset.from_path(f"d{i}", f"fake://d{i}", format_options={"unit": unit, "known_bad": known_bad}))
    return made


def naive(datasets, made, asked, schema):
    """Row by row, the value of each field of the schema."""
    out = []
    for d, s, r in asked:
        value = datasets[d][0][s][r]
        out.append(
            {f.name: _widen(value.get(f.name), f.type) if f.name in made[d].schema.names else None for f in schema}
        )
    return out


def _widen(value, kind):
    if pa.types.is_struct(kind) and value is not None:
        return {f.name: value.get(f.name) for f in kind}
    return value


@pytest.mark.parametrize("cache_bytes", [0, 400, 1 << 20])
def test_reading_any_pointers_equals_reading_them_one_by_one(doubles, cache_bytes):
    @SETTINGS
    @given(worlds(), st.data())
    def check(world, data):
        datasets, asked = world
        made = build(doubles, datasets)
        whole = union(made)
        chosen = data.draw(st.permutations(whole.names))[: data.draw(st.integers(0, len(whole.names)))]
        schema = pa.schema([whole.field(name) for name in chosen])
        reader = BlockReader(made, schema, cache_bytes=cache_bytes, open_shards=2)
        try:
            for some in (asked, asked[::-1], asked[: len(asked) // 2]):
                block = reader.read(pointers(some))
                block.validate(full=True)
                assert block.schema.equals(schema, check_metadata=True)
                assert block.num_rows == len(some)
                assert block.to_pylist() == naive(datasets, made, some, schema)
            assert reader.nbytes <= cache_bytes
        finally:
            reader.close()
        assert doubles.COUNTS["open"] == 0

    check()


def is_readable(datasets, made, place):
    """Whether a row can be read, by the laws: it alone and the decode unit it lies in decide, and the index."""
    d, s, r = place
    shards, unit, known_bad = datasets[d]
    rows = shards[s]
    if known_bad and rows[r] == "?malformed":
        return False
    if not made[d]._source.index(s).schema.names:
        return True  # the shard has no column, so nothing of it is read
    start, stop = (r, r + 1) if unit == 0 else (r // unit * unit, r // unit * unit + unit)
    return rows[r] != "?malformed" and "!torn" not in rows[start:stop]


def bad_rows_of(reader, asked):
    """Positions of the rows that reading them all calls bad."""
    try:
        reader.read(pointers(asked))
    except BadRowsError as error:
        return [bad.row for bad in error.rows]
    return []


@pytest.mark.parametrize("cache_bytes", [0, 400, 1 << 20])
def test_bad_rows_are_all_named_and_do_not_depend_on_what_else_is_asked_for(doubles, cache_bytes):
    @SETTINGS
    @given(worlds(bad=True))
    def check(world):
        datasets, asked = world
        made = build(doubles, datasets)
        reader = BlockReader(made, union(made), cache_bytes=cache_bytes)
        try:
            for some in (asked, asked[::-1], asked[1::2]):
                fine = [is_readable(datasets, made, place) for place in some]
                assert bad_rows_of(reader, some) == [i for i, ok in enumerate(fine) if not ok]
                good = [place for place, ok in zip(some, fine, strict=True) if ok]
                assert reader.read(pointers(good)).num_rows == len(good)
        finally:
            reader.close()

    check()


@pytest.fixture
def numbers(write):
    """20 rows in two shards of 12 and 8, as a function of the format options."""
    files = {
        "a.rows": [{"x": i, "t": f"text {i}" * 20} for i in range(12)],
        "b.rows": [{"x": i, "t": f"text {i}" * 20} for i in range(12, 20)],
    }
    root = write(files)
    return lambda **options: Dataset.from_path("web", root, format_options=options)


def read_all(reader, dataset):
    places = [(0, s, r) for s, n in enumerate(dataset.shard_rows.tolist()) for r in range(n)]
    return reader.read(pointers(places))


@pytest.mark.parametrize("unit", [0, 4, 12])
def test_offset_reason_and_position_of_bad_rows_are_kept(write, unit):
    root = write({"a.rows": [{"x": 1}, "?not JSON", {"x": 3}, "?neither"]})
    for known_bad in (False, True):
        dataset = Dataset.from_path("web", root, format_options={"unit": unit, "known_bad": known_bad})
        reader = BlockReader([dataset], dataset.schema)
        with pytest.raises(BadRowsError) as excinfo:
            reader.read(pointers([(0, 0, 3), (0, 0, 0), (0, 0, 1), (0, 0, 3)]))
        assert excinfo.value.code == "bad-row"
        offset = len(b'#rows\n{"x": 1}\n')
        last = offset + len(b'?not JSON\n{"x": 3}\n')
        assert [tuple(bad) for bad in excinfo.value.rows] == [
            (0, "neither", last),
            (2, "not JSON", offset),
            (3, "neither", last),
        ]
        assert reader.read(pointers([(0, 0, 2), (0, 0, 0)])).to_pylist() == [{"x": 3}, {"x": 1}]
        reader.close()


def test_a_broken_unit_gives_its_code_and_cause_and_leaves_the_other_units_readable(write):
    root = write({"a.rows": [{"x": 0}, {"x": 1}, {"x": 2}, "!end of file", {"x": 4}]})
    dataset = Dataset.from_path("web", root, format_options={"unit": 2})
    reader = BlockReader([dataset], dataset.schema)
    with pytest.raises(BadRowsError) as excinfo:
        reader.read(pointers([(0, 0, r) for r in range(5)]))
    assert excinfo.value.code == "torn"
    assert excinfo.value.__cause__.code == "torn"
    assert [bad.row for bad in excinfo.value.rows] == [2, 3]
    assert reader.read(pointers([(0, 0, r) for r in (0, 1, 4)])).num_rows == 3
    reader.close()


def test_a_shard_that_cannot_be_opened_is_tried_once_and_bad_as_a_whole(write, doubles, monkeypatch):
    root = write({"a.rows": [{"x": i} for i in range(100)], "b.rows": [{"x": 1}]})
    dataset = Dataset.from_path("web", root)
    reader = BlockReader([dataset], dataset.schema)
    tried = []
    original = doubles.RowsFormat.open

    def fail(self, shard, index, context):
        if shard.name == "b.rows":
            return original(self, shard, index, context)
        tried.append(shard.name)
        raise ShardError("no footer", code="torn")

    monkeypatch.setattr(doubles.RowsFormat, "open", fail)
    places = [(0, 0, r) for r in range(100)] + [(0, 1, 0)]
    assert bad_rows_of(reader, places) == list(range(100))
    assert tried == ["a.rows"]
    reader.close()


def test_a_shard_that_changed_since_it_was_indexed_is_an_error_not_other_rows(write, doubles):
    root = write({"a.rows": [{"x": i} for i in range(100)]})
    dataset = Dataset.from_path("web", root)
    assert dataset.total() == 100
    (root / "a.rows").write_bytes(doubles.rows_file([{"x": i} for i in range(99)]))
    reader = BlockReader([dataset], dataset.schema)
    with pytest.raises(BadRowsError) as excinfo:
        reader.read(pointers([(0, 0, r) for r in range(50)]))
    assert excinfo.value.code == "shard-changed"
    assert len(excinfo.value.rows) == 50
    assert doubles.COUNTS["opened"] == []
    reader.close()


def test_a_shard_that_is_gone_is_a_storage_error_never_a_skipped_row(write):
    root = write({"a.rows": [{"x": 1}]})
    dataset = Dataset.from_path("web", root)
    assert dataset.total() == 1
    (root / "a.rows").unlink()
    reader = BlockReader([dataset], dataset.schema)
    with pytest.raises(StorageError) as excinfo:
        reader.read(pointers([(0, 0, 0)]))
    assert excinfo.value.code == "shard-missing"
    reader.close()


def test_a_format_that_fails_is_named(write, doubles, monkeypatch):
    dataset = Dataset.from_path("web", write({"a.rows": [{"x": 1}]}))
    reader = BlockReader([dataset], dataset.schema)
    monkeypatch.setattr(doubles.RowsFormat, "open", lambda *_: 1 / 0)
    with pytest.raises(EngineError) as excinfo:
        reader.read(pointers([(0, 0, 0)]))
    assert excinfo.value.code == "format-failed"
    assert "a.rows" in str(excinfo.value)
    assert isinstance(excinfo.value.__cause__, ZeroDivisionError)
    reader.close()


def test_a_reader_that_returns_another_number_of_rows_is_refused(write, monkeypatch, doubles):
    dataset = Dataset.from_path("web", write({"a.rows": [{"x": 1}]}))
    reader = BlockReader([dataset], dataset.schema)
    monkeypatch.setattr(doubles._RowsReader, "read", lambda *_: pa.record_batch({"x": [1, 2]}))
    with pytest.raises(PluginError) as excinfo:
        reader.read(pointers([(0, 0, 0)]))
    assert excinfo.value.code == "format-contract"
    reader.close()


def test_a_run_over_most_of_a_unit_shares_its_memory_and_a_small_part_does_not(numbers):
    dataset = numbers(unit=12)
    reader = BlockReader([dataset], dataset.schema)
    most = reader.read(pointers([(0, 0, r) for r in range(1, 12)]))
    again = reader.read(pointers([(0, 0, r) for r in range(1, 12)]))
    assert retained_bytes([most, again]) == retained_bytes([most])
    few = reader.read(pointers([(0, 0, r) for r in (3, 4)]))
    assert retained_bytes([few]) <= 2 * few.nbytes
    assert few.to_pylist() == most.slice(2, 2).to_pylist()
    reader.close()


@pytest.mark.parametrize("rows", [[3], [3, 4, 5], [0, 5, 11], [5, 3], [7, 7, 7]])
def test_what_is_read_never_keeps_more_than_twice_its_memory_alive(numbers, rows):
    table = pa.table({"x": list(range(10_000)), "t": [f"{i}" * 30 for i in range(10_000)]})
    for dataset in (numbers(unit=12), numbers(), Dataset.from_dict("mem", table)):
        reader = BlockReader([dataset], dataset.schema)
        block = reader.read(pointers([(0, 0, r) for r in rows]))
        # Arrow rounds buffers up to 64 bytes
        assert retained_bytes([block]) <= 2 * block.nbytes + 64 * 6
        reader.close()


def test_a_unit_is_decoded_once_for_all_blocks_that_lie_in_it(numbers):
    dataset = numbers(unit=6)
    reader = BlockReader([dataset], dataset.schema)
    for r in range(0, 12, 3):
        reader.read(pointers([(0, 0, r + i) for i in range(3)]))
    stats = reader.stats()
    assert stats["units_decoded"] == 2
    assert stats["rows_decoded"] == stats["rows_delivered"] == 12
    assert stats["cache_hits"] == 2
    assert stats["bytes_read"] > 0
    reader.close()


def test_the_cache_drops_the_longest_unused_units_first_and_keeps_its_bound(numbers):
    dataset = numbers(unit=4)
    sizes = []
    for r in (0, 4, 8):
        reader = BlockReader([dataset], dataset.schema)
        reader.read(pointers([(0, 0, r)]))
        sizes.append(reader.nbytes)
        reader.close()
    limit = max(sizes) * 2 + min(sizes) // 2
    reader = BlockReader([dataset], dataset.schema, cache_bytes=limit)
    for r in (0, 4, 0, 8, 0):
        reader.read(pointers([(0, 0, r)]))
        assert reader.nbytes <= limit
    assert reader.stats()["units_decoded"] == 3
    reader.read(pointers([(0, 0, 4)]))
    assert reader.stats()["units_decoded"] == 4
    reader.close()


def test_a_unit_larger_than_the_cache_is_read_by_rows_and_not_kept(numbers):
    dataset = numbers(unit=12)
    reader = BlockReader([dataset], dataset.schema, cache_bytes=100)
    for _ in range(3):
        block = reader.read(pointers([(0, 0, 5), (0, 0, 2)]))
        assert [row["x"] for row in block.to_pylist()] == [5, 2]
        assert reader.nbytes == 0
    assert reader.stats()["units_decoded"] == 0
    reader.close()


def test_a_large_unit_broken_behind_the_rows_asked_for_is_bad_as_it_would_be_if_it_were_kept(write):
    rows = [*({"x": i} for i in range(9)), "!torn"]
    dataset = Dataset.from_path("web", write({"a.rows": rows}), format_options={"unit": 10})
    for cache_bytes in (0, 1 << 20):
        reader = BlockReader([dataset], dataset.schema, cache_bytes=cache_bytes)
        with pytest.raises(BadRowsError) as excinfo:
            reader.read(pointers([(0, 0, 0)]))
        assert excinfo.value.code == "torn"
        reader.close()


def test_bad_rows_of_a_large_unit_are_named_as_they_are_of_a_kept_one(write):
    rows = [{"x": 0}, "?bad", *({"x": i} for i in range(2, 9)), "?last"]
    dataset = Dataset.from_path("web", write({"a.rows": rows}), format_options={"unit": 10})
    for cache_bytes in (0, 1 << 20):
        reader = BlockReader([dataset], dataset.schema, cache_bytes=cache_bytes)
        assert bad_rows_of(reader, [(0, 0, r) for r in (0, 1, 8, 9)]) == [1, 3]
        assert reader.read(pointers([(0, 0, r) for r in (0, 8)])).to_pylist() == [{"x": 0}, {"x": 8}]
        reader.close()


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_a_shard_of_units_that_cannot_be_opened_is_bad_as_a_whole(write, doubles, monkeypatch, cache_bytes):
    dataset = Dataset.from_path("web", write({"a.rows": [{"x": i} for i in range(6)]}), format_options={"unit": 3})

    def fail(*_):
        raise ShardError("no footer", code="torn")

    monkeypatch.setattr(doubles.RowsFormat, "open", fail)
    reader = BlockReader([dataset], dataset.schema, cache_bytes=cache_bytes)
    for _ in range(2):
        assert bad_rows_of(reader, [(0, 0, r) for r in range(6)]) == list(range(6))
    reader.close()


def test_a_large_unit_that_breaks_later_stays_broken(write, doubles, monkeypatch):
    dataset = Dataset.from_path("web", write({"a.rows": [{"x": i} for i in range(6)]}), format_options={"unit": 6})
    reader = BlockReader([dataset], dataset.schema, cache_bytes=0)
    assert reader.read(pointers([(0, 0, 2)])).to_pylist() == [{"x": 2}]
    with monkeypatch.context() as patch:

        def fail(*_):
            raise ShardError("checksum", code="torn")

        patch.setattr(doubles._RowsReader, "read", fail)
        assert bad_rows_of(reader, [(0, 0, 2)]) == [0]
    assert bad_rows_of(reader, [(0, 0, 2)]) == [0]
    reader.close()


def test_a_unit_that_proves_too_large_is_delivered_and_read_by_rows_from_then_on(write):
    dataset = Dataset.from_path("web", write({"a.rows": [{"x": 0}] * 100}), format_options={"unit": 100})
    reader = BlockReader([dataset], dataset.schema, cache_bytes=700)
    reader._decoded[0] = (1, 1)  # what was read before took one byte a row; these take eight
    first = reader.read(pointers([(0, 0, r) for r in range(100)]))
    assert first.num_rows == 100
    assert reader.nbytes == 0
    assert reader.stats()["units_decoded"] == 1
    assert reader.read(pointers([(0, 0, 5)])).num_rows == 1
    assert reader.stats()["units_decoded"] == 1
    reader.close()


def test_a_block_past_the_largest_column_is_an_error_that_says_so(write, monkeypatch):
    dataset = Dataset.from_path("web", write({"a.rows": [{"t": "x" * 100}], "b.rows": [{"t": "x" * 100}]}))
    reader = BlockReader([dataset], dataset.schema)
    monkeypatch.setattr("zephon.block.columns.MAX_COLUMN_BYTES", 150)
    with pytest.raises(EngineError) as excinfo:
        reader.read(pointers([(0, 0, 0), (0, 1, 0)]))
    assert excinfo.value.code == "block-too-large"
    reader.close()


def test_storage_trouble_while_decoding_a_unit_reaches_every_thread_and_is_tried_again_later(numbers, monkeypatch):
    dataset = numbers(unit=12)
    reader = BlockReader([dataset], dataset.schema)
    begun, go = threading.Event(), threading.Event()

    def fail(*_):
        begun.set()
        go.wait(10)
        raise StorageError("down", code="storage-unavailable")

    with monkeypatch.context() as patch, ThreadPoolExecutor(3) as pool:
        patch.setattr(reader, "_decode_unit", fail)
        first = pool.submit(reader.read, pointers([(0, 0, 0)]))
        assert begun.wait(10)
        others = [pool.submit(reader.read, pointers([(0, 0, r)])) for r in (1, 2)]
        while reader.stats()["cache_hits"] < 2:
            pass
        go.set()
        assert {f.exception().code for f in (first, *others)} == {"storage-unavailable"}
    assert reader.read(pointers([(0, 0, 0)])).num_rows == 1
    reader.close()


def test_one_shard_read_by_many_threads_opens_few_readers_and_waits_for_them(write, doubles, monkeypatch):
    dataset = Dataset.from_path("web", write({"a.rows": [{"x": i} for i in range(64)]}))
    reader = BlockReader([dataset], dataset.schema)
    original = doubles._RowsReader.read

    def slowly(self, rows, columns):
        threading.Event().wait(0.005)
        return original(self, rows, columns)

    monkeypatch.setattr(doubles._RowsReader, "read", slowly)
    with ThreadPoolExecutor(16) as pool:
        blocks = list(pool.map(lambda r: reader.read(pointers([(0, 0, r)])), range(64)))
    assert [b.to_pylist() for b in blocks] == [[{"x": i}] for i in range(64)]
    assert len(doubles.COUNTS["opened"]) <= 4
    reader.close()


def test_a_reader_that_was_in_use_when_the_pool_closed_is_closed_when_it_comes_back(numbers, doubles, monkeypatch):
    dataset = numbers()
    reader = BlockReader([dataset], dataset.schema)
    original = doubles._RowsReader.read
    monkeypatch.setattr(doubles._RowsReader, "read", lambda self, r, c: (reader.close(), original(self, r, c))[1])
    assert reader.read(pointers([(0, 0, 0)])).num_rows == 1
    assert doubles.COUNTS["open"] == 0


def test_facts_of_many_shards_are_forgotten_and_found_again(write, monkeypatch):
    monkeypatch.setattr("zephon.io.reader._KNOWN_SHARDS", 3)
    dataset = Dataset.from_path("web", write({f"{i}.rows": [{"x": i}] for i in range(8)}))
    reader = BlockReader([dataset], dataset.schema)
    for _ in range(2):
        assert [row["x"] for row in reader.read(pointers([(0, i, 0) for i in range(8)])).to_pylist()] == list(range(8))
    reader.close()


def test_only_the_columns_wanted_are_decoded(numbers, doubles, monkeypatch):
    asked = []
    original = doubles._RowsReader.read
    monkeypatch.setattr(doubles._RowsReader, "read", lambda self, r, c: (asked.append(c), original(self, r, c))[1])
    dataset = numbers(unit=6)
    reader = BlockReader([dataset], pa.schema([dataset.schema.field("x")]))
    assert reader.read(pointers([(0, 0, 1)])).to_pylist() == [{"x": 1}]
    assert asked == [("x",)]
    reader.close()


def test_nothing_is_read_where_no_column_is_wanted(numbers, doubles):
    dataset = numbers()
    for schema in (pa.schema([]), pa.schema([("elsewhere", pa.string())])):
        reader = BlockReader([dataset], schema)
        block = reader.read(pointers([(0, 1, 1), (0, 0, 3)]))
        assert block.num_rows == 2
        assert block.schema == schema
        reader.close()
    assert doubles.COUNTS["opened"] == []


def test_columns_a_dataset_does_not_offer_stay_null_though_its_files_have_them(write):
    root = write({"a.rows": [{"x": 1, "y": 2}]})
    narrow, wide = Dataset.from_path("a", root, columns=["x"]), Dataset.from_path("b", root)
    reader = BlockReader([narrow, wide], union([narrow, wide]))
    assert reader.read(pointers([(0, 0, 0), (1, 0, 0)])).to_pylist() == [{"x": 1, "y": None}, {"x": 1, "y": 2}]
    reader.close()


def test_no_pointers_give_no_rows(numbers):
    dataset = numbers()
    reader = BlockReader([dataset], dataset.schema)
    assert reader.read(Origins.empty()).schema == dataset.schema
    reader.close()


def test_many_threads_read_the_same_units_without_decoding_twice_or_blocking_each_other(write, doubles):
    files = {f"{i:02d}.rows": [{"x": 100 * i + j} for j in range(40)] for i in range(8)}
    dataset = Dataset.from_path("web", write(files), format_options={"unit": 10})
    reader = BlockReader([dataset], dataset.schema, open_shards=3)
    rng = np.random.default_rng(1)
    blocks = [[(0, int(s), int(r)) for s, r in rng.integers(0, (8, 40), (30, 2))] for _ in range(60)]
    start = threading.Barrier(8)

    def work(k):
        start.wait()
        for some in blocks[k::8] + blocks[:4]:
            assert [row["x"] for row in reader.read(pointers(some)).to_pylist()] == [100 * s + r for _, s, r in some]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert reader.stats()["units_decoded"] == 32
    assert doubles.COUNTS["open"] <= 3
    reader.close()
    assert doubles.COUNTS["open"] == 0


def test_readers_kept_open_are_bounded_over_all_shards(write, doubles):
    files = {f"{i:03d}.rows": [{"x": i}] for i in range(50)}
    dataset = Dataset.from_path("web", write(files))
    reader = BlockReader([dataset], dataset.schema, open_shards=5)
    for i in [*range(50), *range(49, 44, -1)]:
        reader.read(pointers([(0, i, 0)]))
        assert doubles.COUNTS["open"] <= 5
    assert len(doubles.COUNTS["opened"]) == 50
    reader.close()


def test_a_closed_reader_raises_and_closing_twice_is_fine(numbers):
    dataset = numbers()
    reader = BlockReader([dataset], dataset.schema)
    reader.close()
    reader.close()
    with pytest.raises(EngineError) as excinfo:
        read_all(reader, dataset)
    assert excinfo.value.code == "reader-closed"


def test_memory_stays_flat_over_many_shards(write):
    files = {f"{i:03d}.rows": [{"t": f"{i}" * 2000}] * 20 for i in range(100)}
    dataset = Dataset.from_path("web", write(files), format_options={"unit": 20})
    reader = BlockReader([dataset], dataset.schema, cache_bytes=1 << 20)
    held = []
    for i in range(100):
        reader.read(pointers([(0, i, r) for r in range(20)]))
        if i in (30, 99):
            gc.collect()
            held.append(pa.total_allocated_bytes())
    assert held[1] <= held[0] + (1 << 18)
    reader.close()


def test_first_rows_come_by_row_number_over_shards_in_order_and_say_where_from(numbers):
    dataset = numbers(unit=5)
    data, origins = first_rows(dataset, 14)
    assert [row["x"] for row in data.to_pylist()] == list(range(14))
    assert origins.shard.tolist() == [0] * 12 + [1] * 2
    assert origins.row.tolist() == [*range(12), 0, 1]
    assert not origins.dataset.any()
    assert first_rows(dataset, 0)[0].num_rows == 0
    assert first_rows(dataset, 99)[0].num_rows == 20
    assert dataset.head(1) == [{"x": 0, "t": "text 0" * 20}]


def test_first_rows_pass_over_what_cannot_be_read(write):
    root = write({"a.rows": [{"x": 0}, "?bad", {"x": 2}], "b.rows": ["!torn", {"x": 4}], "c.rows": [{"x": 5}]})
    data, origins = first_rows(Dataset.from_path("web", root), 6)
    assert [row["x"] for row in data.to_pylist()] == [0, 2, 5]
    assert origins.shard.tolist() == [0, 0, 2]


def test_a_dataset_of_which_no_row_can_be_read_says_why(write):
    with pytest.raises(ShardError) as excinfo:
        Dataset.from_path("web", write({"a.rows": ["!torn"]}), format_options={"unit": 1}).head()
    assert excinfo.value.code == "torn"
