"""Local files: links, atomic writes, file: URLs, ranges, concurrency."""

import os
import stat
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import ConfigError, StorageError
from zephon_fsspec.local import LocalStorage

storage = LocalStorage()


def names_below(root: Path) -> list[str]:
    return [info.url.removeprefix(f"{root}/") for info in storage.list(str(root))]


def test_a_listing_is_ordered_by_name_and_has_files_only(tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "a", "c/d/e"):
        storage.write(f"{tmp_path}/{name}", b"x")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert names_below(tmp_path) == ["a", "b/1", "b/2", "c/d/e"]


def test_an_empty_directory_lists_nothing(tmp_path: Path) -> None:
    assert names_below(tmp_path) == []


def test_links_to_files_and_directories_are_followed(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/elsewhere/part", b"123")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").symlink_to(tmp_path / "elsewhere/part")
    (root / "one").symlink_to(tmp_path / "elsewhere")
    (root / "two").symlink_to(tmp_path / "elsewhere")
    assert [(info.url.removeprefix(f"{root}/"), info.size) for info in storage.list(str(root))] == [
        ("file", 3),
        ("one/part", 3),
        ("two/part", 3),
    ]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/a/x", b"")
    storage.write(f"{tmp_path}/b/y", b"")
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "a/b").symlink_to(tmp_path / "b")
    (tmp_path / "b/a").symlink_to(tmp_path / "a")
    assert names_below(tmp_path) == ["a/b/y", "a/x", "b/a/x", "b/y"]


@pytest.mark.parametrize("target", ["missing", "dangling"])
def test_a_link_to_nothing_is_noticed(tmp_path: Path, target: str) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / target)
    with pytest.raises(StorageError) as excinfo:
        names_below(tmp_path)
    assert excinfo.value.code == "storage-broken-link"
    assert "dangling" in excinfo.value.what


def test_an_editors_lock_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".#data.jsonl").symlink_to("me@host.1234")
    assert names_below(tmp_path) == []


def test_missing_things_are_not_found(tmp_path: Path) -> None:
    for call in (storage.stat, storage.list, lambda url: storage.read_ranges(url, [])):
        with pytest.raises(FileNotFoundError):
            call(f"{tmp_path}/missing")


def test_what_is_no_regular_file_cannot_be_a_shard(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError):
        storage.stat(f"{tmp_path}/pipe")
    with pytest.raises(IsADirectoryError):
        storage.read_ranges(str(tmp_path), [(0, 1)])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_permission_error(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/secret", b"x")
    (tmp_path / "secret").chmod(0)
    with pytest.raises(PermissionError):
        storage.read_ranges(f"{tmp_path}/secret", [(0, 1)])


@pytest.mark.parametrize("bad", [(-1, 3), (3, 2)])
def test_a_range_is_half_open_and_not_negative(tmp_path: Path, bad: tuple[int, int]) -> None:
    storage.write(f"{tmp_path}/f", b"0123456789")
    with pytest.raises(ValueError):
        storage.read_ranges(f"{tmp_path}/f", [(0, 1), bad])


# --- writing


def test_a_write_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/deep/er/f", b"old")
    storage.write(f"{tmp_path}/deep/er/f", pa.py_buffer(b"new and longer"))
    assert (tmp_path / "deep/er/f").read_bytes() == b"new and longer"
    assert os.listdir(tmp_path / "deep/er") == ["f"]


def test_a_written_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/f", b"")
    (tmp_path / "plain").touch()
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, failure: BaseException
) -> None:
    storage.write(f"{tmp_path}/f", b"old")

    def fail(*args: object) -> None:
        raise failure

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(failure)):
        storage.write(f"{tmp_path}/f", b"new")
    monkeypatch.undo()
    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_directory_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(IsADirectoryError):
        storage.write(f"{tmp_path}/d", b"x")
    assert os.listdir(tmp_path) == ["d"]


def test_readers_see_the_old_content_or_the_new_never_a_part(tmp_path: Path) -> None:
    url = f"{tmp_path}/f"
    versions = [bytes([digit]) * 50_000 for digit in range(10)]
    storage.write(url, versions[0])
    done = threading.Event()
    torn = []

    def read() -> None:
        while not done.is_set():
            content = storage.read_ranges(url, [(0, 50_000)])[0].to_pybytes()
            if content not in versions:
                torn.append(content)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for version in versions * 5:
        storage.write(url, version)
    done.set()
    for reader in readers:
        reader.join()
    assert torn == []


# --- file: URLs


@given(st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=20))
def test_a_file_url_names_the_path_it_was_made_from(name: str) -> None:
    path = Path("/data") / name
    if path.name == name:  # "." and ".." are no names
        assert storage.local_path(path.as_uri()) == str(path)
    assert storage.local_path(f"/data/{name}") == f"/data/{name}"


@pytest.mark.parametrize("url", ["file:///data/x", "file://localhost/data/x", "file:/data/x"])
def test_the_three_spellings_of_a_file_url(url: str) -> None:
    assert storage.local_path(url) == "/data/x"


def test_a_file_url_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError) as excinfo:
        storage.local_path("file://data/x")
    assert excinfo.value.code == "storage-url"


def test_what_a_file_url_lists_can_be_read_by_its_urls(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/a#b/c%20 d?", b"content")
    (found,) = storage.list(tmp_path.as_uri())
    assert found.url == (tmp_path / "a#b/c%20 d?").as_uri()
    assert storage.stat(found.url) == found
    assert storage.read_ranges(found.url, [(0, 7)])[0].to_pybytes() == b"content"


def test_options_are_refused_by_name_not_by_value() -> None:
    with pytest.raises(ConfigError) as excinfo:
        LocalStorage(key="AKIA-secret")
    assert excinfo.value.code == "storage-options"
    assert "AKIA-secret" not in str(excinfo.value)
