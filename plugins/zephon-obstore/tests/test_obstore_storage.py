"""Options, errors and spans of the obstore backend; nothing here needs a server but one on loopback that says no."""

import os
import pickle
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import GenericError

from zephon.abc import LocalPath, StorageBackend, WritesFiles
from zephon.errors import ConfigError, StorageError
from zephon.io.storage import Storages
from zephon_obstore import plugin
from zephon_obstore.failures import translated
from zephon_obstore.options import constructor_arguments
from zephon_obstore.spans import GAP, covering
from zephon_obstore.storage import ObstoreStorage
from zephon_obstore.stores import split

SECRET = "hunter2-very-secret"


def test_the_descriptor_declares_what_the_implementation_can() -> None:
    kind = plugin.obstore.load()
    assert kind is ObstoreStorage
    assert issubclass(kind, StorageBackend)
    assert isinstance(kind(), WritesFiles)
    assert not isinstance(kind(), LocalPath)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"])
def test_it_is_chosen_for_its_schemes_before_backends_of_any_scheme(scheme: str) -> None:
    assert isinstance(Storages().backend(f"{scheme}://bucket/x"), ObstoreStorage)
    assert not isinstance(Storages().backend("memory://x"), ObstoreStorage)


# --- spans

RANGES = st.lists(st.tuples(st.integers(0, 9 * GAP), st.integers(1, 2 * GAP)).map(lambda r: (r[0], r[0] + r[1])))


@given(RANGES)
def test_spans_cover_every_range_and_lie_apart(ranges: list[tuple[int, int]]) -> None:
    spans, homes = covering(ranges)
    assert all(
        spans[home][0] <= start and stop <= spans[home][1] for (start, stop), home in zip(ranges, homes, strict=True)
    )
    assert all(after[0] - before[1] > GAP for before, after in pairwise(spans))
    edges = {edge for reach in ranges for edge in reach}
    assert all(edge in edges for span in spans for edge in span), "a span reaches beyond what was asked for"


def test_ranges_on_both_sides_of_the_end_are_eof_and_no_panic(capfd: pytest.CaptureFixture[str]) -> None:
    storage = ObstoreStorage()
    url = "obstore-memory://tests/end"
    storage.write(url, b"0123456789")
    for ranges in ([(0, 10), (20, 30)], [(0, 10), (5, 11)], [(20, 30)], [(0, 0), (11, 11)]):
        with pytest.raises(EOFError):
            storage.read_ranges(url, ranges)
    assert "panicked" not in capfd.readouterr().err


def test_a_range_that_is_none_is_refused() -> None:
    for reach in ((-1, 2), (3, 2)):
        with pytest.raises(ValueError, match="half-open"):
            ObstoreStorage().read_ranges("obstore-memory://tests/x", [reach])


# --- URLs and options


def test_azure_urls_name_container_and_account() -> None:
    place = split("abfss://data@lake.dfs.core.windows.net/a/b%20c#1?x")
    assert (place.kind, place.bucket, place.account, place.path) == ("azure", "data", "lake", "a/b%20c#1?x")
    assert (split("az://data/a/").bucket, split("az://data/a/").path) == ("data", "a")


@pytest.mark.parametrize(
    ("kind", "options", "config"),
    [
        (
            "s3",
            {"key": "k", "secret": "s", "token": "t", "endpoint_url": "https://h", "region": "r", "anon": False},
            {
                "access_key_id": "k", "secret_access_key": "s", "session_token": "t", "endpoint": "https://h",
                "region": "r", "skip_signature": False,
            },
        ),
        ("s3", {"client_kwargs": {"region_name": "r"}, "key": None}, {"region": "r"}),
        ("s3", {"access_key_id": "k", "virtual_hosted_style_request": True},
         {"access_key_id": "k", "virtual_hosted_style_request": True}),
        ("gcs", {"token": "anon"}, {"skip_signature": True}),
        ("gcs", {"token": {"type": "x"}}, {"service_account_key": '{"type": "x"}'}),
        ("gcs", {"token": "/key.json"}, {"application_credentials": "/key.json"}),
        ("azure", {"account_name": "a", "account_key": "k"}, {"account_name": "a", "account_key": "k"}),
        ("azure", {"sas_token": "s"}, {"sas_key": "s"}),
    ],
)  # fmt: skip
def test_names_of_fsspec_and_of_obstore_are_understood(
    kind: str, options: dict[str, Any], config: dict[str, Any]
) -> None:
    assert constructor_arguments(kind, options) == {"config": config, "retry_config": {"max_retries": 0}}


