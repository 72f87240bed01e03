"""The runner every other runner has to agree with."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.engine.inline import InlineRunner
from zephon.errors import ConfigError, EngineError
from zephon.plugins import registry


class Recorder:
    """A program whose instances note where they run and when they are closed."""

    def __init__(self, fail_closing=False):
        self.opened = self.closed = 0
        self.threads = []
        self.fail_closing = fail_closing

    def open(self):
        self.opened += 1
        return Instance(self)


class Instance:
    def __init__(self, program):
        self.program = program

    def __call__(self, task):
        self.program.threads.append(threading.current_thread())
        if isinstance(task, BaseException):
            raise task
        return task

    def close(self):
        self.program.closed += 1
        if self.program.fail_closing:
            raise ArithmeticError


@given(tasks=st.lists(st.integers() | st.builds(ValueError, st.integers())))
def test_every_task_is_done_when_submit_returns_on_the_thread_that_called_it(tasks):
    program, runner = Recorder(), InlineRunner()
    runner.start([program])
    for task in tasks:
        future = runner.submit(0, task)
        assert future.done()
        assert (future.exception() or future.result()) is task or future.result() == task
    runner.close()
    assert set(program.threads) <= {threading.current_thread()}


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_in_a_task_is_raised_where_the_user_is(interruption):
    runner = InlineRunner()
    runner.start([Recorder()])
    with pytest.raises(interruption):
        runner.submit(0, interruption())
    assert runner.submit(0, 1).result() == 1
    runner.close()


def test_a_program_is_opened_by_its_first_task_and_closed_with_the_runner():
    used, unused = Recorder(), Recorder()
    runner = InlineRunner()
    runner.start([used, unused])
    assert used.opened == 0
    for _ in range(3):
        runner.submit(0, None)
    runner.close()
    runner.close()
    assert (used.opened, used.closed) == (1, 1)
    assert (unused.opened, unused.closed) == (0, 0)


def test_a_program_that_cannot_be_opened_fails_its_task():
    class Broken:
        def open(self):
            raise ArithmeticError

    runner = InlineRunner()
    runner.start([Broken()])
    assert isinstance(runner.submit(0, None).exception(), ArithmeticError)
    runner.close()


def test_what_a_program_raises_on_closing_keeps_no_other_from_closing():
    programs = [Recorder(), Recorder(fail_closing=True), Recorder()]
    runner = InlineRunner()
    runner.start(programs)
    for number in range(3):
        runner.submit(number, None)
    with pytest.raises(ArithmeticError):
        runner.close()
    assert [program.closed for program in programs] == [1, 1, 1]


def test_a_runner_is_started_once_used_and_closed():
    runner = InlineRunner()
    with pytest.raises(EngineError) as unstarted:
        runner.submit(0, None)
    runner.start([])
    with pytest.raises(EngineError) as again:
        runner.start([])
    runner.close()
    with pytest.raises(EngineError) as closed:
        runner.submit(0, None)
    with pytest.raises(EngineError) as reopened:
        runner.start([])
    assert {e.value.code for e in (unstarted, again, closed, reopened)} == {"runner-state"}


def test_it_has_no_workers_and_refuses_to_be_given_some():
    assert InlineRunner().facts.workers == InlineRunner(parallelism=None).facts.workers == 0
    with pytest.raises(ConfigError) as refused:
        InlineRunner(parallelism=2)
    assert refused.value.code == "bad-parallelism"


def test_the_registry_finds_it():
    assert registry("runner").load("inline") is InlineRunner
