"""fsspec filesystems: nothing stale, nothing secret, nothing shared that may not be."""

import errno
import os
import pickle
import sys
import threading
import traceback
import zipfile
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import register_implementation

from zephon.abc import LocalPath, StorageBackend, WritesFiles
from zephon.errors import ConfigError, StorageError
from zephon_fsspec import plugin
from zephon_fsspec.failures import clean, public_url, secrets_of, translated
from zephon_fsspec.local import LocalStorage
from zephon_fsspec.remote import FsspecStorage


class DeepFileSystem(MemoryFileSystem):
    """As most third-party filesystems: one directory a request, listings cached, one instance a thread."""

    protocol = "deep"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    failing: ClassVar[dict[str, Exception]] = {}
    instances = 0
    find = fsspec.AbstractFileSystem.find

    def __init__(self, *args: Any, host: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        type(self).instances += 1

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("deep://"))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        path = self._strip_protocol(path)
        if path in self.failing:
            raise self.failing[path]
        found = self.dircache.get(path)
        if found is None:
            found = self.dircache[path] = super().ls(path, detail=True)
        return found

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        if path in self.failing:
            raise self.failing[path]
        return super().cat_file(path, start, end)

    def info(self, path: str, **options: Any) -> Any:
        if path in self.failing:
            raise self.failing[path]
        return super().info(path)


@pytest.fixture(autouse=True)
def deep() -> Any:
    register_implementation("deep", DeepFileSystem, clobber=True)
    DeepFileSystem.store.clear()
    DeepFileSystem.pseudo_dirs[:] = [""]
    DeepFileSystem.failing.clear()
    DeepFileSystem.clear_instance_cache()
    DeepFileSystem.instances = 0
    return DeepFileSystem


def test_each_descriptor_declares_what_its_implementation_can() -> None:
    for descriptor, kind in ((plugin.local, LocalStorage), (plugin.fsspec, FsspecStorage)):
        assert descriptor.load() is kind
        assert issubclass(kind, StorageBackend)
        assert ("local_path" in descriptor.capabilities) == isinstance(kind(), LocalPath)
        assert ("write" in descriptor.capabilities) == isinstance(kind(), WritesFiles)


# --- nothing stale


def test_a_listing_shows_what_is_there_now(deep: Any) -> None:
    storage = FsspecStorage()
    storage.write("deep://a/b/one", b"1")
    assert [info.url for info in storage.list("deep://a")] == ["deep://a/b/one"]
    fsspec.filesystem("deep").pipe_file("/a/b/two", b"22")
    assert sorted(info.url for info in storage.list("deep://a")) == ["deep://a/b/one", "deep://a/b/two"]


def test_instances_are_shared_with_nobody(deep: Any) -> None:
    others = fsspec.filesystem("deep")
    others.pipe_file("/x", b"x")
    storage = FsspecStorage()
    storage.stat("deep://x")
    assert deep.instances == 2
    others.pipe_file("/y", b"y")
    assert others.dircache.use_listings_cache


def test_threads_have_instances_of_their_own_where_fsspec_gives_them(deep: Any) -> None:
    storage = FsspecStorage()
    storage.write("deep://x", b"0123456789")
    wrong = []

    def read() -> None:
        for start in range(9):
            body = storage.read_ranges("deep://x", [(start, start + 2)])[0].to_pybytes()
            if body != b"0123456789"[start : start + 2]:
                wrong.append(body)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert deep.instances == 5


def test_a_directory_whose_listing_fails_is_an_error_not_a_gap(deep: Any) -> None:
    storage = FsspecStorage()
    storage.write("deep://a/b/c/x", b"")
    storage.write("deep://a/y", b"")
    deep.failing["/a/b/c"] = OSError(errno.ECONNRESET, "reset")
    with pytest.raises(OSError, match="reset"):
        storage.list("deep://a")


def test_an_archive_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    storage = FsspecStorage()
    archive = tmp_path / "all.zip"
    for content in (b"first", b"second, longer"):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("in/part.txt", content)
        (found,) = storage.list(f"zip://in::{archive}")
        assert (found.url, found.size) == (f"zip://in/part.txt::{archive}", len(content))
        assert storage.read_ranges(found.url, [(0, found.size)])[0].to_pybytes() == content
        assert [info.url for info in storage.list(f"zip::{archive}")] == [found.url]


def test_a_caching_chain_names_files_in_its_own_form(memory: Any) -> None:
    memory.pipe_file("/d/x", b"content")
    storage = FsspecStorage()
    (found,) = storage.list("simplecache::memory://d")
    assert found.url == "simplecache::memory://d/x"
    assert storage.read_ranges(found.url, [(3, 7)])[0].to_pybytes() == b"tent"


