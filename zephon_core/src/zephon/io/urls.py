"""URLs as users write them: their scheme, their parts, and what of them may be shown."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
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
    """The directory a file's URL lies in, without a trailing slash but where it is the topmost one."""
    head, tail = split_chain(_without_query(url))
    return directory_before(head, len(head)) + tail


def directory_before(head: str, position: int) -> str:
    """The directory that ends at the last slash before a position: ``/a`` of ``/a/b*``, ``/`` of ``/b*``."""
    cut = head.rfind("/", 0, position)
    topmost = cut == 0 or head[:cut].endswith((":", ":/"))
    return head[: cut + 1] if topmost else head[:cut]


def basename(url: str) -> str:
    """The last part of a URL's path."""
    return relative(url, parent(url))


def join(directory: str, name: str) -> str:
    """The URL of ``name`` below a directory."""
    head, tail = split_chain(directory)
    return (head if head.endswith("://") else head.rstrip("/") + "/") + name + tail


def relative(url: str, root: str) -> str:
    """The path of ``url`` below the directory ``root``, percent escapes of ``file:`` URLs resolved.

    Raises:
        ValueError: it does not lie below.
    """
    return relative_to(root)(url)


def relative_to(root: str) -> Callable[[str], str]:
    """:func:`relative` for many URLs below one root."""
    head, tail = split_chain(root)
    top = head.rstrip("/") + "/"
    web, quoted = is_web(root), scheme_of(root) == "file"

    def name_of(url: str) -> str:
        path = _without_query(url) if web else url
        if not (path.startswith(top) and path.endswith(tail)):
            raise ValueError(f"{display(url)} does not lie below {display(root)}")
        name = path[len(top) : len(path) - len(tail)].lstrip("/")
        return unquote(name, errors="surrogateescape") if quoted else name

    return name_of


def _without_query(url: str) -> str:
    return url.partition("?")[0].partition("#")[0] if is_web(url) else url


def _display_part(part: str) -> str:
    part = _USERINFO.sub("", _without_query(part))
    # elsewhere ``?`` may be a wildcard or belong to a name, unless a value is assigned after it
    return _QUERY.sub("", part)
