"""Registries: names from metadata, descriptions from light modules, and no plugin in another's way."""

import copy
import json
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import PluginError
from zephon.plugins import (
    POINTS,
    OperatorDescriptor,
    PluginRequirement,
    RunnerDescriptor,
    ShardFormatDescriptor,
    StorageDescriptor,
    register,
    registry,
    require,
    status,
)

LIGHT = """
    from zephon.plugins import ShardFormatDescriptor
    toy = ShardFormatDescriptor(
        name="toy", summary="toys in files", impl="toy_heavy:Toy", capabilities={"write", "ranges"}, suffixes=(".toy",)
    )
    """
HEAVY = "class Toy: pass\n"


@pytest.fixture
def toy(environment):
    """A distribution that adds the shard format ``toy``, in a light and a heavy module."""
    environment.module("toy_light", LIGHT)
    environment.module("toy_heavy", HEAVY)
    environment.install("toy-plugin", {"zephon.shard_format.v1": {"toy": "toy_light:toy"}})
    return environment


def code_of(call, *arguments):
    with pytest.raises(PluginError) as excinfo:
        call(*arguments)
    return excinfo.value.code


def status_of(point, name):
    return [s for s in status() if (s.point, s.name) == (point, name)]


def test_each_stage_imports_what_it_needs_and_no_more(toy):
    formats = registry("shard_format")
    assert "toy" in formats.names()
    assert "toy_light" not in sys.modules
    assert formats.requirement("toy") == PluginRequirement("shard_format", "toy", "toy-plugin", "1.2.3")
    assert "toy_light" not in sys.modules
    assert formats.describe("toy").suffixes == (".toy",)
    assert "toy_light" in sys.modules
    assert "toy_heavy" not in sys.modules
    assert formats.load("toy") is sys.modules["toy_heavy"].Toy


def test_the_state_of_every_plugin_is_told_without_importing_an_implementation(toy):
    [found] = status_of("shard_format", "toy")
    assert found.address == "shard_format:toy"
    assert (found.distribution, found.version, found.contract) == ("toy-plugin", "1.2.3", 1)
    assert (found.summary, found.capabilities, found.status) == ("toys in files", ("ranges", "write"), "ok")
    assert "toy_heavy" not in sys.modules
    fields = ["point", "name", "distribution", "version", "contract", "summary", "capabilities", "status"]
    assert list(json.loads(json.dumps(found.to_plain()))) == fields


def test_a_plugin_installed_while_the_process_runs_is_found(environment):
    assert "toy" not in registry("shard_format").names()
    environment.module("toy_light", LIGHT)
    environment.install("toy-plugin", {"zephon.shard_format.v1": {"toy": "toy_light:toy"}})
    assert registry("shard_format").describe("toy").name == "toy"


def test_a_plugin_whose_folder_leaves_the_path_is_gone(toy, monkeypatch):
    assert "toy" in registry("shard_format").names()
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(toy.folder)])
    assert "toy" not in registry("shard_format").names()


@pytest.mark.parametrize("point", POINTS)
@given(name=st.text(min_size=1))
def test_a_name_nobody_offers_is_unknown_at_every_point(point, name):
    if name not in registry(point).names():
        assert code_of(registry(point).load, name) == "plugin-unknown"


def test_there_are_only_the_points_of_the_contract():
    assert code_of(registry, "shard_formats") == "plugin-point"


# --- what is wrong with one plugin stays with it -------------------------------------------------------------------


def assert_others_work(formats):
    """Every other plugin of the point is untouched."""
    assert formats.describe("toy").name == "toy"
    assert "toy" in formats.descriptors()
    assert [s.status for s in status_of("shard_format", "toy")] == ["ok"]


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("raise ArithmeticError('no')", ArithmeticError),
        ("import no_such_module_anywhere", ModuleNotFoundError),
        ("raise SystemExit(3)", SystemExit),
        ("other = 1", AttributeError),
        ("def (", SyntaxError),
    ],
)
def test_a_plugin_that_cannot_be_imported_raises_only_under_its_own_name(toy, source, cause):
    toy.module("bad_light", source)
    toy.install("bad-plugin", {"zephon.shard_format.v1": {"bad": "bad_light:bad"}})
    formats = registry("shard_format")
    assert "bad" in formats.names()
    assert "bad" not in formats.descriptors()
    assert_others_work(formats)
    [found] = status_of("shard_format", "bad")
    assert found.status.startswith("broken: ")
    with pytest.raises(PluginError) as excinfo:
        formats.describe("bad")
    assert excinfo.value.code == "plugin-broken"
    assert isinstance(excinfo.value.__cause__, cause)
    assert excinfo.value.__cause__.__traceback__ is not None


