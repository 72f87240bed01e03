"""tokenizer_id: every form it may have, and what is said when nothing is there."""

from __future__ import annotations

import json
from typing import ClassVar

import pyarrow as pa
import pytest

import zephon_text.files as files
from zephon.abc import FileInfo, StorageBackend
from zephon.errors import ConfigError, StorageError
from zephon.plugins import StorageDescriptor, register
from zephon_text.files import find_files

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def directory(llama_like, tmp_path):
    place = tmp_path / "tok"
    place.mkdir()
    llama_like.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    return place


def code_of(call, *args):
    with pytest.raises((ConfigError, StorageError)) as caught:
        call(*args)
    return caught.value.code


def test_directory_file_and_file_url_are_the_same_tokenizer(directory, monkeypatch):
    monkeypatch.chdir(directory.parent)
    forms = [str(directory), str(directory / "tokenizer.json"), f"file://{directory}", "tok", "./tok/tokenizer.json"]
    found = [find_files(form) for form in forms]
    assert all(f.tokenizer == found[0].tokenizer and f.named == {"eos_token": "</s>"} for f in found)


def test_a_file_of_any_name_is_read(directory):
    (directory / "tokenizer.json").rename(directory / "mine.json")
    assert find_files(str(directory / "mine.json")).tokenizer.startswith(b"{")


@pytest.mark.parametrize("name", ["./missing", "/nowhere/tok", "missing/tokenizer.json", "~/no-such-tok", "a/b/c"])
def test_a_path_that_is_not_there_is_never_looked_up_on_the_hub(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "_from_hub", lambda _: pytest.fail("asked the hub"))
    assert code_of(find_files, name) == "tokenizer-not-found"


def test_a_directory_without_tokenizer_json_says_what_it_holds(tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    with pytest.raises(ConfigError) as caught:
        find_files(str(tmp_path))
    assert caught.value.code == "tokenizer-not-found"
    assert "tokenizer.model" in caught.value.found


@pytest.mark.parametrize("broken", ["{", "[]", "3"])
def test_companions_that_are_no_json_objects_are_errors(directory, broken):
    (directory / "special_tokens_map.json").write_text(broken)
    assert code_of(find_files, str(directory)) == "tokenizer-unreadable"


@pytest.mark.parametrize("content", ["", "not json", "{}", "[1]", '{"model": {"type": "Strange"}}'])
def test_content_that_is_no_tokenizer_is_an_error(tmp_path, content):
    from zephon_text.hf import HfBackend

    (tmp_path / "tokenizer.json").write_text(content)
    assert code_of(HfBackend().load, str(tmp_path)) == "tokenizer-unreadable"


# -- URLs --------------------------------------------------------------------------------------------------------------


class ShelfStorage(StorageBackend):
    """Files in a dict; ``failures`` calls fail first."""

    shelf: ClassVar[dict[str, bytes]] = {}
    failures = 0

    def stat(self, url):
        if type(self).failures:
            type(self).failures -= 1
            raise TimeoutError("slow today")
        if "secret" in url:
            raise PermissionError(url)
        if url not in self.shelf:
            raise FileNotFoundError(url)
        return FileInfo(url=url, size=len(self.shelf[url]))

    def list(self, url):
        return iter(())

    def read_ranges(self, url, ranges):
        return [pa.py_buffer(self.shelf[url][a:b]) for a, b in ranges]


@pytest.fixture
def shelf(directory, monkeypatch):
    descriptor = StorageDescriptor(
        name="shelf", summary="Files in a dict", impl="nowhere:ShelfStorage", schemes=("shelf",)
    )
    monkeypatch.setattr(ShelfStorage, "failures", 0)
    monkeypatch.setattr(files.time, "sleep", lambda _: None)
    content = {f"shelf://host/tok/{p.name}": p.read_bytes() for p in directory.iterdir()}
    monkeypatch.setattr(ShelfStorage, "shelf", content)
    with register("storage", descriptor, ShelfStorage):
        yield


def test_a_url_is_read_through_the_storage_plugin_of_its_scheme(shelf, directory):
    for url in ("shelf://host/tok", "shelf://host/tok/", "shelf://host/tok/tokenizer.json"):
        found = find_files(url)
        assert found.tokenizer == (directory / "tokenizer.json").read_bytes()
        assert found.named == {"eos_token": "</s>"}


def test_passing_trouble_is_retried_and_lasting_trouble_is_no_missing_file(shelf):
    ShelfStorage.failures = 2
    assert find_files("shelf://host/tok").named == {"eos_token": "</s>"}
    ShelfStorage.failures = 1000
    assert code_of(find_files, "shelf://host/tok") == "tokenizer-unreachable"


def test_urls_that_lead_nowhere_are_errors_without_credentials(shelf):
    for url in ("shelf://user:pw@host/other?sig=hidden", "shelf://user:pw@host/secret?sig=hidden"):
        with pytest.raises(ConfigError) as caught:
            find_files(url)
        assert caught.value.code == "tokenizer-not-found"
        assert "pw" not in str(caught.value.what) and "hidden" not in str(caught.value.what)


def test_a_scheme_nobody_reads_is_an_error(monkeypatch):
    monkeypatch.setattr(files, "registry", lambda _: type("Empty", (), {"descriptors": lambda self: {}})())
    assert code_of(find_files, "carrier-pigeon://x/tokenizer.json") == "tokenizer-not-found"


# -- the hub -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """An offline hub with one cached repository; returns the folder of its snapshot."""
    constants = pytest.importorskip("huggingface_hub.constants")
    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    repository = cache / "models--someone--tok"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return snapshot


def test_a_hub_id_is_read_from_the_local_cache(hub_cache, directory):
    for file in directory.iterdir():
        (hub_cache / file.name).write_bytes(file.read_bytes())
    (hub_cache / "special_tokens_map.json").write_text(json.dumps({"bos_token": "<s>"}))
    found = find_files("someone/tok")
    assert found.tokenizer == (directory / "tokenizer.json").read_bytes()
    assert found.named == {"eos_token": "</s>", "bos_token": "<s>"}


def test_companions_known_not_to_be_in_the_repository_are_absent(hub_cache, directory):
    (hub_cache / "tokenizer.json").write_bytes((directory / "tokenizer.json").read_bytes())
    marks = hub_cache.parent.parent / ".no_exist" / COMMIT
    marks.mkdir(parents=True)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (marks / name).touch()
    assert find_files("someone/tok").named == {}


def test_companions_that_cannot_be_had_are_not_taken_for_absent(hub_cache, directory):
    (hub_cache / "tokenizer.json").write_bytes((directory / "tokenizer.json").read_bytes())
    with pytest.raises(ConfigError) as caught:
        find_files("someone/tok")
    assert caught.value.code == "tokenizer-not-found"
    assert "hf download someone/tok" in caught.value.fix


@pytest.mark.parametrize("name", ["gpt2-but-not-cached", "nobody/nothing", "not a name!"])
def test_a_hub_id_that_cannot_be_had_is_an_error_that_says_what_to_do(hub_cache, name):
    with pytest.raises(ConfigError) as caught:
        find_files(name)
    assert caught.value.code == "tokenizer-not-found"
    assert "tokenizer.json" in caught.value.fix
