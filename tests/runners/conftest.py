"""Ray is asked for by name, ``pytest -m ray tests/runners``, as its cluster takes longer than all else together."""

import importlib.util
import os
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"


def pytest_configure(config):
    config.addinivalue_line("markers", "ray: needs a local Ray cluster; only run when selected with -m")


def pytest_collection_modifyitems(config, items):
    if config.option.markexpr:
        return
    on_ray = [item for item in items if item.get_closest_marker("ray")]
    if on_ray:
        config.hook.pytest_deselected(items=on_ray)
        items[:] = [item for item in items if item not in on_ray]


@pytest.fixture(scope="session")
def ray_cluster():
    """Two nodes on this machine, and this process as a driver."""
    if importlib.util.find_spec("zephon_ray") is None:
        pytest.skip("zephon-ray is not installed")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.pop("RAY_ADDRESS", None)
    # Nodes start workers with the environment they were started with, not with the import path of this process.
    os.environ["PYTHONPATH"] = str(SUPPORT)
    import ray
    from ray.cluster_utils import Cluster

    memory = 120 << 20
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 4, "object_store_memory": memory, "include_dashboard": False},
    )
    try:
        cluster.add_node(num_cpus=4, object_store_memory=memory)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
