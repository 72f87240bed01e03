"""Files of a web server, read through fsspec: a real server on the loopback interface that can be told to misbehave."""

import traceback
from pathlib import Path
from typing import Any

import pytest

from zephon_fsspec.failures import BusyError
from zephon_fsspec.remote import FsspecStorage

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def storage() -> FsspecStorage:
    return FsspecStorage()


def put(web: Any, name: str, content: bytes = CONTENT) -> str:
    path: Path = web.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return f"{web.url}/{name}"


def test_ranges_are_fetched_as_asked(web: Any, storage: FsspecStorage) -> None:
    url = put(web, "a.bin")
    ranges = [(5000, 5003), (0, 10), (10, 10), (10239, 10240), (0, 10240)]
    assert [b.to_pybytes() for b in storage.read_ranges(url, ranges)] == [CONTENT[a:b] for a, b in ranges]


def test_a_range_past_the_end_is_eof(web: Any, storage: FsspecStorage) -> None:
    url = put(web, "a.bin")
    for reach in ((10_000, 10_241), (20_000, 20_001), (10_241, 10_241)):
        with pytest.raises(EOFError):
            storage.read_ranges(url, [(0, 1), reach])


def test_a_short_body_is_an_error_that_may_pass(web: Any, storage: FsspecStorage) -> None:
    url = put(web, "a.bin")
    web.answers["/a.bin"] = "short"
    with pytest.raises(OSError) as excinfo:
        storage.read_ranges(url, [(0, 100)])
    assert type(excinfo.value) is OSError
    del web.answers["/a.bin"]
    assert storage.read_ranges(url, [(0, 100)])[0].to_pybytes() == CONTENT[:100]


def test_a_server_without_ranges_still_gives_the_right_bytes(web: Any, storage: FsspecStorage) -> None:
    url = put(web, "a.bin")
    web.answers["/a.bin"] = "no ranges"
    assert storage.read_ranges(url, [(100, 200)])[0].to_pybytes() == CONTENT[100:200]


def test_facts_of_a_file_change_with_it(web: Any, storage: FsspecStorage) -> None:
    url = put(web, "a.bin", b"123")
    first = storage.stat(url)
    assert (first.url, first.size) == (url, 3)
    assert first.mtime > 1.6e9
    put(web, "a.bin", b"12345")
    assert storage.stat(url).size == 5


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, FileNotFoundError), (403, PermissionError), (429, BusyError), (503, OSError), (500, OSError)],
)
def test_a_status_says_whether_a_file_is_missing(web: Any, storage: FsspecStorage, status: int, kind: type) -> None:
    url = put(web, "a.bin")
    web.answers["/a.bin"] = status
    for call in (storage.stat, lambda url: storage.read_ranges(url, [(0, 10)])):
        with pytest.raises(OSError) as excinfo:
            call(url)
        assert type(excinfo.value) is kind
    del web.answers["/a.bin"]
    assert storage.stat(url).size == len(CONTENT)


def test_how_long_a_server_asks_to_wait_is_passed_on(web: Any, storage: FsspecStorage) -> None:
    url = put(web, "a.bin")
    web.answers["/a.bin"] = 429
    for call in (storage.stat, lambda url: storage.read_ranges(url, [(0, 10)])):
        with pytest.raises(BusyError) as excinfo:
            call(url)
        assert excinfo.value.retry_after == 7.0


def test_nobody_listening_is_an_error_that_may_pass(web: Any, storage: FsspecStorage) -> None:
    import socket

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/a.bin"
        for call in (storage.stat, lambda url: storage.read_ranges(url, [(0, 10)])):
            with pytest.raises(OSError) as excinfo:
                call(url)
            assert not isinstance(excinfo.value, (FileNotFoundError, PermissionError))


def test_a_directory_page_lists_files_of_any_name_at_any_depth(web: Any, storage: FsspecStorage) -> None:
    contents = {"a b.txt": b"1", "c#d.txt": b"22", "e%20f.txt": b"333", "ü?.txt": b"4444", "deep/er/x": b"55555"}
    for name, content in contents.items():
        put(web, f"data/{name}", content)
    for url in (f"{web.url}/data", f"{web.url}/data/"):
        found = list(storage.list(url))
        assert sorted(info.size for info in found) == [1, 2, 3, 4, 5]
        read = {storage.read_ranges(info.url, [(0, info.size)])[0].to_pybytes() for info in found}
        assert read == set(contents.values())


def test_directories_and_files_are_told_apart(web: Any, storage: FsspecStorage) -> None:
    url = put(web, "data/a.bin")
    for directory in (f"{web.url}/data", f"{web.url}/data/"):
        with pytest.raises(IsADirectoryError):
            storage.stat(directory)
    with pytest.raises(NotADirectoryError):
        storage.list(url)
    with pytest.raises(FileNotFoundError):
        storage.list(f"{web.url}/missing/")


def test_a_part_of_a_listing_that_fails_is_an_error_not_a_gap(web: Any, storage: FsspecStorage) -> None:
    put(web, "data/sub/a.bin")
    put(web, "data/b.bin")
    web.answers["/data/sub/"] = 503
    with pytest.raises(OSError) as excinfo:
        storage.list(f"{web.url}/data")
    assert type(excinfo.value) is OSError


def test_a_signature_in_the_query_is_sent_and_never_shown(web: Any, storage: FsspecStorage) -> None:
    url = put(web, "a.bin") + "?X-Amz-Signature=hunter2"
    assert storage.read_ranges(url, [(0, 3)])[0].to_pybytes() == CONTENT[:3]
    assert "GET /a.bin?X-Amz-Signature=hunter2" in web.requests
    web.answers["/a.bin"] = 503
    for call in (storage.stat, lambda url: storage.read_ranges(url, [(0, 10)])):
        with pytest.raises(OSError) as excinfo:
            call(url)
        assert "hunter2" not in "".join(traceback.format_exception(excinfo.value))


def test_a_server_that_takes_no_files_is_permission_error(web: Any, storage: FsspecStorage) -> None:
    with pytest.raises(PermissionError):
        storage.write(f"{web.url}/new", b"x")
