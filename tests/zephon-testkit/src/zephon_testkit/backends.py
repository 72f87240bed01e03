"""What a storage backend shows of its files, in a line, and where they are if they are on this disk."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from zephon.abc import StorageBackend


def path_of(url: str) -> Path | None:
    """Where a plain path or a ``file:`` URL leads on this disk; None for anything else."""
    if url.startswith("file://"):
        return Path(unquote(url.removeprefix("file://")))
    return None if "://" in url else Path(url)


def read(backend: StorageBackend, url: str, span: tuple[int, int]) -> bytes:
    """The bytes of one half-open range."""
    [buffer] = backend.read_ranges(url, [span])
    return bytes(buffer)


def whole(backend: StorageBackend, url: str) -> bytes:
    """The bytes of a file."""
    return read(backend, url, (0, backend.stat(url).size))


def listed(backend: StorageBackend, url: str) -> dict[str, int] | None:
    """The sizes of all files below, by URL; None where there is no such directory, as some stores can tell."""
    try:
        return {info.url: info.size for info in backend.list(url)}
    except FileNotFoundError:
        return None
