"""What fsspec filesystems tell of a file, each in its own words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from zephon.abc import FileInfo
from zephon.errors import StorageError
from zephon_fsspec.failures import public_url

_ETAGS: Final = ("ETag", "etag", "blob_id", "md5Hash", "Content-MD5", "content_md5")
_TIMES: Final = ("LastModified", "last_modified", "Last-Modified", "mtime", "modified", "updated", "created")


def file_info(url: str, entry: Mapping[str, Any]) -> FileInfo:
    """One entry of fsspec's ``info`` or ``find``.

    Raises:
        StorageError: ``storage-size-unknown`` where the store does not tell the size.
    """
    if entry.get("size") is None:
        raise StorageError(
            f"the size of {public_url(url)} is not known",
            found="the server does not say how long the file is",
            fix="copy it to a disk or a store that does",
            code="storage-size-unknown",
        )
    etag = next((str(entry[key]) for key in _ETAGS if entry.get(key)), "")
    mtime = next((_seconds(entry[key]) for key in _TIMES if entry.get(key) is not None), 0.0)
    # Listings and lookups of one store differ in the fraction of a second; with an etag it tells nothing more.
    return FileInfo(url=url, size=int(entry["size"]), mtime=math.floor(mtime) if etag else mtime, etag=etag)


def _seconds(value: Any) -> float:
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return float(value) if isinstance(value, (int, float)) else 0.0


def _parsed(text: str) -> datetime | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return parse(text)
        except ValueError:
            continue
    return None
