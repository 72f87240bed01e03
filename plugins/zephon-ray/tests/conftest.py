"""A real cluster of several nodes on this machine, for all tests of a session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Read when Ray is imported, and by all its processes: nothing listens anywhere but on loopback, nothing is reported to
# anybody, and nothing is written into the home folder.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # by which Ray takes 127.0.0.1 for its nodes' address
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ.pop("RAY_ADDRESS", None)

import ray
from ray.cluster_utils import Cluster

MIB = 1 << 20

# Ray takes 15 s to believe that a node has gone.
SOON = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 4}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A head and two nodes, with this process as a driver."""
    started = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 4,
            "object_store_memory": 200 * MIB,
            "include_dashboard": False,
            "_system_config": SOON,
        },
    )
    try:
        for number in range(2):
            started.add_node(num_cpus=4, object_store_memory=100 * MIB, resources={f"shelf{number}": 4})
        ray.init(address=started.address, log_to_driver=False, logging_level="ERROR")
        yield started
    finally:
        ray.shutdown()
        started.shutdown()


@pytest.fixture(autouse=True)
def _connected(request: pytest.FixtureRequest) -> None:
    """Modules that say ``ALONE = True`` need no cluster."""
    if not getattr(request.module, "ALONE", False):
        request.getfixturevalue("cluster")
