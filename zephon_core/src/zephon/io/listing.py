"""From the paths users write to the files that are there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import attrs

from zephon.abc import FileInfo
from zephon.errors import ConfigError, PluginError
from zephon.io import urls
from zephon.io.storage import StorageContext

#: Directory of our own files beside the data.
OWN_DIRECTORY: Final = ".zephon"

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_MAGIC: Final = re.compile(r"[*?]|\[[^\]]+\]|\{[^{}]*(?:\.\.|,)[^{}]*\}")
#: In web URLs ``?`` begins a query and ``[`` an IPv6 address.
_WEB_MAGIC: Final = re.compile(r"\*|\{[^{}]*(?:\.\.|,)[^{}]*\}")
_HIDDEN: Final = re.compile(r"(?:\A|/)(?:\.|_[^/=]*(?:/|\Z))")
_RANGE: Final = re.compile(r"(\d+)\.\.(\d+)")
_LOOKUPS_AT_ONCE: Final = 16
#: From so many files named by a brace pattern on, their directory is listed instead of looking each one up.
_LIST_INSTEAD: Final = 32


@attrs.frozen(slots=True, kw_only=True)
class Listing:
    """The files behind a dataset's paths.

    Attributes:
        files: visible ones, in order of their names; names are relative to the root and unique.
        hidden: the others: names with a part that starts with ``.`` or ``_``.
        root: the directory that all of them were found in, or None where there are several.
        shown: the paths, fit to be shown.
    """

    files: Sequence[FileInfo]
    hidden: Sequence[FileInfo]
    root: str | None
    shown: str


@attrs.frozen(slots=True)
class _Found:
    """What one path led to: a directory and files, named relative to it; those that are no data apart."""

    root: str
    files: Sequence[FileInfo]
    hidden: Sequence[FileInfo] = ()


def list_files(paths: Sequence[str], context: StorageContext) -> Listing:
    """The files that paths lead to.

    Args:
        paths: directories (read recursively), files, globs (``*`` and ``?`` within a name, ``[...]``, ``**`` across
            directories; a directory that matches is read recursively) and brace patterns (``{000..127}``, ``{a,b}``).
            A file that several of them lead to counts once.
        context: where to look.

    Raises:
        ConfigError: ``path-missing``, ``path-empty``, ``path-unreadable``.
        StorageError: ``storage-unavailable``.
    """
    if not paths:
        raise ConfigError(
            "no path is given", found="an empty list", fix="name a directory, a glob or files", code="path-missing"
        )
    shown = ", ".join(urls.display(path) for path in paths[:3]) + (", ..." if len(paths) > 3 else "")
    found = [_find(urls.absolute(path), context) for path in paths]
    prefixes = _common_root([part.root for part in found])
    visible: dict[str, FileInfo] = {}
    hidden: dict[str, FileInfo] = {}
    for part, prefix in zip(found, prefixes, strict=True):
        for target, infos in ((visible, part.files), (hidden, part.hidden)):
            for info in infos:
                if OWN_DIRECTORY not in info.name or OWN_DIRECTORY not in info.name.split("/"):
                    target.setdefault(info.url, _renamed(info, prefix + info.name) if prefix else info)
    if not visible and not hidden:
        raise ConfigError(
            f"{shown} holds no file",
            found="an empty directory",
            fix="point the dataset at the directory its files are in",
            code="path-empty",
        )
    roots = {part.root for part in found}
    return Listing(
        files=sorted(visible.values(), key=_by_name),
        hidden=sorted(hidden.values(), key=_by_name),
        root=roots.pop() if len(roots) == 1 else None,
        shown=shown,
    )


def expand_braces(pattern: str) -> Iterator[str]:
    """``a{8..10}`` -> ``a8 a9 a10``, ``a{08..10}`` -> ``a08 a09 a10``, ``{x,y}`` -> ``x y``; other braces stay."""
    for found in _BRACES.finditer(pattern):
        span = _RANGE.fullmatch(found.group(1))
        if span:
            first, last = int(span.group(1)), int(span.group(2))
            width = max(len(s) for s in span.groups()) if any(s.startswith("0") for s in span.groups()) else 0
            step = 1 if last >= first else -1
            choices: Iterable[str] = (f"{i:0{width}d}" for i in range(first, last + step, step))
        elif "," in found.group(1):
            choices = found.group(1).split(",")
        else:
            continue
        for choice in choices:
            for rest in expand_braces(pattern[found.end() :]):
                yield pattern[: found.start()] + choice + rest
        return
    yield pattern


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A regular expression for the names a glob matches, and for whatever lies below a directory it matches."""
    out = []
    i = 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            out.append("(?:[^/]+/)*")
            i += 3
        elif pattern.startswith("**", i):
            out.append(".*")
            i += 2
        elif pattern[i] == "*":
            out.append("[^/]*")
            i += 1
        elif pattern[i] == "?":
            out.append("[^/]")
            i += 1
        elif pattern[i] == "[" and (end := pattern.find("]", i + 2)) > 0:
            body = pattern[i + 1 : end]
            negated = body[0] in "!^"
            body = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[1:] if negated else body)
            out.append(f"(?!/)[{'^' if negated else ''}{body}]")
            i = end + 1
        else:
            out.append(re.escape(pattern[i]))
            i += 1
    return re.compile("".join(out) + r"(?:/.*)?", re.DOTALL)


