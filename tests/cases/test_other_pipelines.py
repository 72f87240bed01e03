"""A checkpoint of another pipeline is refused, naming all that differs. Where data lies is no difference."""

import os
import shutil

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from zephon import Pipeline
from zephon.errors import CheckpointError, ConfigError
from zephon.io import Dataset
from zephon_field_cases import keys, sharded, source, take

TEXTS = pa.table({"n": range(96), "text": [f"row {i} of many" for i in range(96)]})


def label(row):
    return {"n": int(row["n"]), "text": row["text"] + "!"}


def relabel(row):
    return {"n": int(row["n"]), "text": row["text"] + "?"}


def web(table=TEXTS, shards=(40, 30, 26)):
    return sharded("web", table, shards)


def code(rows=50):
    return sharded("code", TEXTS.slice(0, rows), 2)


def make(
    *,
    datasets=None,
    mixture=None,
    work=None,
    function=label,
    version=None,
    buffer=5,
    twice=False,
    microbatch=2,
    lanes=4,
    shuffled=True,
):
    chosen = datasets or (web(), code())
    curriculum = {"seed": 3, "exhausted_policy": "repeat", "chunk_size": 6, **(work or {})}
    pipeline = Pipeline(source(*chosen, mixture=mixture or {d.name: 1 for d in chosen}, **curriculum))
    pipeline.map_transform(function, schema={"n": "int64", "text": "string"}, version=version)
    if shuffled:
        pipeline.shuffle(buffer)
    if twice:
        pipeline.shuffle(3)
    return pipeline.batch(microbatch).options(canonical_replicas=lanes, parallelism=0, block_rows=4)


@pytest.fixture(scope="module")
def written():
    """A state, and what comes after it."""
    pipeline = make()
    batches = iter(pipeline)
    take(batches, 21)
    state = pipeline.checkpoint()
    return state, [keys(batch) for batch in take(batches, 12)]


def changed_text(row, text):
    texts = TEXTS.column("text").to_pylist()
    texts[row] = text
    return TEXTS.set_column(1, "text", pa.array(texts))


