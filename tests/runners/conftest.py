"""Ray is asked for by name, ``pytest -m ray tests/runners``, as its cluster takes longer than all else together."""

import importlib.util

import pytest

import zephon_ray_cluster


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
    with zephon_ray_cluster.ray_cluster() as cluster:
        yield cluster
