"""A field missing or of another type in one dataset is found when the pipeline is planned, and only if it is needed."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from zephon import Pipeline
from zephon.errors import PlanError
from zephon.io import Dataset
from zephon_fault_files import byte_tokenizer, fails_with, inline, jsonl, lines, numbers, parquet, payloads, work


def written(folder, *shards):
    """A directory of JSON Lines shards of these rows."""
    folder.mkdir()
    for i, rows in enumerate(shards):
        (folder / f"part-{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def web(tmp_path):
    """Rows with ``n`` and ``text``."""
    return Dataset.from_path("web", jsonl(tmp_path / "web", [6]))


@pytest.fixture
def code(tmp_path):
    """Rows with a ``body`` in place of the text."""
    return Dataset.from_path("code", written(tmp_path / "code", [{"n": n, "body": "x"} for n in range(6)]))


@pytest.fixture
def tokenizer(tmp_path):
    return byte_tokenizer(tmp_path / "tokenizer")


def anything(row):
    return row


READERS = {
    "tokenize": lambda p, tokenizer: p.tokenize(tokenizer_id=tokenizer, field="text", special_tokens="eos"),
    "decode_text": lambda p, tokenizer: p.decode_text(),
    "filter": lambda p, tokenizer: p.filter(pc.field("text") != ""),
    "map_transform": lambda p, tokenizer: p.map_transform(anything, reads=["text"]),
}


@pytest.mark.parametrize("operator", READERS)
def test_a_field_that_one_dataset_lacks_is_named_with_operator_and_datasets(web, code, tokenizer, operator):
    pipeline = READERS[operator](Pipeline(work(web=web, code=code)), tokenizer).batch(2)
    for use in (pipeline.validate, lambda: next(iter(pipeline.options(canonical_replicas=1))), pipeline.explain):
        with fails_with("field-missing", PlanError) as found:
            use()
        text = str(found[0])
        assert f"operator {operator!r} reads the field 'text'" in text
        assert "'code'" in text
        assert "'web'" not in text
        assert "body" in found[0].found  # the fields that exist


def test_a_field_that_no_dataset_has_comes_with_the_near_ones(web, code):
    with fails_with("field-missing", PlanError) as found:
        Pipeline(work(web=web, code=code)).map_transform(anything, reads=["txet"]).batch(2).validate()
    assert "'text'" in found[0].fix


def test_a_field_made_where_it_was_lacking_is_there_for_what_follows(web, code, tokenizer):
    def body_is_text(row):
        return {"text": row["text"] if row["text"] is not None else row["body"]}

    pipeline = Pipeline(work(web=web, code=code)).map_transform(body_is_text)
    pipeline.tokenize(tokenizer_id=tokenizer, field="text", special_tokens="none")
    found = payloads(inline(pipeline.batch(2)))
    assert len(found) == 12
    assert sum(len(row["input_ids"]) == 1 for row in found) == 6


def test_a_field_one_dataset_lacks_is_null_to_functions_and_absent_from_its_payloads(web, code):
    seen = []

    def look(row):
        seen.append(tuple(sorted(row)))
        return True

    rows = payloads(inline(Pipeline(work(web=web, code=code)).filter(look).batch(2)))
    assert set(seen) == {("body", "n", "text")}
    assert {tuple(sorted(row)) for row in rows} == {("n", "text"), ("body", "n")}


def other_type(kind):
    """Rows whose ``n`` is text."""
    return [{"n": kind(n), "text": f"t{n}"} for n in range(6)]


def test_types_that_do_not_unite_across_datasets_are_an_error_if_the_field_is_read_or_delivered(tmp_path, web):
    clash = Dataset.from_path("code", written(tmp_path / "code", other_type(str)))
    for make in (
        lambda p: p,
        lambda p: p.filter(pc.field("n") > 1),
        lambda p: p.map_transform(anything),
        lambda p: p.map_transform(anything, reads=["n"]),
    ):
        with fails_with("field-conflict", PlanError) as found:
            make(Pipeline(work(web=web, code=clash))).batch(2).validate()
        assert "'n'" in found[0].what
        assert found[0].found == "code: string, web: int64"


def test_types_that_do_not_unite_hurt_nobody_who_does_not_look(tmp_path, web, tokenizer):
    clash = Dataset.from_path("code", written(tmp_path / "code", other_type(str)))
    pipelines = [
        Pipeline(work(web=web, code=clash)).tokenize(tokenizer_id=tokenizer, field="text", special_tokens="eos"),
        Pipeline(work(web=web, code=clash)).map_transform(anything, reads=["text"]),
        Pipeline(work(web=web, code=Dataset.from_path("code", tmp_path / "code", columns=["text"]))),
    ]
    for pipeline in pipelines:
        assert len(payloads(inline(pipeline.batch(2)))) == 12


def test_types_that_do_not_unite_across_shards_name_the_dataset_and_the_shards(tmp_path, web):
    clash = Dataset.from_path("code", written(tmp_path / "code", other_type(int), other_type(str)))
    with fails_with("field-conflict", PlanError) as found:
        Pipeline(work(web=web, code=clash)).batch(2).validate()
    assert "'part-0.jsonl'" in found[0].found
    assert "'part-1.jsonl'" in found[0].found
    only_text = Pipeline(work(web=web, code=clash)).map_transform(anything, reads=["text"]).batch(2)
    assert len(payloads(inline(only_text))) == 18


def test_types_that_do_not_unite_within_one_shard_name_both_rows(tmp_path):
    rows = other_type(int)
    rows[4]["n"] = "four"
    clash = Dataset.from_path("web", written(tmp_path / "web", rows))
    for make in (lambda p: p, lambda p: p.map_transform(anything, reads=["n"])):
        with fails_with("field-conflict", PlanError) as found:
            make(Pipeline(work(web=clash))).batch(2).validate()
        assert "number in row 0" in found[0].found
        assert "string in row 4" in found[0].found
        assert "'part-0.jsonl'" in found[0].found
    only_text = Pipeline(work(web=clash)).map_transform(anything, reads=["text"]).batch(2)
    assert sorted(row["text"] for row in payloads(inline(only_text))) == sorted(f"t{n}" for n in range(6))


def test_types_that_differ_but_unite_are_one_type(tmp_path):
    tables = {
        "a": pa.table({"n": pa.array([1, 2], pa.int16()), "text": pa.array(["a", "b"], pa.large_string())}),
        "b": pa.table({"n": pa.array([3, 4], pa.int64()), "text": pa.array([None, None], pa.null())}),
        "c": pa.table({"n": pa.array([5, 6], pa.uint8()), "text": pa.array(["e", "f"]).dictionary_encode()}),
    }
    for name, table in tables.items():
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "x.parquet")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.jsonl").write_bytes(b'{"n": 7}\n{"text": "h", "n": 8}\n')
    pipeline = inline(Pipeline(work(**{name: tmp_path / name for name in "abcd"})).batch(1))
    batches = list(pipeline)
    assert {batch.schema.field("n").type for batch in batches} == {pa.int64()}
    assert {batch.schema.field("text").type for batch in batches} == {pa.string()}
    assert sorted((r.payload["n"], r.payload.get("text")) for b in batches if not b.is_filler for r in b.records) == [
        (1, "a"),
        (2, "b"),
        (3, None),
        (4, None),
        (5, "e"),
        (6, "f"),
        (7, None),
        (8, "h"),
    ]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda p, tokenizer: p.tokenize(tokenizer_id=tokenizer, field="n", special_tokens="eos"), "field-type"),
        (lambda p, tokenizer: p.decode_text(fields=("n",)), "field-type"),
        (lambda p, tokenizer: p.filter(pc.field("text") > 3), "filter-expression"),
        (lambda p, tokenizer: p.filter(pc.field("n") + 1), "filter-expression"),
        (lambda p, tokenizer: p.pack_flat(8), "pack-tokens-missing"),
    ],
)
def test_a_field_of_a_type_the_operator_cannot_use_is_found_when_planned(web, tokenizer, make, code):
    with fails_with(code, PlanError):
        make(Pipeline(work(web=web)), tokenizer).batch(2).validate()


def test_a_column_that_a_dataset_does_not_have_is_named_with_those_it_has(tmp_path):
    jsonl(tmp_path, [3])
    with fails_with("column-missing") as found:
        Pipeline(work(web=Dataset.from_path("web", tmp_path, columns=["n", "txt"]))).batch(2).validate()
    assert "'txt'" in found[0].what
    assert "text" in found[0].found


def test_a_schema_conflict_of_a_column_left_out_is_none(tmp_path):
    rows = other_type(int)
    rows[4]["n"] = "four"
    dataset = Dataset.from_path("web", written(tmp_path / "web", rows), columns=["text"])
    assert dataset.schema.names == ["text"]
    assert len(payloads(inline(Pipeline(work(web=dataset)).batch(2)))) == 6


def test_fields_of_a_parquet_and_a_jsonl_dataset_come_together(tmp_path):
    parquet(tmp_path / "a" / "x.parquet", 6, 3)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.jsonl").write_bytes(lines(range(6, 12)))
    pipeline = inline(
        Pipeline(work(a=tmp_path / "a", b=tmp_path / "b")).map_transform(anything, reads=["n", "text"]).batch(2)
    )
    assert numbers(pipeline) == list(range(12))
