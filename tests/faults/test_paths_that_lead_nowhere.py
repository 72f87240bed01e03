"""F3: a directory without a matching file, an empty split, a typo in a glob: an error, never an empty run."""

import json
from typing import ClassVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from zephon import Pipeline
from zephon.errors import ConfigError, ZephonError
from zephon.io import Dataset
from zephon_fault_files import fails_with, inline, jsonl, parquet, work


class ForbiddenFileSystem(MemoryFileSystem):
    """A store that lets nobody in."""

    protocol = "forbidden"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]

    def info(self, path, **kwargs):
        raise PermissionError(13, "denied", path)

    ls = find = cat_file = open = info


@pytest.fixture
def places(tmp_path):
    """The same tree on disk and in memory: where it begins."""
    jsonl(tmp_path / "good", [3, 2])
    parquet(tmp_path / "columns" / "a.parquet", 4, 2)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.md").write_text("no data")
    (tmp_path / "notes" / "LICENSE").write_text("none")
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    for path in sorted(tmp_path.rglob("*")):
        name = f"/tree/{path.relative_to(tmp_path).as_posix()}"
        if path.is_dir():
            memory.makedirs(name, exist_ok=True)
        else:
            memory.pipe_file(name, path.read_bytes())
    yield {"disk": str(tmp_path), "memory": "memory://tree"}
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


@pytest.mark.parametrize("where", ["disk", "memory"])
@pytest.mark.parametrize(
    ("path", "options", "code"),
    [
        ("nowhere", {}, "path-missing"),
        ("nowhere/part.jsonl", {}, "path-missing"),
        ("good/*.jsnol", {}, "path-missing"),
        ("goood/*.jsonl", {}, "path-missing"),
        ("good/part-{0..2}.jsonl", {}, "path-missing"),
        (["good/part-0.jsonl", "good/part-7.jsonl"], {}, "path-missing"),
        ("empty", {}, "path-empty"),
        ("notes", {}, "format-unknown"),
        ("notes", {"fmt": "jsonl"}, "no-shard"),
        ("notes", {"fmt": "parquet"}, "no-shard"),
        ("good", {"fmt": "parquet"}, "no-shard"),
        (["good", "columns"], {}, "format-ambiguous"),
    ],
)
def test_a_path_that_leads_to_no_shard_is_an_error_when_the_dataset_is_made(places, where, path, options, code):
    root = places[where]
    given = [f"{root}/{p}" for p in path] if isinstance(path, list) else f"{root}/{path}"
    with fails_with(code, ConfigError) as found:
        Dataset.from_path("web", given, **options)
    named = (
        path[-1] if code == "path-missing" and isinstance(path, list) else path[0] if isinstance(path, list) else path
    )
    assert named.split("/")[0] in str(found[0])


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_the_same_tree_without_the_typo_runs(places, where):
    source = work(web=f"{places[where]}/good/*.jsonl", code=f"{places[where]}/columns")
    batches = list(inline(Pipeline(source).filter(bool).batch(3), lanes=1))
    assert sum(len(b) for b in batches) >= 9


def test_what_may_not_be_read_is_an_error_that_names_the_path_and_is_not_missing():
    fsspec.register_implementation("forbidden", ForbiddenFileSystem, clobber=True)
    for path in ("forbidden://bucket/data", "forbidden://bucket/*.jsonl", "forbidden://bucket/a.parquet"):
        with fails_with("path-unreadable", ConfigError) as found:
            Dataset.from_path("web", path)
        assert "bucket" in str(found[0])


def empty_parquet(path):
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.jsonl", lambda path: path.write_bytes(b"")),
        ("a.jsonl", lambda path: path.write_bytes(b"\n \n\r\n")),
        ("a.parquet", empty_parquet),
    ],
)
def test_an_empty_split_is_an_error_of_every_use_and_never_an_empty_run(tmp_path, name, write):
    write(tmp_path / name)
    dataset = Dataset.from_path("empty", tmp_path)
    jsonl(tmp_path.parent / "full", [4])
    source = work(empty=dataset, full=tmp_path.parent / "full")
    for use in (
        dataset.total,
        lambda: Pipeline(work(empty=dataset)).batch(2).validate(),
        lambda: list(inline(Pipeline(source).batch(2))),
        lambda: len(Pipeline(source).batch(2)),
        lambda: Pipeline(source).batch(2).explain(),
    ):
        with fails_with("dataset-empty", ZephonError) as found:
            use()
        assert "'empty'" in str(found[0])


def test_an_empty_shard_among_others_takes_nothing_away(tmp_path):
    jsonl(tmp_path, [5, 0, 4, 0])
    empty_parquet(tmp_path / "b.parquet")
    pipeline = inline(Pipeline(work(web=str(tmp_path / "*.jsonl"))).batch(2), lanes=1)
    assert sorted(r.payload["n"] for b in pipeline if not b.is_filler for r in b.records) == list(range(9))


@pytest.mark.parametrize("name", ["part-0.jsonl", "part-0.ndjson", "part-0.json"])
def test_a_file_under_any_usual_name_is_found_alone_or_in_its_directory(tmp_path, name):
    (tmp_path / name).write_text("".join(json.dumps({"n": n}) + "\n" for n in range(2)))
    assert len(Dataset.from_path("web", tmp_path)) == len(Dataset.from_path("web", tmp_path / name)) == 2
