"""The kit as an author meets it: in test runs of their own, with mistakes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SITE = ROOT / "tests" / "mutants" / "shard_format"
CLASS = """
from zephon_testkit import ShardFormatTests
from zephon_shard_format_mutants.samples import Samples

class TestToy(Samples, ShardFormatTests):
    plugin = "{plugin}"
"""
DEVIATION = """
[[deviation]]
plugin = "shard_format:{plugin}"
clause = "{clause}"
status = "notyet"
reason = "the library does not tell"
link = "https://example.org/7"
"""


@pytest.fixture
def author(tmp_path):
    """A folder with one plugin's tests; runs pytest in it as its author would."""
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")

    def run(plugin, *arguments, members="", deviations=None, suite=CLASS):
        (tmp_path / "test_toy.py").write_text(suite.format(plugin=plugin) + members)
        if deviations is not None:
            (tmp_path / "conformance.toml").write_text(deviations)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--zephon-report=reports"]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "ZEPHON_"))}
        done = subprocess.run(
            [*command, *arguments],
            cwd=tmp_path,
            env={**env, "PYTHONPATH": str(SITE)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        file = tmp_path / "reports" / f"shard_format-{plugin}.json"
        content = json.loads(file.read_text()) if file.exists() else None
        return done.returncode, done.stdout + done.stderr, content

    return run


def outcomes(report, outcome):
    return [row["clause"] for row in report["clauses"] if row["outcome"] == outcome]


def test_a_plugin_that_is_right_needs_six_lines(author):
    status, output, report = author("minimal")
    assert status == 0, output
    assert report["verdict"] == "conformant"
    assert (report["distribution"], report["version"], report["contract"]) == ("zephon-shard-format-mutants", "1.0", 1)
    assert outcomes(report, "passed") == [row["clause"] for row in report["clauses"]]


def test_reports_come_together_from_several_processes(author):
    status, output, report = author("minimal", "-n", "2")
    assert status == 0, output
    assert report["verdict"] == "conformant"


def test_a_clause_that_is_broken_makes_it_non_conformant(author):
    status, output, report = author("claims_everything")
    assert status == 1
    assert report["verdict"] == "non-conformant"
    assert outcomes(report, "failed") == ["SF-1"]
    assert "it claims" in next(row["detail"] for row in report["clauses"] if row["clause"] == "SF-1")
    assert "Judge by content first" in output, "the failing test shows what to look at"


def test_a_deviation_is_an_expected_failure_with_its_reason(author):
    deviations = DEVIATION.format(plugin="claims_everything", clause="SF-1")
    status, output, report = author("claims_everything", deviations=deviations)
    assert status == 0, output
    assert report["verdict"] == "conformant-with-deviations"
    assert outcomes(report, "deviates") == ["SF-1"]
    assert "notyet: the library does not tell (https://example.org/7)" in json.dumps(report)


def test_a_deviation_that_is_no_longer_needed_fails(author):
    status, _, report = author("minimal", deviations=DEVIATION.format(plugin="minimal", clause="SF-1"))
    assert status == 1
    assert outcomes(report, "failed") == ["SF-1"]
    assert "remove its deviation" in json.dumps(report)


def test_a_deviation_of_another_plugin_is_none_of_this_one(author):
    status, _, report = author("minimal", deviations=DEVIATION.format(plugin="other", clause="SF-1"))
    assert status == 0
    assert report["verdict"] == "conformant"


def test_a_deviation_from_a_clause_that_does_not_exist_stops_the_run(author):
    status, output, report = author("minimal", deviations=DEVIATION.format(plugin="minimal", clause="SF-99"))
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "no contract has a clause 'SF-99'" in output
    assert report is None


OVERRIDE = """
    def test_it_recognises_its_files_and_no_others(self):
        pass
"""


@pytest.mark.parametrize(
    "members", [OVERRIDE, "\n    test_rows_come_as_asked_for = None\n"], ids=["redefined", "removed"]
)
def test_a_test_of_the_kit_that_is_overridden_is_noticed(author, members):
    status, output, report = author("claims_everything", "-k", "overridden or recognises", members=members)
    assert status == 1
    assert report["verdict"] == "non-conformant"
    assert "overrides test_" in output


def test_the_guard_itself_cannot_be_overridden(author):
    members = "\n    def test_no_test_of_the_kit_is_overridden(self):\n        pass\n"
    status, output, _ = author("minimal", members=members)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "guards the others" in output


def test_what_was_not_run_is_unchecked(author):
    status, _, report = author("minimal", "-k", "recognises")
    assert status == 0
    assert report["verdict"] == "incomplete"
    assert "SF-2" in outcomes(report, "unchecked")


NO_WRITER = """
from zephon_testkit import ShardFormatTests

class TestToy(ShardFormatTests):
    plugin = "{plugin}"
"""


def test_a_sample_that_is_missing_is_trouble_of_the_set_up_and_says_what_to_provide(author):
    status, output, report = author("minimal", suite=NO_WRITER)
    assert status == 1
    assert report["verdict"] == "incomplete"
    assert outcomes(report, "failed") == []
    assert "override write()" in output


def test_a_plugin_that_is_not_installed_is_no_finding_either(author):
    _, output, report = author("never_heard_of", suite=NO_WRITER)
    assert report["verdict"] == "incomplete"
    assert "no installed distribution" in output


def test_trouble_of_the_set_up_is_no_deviation(author):
    deviations = DEVIATION.format(plugin="minimal", clause="SF-3")
    _, _, report = author("minimal", suite=NO_WRITER, deviations=deviations)
    assert "SF-3" in outcomes(report, "unchecked")


def test_a_profile_that_does_not_exist_is_named(author):
    status, output, _ = author("minimal", "--zephon-profile=thorough")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "'thorough' is no profile" in output


def test_a_run_without_the_kits_suites_imports_nothing_of_zephon(author):
    suite = (
        "import sys\n\ndef test_it():\n    assert not [m for m in sys.modules if m == 'zephon' or m == 'hypothesis']\n"
    )
    status, output, _ = author("minimal", "-p", "no:hypothesispytest", suite=suite)
    assert status == 0, output
