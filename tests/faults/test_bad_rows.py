"""Malformed rows and undecodable text: raised, or dropped, counted and told, the same ones everywhere."""

import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.cli.rounds import Fleet, round_digest
from zephon.errors import BadRowsError, DataError
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_fault_files import (
    BAD_LINES,
    VARIANTS,
    Stretch,
    entries,
    fails_with,
    inline,
    jsonl,
    lines,
    numbers,
    parquet,
    run,
    text_of,
    work,
)

SLOW = settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))


def fussy(row):
    """A function that fails on some rows."""
    if row["n"] % 7 == 3:
        raise LookupError(f"no {row['n']}")
    return row


def keep(row):
    """Leaves out every fourth row."""
    return row["n"] % 4 != 0


def lost_rows(count, spoilt, operators):
    """The rows that are set aside, by the plain meaning of the operators."""
    gone = []
    for n in range(count):
        for step in ("read", *operators):
            if (step == "read" and n in spoilt) or (step == "map" and n % 7 == 3):
                gone.append(n)
                break
            if step == "filter" and n % 4 == 0:
                break
    return gone


@st.composite
def chains(draw):
    """Ways to run: some stretches, then to the end on groups that share no lane."""
    stretch = st.builds(
        Stretch, st.integers(0, 4), st.integers(1, 5), st.sampled_from([0, 0, 0, 2]), st.sampled_from([None, 1, 3, 50])
    )
    last = st.builds(Stretch, st.none(), st.integers(1, 2), st.just(0), st.sampled_from([None, 1, 3, 50]))
    return [*draw(st.lists(stretch, max_size=3)), draw(last)]


@SLOW
@given(
    bad=st.dictionaries(st.integers(0, 24), st.sampled_from(BAD_LINES), max_size=9),
    operators=st.lists(st.sampled_from(["map", "shuffle", "filter"]), max_size=3),
    chain=chains(),
    action=st.sampled_from(["skip", "quarantine"]),
)
def test_the_same_rows_are_dropped_counted_and_written_through_any_chain_of_changes(bad, operators, chain, action):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shards = {"web": [9, 0, 16], "code": [15]}
        datasets = {name: Dataset.from_path(name, jsonl(root / name, shards[name], bad)) for name in shards}

        def make():
            pipeline = Pipeline(work(**datasets, weights={"web": 2, "code": 1}))
            for operator in operators:
                if operator == "map":
                    pipeline.map_transform(fussy)
                elif operator == "filter":
                    pipeline.filter(keep)
                else:
                    pipeline.shuffle(11)
            return pipeline.batch(3).options(canonical_replicas=3)

        def policy(name):
            return {"action": action, "path": str(root / f"aside-{name}")} if action == "quarantine" else action

        plain = run(make, on_error=policy("plain"))
        assert run(make, chain, on_error=policy("chain")) == plain
        lost = {name: lost_rows(sum(shards[name]), set(bad), operators) for name in shards}
        assert plain.skipped == {name: len(gone) for name, gone in lost.items() if gone}
        if action == "quarantine":
            for name in ("plain", "chain"):
                assert sorted((e["dataset"], e["shard"], e["row"]) for e in entries(root / f"aside-{name}")) == sorted(
                    (dataset, *place(shards[dataset], n)) for dataset, gone in lost.items() for n in gone
                )


def place(shards, n):
    """Shard and row of a row of a dataset."""
    shard = int(np.searchsorted(np.cumsum(shards), n, side="right"))
    return f"part-{shard}.jsonl", n - sum(shards[:shard])


@SLOW
@given(bad=st.dictionaries(st.integers(0, 29), st.sampled_from(BAD_LINES), max_size=5), block=st.integers(1, 40))
def test_the_stream_under_raise_is_a_prefix_of_the_one_under_skip(bad, block):
    with tempfile.TemporaryDirectory() as folder:
        dataset = Dataset.from_path("web", jsonl(Path(folder), [18, 12], bad))

        def make():
            return Pipeline(work(web=dataset)).batch(2).options(canonical_replicas=2)

        whole = run(make, on_error="skip").digests
        fleet = Fleet(make, 1, parallelism=0, tail="pad", block_rows=block)
        found = []

        def go_through():
            while (lanes := fleet.round()) is not None:
                found.append(round_digest(lanes))

        if bad:
            with fails_with("bad-row", DataError):
                go_through()
        else:
            go_through()
            assert len(found) == len(whole)
        fleet.close()
        assert whole[: len(found)] == found


def undecodable(path):
    """A Parquet file in which some text is not UTF-8, and some bytes are no text."""
    values = [text_of(n).encode() for n in range(24)]
    values[5], values[17] = b"caf\xe9", b"\xff\xfe"
    raw = pa.array(values, pa.binary())
    text = pa.Array.from_buffers(pa.string(), 24, raw.buffers())
    path.mkdir()
    pq.write_table(pa.table({"n": range(24), "text": text, "raw": raw}), path / "a.parquet", row_group_size=10)
    return path


