"""Shards that are truncated, corrupt or changed: named as they are met, and nothing of them is ever half delivered.

What a format notices, bit by bit, is tested in the plugins (test_parquet_damage, test_jsonl_storage); here the errors
and the drops of whole runs.
"""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from zephon import Pipeline
from zephon.errors import DataError, ShardError, StorageError
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_fault_files import (
    VARIANTS,
    Stretch,
    entries,
    fails_with,
    flip_page,
    inline,
    jsonl,
    lines,
    numbers,
    parquet,
    run,
    work,
)


def cut(data):
    return data[:-20]


def spoil(data):
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0xFF for byte in data[middle : middle + 8]) + data[middle + 8 :]


#: As command line tools write it, with a checksum of the content.
ZSTD = zstandard.ZstdCompressor(write_checksum=True)


def tree(folder, kind):
    """Three sound shards of ten rows each; the name of the second, and where its damage begins to show."""
    for i in range(3):
        start = 10 * i
        if kind == "parquet":
            parquet(folder / f"part-{i}.parquet", 10, 5, start=start)
        else:
            compress = gzip.compress if kind == "gz" else ZSTD.compress
            folder.mkdir(exist_ok=True)
            (folder / f"part-{i}.jsonl.{kind}").write_bytes(compress(lines(range(start, start + 10))))
    return next(folder.glob("part-1.*"))


