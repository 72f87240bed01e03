"""Checkpoints that do not fit are refused whole; workers that are lost cost nothing but time, until too many are."""

import json
import threading
from concurrent.futures import Future

import pytest

from zephon import Pipeline
from zephon.abc import Runner, RunnerFacts
from zephon.checkpoint import DirectoryStore
from zephon.cli.rounds import Fleet
from zephon.errors import CheckpointError, WorkerError
from zephon.io import Dataset
from zephon.plugins import RunnerDescriptor, register
from zephon_fault_files import fails_with, inline, jsonl, numbers, run, work

ROWS = 40


@pytest.fixture
def dataset(tmp_path):
    return Dataset.from_path("web", jsonl(tmp_path / "data", [22, 18]))


def make(dataset, **options):
    return inline(Pipeline(work(web=dataset)).shuffle(6).batch(2), 4, **options)


@pytest.fixture
def state(dataset):
    """A state in the middle of a run, and what was delivered before it."""
    pipeline = make(dataset)
    iterator = iter(pipeline)
    seen = [record.payload["n"] for _ in range(8) for record in next(iterator).records]
    return pipeline.checkpoint(), seen


def header(state, **changes):
    """The state with another header."""
    return {**state, "header": json.dumps({**json.loads(state["header"]), **changes}).encode()}


def cut(state, size):
    """The state with one lane cut short."""
    return {**state, "lanes": {**state["lanes"], "00002": state["lanes"]["00002"][:size]}}


def without(state, *lanes):
    return {**state, "lanes": {key: data for key, data in state["lanes"].items() if key not in lanes}}


@pytest.mark.parametrize(
    ("spoil", "code", "named"),
    [
        (lambda state: header(state, zephon_checkpoint=99), "checkpoint-newer", "99"),
        (lambda state: {**state, "header": state["header"][:-20]}, "checkpoint-corrupt", "header"),
        (lambda state: {**state, "header": b"{}"}, "checkpoint-corrupt", "header"),
        (lambda state: cut(state, -1), "checkpoint-corrupt", "checksum"),
        (lambda state: cut(state, 10), "checkpoint-corrupt", "10 bytes"),
        (lambda state: cut(state, 0), "checkpoint-corrupt", "0 bytes"),
        (lambda state: without(state, "00001", "00003"), "checkpoint-incomplete", "lanes 1, 3"),
        (lambda state: without(state, *state["lanes"]), "checkpoint-incomplete", "lanes 0-3"),
        (lambda state: {"lanes": {}}, "checkpoint-corrupt", "dict"),
        (lambda state: [], "checkpoint-corrupt", "list"),
        (lambda state: b"state", "checkpoint-corrupt", "bytes"),
    ],
)
def test_a_state_that_is_damaged_newer_or_incomplete_is_refused_and_nothing_of_it_is_loaded(
    dataset, state, spoil, code, named
):
    pipeline = make(dataset)
    with fails_with(code, CheckpointError) as found:
        pipeline.restore(spoil(state[0]))
    assert named in str(found[0])
    assert numbers(pipeline) == list(range(ROWS))  # from the beginning, as if nothing had been tried
    assert sorted(state[1] + numbers(make(dataset).restore(state[0]))) == list(range(ROWS))


def test_a_refused_state_leaves_a_run_that_was_restored_before_where_it_was(dataset, state):
    pipeline = make(dataset).restore(state[0])
    with fails_with("checkpoint-incomplete", CheckpointError):
        pipeline.restore(without(state[0], "00001"))
    assert sorted(state[1] + numbers(pipeline)) == list(range(ROWS))


def test_a_checkpoint_of_another_pipeline_names_every_difference_old_and_new(tmp_path, dataset, state):
    other = Pipeline(work(web=dataset)).shuffle(7, seed=1).batch(2, drop_last=False)
    with fails_with("checkpoint-differs", CheckpointError) as found:
        inline(other, 4).restore(state[0])
    assert "buffer_size: 6 -> 7" in found[0].found
    assert "seed: 0 -> 1" in found[0].found
    assert "microbatch_size" not in found[0].found
    with fails_with("checkpoint-differs", CheckpointError) as found:
        inline(Pipeline(work(web=dataset)).shuffle(6).batch(2), 3).restore(state[0])
    assert "canonical_replicas: 4 -> 3" in found[0].found
    code = Dataset.from_path("code", jsonl(tmp_path / "code", [5]))
    with fails_with("checkpoint-differs", CheckpointError) as found:
        inline(Pipeline(work(code=code)).shuffle(6).batch(2), 4).restore(state[0])
    assert "'web'" in found[0].found


