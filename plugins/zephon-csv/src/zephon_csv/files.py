"""Which files of a listing are shards."""

from __future__ import annotations

from collections.abc import Sequence

from zephon.abc import FileInfo, Shard


def base_name(file: FileInfo) -> str:
    """The last part of a file's name."""
    return (file.name or file.url).rstrip("/").rpartition("/")[2]


def has_suffix(file: FileInfo, suffixes: tuple[str, ...]) -> bool:
    """Whether a file's name ends with one of these."""
    return base_name(file).lower().endswith(suffixes)


def shards_of(files: Sequence[FileInfo], suffixes: tuple[str, ...]) -> list[Shard]:
    """Files with one of the suffixes, or a single file of any name."""
    visible = [file for file in files if not base_name(file).startswith((".", "_"))]
    chosen = [file for file in visible if has_suffix(file, suffixes)]
    if not chosen and len(files) == 1:
        chosen = list(files)
    return [Shard(url=file.url, name=file.name or base_name(file), file=file) for file in chosen]