def test_an_implementation_that_cannot_be_imported_can_still_be_described(toy):
    toy.module("toy_heavy", "raise ArithmeticError('no')")
    formats = registry("shard_format")
    assert_others_work(formats)
    with pytest.raises(PluginError) as excinfo:
        formats.load("toy")
    assert excinfo.value.code == "plugin-broken"
    assert isinstance(excinfo.value.__cause__, ArithmeticError)


@pytest.mark.parametrize(
    "source",
    [
        "bad = 'a string'",
        "import zephon.plugins as z\nbad = z.RunnerDescriptor(name='bad', summary='x', impl='a:b')",
        "import zephon.plugins as z\nbad = z.ShardFormatDescriptor(name='x', summary='x', impl='a:b')",
    ],
    ids=["no descriptor", "of another point", "of another name"],
)
def test_an_entry_point_must_lead_to_a_descriptor_of_its_point_and_name(toy, source):
    toy.module("bad_light", source)
    toy.install("bad-plugin", {"zephon.shard_format.v1": {"bad": "bad_light:bad"}})
    assert code_of(registry("shard_format").describe, "bad") == "plugin-kind"
    assert status_of("shard_format", "bad")[0].status.startswith("broken: ")
    assert_others_work(registry("shard_format"))


def test_two_distributions_of_one_name_are_both_named_and_neither_is_chosen(toy):
    toy.install("rival-a", {"zephon.shard_format.v1": {"rival": "toy_light:toy"}})
    toy.install("rival-b", {"zephon.shard_format.v1": {"rival": "toy_light:toy"}}, version="9.9")
    formats = registry("shard_format")
    assert formats.names().count("rival") == 1
    assert "rival" not in formats.descriptors()
    for call in (formats.describe, formats.load, formats.requirement):
        with pytest.raises(PluginError) as excinfo:
            call("rival")
        assert excinfo.value.code == "plugin-duplicate"
        assert {"rival-a", "rival-b"} <= set(excinfo.value.found.split())
    found = status_of("shard_format", "rival")
    assert [s.distribution for s in found] == ["rival-a", "rival-b"]
    assert all(s.status.startswith("duplicate: ") for s in found)
    assert_others_work(formats)


@pytest.mark.parametrize("major", [0, 2])
def test_a_plugin_for_another_major_is_named_without_importing_it(toy, major):
    toy.module("old_light", "raise AssertionError('imported')")
    toy.install("old-plugin", {f"zephon.shard_format.v{major}": {"old": "old_light:old"}})
    formats = registry("shard_format")
    assert "old" not in formats.names()
    assert code_of(formats.describe, "old") == "plugin-outdated"
    [found] = status_of("shard_format", "old")
    assert (found.distribution, found.contract) == ("old-plugin", major)
    assert found.status.startswith("outdated: ")
    assert_others_work(formats)


def test_a_plugin_for_two_majors_is_read_through_the_one_this_core_has(toy):
    toy.module("both", LIGHT.replace("toy", "both"))
    entry = {"both": "both:both"}
    toy.install("both-plugin", {"zephon.shard_format.v1": entry, "zephon.shard_format.v2": entry})
    assert registry("shard_format").describe("both").name == "both"
    assert [s.status for s in status_of("shard_format", "both")] == ["ok"]


@pytest.mark.parametrize("group", ["zephon.shard_formats.v1", "zephon.shard_format", "zephon.shard_format.1"])
def test_a_misspelt_group_shows_up_in_the_report(toy, group):
    toy.install("lost-plugin", {group: {"lost": "nowhere:lost"}})
    [found] = [s for s in status() if s.name == "lost"]
    assert found.status.startswith("outdated: ")
    assert_others_work(registry("shard_format"))


def test_an_older_copy_of_a_distribution_further_down_the_path_is_no_rival(toy, tmp_path_factory, monkeypatch):
    other = type(toy)(tmp_path_factory.mktemp("other"))
    other.install("toy-plugin", {"zephon.shard_format.v1": {"toy": "elsewhere:toy"}}, version="0.1")
    monkeypatch.setattr(sys, "path", [*sys.path, str(other.folder)])
    assert registry("shard_format").requirement("toy").version == "1.2.3"


