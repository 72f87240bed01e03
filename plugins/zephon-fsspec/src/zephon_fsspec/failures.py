"""Errors of fsspec backends, turned into those of the storage contract and cleaned of secrets.

fsspec leaves the errors of the libraries below it as they are, and some of its filesystems call every failure of a
lookup "not found". So the cause decides: a status code where there is one, the kind of error otherwise.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from zephon.errors import ZephonError

_USERINFO: Final = re.compile(r"(?<=://)[^\s/?#'\"<>]*@")
_QUERY: Final = re.compile(r"\?[^\s'\"<>]*")
#: Shorter option values are words like "yes", no secrets.
_SHORTEST_SECRET: Final = 4
_LONGEST_MESSAGE: Final = 400


class BusyError(OSError):
    """A store asks to come back later.

    Attributes:
        retry_after: seconds to wait.
    """

    def __init__(self, retry_after: float, *args: Any) -> None:
        super().__init__(*args)
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return BusyError, (self.retry_after, self.errno, self.strerror, self.filename)


def public_url(url: str) -> str:
    """The URL as it may be shown: without userinfo and query."""
    return _QUERY.sub("", _USERINFO.sub("", url))


def secrets_of(options: Any) -> Iterator[str]:
    """Every text inside storage options that is long enough to be a secret, the longest first."""
    found: set[str] = set()

    def visit(value: Any) -> None:
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, bytes):
            found.add(value.decode("utf-8", "replace"))
        elif isinstance(value, Mapping):
            for item in value.values():
                visit(item)
        elif isinstance(value, (list, tuple, set, frozenset)):
            for item in value:
                visit(item)

    visit(options)
    return iter(sorted((text for text in found if len(text) >= _SHORTEST_SECRET), key=len, reverse=True))


def secrets_in(url: str) -> Iterator[str]:
    """The userinfo and query of a URL: errors may quote them without the URL around them."""
    userinfos = [text.removesuffix("@") for text in _USERINFO.findall(url)]
    passwords = [text.partition(":")[2] for text in userinfos]
    queries = [text.removeprefix("?") for text in _QUERY.findall(url)]
    return secrets_of([userinfos, passwords, queries])


def clean(text: str, secrets: Iterable[str]) -> str:
    """Text of an error as it may be shown: no option's value, no userinfo, no query, one line of bearable length."""
    for secret in secrets:
        text = text.replace(secret, "***")
    text = " ".join(public_url(text).split())
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."


def translated(error: Exception, url: str, secrets: Iterable[str]) -> Exception:
    """The contract's error for a backend's error.

    Args:
        error: what the backend raised.
        url: the file or directory it was about.
        secrets: texts that may not appear.

    Returns:
        ``error`` itself if it is Zephon's own; otherwise a new one without cause or context: ``FileNotFoundError`` only
        if it says surely that nothing is there, ``PermissionError`` if access was refused or the operation does not
        exist, ``EOFError`` as it was, and an ``OSError`` for everything else, a :class:`BusyError` where the store said
        when to come back.
    """
    if isinstance(error, ZephonError):
        return error
    secrets = (*secrets, *secrets_in(url))
    place = clean(public_url(url), secrets)
    text = clean((error.strerror if isinstance(error, OSError) else None) or str(error), secrets)
    if isinstance(error, EOFError):
        return EOFError(text)
    kind, number = _kind_of(error)
    meaning = os.strerror(number)
    if text and text != meaning and text not in place:
        meaning = f"{meaning} ({type(error).__name__}: {text})"
    pause = retry_after_of(error) if kind is OSError else 0.0
    return BusyError(pause, number, meaning, place) if pause else kind(number, meaning, place)


def _kind_of(error: Exception) -> tuple[type[OSError], int]:
    status = status_of(error)
    if isinstance(error, NotImplementedError) or status in {405, 501}:
        return PermissionError, errno.ENOTSUP
    if isinstance(error, PermissionError) or status in {401, 403}:
        return PermissionError, errno.EACCES
    if status in {404, 410} or (status is None and isinstance(error, FileNotFoundError) and _is_final(error)):
        return FileNotFoundError, errno.ENOENT
    if isinstance(error, TimeoutError):
        return TimeoutError, errno.ETIMEDOUT
    if isinstance(error, IsADirectoryError):
        return IsADirectoryError, errno.EISDIR
    if isinstance(error, NotADirectoryError):
        return NotADirectoryError, errno.ENOTDIR
    number = error.errno if isinstance(error, OSError) else None
    return OSError, errno.EIO if number is None or number == errno.ENOENT else number


def status_of(error: BaseException) -> int | None:
    """The HTTP status behind an error, from itself or its causes; each client library keeps it elsewhere."""
    for cause in _chain(error):
        for candidate in _candidates(cause):
            if isinstance(candidate, int) and 100 <= candidate <= 599:
                return candidate
    return None


def retry_after_of(error: BaseException) -> float:
    """Seconds to wait, from a ``Retry-After`` header behind an error (RFC 9110, 10.2.3); 0.0 where there is none."""
    for cause in _chain(error):
        response: Any = getattr(cause, "response", None)
        if isinstance(response, Mapping):
            headers: Any = response.get("ResponseMetadata", {}).get("HTTPHeaders")  # botocore
        else:
            headers = getattr(cause, "headers", None) or getattr(response, "headers", None)  # aiohttp; the others
        if isinstance(headers, Mapping):
            for name, value in headers.items():
                if str(name).lower() == "retry-after":
                    return _seconds(str(value))
    return 0.0


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _candidates(cause: BaseException) -> Iterator[object]:
    response: Any = getattr(cause, "response", None)
    if isinstance(response, Mapping):
        yield response.get("ResponseMetadata", {}).get("HTTPStatusCode")  # botocore
    yield getattr(response, "status_code", None)  # requests, httpx, huggingface_hub
    yield getattr(cause, "status", None)  # aiohttp
    yield getattr(cause, "status_code", None)  # azure
    yield getattr(cause, "code", None)  # gcsfs; deprecated in aiohttp, so not read before the others


def _is_final(error: BaseException) -> bool:
    """Whether a "not found" rests on an answer, not on a lookup that failed."""
    causes = list(_chain(error))[1:]
    return all(isinstance(cause, (LookupError, ValueError, FileNotFoundError, NotADirectoryError)) for cause in causes)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
