"""What importing costs: module names first, as they are the same on every machine, then time, generously."""

import json
import subprocess
import sys
from statistics import median

import pytest

#: Seconds (design, section 13), and how far a loaded machine may be off.
BUDGETS = {"import zephon": 0.010, "from zephon import Pipeline": 0.080}
PATIENCE = 3

SCRIPT = """
import json, sys, time
before = set(sys.modules)
begun = time.perf_counter()
{code}
seconds = time.perf_counter() - begun
print(json.dumps([seconds, sorted(set(sys.modules) - before)]))
"""


def cost_of(code):
    """Seconds some code takes in a fresh interpreter, and the modules it brings in."""
    command = [sys.executable, "-c", SCRIPT.format(code=code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    seconds, modules = json.loads(done.stdout.splitlines()[-1])
    return seconds, modules


def third_party(modules):
    """Top-level names that are neither the standard library's nor ours."""
    roots = {name.partition(".")[0] for name in modules}
    return sorted(roots - set(sys.stdlib_module_names) - {"zephon"})


def test_importing_zephon_imports_nothing_else_of_ours_and_nothing_of_others():
    _, modules = cost_of("import zephon")
    assert third_party(modules) == []
    assert [name for name in modules if name.startswith("zephon")] == ["zephon"]


def test_pipeline_comes_without_numpy_pyarrow_cattrs_or_any_plugin():
    _, modules = cost_of("from zephon import Pipeline")
    assert third_party(modules) == []
    assert not [name for name in modules if name.startswith("zephon_") or name.endswith(".plugin")]


@pytest.mark.parametrize("on", ["Pipeline", "Pipeline.__new__(Pipeline)"], ids=["class", "instance"])
def test_dir_lists_the_operators_without_importing_a_plugin(on):
    _, modules = cost_of(f"from zephon import Pipeline; assert {{'batch', 'pipe', 'tokenize'}} <= set(dir({on}))")
    assert set(third_party(modules)) <= {"attr", "attrs"}
    assert not [name for name in modules if name.startswith("zephon_") or name.endswith(".plugin")]


@pytest.mark.parametrize("code", BUDGETS)
def test_importing_is_quick(code):
    seconds = median(cost_of(code)[0] for _ in range(5))
    assert seconds < PATIENCE * BUDGETS[code]
