"""What pytest needs to know of the suites: the clause mark, deviations, the profile and the report.

Installed with the kit and idle in test runs that use none of its suites: it then imports nothing of Zephon.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from zephon_testkit.report import Outcome
    from zephon_testkit.suite import Suite

# Failures of the suites show their values. The package itself is imported by now, and has nothing to show.
pytest.register_assert_rewrite(
    *(
        f"zephon_testkit.{path.stem}"
        for path in Path(__file__).parent.glob("*.py")
        if path.stem[0] != "_" and path != Path(__file__)
    )
)

_PROPERTY: Final = "zephon-conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--zephon-profile`` and ``--zephon-report``."""
    group = parser.getgroup("zephon", "conformance of Zephon plugins")
    group.addoption("--zephon-profile", metavar="NAME", help="how hard to try: quick (default), ci or nightly")
    group.addoption("--zephon-report", metavar="DIR", type=Path, help="write a report per plugin into this folder")
    group.addoption("--zephon-deviations", metavar="FILE", type=Path, help="instead of the nearest conformance.toml")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark and settle the profile, for the processes of xdist too."""
    config.addinivalue_line("markers", "clause(id): the clause of a Zephon contract that a test of the kit checks")
    if config.getoption("--zephon-report") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reporter(config.getoption("--zephon-report")), "zephon-reporter")
    if config.getoption("--zephon-profile"):
        os.environ["ZEPHON_PROFILE"] = config.getoption("--zephon-profile")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Make strict expected failures of what ``conformance.toml`` says a plugin does not keep."""
    ours = [(item, suite) for item in items if (suite := _suite(item)) is not None]
    if not ours:
        return
    from zephon_testkit import deviations
    from zephon_testkit.clauses import clauses
    from zephon_testkit.profiles import profile

    try:
        profile()
        files: dict[Path | None, dict[tuple[str, str], str]] = {}
        for item, suite in ours:
            if suite.guard_is_overridden():
                raise ValueError(f"{item.nodeid.rpartition('::')[0]} overrides the test that guards the others")
            file = config.getoption("--zephon-deviations") or deviations.find(item.path.parent)
            if file not in files:
                entries = [] if file is None else deviations.read(file, list(clauses()))
                files[file] = {(entry.plugin, entry.clause): entry.text for entry in entries}
            text = files[file].get((suite.address(), _clause(item)))
            if text is not None:
                item.add_marker(pytest.mark.xfail(reason=text, strict=True))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note on the report of each test of the kit what became of its clause."""
    report = yield
    suite = _suite(item)
    if suite is None:
        return report
    from zephon_testkit.incomplete import Incomplete

    missing = call.excinfo is not None and call.excinfo.errisinstance(Incomplete)
    if missing and hasattr(report, "wasxfail"):  # a deviation is a finding, and this is none
        report.outcome = "failed"
        del report.wasxfail
    outcome = _outcome(report, missing)
    if outcome is not None:
        content = {
            "plugin": suite.address(),
            "clause": _clause(item),
            "outcome": outcome,
            "test": item.nodeid,
            "detail": _detail(report, call),
        }
        report.user_properties.append((_PROPERTY, json.dumps([suite.kit().__name__, content])))
    return report


class _Reporter:
    """Gathers findings where the reports of a session come together, and writes one file per plugin at its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: list[tuple[str, dict[str, Any]]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the finding along, from whatever process it comes."""
        for name, value in report.user_properties:
            if name == _PROPERTY:
                suite, content = json.loads(str(value))
                self._seen.append((suite, content))

    def pytest_sessionfinish(self) -> None:
        """Write ``<point>-<name>.json`` for every plugin that had a test."""
        from zephon_testkit.report import Finding, report
        from zephon_testkit.suites import about, clauses_of

        self._folder.mkdir(parents=True, exist_ok=True)
        for plugin in sorted({content["plugin"] for _, content in self._seen}):
            mine = [(suite, content) for suite, content in self._seen if content["plugin"] == plugin]
            expected = sorted({id for suite, _ in mine for id in clauses_of(suite)})
            content = report(plugin, expected, [Finding(**content) for _, content in mine], about(plugin))
            file = self._folder / f"{plugin.replace(':', '-')}.json"
            file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _suite(item: pytest.Item) -> type[Suite] | None:
    """The suite a test belongs to, or None for any other test."""
    cls = getattr(item, "cls", None)
    if cls is None or not any(base.__module__.startswith("zephon_testkit.") for base in cls.__mro__):
        return None
    from zephon_testkit.suite import Suite

    return cls if issubclass(cls, Suite) else None


def _clause(item: pytest.Item) -> str:
    mark = item.get_closest_marker("clause")
    return "" if mark is None else str(mark.args[0])


def _outcome(report: pytest.TestReport, missing: bool) -> Outcome | None:
    """What a phase of a test says of the clause; None if nothing."""
    if report.when == "call":
        if hasattr(report, "wasxfail"):
            return "deviates" if report.skipped else "failed"
        if report.passed:
            return "passed"
        return "failed" if report.failed and not missing else "unchecked"
    if report.passed:
        return None
    return "deviates" if hasattr(report, "wasxfail") else "unchecked"


def _detail(report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    """The reason in one line."""
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail).removeprefix("reason: ")
    if report.passed:
        return ""
    if call.excinfo is None:  # a strict expected failure that did not fail
        return "the clause holds now: remove its deviation"
    return call.excinfo.exconly(tryshort=True).partition("\n")[0]
