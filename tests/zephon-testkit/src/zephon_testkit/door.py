"""The second door: the suite of an installed plugin, run without a line of its author's.

Pytest runs in an interpreter of its own and in an empty folder, so that neither a configuration nor a conftest nor
another plugin of pytest changes the outcome, and a plugin that takes the interpreter down takes only that one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from zephon_testkit.report import Finding, report
from zephon_testkit.suites import about, clauses_at

_MODULE: Final = """\
from zephon_testkit.suites import suite_for

TestConformance = suite_for({address!r})
"""


def run(
    address: str, *, profile: str = "quick", deviations: Path | None = None, timeout: float | None = None
) -> tuple[dict[str, Any], str]:
    """Run the suite of one plugin.

    Args:
        address: ``point:name``.
        profile: ``quick``, ``ci`` or ``nightly``.
        deviations: a ``conformance.toml``; None for none.
        timeout: seconds after which the run is given up; what was not reached is then unchecked. None for no limit.

    Returns:
        The report (:mod:`zephon_testkit.report`), and what pytest printed.

    Raises:
        ValueError: the address names no extension point, or the deviations cannot be read.
    """
    expected = clauses_at(address)
    with tempfile.TemporaryDirectory(prefix="zephon-conformance-") as name:
        folder = Path(name)
        (folder / "test_conformance.py").write_text(_MODULE.format(address=address), encoding="utf-8")
        (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-p", "zephon_testkit.pytest_plugin", "-p", "no:cacheprovider"]
        command += ["-ra", "--tb=short", f"--zephon-profile={profile}", f"--zephon-report={folder / 'reports'}"]
        command += [f"--basetemp={folder / 'tmp'}", "test_conformance.py"]
        if deviations is not None:
            command.append(f"--zephon-deviations={deviations.resolve()}")
        output, status = _execute(command, folder, timeout)
        if status == 4:  # pytest: the command line or the deviations are wrong
            raise ValueError(output.strip().splitlines()[-1].removeprefix("ERROR: "))
        file = folder / "reports" / f"{address.replace(':', '-')}.json"
        if file.is_file():
            return json.loads(file.read_text(encoding="utf-8")), output
    ending = Finding(
        plugin=address,
        clause="",
        outcome="unchecked",
        test="",
        detail=f"the interpreter that ran the suite ended with status {status}",
    )
    return report(address, expected, [ending], about(address)), output


def _execute(command: list[str], folder: Path, timeout: float | None) -> tuple[str, int | str]:
    """What the command prints, and its exit status or why there is none."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # What can be imported here can be imported there.
    env["PYTHONPATH"] = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            text=True,
            timeout=timeout,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired as error:
        text = error.output or ""
        return text if isinstance(text, str) else text.decode(errors="replace"), f"(given up after {timeout:.0f} s)"
    return done.stdout, done.returncode
