"""What the conformance kit is told of the backend ``fsspec``: how to reach fsspec's memory filesystem without it."""

from __future__ import annotations

from typing import Any

import fsspec


class MemorySamples:
    """Files of ``memory://`` through fsspec itself. The kit chooses the root: no two tests have the same."""

    def put(self, url: str, data: bytes) -> None:
        """Create or replace a file."""
        filesystem, path = _opened(url)
        filesystem.pipe_file(path, data)

    def get(self, url: str) -> bytes:
        """The content of a file."""
        filesystem, path = _opened(url)
        data: bytes = filesystem.cat_file(path)
        return data

    def delete(self, url: str) -> None:
        """Remove a file."""
        filesystem, path = _opened(url)
        filesystem.rm_file(path)


def _opened(url: str) -> tuple[Any, str]:
    return fsspec.filesystem("memory"), "/" + url.removeprefix("memory://").lstrip("/")
