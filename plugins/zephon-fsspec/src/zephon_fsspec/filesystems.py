"""fsspec filesystems that belong to one storage backend alone, and never remember listings."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from fsspec.core import split_protocol, url_to_fs
from fsspec.dircache import DirCache
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.registry import get_filesystem_class

from zephon.errors import ConfigError
from zephon_fsspec.failures import clean, public_url, secrets_of

#: The library behind a scheme and the extra of this distribution that installs it.
_LIBRARIES: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("s3", "s3a"), ("s3fs", "s3")),
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gcs")),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), ("adlfs", "azure")),
    **dict.fromkeys(("http", "https"), ("aiohttp", "http")),
    "hf": ("huggingface_hub", "hf"),
}

#: Chained URLs may each need a filesystem of their own; so many shared ones are kept.
_MOST_SHARED: Final = 64


class Filesystems:
    """Filesystem instances by scheme and authority, made when first used.

    fsspec shares instances, and with them cached listings, between everyone in the process; these are not shared.
    Asynchronous filesystems and the memory filesystem serve all threads, the others one thread each, as fsspec has it.
    A forked child starts anew: event loops, connections and held locks do not survive a fork.

    Args:
        options: storage options, handed to every filesystem.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._before_fork: list[object] = []
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._shared: OrderedDict[str, Any] = OrderedDict()
        self._of_thread = threading.local()

    def open(self, url: str, *, anew: bool = False) -> tuple[Any, str]:
        """The filesystem of a URL, and the path of the URL in it.

        Args:
            url: may be chained (``zip://part.parquet::s3://bucket/all.zip``).
            anew: a chained filesystem remembers what it opened (an archive's directory): make a new one.

        Raises:
            ConfigError: ``storage-scheme-unknown``, ``storage-library-missing``, ``storage-options``.
        """
        if self._pid != os.getpid():
            # The parent's instances are kept unused: finalising them here would wait for event loops that do not run.
            self._before_fork.append((self._shared, self._of_thread))
            self._start()
        head, joint, tail = url.partition("::")
        scheme = split_protocol(head)[0] or head
        kind = self._class(scheme)
        if not joint:
            key = f"{scheme}://{sorted(kind._get_kwargs_from_urls(url).items())!r}"
        elif issubclass(kind, ChainedFileSystem):
            key = url  # made for one path
        else:
            key = scheme + joint + tail  # one archive, whatever the path in it
        if joint or kind.async_impl or scheme == "memory":
            with self._lock:
                if key not in self._shared or (joint and anew):
                    self._shared[key] = self._make(url, scheme)
                self._shared.move_to_end(key)
                if len(self._shared) > _MOST_SHARED:
                    self._shared.popitem(last=False)
                made, path = self._shared[key]
        else:
            mine: dict[str, Any] = self._of_thread.__dict__
            if key not in mine:
                mine[key] = self._make(url, scheme)
            made, path = mine[key]
        return made, path if key == url else made._strip_protocol(head)

    def _class(self, scheme: str) -> Any:
        try:
            return get_filesystem_class(scheme)
        except ImportError as error:
            library, extra = _LIBRARIES.get(scheme, ("", ""))
            raise ConfigError(
                f"{scheme}:// needs a library that is not installed",
                found=str(error),
                fix=f"pip install {library}   (the extra [{extra}] of zephon-fsspec)" if extra else str(error),
                code="storage-library-missing",
            ) from error
        except ValueError:
            raise ConfigError(
                f"{scheme}:// is no known kind of storage",
                found="neither a storage plugin nor an fsspec filesystem has this scheme",
                fix="correct the scheme, or install the fsspec filesystem that has it",
                code="storage-scheme-unknown",
            ) from None

    def _make(self, url: str, scheme: str) -> tuple[Any, str]:
        failure: ConfigError
        try:
            made, path = url_to_fs(url, skip_instance_cache=True, **self._options)
        except (TypeError, ValueError) as error:
            failure = ConfigError(
                f"{public_url(url)} cannot be opened with these storage options",
                found=clean(str(error), secrets_of(self._options)),
                fix=f"pass the options that fsspec's {scheme!r} filesystem takes",
                code="storage-options",
            )
        else:
            if isinstance(made.dircache, DirCache):
                made.dircache.use_listings_cache = False
            return made, path
        raise failure  # outside the handler: the first error may quote an option, and would be its context