@pytest.mark.parametrize(
    ("kind", "damage", "code"),
    [
        ("parquet", cut, "shard-corrupt"),
        ("parquet", lambda data: b"", "shard-corrupt"),
        ("parquet", lambda data: b"this is no Parquet file at all", "shard-corrupt"),
        ("gz", cut, "shard-truncated"),
        ("gz", spoil, "shard-corrupt"),
        ("zst", cut, "shard-truncated"),
        ("zst", spoil, "shard-corrupt"),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_shard_whose_rows_cannot_be_counted_is_an_error_of_planning(tmp_path, kind, damage, code, on_error):
    # Not even under "skip" could all ranks agree on what such a shard would have held.
    path = tree(tmp_path / "data", kind)
    path.write_bytes(damage(path.read_bytes()))
    pipeline = Pipeline(work(web=tmp_path / "data")).batch(2).options(on_error=on_error, canonical_replicas=1)
    for use in (pipeline.validate, lambda: next(iter(pipeline)), pipeline.checkpoint):
        with fails_with(code, ShardError) as found:
            use()
        assert path.name in str(found[0])
        assert "'web'" in str(found[0])
    # Nothing of it was remembered: the sound file is read as if nothing had been.
    path.unlink()
    path = tree(tmp_path / "data", kind)
    assert numbers(inline(Pipeline(work(web=tmp_path / "data")).batch(2))) == list(range(30))


def test_all_damaged_shards_are_named_at_once(tmp_path):
    for name in ("web", "code"):
        for i in range(4):
            parquet(tmp_path / name / f"{name}-{i}.parquet", 4, 4)
    for broken in ("web-1", "web-3"):
        path = tmp_path / "web" / f"{broken}.parquet"
        path.write_bytes(cut(path.read_bytes()))
    with fails_with("shard-corrupt", ShardError) as found:
        Pipeline(work(web=tmp_path / "web", code=tmp_path / "code")).batch(2).validate()
    text = str(found[0])
    assert [name for i in range(4) for name in (f"web-{i}", f"code-{i}") if name in text] == ["web-1", "web-3"]


@pytest.fixture
def flipped(tmp_path):
    """Rows 0..29 in row groups of five; a page of the second group of the second file is damaged: rows 15 to 19."""
    path = tree(tmp_path / "data", "parquet")
    flip_page(path, 1, 1)
    return Dataset.from_path("web", tmp_path / "data")


def test_a_flipped_byte_in_a_page_names_shard_row_group_field_and_byte(flipped):
    with fails_with("shard-corrupt", DataError) as found:
        numbers(inline(Pipeline(work(web=flipped)).batch(2)))
    assert "of shard 'part-1.parquet' of dataset 'web'" in found[0].what
    assert "row group 1" in found[0].found
    assert "'text'" in found[0].found
    assert "byte" in found[0].found
    assert isinstance(found[0].__cause__, ShardError)


def test_the_rows_of_a_damaged_page_are_dropped_all_and_alone_and_the_same_everywhere(tmp_path, flipped):
    def make():
        return Pipeline(work(web=flipped)).shuffle(5).batch(2).options(canonical_replicas=4)

    assert numbers(inline(make(), 4, on_error="skip")) == [n for n in range(30) if not 15 <= n < 20]
    plain = run(make, on_error="skip")
    assert plain.skipped == {"web": 5}
    quarantine = {"action": "quarantine", "path": str(tmp_path / "aside")}
    for name, chain in VARIANTS.items():
        assert run(make, chain, on_error=quarantine) == plain, name
    told = entries(tmp_path / "aside")
    assert sorted((e["shard"], e["row"]) for e in told) == [("part-1.parquet", n) for n in range(5, 10)]
    assert all("row group 1" in e["reason"] for e in told)


@pytest.mark.parametrize("block_rows", [None, 150])
def test_a_damaged_page_in_a_row_group_too_large_to_keep_drops_the_same_rows(tmp_path, block_rows):
    rows = 2000
    table = pa.table({"n": range(rows), "text": [f"row {n} " * 20 for n in range(rows)]})
    path = tmp_path / "a.parquet"
    pages = {"use_dictionary": False, "write_statistics": False, "data_page_size": 4096, "write_batch_size": 64}
    pq.write_table(table, path, row_group_size=1000, compression="zstd", write_page_checksum=True, **pages)
    flip_page(path, 1, 1)
    dataset = Dataset.from_path("web", tmp_path)

    def make():
        return Pipeline(work(web=dataset)).batch(50).options(canonical_replicas=2)

    on_error = {"action": "skip", "budget": rows}
    kept = run(make, on_error=on_error)
    assert kept.skipped == {"web": 1000}
    assert run(make, (Stretch(block_rows=block_rows),), on_error=on_error, memory_limit=200_000) == kept


def test_damage_in_a_field_nobody_reads_is_no_damage(tmp_path, flipped):
    def only_n(row):
        return {"n": row["n"]}

    def make(source):
        return Pipeline(source).map_transform(only_n, reads=["n"]).batch(2)

    assert numbers(inline(make(work(web=flipped)))) == list(range(30))
    chosen = Dataset.from_path("web", tmp_path / "data", columns=["n"])
    assert numbers(inline(Pipeline(work(web=chosen)).batch(2))) == list(range(30))


def test_a_text_file_cut_in_mid_line_has_one_bad_row(tmp_path):
    root = jsonl(tmp_path, [10, 10])
    path = root / "part-0.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    with fails_with("bad-row", DataError):
        numbers(inline(Pipeline(work(web=root)).batch(2)))
    pipeline = inline(Pipeline(work(web=root)).batch(2), on_error="skip")
    assert numbers(pipeline) == [n for n in range(20) if n != 9]
    assert pipeline.stats()["skipped"] == {"web": 1}


# -- changed since ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("jsonl", lambda path: path.write_bytes(path.read_bytes()[:-5])),
        ("jsonl", lambda path: path.write_bytes(path.read_bytes() + b'{"n": 10}\n')),
        ("jsonl", lambda path: path.write_bytes(b"x" * path.stat().st_size)),
        ("parquet", lambda path: path.write_bytes(cut(path.read_bytes()))),
        ("parquet", lambda path: parquet(path, 12, 5)),
    ],
)
def test_a_shard_that_changes_after_planning_is_an_error_never_other_rows(tmp_path, kind, change):
    path = jsonl(tmp_path, [10]) / "part-0.jsonl" if kind == "jsonl" else parquet(tmp_path / "a.parquet", 10, 5)
    pipeline = inline(Pipeline(work(web=tmp_path)).batch(2)).validate()
    change(path)
    with fails_with("shard-changed", DataError) as found:
        numbers(pipeline)
    assert path.name in found[0].what
    assert 'on_error="skip"' in found[0].fix


