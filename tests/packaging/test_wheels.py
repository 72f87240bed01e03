"""What users install: the wheels, where no source tree is in reach."""

import json
import zipfile
from email import message_from_bytes

import pytest

from .conftest import FOLDERS, ROOT, project, run

IMPORTS = """
import importlib, json, pkgutil, sys
homes = {}
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    homes[name] = package.__file__
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if not module.name.endswith("__main__"):
            homes[module.name] = importlib.import_module(module.name).__file__
print(json.dumps(homes))
"""

TOY_PIPELINE = """
import json, pathlib, sys
from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

data = pathlib.Path(sys.argv[1])
data.joinpath("a.lines").write_text("one\\ntwo\\nthree\\n")
data.joinpath("b.lines").write_text("four\\nfive\\n")
dataset = Dataset.from_path("toys", str(data))
source = StaticMixtureWorkSource([dataset], {"toys": 1.0}, shuffle_shards=False)
with Pipeline(source).shout(field="text").batch(2, drop_last=False) as pipeline:
    print(json.dumps([batch["text"].to_pylist() for batch in pipeline]))
"""
TOY_OUTPUT = [["ONE", "TWO"], ["THREE", "FOUR"], ["FIVE"]]

LIGHT = """
import json, sys
from zephon.plugins import POINTS, registry
for point in POINTS:
    assert registry(point).descriptors().keys() == set(registry(point).names())
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""

CODES = """
import json
from zephon.errors import PluginError
from zephon.plugins import registry, status

def code(name):
    try:
        registry("operator").load(name)
    except PluginError as error:
        return error.code

codes = {name: code(name) for name in ("future", "past", "raises", "twin", "shout")}
verdicts = {s.name: s.status.partition(":")[0] for s in status() if s.point == "operator"}
print(json.dumps([codes, verdicts]))
"""


def wheel_of(folder, wheels):
    """The wheel of one distribution, opened."""
    name = project(folder)["name"].replace("-", "_")
    [file] = wheels.glob(f"{name}-*.whl")
    return zipfile.ZipFile(file)


def packages_of(folder):
    """The import packages a distribution is meant to have."""
    return [path.parent.name for path in folder.glob("src/*/__init__.py")]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: project(f)["name"])
def test_a_wheel_has_its_one_package_its_types_and_its_licence_and_nothing_else(folder, wheels):
    with wheel_of(folder, wheels) as wheel:
        names = wheel.namelist()
        info = next(name.partition("/")[0] for name in names if ".dist-info/" in name)
        metadata = message_from_bytes(wheel.read(f"{info}/METADATA"))
        licence = wheel.read(f"{info}/licenses/LICENSE")
    packages = packages_of(folder)
    assert {name.partition("/")[0] for name in names} == {*packages, info}
    assert all(f"{package}/py.typed" in names for package in packages)
    assert not [name for name in names if name.endswith(".pyc") or "/tests/" in name]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert metadata.get_payload().strip(), "the README is its description"


def test_the_root_distribution_has_no_code_and_pins_the_core_and_every_default_plugin(wheels):
    with wheel_of(ROOT, wheels) as wheel:
        assert all(".dist-info/" in name for name in wheel.namelist())
    root = project(ROOT)
    first_party = {project(folder)["name"]: project(folder)["version"] for folder in FOLDERS[:-1]}
    pinned = dict(requirement.split("==") for requirement in root["dependencies"])
    assert pinned.items() <= first_party.items()
    assert "zephon-core" in pinned
    extras = {r.split("==")[0] for needs in root.get("optional-dependencies", {}).values() for r in needs}
    assert set(first_party) <= {*pinned, *extras}, "a distribution of this tree is neither a default nor an extra"


def test_the_wheel_of_the_kit_carries_the_contracts_and_the_template(wheels):
    [file] = wheels.glob("zephon_testkit-*.whl")
    names = {name for name in zipfile.ZipFile(file).namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {"zephon_testkit"}
    for folder in ("docs/contracts", "cookiecutter"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        packed = {f"zephon_testkit/{path.relative_to((ROOT / folder).parent).as_posix()}" for path in files}
        assert packed
        assert packed <= names
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_kit_of_the_wheel_checks_a_plugin_of_a_wheel(installed):
    script = "import sys, zephon.cli; sys.exit(zephon.cli.main(['conformance', 'run', 'shard_format:parquet']))"
    assert installed.script(script).splitlines()[-1].startswith("conformant: ")


def test_every_module_can_be_imported_and_comes_from_the_wheel(installed):
    packages = [name for folder in FOLDERS for name in packages_of(folder)]
    homes = json.loads(installed.script(IMPORTS, *packages))
    assert set(packages) <= set(homes)
    assert {name: home for name, home in homes.items() if not home.startswith(str(installed.folder))} == {}


def test_the_command_lists_every_plugin_of_the_wheels_as_working(installed):
    listed = json.loads(installed.script("import sys, zephon.cli; sys.exit(zephon.cli.main(['plugins', '--json']))"))
    declared = {
        (group.removeprefix("zephon.").removesuffix(".v1"), name, project(folder)["name"], project(folder)["version"])
        for folder in FOLDERS
        for group, entries in project(folder).get("entry-points", {}).items()
        for name in entries
    }
    stranger = {("operator", "shout", "acme-toy", "4.2"), ("shard_format", "lines", "acme-toy", "4.2")}
    assert {(p["point"], p["name"], p["distribution"], p["version"]) for p in listed} == declared | stranger
    assert {f"{p['point']}:{p['name']}": p["status"] for p in listed if p["status"] != "ok"} == {}
    assert all(p["contract"] == 1 and p["summary"] for p in listed)


def test_describing_every_plugin_imports_no_library_that_works_on_data(installed):
    heavy = {"numpy", "pyarrow", "cattrs", "fsspec", "tokenizers", "zstandard", "torch"}
    assert heavy & set(json.loads(installed.script(LIGHT))) == set()


def test_the_console_script_runs(installed):
    assert run(installed.bin / "zephon", "--version").split() == ["zephon", project(ROOT / "zephon_core")["version"]]


def test_a_strangers_operator_and_format_work_in_a_pipeline_by_name(installed, tmp_path):
    assert json.loads(installed.script(TOY_PIPELINE, tmp_path)) == TOY_OUTPUT


@pytest.fixture
def troublemakers(tmp_path):
    """A folder of distributions that are each wrong in a way of their own."""

    def distribution(name, group, entry):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        info.joinpath("entry_points.txt").write_text(f"[{group}]\n{entry} = {entry}_module:plugin\n")

    distribution("from_the_future", "zephon.operator.v2", "future")
    distribution("from_the_past", "zephon.operator.v0", "past")
    distribution("raising", "zephon.operator.v1", "raises")
    distribution("twin_a", "zephon.operator.v1", "twin")
    distribution("twin_b", "zephon.operator.v1", "twin")
    for module in ("future", "past", "raises"):
        tmp_path.joinpath(f"{module}_module.py").write_text("raise ArithmeticError('imported')\n")
    return tmp_path


def test_what_is_wrong_with_a_plugin_shows_under_its_own_name_and_harms_no_other(
    installed, troublemakers, tmp_path_factory
):
    codes, verdicts = json.loads(installed.script(CODES, path=troublemakers))
    assert codes == {
        "future": "plugin-outdated",
        "past": "plugin-outdated",
        "raises": "plugin-broken",
        "twin": "plugin-duplicate",
        "shout": None,
    }
    wrong = {"future": "outdated", "past": "outdated", "raises": "broken", "twin": "duplicate"}
    assert {name: verdict for name, verdict in verdicts.items() if verdict != "ok"} == wrong
    data = tmp_path_factory.mktemp("data")
    assert json.loads(installed.script(TOY_PIPELINE, data, path=troublemakers)) == TOY_OUTPUT


MESSAGES = """
from zephon.errors import PluginError
from zephon.plugins import registry

