"""URLs as users write them: their scheme, their parts, and what of them may be shown."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)(?=://|::)|(file)(?=:)")
_URL_IN_TEXT: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://[^\s'\"<>]+")
_USERINFO: Final = re.compile(r"(?<=://)[^/?#]*@")
_QUERY: Final = re.compile(r"\?[^/]*=.*\Z", re.DOTALL)


def scheme_of(url: str) -> str:
    """The scheme in lower case, "" for a plain path; of a chained URL (``zip://a::s3://b``) the first."""
    found = _SCHEME.match(url)
    return found.group().lower() if found else ""


def is_web(url: str) -> bool:
    """Whether this is an ``http(s)`` URL: ``?`` begins a query there, and a directory cannot be counted on."""
    return scheme_of(url) in {"http", "https"}


def absolute(path: str) -> str:
    """A plain path made absolute, ``~`` resolved; URLs as they are."""
    return path if scheme_of(path) else os.path.abspath(os.path.expanduser(path))


def display(url: str) -> str:
    """The URL without userinfo and query, fit for errors, logs and recipes; a plain path as it is."""
    if not scheme_of(url):
        return url
    return "::".join(_display_part(part) for part in url.split("::"))


def redact(text: str) -> str:
    """A message with every URL in it as :func:`display` shows it."""
    return _URL_IN_TEXT.sub(lambda found: display(found.group()), text)


def split_chain(url: str) -> tuple[str, str]:
    """What a path is taken from and the rest of the chain, ``::`` included: ``("zip://a/b", "::s3://c/d.zip")``."""
    head, joint, tail = url.partition("::") if scheme_of(url) else (url, "", "")
    if joint and "://" not in head:
        # a wrapper without a path of its own, as in simplecache::s3://bucket/key
        inner, rest = split_chain(tail)
        return head + joint + inner, rest
    return head, joint + tail


def parent(url: str) -> str:
    """The directory a file's URL lies in, without a trailing slash."""
    head, tail = split_chain(_without_query(url))
    return head.rpartition("/")[0] + tail


def basename(url: str) -> str:
    """The last part of a URL's path."""
    return relative(url, parent(url))


def join(directory: str, name: str) -> str:
    """The URL of ``name`` below a directory."""
    head, tail = split_chain(directory)
    return f"{head.rstrip('/')}/{name}{tail}"


def relative(url: str, root: str) -> str:
    """The path of ``url`` below the directory ``root``, percent escapes of ``file:`` URLs resolved.

    Raises:
        ValueError: it does not lie below.
    """
    head = split_chain(_without_query(url))[0]
    top = split_chain(root)[0].rstrip("/") + "/"
    if not head.startswith(top):
        raise ValueError(f"{display(url)} does not lie below {display(root)}")
    name = head[len(top) :].lstrip("/")
    return unquote(name, errors="surrogateescape") if scheme_of(url) == "file" else name


def _without_query(url: str) -> str:
    return url.partition("?")[0].partition("#")[0] if is_web(url) else url


def _display_part(part: str) -> str:
    part = _USERINFO.sub("", _without_query(part))
    # elsewhere ``?`` may be a wildcard or belong to a name, unless a value is assigned after it
    return _QUERY.sub("", part)
