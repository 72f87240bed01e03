"""Damaged archives: errors of ours, or the rows Python's own reader has. See fuzz_webdataset.py for many more."""

import importlib.util
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location("fuzz_webdataset", Path(__file__).parent / "fuzz_webdataset.py")
fuzz_webdataset = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzz_webdataset)


def test_damaged_archives_give_errors_of_ours_or_right_rows():
    outcomes = fuzz_webdataset.fuzz(66, seed=20)
    assert outcomes["shard-corrupt"] > 5
    assert outcomes["shard-truncated"] > 5
    assert sum(outcomes.values()) == 66
    assert "an error without a place" not in outcomes
