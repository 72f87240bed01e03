"""Which format a dataset's files are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from zephon.abc import FileHead, FileInfo, ShardFormat
from zephon.errors import ConfigError
from zephon.io.listing import Listing
from zephon.io.storage import StorageContext
from zephon.io.urls import display
from zephon.plugins import ShardFormatDescriptor, registry
from zephon.spec import from_plain

#: Bytes of a file that recognition looks at.
HEAD_BYTES: Final = 4096
#: Suffixes that are not named like their format; only used to say what to install.
_USUAL_NAMES: Final = {"tar": "webdataset", "feather": "arrow", "ipc": "arrow", "tsv": "csv", "idx": "megatron"}
#: Suffixes of one listing that are looked into, the commonest first.
_MOST_SUFFIXES: Final = 16


def make_format(fmt: str, options: Mapping[str, Any]) -> ShardFormat:
    """The format of a name, with its options.

    Raises:
        PluginError: as the registry.
        ConfigError: ``bad-spec``.
    """
    made: ShardFormat = from_plain(registry("shard_format").load(fmt), dict(options))
    return made


def recognise(name: str, listing: Listing, context: StorageContext, options: Mapping[str, Any]) -> str:
    """The name of the one installed format that a dataset's files are of.

    Index files decide first; then, suffix by suffix, the content of one file, asked of the formats that claim its first
    bytes or, where none does, its suffix. Only those formats are imported.

    Args:
        name: the dataset, for errors.
        listing: its files.
        context: where they are.
        options: the user's format options; formats are asked with their defaults where these do not fit.

    Raises:
        ConfigError: ``format-ambiguous``, ``format-unknown``, ``path-unreadable``.
    """
    known = _descriptors()
    chosen = _by_index_file(known, listing, context, options) or _by_content(known, listing, context, options)
    if len(chosen) == 1:
        return next(iter(chosen))
    if chosen:
        raise ConfigError(
            f"dataset {name!r}: the files of {listing.shown} are of several formats",
            found="; ".join(f"{fmt}: {_examples(files)}" for fmt, files in sorted(chosen.items())),
            fix=f"say which one to read, e.g. fmt={min(chosen)!r}, or narrow the path to e.g. "
            f"*{_suffix(next(iter(chosen[min(chosen)])).name)}",
            code="format-ambiguous",
        )
    raise ConfigError(
        f"dataset {name!r}: no installed format reads the files of {listing.shown}",
        found=f"{len(listing.files)} files, {_examples(listing.files) or 'all hidden'}; installed formats: "
        + ("; ".join(f"{fmt} ({', '.join(d.suffixes) or 'no suffix'})" for fmt, d in known.items()) or "none"),
        fix=_install_hint(listing.files) or "name the format with fmt=...; `zephon plugins` lists what there is",
        code="format-unknown",
    )


def index_files_of(fmt: str) -> frozenset[str]:
    """Names of the files that mark a directory as this format: they count even where they are hidden."""
    descriptor = registry("shard_format").describe(fmt)
    return frozenset(descriptor.index_files) if isinstance(descriptor, ShardFormatDescriptor) else frozenset()


def _descriptors() -> dict[str, ShardFormatDescriptor]:
    found = registry("shard_format").descriptors()
    return {name: d for name, d in found.items() if isinstance(d, ShardFormatDescriptor)}


def _by_index_file(
    known: Mapping[str, ShardFormatDescriptor], listing: Listing, context: StorageContext, options: Mapping[str, Any]
) -> dict[str, list[FileInfo]]:
    marks: dict[str, list[str]] = {}
    for fmt, descriptor in known.items():
        for mark in descriptor.index_files:
            marks.setdefault(mark, []).append(fmt)
    chosen: dict[str, list[FileInfo]] = {}
    for info in (*listing.files, *listing.hidden):
        claiming = marks.pop(info.name.rpartition("/")[2], [])
        for fmt in claiming and _accepting(claiming, _head(info, context), options):
            chosen.setdefault(fmt, []).append(info)
    return chosen


def _by_content(
    known: Mapping[str, ShardFormatDescriptor], listing: Listing, context: StorageContext, options: Mapping[str, Any]
) -> dict[str, list[FileInfo]]:
    groups: dict[str, list[FileInfo]] = {}
    for info in listing.files:
        groups.setdefault(_suffix(info.name), []).append(info)
    chosen: dict[str, list[FileInfo]] = {}
    for _, files in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:_MOST_SUFFIXES]:
        head = _head(next((f for f in files if f.size), files[0]), context)
        by_magic = [fmt for fmt, d in known.items() if any(head.head.startswith(magic) for magic in d.magic)]
        by_suffix = [fmt for fmt, d in known.items() if files[0].name.lower().endswith(d.suffixes)]
        for fmt in _accepting(by_magic, head, options) or _accepting(by_suffix, head, options):
            chosen.setdefault(fmt, []).extend(files)
    return chosen


def _accepting(candidates: Iterable[str], head: FileHead, options: Mapping[str, Any]) -> list[str]:
    accepting = []
    for fmt in candidates:
        try:
            asked = make_format(fmt, options)
        except ConfigError:
            # options that are meant for another format
            asked = make_format(fmt, {})
        if asked.recognise(head):
            accepting.append(fmt)
    return accepting


def _head(info: FileInfo, context: StorageContext) -> FileHead:
    try:
        buffer = context.read_ranges(info.url, [(0, min(HEAD_BYTES, info.size))])[0] if info.size else b""
    except PermissionError as error:
        raise ConfigError(
            f"{display(info.url)} may not be read",
            found="permission denied",
            fix="grant this user, or these storage options, read access",
            code="path-unreadable",
        ) from error
    return FileHead(info=info, head=bytes(buffer))


def _suffix(name: str) -> str:
    """From the last dot, or the last two where the last part names a compression: ``.jsonl.gz``."""
    base = name.rpartition("/")[2].lower()
    stem, dot, last = base.rpartition(".")
    if not dot or not stem:
        return ""
    if last in {"gz", "zst", "bz2", "xz", "lz4"} and "." in stem:
        return "." + stem.rpartition(".")[2] + "." + last
    return "." + last


def _install_hint(files: Sequence[FileInfo]) -> str:
    """The line that installs a first-party format that goes by one of these suffixes."""
    from zephon.plugins.known import KNOWN, checkout, install_line

    for suffix, _ in Counter(_suffix(f.name) for f in files).most_common():
        for part in suffix.split("."):
            fmt = _USUAL_NAMES.get(part, part)
            if fmt in KNOWN["shard_format"] and fmt not in registry("shard_format").names():
                return install_line(KNOWN["shard_format"][fmt], checkout())
    return ""


def _examples(files: Sequence[FileInfo]) -> str:
    counted = Counter(_suffix(f.name) or "no suffix" for f in files).most_common(5)
    return ", ".join(f"{n} with {suffix}" if suffix != "no suffix" else f"{n} without suffix" for suffix, n in counted)
