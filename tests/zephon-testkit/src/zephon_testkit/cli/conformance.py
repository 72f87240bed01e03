"""``zephon conformance``: run the kit on an installed plugin, and make a badge of a report.

Exit status of ``run``: 0 if the plugin is conformant, deviations allowed for; 1 if it is not; 3 if some clause could
not be checked.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

from zephon.errors import ConfigError
from zephon.plugins import status
from zephon_testkit import door
from zephon_testkit.deviations import FILE
from zephon_testkit.profiles import PROFILES
from zephon_testkit.report import badge

STATUS: Final = {"conformant": 0, "conformant-with-deviations": 0, "non-conformant": 1, "incomplete": 3}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run_ = actions.add_parser("run", help="check an installed plugin against its contract, clause by clause")
    run_.add_argument("plugin", metavar="POINT:NAME", help="the plugin's address, e.g. shard_format:parquet")
    run_.add_argument("--json", metavar="FILE", type=Path, help="write the report here")
    run_.add_argument("--profile", choices=list(PROFILES), default="quick", help="how hard to try (default: quick)")
    run_.add_argument("--deviations", metavar="FILE", type=Path, help=f"default: {FILE} in this folder")
    run_.add_argument("--verbose", action="store_true", help="show what pytest prints")
    badge_ = actions.add_parser("badge", help="write the shields.io endpoint JSON of a report")
    badge_.add_argument("file", metavar="FILE", type=Path, help="a report written by run --json")
    badge_.add_argument("--output", metavar="FILE", type=Path, help="default: the standard output")


def run(args: argparse.Namespace) -> int:
    """Check a plugin, or make a badge."""
    return _run(args) if args.action == "run" else _badge(args)


def _run(args: argparse.Namespace) -> int:
    _check_installed(args.plugin)
    deviations: Path | None = args.deviations
    if deviations is None and Path(FILE).is_file():
        deviations = Path(FILE)
    try:
        report, output = door.run(args.plugin, profile=args.profile, deviations=deviations)
    except ValueError as error:
        raise ConfigError(
            "the conformance kit cannot be run",
            found=str(error),
            fix="zephon conformance run POINT:NAME; `zephon plugins` lists what is installed",
            code="conformance-usage",
        ) from error
    if args.verbose:
        print(output)
    if args.json is not None:
        _write(args.json, report)
    print(_text(report))
    return STATUS[report["verdict"]]


def _check_installed(address: str) -> None:
    known = [found.address for found in status()]
    if address not in known:
        point = address.partition(":")[0]
        of_point = [other for other in known if other.startswith(f"{point}:")]
        raise ConfigError(
            f"there is no plugin {address} to check",
            found=f"installed: {', '.join(of_point or known)}",
            fix="install its distribution into this environment, or write its address as POINT:NAME",
            code="conformance-usage",
        )


def _badge(args: argparse.Namespace) -> int:
    try:
        content = badge(json.loads(args.file.read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise ConfigError(
            f"{args.file} gives no badge",
            found=str(error),
            fix="make the report with: zephon conformance run POINT:NAME --json FILE",
            code="conformance-report",
        ) from error
    if args.output is None:
        print(json.dumps(content))
    else:
        _write(args.output, content)
    return 0


def _write(path: Path, content: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written",
            found=str(error.strerror),
            fix="name a file in a folder you may write to",
            code="conformance-report",
        ) from error


def _text(report: dict[str, Any]) -> str:
    """The report for people: what is not as it should be, then the verdict."""
    versions = report["versions"]
    lines = [
        f"{report['plugin']}  {report['distribution']} {report['version']}, contract v{report['contract']}",
        f"zephon-core {versions['zephon-core']}, zephon-testkit {versions['zephon-testkit']}, "
        f"Python {versions['python']}",
    ]
    for row in report["clauses"]:
        if row["outcome"] != "passed":
            lines.append(f"  {row['outcome']:9} {row['clause'] or 'suite'}  {row['title']}")
            lines += [f"            {row['detail']}"] if row["detail"] else []
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report["summary"].items() if count)
    lines.append(f"{report['verdict']}: {counts}")
    if report["summary"]["failed"] or report["summary"]["unchecked"]:
        lines.append("what each clause means is in docs/contracts; --verbose shows the tests")
    return "\n".join(lines)
