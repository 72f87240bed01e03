"""Small files, a recipe over them, and the command line in this process."""

import pytest

from zephon.cli import main
from zephon_fault_files import jsonl
from zephon_recipe_functions import toml


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path_factory, monkeypatch):
    """Indexes stay out of the user's cache; no launcher's variables; a terminal of known width."""
    monkeypatch.setenv("ZEPHON_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def zephon(capsys):
    """Runs a command and returns its exit status, what it printed, and what it complained of."""

    def run(*arguments):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # what argparse does
            status = stop.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def data(tmp_path):
    """Two shards of JSON Lines, 40 rows."""
    return jsonl(tmp_path / "data", [22, 18])


@pytest.fixture
def recipe(tmp_path, data):
    """Writes a recipe with these operators before ``batch`` and returns its path."""

    def write(*operators, batch=2, options=None, **source):
        plain = {
            "source": {"mixture": {"web": 1}, "seed": 3, "datasets": [{"name": "web", "path": str(data)}], **source},
            "operators": [*operators, {"op": "batch", "microbatch_size": batch}],
            "options": {"canonical_replicas": 3, **(options or {})},
        }
        path = tmp_path / "recipe.toml"
        path.write_text(toml(plain), encoding="utf-8")
        return path

    return write
