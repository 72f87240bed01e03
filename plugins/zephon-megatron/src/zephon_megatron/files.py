"""Files of a shard: the one with the tokens, and those beside it that say where documents end."""

from __future__ import annotations

import pyarrow as pa

from zephon.abc import Shard, ShardContext
from zephon_megatron.failures import changed


def beside(url: str, suffix: str, other: str) -> str:
    """The URL of a file beside another: its suffix exchanged, any query of a web address kept.

    ``http://host/a.bin?token=1`` with ``.bin`` and ``.idx`` is ``http://host/a.idx?token=1``.
    """
    path, mark, query = url.partition("?") if url.startswith(("http://", "https://")) else (url, "", "")
    if not path.endswith(suffix):
        path, suffix = path[: len(path) - len(suffix)], ""  # the same suffix in other letters, as in A.BIN
    return path.removesuffix(suffix) + other + mark + query


def size_or_none(url: str, context: ShardContext) -> int | None:
    """Bytes of a file, None where there is none."""
    try:
        return context.size(url)
    except FileNotFoundError:
        return None


def read(shard: Shard, url: str, start: int, stop: int, context: ShardContext) -> pa.Buffer:
    """Bytes of one of a shard's files.

    Raises:
        ShardError: ``shard-changed``, the file has become shorter.
    """
    if start == stop:
        return pa.py_buffer(b"")
    try:
        return context.read_ranges(url, [(start, stop)])[0]
    except EOFError as error:
        raise changed(shard.name, f"{url.rpartition('/')[2]} ends before byte {stop}") from error
