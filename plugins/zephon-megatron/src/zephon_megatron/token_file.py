"""datatrove's token files, which nanotron reads: tokens in ``.ds``, document ends in ``.ds.index`` beside it.

Tokens are unsigned integers of two or four bytes, one after the other; the index is uint64 ``[documents]``, the token
after the last one of each document; both little endian. ``.ds.metadata``, if there is one, begins with a line that ends
in ``|`` and the bytes of a token (datatrove, ``pipeline/tokens/tokenizer.py``, ``TokenizedFile``).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from zephon.abc import Shard, ShardContext
from zephon.errors import ConfigError
from zephon_megatron.failures import corrupt, no_boundaries, truncated
from zephon_megatron.files import beside, read, size_or_none
from zephon_megatron.layout import Layout

DS: Final = ".ds"
_INDEX: Final = ".ds.index"
_METADATA: Final = ".ds.metadata"
_TYPES: Final = {2: "<u2", 4: "<u4"}
#: More of a metadata file is not looked at.
_METADATA_BYTES: Final = 4096


def index_token_file(shard: Shard, context: ShardContext, *, token_size: int | None, needs_bounds: bool) -> Layout:
    """Find out the bytes of a token and where documents end.

    Args:
        shard: the ``.ds`` file.
        context: its storage.
        token_size: bytes of a token where the user has said so.
        needs_bounds: whether rows are documents.

    Raises:
        ShardError: ``shard-truncated``, ``shard-corrupt``.
        ConfigError: ``window-missing``, ``token-size-missing``.
    """
    size = context.size(shard.url)
    bounds = _bounds(shard, beside(shard.url, DS, _INDEX), context)
    if bounds is None and needs_bounds:
        raise no_boundaries(shard.name, f"there is no {beside(shard.name, DS, _INDEX)} beside it")
    said = token_size or _said(shard, beside(shard.url, DS, _METADATA), context)
    if bounds is not None:
        total = int(bounds[-1])
        found = next((width for width in _TYPES if size == total * width), None) if total else said or 2
        if found is None or size != total * found or (said or found) != found:
            width = said or next((width for width in _TYPES if size < total * width), 4)
            fail = truncated if size < total * width else corrupt
            raise fail(shard.name, f"{size} bytes; its index speaks of {total} tokens, of {width} bytes each")
    else:
        found = said
    if found is None:
        raise ConfigError(
            f"how many bytes a token of {shard.name} has is not said anywhere",
            found=f"neither {beside(shard.name, DS, _INDEX)} nor {beside(shard.name, DS, _METADATA)} is beside it",
            fix='say it: format_options={"token_size": 2}, or 4 where the vocabulary has more than 65,536 tokens',
            code="token-size-missing",
        )
    if size % found:
        raise truncated(shard.name, f"{size} bytes, no multiple of the {found} bytes of a token")
    return Layout(
        size=size,
        data=0,
        dtype=_TYPES[found],
        tokens=size // found,
        window=0,
        stride=0,
        bounds=np.zeros(1, dtype=np.int64) if bounds is None else bounds,
    )


def _bounds(shard: Shard, url: str, context: ShardContext) -> npt.NDArray[np.int64] | None:
    """int64 ``[documents + 1]``, or None where there is no index."""
    length = size_or_none(url, context)
    if length is None:
        return None
    if length % 8:
        raise truncated(f"{shard.name}.index", f"{length} bytes, no multiple of 8")
    ends = np.frombuffer(read(shard, url, 0, length, context), "<u8")
    bounds = np.concatenate([[0], ends.view("<i8")]).astype(np.int64)
    wrong = np.flatnonzero(np.diff(bounds) < 0)
    if len(wrong):
        where = int(wrong[0])
        raise corrupt(f"{shard.name}.index", f"document {where} ends at token {ends[where]}, before it begins")
    return bounds


def _said(shard: Shard, url: str, context: ShardContext) -> int | None:
    """The bytes of a token by the metadata file; None where there is no such file."""
    length = size_or_none(url, context)
    if length is None:
        return None
    text = read(shard, url, 0, min(length, _METADATA_BYTES), context).to_pybytes()
    width = text.partition(b"\n")[0].rpartition(b"|")[2].strip()
    if width not in (b"2", b"4"):
        raise corrupt(
            f"{shard.name}.metadata", f"its first line ends in {width[-20:]!r}, not in a token's 2 or 4 bytes"
        )
    return int(width)
