"""Hooks: observers are checked when they come, told everything by name, and cost nothing while there are none."""

import copy
import inspect
import pickle
import re
import types

import pytest

from zephon.errors import PluginError
from zephon.plugins import HookManager, hookimpl, hooks, hooks_manager, hookspecs, manager

EVENTS = {
    "plan": {"run": 0, "plan": {}},
    "block": {"run": 0, "stage": 0, "block": None},
    "batch": {"run": 0, "round": 3, "batch": "b"},
    "checkpoint": {"run": 0, "round": 3, "state": {}},
    "quarantine": {"run": 0, "entries": []},
    "worker_start": {"run": 0, "runner": "threads", "worker": "w"},
    "worker_stop": {"run": 0, "runner": "threads", "worker": "w", "reason": ""},
    "close": {"run": 0, "stats": {}},
}


@pytest.fixture
def fresh(monkeypatch):
    """A process without a hook manager."""
    monkeypatch.setattr(manager, "_manager", None)


class Rounds:
    def __init__(self):
        self.seen = []

    @hookimpl
    def batch(self, round):
        self.seen.append(round)


def code_of(call, *arguments):
    with pytest.raises(PluginError) as excinfo:
        call(*arguments)
    return excinfo.value.code


def test_the_hooks_of_the_contract_are_exactly_those_specified():
    specified = {name for name, value in vars(hookspecs).items() if hasattr(value, "zephon_spec")}
    assert specified == set(manager.HOOKS) == set(EVENTS)


@pytest.mark.parametrize("hook", EVENTS)
def test_every_hook_documents_its_exact_arguments(hook):
    specification = getattr(hookspecs, hook)
    arguments = list(inspect.signature(specification).parameters)
    assert arguments == list(EVENTS[hook])
    documented = specification.__doc__.partition("Args:")[2]
    assert re.findall(r"^ {8}(\w+):", documented, flags=re.MULTILINE) == arguments


@pytest.mark.parametrize("hook", EVENTS)
def test_an_observer_hears_what_it_asks_for_until_it_is_taken_back(hook):
    heard = []

    def listener(run):
        heard.append(run)

    observer = types.SimpleNamespace(note=hookimpl(specname=hook)(listener))
    hook_manager = HookManager()
    assert not hook_manager.has(hook)
    with hook_manager.register(observer):
        assert [h for h in EVENTS if hook_manager.has(h)] == [hook]
        hook_manager.call(hook, **EVENTS[hook])
    assert not hook_manager.has(hook)
    hook_manager.call(hook, **EVENTS[hook])
    assert heard == [0]


def test_without_an_observer_a_run_is_given_no_manager(fresh):
    assert hooks() is None
    registration = hooks_manager().register(Rounds())
    assert hooks() is hooks_manager()
    registration.undo()
    registration.undo()
    assert hooks() is None


def test_two_of_a_kind_are_told_apart_by_name_and_one_is_not_registered_twice():
    hook_manager, first, second = HookManager(), Rounds(), Rounds()
    hook_manager.register(first)
    assert code_of(hook_manager.register, first) == "plugin-duplicate"
    assert code_of(hook_manager.register, first, "other name") == "plugin-duplicate"
    assert code_of(hook_manager.register, second) == "plugin-duplicate"
    hook_manager.register(second, "second")
    hook_manager.call("batch", **EVENTS["batch"])
    assert first.seen == second.seen == [3]
    assert hook_manager.observers()[1] == "second"


def test_a_wrong_signature_is_refused_with_both_signatures_and_leaves_nothing_behind():
    class Wrong(Rounds):
        @hookimpl
        def close(self, run, statistics):
            raise AssertionError

    hook_manager, observer = HookManager(), Wrong()
    with pytest.raises(PluginError) as excinfo:
        hook_manager.register(observer, "mine")
    assert excinfo.value.code == "hook-signature"
    text = str(excinfo.value)
    assert "mine" in text
    assert "close(run, statistics)" in text
    assert "close(run, stats)" in text
    assert hook_manager.observers() == []
    assert not any(hook_manager.has(hook) for hook in EVENTS)


def test_a_wrapper_that_does_not_yield_is_refused():
    class Wrapper:
        @hookimpl(wrapper=True)
        def batch(self):
            return None

    assert code_of(HookManager().register, Wrapper()) == "hook-signature"


def test_a_hook_that_does_not_exist_is_refused_with_the_near_ones_unless_optional():
    class Misspelt:
        @hookimpl
        def checkpiont(self):
            raise AssertionError

    class Careful(Rounds):
        @hookimpl(optionalhook=True)
        def epoch(self):
            raise AssertionError

    hook_manager = HookManager()
    with pytest.raises(PluginError) as excinfo:
        hook_manager.register(Misspelt())
    assert excinfo.value.code == "hook-unknown"
    assert "'checkpoint'" in excinfo.value.fix
    hook_manager.register(Careful())
    assert code_of(hook_manager.has, "epoch") == "hook-unknown"


@pytest.mark.parametrize("observer", [object(), types.SimpleNamespace(batch=lambda run: None), Rounds])
def test_what_would_never_be_called_is_refused(observer):
    assert code_of(HookManager().register, observer) == "hook-unknown"


def test_what_an_observer_raises_reaches_the_run():
    class Failing:
        @hookimpl
        def batch(self):
            raise ArithmeticError

    hook_manager = HookManager()
    hook_manager.register(Failing())
    with pytest.raises(ArithmeticError):
        hook_manager.call("batch", **EVENTS["batch"])


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_the_hook_manager_is_never_pickled_nor_copied(duplicate):
    with pytest.raises(TypeError):
        duplicate(HookManager())


INSTALLED = """
    from zephon.plugins import HooksDescriptor, hookimpl
    light = HooksDescriptor(name="steps", summary="counts steps", impl="steps_light:Steps")
    class Steps:
        rounds = []
        @hookimpl
        def batch(self, round):
            self.rounds.append(round)
    """


def test_an_installed_observer_needs_no_registration(environment, fresh):
    environment.module("steps_light", INSTALLED)
    environment.install("steps-plugin", {"zephon.hooks.v1": {"steps": "steps_light:light"}})
    found = hooks()
    assert found.observers() == ["steps"]
    found.call("batch", **EVENTS["batch"])
    assert __import__("steps_light").Steps.rounds == [3]


def test_a_broken_installed_observer_is_left_out_with_a_warning(environment, fresh):
    environment.module("steps_light", INSTALLED)
    environment.install("a-broken-plugin", {"zephon.hooks.v1": {"broken": "no_such_module:x"}})
    environment.install("steps-plugin", {"zephon.hooks.v1": {"steps": "steps_light:light"}})
    with pytest.warns(RuntimeWarning, match="hooks:broken"):
        found = hooks()
    assert found.observers() == ["steps"]
