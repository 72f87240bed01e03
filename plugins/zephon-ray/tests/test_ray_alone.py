"""Without a cluster: one is started on this machine, and whatever way a process ends, nothing of it is left."""

from __future__ import annotations

import glob
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
GONE_WITHIN = 5

HEAD = """
import os, signal, sys, threading, time
import ray
from contextlib import suppress
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


@pytest.fixture
def script(tmp_path):
    """Run a script that prints "ready" to its end, with something done to it then."""
    seen = []
    # As a user has it, who knows nothing of Ray's settings.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["HOME"] = str(tmp_path)
    folders = set(glob.glob("/tmp/zephon-ray-*"))

    def run(body, then=None):
        process = subprocess.Popen(
            [sys.executable, "-c", HEAD + textwrap.dedent(body)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
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
    assert seen, "the script has not said which processes there were"
    wait_for(lambda: not any(map(alive, seen)), GONE_WITHIN)
    left = [pid for pid in seen if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"{len(left)} processes are left"
    assert set(glob.glob("/tmp/zephon-ray-*")) <= folders, "the folder of a cluster is left"
    assert not list(tmp_path.iterdir()), "something was written into the home folder"


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
        deadline = time.monotonic() + 5
        while threading.active_count() > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
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


def test_a_runner_that_soon_follows_another_has_the_same_cluster_unless_that_is_too_small(script):
    code, errors = script(
        """
        def used(cpus):
            runner = RayRunner(1, num_cpus=cpus)
            runner.start([Program(abs)])
            assert runner.submit(0, -3).result(60) == 3
            say_processes()
            session = ray._private.worker._global_node.get_session_dir_path()
            runner.close()
            return session

        first = used(1)
        assert used(1) == first
        assert used(100) != first
        print("ready", flush=True)
        """
    )
    assert code == 0, errors


def test_a_cluster_outlives_the_thread_that_started_it(script):
    code, errors = script(
        """
        runner = RayRunner(1)
        thread = threading.Thread(target=runner.start, args=([Program(lambda n: n + 1)],))
        thread.start()
        thread.join()
        time.sleep(1)
        assert runner.submit(0, 1).result(60) == 2
        say_processes()
        runner.close()
        print("ready", flush=True)
        """
    )
    assert code == 0, errors


def test_a_local_cluster_listens_on_loopback_only(script):
    code, errors = script(
        """
        def sockets(pid):
            found = set()
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    found.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
            return found

        def listening():
            ours = set().union(*(sockets(pid) for pid in [os.getpid(), *descendants(os.getpid())]))
            for table in ("tcp", "tcp6"):
                for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and fields[9] in ours:
                        yield fields[1].partition(":")[0]

        runner = RayRunner(1)
        runner.start([Program(lambda n: n + 1)])
        assert runner.submit(0, 1).result(60) == 2
        found = set(listening())
        assert found and all(address.endswith("0100007F") for address in found), found
        say_processes()
        runner.close()
        print("ready", flush=True)
        """
    )
    assert code == 0, errors


def test_a_user_who_is_connected_stays_connected(script):
    code, errors = script(
        """
        os.environ["RAY_AUTH_MODE"] = "disabled"
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
