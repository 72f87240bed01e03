"""``runner="auto"``: the choice is made from facts and measurement, can be seen, and never shows in the data."""

import hashlib
import threading
import time
from itertools import islice

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.abc import RowOperator
from zephon.cli.rounds import row_digests
from zephon.engine import auto, choosing, meter
from zephon.engine.choosing import gain, load
from zephon.engine.meter import Costs
from zephon.io import Dataset
from zephon.spec import execution
from zephon.work import StaticMixtureWorkSource

# Functions here are heavy on purpose: on a slow machine one may be at work for longer than close() waits.
pytestmark = pytest.mark.filterwarnings("ignore:.* still busy:RuntimeWarning")

SCHEMA = {"n": "int64", "digest": "string"}
PATIENCE = 60.0


def heavy(row):
    """About a millisecond with the interpreter lock held."""
    value = row["n"]
    for i in range(12_000):
        value = (value * 31 + i) & 0xFFFF
    return {"n": row["n"], "digest": hashlib.blake2b(str(value).encode(), digest_size=8).hexdigest()}


def light(row):
    return {"n": row["n"], "digest": str(row["n"])}


def heavy_vectorized(batch):
    time.sleep(0.02)  # what a call into code that releases the lock looks like from here
    return pa.RecordBatch.from_arrays([batch["n"], pc.cast(batch["n"], pa.string())], names=["n", "digest"])


@attrs.frozen(slots=True)
class Undeclared(RowOperator):
    """Works in Python, and does not say so."""

    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)
    preserves_rows = True

    def output_schema(self, schema):
        return schema

    def apply(self, block):
        for n in block.data["n"].to_pylist():
            heavy({"n": n})
        return block


@pytest.fixture(autouse=True)
def _short_windows(monkeypatch):
    monkeypatch.setattr(meter, "WINDOW_SECONDS", 0.3)


@pytest.fixture
def source():
    """Endless rows."""
    dataset = Dataset.from_dict("web", pa.table({"n": list(range(5000))}))
    return StaticMixtureWorkSource([dataset], {"web": 1.0}, seed=4, exhausted_policy="repeat")


def mapped(source, fn=heavy, **settings):
    return Pipeline(source).map_transform(fn, schema=SCHEMA, drop_none=False, **settings)


def options(pipeline, **changed):
    settings = {"canonical_replicas": 2, "parallelism": 2, "memory_limit": "2GiB", **changed}
    return pipeline.batch(4).options(**settings)


def stages(pipeline):
    return pipeline.stats()["runners"]


def stage(pipeline):
    (found,) = stages(pipeline).values()
    return found


def delivered_until(pipeline, done, *, iterator=None, pause=0.0, after=40):
    """The digests of what is delivered until ``done(where the one stage runs)``, and of some batches more."""
    iterator = iterator or iter(pipeline)
    digests, deadline = [], time.monotonic() + PATIENCE
    while not done(stage(pipeline)):
        assert time.monotonic() < deadline, stage(pipeline)
        digests += row_digests(next(iterator))
        time.sleep(pause)
    for batch in islice(iterator, after):
        digests += row_digests(batch)
    return digests


def inline(pipeline, rows):
    """The digests of so many rows, made on the calling thread."""
    with options(pipeline, parallelism=0) as made:
        digests = []
        for batch in made:
            digests += row_digests(batch)
            if len(digests) >= rows:
                return digests
    raise AssertionError("the data has ended")


def moved(found):
    return found["runner"] == "processes"


def measured(found):
    return "measured:" in found["reason"] or moved(found)


# ------------------------------------------------------------------ the choice


def test_a_heavy_python_map_moves_to_processes_and_delivers_what_inline_delivers(source):
    with options(mapped(source)) as pipeline:
        digests = delivered_until(pipeline, moved)
        assert list(stages(pipeline)) == ["read + map_transform"]
        assert "map_transform holds the interpreter lock; measured: processes are" in stage(pipeline)["reason"]
    assert digests == inline(mapped(source), len(digests))[: len(digests)]


