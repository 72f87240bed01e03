"""``zephon verify`` on recipes whose groups cannot know alone where they end."""

import json

import pytest

from zephon.cli import main

RECIPE = """
[source]
seed = 3
mixture = { lines = 1 }
[[source.datasets]]
name = "lines"
path = "data/"
[[operators]]
%s
[[operators]]
op = "batch"
microbatch_size = 2
[options]
canonical_replicas = 3
parallelism = 0
"""
FUNCTIONS = """
calls = []

def good(row):
    return row["n"] % 3 > 0

def impure(row):
    calls.append(row)
    return {"n": len(calls)}
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Writes a recipe over a few rows with one operator, and returns its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "verify_functions.py").write_text(FUNCTIONS)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/rows.jsonl").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(60)))

    def write(operator):
        path = tmp_path / "recipe.toml"
        path.write_text(RECIPE % operator)
        return str(path)

    return write


def test_a_finite_recipe_that_drops_rows_is_verified_to_its_end_on_several_groups(recipe, capsys):
    path = recipe('op = "filter"\npredicate = "verify_functions:good"')
    assert main(["verify", path, "--variants", "4", "--rounds", "20"]) == 0
    out = capsys.readouterr().out
    assert " groups" in out
    assert out.count("rounds identical") == 4


def test_a_function_that_is_not_pure_is_found(recipe, capsys):
    path = recipe('op = "map_transform"\nfn = "verify_functions:impure"\nschema = { n = "int64" }')
    assert main(["verify", path, "--variants", "4", "--rounds", "5"]) == 1
    assert "DIFFERS" in capsys.readouterr().out
