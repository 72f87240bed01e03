"""K1: however a run ends, threads and files are given back, and an iterator that is over says so."""

import gc
import sys
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon import Pipeline
from zephon.errors import DataError, EngineError
from zephon.io import Dataset
from zephon_field_cases import delivered, descriptors, keys, numbered, settles, source, take, threads
from zephon_parquet.reader import ParquetReader

WORKERS = 3


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A dataset of two formats' worth of files, so that iterating holds some open."""
    folder = tmp_path_factory.mktemp("data")
    for number in range(4):
        table = pa.table({"n": pa.array(range(number * 100, number * 100 + 100), pa.int64())})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=10)
    Dataset.from_path("a", folder).total()  # the index is written once
    return folder


def make(files, **options):
    work = source(Dataset.from_path("a", files), seed=1, shuffle_block_size=150, exhausted_policy="repeat")
    pipeline = Pipeline(work).shuffle(5).batch(2)
    return pipeline.options(**{"canonical_replicas": 3, "parallelism": WORKERS, "prefetch_batches": 8, **options})


@pytest.fixture(scope="module")
def quick_collections():
    """What was there before these tests is left out of every collection they ask for."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def nothing_left_behind(quick_collections):
    """Fails if a test leaves threads or files behind; what it made has gone out of scope by then."""
    gc.collect()
    alive, held = threads(), descriptors()
    yield
    assert settles(threads, alive), [thread.name for thread in threading.enumerate()]
    assert settles(descriptors, held)


def running():
    """Threads of ours."""
    return [t for t in threading.enumerate() if t.name.startswith("zephon")]


pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def test_k1_a_run_has_threads_with_its_first_batch_and_none_after_its_last(files):
    pipeline = make(files, max_rounds=5)
    batches = iter(pipeline)
    assert running() == []
    next(batches)
    assert 1 < len(running()) <= WORKERS + 1
    assert len(list(batches)) == 14
    assert settles(lambda: len(running()), 0)
    assert list(batches) == [], "an iterator at its end stays at its end"


def test_k1_break_out_of_the_loop(files):
    for batch in make(files):
        assert len(batch) == 2
        break
    del batch


def test_k1_a_pipeline_that_is_kept_gives_up_its_threads_when_its_loop_is_left(files):
    pipeline = make(files)
    for _ in pipeline:
        break
    assert settles(lambda: len(running()), 0)
    assert len(keys(next(iter(pipeline)))) == 2
    pipeline.close()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_k1_an_exception_in_the_training_loop_under_deep_prefetch(files, error):
    def train(pipeline):
        for step, _ in enumerate(pipeline):
            if step == 7:
                raise error("in the loop")

    pipeline = make(files, prefetch_batches=64)
    with pytest.raises(error):
        train(pipeline)
    state = pipeline.checkpoint()
    expected = delivered(take(iter(make(files)), 12))[16:]
    assert delivered(take(iter(make(files).restore(state)), 4)) == expected, "it can be saved and gone on from"


def test_k1_with_closes_also_when_the_iterator_is_still_held(files):
    with make(files) as pipeline:
        batches = iter(pipeline)
        take(batches, 4)
        assert running()
    assert running() == [], "at once"
    with pytest.raises(EngineError) as caught:
        next(batches)
    assert caught.value.code == "iterator-closed"


@pytest.mark.parametrize("workers", [0, WORKERS])
def test_k1_close_ends_the_run_and_the_pipeline_can_be_iterated_again(files, workers):
    pipeline = make(files, parallelism=workers)
    first = iter(pipeline)
    before = delivered(take(first, 5))
    pipeline.close()
    pipeline.close()
    assert running() == []
    with pytest.raises(EngineError) as caught:
        next(first)
    assert caught.value.code == "iterator-closed"
    assert delivered(take(iter(pipeline), 5)) == before, "from the beginning"
    pipeline.close()


@pytest.mark.parametrize("workers", [0, WORKERS])
def test_k1_iterating_again_begins_anew_and_closes_the_former_iterator(files, workers):
    pipeline = make(files, parallelism=workers)
    first = iter(pipeline)
    before = delivered(take(first, 5))
    second = iter(pipeline)
    with pytest.raises(EngineError) as caught:
        next(first)
    assert caught.value.code == "iterator-closed"
    assert delivered(take(second, 5)) == before
    assert len(running()) <= WORKERS + 1
    # a notebook cell that is run twice
    for _ in range(3):
        assert delivered(batch for _, batch in zip(range(5), pipeline, strict=False)) == before
    pipeline.close()


def test_k1_the_iterators_own_close_ends_its_run_only(files):
    pipeline = make(files)
    first = iter(pipeline)
    next(first)
    second = iter(pipeline)
    next(second)
    first.close()
    assert len(keys(next(second))) == 2
    second.close()
    assert running() == []


def test_k1_an_iterator_that_is_collected_gives_everything_back(files):
    pipeline = make(files)
    batches = iter(pipeline)
    take(batches, 3)
    state = pipeline.checkpoint()
    del batches
    gc.collect()
    assert settles(lambda: len(running()), 0)
    assert pipeline.checkpoint() == state, "its position stays known"


def test_k1_a_pipeline_that_is_collected_leaves_its_iterator_running(files):
    batches = iter(make(files))
    first = delivered(take(batches, 3))
    gc.collect()
    assert len(first + delivered(take(batches, 3))) == 12


def test_k1_a_cycle_that_holds_an_iterator_is_collected_with_its_threads(files):
    holder = {}
    holder["batches"], holder["self"] = iter(make(files)), holder
    next(holder["batches"])
    assert running()
    del holder
    gc.collect()
    assert settles(lambda: len(running()), 0)


def test_k1_restoring_ends_the_run_that_was_on(files):
    pipeline = make(files)
    batches = iter(pipeline)
    take(batches, 4)
    pipeline.restore(pipeline.checkpoint())
    assert running() == []
    with pytest.raises(EngineError) as caught:
        next(batches)
    assert caught.value.code == "iterator-closed"
    rest = delivered(take(iter(pipeline), 3))
    assert rest == delivered(take(iter(make(files)), 7))[8:]
    pipeline.close()


def test_k1_changing_a_pipeline_ends_the_run_that_was_on(files):
    pipeline = make(files)
    batches = iter(pipeline)
    next(batches)
    pipeline.options(prefetch_batches=2)
    assert running() == []
    with pytest.raises(EngineError) as caught:
        next(batches)
    assert caught.value.code == "iterator-closed"


def test_k1_a_failure_in_a_worker_ends_the_run(files):
    def fails(row):
        if row["n"] % 50 == 3:
            raise ValueError("bad")
        return row

    work = source(Dataset.from_path("a", files), seed=1)
    pipeline = Pipeline(work).map_transform(fails, schema={"n": "int64"}).batch(2)
    pipeline.options(canonical_replicas=2, parallelism=WORKERS)
    batches = iter(pipeline)
    with pytest.raises(DataError):
        list(batches)
    assert running() == []
    with pytest.raises(EngineError) as caught:
        next(batches)
    assert caught.value.code == "iterator-closed"


@pytest.mark.parametrize("where", ["row", "fold", "batch"])
def test_k1_ctrl_c_in_the_users_function_on_this_thread_loses_nothing(where):
    """The iterator is over; what was received counts, and a restored pipeline goes on behind it."""
    pressed = []

    def at_37(value):
        if not pressed and 37 in (value["n"] if where == "batch" else [value["n"]]):
            pressed.append(True)
            raise KeyboardInterrupt
        return value

    def interrupted():
        schema = pa.schema({"n": pa.int64()})
        pipeline = Pipeline(source(numbered("a", 100), shuffle_shards=False))
        if where == "row":
            pipeline.map_transform(at_37, schema=schema)
        if where == "fold":
            pipeline.stateful_transform("f", init_state=0, push=lambda s, r: (s, [at_37(r)]), schema=schema)
        pipeline.batch(2)
        if where == "batch":
            pipeline.map_batch(lambda b: b if at_37({"n": b["n"].to_pylist()}) else None, schema=schema)
        return pipeline.options(parallelism=0, block_rows=8)

    pipeline = interrupted()
    batches = iter(pipeline)
    seen = []
    with pytest.raises(KeyboardInterrupt):
        seen.extend(keys(batch) for batch in batches)
    with pytest.raises(EngineError) as caught:
        next(batches)
    assert caught.value.code == "iterator-closed"
    seen += [keys(batch) for batch in interrupted().restore(pipeline.checkpoint())]
    assert pressed
    assert seen == [keys(batch) for batch in interrupted()]
    assert sum(map(len, seen)) == 100


@pytest.mark.parametrize("workers", [0, 1])
def test_k1_close_from_another_thread_wakes_a_consumer_that_waits(workers):
    stuck, entered = threading.Event(), threading.Event()

    def slow(row):
        entered.set()
        stuck.wait(10)
        return row

    work = source(numbered("a", 100), exhausted_policy="repeat")
    pipeline = Pipeline(work).map_transform(slow, schema={"n": "int64"}).batch(2).options(parallelism=workers)
    ended = consumed_until_closed(pipeline)
    assert entered.wait(10)
    threading.Timer(0.1, stuck.set).start()
    pipeline.close()
    assert ended() == "iterator-closed"


@pytest.mark.parametrize("workers", [0, WORKERS])
def test_k1_close_from_another_thread_at_any_moment_is_an_end_like_any_other(files, workers, quick_switches):
    for wait in (0, 0, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.01, 0.03):
        pipeline = make(files, parallelism=workers)
        pipeline.validate()
        ended = consumed_until_closed(pipeline)
        time.sleep(wait)
        while pipeline.stats()["rounds"] == 0 and wait > 0.005:
            time.sleep(0.001)
        # the consumer may not have begun yet: then there is nothing to close, and once more
        while (code := ended(0.01)) is None:
            pipeline.close()
        assert code == "iterator-closed"
        assert running() == []


def test_k1_close_from_another_thread_while_the_run_is_starting_waits_for_something_whole_to_close(files, monkeypatch):
    starting = threading.Event()

    class StartsSlowly(threading.Thread):
        def start(self):
            if self.name == "zephon-coordinator":
                starting.set()
                time.sleep(0.1)
            super().start()

    pipeline = make(files)
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Thread", StartsSlowly)
        ended = consumed_until_closed(pipeline)
        assert starting.wait(10)
        pipeline.close()
    assert ended() == "iterator-closed"
    assert running() == []


@pytest.fixture
def quick_switches():
    """Threads take turns so often that every order of their steps comes up."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def consumed_until_closed(pipeline):
    """Iterate on a thread of its own; returns what waits for the code of the error that ended it."""
    codes = []

    def consume():
        try:
            for _ in pipeline:
                pass
        except EngineError as error:
            codes.append(error.code)

    consumer = threading.Thread(target=consume, daemon=True)
    consumer.start()

    def ended(timeout=10.0):
        consumer.join(timeout)
        return codes[0] if codes and not consumer.is_alive() else None

    return ended


