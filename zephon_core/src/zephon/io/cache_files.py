"""The files of a shard cache: what is there, what each is for, who is at work.

A cache is a directory that several processes, users and machines may share. An object has up to three files, named by a
hash of what it is: ``.json`` tells what it is, ``.shard`` is its content, ``.claim`` says that somebody fetches it.
Content appears by renaming, so it is whole or not there. Locks only spare work: where they do nothing, an object may be
fetched twice or removed while it is read, which costs time and changes nothing, as who has it open keeps it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from zephon.abc import FileInfo
from zephon.io.urls import display

#: A claim nobody has renewed for so many seconds is worth nothing.
STALE_SECONDS: Final = 120.0
#: Seconds after which files of fetches that came to nothing are removed, where it cannot be seen whether somebody
#: still writes them: he may be on another machine.
ABANDONED_SECONDS: Final = 24 * 3600.0
#: Opened again so many seconds after it was fetched, an object has proved useful.
AGAIN_SECONDS: Final = 60.0


@attrs.frozen(slots=True, kw_only=True)
class Entry:
    """An object that is there.

    Attributes:
        key: names its files.
        url: where it came from, without what may be secret.
        size: bytes.
        etag: of the version it is.
        digest: blake2b of its content, in hexadecimal digits.
        fetched: when, in seconds since the epoch.
        used_again: when it was last opened a good while after it was fetched; 0.0 if it never was.
    """

    key: str
    url: str
    size: int
    etag: str
    digest: str
    fetched: float
    used_again: float


class Handle:
    """Content that is open. Whoever holds it can read it, whatever becomes of the file."""

    __slots__ = ("_descriptor", "size")

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self, start: int, stop: int) -> bytes:
        """Bytes of a range inside the file."""
        pieces = []
        while start < stop:
            piece = os.pread(self._descriptor, stop - start, start)
            if not piece:
                raise EOFError(f"the cached file ends at byte {start}, before {stop}")
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class CacheFiles:
    """The files of the cache in one directory."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def make(self) -> None:
        """Create the directory; an ``OSError`` if that is not possible."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def path(self, key: str, kind: str) -> Path:
        """One of an object's files."""
        return self.directory / f"{key}.{kind}"

    # -- what is there ------------------------------------------------------------------------------------------------

    def open(self, key: str, size: int) -> Handle | None:
        """An object's content, or None if it is not there whole."""
        path = self.path(key, "shard")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        handle = Handle(descriptor, size)
        facts = os.fstat(descriptor)
        if facts.st_size != size:
            return None  # cut short by a file system that had no room for what it had promised
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        now = time.time()
        if now - facts.st_mtime > AGAIN_SECONDS:
            with suppress(OSError):  # another user's file
                os.utime(self.path(key, "json"), (now, now))
        return handle

    def entries(self) -> Iterator[Entry]:
        """Every object that is there."""
        for path in sorted(self.directory.glob("*.shard")):
            with suppress(FileNotFoundError):  # removed in the meantime
                sidecar = path.with_suffix(".json")
                again, known = sidecar.stat().st_mtime, json.loads(sidecar.read_text(encoding="utf-8"))
                facts = path.stat()
                yield Entry(
                    key=path.stem,
                    url=known["url"],
                    size=facts.st_size,
                    etag=known["etag"],
                    digest=known["digest"],
                    fetched=facts.st_mtime,
                    used_again=again,
                )

    def used(self) -> int:
        """Bytes of all objects, and of those that are being fetched."""
        sizes: dict[str, int] = {}
        # Claims first: one that is given up between the two looks has its shard there at the second.
        for path in self.directory.glob("*.claim"):
            claim = self._claim(path.stem)
            if claim is not None:
                sizes[path.stem] = claim["size"]
        for path in self.directory.glob("*.shard"):
            with suppress(FileNotFoundError):
                sizes[path.stem] = path.stat().st_size
        return sum(sizes.values())

    def in_use(self, key: str) -> bool:
        """Whether somebody has the content open, as far as locks tell."""
        try:
            descriptor = os.open(self.path(key, "shard"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    def digest(self, key: str) -> str:
        """The digest of the content as it is now."""
        with self.path(key, "shard").open("rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()

    def remove(self, key: str) -> None:
        """Remove an object; an ``OSError`` if it may not be removed."""
        self.path(key, "shard").unlink(missing_ok=True)
        self.path(key, "json").unlink(missing_ok=True)

    # -- what comes in ------------------------------------------------------------------------------------------------

    def new_file(self) -> Path:
        """Where content may be written before it has its name."""
        return self.directory / f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(6)}.tmp"

    def add(self, key: str, written: Path, info: FileInfo, digest: str) -> None:
        """Give content that is complete its name."""
        facts = {"url": display(info.url), "etag": info.etag, "digest": digest}
        sidecar = self.new_file()
        sidecar.write_text(json.dumps(facts), encoding="utf-8")
        os.utime(sidecar, (0, 0))
        sidecar.replace(self.path(key, "json"))
        written.replace(self.path(key, "shard"))

    def claim(self, key: str, size: int) -> bool:
        """Say that this process fetches an object; False if somebody else does."""
        path = self.path(key, "claim")
        for _ in range(2):
            with suppress(FileExistsError):
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump({"host": socket.gethostname(), "pid": os.getpid(), "size": size}, file)
                return True
            if self._claim(key) is not None:
                return False
            try:
                path.unlink(missing_ok=True)
            except OSError:
                return True  # another user's, who has gone: then without one
        return False

    def renew(self, key: str) -> None:
        """Say that the fetch goes on."""
        with suppress(OSError):
            os.utime(self.path(key, "claim"))

    def release(self, key: str) -> None:
        """Take a claim back."""
        with suppress(OSError):
            self.path(key, "claim").unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what fetches that came to nothing have left."""
        for path in self.directory.glob("*.tmp"):
            host, pid = path.name.rsplit("-", 2)[:2]
            with suppress(OSError):
                abandoned = time.time() - path.stat().st_mtime > ABANDONED_SECONDS
                if abandoned or (host == socket.gethostname() and not _runs(int(pid))):
                    path.unlink()
        for path in self.directory.glob("*.json"):
            with suppress(OSError):
                if not path.with_suffix(".shard").exists() and time.time() - path.stat().st_ctime > ABANDONED_SECONDS:
                    path.unlink()

    def _claim(self, key: str) -> dict[str, Any] | None:
        """Who fetches an object, or None if nobody does any more."""
        path = self.path(key, "claim")
        try:
            age = time.time() - path.stat().st_mtime
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8") or "{}")
        except (OSError, ValueError):
            return None
        if age > STALE_SECONDS or (found.get("host") == socket.gethostname() and not _runs(found["pid"])):
            return None
        return {"size": 0, **found}  # an empty one is being written


def key_of(info: FileInfo) -> str:
    """What names an object's files: its URL, size and version."""
    version = info.etag or repr(info.mtime)
    return hashlib.sha256("\0".join((display(info.url), str(info.size), version)).encode()).hexdigest()[:40]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