for name in ("future", "past", "raises", "twin"):
    try:
        registry("operator").load(name)
    except PluginError as error:
        print(error)
"""

SAID = """\
[plugin-outdated] the operator plugin 'future' of from_the_future 1.0 does not fit this core
  found: it is written for v2 of the operator contract; this core reads v1
  do: update zephon-core to a version that agrees with the other
[plugin-outdated] the operator plugin 'past' of from_the_past 1.0 does not fit this core
  found: it is written for v0 of the operator contract; this core reads v1
  do: update from_the_past to a version that agrees with the other
[plugin-broken] the operator plugin 'raises' of raising 1.0 cannot be imported
  found: importing raises_module:plugin raised ArithmeticError: imported
  do: repair raising, or do without it: pip uninstall raising
[plugin-duplicate] the operator name 'twin' is claimed 2 times
  found: twin_a 1.0 (twin_module:plugin) and twin_b 1.0 (twin_module:plugin)
  do: keep one: pip uninstall twin_b
"""


def test_what_is_said_of_a_plugin_that_is_outdated_broken_or_claimed_twice(installed, troublemakers):
    said = installed.script(MESSAGES, path=troublemakers)
    # Which of two rivals is named first depends on the order of a directory.
    turned = SAID.replace("twin_a", "twin_c").replace("twin_b", "twin_a").replace("twin_c", "twin_b")
    assert said == (turned if "found: twin_b" in said else SAID)


HEAVY = """
import json, sys
import zephon
first = sorted(sys.modules)
from zephon.cli import main
main(["plugins", "--json"])
print(json.dumps([first, sorted(sys.modules)]))
"""


def test_a_plugin_with_a_heavy_dependency_adds_nothing_to_zephon_nor_to_the_list_of_plugins(installed, tmp_path):
    def modules():
        *listed, last = installed.script(HEAVY, path=tmp_path).splitlines()
        return json.loads("\n".join(listed)), *map(set, json.loads(last))

    _, import_before, plugins_before = modules()
    package = tmp_path / "acme_heavy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "plugin.py").write_text(
        "from zephon.plugins import TokenizerDescriptor\n"
        'heavy = TokenizerDescriptor(name="heavy", summary="takes a lot", impl="acme_heavy.impl:Heavy")\n'
    )
    (package / "impl.py").write_text("import heavy_library\n")
    (tmp_path / "heavy_library.py").write_text("import numpy, pyarrow\n")
    info = tmp_path / "acme_heavy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-heavy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[zephon.tokenizer.v1]\nheavy = acme_heavy.plugin:heavy\n")
    listed, import_after, plugins_after = modules()
    assert [p["status"] for p in listed if p["name"] == "heavy"] == ["ok"]
    assert import_after == import_before
    assert plugins_after - plugins_before == {"acme_heavy", "acme_heavy.plugin"}
