"""A real cluster: the same batches as inline, whatever becomes of workers and nodes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings

import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zephon import Pipeline
from zephon.errors import ConfigError, DataError, PluginError, WorkerError, WorkerLostError
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_ray import _pool
from zephon_ray._runner import RayRunner
from zephon_testkit.leaks import leaked
from zephon_testkit.programs import Calls, Waits, wait_for
from zephon_testkit.script import seen

# Workers cannot import this file.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

TIMEOUT = 60
ROWS = 240


class Marked:
    """A function that leaves a file in a folder for every row: process and node that made it."""

    def __init__(self, folder, seconds=0.0):
        self.folder = str(folder)
        self.seconds = seconds

    def __call__(self, row):
        node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else "here"
        open(os.path.join(self.folder, f"{os.getpid()} {node} {row['n']}"), "w").close()
        time.sleep(self.seconds)
        return {"n": row["n"] * 3, "text": row["text"].upper()}

    def marks(self):
        return [tuple(name.split()) for name in os.listdir(self.folder)]

    def places(self):
        return {(int(pid), node) for pid, node, _ in self.marks()}


class Program:
    """A function as a program."""

    def __init__(self, function):
        self.function = function

    def open(self):
        return self.function


class Careful:
    """Its instance takes notes before it dies."""

    def open(self):
        return self

    def __call__(self, task):
        if task == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    def careful(self, task, note):
        note(f"about to take {task}")
        return self(task)


class DiesAtOpening:
    def open(self):
        os.kill(os.getpid(), signal.SIGKILL)


def share(row):
    return {"n": 100 // (row["n"] - 7)}


def pipeline(function, **options):
    rows = [{"n": n, "text": f"text {n}"} for n in range(ROWS)]
    source = StaticMixtureWorkSource([Dataset.from_dict("memory", rows)], {"memory": 1.0}, seed=4)
    mapped = Pipeline(source).map_transform(function, schema={"n": "int64", "text": "string"}).shuffle(8).batch(4)
    return mapped.options(block_rows=6, canonical_replicas=4, **options)


def delivered(function, **options):
    with pipeline(function, **options) as running:
        return [seen(batch) for batch in running]


def every():
    return ray.cluster_resources()["CPU"]


def free():
    return ray.available_resources().get("CPU", 0.0)


@pytest.fixture
def marked(tmp_path):
    return Marked(tmp_path)


@pytest.fixture
def runner_of():
    """Make and start a runner; all are closed in the end."""
    started = []

    def make(*programs, parallelism=1, **settings):
        runner = RayRunner(parallelism, **settings)
        started.append(runner)
        runner.start(programs)
        return runner

    yield make
    for runner in started:
        runner.close()


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


# --- the same batches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_batches_are_those_of_the_inline_runner(marked, parallelism):
    expected = delivered(marked, runner="inline")
    assert delivered(marked, runner="ray", parallelism=parallelism) == expected != []
    assert len(marked.places()) > 1
    assert os.getpid() in {pid for pid, _ in marked.places()}


def test_a_killed_actor_changes_nothing(tmp_path, quiet):
    expected = delivered(Marked(tmp_path), runner="inline")
    (tmp_path / "ray").mkdir()
    marked = Marked(tmp_path / "ray", seconds=0.004)
    killed = set()
    with pipeline(marked, runner="ray", parallelism=2) as running:
        found = []
        for number, batch in enumerate(running):
            found.append(seen(batch))
            if number in (3, 15):
                victims = {pid for pid, _ in marked.places()} - killed
                os.kill(min(victims), signal.SIGKILL)
                killed.add(min(victims))
    assert found == expected
    assert len(killed) == 2


def test_a_lost_node_changes_nothing(cluster, tmp_path, quiet):
    expected = delivered(Marked(tmp_path), runner="inline")
    (tmp_path / "ray").mkdir()
    marked = Marked(tmp_path / "ray", seconds=0.02)
    doomed = cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    there = NodeAffinitySchedulingStrategy(doomed.node_id, soft=True)
    with pipeline(marked, runner={"name": "ray", "scheduling_strategy": there}, parallelism=2) as running:
        found = []
        for number, batch in enumerate(running):
            found.append(seen(batch))
            if number == 0:
                cluster.remove_node(doomed, allow_graceful=False)
    assert found == expected
    nodes = {node for _, node in marked.places()}
    assert doomed.node_id in nodes
    assert len(nodes) > 1, "nothing was run anywhere else"


def test_it_works_inside_an_actor_and_leaves_its_connection_alone(tmp_path):
    expected = delivered(Marked(tmp_path), runner="inline")

    class Trainer:
        def train(self):
            found = delivered(Marked(tmp_path), runner="ray", parallelism=2)
            return found, ray.is_initialized(), [t.name for t in threading.enumerate() if t.name == "zephon-ray"]

    trainer = ray.remote(Trainer).options(num_cpus=1).remote()
    found, connected, threads = ray.get(trainer.train.remote(), timeout=TIMEOUT)
    ray.kill(trainer)
    assert found == expected
    assert connected
    assert threads == []


# --- options ------------------------------------------------------------------------------------------------------


def test_resources_choose_the_node(cluster, marked):
    delivered(marked, runner={"name": "ray", "num_cpus": 0.5, "resources": {"shelf1": 1}}, parallelism=2)
    [wanted] = [node["NodeID"] for node in ray.nodes() if node["Alive"] and "shelf1" in node["Resources"]]
    assert {node for _, node in marked.places()} == {wanted}


def test_spread_takes_several_nodes_and_runtime_env_sets_their_environment(runner_of, tmp_path):
    def look(task):
        time.sleep(0.2)
        return ray.get_runtime_context().get_node_id(), os.environ.get("SHELF")

    runner = runner_of(
        Program(look),
        parallelism=3,
        scheduling_strategy="SPREAD",
        runtime_env={"env_vars": {"SHELF": "third"}},
    )
    found = [runner.submit(0, number) for number in range(12)]
    answers = [future.result(TIMEOUT) for future in found]
    assert len({node for node, _ in answers}) > 1
    assert {shelf for _, shelf in answers} == {"third"}


def test_num_cpus_is_booked_while_workers_are_there(runner_of):
    assert wait_for(lambda: free() == every(), TIMEOUT)
    runner = runner_of(Calls("square"), num_cpus=2)
    assert runner.submit(0, 3).result(TIMEOUT) == 9
    assert wait_for(lambda: free() == every() - 2, TIMEOUT)
    runner.close()
    assert wait_for(lambda: free() == every(), TIMEOUT)


def test_unless_told_there_are_as_many_workers_as_the_cluster_has_cpus_for_this_rank(monkeypatch):
    cpus = int(ray.cluster_resources()["CPU"])
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert RayRunner().facts.workers == cpus
    assert RayRunner(num_cpus=2).facts.workers == cpus // 2
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert RayRunner().facts.workers == cpus // 4
    monkeypatch.setenv("WORLD_SIZE", "999")
    assert RayRunner().facts.workers == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"num_cpus": -1},
        {"num_gpus": "many"},
        {"resources": {"CPU": 1}},
        {"scheduling_strategy": "NEAR"},
        {"address": "ray://127.0.0.1:10001"},
        {"address": 7},
        {"start_timeout": 0},
        {"start_timeout": True},
    ],
)
def test_settings_that_cannot_be_are_refused_when_planned(marked, settings):
    with pytest.raises(ConfigError) as raised:
        pipeline(marked, runner={"name": "ray", **settings}).explain()
    assert raised.value.code == "option-invalid"


def test_a_cluster_without_room_is_an_error_that_names_what_is_missing(runner_of):
    runner = runner_of(Calls("square"), resources={"cellar": 1}, start_timeout=1)
    with pytest.raises(WorkerError) as raised:
        runner.submit(0, 3).result(TIMEOUT)
    assert raised.value.code == "ray-no-worker"
    assert "cellar" in raised.value.found


def test_workers_that_find_no_place_do_not_keep_others_from_working(runner_of):
    runner = runner_of(Calls("square"), parallelism=3, resources={"shelf0": 2})  # there are 4
    assert [runner.submit(0, n).result(TIMEOUT) for n in range(6)] == [0, 1, 4, 9, 16, 25]


def test_a_place_that_does_not_exist_is_an_error(runner_of):
    nowhere = NodeAffinitySchedulingStrategy("a" * 56, soft=False)
    runner = runner_of(Calls("square"), scheduling_strategy=nowhere)
    with pytest.raises(WorkerError) as raised:
        runner.submit(0, 3).result(TIMEOUT)
    assert raised.value.code == "ray-cannot-start"


def test_workers_with_other_plugins_are_refused(runner_of, monkeypatch):
    missing = [("operator", "batch", "zephon-ops", "0.0.1")]
    monkeypatch.setattr(_pool, "_requirements", lambda: missing)
    runner = runner_of(Calls("square"))
    with pytest.raises(PluginError) as raised:
        runner.submit(0, 3).result(TIMEOUT)
    assert raised.value.code == "plugin-mismatch"


# --- what fails ---------------------------------------------------------------------------------------------------


def test_an_exception_is_the_tasks_own_and_says_where_it_happened(marked):
    errors = {}
    for runner, parallelism in (("inline", 0), ("ray", 2)):
        with pipeline(share, runner=runner, parallelism=parallelism) as running, pytest.raises(DataError) as raised:
            list(running)
        errors[runner] = raised.value
    assert str(errors["ray"]) == str(errors["inline"])
    told = "\n".join(errors["ray"].__notes__)
    assert "ZeroDivisionError" in told
    assert "in share" in told
    assert "127.0.0.1" in told


def test_a_task_that_costs_three_workers_is_named(runner_of, quiet):
    runner = runner_of(Careful(), parallelism=2)
    poison, fine = runner.submit(0, "poison"), [runner.submit(0, n) for n in range(20)]
    assert [future.result(TIMEOUT) for future in fine] == list(range(20))
    with pytest.raises(WorkerLostError) as raised:
        poison.result(TIMEOUT)
    assert raised.value.code == "worker-lost"
    assert raised.value.note == "about to take poison"
    assert runner.submit(0, "after").result(TIMEOUT) == "after"


def test_a_lost_worker_is_worth_a_warning(runner_of, tmp_path):
    waits = Waits(str(tmp_path), held=1, patience=TIMEOUT)
    runner = runner_of(waits)
    future = runner.submit(0, 0)
    assert wait_for(lambda: bool(waits.begun(0)), TIMEOUT)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        os.kill(waits.begun(0)[0], signal.SIGKILL)
        assert future.result(TIMEOUT) == 0
    assert [str(w.message) for w in caught if "was lost with a task" in str(w.message)]


def test_workers_are_reported_and_one_made_anew_has_another_name(tmp_path, quiet):
    waits = Waits(str(tmp_path), held=1, patience=TIMEOUT)
    events = []
    runner = RayRunner(1)
    runner.report_workers(lambda *event: events.append(event))
    runner.start([waits])
    try:
        future = runner.submit(0, 0)
        assert wait_for(lambda: bool(waits.begun(0)), TIMEOUT)
        os.kill(waits.begun(0)[0], signal.SIGKILL)
        assert future.result(TIMEOUT) == 0
    finally:
        runner.close()
    assert [(event, worker) for event, worker, _ in events] == [
        ("start", "zephon-ray-0"),
        ("stop", "zephon-ray-0"),
        ("start", "zephon-ray-1"),
        ("stop", "zephon-ray-1"),
    ]
    assert [bool(reason) for _, _, reason in events] == [False, True, False, False]


def test_workers_that_only_die_are_given_up(runner_of, quiet):
    runner = runner_of(DiesAtOpening(), parallelism=2)
    errors = [future.exception(2 * TIMEOUT) for future in [runner.submit(0, n) for n in range(6)]]
    assert {error.code for error in errors} <= {"worker-lost", "workers-keep-dying"}
    assert errors[-1].code == "workers-keep-dying"


def test_a_program_that_cannot_be_sent_fails_its_own_tasks_only(runner_of):
    lock = threading.Lock()
    runner = runner_of(Program(lambda task: lock), Calls("square"))
    unsendable, fine = runner.submit(0, 1), runner.submit(1, 3)
    assert fine.result(TIMEOUT) == 9
    assert unsendable.exception(TIMEOUT).code == "not-sendable"


def test_a_task_that_hangs_is_given_up_by_close(runner_of, monkeypatch):
    monkeypatch.setattr(_pool, "GRACE_SECONDS", 0.3)
    runner = runner_of(Program(lambda task: time.sleep(3600)))
    future = runner.submit(0, None)
    assert wait_for(future.running, TIMEOUT)
    time.sleep(1.5)
    runner.close()
    assert future.exception(0).code == "worker-stuck"


# --- the end ------------------------------------------------------------------------------------------------------


def test_pipelines_leave_nothing_behind_in_this_process_and_in_the_cluster(marked):
    remains = leaked(lambda: delivered(marked, runner="ray", parallelism=3))
    assert not remains, "; ".join(remains)
    assert ray.is_initialized()
    assert wait_for(lambda: free() == every(), TIMEOUT), "actors are left"


def test_breaking_off_leaves_nothing_behind(marked):
    def work():
        running = iter(pipeline(marked, runner="ray", parallelism=2))
        next(running)
        del running

    remains = leaked(work)
    assert not remains, "; ".join(remains)
