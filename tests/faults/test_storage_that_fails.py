"""Storage hiccups: retried under a deadline, then told as what they are - never "not found", never a dropped row.

Which errors of which client library may pass is tested in zephon-fsspec; how long is waited in zephon.io.
"""

import threading
import warnings
from collections import Counter
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import zephon.io.storage
from zephon import Pipeline
from zephon.errors import StorageError
from zephon.io import Dataset
from zephon.io.retry import RetryPolicy
from zephon_fault_files import Stretch, fails_with, inline, jsonl, numbers, parquet, run, work


class HiccupFileSystem(MemoryFileSystem):
    """A store that fails as told: the first calls of an operation, or every so manieth, or all of them."""

    protocol = "hiccup"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]
    error: ClassVar[Exception] = OSError(5, "an upset store")
    first: ClassVar[Counter] = Counter()
    every: ClassVar[int] = 0
    down: ClassVar[set] = set()
    short: ClassVar[int] = 0
    deadline: ClassVar[float] = 60.0
    calls: ClassVar[Counter] = Counter()
    lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + path.removeprefix("hiccup://").strip("/")

    def _may_fail(self, operation):
        cls = type(self)
        with cls.lock:
            cls.calls[operation] += 1
            number = cls.calls[operation]
        if operation in cls.down or number <= cls.first[operation] or (cls.every and number % cls.every == 0):
            raise cls.error

    def info(self, path, **kwargs):
        self._may_fail("info")
        return super().info(path, **kwargs)

    def ls(self, path, detail=True, **kwargs):
        self._may_fail("ls")
        return super().ls(path, detail=detail, **kwargs)

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._may_fail("cat_file")
        body = super().cat_file(path, start, end, **kwargs)
        with type(self).lock:
            if type(self).short > 0:
                type(self).short -= 1
                return body[:-1]
        return body


def quick_policy():
    """Waits milliseconds, and patiently unless a test expects it to give up."""
    return RetryPolicy(deadline=HiccupFileSystem.deadline, first_delay=0.001, max_delay=0.004)


@pytest.fixture(params=["jsonl", "parquet"])
def store(request, tmp_path, monkeypatch):
    """The store with 40 rows in it, calm so far, and a policy that waits milliseconds."""
    fsspec.register_implementation("hiccup", HiccupFileSystem, clobber=True)
    for name, value in (
        ("store", {}),
        ("pseudo_dirs", [""]),
        ("error", OSError(5, "an upset store")),
        ("first", Counter()),
        ("every", 0),
        ("down", set()),
        ("short", 0),
        ("deadline", 60.0),
        ("calls", Counter()),
    ):
        monkeypatch.setattr(HiccupFileSystem, name, value)
    if request.param == "jsonl":
        jsonl(tmp_path / "data", [10] * 4)
    else:
        for i in range(4):
            parquet(tmp_path / "data" / f"part-{i}.parquet", 10, 5, start=10 * i)
    filesystem = HiccupFileSystem(skip_instance_cache=True)
    for path in (tmp_path / "data").iterdir():
        filesystem.pipe_file(f"/bucket/{path.name}", path.read_bytes())
    HiccupFileSystem.calls.clear()
    monkeypatch.setattr(zephon.io.storage, "RetryPolicy", quick_policy)
    return HiccupFileSystem


def make(**options):
    return inline(Pipeline(work(web="hiccup://bucket")).shuffle(7).batch(2), **options)


@pytest.fixture
def calm(store):
    """What a run over the store delivers when nothing fails."""
    digests = run(make).digests
    store.calls.clear()
    return digests


@pytest.mark.parametrize("operation", ["info", "ls", "cat_file"])
@pytest.mark.parametrize("error", [TimeoutError("slow"), OSError("503 Slow Down")])
def test_an_operation_that_fails_a_few_times_is_tried_again_and_nothing_is_lost(
    store, calm, monkeypatch, operation, error
):
    store.error = error
    store.first[operation] = 3
    assert run(make).digests == calm
    assert store.calls[operation] > 3


@pytest.mark.parametrize(
    "chain", [(Stretch(parallelism=4),), (Stretch(3, degree=2, parallelism=2), Stretch(block_rows=3))]
)
def test_a_store_that_fails_now_and_then_changes_no_round(store, calm, chain):
    store.every = 3
    assert run(make, chain).digests == calm


def test_an_answer_that_is_too_short_is_asked_for_again(store, calm):
    store.short = 3
    assert run(make).digests == calm


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("down", ["info", "ls"])
def test_a_store_that_is_down_when_the_dataset_is_made_is_unavailable_not_missing(store, on_error, down):
    store.down, store.deadline = {down}, 0.08
    with fails_with("storage-unavailable", StorageError) as found:
        make(on_error=on_error)
    assert isinstance(found[0], OSError)
    assert not isinstance(found[0], FileNotFoundError)
    assert "attempts" in found[0].found
    assert "an upset store" in found[0].found
    assert found[0].__cause__ is not None


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("parallelism", [0, 2])
def test_a_store_that_goes_down_while_running_stops_the_run_and_drops_nothing(store, on_error, parallelism):
    store.deadline = 0.08
    pipeline = make(on_error=on_error, parallelism=parallelism, block_rows=3)
    iterator = iter(pipeline)
    seen = [record.payload["n"] for record in next(iterator).records]
    store.down = {"info", "ls", "cat_file"}
    with fails_with("storage-unavailable", StorageError):
        while True:
            seen += [record.payload["n"] for record in next(iterator).records]
    assert pipeline.stats()["skipped"] == {}
    state = pipeline.checkpoint()
    store.down = set()
    resumed = make(on_error=on_error).restore(state)
    assert sorted(seen + numbers(resumed)) == list(range(40))


def test_a_file_that_is_gone_from_the_store_is_missing_at_once(store):
    pipeline = make().validate()
    name = next(iter(store.store))
    del store.store[name]
    store.calls.clear()
    with fails_with("shard-missing", StorageError) as found:
        numbers(pipeline)
    assert name.rpartition("/")[2] in found[0].what
    assert store.calls["cat_file"] < 40  # nobody waits for what is surely not there


def test_credentials_show_in_no_error_and_in_no_state(store):
    store.deadline = 0.08
    secret = "hunter2-hunter2"
    dataset = Dataset.from_path("web", "hiccup://bucket", storage_options={"token": secret})
    pipeline = inline(Pipeline(work(web=dataset)).batch(2))
    texts = [pipeline.explain(), str(pipeline.to_spec()), repr(dataset)]
    state = pipeline.checkpoint()
    texts.append(str(state["header"]) + "".join(map(str, state["lanes"].values())))
    store.error = OSError(5, f"token {secret} refused")
    store.down = {"info", "ls", "cat_file"}
    with fails_with("storage-unavailable") as found:
        numbers(pipeline)
    error = found[0]
    while error is not None:
        texts.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    assert not [text for text in texts if secret in text]


def test_retrying_is_silent_and_bounded(store):
    store.down, store.deadline = {"cat_file"}, 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fails_with("storage-unavailable"):
            numbers(make())
    # Waits of at least 2 ms once they have grown to their limit, within half a second, by a handful of threads.
    assert 2 <= store.calls["cat_file"] <= 20 * 250
