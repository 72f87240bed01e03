"""What the files of this repository say of each other."""

import re
import tomllib

import pytest

import zephon_testkit
from zephon.plugins import POINTS

from .conftest import FOLDERS, ROOT, TESTKIT, project

PLUGINS = [folder for folder in FOLDERS if folder.parent.name == "plugins"]


@pytest.mark.parametrize("folder", FOLDERS[:-1], ids=lambda f: project(f)["name"])
def test_first_party_distributions_share_version_licence_and_python(folder):
    mine, root = project(folder), project(ROOT)
    for key in ("version", "license", "license-files", "requires-python", "authors"):
        assert mine[key] == root[key], key
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda f: f.name)
def test_a_plugin_is_a_flat_package_that_depends_on_the_core_and_not_on_the_whole(folder):
    mine = project(folder)
    assert mine["name"] == folder.name
    assert [p.parent.name for p in folder.glob("src/*/__init__.py")] == [folder.name.replace("-", "_")]
    assert (folder / "src" / folder.name.replace("-", "_") / "py.typed").is_file()
    needs = {re.split(r"[^\w-]", requirement)[0]: requirement for requirement in mine["dependencies"]}
    assert needs["zephon-core"] == f"zephon-core=={mine['version']}"
    assert "zephon" not in needs


def test_every_plugin_is_known_to_the_type_checker_the_layers_and_the_workspace():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    packages = sorted(folder.name.replace("-", "_") for folder in PLUGINS)
    lint = settings["importlinter"]
    assert sorted(lint["root_packages"]) == sorted(["zephon", "zephon_testkit", *packages])
    contracts = {c["name"]: c for c in lint["contracts"]}
    assert sorted(contracts["A plugin stands on the contracts alone"]["source_modules"]) == packages
    assert sorted(contracts["No plugin needs another"]["modules"]) == packages
    untyped = settings["mypy"]["overrides"][1]["module"]
    assert sorted(untyped) == sorted(f"{name}.*" for name in ["zephon", "zephon_testkit", *packages])
    folders = {folder.name for folder in PLUGINS}
    assert set(settings["uv"]["sources"]) == {"zephon-core", "zephon-testkit", *folders}


def test_the_kit_has_a_version_of_its_own_and_depends_on_pytest_hypothesis_and_the_core_alone():
    kit = project(TESTKIT)
    assert {re.split(r"[^\w-]", need)[0] for need in kit["dependencies"]} == {"zephon-core", "pytest", "hypothesis"}
    assert kit["version"] == zephon_testkit.__version__
    assert int(kit["version"].partition(".")[0]) == max(POINTS.values()), "its major is that of the contracts"
    assert (TESTKIT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_core_has_its_five_dependencies_and_no_more():
    needs = {re.split(r"[^\w-]", r)[0] for r in project(ROOT / "zephon_core")["dependencies"]}
    assert needs == {"numpy", "pyarrow", "attrs", "cattrs", "pluggy"}


def test_torch_is_pinned_but_never_installed_by_default():
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()
    required = [*(ROOT / "requirements/dev.txt").read_text().splitlines()]
    for folder in FOLDERS:
        required += project(folder)["dependencies"]
    assert not [line for line in required if line.startswith("torch")]


def test_every_development_tool_is_pinned():
    lines = (ROOT / "requirements/dev.txt").read_text().splitlines()
    tools = [line for line in lines if line and not line.startswith("#")]
    assert tools
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", tool) for tool in tools)
