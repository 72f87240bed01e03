"""obstore's errors, turned into those of the storage contract and cleaned of secrets.

obstore has one class for most failures and gives the HTTP status in the text alone; headers, and with them
``Retry-After``, it does not pass on.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from obstore.exceptions import NotSupportedError, PermissionDeniedError, UnauthenticatedError

from zephon.errors import ZephonError

_USERINFO: Final = re.compile(r"(?<=://)[^\s/?#'\"<>]*@")
_QUERY: Final = re.compile(r"\?[^\s'\"<>]*")
_STATUS: Final = re.compile(r" - Server returned non-2xx status code: (\d{3})")
#: A listing that was answered; obstore has no class for it as it has for a look-up. Requests for credentials fail with
#: other words, so their 404 is not taken for the bucket's.
_LISTING: Final = re.compile(r"Generic \w+ error: Error performing list request: Error performing GET ")
#: Shorter option values are words like "yes", no secrets.
_SHORTEST_SECRET: Final = 4
_LONGEST_MESSAGE: Final = 400


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
    text = text.partition("\n\nDebug source:")[0]
    for secret in secrets:
        text = text.replace(secret, "***")
    text = " ".join(public_url(text).split())
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."


def status_of(error: BaseException) -> int | None:
    """The HTTP status an error of obstore quotes, if any."""
    found = _STATUS.search(str(error))
    return int(found.group(1)) if found else None


def translated(error: BaseException, url: str, secrets: Iterable[str]) -> Exception:
    """The contract's error for obstore's error.

    Args:
        error: what obstore raised.
        url: the file or directory it was about.
        secrets: texts that may not appear.

    Returns:
        ``error`` itself if it is Zephon's own; otherwise a new one without cause or context: ``FileNotFoundError`` only
        if the store answered so, ``PermissionError`` if it refused, ``EOFError`` as it was, and an ``OSError`` that may
        pass for everything else. A token that has expired is one of those: S3 reports it as a 400.
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
    return kind(number, meaning, place)


def _kind_of(error: BaseException) -> tuple[type[OSError], int]:
    listing = status_of(error) if _LISTING.match(str(error)) else None
    if isinstance(error, NotSupportedError | NotImplementedError):
        return PermissionError, errno.ENOTSUP
    # Before the class: a refusal that says the token expired passes when credentials are refreshed.
    if "<Code>ExpiredToken" in str(error) or "<Code>RequestTimeTooSkewed" in str(error):
        return OSError, errno.EIO
    if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError) or listing in {401, 403}:
        return PermissionError, errno.EACCES
    if isinstance(error, FileNotFoundError) or listing == 404:
        return FileNotFoundError, errno.ENOENT
    if isinstance(error, IsADirectoryError):
        return IsADirectoryError, errno.EISDIR
    if isinstance(error, NotADirectoryError):
        return NotADirectoryError, errno.ENOTDIR
    return OSError, errno.EIO
