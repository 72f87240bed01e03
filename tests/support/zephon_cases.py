"""Small pipelines over data in memory, drawn by Hypothesis or written out, for the tests of whole runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.block import META_EOS_ID, META_PAD_ID, META_ROLE
from zephon.cli.rounds import Fleet, round_digest
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

TOKENS = pa.field(
    "input_ids", pa.list_(pa.int32()), metadata={META_ROLE: b"tokens", META_PAD_ID: b"0", META_EOS_ID: b"1"}
)


def rows(name: str, count: int, longest: int = 12) -> list[dict[str, Any]]:
    """Rows that tell where they come from: name and number, and a list of tokens of varying length."""
    start = sum(name.encode()) * 1000
    return [
        {
            "id": f"{name}-{i}",
            "n": i,
            "input_ids": [start + i * 20 + k for k in range((i * 7 + len(name)) % (longest + 1))],
        }
        for i in range(count)
    ]


def dataset(name: str, shards: Sequence[int], longest: int = 12) -> Dataset:
    """A dataset in memory of shards with these row counts."""
    all_rows = rows(name, sum(shards), longest)
    schema = pa.schema([("id", pa.string()), ("n", pa.int64()), TOKENS])
    tables, start = {}, 0
    for number, count in enumerate(shards):
        tables[f"shard-{number:03d}"] = pa.Table.from_pylist(all_rows[start : start + count], schema=schema)
        start += count
    return Dataset.from_dict(name, tables)


def double(row: dict[str, Any]) -> dict[str, Any]:
    """A pure function of a row."""
    return {**row, "n": row["n"] * 2}


def drop_thirds(row: dict[str, Any]) -> dict[str, Any] | None:
    """Drops every third row."""
    return None if row["n"] % 3 == 0 else row


def not_fifth(row: dict[str, Any]) -> bool:
    """A predicate."""
    return bool(row["n"] % 5)


def count_and_repeat(state: int, row: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    """A fold that numbers rows, and gives every fourth twice and every seventh not at all."""
    state += 1
    out = {"id": row["id"], "n": row["n"], "input_ids": row["input_ids"], "seen": state}
    return state, [] if state % 7 == 0 else [out, out] if state % 4 == 0 else [out]


FOLD_SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), TOKENS, ("seen", pa.int64())])


def odd_batches(batch: Any) -> Any:
    """Drops every third microbatch of a lane."""
    return None if batch.index % 3 == 2 else batch


class Case(NamedTuple):
    """A pipeline as a recipe of calls, so that any number of equal ones can be made.

    Attributes:
        work: makes the work source.
        calls: operators in order: method name, positional and keyword arguments.
        lanes: number of lanes.
    """

    work: Callable[[], StaticMixtureWorkSource]
    calls: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...]
    lanes: int

    def make(self) -> Pipeline:
        """A new pipeline."""
        pipeline = Pipeline(self.work())
        for name, args, kwargs in self.calls:
            getattr(pipeline, name)(*args, **kwargs)
        return pipeline.options(canonical_replicas=self.lanes)


def plain_rounds(case: Case, limit: int, **options: Any) -> list[dict[int, list[str]]]:
    """The rounds of a single group on the calling thread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fleet = Fleet(case.make, 1, parallelism=0, **options)
        try:
            return fleet.rounds(limit)
        finally:
            fleet.close()


def digests(rounds: Sequence[dict[int, list[str]]]) -> list[str]:
    """One digest per round."""
    return [round_digest(lanes) for lanes in rounds]


COUNT_KEEPING = [
    ("shuffle", (5,), {}),
    ("shuffle", (40,), {"seed": 3}),
    ("ensure_mixture", (8,), {}),
]
COUNT_CHANGING = [
    ("map_transform", (double,), {}),
    ("map_transform", (drop_thirds,), {}),
    ("filter", (not_fifth,), {}),
    ("filter", (pc.field("n") > 3,), {}),
    ("stateful_transform", ("fold",), {"init_state": 0, "push": count_and_repeat, "schema": FOLD_SCHEMA}),
]
PACKERS = [
    ("pack_flat", (9,), {"algorithm": "wrap"}),
    ("pack_flat", (9,), {"algorithm": "first_fit", "num_bins": 3, "overflow": "split"}),
    ("pack_flat", (13,), {"algorithm": "best_fit", "num_bins": 4, "overflow": "truncate"}),
]


@st.composite
def work_sources(draw: Any, *, finite: bool | None = None) -> tuple[Callable[[], StaticMixtureWorkSource], bool]:
    """A way to make a work source, and whether it is finite."""
    names = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True))
    shards = {n: draw(st.lists(st.integers(0, 25), min_size=1, max_size=4).filter(sum)) for n in names}
    datasets = [dataset(n, shards[n]) for n in names]
    weights = {n: draw(st.sampled_from([1, 2, 0.5, 7])) for n in names}
    policies: list[dict[str, Any]] = [
        {},
        {"exhausted_policy": "stop"},
        {"exhausted_policy": "redistribute"},
        {"max_repeats": 1},
        {"stop_after_passes": 2},
    ]
    endless = {"exhausted_policy": "repeat"}
    policy = draw(st.sampled_from([*([] if finite is False else policies), *([] if finite else [endless])]))
    order = {
        "chunk_size": draw(st.sampled_from([1, 3, 16384])),
        "shuffle_shards": draw(st.booleans()),
        "shuffle_within_shard": draw(st.booleans()),
        "shuffle_block_size": draw(st.sampled_from([None, 7, "auto", "global"])),
        "reshuffle_on_repeat": draw(st.booleans()),
        "seed": draw(st.integers(0, 3)),
    }

    def make() -> StaticMixtureWorkSource:
        return StaticMixtureWorkSource(datasets=datasets, mixture=weights, **policy, **order)

    return make, policy is not endless


@st.composite
def cases(draw: Any, *, finite: bool | None = None, keeps_counts: bool = False) -> tuple[Case, bool]:
    """A whole random pipeline, and whether its curriculum is finite."""
    work, is_finite = draw(work_sources(finite=finite))
    pool = COUNT_KEEPING if keeps_counts else COUNT_KEEPING + COUNT_CHANGING
    calls = draw(st.lists(st.sampled_from(pool), max_size=3))
    if not keeps_counts and draw(st.booleans()):
        calls.append(draw(st.sampled_from(PACKERS)))
    calls.append(("batch", (draw(st.integers(1, 6)),), {"drop_last": draw(st.booleans())}))
    if not keeps_counts and draw(st.booleans()):
        calls.append(("map_batch", (odd_batches,), {}))
    lanes = draw(st.one_of(st.integers(1, 8), st.integers(1, 64)))
    return Case(work, tuple(calls), lanes), is_finite
