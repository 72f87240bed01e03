"""Retries: trouble that may pass is waited out with growing, jittered pauses, up to a deadline; the rest is not."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import StorageError
from zephon.io import BlockReader, Dataset, first_rows
from zephon.io.retry import RetryPolicy, Timing
from zephon.io.storage import StorageContext, Storages


class Clock:
    """Time that passes only by waiting."""

    def __init__(self, jitter=1.0):
        self.now = 0.0
        self.pauses = []
        self.timing = Timing(clock=lambda: self.now, wait=self.wait, jitter=lambda: jitter)

    def wait(self, event, seconds):
        self.pauses.append(seconds)
        self.now += seconds
        return event.is_set()


class Unwell:
    """An operation that fails some times before it works."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def call(operation, clock, cancel=None, **policy):
    retry = RetryPolicy(timing=clock.timing, **policy)
    return retry.call(operation, doing="read", url="fake://me:pw@b/a?sig=x", cancel=cancel or threading.Event())


def test_pauses_double_up_to_their_limit():
    clock = Clock()
    assert call(Unwell(*[OSError(5, "busy")] * 6), clock, first_delay=1, max_delay=8) == "done"
    assert clock.pauses == [1, 2, 4, 8, 8, 8]


def test_half_of_a_pause_is_drawn():
    clock = Clock(jitter=0.0)
    call(Unwell(OSError("x"), OSError("x")), clock, first_delay=1)
    assert clock.pauses == [0.5, 1.0]


def test_what_a_server_asks_for_is_the_least_that_is_waited():
    clock = Clock()
    throttled = OSError("429")
    throttled.retry_after = 30
    assert call(Unwell(throttled, OSError("x")), clock, first_delay=1) == "done"
    assert clock.pauses == [30, 2]


@given(st.floats(0.01, 50), st.floats(0.01, 20), st.floats(0, 0.99))
def test_no_attempt_begins_after_the_deadline(deadline, first_delay, jitter):
    clock = Clock(jitter)
    operation = Unwell(*[OSError("down")] * 10_000)
    with pytest.raises(StorageError) as excinfo:
        call(operation, clock, deadline=deadline, first_delay=first_delay)
    assert excinfo.value.code == "storage-unavailable"
    assert clock.now <= deadline
    assert f"{operation.calls} attempts" in excinfo.value.found


def test_the_error_says_what_was_tried_and_shows_no_secret():
    cause = OSError("GET https://key:pw@host/a?sig=s3cret failed")
    with pytest.raises(StorageError) as excinfo:
        call(Unwell(*[cause] * 99), Clock(), deadline=5)
    text = str(excinfo.value)
    assert "fake://b/a" in text
    assert "https://host/a" in text
    assert not any(secret in text for secret in ("pw", "sig", "s3cret"))
    assert excinfo.value.__cause__ is cause


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "no"),
        PermissionError(13, "no"),
        EOFError("short"),
        OSError(28, "disk full"),
        ValueError("bug"),
    ],
)
def test_what_waiting_does_not_mend_is_raised_at_once(error):
    operation, clock = Unwell(error), Clock()
    with pytest.raises(type(error)) as excinfo:
        call(operation, clock)
    assert excinfo.value is error
    assert (operation.calls, clock.pauses) == (1, [])


@pytest.mark.parametrize("error", [TimeoutError("slow"), ConnectionResetError(104, "reset"), OSError(503, "busy")])
def test_timeouts_resets_and_server_errors_are_waited_out(error):
    assert call(Unwell(error), Clock()) == "done"


def test_closing_ends_the_waiting():
    cancel = threading.Event()
    cancel.set()
    operation = Unwell(*[OSError("down")] * 9)
    with pytest.raises(StorageError) as excinfo:
        call(operation, Clock(), cancel=cancel)
    assert excinfo.value.code == "storage-unavailable"
    assert operation.calls == 1


@pytest.fixture
def context(doubles):
    made = StorageContext(Storages(), RetryPolicy(timing=Clock().timing))
    yield made
    made.close()


def test_every_call_to_storage_is_retried(doubles, context):
    doubles.FILES["fake://b/a"] = b"content"
    for operation, expected in (
        (lambda: context.size("fake://b/a"), 7),
        (lambda: [f.size for f in context.list("fake://b")], [7]),
        (lambda: [b.to_pybytes() for b in context.read_ranges("fake://b/a", [(1, 3), (0, 1)])], [b"on", b"c"]),
        (lambda: context.read_all("fake://b/a").to_pybytes(), b"content"),
    ):
        doubles.FAULTS.extend([TimeoutError("slow"), OSError(503, "busy")])
        assert operation() == expected


def test_a_short_answer_is_asked_for_again(doubles, context, monkeypatch):
    doubles.FILES["fake://b/a"] = b"content"
    original = doubles.FakeStorage.read_ranges
    answers = [[pa.py_buffer(b"con")], []]
    monkeypatch.setattr(
        doubles.FakeStorage, "read_ranges", lambda self, u, r: answers.pop() if answers else original(self, u, r)
    )
    assert context.read_all("fake://b/a").to_pybytes() == b"content"
    assert answers == []


def test_a_large_file_is_fetched_in_parts(doubles, context, monkeypatch):
    monkeypatch.setattr("zephon.io.storage._PART_BYTES", 10)
    content = bytes(range(256)) * 2
    doubles.FILES["fake://b/a"] = content
    assert context.read_all("fake://b/a").to_pybytes() == content
    assert context.bytes_read == len(content)
    assert doubles.COUNTS["requests"] > 1


def test_local_files_are_mapped_and_empty_ones_are_empty(tmp_path, context):
    path = tmp_path / "a"
    path.write_bytes(b"content")
    assert context.read_all(str(path)).to_pybytes() == b"content"
    assert context.local_path(str(path)) == str(path)
    path.write_bytes(b"")
    assert context.read_all(str(path)).size == 0


@pytest.mark.parametrize("where", ["fake://b/a.parquet", "local"])
def test_libraries_that_want_a_file_get_one(doubles, tmp_path, context, where):
    table = pa.table({"x": list(range(1000)), "t": ["text"] * 1000})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100)
    content = sink.getvalue().to_pybytes()
    url = where if where != "local" else str(tmp_path / "a.parquet")
    if where == "local":
        (tmp_path / "a.parquet").write_bytes(content)
    doubles.FILES[url] = content
    doubles.FAULTS.append(OSError(503, "busy"))
    with context.open_random_access(url) as file:
        assert file.size() == len(content)
        assert pq.ParquetFile(file).read_row_group(3).equals(table.slice(300, 100))
    doubles.FAULTS.clear()


def test_listing_indexing_and_reading_survive_storage_that_fails_now_and_then(doubles, monkeypatch):
    clock = Clock()
    monkeypatch.setattr("zephon.io.storage.RetryPolicy", lambda: RetryPolicy(timing=clock.timing))
    doubles.FILES["fake://b/a.rows"] = doubles.rows_file([{"x": i} for i in range(20)])
    doubles.FAULTS.append(OSError(503, "busy"))
    dataset = Dataset.from_path("web", "fake://b")
    doubles.FAULTS.append(TimeoutError("slow"))
    assert dataset.total() == 20
    reader = BlockReader([dataset], dataset.schema)
    doubles.FAULTS.append(ConnectionResetError(104, "reset"))
    assert reader.read(first_rows(dataset, 20)[1]).num_rows == 20
    assert len(clock.pauses) == 3
    reader.close()
