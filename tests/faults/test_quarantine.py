"""Quarantine files: one line per row that was set aside, with its origin, nothing twice, bounded by a budget."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from zephon import Pipeline
from zephon.cli.rounds import Fleet, round_digest
from zephon.errors import ConfigError, DataError, StorageError
from zephon.io import Dataset
from zephon_fault_files import Stretch, entries, fails_with, inline, jsonl, lines, numbers, run, work

BAD = dict.fromkeys(range(1, 40, 3), b'{"n": ')  # 13 of 40


@pytest.fixture
def dataset(tmp_path):
    return Dataset.from_path("web", jsonl(tmp_path / "data", [22, 18], BAD))


def aside(tmp_path, **more):
    return {"action": "quarantine", "path": str(tmp_path / "aside"), **more}


def odd_text(row):
    if row["n"] == 6:
        raise ValueError("\udcff and\n\u2028 of six")
    return {"n": row["n"]}


def test_each_line_tells_the_origin_the_place_the_reason_and_the_byte(tmp_path, dataset):
    pipeline = inline(Pipeline(work(web=dataset)).batch(2), on_error=aside(tmp_path))
    numbers(pipeline)
    assert sorted(path.name for path in (tmp_path / "aside").iterdir()) == ["lane-00000.jsonl", "lane-00001.jsonl"]
    shards = {"part-0.jsonl": (0, range(22)), "part-1.jsonl": (1, range(22, 40))}
    told = entries(tmp_path / "aside")
    assert len(told) == len(BAD)
    for entry in told:
        number, inside = shards[entry["shard"]]
        n = inside[entry["row"]]
        assert n in BAD
        assert entry["dataset"] == "web"
        assert entry["where"] == "read"
        assert entry["epoch"] == 0
        assert entry["offset"] == len(lines(range(inside[0], n), BAD))
        assert "JSON" in entry["reason"]
        assert entry["origin"] == {
            "component": 0,
            "dataset": 0,
            "shard": number,
            "row": entry["row"],
            "epoch": 0,
            "part": 0,
            "phase": 0,
        }


def test_a_reason_of_any_characters_makes_a_line_of_json(tmp_path, dataset):
    pipeline = inline(
        Pipeline(work(web=dataset)).map_transform(odd_text, schema={"n": "int64"}).batch(2), on_error=aside(tmp_path)
    )
    assert 6 not in numbers(pipeline)
    (entry,) = [entry for entry in entries(tmp_path / "aside") if entry["where"] == "map_transform"]
    assert entry["reason"] == "ValueError: \udcff and\n\u2028 of six"


def test_nothing_is_written_twice_whatever_is_done_again(tmp_path, dataset):
    def make():
        return inline(Pipeline(work(web=dataset)).shuffle(4).batch(2), on_error=aside(tmp_path), block_rows=3)

    first = make()
    iterator = iter(first)
    for _ in range(3):
        next(iterator)
    state = first.checkpoint()
    list(first)  # from the beginning
    list(make().restore(state))  # from the middle
    list(make())
    assert sorted(entry["origin"]["row"] for entry in entries(tmp_path / "aside")) == sorted(
        n if n < 22 else n - 22 for n in BAD
    )


def test_a_line_that_a_killed_writer_left_half_is_repaired_wherever_it_was_cut(tmp_path, dataset):
    def make():
        return inline(Pipeline(work(web=dataset)).batch(2), on_error=aside(tmp_path))

    list(make())
    path = tmp_path / "aside" / "lane-00001.jsonl"
    whole = path.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for cut in range(last, len(whole) + 1, 7):
        path.write_bytes(whole[:cut])
        list(make())
        assert path.read_bytes() == whole
    path.write_bytes(whole[: last // 2])  # a machine that lost more than the last line
    list(make())
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())


KILLED = """
    import sys, os, signal
    sys.path.insert(0, {support!r})
    from zephon_fault_files import inline, work
    from zephon import Pipeline
    from zephon.checkpoint import DirectoryStore

    pipeline = inline(Pipeline(work(web={data!r})).batch(2), on_error={on_error!r}, block_rows=2)
    for number, batch in enumerate(pipeline):
        DirectoryStore({store!r}).save(number, pipeline.checkpoint())
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_was_killed_goes_on_and_its_quarantine_is_that_of_a_calm_one(tmp_path, dataset):
    from zephon.checkpoint import DirectoryStore

    program = textwrap.dedent(KILLED).format(
        support=os.path.dirname(sys.modules["zephon_fault_files"].__file__),
        data=str(tmp_path / "data"),
        on_error=aside(tmp_path),
        store=str(tmp_path / "states"),
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    with open(tmp_path / "aside" / "lane-00000.jsonl", "ab") as file:
        file.write(b'{"dataset": "w')
    store = DirectoryStore(tmp_path / "states")
    resumed = inline(Pipeline(work(web=dataset)).batch(2), on_error=aside(tmp_path)).restore(
        store.load(store.steps()[-1])
    )
    list(resumed)
    list(inline(Pipeline(work(web=dataset)).batch(2), on_error={**aside(tmp_path), "path": str(tmp_path / "calm")}))
    told = [sorted(json.dumps(e) for e in entries(tmp_path / name)) for name in ("aside", "calm")]
    assert told[0] == told[1]
    assert resumed.stats()["skipped"] == {"web": len(BAD)}


def test_groups_that_share_a_lane_write_its_rows_once(tmp_path, dataset):
    def make():
        return Pipeline(work(web=dataset)).batch(4).options(canonical_replicas=2)

    expected = run(make, on_error="skip").digests
    fleet = Fleet(make, 8, agree=True, parallelism=0, tail="pad", on_error=aside(tmp_path))
    try:
        assert [round_digest(lanes) for lanes in fleet.rounds(1000)] == expected
        for pipeline in fleet.pipelines[:4]:
            # Each of the sharing groups reads the whole lane, so each counts all of its rows.
            assert pipeline.stats()["skipped"] == fleet.pipelines[0].stats()["skipped"]
    finally:
        fleet.close()
    assert len(entries(tmp_path / "aside")) == len(BAD)


def bad_per_lane(dataset):
    """How many bad rows each of two lanes meets."""
    source = work(web=dataset)
    counts = []
    for lane in range(2):
        pointers = source.read(lane, 2, 0, source.lane_length(lane, 2))
        counts.append(sum(n in BAD for n in (pointers.row + 22 * pointers.shard).tolist()))
    return counts


@pytest.mark.parametrize("action", ["skip", "quarantine"])
def test_the_budget_bounds_the_rows_one_lane_may_lose(tmp_path, dataset, action):
    most = max(bad_per_lane(dataset))

    def make(budget, **options):
        policy = {**aside(tmp_path), "action": action, "budget": budget}
        return inline(Pipeline(work(web=dataset)).batch(2), on_error=policy, **options)

    assert numbers(make(most)) == sorted(set(range(40)) - set(BAD))
    whole = [record.payload["n"] for b in make(most) for record in b.records]
    for block_rows in (1, 4, 40):
        pipeline = make(most - 1, block_rows=block_rows)
        seen = []
        with fails_with("bad-row-budget", DataError):
            for batch in pipeline:
                seen += [record.payload["n"] for record in batch.records]
        assert seen == whole[: len(seen)]
        if block_rows == 1:
            assert seen  # what came before the last straw was delivered
    with fails_with("bad-row-budget"):
        list(make(0))


def test_a_restart_gives_no_new_budget(tmp_path, dataset):
    most = max(bad_per_lane(dataset))

    def make(budget):
        policy = {"action": "skip", "budget": budget}
        return inline(Pipeline(work(web=dataset)).batch(2), on_error=policy, block_rows=1)

    stopped = make(most - 1)
    states = [stopped.checkpoint()]
    with fails_with("bad-row-budget"):
        for _ in stopped:
            states.append(stopped.checkpoint())
    for state in (*states, stopped.checkpoint()):
        with fails_with("bad-row-budget"):
            list(make(most - 1).restore(state))
    enough = make(most).restore(states[-1])
    list(enough)
    assert enough.stats()["skipped"] == {"web": len(BAD)}


def test_quarantine_over_changing_groups_is_one_set_of_files(tmp_path, dataset):
    def make():
        return Pipeline(work(web=dataset)).batch(4).options(canonical_replicas=4)

    chain = [Stretch(1, degree=8), Stretch(1, degree=3), Stretch(1, degree=2, block_rows=1), Stretch()]
    assert run(make, chain, on_error=aside(tmp_path)) == run(make, on_error="skip")
    assert len(entries(tmp_path / "aside")) == len(BAD)


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path, dataset):
    (tmp_path / "aside").write_text("a file")
    with fails_with("quarantine-unwritable", StorageError) as found:
        list(inline(Pipeline(work(web=dataset)).batch(2), on_error=aside(tmp_path)))
    assert str(tmp_path / "aside") in found[0].what


@pytest.mark.parametrize("content", [b'{"n": 1}\n', b"not json\n", b"[1]\n"])
def test_a_file_of_something_else_is_not_taken_for_a_quarantine_and_not_touched(tmp_path, dataset, content):
    (tmp_path / "aside").mkdir()
    path = tmp_path / "aside" / "lane-00000.jsonl"
    path.write_bytes(content)
    with fails_with("quarantine-foreign", ConfigError) as found:
        list(inline(Pipeline(work(web=dataset)).batch(2), lanes=1, on_error=aside(tmp_path)))
    assert str(path) in found[0].what
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "policy",
    ["ignore", {"action": "quarantine"}, {"action": "skip", "budget": -1}, {"action": "skip", "limit": 3}, 7],
)
def test_a_policy_that_is_none_is_refused(dataset, policy):
    with fails_with("option-invalid", ConfigError):
        Pipeline(work(web=dataset)).options(on_error=policy)