def test_the_remains_of_an_uninstalled_distribution_are_reported_and_harm_nothing(toy):
    for group in ("zephon.shard_format.v1", "zephon.shard_format.v9"):
        info = toy.folder / f"remains_{group[-1]}-1.0.dist-info"
        info.mkdir()
        info.joinpath("entry_points.txt").write_text(f"[{group}]\nremains{group[-1]} = gone:gone\n")
    assert status_of("shard_format", "remains1")[0].status.startswith("broken: ")
    assert status_of("shard_format", "remains9")[0].status.startswith("outdated: ")
    assert code_of(registry("shard_format").load, "remains1") == "plugin-broken"
    assert_others_work(registry("shard_format"))


# --- plugins registered by code -------------------------------------------------------------------------------------

DESCRIPTOR = OperatorDescriptor(name="shout", summary="makes text loud", impl="textwrap:dedent")


def test_a_plugin_registered_by_code_is_there_until_it_is_taken_back():
    operators, implementation = registry("operator"), object()
    with register("operator", DESCRIPTOR, implementation):
        assert "shout" in operators.names()
        assert operators.describe("shout") is operators.descriptors()["shout"] is DESCRIPTOR
        assert operators.load("shout") is implementation
        assert [s.status for s in status_of("operator", "shout")] == ["ok"]
    assert code_of(operators.load, "shout") == "plugin-unknown"


def test_undo_may_be_called_twice_and_a_descriptor_alone_is_enough():
    registration = register("operator", DESCRIPTOR)
    assert registry("operator").load("shout").__name__ == "dedent"
    registration.undo()
    registration.undo()
    assert "shout" not in registry("operator").names()


def test_a_plugin_registered_by_code_takes_precedence_over_nothing(toy):
    clash = ShardFormatDescriptor(name="toy", summary="another", impl="toy_heavy:Toy")
    assert code_of(register, "shard_format", clash) == "plugin-duplicate"
    assert_others_work(registry("shard_format"))
    with register("operator", DESCRIPTOR):
        assert code_of(register, "operator", DESCRIPTOR) == "plugin-duplicate"


def test_a_distribution_installed_over_a_registered_name_is_the_same_conflict(environment):
    with register("operator", DESCRIPTOR):
        environment.install("late-plugin", {"zephon.operator.v1": {"shout": "late:shout"}})
        code_of(registry("operator").load, "anything else")  # a miss looks again
        assert code_of(registry("operator").load, "shout") == "plugin-duplicate"


@pytest.mark.parametrize("descriptor", [DESCRIPTOR, "shout", None])
def test_only_descriptors_of_the_point_can_be_registered(descriptor):
    assert code_of(register, "runner", descriptor) == "plugin-kind"


def test_observers_and_unknown_points_are_not_registered_by_name():
    assert code_of(register, "hooks", DESCRIPTOR) == "plugin-point"
    assert code_of(register, "operators", DESCRIPTOR) == "plugin-point"


def test_a_registered_implementation_that_cannot_be_imported_is_broken():
    with register("runner", RunnerDescriptor(name="ghost", summary="gone", impl="no_such_module:X")):
        assert code_of(registry("runner").load, "ghost") == "plugin-broken"


def test_the_same_name_at_two_points_is_no_conflict():
    with (
        register("operator", DESCRIPTOR),
        register(
            "storage", StorageDescriptor(name="shout", summary="loud disks", impl="textwrap:dedent", schemes=("loud",))
        ),
    ):
        assert registry("operator").describe("shout") is DESCRIPTOR
        assert registry("storage").describe("shout").schemes == ("loud",)


# --- other processes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_registry_is_never_pickled_nor_copied(duplicate):
    with pytest.raises(TypeError):
        duplicate(registry("operator"))


def test_a_worker_accepts_the_very_plugins_of_the_main_process_and_refuses_others(toy):
    told = pickle.loads(pickle.dumps(registry("shard_format").requirement("toy")))
    require([told])
    assert code_of(require, [told._replace(version="1.2.4")]) == "plugin-mismatch"
    assert code_of(require, [told._replace(distribution="rival")]) == "plugin-mismatch"
    assert code_of(require, [told._replace(name="gone")]) == "plugin-unknown"
