"""Damaged files: errors of ours or the right rows."""

from .fuzz_mds import fuzz


def test_damaged_files_give_errors_of_ours_or_right_rows():
    outcomes = fuzz(60, 1)
    assert sum(outcomes.values()) == 60
    assert outcomes["ShardError"] > 10
