"""Observers of a run hear of everything once, with the arguments of the hook specifications, and change nothing."""

import gc
import inspect
import itertools
import json
import threading
import time
import warnings

import pytest

from zephon import Pipeline
from zephon.block import Block
from zephon.cli.rounds import Fleet, round_digest, row_digests
from zephon.io import Dataset
from zephon.plugins import hookimpl, hooks, hooks_manager, hookspecs
from zephon.plugins.manager import HOOKS, HookManager
from zephon_fault_files import VARIANTS, entries, fails_with, inline, jsonl, numbers, run, work


class Recorder:
    """Writes down every event with the thread it came on."""

    def __init__(self):
        self.events = []

    def of(self, *hooks):
        """Arguments of the events of these hooks, in order."""
        return [event for hook, event, _ in self.events if hook in hooks]

    def names(self):
        """Hooks, in order."""
        return [hook for hook, *_ in self.events]

    @hookimpl
    def plan(self, run, plan):
        self._add("plan", run=run, plan=plan)

    @hookimpl
    def block(self, run, stage, block):
        self._add("block", run=run, stage=stage, block=block)

    @hookimpl
    def batch(self, run, round, batch):
        self._add("batch", run=run, round=round, batch=batch)

    @hookimpl
    def checkpoint(self, run, round, state):
        self._add("checkpoint", run=run, round=round, state=state)

    @hookimpl
    def quarantine(self, run, entries):
        self._add("quarantine", run=run, entries=entries)

    @hookimpl
    def worker_start(self, run, runner, worker):
        self._add("worker_start", run=run, runner=runner, worker=worker)

    @hookimpl
    def worker_stop(self, run, runner, worker, reason):
        self._add("worker_stop", run=run, runner=runner, worker=worker, reason=reason)

    @hookimpl
    def close(self, run, stats):
        self._add("close", run=run, stats=stats)

    def _add(self, hook, **event):
        self.events.append((hook, event, threading.current_thread().name))


@pytest.fixture
def recorder():
    found = Recorder()
    with hooks_manager().register(found):
        yield found


@pytest.fixture
def dataset(tmp_path):
    """Forty rows, of which number 13 is malformed."""
    return Dataset.from_path("web", jsonl(tmp_path / "data", [22, 18], {13: b"{"}))


def twice(row):
    return {**row, "n": row["n"] + 100}


def make(dataset, **options):
    """A run of three programs: rows are read, worked on, and worked on again as microbatches."""
    pipeline = Pipeline(work(web=dataset)).shuffle(9).map_transform(twice).batch(2).map_batch(same)
    return inline(pipeline, **{"on_error": "skip", **options})


def same(batch):
    return batch


def test_the_recorder_listens_to_every_hook_with_all_its_arguments():
    for hook in HOOKS:
        wanted = list(inspect.signature(getattr(hookspecs, hook)).parameters)
        assert list(inspect.signature(getattr(Recorder, hook)).parameters)[1:] == wanted


