"""Files on this machine's disks and on mounted file systems."""

from __future__ import annotations

import errno
import os
import secrets
import stat as modes
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa

from zephon.abc import FileInfo, StorageBackend
from zephon.errors import ConfigError, StorageError
from zephon_fsspec.checks import check_ranges, past_the_end

_FILE_SCHEME: Final = "file:"


class LocalStorage(StorageBackend):
    """Local files, named by plain paths or by ``file:`` URLs.

    A plain path is taken as it is: ``#``, ``%``, ``?`` and spaces mean themselves. In a ``file:`` URL, percent escapes
    are resolved (RFC 8089), as :meth:`pathlib.Path.as_uri` writes them.

    Args:
        storage_options: none are known.

    Raises:
        ConfigError: ``storage-options`` when any is given.
    """

    def __init__(self, **storage_options: Any) -> None:
        if storage_options:
            raise ConfigError(
                "local files take no storage options",
                found=f"options named {', '.join(sorted(storage_options))}",
                fix="remove storage_options, or name the store they are for in the path, e.g. s3://bucket/data",
                code="storage-options",
            )

    def __repr__(self) -> str:
        return "LocalStorage()"

    def local_path(self, url: str) -> str:
        """The path of ``url`` on disk; nothing is looked up.

        Raises:
            ConfigError: ``storage-url`` for a ``file:`` URL of another machine.
        """
        if not url.startswith(_FILE_SCHEME):
            return url
        rest = url.removeprefix(_FILE_SCHEME)
        if rest.startswith("//"):
            host, slash, path = rest[2:].partition("/")
            if host not in {"", "localhost"}:
                raise ConfigError(
                    f"{url} names a file on the machine {host!r}",
                    found="file: URLs are read on this machine only",
                    fix=f"file:///{host}/{path} if {host!r} is a folder; otherwise mount it and give its path",
                    code="storage-url",
                )
            rest = slash + path
        return unquote(rest, errors="surrogateescape")

    def stat(self, url: str) -> FileInfo:
        """One file's facts.

        Raises:
            IsADirectoryError: a directory.
            PermissionError: also for a pipe, a socket or a device: it has no size and cannot be read twice.
        """
        path = self.local_path(url)
        found = os.stat(path)
        if modes.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not modes.S_ISREG(found.st_mode):
            raise PermissionError(errno.EACCES, "Not a regular file", path)
        return FileInfo(url=url, size=found.st_size, mtime=found.st_mtime)

    def list(self, url: str) -> Iterator[FileInfo]:
        """Every regular file below a directory, in the order of names; links are followed, but never round in a circle.

        Raises:
            FileNotFoundError: no such directory.
            NotADirectoryError: a file.
            StorageError: ``storage-broken-link``, so that lost data is noticed.
        """
        path = self.local_path(url)
        is_url = url.startswith(_FILE_SCHEME)
        top = os.stat(path)
        if not modes.S_ISDIR(top.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        root = url.rstrip("/")
        return (
            FileInfo(
                url=f"{root}/{quote(name, errors='surrogateescape') if is_url else name}",
                size=found.st_size,
                mtime=found.st_mtime,
            )
            for name, found in _walk(path, "", ((top.st_dev, top.st_ino),))
        )

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """Positional reads into one new buffer per range."""
        check_ranges(ranges)
        path = self.local_path(url)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if modes.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            return [_read(descriptor, start, stop, found.st_size, path) for start, stop in ranges]
        finally:
            os.close(descriptor)

    def write(self, url: str, data: bytes | pa.Buffer) -> None:
        """Create or replace a file atomically and durably; missing directories are made.

        The bytes go to a temporary file beside it, reach the disk (fsync), and take the name in one rename. On failure
        the temporary file is removed and what was there stays.
        """
        path = self.local_path(url)
        directory = os.path.dirname(path) or "."
        os.makedirs(directory, exist_ok=True)
        temporary = os.path.join(directory, f".zephon-{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            try:
                rest = memoryview(data).cast("B")
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(directory)


def _walk(path: str, prefix: str, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, os.stat_result]]:
    """Relative names and facts of the regular files below ``path``; ``above`` identifies the directories it lies in."""
    try:
        with os.scandir(path) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        if prefix:
            return  # removed since it was listed
        raise
    for entry in ordered:
        try:
            found = entry.stat()
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ELOOP}:
                raise
            if not entry.is_symlink() or entry.name.startswith("."):
                continue  # removed since it was listed, or an editor's lock
            raise StorageError(
                f"{entry.path} is a link that leads to no file",
                found=f"it points to {os.readlink(entry.path)}",
                fix="put the file it points to in its place, or remove the link",
                code="storage-broken-link",
            ) from None
        name = prefix + entry.name
        identity = (found.st_dev, found.st_ino)
        if modes.S_ISREG(found.st_mode):
            yield name, found
        elif modes.S_ISDIR(found.st_mode) and identity not in above:
            yield from _walk(entry.path, name + "/", (*above, identity))


def _read(descriptor: int, start: int, stop: int, size: int, path: str) -> pa.Buffer:
    if stop > size:
        raise past_the_end(path, start, stop, size)
    buffer = pa.allocate_buffer(stop - start)
    view = memoryview(buffer)
    done = 0
    while done < len(view):
        count = os.preadv(descriptor, [view[done:]], start + done)
        if count == 0:
            raise past_the_end(path, start, stop, start + done)
        done += count
    return buffer


def _sync_directory(directory: str) -> None:
    """Make a rename durable, where the file system can (some network file systems cannot, and say so)."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
