"""A Ray cluster of several nodes on this machine, with this process as a driver."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

#: CPUs and bytes of object store of a node: actors take one CPU each.
NODE: Final = {"num_cpus": 4, "object_store_memory": 120 << 20}
#: Ray takes 15 s to believe that a node has gone.
_SOON: Final = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}


@contextmanager
def ray_cluster(nodes: int = 2) -> Iterator[Any]:
    """Start it, connect, and stop it. Processes started meanwhile find it in ``RAY_ADDRESS``."""
    # Read when Ray is imported, and by all its processes: nothing listens but on loopback, nothing is reported to
    # anybody, nothing is written into the home folder.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "disabled"
    # Nodes start workers with the environment they were started with, not with the import path of this process.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    os.environ.pop("RAY_ADDRESS", None)
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={**NODE, "include_dashboard": False, "_system_config": _SOON}
    )
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**NODE)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        os.environ["RAY_ADDRESS"] = cluster.address
        yield cluster
    finally:
        os.environ.pop("RAY_ADDRESS", None)
        ray.shutdown()
        cluster.shutdown()