@pytest.mark.parametrize("parallelism", [0, 3])
def test_an_observer_hears_of_a_run_from_its_plan_to_its_close(dataset, recorder, parallelism):
    pipeline = make(dataset, parallelism=parallelism, block_rows=4)
    batches = list(pipeline)
    names = recorder.names()
    assert names[0] == "plan"
    assert names[-1] == "close"
    assert names.count("plan") == names.count("close") == 1
    assert "checkpoint" not in names
    plan = recorder.of("plan")[0]["plan"]
    json.dumps(plan)
    assert plan["datasets"][0]["rows"] == 40
    assert [o["name"] for o in plan["operators"]] == ["shuffle", "map_transform", "batch", "map_batch"]
    announced = recorder.of("batch")
    assert [event["batch"] for event in announced] == batches
    assert [event["round"] for event in announced] == [i // 2 for i in range(len(batches))]
    stats = recorder.of("close")[0]["stats"]
    json.dumps(stats)
    assert stats == pipeline.stats()
    assert stats["rows"] == {"web": 39}
    assert {thread for hook, _, thread in recorder.events if hook in ("plan", "batch", "close")} == {"MainThread"}
    assert len({event["run"] for _, event, _ in recorder.events}) == 1


@pytest.mark.parametrize("parallelism", [0, 3])
def test_each_worker_starts_and_stops_once_under_the_registered_name_of_its_runner(dataset, recorder, parallelism):
    list(make(dataset, parallelism=parallelism, block_rows=2))
    started, stopped = recorder.of("worker_start"), recorder.of("worker_stop")
    workers = [event["worker"] for event in started]
    assert len(set(workers)) == len(workers)
    assert sorted(workers) == sorted(event["worker"] for event in stopped)
    assert 1 <= len(workers) <= max(1, parallelism)
    assert {event["runner"] for event in started + stopped} == {"threads" if parallelism else "inline"}
    assert {event["reason"] for event in stopped} == {""}
    names = recorder.names()
    first_block = names.index("block")
    assert "worker_start" in names[:first_block]
    assert all(i > len(names) - 2 - len(workers) for i, name in enumerate(names) if name == "worker_stop")
    if parallelism:
        assert all(event["worker"] == thread for hook, event, thread in recorder.events if hook == "worker_start")


def test_every_row_read_is_in_one_block_of_the_first_stage_and_goes_on_in_the_next(dataset, recorder):
    batches = list(make(dataset, block_rows=4))
    stages = {0: [], 1: [], 2: []}
    for event in recorder.of("block"):
        assert isinstance(event["block"], Block)
        stages[event["stage"]].append(event["block"])
    read = sorted(n for block in stages[0] for n in block.data.column("n").to_pylist())
    assert read == [n for n in range(40) if n != 13]
    assert sorted(n for block in stages[1] for n in block.data.column("n").to_pylist()) == [n + 100 for n in read]
    assert sorted(len(block) for block in stages[2]) == sorted(
        int(b.row_mask.sum()) for b in batches if not b.is_filler
    )


@pytest.mark.parametrize("chain", VARIANTS)
def test_an_observer_changes_no_round_of_any_run(dataset, chain):
    def unfinished():
        return Pipeline(work(web=dataset)).shuffle(9).map_transform(twice).batch(2).options(canonical_replicas=4)

    calm = run(unfinished, VARIANTS[chain], on_error="skip")
    recorder = Recorder()
    with hooks_manager().register(recorder):
        assert run(unfinished, VARIANTS[chain], on_error="skip") == calm
    assert len(recorder.of("close")) == len(recorder.of("plan")) > 0


def test_without_an_observer_no_hook_is_called_and_none_is_asked(dataset, monkeypatch):
    def never(self, *args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(HookManager, "call", never)
    monkeypatch.setattr(HookManager, "has", never)
    assert hooks() is None
    pipeline = make(dataset, parallelism=2)
    assert len(numbers(pipeline)) == 39
    pipeline.checkpoint()


def test_an_observer_hears_only_what_it_listens_to(dataset):
    class Rounds:
        seen = ()

        @hookimpl
        def batch(self, round):
            self.seen = (*self.seen, round)

    rounds = Rounds()
    with hooks_manager().register(rounds):
        count = len(list(make(dataset)))
    assert rounds.seen == tuple(i // 2 for i in range(count))


def test_an_observer_that_comes_late_hears_of_the_next_iteration(dataset):
    pipeline = make(dataset)
    iterator = iter(pipeline)
    next(iterator)
    late = Recorder()
    with hooks_manager().register(late):
        list(iterator)
        assert late.events == []
        list(pipeline)
        assert late.names()[0] == "plan"
    list(pipeline)
    assert late.names()[-1] == "close"


def test_runs_side_by_side_are_told_apart_by_number(dataset, recorder):
    training, evaluation = make(dataset), make(dataset)
    for _ in itertools.zip_longest(iter(training), iter(evaluation)):
        pass
    list(training)
    runs = [event["run"] for event in recorder.of("plan")]
    assert len(set(runs)) == 3
    assert sorted(event["run"] for event in recorder.of("close")) == sorted(runs)
    assert runs == sorted(runs)


def test_a_state_is_announced_as_it_is_returned_with_the_round_it_stands_in(dataset, recorder):
    pipeline = make(dataset)
    iterator = iter(pipeline)
    rounds = []
    states = []
    for taken in range(5):
        states.append(pipeline.checkpoint())
        rounds.append(taken // 2)
        next(iterator)
    announced = recorder.of("checkpoint")
    assert [event["state"] for event in announced] == states
    assert [event["round"] for event in announced] == rounds
    recorder.events.clear()
    resumed = make(dataset).restore(states[4])
    list(resumed)
    assert recorder.of("batch")[0]["round"] == 2


@pytest.mark.parametrize("action", ["skip", "quarantine"])
def test_rows_set_aside_are_announced_once_with_what_the_file_says(tmp_path, dataset, recorder, action):
    on_error = {"action": action, "path": str(tmp_path / "aside")} if action == "quarantine" else "skip"
    list(make(dataset, on_error=on_error))
    (event,) = recorder.of("quarantine")
    (entry,) = event["entries"]
    json.dumps(entry)
    assert (entry["dataset"], entry["shard"], entry["row"], entry["epoch"]) == ("web", "part-0.jsonl", 13, 0)
    assert entry["where"] == "read"
    assert "JSON" in entry["reason"]
    if action == "quarantine":
        assert entries(tmp_path / "aside") == [entry]
        recorder.events.clear()
        list(make(dataset, on_error=on_error))  # what is written already is no news
        assert recorder.of("quarantine") == []


def test_of_groups_that_share_a_lane_one_announces_its_rows(dataset, recorder):
    fleet = Fleet(
        lambda: Pipeline(work(web=dataset)).batch(4).options(canonical_replicas=2),
        8,
        agree=True,
        parallelism=0,
        tail="pad",
        on_error="skip",
    )
    try:
        fleet.rounds(100)
    finally:
        fleet.close()
    assert len(recorder.of("quarantine")) == 1


def test_fillers_are_announced_too(dataset, recorder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = (
            Pipeline(work(web=dataset))
            .batch(2)
            .options(
                canonical_replicas=3,
                dp_degree=2,
                dp_group_id=0,
                uneven="pad",
                max_rounds=3,
                on_error="skip",
                parallelism=0,
            )
        )
        batches = list(pipeline)
    announced = recorder.of("batch")
    assert [event["batch"] for event in announced] == batches
    assert [event["round"] for event in announced] == [0, 0, 1, 1, 2, 2]
    assert [batch.is_filler for batch in batches] == [False, True] * 3


@pytest.mark.parametrize("how", ["break", "close", "collected", "again"])
@pytest.mark.parametrize("parallelism", [0, 2])
def test_a_run_that_is_broken_off_is_closed_once_and_its_workers_stop(dataset, recorder, how, parallelism):
    pipeline = make(dataset, parallelism=parallelism)
    iterator = iter(pipeline)
    next(iterator)
    if how == "close":
        pipeline.close()
        pipeline.close()
    elif how == "again":
        iter(pipeline).close()
    else:
        if how == "break":
            iterator.close()
        del iterator
        gc.collect()
    assert recorder.names().count("close") == 1
    assert len(recorder.of("worker_start")) == len(recorder.of("worker_stop")) > 0
    assert recorder.names()[-1] == "close"


def test_a_pipeline_that_never_ran_announces_no_run(dataset, recorder):
    pipeline = make(dataset)
    pipeline.validate().explain()
    pipeline.stats()
    iter(pipeline)
    pipeline.close()
    assert recorder.events == []


# -- observers that raise ----------------------------------------------------------------------------------------------


class Fault(Exception):
    """What an observer raises."""


def doing(hook, action):
    """An observer of one hook."""
    arguments = ", ".join(inspect.signature(getattr(hookspecs, hook)).parameters)
    scope = {"action": action, "hookimpl": hookimpl}
    exec(f"class Doing:\n    @hookimpl\n    def {hook}(self, {arguments}):\n        action()", scope)
    return scope["Doing"]()


def raising(hook, when):
    """An observer that raises at its event of this number."""
    count = itertools.count()

    def action():
        if next(count) == when:
            raise Fault(hook)

    return doing(hook, action)


@pytest.mark.parametrize("parallelism", [0, 2])
@pytest.mark.parametrize(
    ("hook", "when"),
    [("plan", 0), ("block", 0), ("block", 5), ("batch", 0), ("batch", 7), ("quarantine", 0), ("worker_start", 0)],
)
def test_an_observer_that_raises_ends_the_run_and_nothing_is_lost_by_it(dataset, hook, when, parallelism):
    whole = [row_digests(batch) for batch in make(dataset)]
    before = threading.active_count()
    recorder = Recorder()
    stopped = make(dataset, parallelism=parallelism, block_rows=4)
    seen = []
    with hooks_manager().register(recorder), hooks_manager().register(raising(hook, when)):
        iterator = iter(stopped)
        with pytest.raises(Fault):
            seen.extend(map(row_digests, iterator))
        assert recorder.names()[-1] == "close"
        assert threading.active_count() == before
        assert len(recorder.of("worker_start")) == len(recorder.of("worker_stop"))
        with fails_with("iterator-closed"):
            next(iterator)
        state = stopped.checkpoint()
    resumed = make(dataset).restore(state)
    rest = [row_digests(batch) for batch in resumed]
    assert seen + rest == whole


def test_an_observer_that_raises_on_a_state_ends_the_run_too_and_the_state_can_be_had_again(dataset):
    pipeline = make(dataset)
    with hooks_manager().register(raising("checkpoint", 0)):
        iterator = iter(pipeline)
        seen = [row_digests(next(iterator))]
        with pytest.raises(Fault):
            pipeline.checkpoint()
        with fails_with("iterator-closed"):
            next(iterator)
    rest = [row_digests(batch) for batch in make(dataset).restore(pipeline.checkpoint())]
    assert seen + rest == [row_digests(batch) for batch in make(dataset)]


@pytest.mark.parametrize("parallelism", [0, 2])
@pytest.mark.parametrize("hook", ["plan", "worker_start", "block", "batch", "quarantine"])
def test_an_observer_may_close_the_run_it_observes(dataset, hook, parallelism):
    pipeline = make(dataset, parallelism=parallelism, block_rows=4)
    recorder = Recorder()
    before = threading.active_count()
    with hooks_manager().register(recorder), hooks_manager().register(doing(hook, pipeline.close)):
        iterator = iter(pipeline)
        seen = []
        with fails_with("iterator-closed"):
            seen.extend(map(row_digests, iterator))
        # Whoever closes may be another thread, which is still at it.
        eventually(lambda: "close" in recorder.names() and threading.active_count() == before)
    assert recorder.names().count("close") == 1
    whole = [row_digests(batch) for batch in make(dataset)]
    rest = [row_digests(batch) for batch in make(dataset).restore(pipeline.checkpoint())]
    assert rest == whole[len(seen) :]


def eventually(condition):
    """Wait for something another thread is about to do."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_digests_of_rounds_see_every_value(dataset):
    """The tests above compare digests: a changed value has to change one."""
    batch = next(iter(make(dataset)))
    other = next(iter(inline(Pipeline(work(web=dataset)).shuffle(9).batch(2), on_error="skip")))
    assert batch.origins == other.origins
    assert row_digests(batch) != row_digests(other)
    assert round_digest({0: row_digests(batch)}) != round_digest({0: row_digests(other)})
