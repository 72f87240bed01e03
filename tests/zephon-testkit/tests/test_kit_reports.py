"""Reports, verdicts, badges and deviations as data."""

import json

import pytest

from zephon_testkit.clauses import clauses
from zephon_testkit.deviations import BadDeviations, find, read
from zephon_testkit.report import Finding, badge, report, verdict

ABOUT = {"distribution": "acme", "version": "1.0", "contract": 1, "capabilities": []}
KNOWN = list(clauses())
GOOD = {"plugin": "shard_format:lines", "clause": "SF-3", "status": "notyet", "reason": "because", "link": "https://x"}


def finding(clause, outcome, detail=""):
    return Finding(plugin="shard_format:lines", clause=clause, outcome=outcome, test="t", detail=detail)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["passed"], "conformant"),
        (["passed", "deviates"], "conformant-with-deviations"),
        (["passed", "unchecked", "deviates"], "incomplete"),
        (["passed", "unchecked", "failed", "deviates"], "non-conformant"),
        ([], "incomplete"),
    ],
)
def test_the_verdict_is_that_of_the_worst_clause_and_trouble_of_the_set_up_is_never_held_against_a_plugin(
    outcomes, expected
):
    assert verdict(outcomes) == expected


def test_a_report_has_every_clause_once_with_its_worst_outcome_in_the_order_of_the_contract():
    findings = [
        finding("SF-4", "passed"),
        finding("SF-3", "passed"),
        finding("SF-4", "failed", "no"),
        finding("", "passed"),
    ]
    made = report("shard_format:lines", ["SF-3", "SF-4", "SF-5"], findings, ABOUT)
    assert [(row["clause"], row["outcome"]) for row in made["clauses"]] == [
        ("", "passed"),
        ("SF-3", "passed"),
        ("SF-4", "failed"),
        ("SF-5", "unchecked"),
    ]
    assert made["verdict"] == "non-conformant"
    assert made["summary"] == {"passed": 2, "deviates": 0, "unchecked": 1, "failed": 1}
    assert made["schema_version"] == 1
    assert {"python", "zephon-core", "zephon-testkit"} <= made["versions"].keys()
    assert json.loads(json.dumps(made)) == made


@pytest.mark.parametrize(
    ("outcome", "colour"),
    [("passed", "brightgreen"), ("deviates", "yellowgreen"), ("failed", "red"), ("unchecked", "lightgrey")],
)
def test_a_badge_shows_the_verdict(outcome, colour):
    made = badge(report("shard_format:lines", ["SF-3"], [finding("SF-3", outcome)], ABOUT))
    assert made == {
        "schemaVersion": 1,
        "label": "zephon shard format v1",
        "message": verdict([outcome]),
        "color": colour,
    }


@pytest.mark.parametrize("content", [{}, {"schema_version": 2, "verdict": "conformant"}, {"schema_version": 1}])
def test_what_is_no_report_gives_no_badge(content):
    with pytest.raises(ValueError, match="schema_version"):
        badge(content)


def toml(path, *entries, **changes):
    lines = []
    for entry in entries or [GOOD | changes]:
        lines += [
            "[[deviation]]",
            *(f"{key} = {json.dumps(value)}" for key, value in entry.items() if value is not None),
        ]
    path.write_text("\n".join(lines))
    return path


def test_a_deviation_says_what_why_and_where(tmp_path):
    [found] = read(toml(tmp_path / "conformance.toml"), KNOWN)
    assert (found.plugin, found.clause) == ("shard_format:lines", "SF-3")
    assert found.text == "notyet: because (https://x)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clause": "SF-999"}, "no contract has a clause 'SF-999'"),
        ({"status": "later"}, "none of notimpl, notyet, never"),
        ({"reason": None}, "reason is missing"),
        ({"reason": " "}, "reason is missing"),
        ({"link": None}, "link is missing"),
        ({"plugin": None}, "plugin is missing"),
        ({"owner": "me"}, "unknown key 'owner'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_deviation_that_says_less_is_refused(tmp_path, changes, message):
    with pytest.raises(BadDeviations, match=message):
        read(toml(tmp_path / "conformance.toml", **changes), KNOWN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deviation = [", "conformance.toml"),
        ("[deviation]\nplugin = 'x'", "two brackets"),
        ("[[deviations]]\nplugin = 'x'", "unknown table 'deviations'"),
    ],
    ids=["syntax", "table", "name"],
)
def test_a_file_of_another_form_is_refused(tmp_path, text, message):
    (tmp_path / "conformance.toml").write_text(text)
    with pytest.raises(BadDeviations, match=message):
        read(tmp_path / "conformance.toml", KNOWN)


def test_a_clause_deviates_once(tmp_path):
    with pytest.raises(BadDeviations, match="twice"):
        read(toml(tmp_path / "conformance.toml", GOOD, GOOD), KNOWN)


def test_the_nearest_file_counts_up_to_the_project(tmp_path):
    inner = tmp_path / "project" / "tests" / "unit"
    inner.mkdir(parents=True)
    (tmp_path / "project" / "pyproject.toml").touch()
    (tmp_path / "conformance.toml").touch()
    assert find(inner) is None
    (tmp_path / "project" / "conformance.toml").touch()
    assert find(inner) == tmp_path / "project" / "conformance.toml"
    (inner.parent / "conformance.toml").touch()
    assert find(inner) == inner.parent / "conformance.toml"