#: What is written, which operators it goes through, the error's code, what is named, and the rows that are lost.
FAULTS = {
    "a malformed line": (
        lambda path: jsonl(path, [14, 10], {5: b'{"n": 5, "te', 17: b"[]"}),
        lambda p: p,
        "bad-row",
        "'part-0.jsonl'",
        {5, 17},
    ),
    "a malformed line in gzip": (
        lambda path: compressed(path, "gz", gzip.compress, {5: b"5", 17: b"{"}),
        lambda p: p,
        "bad-row",
        "'a.jsonl.gz'",
        {5, 17},
    ),
    "a malformed line in zstd": (
        lambda path: compressed(path, "zst", zstandard.compress, {5: b"5", 17: b"{"}),
        lambda p: p,
        "bad-row",
        "'a.jsonl.zst'",
        {5, 17},
    ),
    "JSON that is not UTF-8": (
        lambda path: jsonl(path, [24], {5: b'{"n": 5, "text": "caf\xe9"}', 17: b'{"text": "\\udc00"}'}),
        lambda p: p,
        "bad-row",
        "'part-0.jsonl'",
        {5, 17},
    ),
    "Parquet text that is not UTF-8": (undecodable, lambda p: p.filter(keep_all), "bad-row", "'a.parquet'", {5, 17}),
    "bytes that are no text": (
        lambda path: parquet(path / "a.parquet", 24, 10, bad={5: b"\xff", 17: b"caf\xe9"}).parent,
        lambda p: p.decode_text(fields=("raw",)),
        "text-undecodable",
        "'a.parquet'",
        {5, 17},
    ),
    "a function that fails": (
        lambda path: jsonl(path, [24]),
        lambda p: p.map_transform(fussy),
        "function-failed",
        "'part-0.jsonl'",
        {3, 10, 17},
    ),
    "a function that fails behind a shuffle": (
        lambda path: jsonl(path, [24]),
        lambda p: p.shuffle(100).map_transform(fussy),
        "function-failed",
        "'part-0.jsonl'",
        {3, 10, 17},
    ),
    "a fold that fails": (
        lambda path: jsonl(path, [24]),
        lambda p: p.stateful_transform("fold", init_state=0, push=fold),
        "function-failed",
        "'part-0.jsonl'",
        {3, 10, 17},
    ),
    "a row that does not fit the schema": (
        lambda path: jsonl(path, [24]),
        lambda p: p.map_transform(sometimes_text, schema={"n": "int64", "v": "int64"}),
        "row-does-not-fit",
        "'part-0.jsonl'",
        {5, 17},
    ),
}


def compressed(path, suffix, compress, bad):
    path.mkdir()
    (path / f"a.jsonl.{suffix}").write_bytes(compress(lines(range(24), bad)))
    return path


def keep_all(row):
    return True


def sometimes_text(row):
    return {"n": row["n"], "v": "text" if row["n"] in (5, 17) else 1}


def fold(state, row):
    return state + 1, {**fussy(row), "seen": state}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_row_is_an_error_that_names_dataset_shard_and_row(tmp_path, fault):
    write, operators, code, shard, lost = FAULTS[fault]
    dataset = Dataset.from_path("web", write(tmp_path / "data"))
    pipeline = inline(operators(Pipeline(work(web=dataset))).batch(2), block_rows=4)
    with fails_with(code, DataError) as found:
        numbers(pipeline)
    assert "'web'" in found[0].what
    assert shard in found[0].what
    assert any(f"row {n}" in found[0].what or f"row {n - 14} " in found[0].what for n in lost)
    assert found[0].__cause__ is not None
    # The same place again, wherever the error is met.
    with fails_with(code) as again:
        numbers(pipeline.options(parallelism=2))
    assert again[0].what == found[0].what


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_row_is_dropped_alone_and_the_same_everywhere(tmp_path, fault):
    write, operators, _, shard, lost = FAULTS[fault]
    dataset = Dataset.from_path("web", write(tmp_path / "data"))

    def make():
        return operators(Pipeline(work(web=dataset))).batch(2).options(canonical_replicas=4)

    assert numbers(inline(make(), 4, on_error="skip")) == sorted(set(range(24)) - lost)
    plain = run(make, on_error="skip")
    assert plain.skipped == {"web": len(lost)}
    quarantine = {"action": "quarantine", "path": str(tmp_path / "aside")}
    for name, chain in VARIANTS.items():
        assert run(make, chain, on_error=quarantine) == plain, name
    told = entries(tmp_path / "aside")
    assert len(told) == len(lost)  # many runs, each row once
    assert {entry["dataset"] for entry in told} == {"web"}
    assert shard.strip("'") in {entry["shard"] for entry in told}
    assert all(entry["reason"] for entry in told)


