"""``isolate=True``: the engine in a process of its own, and nothing else is different."""

import os
import signal
import threading
import time
import warnings
from itertools import islice

import pytest

from zephon import Pipeline
from zephon.errors import DataError, EngineError
from zephon.io import Dataset
from zephon.plugins import hookimpl, hooks_manager
from zephon.work import StaticMixtureWorkSource
from zephon_testkit import check_resume_everywhere
from zephon_testkit.leaks import leaked


def rows(count, name="text"):
    return [{"n": n, "text": f"{name} {n} " * (1 + n % 5)} for n in range(count)]


def triple(row):
    return {"n": 3 * row["n"], "text": row["text"]}


def odd(row):
    return row["n"] % 2 == 1


def fails_at_40(row):
    if row["n"] == 40:
        raise LookupError("the fortieth")
    return row


def pipeline(*, isolate=True, lanes=4, repeat=False, **options):
    datasets = [Dataset.from_dict("web", rows(90, "web")), Dataset.from_dict("code", rows(50, "code"))]
    more = {"exhausted_policy": "repeat"} if repeat else {}
    source = StaticMixtureWorkSource(datasets, {"web": 2, "code": 1}, seed=5, shuffle_block_size="global", **more)
    made = Pipeline(source).map_transform(triple).shuffle(buffer_size=12).batch(3)
    return made.options(canonical_replicas=lanes, isolate=isolate, **{"parallelism": 2, **options})


def contents(iterable):
    return [(batch.lane, batch.index, batch.is_filler, batch.to_pylist(), batch.origins) for batch in iterable]


@pytest.fixture(scope="module")
def expected():
    with pipeline(isolate=False) as plain:
        return contents(plain)


@pytest.mark.parametrize("runner", ["inline", "threads", "processes"])
def test_batches_and_counts_are_those_of_an_engine_in_this_process(expected, runner):
    with pipeline(runner=runner, parallelism=None if runner == "inline" else 2) as isolated:
        assert contents(isolated) == expected
        counted = isolated.stats()
    with pipeline(isolate=False) as plain:
        for _ in plain:
            pass
        for name in ("rounds", "batches", "rows", "passes_begun", "skipped", "operators"):
            assert counted[name] == plain.stats()[name], name
    assert counted["block_rows"] > 0


def test_a_state_taken_at_any_batch_is_that_of_an_engine_in_this_process(expected):
    with pipeline() as isolated, pipeline(isolate=False) as plain:
        ours, theirs = iter(isolated), iter(plain)
        for count in range(1, 12):
            next(ours), next(theirs)
            state = isolated.checkpoint()
            with pipeline(isolate=False).restore(state) as resumed:
                assert contents(resumed) == expected[count:]
            with pipeline().restore(plain.checkpoint()) as resumed:
                assert contents(islice(resumed, 5)) == expected[count : count + 5]


def test_it_resumes_everywhere():
    def small():
        source = StaticMixtureWorkSource([Dataset.from_dict("web", rows(11))], {"web": 1}, seed=2)
        return Pipeline(source).shuffle(buffer_size=3).batch(2).options(canonical_replicas=2)

    check_resume_everywhere(small, isolate=True, block_rows=(2,))


def test_the_ranks_agree_in_the_training_process():
    calls = []

    def agree(offer):
        calls.append((os.getpid(), threading.current_thread(), offer))
        return offer

    def made(isolate):
        source = StaticMixtureWorkSource([Dataset.from_dict("web", rows(60))], {"web": 1}, seed=2)
        filtered = Pipeline(source).filter(odd).batch(2)
        return filtered.options(canonical_replicas=4, isolate=isolate, agree=agree, dp_degree=2, dp_group_id=1)

    with made(False) as plain:
        expected = contents(plain)
    calls.clear()
    with made(True) as isolated:
        assert contents(isolated) == expected
    assert {(pid, thread) for pid, thread, _ in calls} == {(os.getpid(), threading.main_thread())}


class Observer:
    def __init__(self):
        self.seen = []

    @hookimpl
    def plan(self, plan):
        self.seen.append("plan")

    @hookimpl
    def batch(self, batch, round):
        self.seen.append("batch")

    @hookimpl
    def quarantine(self, entries):
        self.seen.append(("quarantine", [entry["row"] for entry in entries]))

    @hookimpl
    def worker_start(self, worker):
        self.seen.append("worker_start")

    @hookimpl
    def close(self, stats):
        self.seen.append("close")


