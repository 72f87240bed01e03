"""``ResumeMachine`` finds nothing wrong with what is right, and writes a script of what is wrong."""

import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from zephon import Pipeline
from zephon.abc import Runner, RunnerFacts
from zephon.io import Dataset
from zephon.plugins import RunnerDescriptor, register
from zephon.work import StaticMixtureWorkSource
from zephon_testkit.machine import ResumeMachine
from zephon_testkit.profiles import profile
from zephon_testkit.script import Run, script_of

ROWS = {name: [{"n": start + i, "text": name * (i % 5)} for i in range(31)] for name, start in (("a", 0), ("b", 500))}
A, B = (Dataset.from_dict(name, {"0": rows[:12], "1": rows[12:]}) for name, rows in ROWS.items())
#: Failures are found but not made smaller: that takes longer than all the rest, and one test does it.
FINDS = settings(profile(), max_examples=30, phases=[Phase.generate])


def source(*datasets, **options):
    return StaticMixtureWorkSource(
        datasets=list(datasets), mixture={d.name: i + 1 for i, d in enumerate(datasets)}, seed=3, **options
    )


def not_third(row):
    return row["n"] % 3 != 2


def tokens(row):
    return {"input_ids": [row["n"]] * (row["n"] % 7)}


def running_sum(state, row):
    return state + row["n"], [{"n": row["n"], "sum": state}] * (row["n"] % 3)


class Ordered(ResumeMachine):
    """Finite, of computable length; the end is filled up."""

    draws = st.sampled_from([1, 3, 4])

    def pipeline(self):
        made = Pipeline(source(A, B, exhausted_policy="redistribute")).shuffle(5).ensure_mixture(4)
        return made.batch(6, drop_last=False).options(canonical_replicas=self.drawn, tail="pad")


class Counting(ResumeMachine):
    """Finite, and nobody knows beforehand how many batches there are."""

    draws = st.fixed_dictionaries({"lanes": st.integers(2, 4), "tail": st.sampled_from(["drop", "pad"])})

    def pipeline(self):
        made = Pipeline(source(A, B)).filter(not_third)
        made.stateful_transform("sum", init_state=0, push=running_sum, schema={"n": "int64", "sum": "int64"}).batch(2)
        return made.options(canonical_replicas=self.drawn["lanes"], tail=self.drawn["tail"])


class Endless(ResumeMachine):
    """Packed, without an end."""

    def pipeline(self):
        made = Pipeline(source(A, B, exhausted_policy="repeat")).map_transform(tokens).shuffle(4)
        return made.pack_flat(8, num_bins=2).batch(2).options(canonical_replicas=2)


TestOrdered, TestCounting, TestEndless = Ordered.TestCase, Counting.TestCase, Endless.TestCase
# Three machines share the time that one would have.
TestOrdered.settings = TestCounting.settings = TestEndless.settings = settings(
    TestOrdered.settings, max_examples=-(-profile().max_examples // 2)
)


# -- what is wrong --------------------------------------------------------------------------------------------------


@pytest.fixture
def operators(monkeypatch, tmp_path):
    """The module with the broken operators, importable by its own name as a stranger's is."""
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("kit_lane_operators")


@pytest.fixture
def files(tmp_path):
    """Rows in files, so that pipelines over them have a plain spec."""
    folder = tmp_path / "data"
    folder.mkdir()
    for part in range(2):
        lines = "".join(f'{{"n": {part * 100 + i}}}\n' for i in range(20))
        (folder / f"part-{part}.jsonl").write_text(lines, encoding="utf-8")
    return Dataset.from_path("files", folder)


def machine_of(make):
    class Machine(ResumeMachine):
        runners = ("inline",)  # one thread: what is wrong is wrong in the same way each time
        pipeline = staticmethod(make)

    return Machine


def failure_of(machine, how=FINDS):
    with pytest.raises((AssertionError, ExceptionGroup)) as caught:
        run_state_machine_as_test(machine, settings=how)
    script = script_of(caught.value)
    assert script, "the failure carries a script"
    assert not re.search("hypothesis|testkit", script.partition("\nclass Run")[2])
    return caught.value, script


def run_script(folder, script, **environment):
    file = folder / "reproduce.py"
    file.write_text(script, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "ignore", file],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    "defect",
    [
        "drops the tail on restore",
        "changes a snapshot afterwards",
        "lets blocks show",
        "draws from the global generator",
        "asks the clock",
    ],
)
def test_a_broken_lane_operator_is_found_and_its_script_fails_until_it_is_right(defect, operators, files, tmp_path):
    def make():
        delayed = operators.Delayed(rows=3, defect=defect)
        return Pipeline(source(files)).pipe(delayed).batch(2).options(canonical_replicas=2)

    error, script = failure_of(machine_of(make))
    assert "Pipeline.from_spec(SPEC)" in script
    again = run_script(tmp_path, script)
    assert again.returncode == 1
    if defect in ("draws from the global generator", "asks the clock"):  # other values each time
        assert re.search(r"AssertionError: group \d of \d, round \d+, slot \d+: rows\[\d\]\.place is", again.stderr)
    else:
        assert f"AssertionError: {error}" in again.stderr
    right = run_script(tmp_path, script, **{operators.RIGHT: "1"})
    assert (right.returncode, right.stdout) == (0, "no difference: every batch is that of the plain run\n")


