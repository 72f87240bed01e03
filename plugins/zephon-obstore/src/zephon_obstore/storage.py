"""Object stores as a storage backend."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import obstore
import pyarrow as pa

from zephon.abc import FileInfo, StorageBackend
from zephon_obstore.failures import public_url, secrets_of, status_of, translated
from zephon_obstore.spans import covering
from zephon_obstore.stores import Stores, split

T = TypeVar("T")


class ObstoreStorage(StorageBackend):
    """Objects of S3, Google Cloud Storage and Azure; one instance serves all threads.

    Nothing is answered from memory, and nothing is tried twice: retries are the core's.

    Args:
        storage_options: fsspec's names or obstore's own, see the README. They are never shown.
    """

    def __init__(self, **storage_options: Any) -> None:
        self._secrets = tuple(secrets_of(storage_options))
        self._stores = Stores(storage_options)

    def __repr__(self) -> str:
        return "ObstoreStorage()"

    def stat(self, url: str) -> FileInfo:
        """One object's facts: one request; a second one where there is no such object, to see whether it is a prefix.

        Raises:
            ConfigError: ``storage-options``, here and in all other methods.
            StorageError: ``storage-after-fork``, likewise: in a process forked from one that had used obstore.
        """
        return self._guarded(url, lambda: self._stat(url))

    def list(self, url: str) -> Iterator[FileInfo]:
        """Every object below a prefix; the whole listing is fetched before the first one is returned.

        Raises:
            FileNotFoundError: nothing begins with this prefix; the root of an empty bucket lists nothing.
            NotADirectoryError: an object.
        """
        return iter(self._guarded(url, lambda: self._list(url)))

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """All ranges in one call of ``get_ranges``, which fetches ten at once; close neighbours are one request."""
        for start, stop in ranges:
            if not 0 <= start <= stop:
                raise ValueError(f"not a half-open byte range: ({start}, {stop})")
        return self._guarded(url, lambda: self._read_ranges(url, ranges))

    def write(self, url: str, data: bytes | pa.Buffer) -> None:
        """Create or replace an object: it appears whole or not at all."""
        self._guarded(url, lambda: self._write(url, data))

    def _guarded(self, url: str, action: Callable[[], T]) -> T:
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - obstore's classes have only Exception in common
            failure = translated(error, url, self._secrets)
            frames = error.__traceback__
        # Raised outside the handler: the first error may hold secrets, and would be the context of this one.
        raise failure.with_traceback(frames)

    def _stat(self, url: str) -> FileInfo:
        store, path = self._stores.open(url)
        if not path:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), public_url(url))
        try:
            return _file_info(url, obstore.head(store, path))
        except FileNotFoundError as error:
            missing = error
        if next(iter(obstore.list(store, path, chunk_size=1)), None):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), public_url(url))
        raise missing

    def _list(self, url: str) -> Sequence[FileInfo]:
        store, path = self._stores.open(url)
        inside = path + "/" if path else ""
        # A page at a time: what collect() does, but a key that equals the prefix is a folder's marker.
        entries = {e["path"]: e for page in obstore.list(store, path or None) for e in page if e["path"] != path}
        for name in [name for name, entry in entries.items() if entry["size"] == 0]:
            if any(True for other in entries if other.startswith(name + "/")):
                del entries[name]
        if path and not entries:
            obstore.head(store, path)  # not found is the answer
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), public_url(url))
        root = url.rstrip("/") + "/" if split(url).bucket else url
        return [_file_info(root + name.removeprefix(inside), entry) for name, entry in entries.items()]

    def _read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        wanted = [(start, stop) for start, stop in ranges if stop > start]
        if len(wanted) < len(ranges) or not ranges:
            # Nothing is requested for an empty range, but it has to lie inside the file as well.
            self._check_end(url, ranges)
        bodies = iter(self._fetch(url, wanted) if wanted else ())
        return [next(bodies) if stop > start else pa.py_buffer(b"") for start, stop in ranges]

    def _fetch(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        store, path = self._stores.open(url)
        spans, homes = covering(ranges)
        starts, stops = [start for start, _ in spans], [stop for _, stop in spans]
        try:
            # The spans are apart already. Left to obstore, a range that begins past the end is a panic when it is
            # merged with one that does not.
            answers = obstore.get_ranges(store, path, starts=starts, ends=stops, coalesce=0)
        except Exception as error:  # the classes of obstore have only Exception in common
            if status_of(error) == 416 or "Invalid range" in str(error) or "InvalidRange" in str(error):
                self._check_end(url, ranges)
            raise
        bodies = [pa.py_buffer(answer) for answer in answers]
        if [body.size for body in bodies] != [stop - start for start, stop in spans]:
            self._check_end(url, ranges)
            raise OSError(errno.EIO, "an answer has another length than was asked for", public_url(url))
        return [
            bodies[home].slice(start - starts[home], stop - start)
            for (start, stop), home in zip(ranges, homes, strict=True)
        ]

    def _check_end(self, url: str, ranges: Sequence[tuple[int, int]]) -> None:
        size = self._stat(url).size
        for start, stop in ranges:
            if stop > size:
                raise EOFError(f"bytes {start} to {stop} of {public_url(url)} were asked for, but it has {size}")

    def _write(self, url: str, data: bytes | pa.Buffer) -> None:
        store, path = self._stores.open(url)
        # One request: parts of an upload that breaks off would stay behind, unseen and paid for.
        obstore.put(store, path, data if isinstance(data, bytes) else data.to_pybytes(), use_multipart=False)


def _file_info(url: str, entry: Mapping[str, Any]) -> FileInfo:
    etag = entry["e_tag"] or ""
    mtime = entry["last_modified"].timestamp()
    # Listings and lookups of one store differ in the fraction of a second; with an etag it tells nothing more.
    return FileInfo(url=url, size=entry["size"], mtime=math.floor(mtime) if etag else mtime, etag=etag)
