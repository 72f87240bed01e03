"""The suite of ``zephon.storage.v1``; the clauses are in ``docs/contracts/storage-v1.md``."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from zephon.abc import FileInfo, LocalPath, StorageBackend, WritesFiles
from zephon.plugins import StorageDescriptor
from zephon_testkit.backends import listed, path_of, read, whole
from zephon_testkit.clauses import clause
from zephon_testkit.confined import confined
from zephon_testkit.incomplete import Incomplete
from zephon_testkit.leaks import leaked
from zephon_testkit.packaging import PluginTests
from zephon_testkit.profiles import for_all, profile
from zephon_testkit.shown import TOKEN, attempt, secrets_of, shown
from zephon_testkit.storage_machine import files_machine

#: A file of which every range is different.
CONTENT: Final = b"".join(number.to_bytes(3, "big") for number in range(400))

#: Seconds after which a store with times must have another one for a file that was written again.
_TICK: Final = 2.5

_FOLDERS: Final = st.lists(st.sampled_from(["d", "dd", "d-1", "e"]), max_size=3)
_FILES: Final = st.sampled_from(["f", "ff", "f.txt", "f-1", "g.jsonl.gz"])
#: Directories and files have names of their own, so that no name is ever both.
_NAMES: Final = st.builds(lambda folders, file: "/".join([*folders, file]), _FOLDERS, _FILES)


class StorageTests(PluginTests):
    """Subclass it and name the plugin. A backend that reads plain paths or ``file:`` URLs needs no more; others say
    where files can be put, and how, without the code under test::

        class TestBucket(StorageTests):
            plugin = "bucket"
            settings = {"endpoint": "http://127.0.0.1:9000"}

            def root(self, folder):
                return f"bucket://kit{folder}"

            def put(self, url, data):
                CLIENT.put(url, data)

            def get(self, url):
                return CLIENT.get(url)

            def delete(self, url):
                CLIENT.delete(url)
    """

    point: ClassVar[str] = "storage"
    #: Names of files, of several parts or one, with characters that mean something in URLs, shells or patterns. Leave
    #: out what your store cannot hold at all.
    names: ClassVar[Sequence[str]] = (
        "plain",
        "with space.txt",
        "d e/f g",
        "hash#1/part#2",
        "percent%20/100%",
        "query?x=1&y=2",
        "plus+and=equals",
        "quotes'\"",
        "pattern[0]*{a,b}",
        "semi;colon:@",
        ".hidden",
        "ünïcode/日本.jsonl",
        "🙂",
    )

    def root(self, folder: Path) -> str:
        """The URL of a directory for one test, without a slash at its end. Nothing has to be there yet.

        Args:
            folder: a folder of this test's own on the local disk. Where the store is elsewhere, it serves as a name
                that no other test has.
        """
        schemes = self._schemes()
        if "" in schemes:
            return str(folder)
        if "file" in schemes:
            return folder.as_uri()
        if "memory" in schemes:
            return f"memory:/{folder.as_posix()}"
        raise Incomplete(
            f"the kit does not know where {self.address()} keeps files: override root() in a subclass of StorageTests, "
            "or name a class with a root() as samples= in the descriptor"
        )

    def url(self, root: str, name: str) -> str:
        """The URL of a file.

        Args:
            root: as :meth:`root` gave it.
            name: parts with ``/`` between them, as people read it: escape what your URLs escape.
        """
        return f"{root}/{quote(name) if root.startswith('file:') else name}"

    def put(self, url: str, data: bytes) -> None:
        """Create or replace a file by other means than the plugin; directories as needed."""
        path = path_of(url)
        if path is None:
            self._writer_or_incomplete("put").write(url, data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def get(self, url: str) -> bytes:
        """The content of a file, by other means than the plugin.

        Raises:
            FileNotFoundError: it is not there.
        """
        path = path_of(url)
        if path is not None:
            return path.read_bytes()
        backend = self._writer_or_incomplete("get")
        return whole(backend, url)

    def delete(self, url: str) -> None:
        """Remove a file that is there, by other means than the plugin."""
        path = path_of(url)
        if path is None:
            raise Incomplete(f"the kit cannot remove files of {self.address()}: override delete()")
        path.unlink()

    def forbidden(self) -> str | None:
        """The URL of a file in :meth:`root`'s store that exists and that :attr:`settings` give no right to read; None
        where there is none. On a local disk the kit makes its own.
        """
        return None

    # ------------------------------------------------------------------ what tests are made of

    def backend(self) -> StorageBackend:
        """A new backend with :attr:`settings`."""
        made: StorageBackend = self.implementation()(**self.settings)
        return made

    def filled(self, folder: Path, files: Mapping[str, bytes]) -> str:
        """A root with these files; their names are those of :meth:`url`."""
        root = self.root(folder)
        for name, data in files.items():
            self.put(self.url(root, name), data)
        return root

    def is_on_disk(self, folder: Path) -> bool:
        """Whether the files of :meth:`filled` are in the folder it was given."""
        return folder.is_dir() and any(folder.iterdir())

    def _schemes(self) -> Sequence[str]:
        descriptor = self.descriptor()
        assert isinstance(descriptor, StorageDescriptor)
        return descriptor.schemes

    def _writer_or_incomplete(self, method: str) -> Any:
        backend = self.backend()
        if not isinstance(backend, WritesFiles):
            raise Incomplete(
                f"{self.address()} does not write, and its files are not on the local disk: override {method}() in a "
                "subclass of StorageTests, or name a class with it as samples= in the descriptor"
            )
        return backend

    def _writer(self) -> Any:
        """The backend if it writes; None if it neither does nor says so."""
        backend = self.backend()
        if not self.has("write"):
            assert not isinstance(backend, WritesFiles), "it has write(), but does not declare the capability"
            return None
        assert isinstance(backend, WritesFiles), "the capability is declared, but there is no write()"
        return backend

    # ------------------------------------------------------------------ looking up

    @clause("ST-1")
    def test_a_file_is_described_as_it_is(self, tmp_path: Path) -> None:
        """If this fails, ``stat`` miscounts, or one of the facts is not of the kind the contract says: the URL as it
        was asked for, bytes, seconds since the epoch (0.0 where unknown), a text (empty where there is none).
        """
        contents = {"empty": b"", "one": b"x", "folder/many": CONTENT}
        root = self.filled(tmp_path, contents)
        backend = self.backend()
        for name, data in contents.items():
            url = self.url(root, name)
            info = backend.stat(url)
            assert (info.url, info.size, info.name) == (url, len(data), "")
            assert isinstance(info.size, int)
            assert isinstance(info.etag, str)
            assert isinstance(info.mtime, (int, float))
            assert math.isfinite(info.mtime)
            assert info.mtime >= 0
            assert backend.stat(url) == info, "the facts of a file that nobody touched have changed"

    @clause("ST-2")
    def test_a_directory_is_no_file(self, tmp_path: Path) -> None:
        """If this fails, ``stat`` takes a directory, or a prefix of files, for a file, or for nothing: the core asks it
        to tell whether a path the user gave is to be listed.
        """
        root = self.filled(tmp_path, {"folder/inner/file": b"x"})
        for place in (root, self.url(root, "folder"), self.url(root, "folder/inner")):
            with pytest.raises(IsADirectoryError):
                self.backend().stat(place)

    @clause("ST-3")
    def test_what_is_not_there_is_not_found(self, tmp_path: Path) -> None:
        """If this fails, a missing file is an empty one, or an error of your library. Retries stop at
        ``FileNotFoundError``, and users are told to correct the path: raise it for what is surely not there, and
        nothing else.
        """
        root = self.filled(tmp_path, {"file": b"x", "folder/file": b"y"})
        backend = self.backend()
        for name in ("fil", "file2", "folder/fil", "folder/other", "nowhere/file"):
            url = self.url(root, name)
            with pytest.raises(FileNotFoundError):
                backend.stat(url)
            for ranges in ([(0, 1)], [(0, 0)]):
                with pytest.raises(FileNotFoundError):
                    backend.read_ranges(url, ranges)
        assert listed(backend, self.url(root, "nowhere")) in (None, {}), "files are listed where there is nothing"

    @clause("ST-4")
    def test_what_may_not_be_read_is_not_permitted(self, tmp_path: Path) -> None:
        """If this fails, a lack of rights looks like a missing file, or like trouble that passes: users would look for
        the file, or wait until the retries end. Look at how ``EACCES``, or the status 403, comes out.
        """
        root = self.filled(tmp_path / "data", {"warm": b"x", "locked/file": b"secret"})
        locked = tmp_path / "data" / "locked"
        if not self.is_on_disk(locked):
            url = self.forbidden()
            if url is not None:
                with pytest.raises(PermissionError):
                    self.backend().stat(url)
                with pytest.raises(PermissionError):
                    self.backend().read_ranges(url, [(0, 1)])
            return
        locked.chmod(0)
        try:
            found = confined(
                self.plugin,
                self.settings,
                warm=self.url(root, "warm"),
                folder=self.url(root, "locked"),
                forbidden=self.url(root, "locked/file"),
            )
        finally:
            locked.chmod(0o700)
        for operation, kinds in found.items():
            assert "PermissionError" in kinds, f"{operation}: {kinds[0] if kinds else 'it succeeds'}"

    # ------------------------------------------------------------------ listing

    @clause("ST-5")
    def test_a_listing_has_every_file_below_once(self, tmp_path: Path) -> None:
        """If this fails, ``list`` misses files in deeper directories, names directories or files twice, or says other
        facts of a file than ``stat`` does. Look at paging, and at directories that hold directories only.
        """
        backend = self.backend()
        examples = iter(range(1_000_000))

        @for_all(st.dictionaries(_NAMES, st.binary(max_size=9), max_size=12))
        def _(files: dict[str, bytes]) -> None:
            root = self.filled(tmp_path / str(next(examples)), {**files, "last": b"1"})
            expected = {self.url(root, name): len(data) for name, data in {**files, "last": b"1"}.items()}
            found = list(backend.list(root))
            assert sorted(info.url for info in found) == sorted(expected)
            assert {info.url: info.size for info in found} == expected
            for info in found:
                assert backend.stat(info.url) == info, "a listing and a look-up differ"

        many = {f"many/{number // 100}/{number}": b"" for number in range(1_234)}
        root = self.filled(tmp_path / "paged", many)
        assert len(list(backend.list(root))) == len(many), "a long listing is cut"

    @clause("ST-6")
    def test_a_listing_is_of_its_directory_alone(self, tmp_path: Path) -> None:
        """If this fails, ``list`` compares texts instead of parts of paths: ``data`` is no directory of ``data-2``.
        Or a slash at the end changes what is found, or an empty directory is listed as a file.
        """
        names = ["data/a", "data/b/c", "data-2/d", "data.txt", "dat/e", "database", "other/data/f", "empty/g"]
        root = self.filled(tmp_path, dict.fromkeys(names, b"x"))
        backend = self.backend()
        for directory in ("data", "dat", "other"):
            expected = {self.url(root, name) for name in names if name.startswith(f"{directory}/")}
            url = self.url(root, directory)
            assert set(listed(backend, url) or ()) == expected
            assert set(listed(backend, f"{url}/") or ()) == expected, "a slash at the end changes what is listed"
        self.delete(self.url(root, "empty/g"))
        assert listed(backend, self.url(root, "empty")) in (None, {}), "an empty directory is not empty"

    @clause("ST-7")
    def test_names_mean_themselves(self, tmp_path: Path) -> None:
        """If this fails, a character of a name is taken for something else: ``%`` for an escape, ``#`` and ``?`` for
        the end of the path, ``*`` and ``[`` for a pattern; or the URL in a listing is not one that can be read.
        """
        files = {name: f"content of {name}".encode() for name in self.names}
        root = self.filled(tmp_path, files)
        backend = self.backend()
        assert set(listed(backend, root) or ()) == {self.url(root, name) for name in files}
        for name, data in files.items():
            assert backend.stat(self.url(root, name)).size == len(data)
            assert whole(backend, self.url(root, name)) == data
        for info in backend.list(root):
            assert whole(backend, info.url).startswith(b"content of ")

    # ------------------------------------------------------------------ reading

    @clause("ST-8")
    def test_ranges_come_as_asked_for(self, tmp_path: Path) -> None:
        """If this fails, ``read_ranges`` sorts, joins or drops ranges, or is off by one: they are half-open, may
        overlap and repeat, and each gets a buffer of its own in the place it was asked for.
        """
        url = self.url(self.filled(tmp_path, {"file": CONTENT}), "file")
        backend = self.backend()
        size = len(CONTENT)
        ends = st.integers(0, size)

        @for_all(st.lists(st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair))), max_size=9))
        def _(ranges: list[tuple[int, int]]) -> None:
            buffers = backend.read_ranges(url, ranges)
            assert [bytes(buffer) for buffer in buffers] == [CONTENT[start:stop] for start, stop in ranges]

        many = [(start % size, min(size, start % size + 3)) for start in range(0, 7 * 500, 7)]
        assert [bytes(b) for b in backend.read_ranges(url, many)] == [CONTENT[start:stop] for start, stop in many]

    @clause("ST-9")
    def test_empty_ranges_and_empty_files_are_empty(self, tmp_path: Path) -> None:
        """If this fails, an empty range is left out, reads the whole file (as ``bytes=5-4`` does over HTTP), or is an
        error; or no range at all is one.
        """
        root = self.filled(tmp_path, {"file": CONTENT, "empty": b""})
        backend = self.backend()
        url = self.url(root, "file")
        size = len(CONTENT)
        assert len(backend.read_ranges(url, [])) == 0
        ranges = [(0, 0), (5, 5), (5, 7), (size, size), (0, size)]
        assert [bytes(b) for b in backend.read_ranges(url, ranges)] == [CONTENT[start:stop] for start, stop in ranges]
        assert [bytes(b) for b in backend.read_ranges(self.url(root, "empty"), [(0, 0), (0, 0)])] == [b"", b""]

    @clause("ST-10")
    def test_a_range_past_the_end_is_an_error_and_never_shorter(self, tmp_path: Path) -> None:
        """If this fails, a file shorter than its index says gives fewer bytes than were asked for, and the format above
        reads rubbish. Compare the length of every answer with the range, and raise ``EOFError``.
        """
        root = self.filled(tmp_path, {"file": CONTENT, "empty": b""})
        backend = self.backend()
        size = len(CONTENT)
        past = [(size - 1, size + 1), (size, size + 1), (0, size + 100), (size + 10, size + 20)]
        for bad in past:
            for ranges in ([bad], [(0, 3), bad], [bad, (0, 3)]):
                with pytest.raises(EOFError):
                    backend.read_ranges(self.url(root, "file"), ranges)
        with pytest.raises(EOFError):
            backend.read_ranges(self.url(root, "empty"), [(0, 1)])

    @clause("ST-11")
    def test_buffers_keep_what_was_read(self, tmp_path: Path) -> None:
        """If this fails, buffers look into a memory-mapped file, or into a buffer of yours that the next read fills
        again. Allocate a new one for each range (``pyarrow.allocate_buffer``).
        """
        url = self.url(self.filled(tmp_path, {"file": CONTENT}), "file")
        backend = self.backend()
        ranges = [(0, 30), (600, len(CONTENT)), (10, 40)]
        buffers = backend.read_ranges(url, ranges)
        assert all(isinstance(buffer, pa.Buffer) for buffer in buffers), "expected pyarrow buffers"
        expected = [CONTENT[start:stop] for start, stop in ranges]
        backend.read_ranges(url, [(start + 1, stop - 1) for start, stop in ranges])
        assert [bytes(buffer) for buffer in buffers] == expected, "a later read has changed them"
        self.put(url, bytes(len(CONTENT)))
        assert [bytes(buffer) for buffer in buffers] == expected, "they changed with the file"
        self.delete(url)
        assert [bytes(buffer) for buffer in buffers] == expected, "they changed when the file was removed"

    @clause("ST-12")
    def test_what_has_changed_is_seen(self, tmp_path: Path) -> None:
        """If this fails, listings, facts, bytes or open files are remembered from an earlier call: turn off the cache
        of your library. Or a file that was written again has the same ``mtime`` and ``etag`` as before.
        """
        root = self.filled(tmp_path, {"file": b"old", "gone": b"x"})
        url = self.url(root, "file")
        backend = self.backend()
        before = backend.stat(url)
        assert set(listed(backend, root) or ()) == {url, self.url(root, "gone")}
        assert whole(backend, url) == b"old"
        assert whole(backend, self.url(root, "gone")) == b"x"
        self.put(url, b"newer")
        self.put(self.url(root, "more"), b"z")
        self.delete(self.url(root, "gone"))
        assert backend.stat(url).size == len(b"newer")
        assert whole(backend, url) == b"newer"
        assert listed(backend, root) == {url: len(b"newer"), self.url(root, "more"): 1}
        with pytest.raises(FileNotFoundError):
            backend.stat(self.url(root, "gone"))
        with pytest.raises(FileNotFoundError):
            backend.read_ranges(self.url(root, "gone"), [(0, 1)])
        deadline = time.monotonic() + _TICK  # some stores tell time in whole seconds
        while (before.mtime or before.etag) and _version(backend.stat(url)) == _version(before):
            assert time.monotonic() < deadline, "other content has the same mtime and etag"
            time.sleep(0.05)
            self.put(url, b"newer")

    @clause("ST-13")
    def test_one_backend_serves_many_threads(self, tmp_path: Path) -> None:
        """If this fails, calls share something unprotected: a file position, a buffer, the URL of "the current"
        request, a client that belongs to one thread.
        """
        files = {f"part-{number}": bytes([number]) * (500 + number) for number in range(8)}
        root = self.filled(tmp_path, files)
        backend = self.backend()
        together = threading.Barrier(len(files))

        def use(name: str) -> None:
            together.wait(timeout=60)
            url, data = self.url(root, name), files[name]
            for start in range(25):
                assert backend.stat(url).size == len(data)
                ranges = [(start, start + 400), (0, len(data))]
                assert [bytes(b) for b in backend.read_ranges(url, ranges)] == [data[a:b] for a, b in ranges]
            assert len(list(backend.list(root))) == len(files)

        with ThreadPoolExecutor(len(files)) as pool:
            for done in [pool.submit(use, name) for name in files]:
                done.result()

    # ------------------------------------------------------------------ discretion and order

    @clause("ST-14")
    def test_options_and_credentials_are_nevershown(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """If this fails, a repr, an error (its causes included) or a log line quotes a storage option, or the user and
        password of a URL. Raise your own error from outside of the handler, so that the library's does not hang on it.
        """
        caplog.set_level(logging.INFO)  # below it, libraries speak for themselves
        root = self.filled(tmp_path, {"file": CONTENT})
        hidden = {TOKEN, *secrets_of(self.settings)}
        seen = []
        try:
            backend = self.implementation()(**{**self.settings, "kit_option": TOKEN})
        except Exception as error:  # noqa: BLE001 - refusing an option is right; how, is its own affair
            seen.append(shown(error))
            backend = self.backend()
        seen += [repr(backend), str(backend), repr(self.backend())]
        missing = self.url(root, "missing")
        places = [missing]
        scheme, joint, _ = root.partition("://")
        if joint and scheme != "file":
            places.append(f"{scheme}://kit:{TOKEN}@host.invalid/missing")
        for place in places:
            for operation in (backend.stat, lambda url: list(backend.list(url)), lambda u: read(backend, u, (0, 1))):
                seen.append(attempt(operation, place))
        seen.append(attempt(lambda url: read(backend, url, (0, 10**6)), self.url(root, "file")))
        seen.append(attempt(backend.stat, root))
        seen.append(caplog.text)
        for text in hidden:
            if text not in root:
                assert not [part for part in seen if text in part], "a value of an option, or a password, is shown"

    @clause("ST-15")
    def test_nothing_is_left_open(self, tmp_path: Path) -> None:
        """If this fails, a file, socket or thread outlives its use: look at reads that fail, and at listings that
        nobody reads to the end.
        """
        root = self.filled(tmp_path, {"a/file": CONTENT, "b/file": b"x", "c": b""})

        def work() -> None:
            backend = self.backend()
            url = self.url(root, "a/file")
            backend.stat(url)
            backend.read_ranges(url, [(0, 5), (7, 9)])
            assert len(list(backend.list(root))) == 3
            next(iter(backend.list(root)))
            attempt(backend.stat, self.url(root, "missing"))
            attempt(lambda u: read(backend, u, (0, 1)), self.url(root, "missing"))
            attempt(lambda u: read(backend, u, (0, 10**6)), url)

        remains = leaked(work)
        assert not remains, "; ".join(remains)

    @clause("ST-16")
    def test_reading_leaves_the_files_alone(self, tmp_path: Path) -> None:
        """If this fails, looking up, listing or reading writes beside the data, or touches it: it may be read-only, and
        others may rely on its time.
        """
        files = {"a/file": CONTENT, "b": b"x"}
        root = self.filled(tmp_path, files)
        before = {info.url: info for info in self.backend().list(root)}
        backend = self.backend()
        for name in files:
            backend.stat(self.url(root, name))
            whole(backend, self.url(root, name))
            attempt(lambda url: read(backend, url, (0, 10**6)), self.url(root, name))
        list(backend.list(root))
        assert {info.url: info for info in self.backend().list(root)} == before
        assert all(self.get(self.url(root, name)) == data for name, data in files.items())

    # ------------------------------------------------------------------ capabilities

    @clause("ST-17")
    def test_local_paths_lead_to_the_files_or_are_not_offered(self, tmp_path: Path) -> None:
        """If this fails with the capability ``local_path`` declared: the path is not that of the file; look at escapes
        in URLs. Without it: there is a ``local_path`` nobody will call.
        """
        backend = self.backend()
        if not self.has("local_path"):
            assert not isinstance(backend, LocalPath), "it has local_path(), but does not declare the capability"
            return
        assert isinstance(backend, LocalPath), "the capability is declared, but there is no local_path()"
        files = {name: name.encode() for name in self.names}
        root = self.filled(tmp_path, files)
        for name, data in files.items():
            with open(backend.local_path(self.url(root, name)), "rb") as file:
                assert file.read() == data

    @clause("ST-18")
    def test_what_it_writes_is_there_or_it_does_not_offer_to_write(self, tmp_path: Path) -> None:
        """If this fails with the capability ``write`` declared: what is written is not what is there; look at slices of
        buffers, empty files, files that are there already, and directories that are not. Without it: there is a
        ``write`` nobody will call.
        """
        backend = self._writer()
        if backend is None:
            return
        root = self.filled(tmp_path, {"there": b"a longer content than the new one"})
        sliced = pa.py_buffer(CONTENT).slice(7, 100)
        contents: dict[str, Any] = {"there": b"new", "new": sliced, "no/such/folder/file": b"x", "empty": b""}
        contents |= {name: name.encode() for name in self.names}
        for name, data in contents.items():
            backend.write(self.url(root, name), data)
            assert self.get(self.url(root, name)) == bytes(data)
            assert backend.stat(self.url(root, name)).size == len(bytes(data))
        assert set(listed(backend, root) or ()) == {self.url(root, name) for name in contents}, "more is left"

    @clause("ST-19")
    def test_a_reader_sees_the_old_content_or_the_new(self, tmp_path: Path) -> None:
        """If this fails with the capability ``write`` declared: a file is emptied, or missing, before it is replaced,
        or grows while it is read. Write beside it and rename; where an object appears whole, put it in one request. A
        temporary file's name begins with a dot, so that datasets pass over it.
        """
        backend = self._writer()
        if backend is None:
            return
        old, new = b"o" * 200_000, b"n" * 300_001
        root = self.filled(tmp_path, {"file": old})
        url = self.url(root, "file")
        done = threading.Event()

        def look() -> Iterator[str]:
            while not done.is_set():
                found = self.get(url)
                if found not in (old, new):
                    yield f"{len(found)} bytes are read"
                if (size := backend.stat(url).size) not in (len(old), len(new)):
                    yield f"it has {size} bytes"
                for info in backend.list(root):
                    if info.url != url and not info.url.rpartition("/")[2].startswith((".", "_")):
                        yield f"{info.url} is listed"

        def watch() -> list[str]:
            try:
                return list(look())
            except OSError as error:
                return [f"a reader gets {type(error).__name__}: {error}"]

        with ThreadPoolExecutor(2) as pool:
            watching = [pool.submit(watch) for _ in range(2)]
            try:
                for turn in range(20):
                    backend.write(url, old if turn % 2 else new)
            finally:
                done.set()
            seen = [text for watcher in watching for text in watcher.result()]
        assert not seen, "; ".join(seen[:3])

    @clause("ST-20")
    def test_a_write_that_fails_leaves_everything_as_it_was(self, tmp_path: Path) -> None:
        """If this fails with the capability ``write`` declared: on a full disk, or when the data cannot be had, half a
        file takes the place of a whole one, a temporary file stays behind, or the failure is swallowed.
        """
        backend = self._writer()
        if backend is None:
            return
        root = self.filled(tmp_path, {"file": CONTENT, "warm": b""})
        url, fresh = self.url(root, "file"), self.url(root, "fresh")
        for place in (url, fresh):
            with pytest.raises(Exception):  # noqa: B017 - whatever it says of data that is no bytes
                backend.write(place, ["no", "bytes"])
        if self.is_on_disk(tmp_path):
            warm, room = self.url(root, "warm"), len(CONTENT)
            found = confined(self.plugin, self.settings, warm=warm, write=[url, fresh], size=10 * room, room=room)
            for kinds in found.values():
                assert "OSError" in kinds, f"a disk without room: {kinds[0] if kinds else 'it succeeds'}"
        assert self.get(url) == CONTENT
        assert set(listed(self.backend(), root) or ()) == {url, self.url(root, "warm")}

    # ------------------------------------------------------------------ all together

    @clause("ST-21")
    def test_it_behaves_like_a_dictionary_of_files(self, tmp_path: Path) -> None:
        """If this fails although the clauses above hold, something depends on what was called before: a cache that one
        kind of change does not empty, a directory that is forgotten with its last file.
        """
        run_state_machine_as_test(files_machine(self, tmp_path), settings=profile())


def _version(info: FileInfo) -> tuple[float, str]:
    return info.mtime, info.etag
