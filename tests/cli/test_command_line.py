"""``zephon``: usage, exit status, and errors as three lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zephon import __version__
from zephon.cli import COMMANDS
from zephon.cli import explain as explain_command

#: What the installation made of the entry point.
SCRIPT = Path(sys.executable).with_name("zephon")


def test_the_version_and_the_commands_are_told(zephon):
    assert zephon("--version") == (0, f"zephon {__version__}\n", "")
    status, out, _ = zephon("--help")
    assert status == 0
    for command, summary in COMMANDS.items():
        assert f"\n    {command}" in out
        assert summary.split()[0] in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(zephon, command):
    status, out, _ = zephon(command, "--help")
    assert status == 0
    assert out.startswith(f"usage: zephon {command}")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("index",),
        ("inspect",),
        ("explain",),
        ("verify",),
        ("verify", "recipe.toml", "--rounds", "many"),
        ("checkpoint",),
        ("checkpoint", "show"),
        ("checkpoint", "hide", "x"),
        ("plugins", "--jsno"),
        ("inspect", "x", "-n"),
    ],
)
def test_wrong_usage_is_status_2_and_says_what_is_right(zephon, arguments):
    status, out, err = zephon(*arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("usage: zephon")


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("index", "nowhere/at-all"), "path-missing", "nowhere/at-all"),
        (("index", "EMPTY"), "path-empty", "EMPTY"),
        (("index", "DATA", "--format", "parquets"), "plugin-unknown", "'parquets'"),
        (("inspect", "DATA/*.txt"), "path-missing", "*.txt"),
        (("inspect", "nowhere.toml"), "recipe-invalid", "nowhere.toml"),
        (("explain", "nowhere.toml"), "recipe-invalid", "nowhere.toml"),
        (("verify", "nowhere.toml"), "recipe-invalid", "nowhere.toml"),
        (("checkpoint", "show", "EMPTY"), "checkpoint-missing", "EMPTY"),
        (("checkpoint", "show", "EMPTY", "--step", "3"), "checkpoint-missing", "step 3"),
    ],
)
def test_an_error_is_three_lines_with_its_code_and_status_1(
    zephon, tmp_path, data, monkeypatch, arguments, code, named
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "EMPTY").mkdir()
    data.rename(tmp_path / "DATA")
    status, out, err = zephon(*arguments)
    assert status == 1
    assert out == ""
    first, found, fix = err.splitlines()
    assert first.startswith(f"[{code}] ")
    assert found.startswith("  found: ")
    assert fix.startswith("  do: ")
    assert named in err


def test_breaking_off_is_status_130(zephon, recipe, monkeypatch):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(explain_command, "run", interrupted)
    assert zephon("explain", recipe()) == (130, "", "")


def test_a_defect_of_ours_keeps_its_traceback(zephon, recipe, monkeypatch):
    def defective(args):
        raise ZeroDivisionError

    monkeypatch.setattr(explain_command, "run", defective)
    with pytest.raises(ZeroDivisionError):
        zephon("explain", recipe())


@pytest.mark.parametrize("command", [[str(SCRIPT)], [sys.executable, "-m", "zephon.cli"]], ids=["script", "module"])
def test_the_script_and_the_module_are_this_command_line_and_a_closed_pipe_is_no_error(data, command):
    inspect = [*command, "inspect", str(data), "-n", "100000"]
    piped = ["/bin/bash", "-c", '"$@" | head -n 1; echo "${PIPESTATUS[0]}"', "-", *inspect]
    ran = subprocess.run(inspect, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stderr == ""
    assert ran.stdout.startswith("40 rows in 2 shards of jsonl\n\nrow 0\n")
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    ran = subprocess.run(piped, env=unbuffered, capture_output=True, text=True, timeout=60, check=True)
    assert (ran.stdout, ran.stderr) == ("40 rows in 2 shards of jsonl\n0\n", "")


def test_only_the_command_in_use_is_imported():
    code = """
import sys
from zephon.cli import main
main(["plugins"])
print([name for name in sys.modules if name.startswith("zephon.cli.")])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "['zephon.cli.plugins']"


def test_a_warning_is_one_line_on_standard_error(recipe):
    path = recipe(batch=7)  # forty rows over three lanes fill few batches of seven
    ran = subprocess.run([str(SCRIPT), "explain", str(path)], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.startswith("pipeline ")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("warning: ")
    assert "are not delivered" in line