def test_a_shard_that_is_gone_is_an_error_under_every_policy(tmp_path):
    for on_error in ("raise", "skip"):
        jsonl(tmp_path, [10, 10])
        pipeline = inline(Pipeline(work(web=tmp_path)).batch(2), on_error=on_error).validate()
        (tmp_path / "part-1.jsonl").unlink()
        with fails_with("shard-missing", StorageError) as found:
            numbers(pipeline)
        assert "'part-1.jsonl'" in found[0].what


def state_of(folder, kind):
    """A checkpoint in the middle of a run over shards in a folder."""
    for i in range(4):
        if kind == "jsonl":
            folder.mkdir(exist_ok=True)
            (folder / f"part-{i}.jsonl").write_bytes(lines(range(10 * i, 10 * i + 10)))
        else:
            parquet(folder / f"part-{i}.parquet", 10, 5, start=10 * i)
    pipeline = inline(Pipeline(work(web=folder)).batch(2))
    iterator = iter(pipeline)
    seen = [record.payload["n"] for _ in range(6) for record in next(iterator).records]
    state = pipeline.checkpoint()
    pipeline.close()
    return state, seen


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_shards_that_changed_since_the_checkpoint_are_listed_and_nothing_is_loaded(tmp_path, kind):
    root = tmp_path / "data"
    state, seen = state_of(root, kind)
    (root / f"part-0.{kind}").unlink()
    changed = root / f"part-1.{kind}"
    if kind == "jsonl":
        changed.write_bytes(lines(range(11)))
    else:
        parquet(changed, 11, 5)
    (root / f"part-9.{kind}").write_bytes((root / f"part-2.{kind}").read_bytes())
    pipeline = inline(Pipeline(work(web=root)).batch(2))
    with fails_with("checkpoint-differs") as found:
        pipeline.restore(state)
    text = str(found[0])
    assert [i for i in (0, 1, 2, 3, 9) if f"part-{i}.{kind}" in text] == [0, 1, 9]
    assert "10 -> 11 rows" in text
    # Nothing was loaded: the pipeline is a fresh one.
    assert sorted(numbers(pipeline)) == sorted([*range(11), *range(20, 40), *range(20, 30)])
    # And where the shards are put back, the run goes on.
    (root / f"part-9.{kind}").unlink()
    state_of(root, kind)
    resumed = inline(Pipeline(work(web=root)).batch(2)).restore(state)
    assert sorted(seen + numbers(resumed)) == list(range(40))


def test_data_that_was_moved_is_the_same_data(tmp_path):
    state, seen = state_of(tmp_path / "data", "parquet")
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    resumed = inline(Pipeline(work(web=tmp_path / "elsewhere")).batch(2)).restore(state)
    assert sorted(seen + numbers(resumed)) == list(range(40))


def test_a_field_of_another_type_since_the_checkpoint_is_named(tmp_path):
    state, _ = state_of(tmp_path / "data", "parquet")
    for i in range(4):
        path = tmp_path / "data" / f"part-{i}.parquet"
        table = pq.read_table(path)
        pq.write_table(table.set_column(0, "n", table.column("n").cast(pa.float64())), path, row_group_size=5)
    with fails_with("checkpoint-differs") as found:
        inline(Pipeline(work(web=tmp_path / "data")).batch(2)).restore(state)
    assert "field 'n': int64 -> double" in str(found[0])


def test_a_checkpoint_of_other_settings_names_each_old_and_new(tmp_path):
    state, _ = state_of(tmp_path / "data", "jsonl")
    dataset = Dataset.from_path("web", tmp_path / "data")
    source = StaticMixtureWorkSource(datasets=[dataset], mixture={"web": 1}, seed=6, exhausted_policy="redistribute")
    with fails_with("checkpoint-differs") as found:
        inline(Pipeline(source).batch(2)).restore(state)
    assert "seed: 5 -> 6" in str(found[0])
    with fails_with("checkpoint-differs") as found:
        inline(Pipeline(work(web=dataset)).shuffle(3).batch(4)).restore(state)
    assert "microbatch_size" in str(found[0]) or "operators" in str(found[0])