# --- missing, short, refused


def test_a_missing_directory_is_not_found_and_an_empty_one_lists_nothing(memory: Any) -> None:
    storage = FsspecStorage()
    memory.mkdir("/empty")
    assert list(storage.list("memory://empty")) == []
    assert list(storage.list("memory://")) == []
    with pytest.raises(FileNotFoundError):
        storage.list("memory://missing")


def test_an_empty_range_has_to_lie_inside_the_file(memory: Any) -> None:
    storage = FsspecStorage()
    memory.pipe_file("/x", b"0123456789")
    assert [b.size for b in storage.read_ranges("memory://x", [(10, 10), (0, 10), (0, 0)])] == [0, 10, 0]
    with pytest.raises(EOFError):
        storage.read_ranges("memory://x", [(11, 11)])
    with pytest.raises(FileNotFoundError):
        storage.read_ranges("memory://missing", [(0, 0)])


class StatusError(Exception):
    """As client libraries raise them: no OSError, the status in an attribute."""

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(text)
        self.status = status


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError("x"), FileNotFoundError),
        (caused(FileNotFoundError("x"), KeyError("x")), FileNotFoundError),
        (caused(FileNotFoundError("x"), StatusError(404)), FileNotFoundError),
        (caused(FileNotFoundError("x"), StatusError(503)), OSError),
        (caused(FileNotFoundError("x"), StatusError(403)), PermissionError),
        (caused(FileNotFoundError("x"), ConnectionResetError("x")), OSError),
        (caused(FileNotFoundError("x"), TimeoutError("x")), OSError),
        (StatusError(404), FileNotFoundError),
        (StatusError(401), PermissionError),
        (StatusError(400, "ExpiredToken"), OSError),
        (StatusError(429), OSError),
        (StatusError(500), OSError),
        (PermissionError("x"), PermissionError),
        (NotImplementedError(), PermissionError),
        (TimeoutError(), TimeoutError),
        (ConnectionResetError(errno.ECONNRESET, "x"), ConnectionResetError),
        (RuntimeError("Session is closed"), OSError),
        (EOFError("x"), EOFError),
    ],
)
def test_only_what_is_surely_not_there_is_not_found(error: Exception, kind: type[Exception]) -> None:
    result = translated(error, "s3://bucket/x", ())
    assert type(result) is kind
    assert (result.__cause__, result.__context__) == (None, None)


class Answered(Exception):
    """A client library's error that keeps the answer."""

    def __init__(self, response: Any) -> None:
        super().__init__("busy")
        self.response = response


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"Retry-After": "2.5"}, 2.5, 2.5),
        ({"retry-after": format_datetime(datetime.now(UTC) + timedelta(hours=9), usegmt=True)}, 3600, 32401),
        ({"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0, 0),
        ({"Retry-After": "soon"}, 0, 0),
        ({"Other": "3"}, 0, 0),
    ],
)
def test_when_to_come_back_is_found_where_each_library_keeps_it(
    headers: dict[str, str], low: float, high: float
) -> None:
    botocore = Answered({"ResponseMetadata": {"HTTPStatusCode": 503, "HTTPHeaders": headers}})
    requests = Answered(SimpleNamespace(status_code=429, headers=headers))
    for error in (botocore, requests, caused(OSError("x"), botocore)):
        result = translated(error, "s3://bucket/x", ())
        assert low <= getattr(result, "retry_after", 0) <= high
        assert str(pickle.loads(pickle.dumps(result))) == str(result)


def test_zephons_own_errors_pass() -> None:
    error = StorageError("x", code="y")
    assert translated(error, "s3://x", ()) is error


