"""Two backends for ``toy://``, the local disk under another name: what each must do, and every capability."""

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from pathlib import Path

import pyarrow as pa

from zephon.abc import FileInfo, StorageBackend


def path_of(url):
    """The path on disk. What stands where others have a host may hold a password, so it is not shown."""
    if not url.startswith("toy:///"):
        raise FileNotFoundError(errno.ENOENT, "toy:// has no hosts")
    return url.removeprefix("toy://")


def raise_(error):
    raise error


class Minimal(StorageBackend):
    """Reads files."""

    def stat(self, url):
        found = os.stat(path_of(url))
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path_of(url))
        return FileInfo(url=url, size=found.st_size)

    def list(self, url):
        top = path_of(url).rstrip("/")
        for folder, _, names in os.walk(top, onerror=raise_):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                    yield self.stat(f"toy://{folder}/{name}")

    def read_ranges(self, url, ranges):
        with open(path_of(url), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return [self.piece(file, start, stop, size) for start, stop in ranges]

    def piece(self, file, start, stop, size):
        if stop > size:
            raise EOFError(f"the file has {size} bytes, {start} to {stop} were asked for")
        return pa.py_buffer(os.pread(file.fileno(), stop - start, start))


class Maximal(Minimal):
    """Reads and writes files, and takes an option."""

    def __init__(self, *, token=""):
        self._token = token

    def stat(self, url):
        found = Minimal.stat(self, url)
        path = path_of(url)
        etag = hashlib.blake2b(Path(path).read_bytes(), digest_size=8).hexdigest()
        return FileInfo(url=url, size=found.size, mtime=os.stat(path).st_mtime, etag=etag)

    def local_path(self, url):
        return path_of(url)

    def write(self, url, data):
        path = Path(path_of(url))
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{secrets.token_hex(8)}")
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
