"""Our own plugins pass through the second door, and the reports that say so are those that are kept."""

import json
import subprocess
import sys

import pytest

import zephon_conformance
from zephon.cli import main
from zephon_testkit.suites import suite_for


# The Ray runner starts clusters: its own tests, `make test-ray`, go through this door as well.
@pytest.mark.parametrize("address", [a for a in zephon_conformance.addresses() if a != "runner:ray"])
def test_a_first_party_plugin_is_conformant_without_a_line_of_its_author(address, tmp_path, capsys):
    file = tmp_path / "report.json"
    status = main(["conformance", "run", address, "--json", str(file)])
    printed = capsys.readouterr().out
    report = json.loads(file.read_text())
    assert report["verdict"] == "conformant", printed
    assert status == 0
    assert printed.splitlines()[-1].startswith("conformant: ")
    assert sorted(row["clause"] for row in report["clauses"] if row["clause"]) == sorted(suite_for(address).clauses())
    kept = zephon_conformance.committed()[address]
    assert kept["clauses"] == report["clauses"], "run make conformance"
    assert (kept["verdict"], kept["version"]) == (report["verdict"], report["version"]), "run make conformance"


def test_the_readme_shows_what_the_reports_say():
    assert zephon_conformance.committed().keys() == set(zephon_conformance.addresses())
    assert zephon_conformance.written() == zephon_conformance.table(), "run make conformance"


def test_the_verdict_is_the_exit_status_and_the_report_is_a_badge(tmp_path, capsys):
    file = zephon_conformance.file_of("shard_format:parquet")
    badge = tmp_path / "badge.json"
    assert main(["conformance", "badge", str(file), "--output", str(badge)]) == 0
    assert json.loads(badge.read_text())["message"] == "conformant"
    assert main(["conformance", "badge", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(badge.read_text())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "shard_format:jsnl"], "conformance-usage"),
        (["run", "parquet"], "conformance-usage"),
        (["run", "shard_format:jsonl", "--deviations", "missing.toml"], "conformance-usage"),
        (["badge", "missing.json"], "conformance-report"),
        (["badge", __file__], "conformance-report"),
    ],
    ids=["unknown", "no-point", "no-deviations", "no-report", "not-a-report"],
)
def test_wrong_usage_says_what_to_do(arguments, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["conformance", *arguments]) == 1
    assert f"[{code}]" in capsys.readouterr().err


def test_a_deviation_is_read_from_the_folder_the_command_runs_in(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conformance.toml").write_text(
        '[[deviation]]\nplugin = "shard_format:jsonl"\nclause = "SF-1"\nstatus = "never"\nreason = "r"\nlink = "l"\n'
    )
    assert main(["conformance", "run", "shard_format:jsonl"]) == 1
    assert "SF-1" in capsys.readouterr().out, "the clause holds, so the deviation is out of date"


def test_a_plugin_that_ends_the_interpreter_is_incomplete_and_does_not_end_the_command(tmp_path, capsys, monkeypatch):
    package = tmp_path / "deadly"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "plugin.py").write_text(
        "from zephon.plugins import RunnerDescriptor\n"
        'deadly = RunnerDescriptor(name="deadly", summary="ends everything", impl="deadly.impl:Deadly")\n'
    )
    (package / "impl.py").write_text("import os\n\nos._exit(9)\n")
    info = tmp_path / "deadly-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[zephon.runner.v1]\ndeadly = deadly.plugin:deadly\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["conformance", "run", "runner:deadly"]) == 3
    printed = capsys.readouterr().out
    assert "incomplete" in printed
    assert "ended with status 9" in printed


def test_without_the_kit_the_command_says_how_to_install_it(tmp_path):
    script = (
        "import sys; sys.modules['zephon_testkit'] = None\n"
        "from zephon.cli import main\n"
        "sys.exit(main(['conformance', 'run', 'shard_format:jsonl']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "[testkit-missing]" in done.stderr
    assert "pip install" in done.stderr
