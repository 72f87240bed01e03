"""The kit tells a distribution that is packed wrongly from one that is packed right."""

import pytest

import zephon_mutants
from zephon_testkit.suites import clauses_of

INIT = '"""A stranger\'s plugin."""\n'
PLUGIN = """\
from zephon.plugins import OperatorDescriptor

{name} = OperatorDescriptor(name="{name}", summary="passes rows on", impl="{name}.impl:Same")
"""
IMPL = '''\
import attrs

from zephon.abc import RowOperator
from zephon.spec import execution


@attrs.frozen(slots=True)
class Same(RowOperator):
    """Passes rows on."""

    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def output_schema(self, schema):
        return schema

    def apply(self, block):
        return block
'''
# A library that is installed, of a distribution that nothing here depends on.
OPTIONAL = "import iniconfig\n"


def distribution(folder, name, *, requires=("attrs", "zephon-core"), entry=None, **files):
    """An installed distribution with one operator; a file that is None is left out."""
    package = folder / name
    package.mkdir()
    content = {"__init__.py": INIT, "py.typed": "", "plugin.py": PLUGIN, "impl.py": IMPL} | {
        key.replace("_py", ".py").replace("_typed", ".typed"): text for key, text in files.items()
    }
    for file, text in content.items():
        if text is not None:
            (package / file).write_text(text.replace("{name}", name))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    needs = "".join(f"Requires-Dist: {need}\n" for need in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
    (info / "RECORD").write_text("".join(f"{name}/{file},,\n" for file in content))
    entry = entry or f"[zephon.operator.v1]\n{name} = {name}.plugin:{name}\n"
    (info / "entry_points.txt").write_text(entry)


def summary(text):
    return PLUGIN.replace('"passes rows on"', text)


MUTANTS = {
    "other_name": ("PK-1", {"plugin_py": PLUGIN.replace('name="{name}"', 'name="another_name"')}),
    "claimed_twice": ("PK-1", {}),
    "of_another_kind": ("PK-1", {"plugin_py": PLUGIN.replace("OperatorDescriptor", "RunnerDescriptor")}),
    "heavy_descriptor": ("PK-2", {"plugin_py": "import numpy\n" + PLUGIN}),
    "heavy_package": ("PK-2", {"__init___py": INIT + "import zephon.abc\n"}),
    "broken_import": ("PK-3", {"impl_py": "raise ArithmeticError('imported')\n"}),
    "no_contract": ("PK-3", {"impl_py": IMPL.replace("(RowOperator)", "")}),
    "incomplete": ("PK-3", {"impl_py": IMPL.replace("def apply(self, block)", "def applied(self, block)")}),
    "untyped": ("PK-4", {"py_typed": None}),
    "other_parameters": ("PK-5", {"impl_py": IMPL.replace("(self, schema)", "(self, schema, datasets)")}),
    "renamed_parameters": ("PK-5", {"impl_py": IMPL.replace("block", "rows")}),
    "leans_on_the_engine": ("PK-6", {"impl_py": "from zephon.engine.lane import Lane\n" + IMPL}),
    "leans_on_the_package": ("PK-6", {"impl_py": "from zephon import io\n" + IMPL}),
    "undeclared_library": ("PK-7", {"impl_py": OPTIONAL + IMPL}),
    "wrong_requires": ("PK-8", {"plugin_py": summary('"x", requires=("iniconfig",)')}),
    "swallows_import_errors": (
        "PK-8",
        {
            "plugin_py": summary('"x", requires=("iniconfig",)'),
            "impl_py": "try:\n    import iniconfig\nexcept ImportError:\n    raise RuntimeError('none')\n" + IMPL,
        },
    ),
    "wordy": ("PK-9", {"plugin_py": summary('"Passes rows on."')}),
    "wordless": ("PK-9", {"impl_py": IMPL.replace('    """Passes rows on."""\n', "")}),
    "misspelt_capability": ("PK-10", {"plugin_py": summary('"x", capabilities={"writes"}')}),
    "starts_a_thread": (
        "PK-11",
        {"impl_py": "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n" + IMPL},
    ),
    "seeds_numpy": (
        "PK-11",
        {"impl_py": "import numpy\nnumpy.random.seed(0)\n" + IMPL, "requires": ["numpy", "attrs"]},
    ),
    "changes_the_environment": ("PK-11", {"impl_py": "import os\nos.environ['OMP_NUM_THREADS'] = '1'\n" + IMPL}),
    "prints": ("PK-11", {"impl_py": "print('hello')\n" + IMPL}),
}
TOYS = {
    "plain": {},
    # An optional library, asked for where it is needed and named.
    "optional": {"plugin_py": summary('"x", requires=("iniconfig",)'), "impl_py": OPTIONAL + IMPL},
}
CLASSES = """
from zephon_testkit import PluginTests

for name in {names!r}:
    globals()["Test_" + name] = type(
        "Test_" + name, (PluginTests,), {{"plugin": name, "point": "operator", "__module__": __name__}}
    )
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    site, work = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("work")
    everything = TOYS | {name: files for name, (_, files) in MUTANTS.items()}
    for name, files in everything.items():
        distribution(site, name, **files)
    rival = "[zephon.operator.v1]\nclaimed_twice = rival.plugin:rival\n"
    distribution(site, "rival", entry=rival)
    names = [*TOYS, *MUTANTS]
    clauses = {name: clause for name, (clause, _) in MUTANTS.items()}
    return zephon_mutants.run(CLASSES.format(names=names), names, clauses, site, work)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_rejected_by_its_clause(found, name):
    assert MUTANTS[name][0] in zephon_mutants.clauses(found[name], "failed")
    assert found[name]["verdict"] == "non-conformant"


@pytest.mark.parametrize("name", TOYS)
def test_a_toy_that_is_right_passes(found, name):
    assert zephon_mutants.clauses(found[name], "failed") == {}
    assert found[name]["verdict"] == "conformant"


def test_every_clause_has_a_mutant_that_only_it_may_let_pass():
    assert {clause for clause, _ in MUTANTS.values()} == set(clauses_of("PluginTests"))
