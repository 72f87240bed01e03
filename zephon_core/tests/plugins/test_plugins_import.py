"""Finding plugins stays light: asserted on the names of modules, in fresh interpreters."""

import json
import subprocess
import sys

import pytest

HEAVY = {"numpy", "pyarrow", "cattrs", "pluggy", "torch"}


def modules_after(code):
    """Top-level modules and all of zephon's that a fresh interpreter has imported after running some code."""
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    names = json.loads(done.stdout.splitlines()[-1])
    return {name if name.startswith("zephon") else name.partition(".")[0] for name in names}


def test_importing_the_package_imports_neither_data_libraries_nor_plugins():
    found = modules_after("import zephon.plugins")
    assert found.isdisjoint(HEAVY)
    assert found.isdisjoint({"email", "difflib", "pathlib"}), "importlib.metadata and error texts come when needed"
    assert {name for name in found if name.startswith("zephon")} <= {
        "zephon",
        "zephon.errors",
        "zephon.plugins",
        "zephon.plugins.descriptor",
        "zephon.plugins.discovery",
        "zephon.plugins.problems",
        "zephon.plugins.registry",
    }


@pytest.mark.parametrize(
    "code",
    [
        "from zephon.plugins import registry, POINTS; [registry(p).names() for p in POINTS]",
        "from zephon.plugins import registry; registry('operator').requirement('batch')",
        "from zephon.plugins import hooks; hooks()",
    ],
    ids=["names", "requirement", "no observers"],
)
def test_names_and_versions_are_known_without_importing_a_plugin(code):
    found = modules_after(code)
    assert found.isdisjoint({"numpy", "pyarrow", "cattrs", "torch"})
    assert not any(name.startswith("zephon_") or name.endswith(".plugin") for name in found)


def test_no_module_of_the_package_needs_numpy_or_pyarrow():
    found = modules_after(
        "import importlib, pkgutil, zephon.plugins as package\n"
        "for module in pkgutil.iter_modules(package.__path__):\n"
        "    importlib.import_module('zephon.plugins.' + module.name)"
    )
    assert "zephon.plugins.manager" in found
    assert found.isdisjoint({"numpy", "pyarrow", "cattrs", "torch"})