def test_the_script_of_a_failure_made_small_has_the_steps_that_matter(operators):
    def make():
        delayed = operators.Delayed(rows=3, defect="drops the tail on restore")
        return Pipeline(source(A)).pipe(delayed).batch(2).options(canonical_replicas=1)

    small = settings(profile(), phases=[Phase.generate, Phase.shrink], stateful_step_count=4, max_examples=60)
    _, script = failure_of(machine_of(make), small)
    assert "is defined in a function: move it to where it can be imported from" in script
    steps = script.partition("as run:\n")[2].splitlines()[:-1]
    assert len(steps) <= 5
    assert sum("restore" in step for step in steps) == 1
    assert "parallelism=0" in steps[0]


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_groups_that_go_on_beyond_the_end_of_the_plain_run_are_found(degree, operators):
    def make():
        twice = operators.Delayed(rows=3, defect="gives the tail twice after a restore")
        return Pipeline(source(A)).pipe(twice).batch(2).options(canonical_replicas=2)

    with closing(Run(make)) as run:
        run.start(1, parallelism=0, block_rows=1)
        run.rounds(2)
        run.restore(run.checkpoint(), degree, parallelism=0)
        message = "comes after the end of the plain run" if degree == 1 else "round 7: every group has a batch"
        with pytest.raises(AssertionError, match=message):
            run.rounds(20)


def broken():
    from kit_lane_operators import Delayed

    return Pipeline(source(A)).pipe(Delayed(rows=2, defect="lets blocks show")).batch(2).options(canonical_replicas=2)


class ByFunction(ResumeMachine):
    """Its pipeline comes from a function."""

    pipeline = staticmethod(broken)


class ByMethod(ResumeMachine):
    """Its data are in memory, so a script has to come back to this class."""

    draws = st.sampled_from([2, 4])

    def pipeline(self):
        from kit_lane_operators import Delayed

        delayed = Delayed(rows=self.drawn, defect="lets blocks show")
        return Pipeline(source(A)).pipe(delayed).batch(2).options(canonical_replicas=2)


@pytest.mark.parametrize("machine", [ByMethod, ByFunction])
def test_without_a_plain_spec_the_script_imports_what_makes_the_pipeline(machine, operators, tmp_path):
    error, script = failure_of(machine)
    assert "from_spec" not in script
    again = run_script(tmp_path, script)
    assert (again.returncode, f"AssertionError: {error}" in again.stderr) == (1, True), again.stderr[-2000:]
    right = run_script(tmp_path, script, **{operators.RIGHT: "1"})
    assert right.returncode == 0, right.stderr[-2000:]


# -- workers --------------------------------------------------------------------------------------------------------


class Echoing(Runner):
    """Every task goes through a process that may be killed; what is computed is computed here."""

    loses_tasks = False
    deaths: ClassVar = Counter()

    def __init__(self, parallelism=None):
        self._process = None
        self._instances = {}
        self._last = {}

    def start(self, programs):
        self._programs = programs
        self._spawn()

    def submit(self, program, task):
        future = Future()
        try:
            answer = self._echo()
        except (BrokenPipeError, EOFError):
            self.deaths[type(self)] += 1
            self._spawn()
            answer = not self.loses_tasks and self._echo()
        if program not in self._instances:
            self._instances[program] = self._programs[program].open()
        if answer or program not in self._last:
            self._last[program] = self._instances[program](task)
        future.set_result(self._last[program])
        return future

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    @property
    def facts(self):
        return RunnerFacts(workers=0)

    def _spawn(self):
        self.close()
        self._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _echo(self):
        self._process.stdin.write(b"task\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise EOFError
        return True


class Losing(Echoing):
    """The task a worker died of is answered with the result of the one before."""

    loses_tasks = True


class WithProcesses(ResumeMachine):
    """Endless, so that there is always work for the next worker."""

    runners = ("echoing",)

    def pipeline(self):
        return Pipeline(source(A, exhausted_policy="repeat")).shuffle(4).batch(2).options(canonical_replicas=2)


def test_a_worker_that_is_killed_costs_nothing():
    with register(
        "runner", RunnerDescriptor(name="echoing", impl="test_resume_machine:Echoing", summary="echoes"), Echoing
    ):
        run_state_machine_as_test(WithProcesses, settings=settings(profile(), max_examples=8))
    assert Echoing.deaths[Echoing] > 0


def test_a_runner_that_loses_the_task_of_a_killed_worker_is_found():
    with register(
        "runner", RunnerDescriptor(name="echoing", impl="test_resume_machine:Echoing", summary="echoes"), Losing
    ):
        _, script = failure_of(WithProcesses)
    assert "run.kill_worker()" in script
