"""Functions of the user that raise: the error names operator, dataset, shard and row, and keeps the traceback."""

import threading
import traceback
from typing import ClassVar

import attrs
import pyarrow as pa
import pytest

from zephon import Pipeline
from zephon.abc import LaneOperator, LaneState, RowOperator, Snapshot
from zephon.errors import DataError, EngineError, PlanError
from zephon.io import Dataset
from zephon_fault_files import VARIANTS, fails_with, inline, jsonl, numbers, payloads, run, work

FAILS_ON = 11  # row 5 of the second shard
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


@pytest.fixture
def dataset(tmp_path):
    return Dataset.from_path("web", jsonl(tmp_path / "data", [6, 18]))


def deep_inside(n):
    if n == FAILS_ON:
        raise LookupError(f"no {n}")
    return n


def mapped(row):
    deep_inside(row["n"])
    return row


def filtered(row):
    return deep_inside(row["n"]) >= 0


def mapped_batch(batch):
    for n in batch.column("n").to_pylist():
        deep_inside(n)
    return batch


def folded(state, row):
    return deep_inside(row["n"]), row


def folded_batch(state, batch):
    return state, mapped_batch(batch)


def anything(value):
    return value


@attrs.frozen(slots=True)
class Picky(RowOperator):
    """A row operator of the user's own."""

    preserves_rows: ClassVar[bool] = True

    @property
    def reads(self):
        return ("n",)

    def output_schema(self, schema):
        return schema

    def apply(self, block):
        for n in block.data.column("n").to_pylist():
            deep_inside(n)
        return block


