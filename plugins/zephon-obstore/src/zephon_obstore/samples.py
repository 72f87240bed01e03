"""What the conformance kit is told of the backend ``obstore``: how to reach its memory stores without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import obstore

from zephon_obstore.stores import memory_store, split


class MemorySamples:
    """Files of ``obstore-memory://`` through obstore itself."""

    def root(self, folder: Path) -> str:
        """The URL of a directory that no other test has."""
        return f"obstore-memory://kit{folder.as_posix()}"

    def put(self, url: str, data: bytes) -> None:
        """Create or replace a file."""
        store, path = _opened(url)
        obstore.put(store, path, data)

    def get(self, url: str) -> bytes:
        """The content of a file."""
        store, path = _opened(url)
        return bytes(obstore.get(store, path).bytes())

    def delete(self, url: str) -> None:
        """Remove a file."""
        store, path = _opened(url)
        obstore.delete(store, path)


def _opened(url: str) -> tuple[Any, str]:
    place = split(url)
    return memory_store(place.bucket), place.path
