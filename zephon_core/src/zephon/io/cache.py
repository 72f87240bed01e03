"""The shard cache: whole shards of remote storage on a local disk, shared by all processes of a machine.

It is an execution setting: a run with it, without it, or with a full one delivers the same.
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa

from zephon.abc import FileInfo
from zephon.errors import ConfigError
from zephon.io.cache_files import CacheFiles, Entry, Handle, key_of
from zephon.io.urls import display

#: Shards kept open.
_OPEN: Final = 64
#: Seconds between two looks whether somebody else has fetched a shard.
_LOOK_AFTER: Final = 0.1
#: Errors of a disk that has no room, or may not be written: the run goes on without the cache.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})

#: Fetches a shard in parts.
Fetch = Callable[[], Iterable[pa.Buffer]]


@attrs.frozen(kw_only=True)
class CacheSettings:
    """Where shards are kept, and how many bytes of them.

    Attributes:
        directory: on a local disk; processes, runs and users may share it.
        limit: bytes.
    """

    directory: str
    limit: int


@attrs.define
class CacheCounts:
    """What a cache did for this process.

    Attributes:
        hits: shards opened that were there.
        fetched: shards fetched.
        fetched_bytes: bytes of them.
        evicted: shards removed to make room.
        bypassed: shards read without the cache, as there was no room for them.
    """

    hits: int = 0
    fetched: int = 0
    fetched_bytes: int = 0
    evicted: int = 0
    bypassed: int = 0


class ShardCache:
    """Shards of remote storage, fetched once. Thread-safe.

    Room is made by removing, first, shards that were never opened again after they were fetched, in no particular
    order, as a scan that comes back to the first when the last is done would find each just removed by any other; then
    those that were opened again, the longest unused first. So data that is read once cannot displace data that is read
    over and over. Shards that are open are left alone.

    Args:
        settings: where and how much.

    Raises:
        ConfigError: ``cache-unusable``.
    """

    def __init__(self, settings: CacheSettings) -> None:
        self.settings = settings
        self.counts = CacheCounts()
        self._files = CacheFiles(settings.directory)
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Handle] = OrderedDict()
        self._without: set[str] = set()
        try:
            self._files.make()
        except OSError as error:
            raise ConfigError(
                "the shard cache cannot be used",
                found=f"{settings.directory}: {error.strerror}",
                fix='name a directory that can be written: io_options={"cache": {"directory": ..., "limit": ...}}',
                code="cache-unusable",
            ) from error
        self._files.sweep()

    def open(self, info: FileInfo, fetch: Fetch, cancel: threading.Event) -> Handle | None:
        """A shard's content, fetched if need be; None where it has to be read without the cache.

        Args:
            info: the shard as it is now.
            fetch: its bytes, in parts, from the beginning.
            cancel: set to give up waiting for another process that fetches it.

        Raises:
            ConfigError: ``cache-too-small``.
            OSError: fetching failed.
        """
        key = key_of(info)
        with self._lock:
            handle = self._open.get(key)
            if handle is not None:
                self._open.move_to_end(key)
                return handle
            if key in self._without:
                return None
        handle = self._find(key, info.size) or self._fetched(key, info, fetch, cancel)
        with self._lock:
            if handle is None:
                self._without.add(key)
                self.counts.bypassed += 1
                return None
            self._open[key] = handle
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)
        return handle

    def close(self) -> None:
        """Forget what is open; readers that still use it keep it."""
        with self._lock:
            self._open.clear()

    def _find(self, key: str, size: int) -> Handle | None:
        handle = self._files.open(key, size)
        if handle is not None:
            with self._lock:
                self.counts.hits += 1
        return handle

    def _fetched(self, key: str, info: FileInfo, fetch: Fetch, cancel: threading.Event) -> Handle | None:
        if info.size > self.settings.limit:
            raise ConfigError(
                "a shard is larger than the shard cache",
                found=f"{display(info.url)} has {info.size:,} bytes, the limit is {self.settings.limit:,}",
                fix=f'io_options={{"cache": {{"limit": {info.size}, ...}}}} or more, or leave the cache out',
                code="cache-too-small",
            )
        try:
            while not self._files.claim(key, info.size):
                if cancel.wait(_LOOK_AFTER):
                    return None
                handle = self._find(key, info.size)
                if handle is not None:
                    return handle
        except OSError as error:
            self._do_without(error)
            return None
        try:
            # It may have come between the look and the claim.
            return self._find(key, info.size) or self._fetch(key, info, fetch)
        finally:
            self._files.release(key)

    def _fetch(self, key: str, info: FileInfo, fetch: Fetch) -> Handle | None:
        removed, over = make_room(self._files, self.settings.limit, besides=key)
        with self._lock:
            self.counts.evicted += removed
        if over > 0:
            return None
        written = self._files.new_file()
        digest = hashlib.blake2b()
        try:
            try:
                file = written.open("xb")
            except OSError as error:
                self._do_without(error)
                return None
            with file:
                for part in fetch():
                    digest.update(part)
                    try:
                        file.write(part)
                    except OSError as error:
                        self._do_without(error)
                        return None
                    self._files.renew(key)
                try:
                    file.flush()
                    os.fsync(file.fileno())
                except OSError as error:
                    self._do_without(error)
                    return None
            if written.stat().st_size != info.size:
                raise OSError(errno.EIO, "the shard has another length than it had when it was looked up")
            self._files.add(key, written, info, digest.hexdigest())
        finally:
            with suppress(OSError):
                written.unlink(missing_ok=True)
        with self._lock:
            self.counts.fetched += 1
            self.counts.fetched_bytes += info.size
        return self._files.open(key, info.size)

    def _do_without(self, error: OSError) -> None:
        """Go on without the cache where the disk has no room; anything else is an error."""
        if error.errno not in _NO_ROOM:
            raise error
        warnings.warn(
            f"the shard cache in {self.settings.directory} cannot be written ({error.strerror}); shards that are not "
            "there are read from their storage",
            RuntimeWarning,
            stacklevel=2,
        )


def make_room(files: CacheFiles, limit: int, besides: str = "") -> tuple[int, int]:
    """Remove shards until no more than ``limit`` bytes are left; those in use stay, and those that may not be removed.

    Args:
        files: of the cache.
        limit: bytes.
        besides: the key of a shard that stays.

    Returns:
        How many were removed, and how many bytes are still too many; none if that is not positive.
    """
    removed, over = 0, files.used() - limit
    for entry in victims(files.entries()) if over > 0 else ():
        if over <= 0:
            break
        if entry.key != besides and not files.in_use(entry.key):
            with suppress(OSError):
                files.remove(entry.key)
                removed, over = removed + 1, over - entry.size
    return removed, over


def victims(entries: Iterable[Entry]) -> list[Entry]:
    """Objects in the order in which they are to make room for others."""
    once: list[Entry] = []
    again: list[Entry] = []
    for entry in entries:
        (again if entry.used_again else once).append(entry)
    random.shuffle(once)  # which of them goes changes how fast a run is, and nothing else
    return once + sorted(again, key=lambda entry: entry.used_again)


def cache_settings(io_options: Mapping[str, Any] | None, parse_bytes: Callable[[Any, str], int | None]) -> Any:
    """The settings in ``io_options={"cache": {"directory": ..., "limit": ...}}``, or None.

    Raises:
        ConfigError: ``option-invalid``.
    """
    if not io_options:
        return None
    if isinstance(io_options, CacheSettings):
        return io_options
    cache = io_options.get("cache") if isinstance(io_options, Mapping) else None
    if not isinstance(io_options, Mapping) or set(io_options) != {"cache"} or not isinstance(cache, Mapping):
        raise _bad(io_options)
    if set(cache) != {"directory", "limit"} or not isinstance(cache["directory"], (str, os.PathLike)):
        raise _bad(io_options)
    limit = parse_bytes(cache["limit"], "io_options cache limit")
    if limit is None:
        raise _bad(io_options)
    return CacheSettings(directory=str(Path(cache["directory"]).absolute()), limit=limit)


def _bad(value: Any) -> ConfigError:
    return ConfigError(
        "io_options has to name the shard cache's directory and limit",
        found=f"{value!r}",
        fix='io_options={"cache": {"directory": "/local/cache", "limit": "200GB"}}',
        code="option-invalid",
    )