def _find(path: str, context: StorageContext) -> _Found:
    """What one absolute path or URL leads to. A plain path that exists as it is written is no pattern."""
    base, query = path, ""
    if urls.is_web(path):
        base, mark, rest = path.partition("?")
        query = mark + rest
    head, tail = urls.split_chain(base)
    magic = (_WEB_MAGIC if urls.is_web(path) else _MAGIC).search(head)
    if magic is None:
        return _literal(path, context)
    if not urls.scheme_of(path):
        try:
            return _literal(path, context)
        except ConfigError as error:
            if error.code != "path-missing":
                raise
    top = urls.directory_before(head, magic.start())
    root = top + tail
    patterns = list(dict.fromkeys(expand_braces(head[len(top) :].strip("/"))))
    if any(_MAGIC.search(p) for p in patterns) and not (urls.is_web(path) and len(patterns) > 1):
        return _matched(path, root, patterns, context)
    if len(patterns) >= _LIST_INSTEAD and not urls.is_web(path):
        return _matched(path, root, patterns, context)
    return _looked_up(root, [urls.join(root, p) + query for p in patterns], context)


def _literal(path: str, context: StorageContext) -> _Found:
    """A file or a directory, without any pattern."""
    try:
        info = context.stat(path)
    except IsADirectoryError:
        files = _named(_list(path, context), path)
        return _Found(path, [f for f in files if not _is_hidden(f.name)], [f for f in files if _is_hidden(f.name)])
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(path, "no such file or directory") from error
    except PermissionError as error:
        raise _unreadable(path) from error
    return _Found(urls.parent(path), [_renamed(info, urls.basename(path))])


def _matched(path: str, root: str, patterns: Sequence[str], context: StorageContext) -> _Found:
    """The files below ``root`` that patterns match; each pattern has to match one."""
    try:
        files = _named(_list(root, context), root)
    except ConfigError as error:
        if error.code != "path-missing":
            raise
        raise _missing(path, f"the directory {urls.display(root)} does not exist") from error
    matched: dict[str, FileInfo] = {}
    below: dict[str, list[FileInfo]] = {}
    for pattern in patterns:
        asks_hidden = _is_hidden(pattern)
        if _MAGIC.search(pattern):
            regex = glob_regex(pattern)
            hits = [f for f in files if regex.fullmatch(f.name) and (asks_hidden or not _is_hidden(f.name))]
        else:
            below = below or _by_prefix(files)
            hits = below.get(pattern, [])
        if not hits:
            near = ", ".join(f.name for f in files[:5]) + (", ..." if len(files) > 5 else "")
            raise _missing(
                path, f"nothing below {urls.display(root)} matches {pattern!r}; there are: {near or 'no files'}"
            )
        matched.update((f.url, f) for f in hits)
    return _Found(root, list(matched.values()))


