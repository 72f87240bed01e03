"""The kit's second door: the same suite, without a line of its author's, and the report that is kept."""

import json
from pathlib import Path

from zephon.cli import main

KEPT = Path(__file__).parents[3] / "docs" / "conformance" / "runner-ray.json"


def test_it_is_conformant_and_the_report_that_says_so_is_the_one_that_is_kept(tmp_path, capsys):
    file = tmp_path / "report.json"
    status = main(["conformance", "run", "runner:ray", "--json", str(file)])
    report, kept = json.loads(file.read_text()), json.loads(KEPT.read_text())
    assert status == 0, capsys.readouterr().out
    assert report["verdict"] == kept["verdict"] == "conformant"
    assert report["clauses"] == kept["clauses"], "run make conformance"
