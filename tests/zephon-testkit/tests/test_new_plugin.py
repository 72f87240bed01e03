"""``zephon new-plugin``: what it asks, what it refuses, and that what it renders is clean whatever the name.

That every kind works when it is installed is shown by ``make test-author``.
"""

import io
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from cookiecutter.exceptions import FailedHookException
from cookiecutter.main import cookiecutter

from zephon.cli import main
from zephon_testkit.shipped import shipped

TEMPLATE = shipped("cookiecutter")
KINDS = json.loads((TEMPLATE / "cookiecutter.json").read_text())["kind"]
REPLAY = {path.stem: path for path in sorted((Path(__file__).parents[2] / "author" / "replay").glob("*.json"))}
RUFF = Path(sys.executable).parent / "ruff"


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path, monkeypatch):
    """A home and a temporary folder of its own, and nobody who answers."""
    for name in ("home", "tmp", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def new_plugin(capsys):
    """Runs the command; its exit status, what it printed, what it complained of."""

    def run(*arguments):
        status = main(["new-plugin", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def tree(folder):
    """Every file below a folder, with its content."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def scratch_settings(tmp_path):
    """A configuration of cookiecutter that leaves the user's home alone."""
    path = tmp_path / "settings.yaml"
    path.write_text(json.dumps({"replay_dir": str(tmp_path / "kept"), "cookiecutters_dir": str(tmp_path / "kept")}))
    return str(path)


# -- what comes out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_and_plain_cookiecutter_render_the_same(new_plugin, tmp_path, kind):
    answers = json.loads(REPLAY[kind].read_text())["cookiecutter"]
    given = [f"--{key}={answers[key]}" for key in ("kind", "name", "author")]
    assert new_plugin(*given, "--output", tmp_path / "command")[0] == 0
    settings = scratch_settings(tmp_path)
    cookiecutter(str(TEMPLATE), replay=str(REPLAY[kind]), output_dir=str(tmp_path / "plain"), config_file=settings)
    rendered = tree(tmp_path / "command")
    assert rendered == tree(tmp_path / "plain")
    assert f"{answers['__distribution']}/tests/test_conformance.py" in rendered


@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_file_holds_what_follows_from_its_answers(tmp_path, kind):
    replay = json.loads(REPLAY[kind].read_text())["cookiecutter"]
    answers = {key: replay[key] for key in ("kind", "name", "author")}
    settings = scratch_settings(tmp_path)
    cookiecutter(str(TEMPLATE), no_input=True, extra_context=answers, output_dir=str(tmp_path), config_file=settings)
    kept = json.loads((tmp_path / "kept" / "cookiecutter.json").read_text())["cookiecutter"]
    assert {key: value for key, value in kept.items() if key in replay or not key.startswith("_")} == replay


@pytest.mark.parametrize(
    "name", ["ab", "block", "plugin", "operator", "a_name_of_middling_size", "x" * 32, "a_1" + "_b" * 14]
)
def test_what_is_rendered_is_clean_and_formatted_whatever_the_name(new_plugin, tmp_path, name):
    for kind in KINDS:
        status, _, err = new_plugin("--kind", kind, "--name", name, "--no-input", "--output", tmp_path / kind)
        assert (status, err) == (0, "")
        for path in (tmp_path / kind).rglob("*.py"):
            compile(path.read_text(), str(path), "exec")
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [RUFF, *command, "--no-cache", *(tmp_path / kind for kind in KINDS)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_the_ci_file_runs_what_the_readme_says_on_the_wheel_and_names_no_index(new_plugin):
    new_plugin("--kind", "runner", "--name", "crew", "--no-input")
    ci = Path("zephon-crew/.github/workflows/ci.yml").read_text()
    [job] = yaml.safe_load(ci)["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    readme = Path("zephon-crew/README.md").read_text()
    for command in ("pytest", "zephon conformance run runner:crew", "ruff check . && ruff format --check .", "mypy"):
        assert command in readme
        assert [line for line in commands if line.startswith(command)]
    assert any("dist/*.whl" in line for line in commands)
    assert not re.search(r"https?:|index-url", ci)
    assert all("@" in step["uses"] for step in job["steps"] if "uses" in step)


def test_the_author_may_have_any_name(new_plugin):
    author = 'Zoë "Z" O\'Hara \\ <zoe@example.org> 漢'
    assert new_plugin("--kind", "runner", "--name", "crew", "--author", author)[0] == 0
    with open("zephon-crew/pyproject.toml", "rb") as file:
        assert tomllib.load(file)["project"]["authors"] == [{"name": author}]


def test_it_says_how_to_go_on_and_leaves_nothing_behind(new_plugin, tmp_path):
    status, out, err = new_plugin("--kind", "shard_format", "--name", "my_lines", "--no-input", "--output", "a folder")
    assert (status, err) == (0, "")
    assert f"cd '{tmp_path / 'here/a folder/zephon-my-lines'}'" in out
    assert "zephon conformance run shard_format:my_lines" in out
    assert Path("a folder/zephon-my-lines/src/zephon_my_lines/shard_format.py").is_file()
    assert [*(tmp_path / "home").iterdir(), *(tmp_path / "tmp").iterdir()] == []


# -- what it asks ------------------------------------------------------------------------------------------------------


def test_it_asks_for_what_is_missing_until_the_answer_can_be_used(new_plugin, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("spaceship\n9\n3\nBatch\nbatch\nclean_up\n\n"))
    status, out, err = new_plugin()
    assert (status, err) == (0, "")
    assert out.count("What is it to be?") == 3
    assert "operator:batch is installed, by zephon-ops" in out
    with open("zephon-clean-up/pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    assert project["authors"] == [{"name": "The authors of zephon-clean-up"}]
    assert project["entry-points"] == {"zephon.operator.v1": {"clean_up": "zephon_clean_up.plugin:clean_up"}}


def test_it_does_not_ask_for_what_was_said(new_plugin, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Me\n"))
    status, out, _ = new_plugin("--kind=tokenizer", "--name=letters")
    assert status == 0
    assert "What is it to be?" not in out
    assert 'authors = [{ name = "Me" }]' in Path("zephon-letters/pyproject.toml").read_text()


# -- what it refuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--no-input"], "new-plugin-usage"),
        (["--no-input", "--kind", "runner"], "new-plugin-usage"),
        (["--kind", "runner"], "new-plugin-usage"),  # nobody answers
        (["--kind", "runer", "--name", "crew", "--no-input"], "new-plugin-usage"),
        (["--kind", "8", "--name", "crew", "--no-input"], "new-plugin-usage"),
        (["--kind", "runner", "--name", "crew", "--author", "a\nb"], "new-plugin-usage"),
        (["--kind", "runner", "--name", "crew", "--author", "{{ cookiecutter }}"], "new-plugin-usage"),
        *(
            (["--kind", "runner", "--name", name, "--no-input"], "new-plugin-name")
            for name in [
                "x",
                "Crew",
                "1st",
                "my-crew",
                "_crew",
                "crew_",
                "a__b",
                "class",
                "crêpe",
                "x" * 33,
                "../up",
                "a b",
            ]
        ),
        (["--kind", "runner", "--name", "conformance", "--no-input"], "new-plugin-name"),
        (["--kind", "runner", "--name", "threads", "--no-input"], "new-plugin-taken"),
        (["--kind", "lane-operator", "--name", "batch", "--no-input"], "new-plugin-taken"),
        (["--kind", "row-operator", "--name", "checkpoint", "--no-input"], "new-plugin-taken"),
        (["--kind", "storage", "--name", "memory", "--no-input"], "new-plugin-taken"),
        (["--kind", "runner", "--name", "core", "--no-input"], "new-plugin-taken"),
    ],
    ids=lambda value: (
        " ".join(value).replace("--", "").encode("unicode_escape").decode() if isinstance(value, list) else value
    ),
)
def test_what_cannot_be_is_refused_before_anything_is_written(new_plugin, arguments, code):
    status, out, err = new_plugin(*arguments)
    assert status != 0
    assert f"[{code}]" in err
    assert "do: zephon new-plugin --kind" in err
    assert "is a plugin that works" not in out
    assert list(Path().iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(new_plugin):
    Path("zephon-crew").mkdir()
    Path("zephon-crew/mine").write_text("x")
    _, _, err = new_plugin("--kind", "runner", "--name", "crew", "--no-input")
    assert "[new-plugin-taken]" in err
    assert tree(Path("zephon-crew")) == {"mine": b"x"}


def test_an_output_that_is_no_folder_is_an_error_that_names_it(new_plugin):
    Path("file").write_text("x")
    _, _, err = new_plugin("--kind", "runner", "--name", "crew", "--no-input", "--output", "file")
    assert "[new-plugin-usage]" in err
    assert "file" in err


def test_without_the_rendering_library_the_line_that_installs_it_is_shown(new_plugin, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "cookiecutter"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cookiecutter", None)
    _, _, err = new_plugin("--kind", "runner", "--name", "crew")
    assert "[new-plugin-needs-cookiecutter]" in err
    assert "do: pip install 'cookiecutter>=2.6'" in err


def test_plain_cookiecutter_refuses_a_bad_name_too(tmp_path):
    answers = {"kind": "runner", "name": "My-Crew"}
    with pytest.raises(FailedHookException):
        cookiecutter(
            str(TEMPLATE),
            no_input=True,
            extra_context=answers,
            output_dir=str(tmp_path / "here"),
            config_file=scratch_settings(tmp_path),
        )
    assert list(Path().iterdir()) == []
