"""Every fsspec filesystem as a storage backend."""

from __future__ import annotations

import errno
import os
import posixpath
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import pyarrow as pa
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.spec import AbstractFileSystem

from zephon.abc import FileInfo, StorageBackend
from zephon_fsspec.checks import check_ranges, past_the_end
from zephon_fsspec.facts import file_info
from zephon_fsspec.failures import public_url, secrets_of, status_of, translated
from zephon_fsspec.filesystems import Filesystems

T = TypeVar("T")

#: Filesystems whose ``find`` lists a whole tree at once. Elsewhere ``find`` walks, and leaves out, without a word,
#: directories whose listing failed; there the walk is ours.
_FLAT: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hf", "memory"})

#: Hugging Face: look up one file instead of listing its directory; fetch the bytes asked for instead of 5 MB around.
_INFO_OPTIONS: Final[Mapping[str, dict[str, Any]]] = {"hf": {"expand_info": True}}
_READ_OPTIONS: Final[Mapping[str, dict[str, Any]]] = {"hf": {"cache_type": "none"}}

#: Lookups at once, where a listing does not tell sizes.
_LOOKUPS: Final = 16


class FsspecStorage(StorageBackend):
    """Files of any scheme that fsspec knows; one instance serves all threads and survives forks.

    Nothing is answered from memory: filesystem instances are not shared with others, listings are not cached.

    Args:
        storage_options: handed to the fsspec filesystem. They are never shown.
    """

    def __init__(self, **storage_options: Any) -> None:
        self._secrets = tuple(secrets_of(storage_options))
        self._filesystems = Filesystems(storage_options)

    def __repr__(self) -> str:
        return "FsspecStorage()"

    def stat(self, url: str) -> FileInfo:
        """One file's facts.

        Raises:
            StorageError: ``storage-size-unknown``.
        """
        return self._guarded(url, lambda: self._stat(url))

    def list(self, url: str) -> Iterator[FileInfo]:
        """Every file below a directory or prefix; the whole listing is fetched before the first one is returned.

        Raises:
            FileNotFoundError: no such directory, where the store has directories, or a prefix of nothing.
            NotADirectoryError: a file.
            StorageError: ``storage-size-unknown``.
        """
        return iter(self._guarded(url, lambda: self._list(url)))

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """All ranges in one call of ``cat_ranges``, which asynchronous filesystems serve concurrently."""
        check_ranges(ranges)
        return self._guarded(url, lambda: self._read_ranges(url, ranges))

    def write(self, url: str, data: bytes | pa.Buffer) -> None:
        """Create or replace a file: as one object, or through a temporary file where the store can rename.

        Raises:
            PermissionError: also where this kind of storage cannot be written.
        """
        self._guarded(url, lambda: self._write(url, data))

    def _guarded(self, url: str, action: Callable[[], T]) -> T:
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - client libraries raise anything
            failure = translated(error, url, self._secrets)
            frames = error.__traceback__
        # Raised outside the handler: the first error may hold secrets, and would be the context of this one.
        raise failure.with_traceback(frames)

    def _stat(self, url: str) -> FileInfo:
        filesystem, path = self._filesystems.open(url, anew=True)
        filesystem.invalidate_cache(path)
        entry = filesystem.info(path, **_options(_INFO_OPTIONS, filesystem))
        if _is_directory(filesystem, path, entry):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), public_url(url))
        return file_info(url, entry)

    def _list(self, url: str) -> Sequence[FileInfo]:
        filesystem, path = self._filesystems.open(url, anew=True)
        filesystem.invalidate_cache()
        flat = bool(_FLAT.intersection(_protocols(filesystem)))
        entries = filesystem.find(path, detail=True) if flat else _walk(filesystem, path)
        root = path.rstrip("/")
        names = {name: entry for name, entry in entries.items() if not name.endswith("/")}  # "/": a folder's marker
        if root in names or not (names or _is_directory(filesystem, path, filesystem.info(path))):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), public_url(url))
        below = _url_below(url, filesystem)
        found = {
            below(name.removeprefix(root).lstrip("/")): entry
            for name, entry in names.items()
            if entry.get("type") != "directory"
        }
        if any(entry.get("size") is None for entry in found.values()):
            with ThreadPoolExecutor(_LOOKUPS) as pool:
                return list(pool.map(self._stat, found))
        return [file_info(place, entry) for place, entry in found.items()]

    def _read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        wanted = [(start, stop) for start, stop in ranges if stop > start]
        if len(wanted) < len(ranges):
            # Nothing is requested for an empty range, but it has to lie inside the file as well.
            size = self._stat(url).size
            for start, stop in ranges:
                if stop > size:
                    raise past_the_end(public_url(url), start, stop, size)
        bodies = iter(self._fetch(url, wanted) if wanted else ())
        return [next(bodies) if stop > start else pa.py_buffer(b"") for start, stop in ranges]

    def _fetch(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        filesystem, path = self._filesystems.open(url)
        answers = filesystem.cat_ranges(
            [path] * len(ranges),
            [start for start, _ in ranges],
            [stop for _, stop in ranges],
            on_error="return",
            **_options(_READ_OPTIONS, filesystem),
        )
        bodies = []
        for (start, stop), answer in zip(ranges, answers, strict=True):
            refused = isinstance(answer, BaseException)
            if refused and status_of(answer) != 416:
                raise answer
            body = pa.py_buffer(b"" if refused else answer)
            if body.size != stop - start:
                body = self._explain(url, start, stop, body)
            bodies.append(body)
        return bodies

    def _explain(self, url: str, start: int, stop: int, body: pa.Buffer) -> pa.Buffer:
        """Why an answer has another length than was asked for."""
        size = self._stat(url).size
        if stop > size:
            raise past_the_end(public_url(url), start, stop, size)
        if body.size == size:
            return body.slice(start, stop - start)  # a server that does not know ranges sends the whole file
        raise OSError(errno.EIO, f"{body.size} bytes came where {start} to {stop} were asked for", public_url(url))

    def _write(self, url: str, data: bytes | pa.Buffer) -> None:
        filesystem, path = self._filesystems.open(url)
        body = data if isinstance(data, bytes) else data.to_pybytes()
        if type(filesystem).mv is AbstractFileSystem.mv:
            filesystem.pipe_file(path, body)  # an object store: an object appears whole or not at all
        else:
            parent = posixpath.dirname(path)
            temporary = posixpath.join(parent, f".zephon-{secrets.token_hex(8)}.tmp")
            if parent:
                filesystem.makedirs(parent, exist_ok=True)
            try:
                filesystem.pipe_file(temporary, body)
                filesystem.mv(temporary, path)
            except BaseException:
                if filesystem.exists(temporary):
                    filesystem.rm_file(temporary)
                raise
        filesystem.invalidate_cache(path)


def _walk(filesystem: Any, path: str) -> dict[str, Any]:
    """Entries below ``path`` by name, where every failure of a listing is an error."""
    found: dict[str, Any] = {}
    pending, seen = [path], {path.rstrip("/")}
    while pending:
        directory = pending.pop()
        try:
            entries = filesystem.ls(directory, detail=True)
        except FileNotFoundError as error:
            if directory == path or status_of(error) not in {None, 404, 410}:
                raise
            continue  # removed since it was listed
        for entry in entries:
            name = entry["name"]
            if _is_web(filesystem) and ("?" in name or "#" in name):
                continue  # a directory page's own links, e.g. to sort it
            if entry["type"] != "directory":
                found[name] = entry
            elif name.rstrip("/") not in seen:
                seen.add(name.rstrip("/"))
                pending.append(name)
    return found


def _is_directory(filesystem: Any, path: str, entry: Mapping[str, Any]) -> bool:
    # A web server redirects from a directory's name to the same with a slash.
    return entry["type"] == "directory" or (_is_web(filesystem) and str(entry.get("url", path)).endswith("/"))


def _url_below(url: str, filesystem: Any) -> Callable[[str], str]:
    """How to name a file below ``url``, given its relative name, in the form ``url`` has."""
    head, joint, tail = url.partition("::")
    if isinstance(filesystem, ChainedFileSystem) and "://" not in head:
        inner = _url_below(tail, None)
        return lambda name: head + joint + inner(name)
    root = (head if "://" in head else head + "://").rstrip("/")
    root = root + "//" if root.endswith(":") else root + "/"
    return lambda name: root + name + joint + tail


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _is_web(filesystem: Any) -> bool:
    return "http" in _protocols(filesystem)


def _options(table: Mapping[str, dict[str, Any]], filesystem: Any) -> dict[str, Any]:
    return {key: value for protocol in _protocols(filesystem) for key, value in table.get(protocol, {}).items()}
