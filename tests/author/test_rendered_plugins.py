"""What an author gets: a plugin of each kind that is right before it is edited, by all that its README says to run."""

import json
import re
from pathlib import Path

from cookiecutter.main import cookiecutter

from zephon_testkit.shipped import shipped

from .conftest import REPLAY

PLACE = "import sys, importlib; print(importlib.import_module(sys.argv[1]).__file__)"


def test_every_kind_has_a_replay_file(plugins):
    folder = shipped("cookiecutter")
    assert set(REPLAY) == set(json.loads((folder / "cookiecutter.json").read_text())["kind"])


def test_the_wheel_of_the_kit_carries_the_whole_template(plugin, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text(json.dumps({"replay_dir": str(tmp_path), "cookiecutters_dir": str(tmp_path)}))
    expected = Path(
        cookiecutter(
            str(shipped("cookiecutter")),
            replay=str(REPLAY[plugin.answers["kind"]]),
            output_dir=str(tmp_path),
            config_file=str(settings),
            accept_hooks=False,
        )
    )
    files = [path.relative_to(expected) for path in expected.rglob("*") if path.is_file()]
    assert Path(".github/workflows/ci.yml") in files
    assert Path(".gitignore") in files
    for file in files:
        assert (plugin.folder / file).read_bytes() == (expected / file).read_bytes(), file


def test_what_is_installed_is_the_wheel(plugin):
    done = plugin.execute("python", "-c", PLACE, plugin.answers["__package"])
    assert done.stdout.startswith(str(plugin.bin.parent)), done.stderr
    listed = plugin.execute("zephon", "plugins", "--json")
    [entry] = [p for p in json.loads(listed.stdout) if f"{p['point']}:{p['name']}" == plugin.address]
    assert (entry["distribution"], entry["version"]) == (plugin.answers["__distribution"], "0.1.0")
    assert entry["status"] == "ok"


def test_its_own_tests_pass(plugin):
    done = plugin.execute("python", "-m", "pytest", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    # The kit's clauses and the example of its own; nothing is skipped, expected to fail, or warned of.
    outcome = re.search(r"=+ (\d+) passed in ", done.stdout)
    assert outcome, done.stdout
    assert int(outcome[1]) > 20


def test_the_kit_finds_it_conformant_without_a_line_of_its_tests(plugin, tmp_path):
    file = tmp_path / "report.json"
    done = plugin.execute("zephon", "conformance", "run", plugin.address, "--json", file)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())
    assert report["verdict"] == "conformant"
    assert report["distribution"] == plugin.answers["__distribution"]


def test_lint_and_format_find_nothing(plugin):
    for command in (["check"], ["format", "--check"]):
        done = plugin.execute("ruff", *command, "--no-cache", ".")
        assert done.returncode == 0, done.stdout


def test_types_are_right_under_strict_rules(plugin):
    done = plugin.execute("python", "-m", "mypy", "--cache-dir", plugin.scratch / "mypy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"no issues found in \d+ source files", done.stdout)


def test_nothing_was_left_to_render(plugin):
    for path in plugin.folder.rglob("*"):
        assert "cookiecutter" not in path.name
        if path.suffix in {".py", ".toml", ".md", ".yml"}:
            text = path.read_text()
            assert "cookiecutter" not in text, path
            assert not re.search(r"\{%|(?<!\$)\{\{ ", text), path
