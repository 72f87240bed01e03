"""What an unknown name is told: what there is, what is near, and the line that installs it."""

import tomllib
from pathlib import Path

import pytest

from zephon import __version__
from zephon.errors import PluginError
from zephon.plugins import POINTS, OperatorDescriptor, register, registry
from zephon.plugins.known import KNOWN, checkout, install_line

ROOT = checkout()


def unknown(point, name):
    with pytest.raises(PluginError) as excinfo:
        registry(point).load(name)
    assert excinfo.value.code == "plugin-unknown"
    return excinfo.value


def test_every_extension_point_has_a_place_in_the_table():
    assert list(KNOWN) == list(POINTS)


@pytest.mark.skipif(ROOT is None, reason="the table is compared with the source tree")
def test_the_table_agrees_with_what_this_tree_declares():
    declared = {}
    for file in [ROOT / "zephon_core/pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]:
        project = tomllib.loads(file.read_text())["project"]
        for group, entries in project.get("entry-points", {}).items():
            point = group.removeprefix("zephon.").removesuffix(".v1")
            declared |= {(point, name): project["name"] for name in entries}
    known = {(point, name): distribution for point, names in KNOWN.items() for name, distribution in names.items()}
    assert declared == known, "correct zephon/plugins/known.py: it offers what is there, and nothing else"


@pytest.fixture
def shelved(monkeypatch):
    """Plugins of this version that are not installed here."""
    monkeypatch.setitem(KNOWN["shard_format"], "dawn", "zephon-dawn")
    monkeypatch.setitem(KNOWN["runner"], "dusk", "zephon-dusk")


@pytest.mark.usefixtures("shelved")
def test_a_known_name_that_is_not_installed_gets_the_line_that_installs_it():
    error = unknown("shard_format", "dawn")
    assert error.fix == install_line("zephon-dawn", ROOT)


def test_a_near_miss_of_an_installed_name_is_pointed_out():
    with register("operator", OperatorDescriptor(name="frobnicate", summary="x", impl="a:b")):
        error = unknown("operator", "frobincate")
    assert "frobnicate" in error.found
    assert "'frobnicate'" in error.fix


@pytest.mark.usefixtures("shelved")
def test_a_near_miss_of_a_known_name_gets_its_install_line_too():
    error = unknown("runner", "dask")
    assert "'dusk'" in error.fix
    assert install_line("zephon-dusk", ROOT) in error.fix


def test_all_installed_and_all_known_names_are_listed():
    error = unknown("shard_format", "zzzzzzzz")
    assert all(name in error.found for name in [*registry("shard_format").names(), *KNOWN["shard_format"]])


def test_install_lines_name_the_checkout_and_otherwise_a_folder_of_wheels(tmp_path):
    (tmp_path / "plugins/zephon-mds").mkdir(parents=True)
    (tmp_path / "zephon_core").mkdir()
    assert install_line("zephon-mds", tmp_path) == f"pip install -e {tmp_path}/plugins/zephon-mds"
    assert install_line("zephon-core", tmp_path) == f"pip install -e {tmp_path}/zephon_core"
    from_wheels = install_line("zephon-mds", None)
    assert "--find-links" in from_wheels
    assert from_wheels.endswith(f"zephon-mds=={__version__}")
    assert install_line("zephon-ray", tmp_path).endswith(f"zephon-ray=={__version__}"), "not a folder that is not there"


def test_a_checkout_is_recognised_by_its_layout():
    assert ROOT is None or Path(__import__("zephon.plugins.known").plugins.known.__file__).resolve() == (
        ROOT / "zephon_core/src/zephon/plugins/known.py"
    )
