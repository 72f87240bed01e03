"""Recipes: a pipeline as plain data gives the same pipeline back; what cannot be written down is refused by name."""

import copy
import json
import tomllib
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import zephon_recipe_functions as functions
from zephon import Pipeline
from zephon.errors import ConfigError, ZephonError
from zephon.io import Dataset
from zephon.work import MixtureSpec, StaticMixtureWorkSource
from zephon_fault_files import byte_tokenizer, fails_with, jsonl, parquet, run

SLOW = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))


def through_toml(spec):
    """What a person keeps in a file."""
    return tomllib.loads(functions.toml(spec))


def fingerprint(pipeline):
    return json.loads(pipeline.checkpoint()["header"])["fingerprint"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three datasets of files and a tokenizer."""
    root = tmp_path_factory.mktemp("files")
    jsonl(root / "web", [12, 9])
    jsonl(root / "code", [11])
    parquet(root / "books" / "a.parquet", 10, 4)
    byte_tokenizer(root / "tokenizer")
    return root


def datasets(files):
    return [
        Dataset.from_path("web", files / "web"),
        Dataset.from_path("code", str(files / "code" / "*.jsonl"), fmt="jsonl", columns=["text", "n"]),
        Dataset.from_path("books", [files / "books"], columns=["n", "text"]),
    ]


def rich(files):
    """A pipeline that uses about everything there is."""
    work = StaticMixtureWorkSource(
        datasets=datasets(files),
        mixture=[(0, {"web": 0.7, "code": 0.3}), (25, {"web": 1, "code": 1, "books": 0.25})],
        seed=42,
        chunk_size=64,
        shuffle_shards=False,
        shuffle_within_shard=True,
        shuffle_block_size="auto",
        exhausted_policy={"web": "repeat", "code": "redistribute"},
        max_repeats={"web": 2, "books": 3, "code": None},
        stop_after_passes={"books": 1},
        reshuffle_on_repeat=False,
    )
    pipeline = Pipeline(work).filter((pc.field("n") > 1) & pc.is_valid(pc.field("text")))
    pipeline.map_transform(
        functions.with_length,
        reads=["n", "text"],
        schema=pa.schema([("n", pa.int64()), ("text", pa.string()), ("length", pa.int32())]),
        version="2",
    )
    pipeline.filter(functions.long_enough)
    pipeline.stateful_transform("total", init_state=0, push=functions.running_total)
    pipeline.pipe(functions.Doubled("n", times=2))
    pipeline.shuffle(7, seed=3).ensure_mixture(16, weight_by="rows")
    pipeline.tokenize(
        tokenizer_id=str(files / "tokenizer" / "tokenizer.json"),
        field="text",
        special_tokens="eos",
        max_length=9,
        split_long_samples=True,
    )
    pipeline.pack_flat(
        12, algorithm="best_fit", num_bins=3, homogeneity="group", groups={"web": "a", "code": "b"}, overflow="truncate"
    )
    return (
        pipeline.batch(2, drop_last=False)
        .map_batch(functions.not_the_last_of_ten, version="x")
        .options(canonical_replicas=4, memory_limit="512MiB", on_error={"action": "skip", "budget": 7})
    )


def test_a_rich_pipeline_comes_back_from_its_recipe_with_the_same_stream_and_fingerprint(files, tmp_path):
    pipeline = rich(files)
    spec = pipeline.to_spec()
    assert json.loads(json.dumps(spec)) == spec
    assert through_toml(spec) == spec
    path = tmp_path / "recipe.toml"
    path.write_text(functions.toml(spec), encoding="utf-8")
    ways = {
        "a dict": lambda: Pipeline.from_spec(spec),
        "TOML": lambda: Pipeline.from_spec(through_toml(spec)),
        "a path": lambda: Pipeline.from_spec(path),
        "the path as text": lambda: Pipeline.from_spec(str(path)),
    }
    expected = run(lambda: rich(files))
    assert len(expected.digests) > 5
    for name, make in ways.items():
        assert make().to_spec() == spec, name
        assert fingerprint(make()) == fingerprint(pipeline), name
        assert make().options(parallelism=0).explain() == rich(files).options(parallelism=0).explain(), name
    assert run(ways["TOML"]) == expected


def test_a_run_goes_on_from_its_checkpoint_under_the_pipeline_from_its_recipe(files):
    whole = rich(files).options(parallelism=0, tail="pad")
    expected = [batch.to_pylist() for batch in whole]
    first = rich(files).options(parallelism=0, tail="pad")
    iterator = iter(first)
    for _ in range(9):
        next(iterator)
    resumed = Pipeline.from_spec(through_toml(first.to_spec())).restore(first.checkpoint())
    assert [batch.to_pylist() for batch in resumed] == expected[9:]


def test_the_source_is_written_as_it_was_given_without_defaults_and_without_what_was_computed(files):
    spec = rich(files).to_spec()
    assert spec["source"] == {
        "kind": "static_mixture",
        "mixture": [[0, {"web": 0.7, "code": 0.3}], [25, {"web": 1, "code": 1, "books": 0.25}]],
        "seed": 42,
        "chunk_size": 64,
        "shuffle_shards": False,
        "shuffle_within_shard": True,
        "shuffle_block_size": "auto",
        "exhausted_policy": {"web": "repeat", "code": "redistribute"},
        "max_repeats": {"web": 2, "books": 3},
        "stop_after_passes": {"books": 1},
        "reshuffle_on_repeat": False,
        "datasets": [
            {"name": "code", "path": str(files / "code" / "*.jsonl"), "fmt": "jsonl", "columns": ["text", "n"]},
            {"name": "web", "path": str(files / "web")},
            {"name": "books", "path": str(files / "books"), "columns": ["n", "text"]},
        ],
    }
    plain = Pipeline(StaticMixtureWorkSource(datasets=[datasets(files)[0]], mixture={"web": 1})).batch(2).to_spec()
    assert plain == {
        "source": {
            "kind": "static_mixture",
            "mixture": {"web": 1},
            "datasets": [{"name": "web", "path": str(files / "web")}],
        },
        "operators": [{"op": "batch", "microbatch_size": 2}],
    }


def test_writing_a_recipe_counts_no_row_and_reads_no_file(tmp_path):
    root = jsonl(tmp_path / "web", [4])
    pipeline = Pipeline(StaticMixtureWorkSource(datasets=[Dataset.from_path("web", root)], mixture={"web": 1})).batch(2)
    pipeline.to_spec()
    assert not (root / ".zephon").exists()


def test_a_recipe_is_the_same_before_and_after_a_run_and_after_a_restore(files):
    pipeline = rich(files).options(parallelism=0, tail="pad")
    spec = pipeline.to_spec()
    iterator = iter(pipeline)
    for _ in range(5):
        next(iterator)
    assert pipeline.to_spec() == spec
    assert Pipeline.from_spec(spec).restore(pipeline.checkpoint()).to_spec() == spec


NAMES = ("web", "code", "books")
WEIGHTS = st.one_of(
    st.integers(1, 9),
    st.sampled_from([0.1, 0.7, 1.5]),
    st.sampled_from([Decimal("0.30"), Fraction(1, 3)]),
)


@st.composite
def sources(draw):
    """Arguments of a work source over the three datasets, as a user may give them."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    mixture = {name: draw(WEIGHTS) for name in names}
    if draw(st.booleans()):
        mixture = [(0, mixture), (draw(st.integers(1, 20)), {name: draw(WEIGHTS) for name in reversed(names)})]
    elif draw(st.booleans()):
        mixture = MixtureSpec(mixture)
    policies = draw(
        st.sampled_from(
            [
                {},
                {"exhausted_policy": "redistribute"},
                {"exhausted_policy": dict.fromkeys(names, "stop")},
                {"exhausted_policy": {names[0]: "redistribute"}, "stop_after_passes": {names[0]: 1}},
                {"max_repeats": {names[0]: 1, names[-1]: None}},
                {"stop_after_passes": 2},
            ]
        )
    )
    return names, {
        "mixture": mixture,
        **policies,
        "seed": draw(st.integers(-(2**40), 2**40)),
        "chunk_size": draw(st.sampled_from([1, 5, 16384])),
        "shuffle_shards": draw(st.booleans()),
        "shuffle_within_shard": draw(st.booleans()),
        "shuffle_block_size": draw(st.sampled_from([None, 7, "auto", "global"])),
        "reshuffle_on_repeat": draw(st.booleans()),
        "token_estimation": draw(st.sampled_from([None, {name: 10 + len(name) for name in names}])),
    }


@SLOW
@given(sources())
def test_any_work_source_comes_back_with_every_pointer(files, drawn):
    names, arguments = drawn
    chosen = [dataset for dataset in datasets(files) if dataset.name in names]
    work = StaticMixtureWorkSource(datasets=chosen, **arguments)
    pipeline = Pipeline(work).map_transform(dict, reads=["n"], schema={"n": "int64"}).batch(1)
    spec = pipeline.options(canonical_replicas=2).to_spec()
    back = Pipeline.from_spec(through_toml(spec))
    assert back.to_spec() == spec
    assert back._work.to_plain() == work.to_plain()
    for lane in range(2):
        stop = work.lane_length(lane, 2)
        assert back._work.read(lane, 2, 0, stop) == work.read(lane, 2, 0, stop)
    assert fingerprint(back) == fingerprint(pipeline)


# -- operators without a registered name -------------------------------------------------------------------------------


def test_an_operator_of_ones_own_is_written_as_module_and_class(files):
    pipeline = Pipeline.from_spec(
        {
            "source": {"mixture": {"web": 1}, "datasets": [{"name": "web", "path": str(files / "web")}]},
            "operators": [
                {"op": "zephon_recipe_functions:Doubled", "field": "n", "times": 3},
                {"op": "batch", "microbatch_size": 21},
            ],
            "options": {"canonical_replicas": 1, "parallelism": 0},
        }
    )
    assert pipeline.to_spec()["operators"][0] == {"op": "zephon_recipe_functions:Doubled", "field": "n", "times": 3}
    assert sorted(row["n"] for batch in pipeline for row in batch.to_pylist()) == [8 * n for n in range(21)]


def test_a_function_for_agreement_is_named_like_any_other(files):
    pipeline = Pipeline(StaticMixtureWorkSource(datasets=datasets(files)[:1], mixture={"web": 1})).batch(2)
    spec = pipeline.options(agree=functions.smallest).to_spec()
    assert spec["options"] == {"agree": "zephon_recipe_functions:smallest"}
    assert Pipeline.from_spec(spec)._options().agree is functions.smallest


# -- what cannot be written down ---------------------------------------------------------------------------------------


def live(files):
    return Tokenizer.from_file(str(files / "tokenizer" / "tokenizer.json"))


def local(row):
    return row


local.__qualname__ = "somebody.<locals>.local"


@pytest.mark.parametrize(
    ("make", "code", "named"),
    [
        (lambda p, files: p.map_transform(lambda row: row), "callable-not-importable", "operator 'map_transform'"),
        (lambda p, files: p.map_transform(local), "callable-not-importable", "somebody.<locals>.local"),
        (lambda p, files: p.filter(lambda row: True), "callable-not-importable", "<lambda>"),
        (lambda p, files: p.map_transform("".join), "callable-not-importable", "join"),
        (
            lambda p, files: p.stateful_transform("s", init_state=0, push=lambda s, row: (s, row)),
            "callable-not-importable",
            "operator 'stateful_transform'",
        ),
        (
            lambda p, files: p.tokenize(live(files), field="text", special_tokens="eos"),
            "not-plain-data",
            "operator 'tokenize'",
        ),
        (lambda p, files: p.options(agree=lambda n: n), "callable-not-importable", "the options"),
    ],
)
def test_what_has_no_name_is_refused_by_the_name_of_who_holds_it_though_it_runs(files, make, code, named):
    pipeline = Pipeline(StaticMixtureWorkSource(datasets=datasets(files)[:1], mixture={"web": 1}))
    pipeline = make(pipeline, files).batch(2).options(canonical_replicas=1, parallelism=0)
    with fails_with(code, ConfigError) as found:
        pipeline.to_spec()
    assert named in str(found[0])
    if "join" not in named:
        assert next(iter(pipeline)) is not None


def test_a_dataset_in_memory_is_refused_by_name():
    memory = Dataset.from_dict("in-memory", [{"n": 1}])
    with fails_with("dataset-not-portable", ConfigError) as found:
        Pipeline(StaticMixtureWorkSource(datasets=[memory], mixture={"in-memory": 1})).batch(1).to_spec()
    assert "'in-memory'" in found[0].what


def test_credentials_never_enter_a_recipe(files):
    dataset = Dataset.from_path("web", files / "web", storage_options={})
    remote = dataset.to_plain()
    assert set(remote) == {"name", "path"}


# -- recipes that are none ---------------------------------------------------------------------------------------------


def base(files):
    return {
        "source": {"mixture": {"web": 1}, "datasets": [{"name": "web", "path": str(files / "web")}]},
        "operators": [
            {"op": "map_transform", "fn": "zephon_recipe_functions:with_length"},
            {"op": "batch", "microbatch_size": 2},
        ],
        "options": {"canonical_replicas": 2},
    }


def put(*path_and_value):
    """A change of one place of a recipe."""
    *path, value = path_and_value

    def change(spec):
        place = spec
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def drop(*path):
    def change(spec):
        place = spec
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        (put("sauce", {}), "recipe-invalid", "sauce"),
        (drop("source"), "recipe-invalid", "[source]"),
        (put("source", [1]), "recipe-invalid", "[source]"),
        (put("source", "shufle_shards", True), "recipe-invalid", "did you mean 'shuffle_shards'?"),
        (put("source", "kind", "dynamic_mixture"), "plugin-unknown", "'dynamic_mixture'"),
        (drop("source", "mixture"), "recipe-invalid", "'mixture'"),
        (put("source", "mixture", {"wbe": 1}), "mixture-names", "wbe"),
        (put("source", "mixture", {"web": "many"}), "bad-weight", "'many'"),
        (put("source", "datasets", "web"), "recipe-invalid", "[[source.datasets]]"),
        (put("source", "datasets", 0, "colums", ["n"]), "bad-spec", "colums"),
        (put("source", "datasets", 0, "path", 3), "recipe-invalid", "[source]"),
        (put("source", "datasets", 0, "fmt", "parqet"), "plugin-unknown", "'parquet'"),
        (drop("source", "datasets", 0, "path"), "bad-spec", "path"),
        (put("operators", {"op": "batch"}), "recipe-invalid", "[[operators]]"),
        (put("operators", ["batch"]), "recipe-invalid", "'batch'"),
        (drop("operators", 1, "op"), "recipe-invalid", "op ="),
        (put("operators", 1, "op", "bacth"), "plugin-unknown", "'batch'"),
        (put("operators", 1, "microbatchsize", 2), "bad-spec", "microbatchsize"),
        (put("operators", 1, "microbatch_size", "two"), "bad-spec", "microbatch_size"),
        (put("operators", 1, "microbatch_size", 0), "operator-argument", "microbatch_size"),
        (put("operators", 1, {"op": "pack_flat", "max_length": 0}), "pack-bad-option", "max_length"),
        (put("operators", 0, "fn", "no_such_module:f"), "callable-not-importable", "no_such_module"),
        (put("operators", 0, "fn", "zephon_recipe_functions:nothing"), "callable-not-importable", "nothing"),
        (put("operators", 0, "fn", "with_length"), "operator-argument", "with_length"),
        (put("operators", 0, "schema", {"n": "int46"}), "bad-spec", "int46"),
        (put("operators", 0, {"op": "zephon_recipe_functions:with_length"}), "not-an-operator", "with_length"),
        (put("operators", 0, {"op": "zephon_recipe_functions:Nobody"}), "callable-not-importable", "Nobody"),
        (put("operators", 0, {"op": "zephon_recipe_functions:Doubled", "feild": "n"}), "bad-spec", "feild"),
        (put("operators", 0, {"op": "filter", "predicate": "text > 3"}), "operator-argument", "text > 3"),
        (put("options", [1]), "recipe-invalid", "[options]"),
        (put("options", "canonical_replica", 2), "option-unknown", "canonical_replicas"),
        (put("options", "flush_every_k_chunks", 2), "option-not-needed", "flush_every_k_chunks"),
        (put("options", "memory_limit", "12 parsecs"), "option-invalid", "12 parsecs"),
        (put("options", "agree", "no_such_module:f"), "callable-not-importable", "no_such_module"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_said_with_its_own_words(files, tmp_path, change, code, named):
    spec = copy.deepcopy(base(files))
    change(spec)
    path = tmp_path / "recipe.toml"
    path.write_text(functions.toml(spec), encoding="utf-8")
    for given_as in (spec, path):
        with fails_with(code, ZephonError) as found:
            Pipeline.from_spec(given_as)
        assert named in str(found[0])


@pytest.mark.parametrize("text", [b"[source\n", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_a_file_that_is_no_toml_is_named(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_bytes(text)
    with fails_with("recipe-invalid", ConfigError) as found:
        Pipeline.from_spec(path)
    assert str(path) in found[0].found


def test_a_recipe_says_nothing_of_the_rank_that_wrote_it(files):
    """All who read it would be the same group; the number of lanes it implied is kept."""
    work = StaticMixtureWorkSource(datasets=datasets(files)[:1], mixture={"web": 1}, seed=1)
    spec = Pipeline(work).batch(2).options(dp_degree=4, dp_group_id=3).to_spec()
    assert spec["options"] == {"canonical_replicas": 4}
