"""Laws of shared memory: it has no name, is used again, is there when promised, and goes with those who use it."""

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon_processes._channel import Channel
from zephon_processes._segments import GRAIN, SPARE, Outbox, create
from zephon_testkit.leaks import holdings

MIB = 1 << 20


def shared_memory_files():
    return holdings().shared_memory


def memfds():
    """Descriptors of this process that lead to anonymous memory of ours."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return [link for link in found if link.startswith("/memfd:zephon")]


@pytest.fixture
def line():
    """Two ends of a line in one process."""
    ends = socket.socketpair()
    here, there = Channel(ends[0]), Channel(ends[1])
    yield here, there
    here.close()
    there.close()


def batch(mebibytes, first=0):
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + mebibytes * MIB // 8))], names=["n"])


def exchange(here, there, obj):
    """Send an object there, and an answer of no size back."""
    here.send("task", obj)
    kind, found = there.received()
    there.send("done")
    assert here.received() == ("done", None)
    assert kind == "task"
    return found


@pytest.mark.parametrize("megabytes", [0.5, 2], ids=["copied", "where it lies"])
def test_a_segment_is_used_again_once_nobody_needs_it(line, megabytes):
    here, there = line
    for step in range(20):
        found = exchange(here, there, batch(megabytes, step))
        assert found.equals(batch(megabytes, step))
        if step == 5:
            held = len(memfds())
    # the one that is looked at, the one that is written next, and what is kept for later
    assert here.nbytes <= 3 * 3 * MIB
    assert there.nbytes == 0
    assert len(memfds()) == held


def test_a_slice_that_is_kept_keeps_its_segment_and_no_other(line):
    here, there = line
    kept = exchange(here, there, batch(2, 7)).slice(5, 10)
    for step in range(20):
        exchange(here, there, batch(2, step))
    assert kept.equals(batch(2, 7).slice(5, 10))
    assert here.nbytes <= 4 * 3 * MIB


def test_what_was_received_stays_when_the_segment_is_used_again_and_when_the_line_is_closed(line):
    here, there = line
    received = [exchange(here, there, batch(2, 1000 * step)) for step in range(5)]
    here.close()
    there.close()
    for step, found in enumerate(received):
        assert found.equals(batch(2, 1000 * step))


def test_a_block_that_was_not_read_yet_is_not_written_over(line):
    here, there = line
    for step in range(4):
        here.send("task", batch(1, step))
    assert here.nbytes >= 4 * MIB
    for step in range(4):
        assert there.received()[1].equals(batch(1, step))


def test_nothing_has_a_name_in_shared_memory(line):
    before = shared_memory_files()
    exchange(*line, batch(8))
    assert shared_memory_files() == before


def test_memory_and_descriptors_go_with_the_line(line):
    here, there = line
    for step in range(3):
        here.send("task", batch(2, step))
        there.received()
    assert len(memfds()) >= 3
    here.close()
    there.close()
    assert memfds() == []
    assert here.nbytes == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5 * MIB), st.booleans()), max_size=25))
def test_an_outbox_keeps_little_and_never_lends_what_is_lent(steps):
    outbox = Outbox()
    lent, known = [], set()
    try:
        for size, gives_back in steps:
            segment, is_new, given_up = outbox.take(size)
            assert segment.size >= size
            assert segment.number not in {other.number for other in lent}
            assert is_new == (segment.number not in known), "the other side is sent a descriptor once"
            known.add(segment.number)
            assert set(given_up) <= known, "and is told of what goes"
            known -= set(given_up)
            lent.append(segment)
            if gives_back:
                outbox.returned(lent.pop(0).number)
        assert len(known) <= len(lent) + SPARE + 1
        assert outbox.nbytes <= sum(segment.size for segment in lent) + (SPARE + 1) * (5 * MIB + GRAIN)
    finally:
        outbox.close()
    assert memfds() == []


def test_a_segment_has_its_memory_from_the_beginning():
    segment = create(0, 3 * MIB + 1)
    try:
        assert segment.size == 4 * MIB
        assert os.fstat(segment.descriptor).st_blocks * 512 >= segment.size
    finally:
        segment.close()


def limited(limit, code):
    """Run code in an interpreter of its own, in which ``limit`` is ``resource.setrlimit`` of something."""
    script = f"import resource\nfrom zephon_processes._segments import Outbox\n{limit}\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


#: No file may have more than 8 MiB; no process more than 64 MiB of addresses beyond what it has now.
LIMITS = {
    "file size": "resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))",
    "addresses": "import re\n"
    "used = int(re.search(r'VmSize:\\s+(\\d+)', open('/proc/self/status').read())[1]) << 10\n"
    "resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), used + (64 << 20)))",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_memory_that_cannot_be_had_is_an_error_and_leaves_nothing_open(limit):
    said = limited(
        LIMITS[limit],
        """
        from zephon.errors import EngineError
        outbox = Outbox()
        try:
            outbox.take(128 << 20)
        except EngineError as error:
            print(error.code, "128 MiB" in error.found, outbox.nbytes)
        """,
    )
    assert said.split() == ["shared-memory-full", "True", "0"]


def test_a_runner_whose_workers_have_no_memory_says_so_and_goes_on(tmp_path):
    """The task fails, the worker lives, and smaller tasks are done."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import resource
            import pyarrow as pa
            from zephon.errors import EngineError
            from zephon_processes._runner import ProcessRunner

            class Makes:
                def open(self):
                    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
                    return lambda size: pa.RecordBatch.from_arrays([pa.array([b"x" * size])], names=["raw"])

            runner = ProcessRunner(parallelism=1)
            runner.start([Makes()])
            try:
                runner.submit(0, 32 << 20).result(30)
            except EngineError as error:
                print(error.code)
            print(runner.submit(0, 4 << 20).result(30).nbytes >> 20)
            runner.close()
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.stderr) == (["shared-memory-full", "4"], "")


def test_a_writer_that_ends_without_a_word_takes_its_memory_along():
    """The kernel frees it with the last process that has it open."""
    here, there = socket.socketpair()
    writer = textwrap.dedent(
        """
        import os, socket, sys
        import numpy as np, pyarrow as pa
        from zephon_processes._channel import Channel
        line = Channel(socket.socket(fileno=int(sys.argv[1])))
        line.send("done", pa.RecordBatch.from_arrays([pa.array(np.arange(1 << 20))], names=["n"]))
        os.kill(os.getpid(), 9)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", writer, str(there.fileno())], pass_fds=[there.fileno()])
    there.close()
    line = Channel(here)
    before = shared_memory_files()
    kind, found = line.received()
    assert process.wait(30) == -9
    assert (kind, found.num_rows, found.column(0)[-1].as_py()) == ("done", 1 << 20, (1 << 20) - 1)
    line.close()
    assert "memfd:zephon" in Path("/proc/self/maps").read_text(), "it is used where it lies"
    del found
    assert "memfd:zephon" not in Path("/proc/self/maps").read_text()
    assert shared_memory_files() == before