def test_a_malformed_line_is_named_with_its_byte(tmp_path):
    jsonl(tmp_path, [6], {4: b'{"n": '})
    start = len(lines(range(4)))
    with fails_with("bad-row", DataError) as found:
        numbers(inline(Pipeline(work(web=tmp_path)).batch(2), lanes=1))
    assert f"byte {start}" in found[0].what
    assert isinstance(found[0].__cause__, BadRowsError)
    assert (tmp_path / "part-0.jsonl").read_bytes()[start:].startswith(b'{"n": \n')


def test_a_row_is_dropped_once_in_every_pass_and_counted_each_time(tmp_path):
    source = StaticMixtureWorkSource(
        datasets=[Dataset.from_path("web", jsonl(tmp_path / "d", [10], {3: b"", 7: b"{"}))],
        mixture={"web": 1},
        shuffle_within_shard=True,
        stop_after_passes=3,
    )
    pipeline = inline(Pipeline(source).batch(2), on_error={"action": "quarantine", "path": str(tmp_path / "aside")})
    # A blank line is no row: nine are left, one of them bad.
    assert numbers(pipeline) == sorted(3 * [0, 1, 2, 4, 5, 6, 8, 9])
    assert pipeline.stats()["skipped"] == {"web": 3}
    assert sorted((e["row"], e["epoch"]) for e in entries(tmp_path / "aside")) == [(6, 0), (6, 1), (6, 2)]


def test_a_dataset_of_bad_rows_only_costs_the_others_nothing(tmp_path):
    jsonl(tmp_path / "bad", [8], {n: BAD_LINES[n % len(BAD_LINES)] for n in range(8)})
    jsonl(tmp_path / "good", [8])
    for operators in (lambda p: p, lambda p: p.map_transform(dict)):
        pipeline = operators(Pipeline(work(bad=tmp_path / "bad", good=tmp_path / "good"))).batch(2)
        inline(pipeline, on_error="skip")
        assert numbers(pipeline) == list(range(8))
        assert pipeline.stats()["skipped"] == {"bad": 8}


def test_an_endless_run_whose_rows_are_all_bad_is_an_error_not_a_run_that_never_delivers(tmp_path):
    dataset = Dataset.from_path("bad", jsonl(tmp_path, [8], dict.fromkeys(range(8), b"null")))
    source = StaticMixtureWorkSource(datasets=[dataset], mixture={"bad": 1}, exhausted_policy="repeat")
    with fails_with("nothing-passes"):
        next(iter(inline(Pipeline(source).batch(2), tail="drop", on_error="skip")))


def test_counters_of_what_was_dropped_survive_a_restart_at_any_batch(tmp_path):
    jsonl(tmp_path, [30], dict.fromkeys(range(2, 30, 5), b"{"))

    def make():
        return inline(
            Pipeline(work(web=tmp_path)).map_transform(fussy).shuffle(6).batch(2), on_error="skip", block_rows=3
        )

    whole = make()
    stretches = [0]
    for _ in whole:
        stretches.append(whole.stats()["skipped"].get("web", 0))
    final = whole.stats()["skipped"]
    assert final == {"web": len(set(range(2, 30, 5)) | set(range(3, 30, 7)))}
    assert stretches == sorted(stretches)
    for k in range(len(stretches)):
        first, second = make(), make()
        iterator = iter(first)
        for _ in range(k):
            next(iterator)
        state, seen = first.checkpoint(), first.stats()["skipped"]
        second.restore(state)
        assert second.stats()["skipped"] == seen
        list(second)
        assert second.stats()["skipped"] == final


def test_a_run_that_stopped_on_a_bad_row_goes_on_from_its_last_checkpoint_under_skip(tmp_path):
    jsonl(tmp_path / "data", [40], {23: b'{"n": 2'})

    def make(**options):
        return inline(Pipeline(work(web=tmp_path / "data")).shuffle(5).batch(2), block_rows=4, **options)

    stopped = make()
    iterator = iter(stopped)
    seen = []
    with fails_with("bad-row", DataError):
        while True:
            seen += [record.payload["n"] for record in next(iterator).records]
    with fails_with("iterator-closed"):
        next(iterator)
    state = stopped.checkpoint()  # what was received stays countable
    for action in ("skip", {"action": "quarantine", "path": str(tmp_path / "aside")}):
        resumed = make(on_error=action).restore(state)
        rest = [row["n"] for row in (record.payload for b in resumed if not b.is_filler for record in b.records)]
        assert sorted(seen + rest) == sorted(set(range(40)) - {23})
        assert resumed.stats()["skipped"] == {"web": 1}
    assert [entry["row"] for entry in entries(tmp_path / "aside")] == [23]
    # Under the old policy it stops in the same place again.
    with fails_with("bad-row"):
        list(make().restore(state))


def test_what_is_dropped_changes_no_fingerprint(tmp_path):
    jsonl(tmp_path, [8])
    facts = {
        json.loads(inline(Pipeline(work(web=tmp_path)).batch(2), on_error=action).checkpoint()["header"])["fingerprint"]
        for action in ("raise", "skip", {"action": "quarantine", "path": "elsewhere", "budget": 3})
    }
    assert len(facts) == 1