def test_k1_every_shard_reader_that_was_opened_is_closed_again(files, monkeypatch):
    opened = []
    make_reader = ParquetReader.__init__
    close_reader = ParquetReader.close

    def opens(self, *args, **kwargs):
        opened.append(self)
        make_reader(self, *args, **kwargs)

    def closes(self):
        opened.remove(self)
        close_reader(self)

    monkeypatch.setattr(ParquetReader, "__init__", opens)
    monkeypatch.setattr(ParquetReader, "close", closes)
    for end in (lambda pipeline, batches: pipeline.close(), lambda pipeline, batches: batches.close()):
        pipeline = make(files)
        batches = iter(pipeline)
        take(batches, 30)
        assert opened
        end(pipeline, batches)
        assert settles(lambda: len(opened), 0)


def test_k1_100_evaluation_iterators_made_and_dropped(files):
    pipeline = make(files, parallelism=1, prefetch_batches=1, block_rows=4)
    expected = delivered([next(iter(pipeline))])
    alive, held = threads(), descriptors()
    for _ in range(100):
        assert delivered([next(iter(pipeline))]) == expected
    assert settles(threads, alive)
    assert settles(descriptors, held)
    pipeline.close()


def test_k1_evaluation_pipelines_made_and_dropped_beside_a_training_run(files):
    training = make(files)
    batches = iter(training)
    take(batches, 3)
    alive, held = threads(), descriptors()
    for _ in range(20):
        evaluation = Pipeline(source(Dataset.from_path("held-out", files))).batch(4).options(parallelism=1)
        take(iter(evaluation), 2)
        del evaluation
    assert settles(threads, alive)
    # the training run opens and closes shards of its own meanwhile
    assert settles(descriptors, held + 4)
    assert len(delivered(take(batches, 9))) == 18
    training.close()


def test_k1_iterators_that_were_never_asked_cost_nothing(files):
    pipeline = make(files)
    alive, held = threads(), descriptors()
    iterators = [iter(pipeline) for _ in range(20)]
    assert (threads(), descriptors()) == (alive, held)
    begun = time.monotonic()
    del iterators
    pipeline.close()
    assert time.monotonic() - begun < 5