#: What is changed, and what the error has to name: the setting or object, and old and new.
CHANGES = {
    "operator option": ({"buffer": 6}, ["buffer_size: 5 -> 6"]),
    "microbatch size": ({"microbatch": 3}, ["microbatch_size: 2 -> 3"]),
    "operator gone": ({"shuffled": False}, ['"shuffle" -> "batch"', "(absent)"]),
    "operator added": ({"twice": True}, ['"batch" -> "shuffle"', "(absent)"]),
    "another function": ({"function": relabel}, ["label", "relabel"]),
    "version of a function": ({"version": "2"}, ['version: null -> "2"']),
    "lanes": ({"lanes": 8}, ["canonical_replicas: 4 -> 8"]),
    "seed": ({"work": {"seed": 4}}, ["seed: 3 -> 4"]),
    "chunk": ({"work": {"chunk_size": 7}}, ["chunk_size: 6 -> 7"]),
    "order": ({"work": {"shuffle_within_shard": True}}, ["shuffle_within_shard: False -> True"]),
    "window": ({"work": {"shuffle_block_size": 9}}, ["shuffle_block_size: None -> 9"]),
    "weights": ({"mixture": {"web": 2, "code": 1}}, ["{'code': 1, 'web': 1} -> {'code': 1, 'web': 2}"]),
    "rows of a dataset": (
        {"datasets": (web(), code(49))},
        ["dataset 'code'", "shard 'shard-001'", "25 -> ", "50 -> 49"],
    ),
    "shards of a dataset": (
        {"datasets": (web(shards=(40, 30, 20, 6)), code())},
        ["dataset 'web'", "'shard-002'", "26 -> 20 rows", "'shard-003' is new", "shards: 3 -> 4"],
    ),
    "a value in a dataset": (
        {"datasets": (web(changed_text(50, "row 50 is odd.")), code())},
        ["dataset 'web'", "shard 'shard-001'"],
    ),
    "a field of a dataset": (
        {"datasets": (web(TEXTS.append_column("x", pa.array([0] * 96))), code())},
        ["dataset 'web'", "field 'x' (int64) is new"],
    ),
    "a type in a dataset": (
        {"datasets": (web(TEXTS.set_column(0, "n", TEXTS["n"].cast(pa.float64()))), code())},
        ["dataset 'web'", "field 'n': int64 -> double"],
    ),
    "a dataset gone": ({"datasets": (web(),)}, ["'code' is no longer there"]),
    "a dataset renamed": (
        {"datasets": (web(), sharded("text", TEXTS, 2)), "mixture": {"web": 1, "text": 1}},
        ["'code' is no longer there"],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_checkpoint_of_another_pipeline_is_refused_naming_old_and_new(written, change):
    arguments, named = CHANGES[change]
    state, _ = written
    try:
        other = make(**arguments)
        with pytest.raises(CheckpointError) as caught:
            other.restore(state)
    except ConfigError as error:  # the change makes no pipeline at all
        pytest.fail(str(error))
    assert caught.value.code == "checkpoint-differs"
    missing = [text for text in named if text not in caught.value.found]
    assert not missing, caught.value.found
    assert [keys(b) for b in take(iter(other), 5)] == [keys(b) for b in take(iter(make(**arguments)), 5)]


def test_all_differences_are_named_at_once(written):
    state, _ = written
    other = make(buffer=6, version="2", work={"seed": 4}, datasets=(web(shards=(39, 31, 26)), code()))
    with pytest.raises(CheckpointError) as caught:
        other.restore(state)
    for named in ("buffer_size: 5 -> 6", 'version: null -> "2"', "seed: 3 -> 4", "'shard-000'", "'shard-001'"):
        assert named in caught.value.found, caught.value.found


def test_the_same_pipeline_made_anew_goes_on(written):
    state, rest = written
    # datasets in another order, weights on another scale, parts written out that are defaults
    same = make(datasets=(code(), web()), mixture={"code": 0.5, "web": 0.5}, work={"shuffle_shards": True})
    assert [keys(batch) for batch in take(iter(same.restore(state)), 12)] == rest


def test_a_restored_pipeline_cannot_be_changed_any_more(written):
    state, _ = written
    pipeline = make().restore(state)
    for change in (lambda: pipeline.shuffle(3), lambda: pipeline.options(parallelism=2)):
        with pytest.raises(ConfigError) as caught:
            change()
        assert caught.value.code == "changed-after-restore"


# -- tokenizers -------------------------------------------------------------------------------------------------------


def tokenizer_file(path, words):
    vocabulary = {word: number for number, word in enumerate(["[UNK]", "<s>", "</s>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    path.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    return path / "tokenizer.json"


def tokenized(path):
    work = source(web(), seed=1, exhausted_policy="repeat")
    return (
        Pipeline(work)
        .tokenize(tokenizer_id=str(path), field="text", special_tokens="none")
        .pack_flat(7)
        .batch(2)
        .options(parallelism=0, block_rows=8)
    )


def test_another_content_of_a_tokenizer_under_the_same_name_is_refused(tmp_path):
    path = tokenizer_file(tmp_path, ["row", "of", "many"])
    pipeline = tokenized(path)
    take(iter(pipeline), 5)
    state = pipeline.checkpoint()
    tokenizer_file(tmp_path, ["row", "many", "of"])
    with pytest.raises(CheckpointError) as caught:
        tokenized(path).restore(state)
    assert caught.value.code == "checkpoint-differs"
    assert "operators[0].content.tokenizer: " in caught.value.found and " -> " in caught.value.found


def test_a_tokenizer_that_has_moved_is_no_difference(tmp_path):
    path = tokenizer_file(tmp_path / "here", ["row", "of", "many"])
    pipeline = tokenized(path)
    batches = iter(pipeline)
    take(batches, 5)
    (tmp_path / "there").mkdir()
    moved = shutil.move(path, tmp_path / "there" / "tokenizer.json")
    again = tokenized(moved).restore(pipeline.checkpoint())
    assert [b.to_pylist() for b in take(iter(again), 5)] == [b.to_pylist() for b in take(batches, 5)]


# -- moved data -------------------------------------------------------------------------------------------------------


def write_jsonl(folder, shards):
    folder.mkdir(parents=True)
    for name, table in shards.items():
        lines = "".join(
            f'{{"n": {n}, "text": "{text}"}}\n' for n, text in zip(*table.to_pydict().values(), strict=True)
        )
        (folder / f"{name}.jsonl").write_text(lines)


def write_parquet(folder, shards):
    folder.mkdir(parents=True)
    for name, table in shards.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=10)


SHARDS = {"a": TEXTS.slice(0, 40), "b": TEXTS.slice(40, 35), "c": TEXTS.slice(75)}
WRITERS = {"jsonl": write_jsonl, "parquet": write_parquet}


def from_files(path, **reached):
    dataset = Dataset.from_path("web", path, **reached)
    work = source(dataset, seed=5, shuffle_within_shard=True, exhausted_policy="repeat")
    return Pipeline(work).shuffle(6).batch(3).options(canonical_replicas=2, parallelism=0, block_rows=8)


@pytest.mark.parametrize("fmt", WRITERS)
def test_moved_data_resumes_wherever_it_lies_now(fmt, tmp_path):
    WRITERS[fmt](tmp_path / "old" / "data", SHARDS)
    with from_files(tmp_path / "old" / "data") as pipeline:
        batches = iter(pipeline)
        take(batches, 10)
        state = pipeline.checkpoint()
        rest = [batch.to_pylist() for batch in take(batches, 20)]
    shutil.copytree(tmp_path / "old" / "data", tmp_path / "copied")
    shutil.move(tmp_path / "old" / "data", tmp_path / "moved")
    shutil.rmtree(tmp_path / "copied" / ".zephon")  # the index does not have to come along
    for shard in (tmp_path / "moved").iterdir():
        os.utime(shard, (1, 1))
    for place in (tmp_path / "copied", tmp_path / "moved", f"{tmp_path}/moved/*.{fmt}"):
        with from_files(place) as again:
            assert [batch.to_pylist() for batch in take(iter(again.restore(state)), 20)] == rest


@pytest.mark.parametrize("fmt", WRITERS)
def test_shards_that_changed_since_the_checkpoint_are_listed(fmt, tmp_path):
    WRITERS[fmt](tmp_path / "before", SHARDS)
    WRITERS[fmt](tmp_path / "after", {"a": TEXTS.slice(0, 39), "b": SHARDS["b"], "d": SHARDS["c"]})
    with from_files(tmp_path / "before") as pipeline:
        take(iter(pipeline), 4)
        state = pipeline.checkpoint()
    with from_files(tmp_path / "after") as other:
        with pytest.raises(CheckpointError) as caught:
            other.restore(state)
        assert caught.value.code == "checkpoint-differs"
        for named in (f"shard 'a.{fmt}': 40 -> 39 rows", f"'c.{fmt}' is gone", f"'d.{fmt}' is new", "rows: 96 -> 95"):
            assert named in caught.value.found, caught.value.found
        assert f"'b.{fmt}'" not in caught.value.found
        assert len(take(iter(other), 4)) == 4


def test_where_data_lies_and_how_it_is_reached_is_in_no_checkpoint(tmp_path):
    write_jsonl(tmp_path / "hidden", SHARDS)
    files = fsspec.filesystem("memory")
    files.put(f"{tmp_path}/hidden/", "/hidden-place", recursive=True)
    url, options = "memory://hidden-place", {"token": "s3cret"}
    with from_files(tmp_path / "hidden") as local, from_files(url, storage_options=options) as remote:
        batches = iter(local)
        take(batches, 7)
        states = [local.checkpoint(), remote.restore(local.checkpoint()).checkpoint()]
        here, there = take(batches, 9), take(iter(remote), 9)
        assert [batch.to_pylist() for batch in there] == [batch.to_pylist() for batch in here]
        states.append(remote.checkpoint())
    files.rm("/hidden-place", recursive=True)
    for state in states:
        for data in (state["header"], *state["lanes"].values()):
            assert b"hidden" not in data and b"s3cret" not in data and b"memory:" not in data


def test_a_checkpoint_from_before_the_first_batch_allows_no_other_pipeline_either():
    state = make().checkpoint()
    other = make(buffer=6)
    with pytest.raises(CheckpointError) as caught:
        other.restore(state)
    assert caught.value.code == "checkpoint-differs"
    assert len(take(iter(make().restore(state)), 4)) == 4