def test_an_operator_that_says_nothing_is_measured(source):
    with options(Pipeline(source).pipe(Undeclared())) as pipeline:
        iterator = iter(pipeline)
        next(iterator)
        assert "does not say" in stage(pipeline)["reason"]
        delivered_until(pipeline, moved)
        assert "Undeclared does not say whether it does; measured: processes are" in stage(pipeline)["reason"]


def test_a_function_of_record_batches_stays_on_threads_and_nothing_is_measured(source):
    with options(mapped(source, heavy_vectorized, vectorized=True)) as pipeline:
        for _ in zip(range(300), pipeline, strict=False):
            assert not [t for t in threading.enumerate() if t.name == "zephon-lock-probe"]
        assert stage(pipeline) == {"runner": "threads", "reason": "nothing in it holds the interpreter lock"}


def test_a_python_map_that_keeps_up_with_the_training_loop_stays_on_threads(source):
    with options(mapped(source, light)) as pipeline:
        delivered_until(pipeline, measured, pause=0.02)
        assert stage(pipeline)["runner"] == "threads"
        assert "they are fast enough" in stage(pipeline)["reason"]


def test_stages_are_chosen_for_one_by_one(source):
    pipeline = Pipeline(source).filter(pc.field("n") >= 0).shuffle(8).map_transform(heavy, schema=SCHEMA)
    with options(pipeline) as made:
        deadline = time.monotonic() + PATIENCE
        for _ in made:
            if stages(made)["map_transform"]["runner"] == "processes":
                break
            assert time.monotonic() < deadline, stages(made)
        assert {label: found["runner"] for label, found in stages(made).items()} == {
            "read + filter": "threads",
            "map_transform": "processes",
        }


def test_what_cannot_be_sent_stays_on_threads_and_says_so(source):
    lock = threading.Lock()

    def locked(row):
        assert lock is not None
        return heavy(row)

    with options(mapped(source, locked)) as pipeline:
        digests = delivered_until(pipeline, lambda found: "cannot run it" in found["reason"])
        assert stage(pipeline)["runner"] == "threads"
        assert "not-sendable" in stage(pipeline)["reason"]
        assert [t.name for t in threading.enumerate() if t.name == "zephon-processes"] == []
    assert digests == inline(mapped(source), len(digests))[: len(digests)]


def test_a_long_setup_is_not_repeated_in_processes(source, monkeypatch):
    monkeypatch.setattr(auto, "LONG_SETUP", 0.0)
    with options(mapped(source)) as pipeline:
        delivered_until(pipeline, lambda found: "its setup takes" in found["reason"])
        assert stage(pipeline)["runner"] == "threads"


@pytest.mark.parametrize(
    ("settings", "runner", "reason"),
    [
        ({"parallelism": 0}, "inline", "parallelism=0"),
        ({"parallelism": 1}, "threads", "there is one worker"),
        ({"memory_limit": "100MB"}, "threads", "memory_limit has no room for two processes"),
        ({"runner": "threads"}, "threads", "as set"),
        ({"runner": "threads", "parallelism": 0}, "inline", "parallelism=0"),
        ({"runner": "processes"}, "processes", "as set"),
    ],
    ids=["on the calling thread", "one worker", "little memory", "threads", "threads, none", "processes"],
)
def test_where_there_is_nothing_to_choose_the_reason_is_told(source, settings, runner, reason):
    with options(mapped(source), **settings) as pipeline:
        told = pipeline.explain()
        next(iter(pipeline))
        assert stage(pipeline)["runner"] == runner
        assert reason in stage(pipeline)["reason"]
    assert f"read + map_transform: {runner}; " in told
    assert reason in told


def test_without_other_runners_installed_the_choice_is_what_there_is(source, monkeypatch):
    real = choosing.registry

    class Few:
        def __init__(self, *names):
            self.found = names

        def names(self):
            return self.found

    with options(mapped(source)) as pipeline:
        monkeypatch.setattr(choosing, "registry", lambda _: Few("inline", "threads"))
        assert "zephon-processes, which would use more cores, is not installed" in pipeline.explain()
        monkeypatch.setattr(choosing, "registry", lambda _: Few("inline"))
        assert "read + map_transform: inline; zephon-threads is not installed" in pipeline.explain()
        monkeypatch.setattr(choosing, "registry", real)