@pytest.mark.parametrize("answer", [b"", b"0123", b"0123456"])
def test_a_body_of_another_length_is_an_error_that_may_pass(
    deep: Any, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    storage = FsspecStorage()
    storage.write("deep://x", b"0123456789")
    monkeypatch.setattr(deep, "cat_file", lambda self, path, start=None, end=None: answer)
    with pytest.raises(OSError) as excinfo:
        storage.read_ranges("deep://x", [(0, 5)])
    assert type(excinfo.value) is OSError


def test_a_server_that_ignores_ranges_still_gives_the_right_bytes(deep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = FsspecStorage()
    storage.write("deep://x", b"0123456789")
    monkeypatch.setattr(deep, "cat_file", lambda self, path, start=None, end=None: b"0123456789")
    assert [b.to_pybytes() for b in storage.read_ranges("deep://x", [(2, 4), (0, 10)])] == [b"23", b"0123456789"]


def test_what_cannot_be_written_is_permission_error(deep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(deep, "pipe_file", refuse)
    with pytest.raises(PermissionError):
        FsspecStorage().write("deep://x", b"")


def test_a_store_that_renames_is_written_through_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FsspecStorage()
    url = f"local://{tmp_path}/new/x"
    storage.write(url, b"old")
    assert os.listdir(tmp_path / "new") == ["x"]

    def fail(*args: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.mv", fail)
    with pytest.raises(OSError, match="space"):
        storage.write(url, b"new")
    assert os.listdir(tmp_path / "new") == ["x"]
    assert (tmp_path / "new/x").read_bytes() == b"old"


# --- nothing secret

SECRET = "hunter2-very-secret"


@pytest.mark.parametrize(
    "options", [{"key": SECRET}, {"client_kwargs": {"headers": [f"Bearer {SECRET}"]}}, {"token": SECRET.encode()}]
)
def test_no_option_appears_in_an_error_or_its_traceback(deep: Any, options: dict[str, Any]) -> None:
    storage = FsspecStorage(**options)
    deep.failing["/x"] = caused(
        OSError(f"refused for Bearer {SECRET} at https://u:{SECRET}@h/x?sig={SECRET}"), KeyError()
    )
    for call in (lambda: storage.stat("deep://x"), lambda: storage.read_ranges("deep://x", [(0, 1)])):
        with pytest.raises(OSError) as excinfo:
            call()
        assert SECRET not in "".join(traceback.format_exception(excinfo.value))
        assert excinfo.value.__context__ is None
    assert SECRET not in repr(storage)


def test_no_userinfo_or_query_of_a_url_appears_in_an_error(memory: Any) -> None:
    storage = FsspecStorage()
    for url in (f"memory://user:{SECRET}@x/y", f"memory://x/y?X-Amz-Signature={SECRET}"):
        for call in (storage.stat, storage.list, lambda url: storage.read_ranges(url, [(0, 1)])):
            with pytest.raises(FileNotFoundError) as excinfo:
                call(url)
            assert SECRET not in "".join(traceback.format_exception(excinfo.value))


def test_options_that_do_not_fit_are_named_not_shown(deep: Any) -> None:
    class Strict(DeepFileSystem):
        def __init__(self, *, region: str) -> None:
            raise TypeError(f"region {region!r} is unknown")

    register_implementation("deep", Strict, clobber=True)
    with pytest.raises(ConfigError) as excinfo:
        FsspecStorage(region=SECRET).stat("deep://x")
    assert excinfo.value.code == "storage-options"
    assert SECRET not in "".join(traceback.format_exception(excinfo.value))


def test_urls_lose_userinfo_and_query() -> None:
    assert public_url("https://me:pw@host/a/b?sig=x#y") == "https://host/a/b"
    assert public_url("zip://in/x::s3://key:pw@bucket/a.zip?versionId=1") == "zip://in/x::s3://bucket/a.zip"
    assert public_url("/data/me@home/x") == "/data/me@home/x"


def test_long_messages_are_cut_and_short_options_are_no_secrets() -> None:
    assert len(clean("x" * 10_000, ())) < 500
    assert list(secrets_of({"a": "yes", "b": [SECRET, {"c": ("longer-" + SECRET,)}], "d": 3})) == [
        "longer-" + SECRET,
        SECRET,
    ]


# --- schemes


@pytest.mark.parametrize(
    ("scheme", "module", "extra"),
    [("s3", "s3fs", "[s3]"), ("gs", "gcsfs", "[gcs]"), ("abfs", "adlfs", "[azure]"), ("http", "aiohttp", "[http]")],
)
def test_a_missing_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, scheme: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    with pytest.raises(ConfigError) as excinfo:
        FsspecStorage().stat(f"{scheme}://bucket/x")
    assert excinfo.value.code == "storage-library-missing"
    assert extra in excinfo.value.fix
    assert module in excinfo.value.fix


def test_an_unknown_scheme_is_an_error_of_the_user() -> None:
    with pytest.raises(ConfigError) as excinfo:
        FsspecStorage().list("s4://bucket")
    assert excinfo.value.code == "storage-scheme-unknown"


# --- processes


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # threads of other tests; that is the point
def test_a_forked_child_reads_with_instances_of_its_own(deep: Any) -> None:
    storage = FsspecStorage()
    storage.write("deep://x", b"content")
    storage.write("memory://fork/x", b"content")
    with storage._filesystems._lock:  # as if another thread were opening one at that moment
        child = os.fork()
        if child == 0:
            status = 1
            try:
                bodies = [storage.read_ranges(url, [(0, 7)])[0].to_pybytes() for url in ("deep://x", "memory://fork/x")]
                status = 0 if bodies == [b"content"] * 2 else 2
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_backend_with_options_is_never_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(FsspecStorage(key=SECRET))
