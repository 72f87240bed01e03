"""Files on disk as a shard format sees them: a listing, and the smallest context that could serve it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from zephon.abc import FileHead, FileInfo


def listing(folder: Path) -> list[FileInfo]:
    """Every file below a folder, as a dataset of that folder lists them."""
    return [
        FileInfo(
            url=str(path),
            name=path.relative_to(folder).as_posix(),
            size=path.stat().st_size,
            mtime=path.stat().st_mtime,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


def head(file: FileInfo) -> FileHead:
    """What recognition looks at."""
    with open(file.url, "rb") as opened:
        return FileHead(info=file, head=opened.read(4096))


class DiskContext:
    """A :class:`zephon.abc.ShardContext` over local files that can play a store elsewhere.

    Args:
        is_local: whether files have a path. A store elsewhere has ranges and whole objects only.
        allowed: half-open byte ranges that may be read; None for everything.
    """

    def __init__(self, *, is_local: bool = True, allowed: Sequence[tuple[int, int]] | None = None) -> None:
        self._is_local = is_local
        self._allowed = allowed
        #: Ranges asked for outside of what is allowed.
        self.trespasses: list[tuple[int, int]] = []

    def size(self, url: str) -> int:
        """Bytes of the file now."""
        return Path(url).stat().st_size

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """The bytes of half-open ranges, in the order asked for."""
        content = Path(url).read_bytes()
        for start, stop in ranges:
            if stop > len(content):
                raise EOFError(f"{url} ends before byte {stop}")
            if self._allowed is not None and not any(a <= start and stop <= b for a, b in self._allowed):
                self.trespasses.append((start, stop))
        return [pa.py_buffer(content[start:stop]) for start, stop in ranges]

    def read_all(self, url: str) -> pa.Buffer:
        """The whole file."""
        if self._allowed is not None:
            self.trespasses.append((0, self.size(url)))
        return pa.py_buffer(Path(url).read_bytes())

    def local_path(self, url: str) -> str | None:
        """The path, unless this plays a store elsewhere."""
        return url if self._is_local else None

    def open_random_access(self, url: str) -> pa.NativeFile:
        """A seekable file; the caller closes it. Of a store elsewhere, every read goes through ``read_ranges``."""
        return pa.OSFile(url) if self._is_local else pa.PythonFile(_Ranged(self, url), mode="r")


class _Ranged:
    """A file object whose reads are ranges of a context."""

    def __init__(self, context: DiskContext, url: str) -> None:
        self._context, self._url = context, url
        self._size = context.size(url)
        self._place = 0
        self.closed = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = offset + (0, self._place, self._size)[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        stop = self._size if size < 0 else min(self._size, self._place + size)
        start, self._place = self._place, max(self._place, stop)
        if stop <= start:
            return b""
        content: bytes = self._context.read_ranges(self._url, [(start, stop)])[0].to_pybytes()
        return content

    def flush(self) -> None:
        """Nothing to flush: the file is read."""

    def close(self) -> None:
        self.closed = True