CALLS = {
    "map_transform": lambda p: p.map_transform(mapped),
    "map_transform, schema given": lambda p: p.map_transform(mapped, schema=SCHEMA),
    "map_transform, vectorized": lambda p: p.map_transform(mapped_batch, vectorized=True, schema=SCHEMA),
    "filter": lambda p: p.filter(filtered),
    "stateful_transform": lambda p: p.stateful_transform("s", init_state=0, push=folded),
    "stateful_transform, vectorized": lambda p: p.stateful_transform(
        "s", init_state=0, push=folded_batch, vectorized=True, schema=SCHEMA
    ),
    "an operator of one's own": lambda p: p.pipe(Picky()),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("parallelism", [0, 2])
def test_what_a_function_raises_is_found_by_name_row_and_trace(dataset, call, parallelism):
    pipeline = CALLS[call](Pipeline(work(web=dataset))).batch(2)
    # Where a function gets whole columns it is the engine that finds the row, as it does for any operator.
    by_engine = call in ("map_transform, vectorized", "an operator of one's own")
    with fails_with("operator-failed" if by_engine else "function-failed", DataError) as found:
        numbers(inline(pipeline, parallelism=parallelism))
    error = found[0]
    assert error.what.startswith("row 5 of shard 'part-1.jsonl' of dataset 'web'")
    assert ("Picky" if "own" in call else call.partition(",")[0]) in error.what
    assert "LookupError: no 11" in error.found
    cause = error.__cause__
    while not isinstance(cause, LookupError):
        cause = cause.__cause__
    frames = [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
    assert frames[-1] == "deep_inside"


@pytest.mark.parametrize("call", CALLS)
def test_the_row_a_function_fails_on_is_dropped_alone_and_the_same_everywhere(dataset, call):
    def make():
        return CALLS[call](Pipeline(work(web=dataset))).batch(2).options(canonical_replicas=4)

    assert numbers(inline(make(), 4, on_error="skip")) == [n for n in range(24) if n != FAILS_ON]
    plain = run(make, on_error="skip")
    assert plain.skipped == {"web": 1}
    for name, chain in VARIANTS.items():
        assert run(make, chain, on_error="skip") == plain, name


def test_the_second_use_of_an_operator_is_told_from_the_first(dataset):
    pipeline = Pipeline(work(web=dataset)).map_transform(anything).map_transform(mapped).batch(2)
    with fails_with("function-failed") as found:
        numbers(inline(pipeline))
    assert "'map_transform#2'" in found[0].what
    pipeline = Pipeline(work(web=dataset))
    for push in (lambda state, row: (state, row), folded):
        pipeline.stateful_transform("s", init_state=0, push=push, schema=SCHEMA)
    with fails_with("function-failed") as found:
        numbers(inline(pipeline.batch(2)))
    assert "'stateful_transform#2'" in found[0].what


def stop(row):
    if row["n"] == FAILS_ON:
        next(iter(()))
    return row


def test_a_stop_iteration_in_a_function_ends_no_run_in_silence(dataset):
    with fails_with("function-failed", DataError):
        numbers(inline(Pipeline(work(web=dataset)).map_transform(stop).batch(2)))


@pytest.mark.parametrize("packed", [False, True])
def test_a_microbatch_its_function_fails_on_is_dropped_as_a_whole(dataset, packed):
    def tokens(row):
        return {"input_ids": [row["n"]] * 4}

    def values(batch):
        rows = batch["input_ids" if packed else "n"].to_pylist()
        return [value for row in rows for value in row] if packed else rows

    def fails_whole(batch):
        for value in values(batch):
            deep_inside(value)
        return batch

    def make():
        pipeline = Pipeline(work(web=dataset))
        if packed:
            pipeline.map_transform(tokens, schema={"input_ids": "list<int32>"}).pack_flat(8)
        return pipeline.batch(3).map_batch(fails_whole).options(canonical_replicas=2)

    field = "input_ids" if packed else "n"
    calm = Pipeline(work(web=dataset))
    if packed:
        calm.map_transform(tokens, schema={"input_ids": "list<int32>"}).pack_flat(8)
    whole = [b for b in inline(calm.batch(3)) if not b.is_filler]
    batches = [(b.lane, b.index, b[field].to_pylist()) for b in whole]
    kept = [found for found, b in zip(batches, whole, strict=True) if FAILS_ON not in values(b)]
    assert len(kept) == len(batches) - 1
    pipeline = inline(make(), on_error="skip")
    found = [(b.lane, b.index, b[field].to_pylist()) for b in pipeline if not b.is_filler]
    assert sorted(found) == sorted(kept)
    lost = next(rows for _, _, rows in batches if rows not in [rows for _, _, rows in kept])
    assert pipeline.stats()["skipped"] == {"(packed)" if packed else "web": len(lost)}
    plain = run(make, on_error="skip")
    for name, chain in VARIANTS.items():
        assert run(make, chain, on_error="skip") == plain, name
    with fails_with("operator-failed", DataError) as raised:
        list(inline(make()))
    assert "'map_batch'" in raised[0].what
    assert ("packed row" in raised[0].what) if packed else ("of dataset 'web'" in raised[0].what)
    assert isinstance(raised[0].__cause__, LookupError)


@pytest.mark.parametrize("on_error", ["raise", "skip"])  # no row is at fault, so none can be skipped
def test_a_flush_that_fails_names_its_operator_and_lane(dataset, on_error):
    def flush(state):
        raise LookupError("nothing to flush")

    def push(state, row):
        return state, row

    pipeline = Pipeline(work(web=dataset)).stateful_transform("s", init_state=0, push=push, flush=flush, schema=SCHEMA)
    with fails_with("operator-failed", EngineError) as found:
        numbers(inline(pipeline.batch(2), on_error=on_error))
    assert "'stateful_transform'" in found[0].what
    assert "lane" in found[0].what
    assert isinstance(found[0].__cause__, LookupError)


class _Broken(LaneState):
    def push(self, block):
        if FAILS_ON in block.data.column("n").to_pylist():
            raise LookupError("cannot hold it")
        return [block]

    def finish(self):
        return []

    def snapshot(self):
        return Snapshot()

    def restore(self, snapshot):
        pass


@attrs.frozen(slots=True)
class BrokenFold(LaneOperator):
    """A lane operator of the user's own."""

    emits: ClassVar[str] = "rows"

    def output_schema(self, schema):
        return schema

    def open(self, context):
        return _Broken()


def test_a_lane_operator_that_raises_is_named_with_its_lane(dataset):
    with fails_with("operator-failed", EngineError) as found:
        numbers(inline(Pipeline(work(web=dataset)).pipe(BrokenFold()).batch(2)))
    assert "BrokenFold" in found[0].what
    assert "lane" in found[0].what
    assert isinstance(found[0].__cause__, LookupError)


@attrs.frozen(slots=True)
class Impure(RowOperator):
    """Fails on blocks, but on none of their rows."""

    preserves_rows: ClassVar[bool] = True

    def output_schema(self, schema):
        return schema

    def apply(self, block):
        if len(block) > 1:
            raise LookupError("too many")
        return block


def test_an_operator_that_fails_on_a_block_but_on_no_row_is_told_to_be_impure(dataset):
    with fails_with("operator-impure", EngineError) as found:
        numbers(inline(Pipeline(work(web=dataset)).pipe(Impure()).batch(2), block_rows=4))
    assert "Impure" in found[0].what


@attrs.frozen(slots=True)
class Forgetful(RowOperator):
    """Returns other columns than it promises."""

    def output_schema(self, schema):
        return schema

    def apply(self, block):
        return block.with_data(block.data.select(["n"]))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_an_operator_that_breaks_its_promise_is_an_error_of_the_operator_not_a_bad_row(dataset, on_error):
    with fails_with("operator-schema", EngineError):
        numbers(inline(Pipeline(work(web=dataset)).pipe(Forgetful()).batch(2), on_error=on_error))


def always(row):
    raise LookupError("never works")


def always_batch(batch):
    raise LookupError("never works")


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.map_transform(always).batch(2),
        lambda p: p.map_transform(always_batch, vectorized=True).batch(2),
        lambda p: p.stateful_transform("s", init_state=0, push=lambda state, row: always(row)).batch(2),
        lambda p: p.batch(2).map_batch(always_batch),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_function_that_never_works_is_found_when_the_pipeline_is_planned(dataset, call, on_error):
    pipeline = call(Pipeline(work(web=dataset))).options(on_error=on_error)
    with fails_with("schema-not-inferable", PlanError) as found:
        pipeline.validate()
    assert "LookupError" in str(found[0])


@pytest.mark.parametrize("call", [name for name in CALLS if "given" not in name and "vectorized" not in name])
def test_rows_that_fail_among_the_first_ones_keep_no_later_function_from_being_planned(dataset, call):
    pipeline = CALLS[call](Pipeline(work(web=dataset))).map_transform(anything).batch(2).map_batch(anything)
    assert numbers(inline(pipeline, on_error="skip")) == [n for n in range(24) if n != FAILS_ON]


def test_after_an_error_nothing_is_left_running_and_what_was_delivered_can_be_saved(dataset):
    before = threading.active_count()
    pipeline = (
        Pipeline(work(web=dataset))
        .map_transform(mapped)
        .batch(2)
        .options(canonical_replicas=2, parallelism=3, tail="pad", block_rows=2)
    )
    seen = []
    with fails_with("function-failed"):
        for batch in pipeline:
            seen += [record.payload["n"] for record in batch.records]
    assert threading.active_count() == before
    resumed = inline(Pipeline(work(web=dataset)).map_transform(mapped).batch(2), on_error="skip")
    resumed.restore(pipeline.checkpoint())
    assert sorted(seen + [row["n"] for row in payloads(resumed)]) == [n for n in range(24) if n != FAILS_ON]
