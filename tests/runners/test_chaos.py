"""Workers are killed at random: the stream is that of the calm run, nothing is left. A minute of it: ``make chaos``."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def chaos_script():
    path = Path(__file__).with_name("chaos.py")
    spec = importlib.util.spec_from_file_location("zephon_chaos_script", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_processes_that_are_killed_at_random_change_nothing(chaos_script, tmp_path):
    batches, kills = chaos_script.chaos(
        chaos_script.OfProcesses(), tmp_path, 6, every=0.7, parallelism=2, seed=3, patient=True
    )
    assert kills >= 1
    assert batches > kills


@pytest.mark.ray
def test_ray_actors_and_nodes_that_are_killed_at_random_change_nothing(chaos_script, ray_cluster, tmp_path):
    trouble = chaos_script.OfRay(ray_cluster)
    batches, kills = chaos_script.chaos(trouble, tmp_path, 20, every=1.0, parallelism=2, seed=3, patient=True)
    assert kills >= chaos_script.STRIKE_EVERY // 2, "no node was lost"
    assert batches > kills
