"""Without a cluster: one is started on this machine, and whatever way a process ends, nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from zephon_testkit.programs import wait_for

ALONE = True
TIMEOUT = 90

HEAD = """
import os, signal, sys, threading, time
import ray
from pathlib import Path
from zephon_ray._runner import RayRunner
from zephon.errors import WorkerError

class Program:
    def __init__(self, function): self.function = function
    def open(self): return self.function

def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found

def say_processes():
    print("processes", *descendants(os.getpid()), flush=True)
"""


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_agent(pid):
    """Where a node of Ray was killed, its two agents notice it only a minute later."""
    return b"agent" in Path(f"/proc/{pid}/cmdline").read_bytes().lower()


@pytest.fixture
def script():
    """Run a script that prints "ready" to its end, with something done to it then."""
    seen = []

    def run(body, then=None):
        process = subprocess.Popen(
            [sys.executable, "-c", HEAD + textwrap.dedent(body)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        late = threading.Timer(TIMEOUT, process.kill)
        late.start()
        try:
            for line in process.stdout:
                if line.startswith("processes "):
                    seen.extend(map(int, line.split()[1:]))
                if line == "ready\n":
                    break
            if then is not None:
                seen.extend(descendants(process.pid))
                process.send_signal(then)
            _, errors = process.communicate(timeout=TIMEOUT)
        finally:
            late.cancel()
            process.kill()
            process.wait()
        return process.returncode, errors

    yield run
    wait_for(lambda: not any(alive(pid) and not is_agent(pid) for pid in seen), TIMEOUT)
    left = [pid for pid in seen if alive(pid)]
    others = [pid for pid in left if not is_agent(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert seen, "the script has not said which processes there were"
    assert not others, f"{len(others)} processes are left"


def test_runners_share_a_local_cluster_that_ends_with_the_last(script):
    code, errors = script(
        """
        before = signal.getsignal(signal.SIGTERM), dict(os.environ)
        one, other = RayRunner(3, num_cpus=2), RayRunner(1)
        one.start([Program(lambda n: n * n)])
        other.start([Program(lambda n: -n)])
        assert [one.submit(0, n).result(60) for n in range(5)] == [0, 1, 4, 9, 16]
        assert ray.cluster_resources()["CPU"] >= 6
        session = ray._private.worker._global_node.get_session_dir_path()
        one.close()
        assert ray.is_initialized() and other.submit(0, 3).result(60) == -3
        say_processes()
        assert os.path.isdir(session)
        other.close()
        other.close()
        assert not ray.is_initialized()
        assert not descendants(os.getpid()), "processes are left"
        assert [t.name for t in threading.enumerate()] == ["MainThread"], threading.enumerate()
        assert not os.path.exists(session)
        assert before[0] is signal.getsignal(signal.SIGTERM)
        assert "RAY_USAGE_STATS_ENABLED" not in set(os.environ) - set(before[1])
        print("ready", flush=True)
        """
    )
    assert code == 0, errors


def test_a_user_who_is_connected_stays_connected(script):
    code, errors = script(
        """
        ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=100 << 20)
        runner = RayRunner(2)
        runner.start([Program(abs)])
        assert runner.submit(0, -3).result(60) == 3
        say_processes()
        runner.close()
        assert ray.is_initialized() and ray.get(ray.put(4)) == 4
        again = RayRunner(1)
        again.start([Program(lambda n: time.sleep(600))])
        future = again.submit(0, 1)
        while not future.running(): time.sleep(0.01)
        ray.shutdown()
        try:
            future.result(60)
        except WorkerError as error:
            assert error.code == "ray-unreachable", error
        else:
            raise AssertionError("it has no cluster")
        again.close()
        print("ready", flush=True)
        """
    )
    assert code == 0, errors


def test_an_address_where_no_cluster_is_is_an_error(script):
    code, errors = script(
        """
        runner = RayRunner(1, address="127.0.0.1:9")
        try:
            runner.start([Program(abs)])
        except WorkerError as error:
            assert error.code == "ray-unreachable" and "127.0.0.1:9" in str(error), error
        else:
            raise AssertionError("there is no cluster")
        print("processes", os.getpid())
        assert not ray.is_initialized()
        runner.close()
        print("ready", flush=True)
        """
    )
    assert code == 0, errors


RUNNING = """
runner = RayRunner(2)
runner.start([Program(lambda n: time.sleep(0.2) or n)])
futures = [runner.submit(0, n) for n in range(10000)]
futures[3].result(60)
say_processes()
"""
READY = """
print("ready", flush=True)
"""


def test_ctrl_c_ends_everything(script):
    code, errors = script(
        RUNNING
        + textwrap.dedent(
            """
            try:
                print("ready", flush=True)
                futures[-1].result()
            except KeyboardInterrupt:
                runner.close()
                assert all(f.done() for f in futures)
                sys.exit(7)
            """
        ),
        then=signal.SIGINT,
    )
    assert code == 7, errors


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_process_that_is_killed_takes_its_cluster_along(script, how):
    code, errors = script(RUNNING + READY + "time.sleep(600)\n", then=how)
    assert code == -how, errors


def test_an_interpreter_that_ends_with_a_runner_nobody_closed_leaves_nothing(script):
    code, errors = script(RUNNING + READY)
    assert code == 0, errors