def _by_prefix(files: Sequence[FileInfo]) -> dict[str, list[FileInfo]]:
    """Files by their name and every directory above, so that many plain names cost no more than one listing."""
    below: dict[str, list[FileInfo]] = {}
    for info in files:
        parts = info.name.split("/")
        for depth in range(1, len(parts) + 1):
            below.setdefault("/".join(parts[:depth]), []).append(info)
    return below


def _looked_up(root: str, wanted: Sequence[str], context: StorageContext) -> _Found:
    """Files and directories below ``root`` that are named one by one."""
    with ThreadPoolExecutor(min(_LOOKUPS_AT_ONCE, len(wanted))) as pool:
        parts = list(pool.map(lambda url: _literal(url, context), wanted))
    files: list[FileInfo] = []
    hidden: list[FileInfo] = []
    for part in parts:
        prefix = "" if part.root == root else urls.relative(part.root, root) + "/"
        files += [_renamed(f, prefix + f.name) for f in part.files]
        hidden += [_renamed(f, prefix + f.name) for f in part.hidden]
    return _Found(root, files, hidden)


def _list(url: str, context: StorageContext) -> list[FileInfo]:
    try:
        return context.list(url)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(url, "no such directory") from error
    except PermissionError as error:
        raise _unreadable(url) from error


def _named(files: Sequence[FileInfo], root: str) -> list[FileInfo]:
    name_of = urls.relative_to(root)
    try:
        return [_renamed(f, name_of(f.url)) for f in files]
    except ValueError as error:
        raise PluginError(
            f"the storage of {urls.display(root)} lists files elsewhere",
            found=str(error),
            fix="a listing's URLs begin with the URL that was listed: repair the storage plugin",
            code="storage-contract",
        ) from error


def _renamed(info: FileInfo, name: str) -> FileInfo:
    # there may be millions of them, and attrs.evolve is slow
    return FileInfo(url=info.url, name=name, size=info.size, mtime=info.mtime, etag=info.etag)


def _common_root(roots: Sequence[str]) -> list[str]:
    """For each root, what its files' names begin with so that all names count from one directory."""
    split = [(urls.scheme_of(r), urls.split_chain(r)[1], urls.split_chain(r)[0].rstrip("/").split("/")) for r in roots]
    if len({(scheme, tail) for scheme, tail, _ in split}) > 1:
        # Nothing is shared between two stores: the place in the list tells files of one name apart.
        return [f"{i}/" for i in range(len(roots))]
    shared = min(len(parts) for _, _, parts in split)
    while len({tuple(parts[:shared]) for _, _, parts in split}) > 1:
        shared -= 1
    return ["".join(part + "/" for part in parts[shared:]) for _, _, parts in split]


def _is_hidden(name: str) -> bool:
    """Whether a part of the name marks what is no data: ``.git``, ``_SUCCESS``, ``_temporary``; not ``_year=2020``."""
    return _HIDDEN.search(name) is not None


def _by_name(info: FileInfo) -> str:
    return info.name


def _missing(path: str, found: str) -> ConfigError:
    return ConfigError(
        f"{urls.display(path)} leads to no file",
        found=found,
        fix="check the spelling; relative paths start at the current directory",
        code="path-missing",
    )


def _unreadable(path: str) -> ConfigError:
    return ConfigError(
        f"{urls.display(path)} may not be read",
        found="permission denied",
        fix="grant this user, or these storage options, read access",
        code="path-unreadable",
    )
