"""How many CPUs a rank may use: the tightest limit, shared among the ranks of the machine."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.engine.cpus import available_cpus
from zephon.errors import ConfigError


@pytest.fixture(autouse=True)
def _sixteen_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


@pytest.fixture
def tree(tmp_path):
    def make(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


def test_without_limits_it_is_what_the_scheduler_may_place_the_process_on(tmp_path):
    assert available_cpus({}, tmp_path) == 16


def test_where_the_system_knows_no_affinity_it_is_all_cpus(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert available_cpus({}, tmp_path) == 6


@pytest.mark.parametrize(
    ("quota", "cpus"), [("400000 100000", 4), ("250000 100000", 3), ("5000 100000", 1), ("max 100000", 16)]
)
def test_a_v2_quota_limits_rounded_up(tree, quota, cpus):
    root = tree({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": quota + "\n"})
    assert available_cpus({}, root) == cpus


def test_the_tightest_of_all_ancestors_limits(tree):
    root = tree(
        {
            "proc/self/cgroup": "0::/a/b/c\n",
            "sys/fs/cgroup/a/cpu.max": "200000 100000",
            "sys/fs/cgroup/a/b/cpu.max": "300000 100000",
            "sys/fs/cgroup/a/b/c/cpu.max": "max 100000",
        }
    )
    assert available_cpus({}, root) == 2


def test_in_a_container_the_mounted_root_counts_whatever_path_the_host_calls_it(tree):
    root = tree({"proc/self/cgroup": "0::/../../docker/4f2\n", "sys/fs/cgroup/cpu.max": "300000 100000"})
    assert available_cpus({}, root) == 3


@pytest.mark.parametrize(("quota", "cpus"), [("150000", 2), ("-1", 16)])
def test_a_v1_quota_limits(tree, quota, cpus):
    root = tree(
        {
            "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/x\n0::/\n",
            "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": quota,
            "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000",
        }
    )
    assert available_cpus({}, root) == cpus


def test_files_that_say_nothing_sensible_limit_nothing(tree):
    root = tree({"proc/self/cgroup": "0::/\n4:cpu:/\n", "sys/fs/cgroup/cpu.max": "much"})
    assert available_cpus({}, root) == 16


@given(ranks=st.integers(1, 64))
def test_ranks_of_one_machine_share_and_each_has_at_least_one(ranks, tmp_path_factory):
    empty = tmp_path_factory.getbasetemp()
    assert available_cpus({"LOCAL_WORLD_SIZE": str(ranks)}, empty) == max(1, 16 // ranks)


@pytest.mark.parametrize("text", ["0", "-2", "four", "", "1.5"])
def test_a_local_world_size_that_is_no_count_is_refused(tmp_path, text):
    with pytest.raises(ConfigError) as refused:
        available_cpus({"LOCAL_WORLD_SIZE": text}, tmp_path)
    assert refused.value.code == "bad-local-world-size"
