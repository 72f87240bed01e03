"""Storage as the core uses it: the backend a URL's scheme asks for, with retries, as a ``ShardContext``."""

from __future__ import annotations

import errno
import io
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from zephon.abc import FileInfo, LocalPath, StorageBackend
from zephon.errors import ConfigError
from zephon.io.retry import RetryPolicy
from zephon.io.urls import display, scheme_of

if TYPE_CHECKING:
    from zephon.io.cache import ShardCache
    from zephon.io.cache_files import Handle

T = TypeVar("T")

#: A whole remote file is fetched in parts of this size, so many at once.
_PART_BYTES: Final = 8 << 20
_PARTS_AT_ONCE: Final = 8


class Storages:
    """The backends of one dataset: one per plugin, made when first needed. Thread-safe.

    Args:
        options: storage options for every backend. They are never shown.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = dict(options or {})
        self._backends: dict[str, StorageBackend] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "Storages()"

    def backend(self, url: str) -> StorageBackend:
        """The backend for a URL.

        Raises:
            ConfigError: ``storage-scheme``, ``storage-ambiguous``, ``storage-options``.
        """
        name = _plugin_for(url)
        with self._lock:
            if name not in self._backends:
                self._backends[name] = self._make(name, url)
            return self._backends[name]

    def _make(self, name: str, url: str) -> StorageBackend:
        from zephon.plugins import registry

        implementation = registry("storage").load(name)
        try:
            backend: StorageBackend = implementation(**self.options)
        except TypeError as error:
            # The error's own text may quote values.
            raise ConfigError(
                f"the storage {name!r} does not take these options",
                found=f"options named {', '.join(sorted(self.options)) or '(none)'} for {display(url)}",
                fix=f"give the options that {name!r} documents, by name",
                code="storage-options",
            ) from error.with_traceback(None)
        return backend


class StorageContext:
    """Storage with retries; implements :class:`zephon.abc.ShardContext`. Thread-safe.

    Args:
        storages: the backends.
        policy: how long and how often to try.
        cache: keeps whole files of remote storage on a local disk.
    """

    def __init__(self, storages: Storages, policy: RetryPolicy | None = None, cache: ShardCache | None = None) -> None:
        self._storages = storages
        self._cache = cache
        self._looked_up: dict[str, FileInfo] = {}
        self._policy = policy or RetryPolicy()
        self._cancel = threading.Event()
        self._lock = threading.Lock()
        self._bytes_read = 0

    @property
    def bytes_read(self) -> int:
        """Bytes delivered so far; what libraries read from local files by themselves is not seen."""
        return self._bytes_read

    def stat(self, url: str) -> FileInfo:
        """One file's facts, with retries."""
        return self._try("look up", url, lambda backend: backend.stat(url))

    def list(self, url: str) -> list[FileInfo]:
        """Every file below a directory, with retries."""
        return self._try("list", url, lambda backend: list(backend.list(url)))

    def size(self, url: str) -> int:
        """Bytes of the file now."""
        return self.stat(url).size

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """As the backend's, with retries; a short answer counts as a failure that may pass.

        With a cache, the file is fetched as a whole when it is first read.
        """
        cached = self._cached(url)
        if cached is not None:
            if any(stop > cached.size for _, stop in ranges):
                raise EOFError(f"{display(url)} has {cached.size} bytes")
            return [pa.py_buffer(cached.read(start, stop)) for start, stop in ranges]
        return self._requested(url, ranges)

    def _requested(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        def read(backend: StorageBackend) -> Sequence[pa.Buffer]:
            buffers = backend.read_ranges(url, ranges)
            if [b.size for b in buffers] != [stop - start for start, stop in ranges]:
                raise OSError(errno.EIO, "the answer has another length than was asked for")
            return buffers

        buffers = self._try("read", url, read)
        self._count(buffers)
        return buffers

    def read_all(self, url: str) -> pa.Buffer:
        """The whole file; memory-mapped where it is local."""
        path = self.local_path(url)
        if path is None:
            return self._fetch(url)
        size = self.size(url)
        if size == 0:
            return pa.py_buffer(b"")
        with pa.memory_map(path) as mapped:
            buffer: pa.Buffer = mapped.read_buffer()
        self._count([buffer])
        return buffer

    def local_path(self, url: str) -> str | None:
        """Path on this machine's disk, or None where the file is elsewhere."""
        backend = self._storages.backend(url)
        return backend.local_path(url) if isinstance(backend, LocalPath) else None

    def open_random_access(self, url: str) -> pa.NativeFile:
        """A seekable file; the caller closes it.

        Local files are read, not mapped: pages of a mapped file would count as the process's own memory.
        """
        path = self.local_path(url)
        if path is not None:
            return pa.OSFile(path, "rb")
        return pa.PythonFile(_RemoteFile(self, url, self.size(url)), mode="r")

    def close(self) -> None:
        """Stop waiting for storage that does not answer."""
        self._cancel.set()

    def _fetch(self, url: str) -> pa.Buffer:
        cached = self._cached(url)
        if cached is not None:
            return pa.py_buffer(cached.read(0, cached.size))
        size = self.size(url)
        if size <= _PART_BYTES:
            return self._requested(url, [(0, size)])[0]
        whole = pa.allocate_buffer(size)
        view, start = memoryview(whole), 0
        for part in self._parts(url, size):
            view[start : start + part.size] = memoryview(part)
            start += part.size
        return whole

    def _parts(self, url: str, size: int) -> Iterator[pa.Buffer]:
        """A whole file from its beginning, several parts at once."""
        parts = [(start, min(start + _PART_BYTES, size)) for start in range(0, size, _PART_BYTES)]
        for i in range(0, len(parts), _PARTS_AT_ONCE):
            yield from self._requested(url, parts[i : i + _PARTS_AT_ONCE])

    def _cached(self, url: str) -> Handle | None:
        """The file in the cache, fetched if need be; None where there is no cache, or no need or room for one."""
        if self._cache is None or self.local_path(url) is not None:
            return None
        info = self._looked_up.get(url)
        if info is None:
            info = self._looked_up[url] = self.stat(url)
        return self._cache.open(info, lambda: self._parts(url, info.size), self._cancel)

    def _count(self, buffers: Iterable[pa.Buffer]) -> None:
        with self._lock:
            self._bytes_read += sum(b.size for b in buffers)

    def _try(self, doing: str, url: str, operation: Callable[[StorageBackend], T]) -> T:
        backend = self._storages.backend(url)
        return self._policy.call(lambda: operation(backend), doing=doing, url=url, cancel=self._cancel)


class _RemoteFile(io.RawIOBase):
    """A seekable view of a remote file; every read is one request, so wrap nothing around it that reads ahead."""

    def __init__(self, context: StorageContext, url: str, size: int) -> None:
        super().__init__()
        self._context = context
        self._url = url
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        start = min(self._position, self._size)
        stop = self._size if size is None or size < 0 else min(start + size, self._size)
        if start == stop:
            return b""
        self._position = stop
        return self._context.read_ranges(self._url, [(start, stop)])[0].to_pybytes()

    def readall(self) -> bytes:
        return self.read(-1)


def _plugin_for(url: str) -> str:
    """The name of the storage plugin that reads a URL's scheme."""
    from zephon.plugins import StorageDescriptor, registry

    scheme = scheme_of(url)
    known = {n: d for n, d in registry("storage").descriptors().items() if isinstance(d, StorageDescriptor)}
    for wanted in (scheme, "*"):
        claiming = {name: d.priority for name, d in known.items() if wanted in d.schemes and (scheme or wanted != "*")}
        if not claiming:
            continue
        best = sorted(name for name, priority in claiming.items() if priority == max(claiming.values()))
        if len(best) > 1:
            raise ConfigError(
                f"several storage plugins claim {scheme or 'plain paths'!r} with one priority",
                found=", ".join(best),
                fix="uninstall all but one of them",
                code="storage-ambiguous",
            )
        return best[0]
    raise ConfigError(
        f"no installed storage plugin reads {display(url)}",
        found=f"scheme {scheme!r}" if scheme else "a plain path",
        fix="install zephon-fsspec, which reads local disks and every fsspec scheme",
        code="storage-scheme",
    )
