"""Damaged token files: errors of ours, or what is written there. See fuzz_megatron.py for many more."""

import importlib.util
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location("fuzz_megatron", Path(__file__).parent / "fuzz_megatron.py")
fuzz_megatron = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzz_megatron)


def test_damaged_token_files_give_errors_of_ours_or_what_is_written_there():
    outcomes = fuzz_megatron.fuzz(90, seed=8)
    assert outcomes["shard-corrupt"] > 10
    assert outcomes["shard-truncated"] > 5
    assert outcomes["rows"] > 10
    assert sum(outcomes.values()) == 90
