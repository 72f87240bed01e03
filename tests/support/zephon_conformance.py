"""The reports of our own plugins in ``docs/conformance``, and the table in the README made of them.

``python tests/support/zephon_conformance.py`` runs the second door on every first-party plugin and writes both anew.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from zephon.plugins.known import KNOWN
from zephon_testkit import door

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
REPORTS = ROOT / "docs" / "conformance"
_BEGIN = "<!-- conformance: written by tests/support/zephon_conformance.py -->\n"
_END = "<!-- end of conformance -->\n"


def addresses() -> list[str]:
    """Every first-party plugin."""
    return [f"{point}:{name}" for point, names in KNOWN.items() for name in sorted(names)]


def file_of(address: str) -> Path:
    """Where the report of a plugin is kept."""
    return REPORTS / f"{address.replace(':', '-')}.json"


def committed() -> dict[str, dict[str, Any]]:
    """The reports as they are kept, by address."""
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(REPORTS.glob("*.json"))]
    return {report["plugin"]: report for report in reports}


def table() -> str:
    """What the reports say, a line for each plugin."""
    lines = ["| plugin | contract | clauses | verdict |", "|---|---|---|---|"]
    for address, report in committed().items():
        summary = report["summary"]
        clauses = f"{summary['passed']} of {sum(summary.values())}"
        name = f"[`{address}`](docs/conformance/{file_of(address).name})"
        lines.append(f"| {name} | v{report['contract']} | {clauses} | {report['verdict']} |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """The table as the README has it."""
    return README.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0].strip("\n") + "\n"


def write() -> int:
    """Run the kit on every plugin; the number of plugins that are not conformant."""
    REPORTS.mkdir(exist_ok=True)
    for path in REPORTS.glob("*.json"):
        if path not in map(file_of, addresses()):
            path.unlink()

    def check(address: str) -> str:
        report, output = door.run(address)
        text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
        file_of(address).write_text(text, encoding="utf-8")
        print(f"{address}: {report['verdict']}", flush=True)
        if report["verdict"] != "conformant":
            print(output)
        return str(report["verdict"])

    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(check, addresses()))
    before, _, rest = README.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    README.write_text(f"{before}{_BEGIN}\n{table()}\n{_END}{after}", encoding="utf-8")
    return sum(verdict != "conformant" for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(write())