def test_states_of_different_moments_or_runs_do_not_merge(dataset):
    fleet = Fleet(lambda: make(dataset), 2, agree=True)
    try:
        fleet.rounds(2)
        early = fleet.states()
        fleet.rounds(1)
        late = fleet.states()
    finally:
        fleet.close()
    with fails_with("checkpoint-rounds", CheckpointError) as found:
        make(dataset).restore([early[0], late[1]])
    assert "round 2: lanes 0-1; round 3: lanes 2-3" in found[0].found
    other = inline(Pipeline(work(web=dataset)).shuffle(5).batch(2), 4)
    with fails_with("checkpoint-mixed", CheckpointError):
        make(dataset).restore([early[0], other.checkpoint()])
    assert len(numbers(make(dataset).restore(late))) == ROWS - 3 * 4 * 2


def test_a_store_never_gives_out_half_a_state(tmp_path, dataset, state):
    store = DirectoryStore(tmp_path / "states")
    store.save(1, state[0])
    store.save(2, without(state[0], "00003"))
    assert store.steps() == [1]
    with fails_with("checkpoint-incomplete", CheckpointError):
        store.load(2)
    (tmp_path / "states" / "step-000000000001" / ".tmp-of-a-killed-writer").write_bytes(b"half")
    assert sorted(state[1] + numbers(make(dataset).restore(store.load(1)))) == list(range(ROWS))


# -- workers -----------------------------------------------------------------------------------------------------------


class LossyRunner(Runner):
    """Loses every third task with its worker, once each, and runs it again on a new one; gives up when told to."""

    lose_for_good = ()

    def __init__(self, parallelism=None):
        self._programs = []
        self._instances = {}
        self._tasks = 0
        self._lock = threading.Lock()

    def start(self, programs):
        self._programs = list(programs)

    def submit(self, program, task):
        future = Future()
        self._tasks += 1
        if self._tasks in self.lose_for_good:
            future.set_exception(WorkerError("a task was lost with its worker", code="worker-lost"))
            return future
        for again in range(2 if self._tasks % 3 == 0 else 1):
            if again:
                self._instances.pop(program, None)
            try:
                result = self._instance(program)(task)
            except Exception as error:  # noqa: BLE001 - the task's own
                future.set_exception(error)
                return future
        future.set_result(result)
        return future

    def _instance(self, program):
        if program not in self._instances:
            self._instances[program] = self._programs[program].open()
        return self._instances[program]

    def close(self):
        self._instances.clear()

    @property
    def facts(self):
        return RunnerFacts(workers=0)


@pytest.fixture
def lossy():
    descriptor = RunnerDescriptor(name="lossy", summary="loses workers", impl=f"{__name__}:LossyRunner")
    with register("runner", descriptor, LossyRunner):
        yield LossyRunner


def test_a_task_that_is_done_twice_leaves_no_trace(tmp_path, dataset, lossy):
    jsonl(tmp_path / "bad", [20], {7: b"{", 13: b"{"})

    def unreliable():
        return Pipeline(work(web=dataset, bad=tmp_path / "bad")).shuffle(6).batch(2).options(canonical_replicas=4)

    assert run(unreliable, on_error="skip", runner="lossy") == run(unreliable, on_error="skip")


def test_a_runner_that_gives_up_ends_the_run_with_its_error_and_nothing_is_lost(dataset, lossy, monkeypatch):
    monkeypatch.setattr(lossy, "lose_for_good", (9,))
    pipeline = make(dataset, runner="lossy", parallelism=None, block_rows=3)
    seen = []
    with fails_with("worker-lost", WorkerError):
        for batch in pipeline:
            seen += [record.payload["n"] for record in batch.records]
    assert 0 < len(seen) < ROWS
    assert sorted(seen + numbers(make(dataset).restore(pipeline.checkpoint()))) == list(range(ROWS))
