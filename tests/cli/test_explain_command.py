"""``zephon explain``: the compiled plan as a person would tell it."""

import pyarrow as pa
import pyarrow.compute as pc

from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_fault_files import byte_tokenizer
from zephon_recipe_functions import long_enough, with_length

LENGTHS = {"op": "map_transform", "fn": "zephon_recipe_functions:with_length"}


def test_the_plan_names_datasets_operators_lanes_and_topology(zephon, recipe):
    code, out, err = zephon("explain", recipe(LENGTHS, {"op": "shuffle", "buffer_size": 16}))
    assert (code, err) == (0, "")
    head, source, operators, delivery, resources, notes = out.rstrip("\n").split("\n\n")
    assert head.startswith("pipeline ")
    assert source.startswith("source\n  web: 40 rows in 2 shards of jsonl\n")
    assert "columns read: n: int64, text: string" in source
    assert [line.strip().partition("(")[0] for line in operators.splitlines()[1::2]] == [
        "map_transform",
        "shuffle",
        "batch",
    ]
    assert "shuffle(buffer_size=16)\n      in the coordinator -> n: int64, text: string, length: int64" in operators
    assert "3 lanes, microbatches of 2" in delivery
    assert "each round: lane 0, lane 1, lane 2" in delivery
    assert "memory_limit" in resources
    assert "map_transform reads all columns; name the ones it needs with reads=[...]" in notes


def test_it_is_what_the_pipeline_itself_explains(zephon, recipe):
    path = recipe(LENGTHS)
    with Pipeline.from_spec(path) as pipeline:
        told = pipeline.explain()
    strip = lambda text: [line for line in text.splitlines() if "memory_limit" not in line]
    assert strip(zephon("explain", path)[1]) == strip(told)


def plain(pipeline):
    """The lines that show operators."""
    return [line.strip() for line in pipeline.batch(2).explain().partition("operators\n")[2].splitlines()]


def test_schemas_expressions_and_functions_are_shown_as_a_person_writes_them(data, tmp_path):
    source = StaticMixtureWorkSource(datasets=[Dataset.from_path("web", data)], mixture={"web": 1})
    pipeline = Pipeline(source).filter((pc.field("n") > 3) & pc.is_valid(pc.field("text")))
    pipeline.map_transform(with_length, schema={"n": "int64", "text": "string", "length": "int64"})
    pipeline.filter(long_enough)
    pipeline.map_transform(lambda row: row, reads=["text"], schema=pa.schema([("text", pa.list_(pa.int32()))]))
    lines = plain(pipeline)
    assert lines[0] == "filter(predicate=((n > 3) and is_valid(text)))"
    assert lines[2] == (
        "map_transform(fn='zephon_recipe_functions:with_length', schema=<n: int64, text: string, length: int64>)"
    )
    assert lines[4] == "filter#2(predicate='zephon_recipe_functions:long_enough')"
    assert "<lambda>" in lines[6]
    assert lines[6].endswith("reads=['text'], schema=<text: list<int32>>)")
    assert not [line for line in lines if "$" in line]


def test_what_is_long_is_cut_and_packed_documents_have_a_short_name(data, tmp_path):
    source = StaticMixtureWorkSource(datasets=[Dataset.from_path("web", data)], mixture={"web": 1})
    pipeline = Pipeline(source).tokenize(
        tokenizer_id=byte_tokenizer(tmp_path / "tokenizer"), field="text", special_tokens="eos"
    )
    pipeline.pack_flat(16, homogeneity="group", groups={f"dataset-{i}": "group" for i in range(100)})
    lines = plain(pipeline)
    assert lines[3] == "in the coordinator -> input_ids: list<int32>, positions: list<int32>, documents: list<document>"
    assert lines[2].startswith("pack_flat(max_length=16, homogeneity='group', groups={'dataset-0': 'group'")
    assert lines[2].endswith("...)")
    assert max(map(len, lines)) < 400


def test_a_filter_by_function_is_told_how_to_read_less(zephon, recipe):
    out = zephon("explain", recipe({"op": "filter", "predicate": "zephon_recipe_functions:long_enough"}))[1]
    assert "filter reads all columns; " in out
    assert "reads=[" not in out


def test_what_is_wrong_with_a_pipeline_is_told_instead_of_a_plan(zephon, recipe, tmp_path):
    tokenizer = byte_tokenizer(tmp_path / "tokenizer")
    path = recipe({"op": "tokenize", "tokenizer_id": tokenizer, "field": "txet", "special_tokens": "eos"})
    code, out, err = zephon("explain", path)
    assert (code, out) == (1, "")
    assert err.startswith("[field-missing] operator 'tokenize' reads the field 'txet'")
    assert err.endswith("  do: did you mean 'text'?\n")
