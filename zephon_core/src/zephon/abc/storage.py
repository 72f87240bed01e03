"""``zephon.storage.v1``: the places data lives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import attrs
import pyarrow as pa


@attrs.frozen(slots=True, kw_only=True)
class FileInfo:
    """One file as a listing shows it.

    Attributes:
        url: where it is, in the form this backend reads.
        name: path relative to the dataset's root, with ``/``; "" until a dataset sets it.
        size: bytes.
        mtime: seconds since the epoch, or 0.0 where unknown. Validates caches, never identity.
        etag: whatever the store says of the content's version, or "".
    """

    url: str
    name: str = ""
    size: int
    mtime: float = 0.0
    etag: str = ""


class StorageBackend(ABC):
    """Reads files by URL. Thread-safe: one instance serves all threads of a process.

    Constructed as ``Backend(**storage_options)``. Storage options and credentials stay inside: they appear in no
    repr, error or log.

    All methods raise ``FileNotFoundError`` for what is surely not there, ``PermissionError`` for what may not be
    read, and any other ``OSError`` for trouble that may pass, which the core's retry policy handles.
    """

    @abstractmethod
    def stat(self, url: str) -> FileInfo:
        """One file's facts. A directory or prefix is ``IsADirectoryError``."""

    @abstractmethod
    def list(self, url: str) -> Iterator[FileInfo]:
        """Every file below a directory or prefix, recursively, in any order; nothing for an empty one."""

    @abstractmethod
    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """The bytes of half-open ranges ``(start, stop)``, one buffer each, in the order asked for.

        A range that reaches past the end of the file is an ``EOFError``, never a short buffer.
        """


@runtime_checkable
class LocalPath(Protocol):
    """Capability ``local_path``: files are on this machine's disk and may be memory-mapped."""

    def local_path(self, url: str) -> str:
        """The path of ``url`` on disk."""


@runtime_checkable
class WritesFiles(Protocol):
    """Capability ``write``: files can be created."""

    def write(self, url: str, data: bytes | pa.Buffer) -> None:
        """Create or replace ``url`` atomically: a reader sees the old content or the new, never a part."""
