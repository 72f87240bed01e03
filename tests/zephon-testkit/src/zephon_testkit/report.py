"""Reports: what became of every clause, the verdict, and the badge made of it."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any, Final, Literal

import attrs

from zephon_testkit.clauses import clauses

#: Version of the JSON form; raised when a reader of the old form would misread the new one.
SCHEMA_VERSION: Final = 1

Outcome = Literal["passed", "deviates", "failed", "unchecked"]
Verdict = Literal["conformant", "conformant-with-deviations", "non-conformant", "incomplete"]

# The worst comes last: a clause checked by several classes has the worst outcome of all.
_ORDER: Final[Sequence[Outcome]] = ("passed", "deviates", "unchecked", "failed")
_COLOURS: Final[Mapping[str, str]] = {
    "conformant": "brightgreen",
    "conformant-with-deviations": "yellowgreen",
    "non-conformant": "red",
    "incomplete": "lightgrey",
}


@attrs.frozen(slots=True, kw_only=True)
class Finding:
    """What one test said of one clause.

    Attributes:
        plugin: ``point:name``.
        clause: id; "" for the test that guards the suite itself.
        outcome: ``passed``; ``deviates`` (failed as ``conformance.toml`` says); ``failed``; ``unchecked`` (trouble of
            the set-up, or not run).
        test: the test, as pytest names it.
        detail: last line of the failure, or the deviation.
    """

    plugin: str
    clause: str
    outcome: Outcome
    test: str
    detail: str = ""


def report(
    plugin: str, expected: Iterable[str], findings: Sequence[Finding], about: Mapping[str, Any]
) -> dict[str, Any]:
    """The report of one plugin as plain data.

    Args:
        plugin: ``point:name``.
        expected: ids of the clauses its suites check; one without a finding is ``unchecked``.
        findings: of this plugin.
        about: ``distribution``, ``version``, ``contract`` and ``capabilities`` of the plugin, as far as known.
    """
    worst: dict[str, Finding] = {}
    for finding in findings:
        seen = worst.get(finding.clause)
        if seen is None or _ORDER.index(finding.outcome) > _ORDER.index(seen.outcome):
            worst[finding.clause] = finding
    for id in expected:
        if id not in worst:
            worst[id] = Finding(plugin=plugin, clause=id, outcome="unchecked", test="", detail="no test of it was run")
    stated = clauses()
    place = {id: number for number, id in enumerate(stated)}
    rows = [
        {
            "clause": finding.clause,
            "title": stated[finding.clause].title if finding.clause in stated else "The suite is as the kit ships it",
            "outcome": finding.outcome,
            "test": finding.test.rpartition("::")[2],
            "detail": finding.detail,
        }
        for finding in sorted(worst.values(), key=lambda finding: place.get(finding.clause, -1))
    ]
    outcomes = [finding.outcome for finding in worst.values()]
    return {
        "schema_version": SCHEMA_VERSION,
        "plugin": plugin,
        **about,
        "verdict": verdict(outcomes),
        "summary": {outcome: outcomes.count(outcome) for outcome in _ORDER},
        "versions": versions(),
        "clauses": rows,
    }


def verdict(outcomes: Sequence[Outcome]) -> Verdict:
    """What all outcomes come to. What could not be checked is never held against a plugin."""
    if "failed" in outcomes:
        return "non-conformant"
    if "unchecked" in outcomes or not outcomes:
        return "incomplete"
    return "conformant-with-deviations" if "deviates" in outcomes else "conformant"


def versions() -> dict[str, str]:
    """Of what the outcome may depend on."""
    names = ("zephon-core", "zephon-testkit", "numpy", "pyarrow", "hypothesis", "pytest")
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in names}}


def badge(content: Mapping[str, Any]) -> dict[str, Any]:
    """The endpoint form of shields.io for a report.

    Raises:
        ValueError: this is no report, or one of another ``schema_version``.
    """
    if content.get("schema_version") != SCHEMA_VERSION or content.get("verdict") not in _COLOURS:
        raise ValueError(f"expected a report with schema_version {SCHEMA_VERSION}")
    point, _, _ = str(content["plugin"]).partition(":")
    return {
        "schemaVersion": 1,
        "label": f"zephon {point.replace('_', ' ')} v{content.get('contract', 1)}",
        "message": content["verdict"],
        "color": _COLOURS[content["verdict"]],
    }