def test_explain_says_what_is_declared_and_that_the_rest_is_measured(source):
    with options(mapped(source)) as pipeline:
        assert "map_transform holds the interpreter lock; moves to processes if measurement" in pipeline.explain()


# ------------------------------------------------------------------ the rule

COSTS = st.builds(
    Costs,
    tasks=st.integers(1, 1000),
    cpu=st.floats(1e-3, 100),
    nbytes=st.integers(0, 1 << 34),
    seconds=st.floats(0.1, 100),
    busy=st.floats(0, 16),
    lock=st.floats(0, 1),
)


@given(COSTS, st.integers(2, 16))
def test_processes_never_pay_where_the_lock_is_free(costs, workers):
    assert gain(costs._replace(lock=0.0), workers, workers) <= 1


@given(COSTS, st.integers(2, 16))
def test_processes_gain_no_more_than_their_number_and_less_the_more_is_sent(costs, workers):
    assert gain(costs, workers, workers) <= workers * (1 + 1e-9)
    assert gain(costs._replace(nbytes=costs.nbytes + (1 << 20)), workers, workers) <= gain(costs, workers, workers)


@given(st.floats(1e-2, 10), st.integers(2, 16))
def test_small_rows_and_a_lock_that_is_always_taken_gain_nearly_all(cpu, workers):
    costs = Costs(tasks=1, cpu=cpu, nbytes=1000, seconds=cpu, busy=workers, lock=1.0)
    assert gain(costs, workers, workers) > 0.5 * workers


@given(COSTS, st.integers(2, 16), st.floats(0, 0.6))
def test_threads_that_wait_for_work_are_not_at_their_limit(costs, workers, share):
    idle = costs._replace(busy=share * workers, cpu=share * costs.seconds)
    assert load(idle, workers) <= share * (1 + 1e-9)
    assert load(costs._replace(busy=workers), workers) >= 1


# ------------------------------------------------------------------ the lock


@pytest.mark.parametrize("held", [True, False], ids=["held", "free"])
def test_the_probe_tells_a_lock_that_is_held_from_one_that_is_free(held):
    probe, done = meter.LockProbe(), threading.Event()

    def work():
        while not done.is_set():
            if held:
                heavy({"n": 1})
            else:
                time.sleep(0.001)

    worker = threading.Thread(target=work)
    worker.start()
    probe.start()
    time.sleep(0.5)
    probe.stop()
    done.set()
    worker.join()
    share = probe.waits / probe.samples
    assert share > 0.6 if held else share < 0.4


# ------------------------------------------------------------------ the end


@pytest.mark.parametrize("when", ["before it moves", "while it tries", "after it moved"])
def test_closing_at_any_time_leaves_no_thread_and_no_process(source, when):
    pipeline = options(mapped(source))
    done = {
        "before it moves": lambda _: True,
        "while it tries": lambda _: "zephon-processes" in {t.name for t in threading.enumerate()},
        "after it moved": moved,
    }[when]
    delivered_until(pipeline, done, after=1)
    begun = time.monotonic()
    pipeline.close()
    assert time.monotonic() - begun < 5
    assert [t.name for t in threading.enumerate() if t.name.startswith("zephon-")] == []


def test_a_checkpoint_of_a_run_that_has_moved_resumes_inline(source):
    with options(mapped(source)) as pipeline:
        iterator = iter(pipeline)
        delivered_until(pipeline, moved, iterator=iterator, after=3)
        state = pipeline.checkpoint()
        expected = [row_digests(batch) for batch in islice(iterator, 20)]
    with options(mapped(source), parallelism=0) as resumed:
        resumed.restore(state)
        assert [row_digests(batch) for batch in islice(resumed, 20)] == expected