def test_plain_http_is_allowed_where_it_is_asked_for() -> None:
    made = constructor_arguments("s3", {"endpoint_url": "http://h", "client_options": {"timeout": "2s"}})
    assert made["client_options"] == {"allow_http": True, "timeout": "2s"}
    assert "client_options" not in constructor_arguments("s3", {"endpoint_url": "https://h"})


@pytest.mark.parametrize("url", ["s3://b/x", "gs://b/x", "az://b/x"])
@pytest.mark.parametrize(
    "options",
    [{"no_such_option": SECRET}, {"endpoint_url": SECRET, "endpoint": SECRET, "base_url": SECRET}],
    ids=["unknown", "twice"],
)
def test_options_that_do_not_fit_are_an_error_without_their_values(url: str, options: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as excinfo:
        ObstoreStorage(**options).stat(url)
    assert excinfo.value.code == "storage-options"
    assert SECRET not in "".join(traceback.format_exception(excinfo.value))


# --- errors


class Refusing(BaseHTTPRequestHandler):
    """Answers every request with the status its server was told."""

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        status, code = self.server.answer
        body = f"<Error><Code>{code}</Code><Message>for {SECRET}</Message></Error>".encode()
        self.server.seen.append(self.command)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_PUT = do_GET


@pytest.fixture
def refusing() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.answer, server.seen = (500, ""), []
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "ExpiredToken", OSError),
        (403, "ExpiredToken", OSError),
        (401, "", PermissionError),
        (403, "AccessDenied", PermissionError),
        (404, "NoSuchKey", FileNotFoundError),
        (429, "SlowDown", OSError),
        (500, "InternalError", OSError),
        (503, "SlowDown", OSError),
    ],
)
def test_what_the_store_answers_keeps_its_meaning_and_is_asked_once(
    refusing: Any, status: int, code: str, kind: type[OSError]
) -> None:
    refusing.answer = (status, code)
    storage = ObstoreStorage(
        key="some-key-id", secret=SECRET, region="us-east-1", endpoint_url=f"http://127.0.0.1:{refusing.server_port}"
    )
    calls = {
        "read": lambda: storage.read_ranges("s3://b/x", [(0, 5)]),
        "list": lambda: storage.list("s3://b/x"),
        "write": lambda: storage.write("s3://b/x", b"1"),
    }
    for call in calls.values():
        refusing.seen.clear()
        with pytest.raises(OSError) as excinfo:
            call()
        assert type(excinfo.value) is kind
        assert len(refusing.seen) == 1
        assert (excinfo.value.__cause__, excinfo.value.__context__) == (None, None)
        assert SECRET not in "".join(traceback.format_exception(excinfo.value))
    assert SECRET not in repr(storage)


def test_a_404_of_a_credentials_service_is_not_the_objects() -> None:
    text = (
        "Generic S3 error: Error performing GET http://169.254.169.254/latest in 1ms - "
        "Server returned non-2xx status code: 404 Not Found: "
    )
    assert type(translated(GenericError(text), "s3://b/x", ())) is OSError


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # obstore's threads; that is the point
def test_a_forked_child_is_told_so_instead_of_waiting_for_ever() -> None:
    storage = ObstoreStorage(key="some-key-id", secret=SECRET, endpoint_url="http://127.0.0.1:1")
    storage.write("obstore-memory://fork/x", b"1")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            storage.read_ranges("s3://b/x", [(0, 5)])
        except StorageError as error:
            status = 0 if error.code == "storage-after-fork" else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_backend_with_options_is_never_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(ObstoreStorage(key=SECRET))


def test_folder_markers_are_no_files() -> None:
    storage = ObstoreStorage()
    for name in ("d", "d/e", "d/e/f"):
        storage.write(f"obstore-memory://markers/{name}", b"1" if name == "d/e/f" else b"")
    assert [info.url for info in storage.list("obstore-memory://markers/d")] == ["obstore-memory://markers/d/e/f"]
    assert os.path.basename(next(storage.list("obstore-memory://markers")).url) == "f"
    with pytest.raises(NotADirectoryError):
        storage.list("obstore-memory://markers/d/e/f")
