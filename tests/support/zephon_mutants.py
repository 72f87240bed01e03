"""Runs the kit on plugins that are wrong on purpose, and on toys that are right.

Each extension point has a folder in ``tests/mutants`` that is put on the path of a fresh interpreter as an installed
distribution would be: a package ``zephon_<point>_mutants`` and its ``dist-info`` with entry points. The package has

- ``plugin.py``: the descriptors;
- ``samples.py``: ``SUITE``, the name of the kit's suite, and ``Samples``, what an author would tell it;
- ``toys.py``: the plugins ``minimal`` and ``maximal``, which must pass;
- ``mutants.py``: plugins with one fault each, and ``MUTANTS``, the clause that must find it, by name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "mutants"

# Toys are put to every clause. Of a mutant only the clause that must find it is of interest.
_CONFTEST = """
MUTANTS = {mutants!r}

def pytest_collection_modifyitems(config, items):
    def wanted(item):
        mark = item.get_closest_marker("clause")
        clause = MUTANTS.get(item.cls.plugin)
        return clause is None or (mark is not None and mark.args[0] == clause)

    items[:] = [item for item in items if wanted(item)]
"""

_CLASSES = """
from zephon_testkit import {suite}
from {package}.samples import Samples

for name in {names!r}:
    globals()["Test_" + name] = type("Test_" + name, (Samples, {suite}), {{"plugin": name, "__module__": __name__}})
"""


def expected(point: str) -> dict[str, str]:
    """The mutants of a point: the clause that must find each, by name."""
    folder = str(FOLDER / point)
    sys.path.append(folder)
    try:
        mutants: dict[str, str] = import_module(f"zephon_{point}_mutants.mutants").MUTANTS
    finally:
        sys.path.remove(folder)
    return mutants


def suite_name(point: str) -> str:
    """The kit's suite for a point."""
    folder = str(FOLDER / point)
    sys.path.append(folder)
    try:
        name: str = import_module(f"zephon_{point}_mutants.samples").SUITE
    finally:
        sys.path.remove(folder)
    return name


def reports(point: str, names: list[str], work: Path, *, timeout: float = 400) -> dict[str, dict[str, Any]]:
    """The kit's report of each plugin, by name, all made in one fresh interpreter.

    Args:
        point: folder of ``tests/mutants``.
        names: names of plugins of its package.
        work: an empty folder.
        timeout: seconds.
    """
    text = _CLASSES.format(suite=suite_name(point), package=f"zephon_{point}_mutants", names=names)
    return run(text, names, expected(point), FOLDER / point, work, timeout=timeout)


def run(
    tests: str, names: list[str], mutants: dict[str, str], site: Path, work: Path, *, timeout: float = 400
) -> dict[str, dict[str, Any]]:
    """The kit's report of each plugin, by name.

    Args:
        tests: a module of tests, one class per plugin.
        names: of these plugins.
        mutants: the clause that must find each mutant; of these, no other clause is checked.
        site: a folder with distributions as pip installs them.
        work: an empty folder.
        timeout: seconds.
    """
    (work / "test_mutants.py").write_text(tests)
    (work / "conftest.py").write_text(_CONFTEST.format(mutants=mutants))
    (work / "pytest.ini").write_text("[pytest]\n")
    (work / "pyproject.toml").write_text("")  # no conformance.toml is looked for above
    command = [sys.executable, "-m", "pytest", "-q", "-p", "zephon_testkit.pytest_plugin", "-p", "no:cacheprovider"]
    command += ["--tb=short", "--zephon-report", str(work / "reports"), "--basetemp", str(work / "tmp")]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "ZEPHON_"))}
    env |= {"PYTHONPATH": str(site), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, "test_mutants.py"], cwd=work, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )
    found = {}
    for file in (work / "reports").glob("*.json"):
        content = json.loads(file.read_text())
        found[content["plugin"].partition(":")[2]] = content
    assert set(found) == set(names), f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return found


def clauses(report: dict[str, Any], outcome: str) -> dict[str, str]:
    """The clauses of a report with one outcome, each with its detail."""
    return {row["clause"]: row["detail"] for row in report["clauses"] if row["outcome"] == outcome}