def test_observers_hear_in_the_training_process_what_happens_in_the_other():
    observer = Observer()
    source = StaticMixtureWorkSource([Dataset.from_dict("web", rows(60))], {"web": 1})
    made = Pipeline(source).map_transform(fails_at_40, schema={"n": "int64", "text": "string"}).batch(2)
    with hooks_manager().register(observer), made.options(isolate=True, on_error="skip", parallelism=2) as isolated:
        batches = sum(1 for _ in isolated)
    assert observer.seen[0] == "plan"
    assert observer.seen.count("batch") == batches
    assert ("quarantine", [40]) in observer.seen
    assert "worker_start" in observer.seen
    assert observer.seen[-1] == "close"


def test_an_error_arrives_with_its_place_and_the_traceback_of_its_own_process():
    source = StaticMixtureWorkSource([Dataset.from_dict("web", rows(60))], {"web": 1})
    made = Pipeline(source).map_transform(fails_at_40, schema={"n": "int64", "text": "string"}).batch(2)
    with made.options(isolate=True, parallelism=2) as isolated, pytest.raises(DataError) as raised:
        list(isolated)
    assert raised.value.code == "function-failed"
    assert "row 40 of shard" in str(raised.value)
    notes = "".join(raised.value.__notes__)
    assert "in fails_at_40" in notes
    assert "LookupError: the fortieth" in notes


def test_what_is_warned_of_there_is_warned_of_here():
    def careless(row):
        if row["n"] == 7:
            warnings.warn("seven", UserWarning, stacklevel=1)
        return row

    source = StaticMixtureWorkSource([Dataset.from_dict("web", rows(20))], {"web": 1})
    made = Pipeline(source).map_transform(careless, schema={"n": "int64", "text": "string"}).batch(2)
    with made.options(isolate=True, runner="inline") as isolated, pytest.warns(UserWarning, match="seven"):
        list(isolated)


def children():
    with open(f"/proc/self/task/{threading.main_thread().native_id}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def test_a_lost_engine_is_an_error_that_says_so_and_the_position_outlives_it(expected):
    before = set(children())
    with pipeline(repeat=True) as isolated:
        batches = iter(isolated)
        next(batches)
        [pid] = set(children()) - before
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EngineError) as raised:
            for _ in batches:
                pass
    assert raised.value.code == "engine-lost"
    assert "signal 9" in raised.value.found


def test_closing_from_another_thread_ends_who_waits():
    def slow(row):
        time.sleep(0.2)
        return row

    source = StaticMixtureWorkSource([Dataset.from_dict("web", rows(60))], {"web": 1})
    made = Pipeline(source).map_transform(slow, schema={"n": "int64", "text": "string"}).batch(30)
    with made.options(isolate=True, runner="inline") as isolated:
        batches = iter(isolated)
        threading.Timer(1.5, isolated.close).start()
        begun = time.monotonic()
        with pytest.raises(EngineError) as raised:
            next(batches)
    assert raised.value.code == "iterator-closed"
    assert time.monotonic() - begun < 7


def test_nothing_is_left_of_a_run_that_ended_or_was_left():
    def ended():
        with pipeline() as isolated:
            list(isolated)

    def left():
        isolated = pipeline()
        next(iter(isolated))

    assert leaked(ended) == []
    assert leaked(left) == []


def test_functions_of_the_script_and_closures_work():
    factor = 7
    source = StaticMixtureWorkSource([Dataset.from_dict("web", rows(6))], {"web": 1})
    made = Pipeline(source).map_transform(lambda row: {"n": factor * row["n"]}).batch(6).options(isolate=True)
    with made as isolated:
        [batch] = isolated
    assert batch["n"].to_pylist() == [0, 7, 14, 21, 28, 35]


def test_the_other_name_of_the_option_and_what_explain_says():
    source = StaticMixtureWorkSource([Dataset.from_dict("web", rows(6))], {"web": 1})
    assert "a process of its own" in Pipeline(source).batch(2).options(mtp_mode=True).explain()
