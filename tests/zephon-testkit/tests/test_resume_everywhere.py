"""``check_resume_everywhere`` passes what is right, and says of what is wrong where it shows."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from zephon import Pipeline
from zephon.block import META_PAD_ID, META_ROLE
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_testkit.resume import MOST_ELEMENTS, check_resume_everywhere


@pytest.fixture(autouse=True)
def _importable(monkeypatch, tmp_path):
    """The broken operators are a module of its own name, as a stranger's is."""
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(Path(__file__).parent)


def delayed(defect=""):
    from kit_lane_operators import Delayed

    return Delayed(rows=3, defect=defect)


def rows(count, start=0):
    return [{"n": start + i, "input_ids": [start + i] * ((start + i) * 7 % 11)} for i in range(count)]


def in_memory(name, counts):
    tokens = pa.field("input_ids", pa.list_(pa.int32()), metadata={META_ROLE: b"tokens", META_PAD_ID: b"0"})
    schema = pa.schema([("n", pa.int64()), tokens])
    return Dataset.from_dict(
        name, {f"{i}": pa.Table.from_pylist(rows(count, 100 * i), schema=schema) for i, count in enumerate(counts)}
    )


def in_files(folder, name, counts):
    folder.mkdir()
    for i, count in enumerate(counts):
        lines = "".join(json.dumps(row) + "\n" for row in rows(count, 100 * i))
        (folder / f"part-{i}.jsonl").write_text(lines, encoding="utf-8")
    return Dataset.from_path(name, folder)


def work(*datasets, **settings):
    return StaticMixtureWorkSource(datasets=list(datasets), mixture={d.name: 1 for d in datasets}, seed=5, **settings)


def not_third(row):
    return row["n"] % 3 != 2


def running_sum(state, row):
    return state + row["n"], [{"n": row["n"], "sum": state}] * (row["n"] % 3)


WEB, CODE = in_memory("web", [7, 0, 9]), in_memory("code", [8])
SUMS = pa.schema([("n", pa.int64()), ("sum", pa.int64())])

PIPELINES = {
    "shuffled": lambda: Pipeline(work(WEB)).shuffle(5).batch(2, drop_last=False),
    "packed": lambda: Pipeline(work(WEB, CODE)).shuffle(4).pack_flat(9, num_bins=2).batch(2),
    "filtered": lambda: Pipeline(work(WEB)).filter(not_third).batch(2),
    "folded": lambda: Pipeline(work(WEB)).stateful_transform("s", init_state=0, push=running_sum, schema=SUMS).batch(3),
    "mixed": lambda: Pipeline(work(WEB, CODE, exhausted_policy="redistribute")).ensure_mixture(4).batch(2),
    "of three lanes": lambda: Pipeline(work(WEB)).shuffle(3).batch(2).options(canonical_replicas=3),
    "with a filled end": lambda: (
        Pipeline(work(WEB)).filter(not_third).batch(2, drop_last=False).options(canonical_replicas=2, tail="pad")
    ),
    "one of two groups": lambda: (
        Pipeline(work(WEB)).shuffle(3).batch(2).options(canonical_replicas=4, dp_degree=2, dp_group_id=1)
    ),
    "delayed": lambda: Pipeline(work(WEB)).pipe(delayed()).batch(2, drop_last=False),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_that_is_right_passes(name):
    check_resume_everywhere(PIPELINES[name])


def test_threads_pass_too():
    check_resume_everywhere(PIPELINES["shuffled"], runner="threads", parallelism=2)


def test_an_endless_pipeline_is_looked_at_as_far_as_it_is_told_to():
    def make():
        endless = Pipeline(work(WEB, CODE, exhausted_policy="repeat")).shuffle(4).batch(4)
        return endless.options(canonical_replicas=2)

    check_resume_everywhere(make, elements=12)
    with pytest.raises(ValueError, match=f"{MOST_ELEMENTS} elements; pass elements="):
        check_resume_everywhere(make)


def test_a_pipeline_whose_spec_is_plain_is_copied_and_not_run(tmp_path):
    pipeline = Pipeline(work(in_files(tmp_path / "data", "web", [9, 14]))).shuffle(4).batch(2)
    check_resume_everywhere(pipeline)
    assert pipeline.stats()["reader"]["rows_delivered"] == 0


def test_a_pipeline_that_cannot_be_copied_asks_for_a_function():
    with pytest.raises(ValueError, match=r"pass a function.*(?s:.*)its rows are in memory"):
        check_resume_everywhere(PIPELINES["shuffled"]())


def test_a_function_that_returns_one_pipeline_over_and_over_is_refused():
    pipeline = PIPELINES["shuffled"]()
    with pytest.raises(ValueError, match="returned one pipeline twice"):
        check_resume_everywhere(lambda: pipeline)


#: What the message says for each defect: in which comparison it shows, and what differs.
SHOWS = {
    "drops the tail on restore": r"restored after element \d+ of 8 differs at element \d+: rows\[0\]\.n is",
    "gives the tail twice after a restore": r"restored after element \d+ of 8 differs at element 8: a batch of lane 0",
    "changes a snapshot afterwards": r"restored after element \d+ of 8 differs at element \d+: rows\[\d\]\.place is",
    "lets blocks show": r"a run with blocks of 1 rows differs at element 0: rows\[1\]\.place is 0 and should be 1",
    "keeps a generator out of the snapshot": r"restored after element \d+ of 8 differs at element \d+: rows\[\d\]\.pl",
    "seeds the global generator": r"restored after element \d+ of 8 differs at element \d+: rows\[\d\]\.place is",
    "draws from the global generator": r"two uninterrupted runs differ at element 0: rows\[\d\]\.place is",
    "asks the clock": r"two uninterrupted runs differ at element 0: rows\[0\]\.place is",
    "shares a counter between lanes": r"two uninterrupted runs differ at element 0: rows\[0\]\.place is",
}


def test_every_defect_is_looked_for():
    from kit_lane_operators import DEFECTS

    assert tuple(SHOWS) == DEFECTS


@pytest.mark.parametrize("defect", SHOWS)
def test_a_lane_operator_with_a_defect_is_rejected_naming_the_element(defect):
    def make():
        return Pipeline(work(WEB)).pipe(delayed(defect)).batch(2, drop_last=False)

    with pytest.raises(AssertionError, match=SHOWS[defect]):
        check_resume_everywhere(make)
