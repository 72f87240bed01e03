"""obstore's stores, one per bucket, and which one a URL means."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Final

import attrs
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from zephon.errors import ConfigError, StorageError
from zephon_obstore.failures import clean, public_url, secrets_of
from zephon_obstore.options import constructor_arguments

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "azure"),
    "obstore-memory": "memory",
}

_memories: dict[str, MemoryStore] = {}
#: The process that first used obstore: its threads, which do all requests, do not survive a fork.
_used_by: list[int] = []


@attrs.frozen(slots=True, kw_only=True)
class Place:
    """The parts of a URL.

    Attributes:
        kind: ``"s3"``, ``"gcs"``, ``"azure"`` or ``"memory"``.
        bucket: of Azure, the container.
        account: of Azure, where the URL names one (``abfs://container@account.dfs.core.windows.net/path``); or "".
        path: the key, taken literally, without slashes at its ends.
    """

    kind: str
    bucket: str
    account: str
    path: str


def split(url: str) -> Place:
    """A URL's parts. Nothing in a key is unescaped: ``%``, ``#`` and ``?`` mean themselves."""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    kind = _KINDS[scheme.lower()]
    account = ""
    if kind == "azure" and "@" in authority:
        authority, _, host = authority.partition("@")
        account = host.partition(".")[0]
    return Place(kind=kind, bucket=authority, account=account, path=path.strip("/"))


def memory_store(bucket: str) -> MemoryStore:
    """The store of this process that ``obstore-memory://bucket`` means."""
    return _memories.setdefault(bucket, MemoryStore())


class Stores:
    """Stores by bucket, made when first used. Thread-safe; connections are a store's own and shared by all threads.

    Args:
        options: storage options, never shown.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str, str], Any] = {}

    def open(self, url: str) -> tuple[Any, str]:
        """The store of a URL, and the key in it.

        Raises:
            ConfigError: ``storage-options``.
            StorageError: ``storage-after-fork``.
        """
        place = split(url)
        if not _used_by:
            _used_by.append(os.getpid())
        if place.kind != "memory" and _used_by[0] != os.getpid():
            raise StorageError(
                f"{public_url(url)} cannot be read in this process",
                found="it was forked from one that had used obstore already, and would wait for ever",
                fix='start processes with "spawn" or "forkserver", e.g. DataLoader(multiprocessing_context="spawn"), '
                "or uninstall zephon-obstore to read through zephon-fsspec",
                code="storage-after-fork",
            )
        if place.kind == "memory":
            return memory_store(place.bucket), place.path
        key = (place.kind, place.bucket, place.account)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(place, url)
            return self._made[key], place.path

    def _make(self, place: Place, url: str) -> Any:
        try:
            arguments = constructor_arguments(place.kind, self._options)
            if place.account:
                arguments["config"]["account_name"] = place.account
            if place.kind == "s3":
                return S3Store(place.bucket, **arguments)
            if place.kind == "gcs":
                return GCSStore(place.bucket, **arguments)
            return AzureStore(place.bucket, **arguments)
        except (BaseError, TypeError, ValueError) as error:
            found = clean(str(error), secrets_of(self._options))
        # Outside the handler: the first error may quote an option, and would be the context of this one.
        raise ConfigError(
            f"{public_url(url)} cannot be opened with these storage options",
            found=found,
            fix="pass options that the README of zephon-obstore names, or those of obstore's store",
            code="storage-options",
        )
