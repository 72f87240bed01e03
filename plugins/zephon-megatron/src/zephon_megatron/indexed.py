"""Megatron's indexed datasets: tokens in ``.bin``, their index in ``.idx`` beside it.

The index, all little endian (Megatron-LM, ``megatron/core/datasets/indexed_dataset.py``)::

    9 bytes            MMIDIDX, two zeros
    uint64             version, 1
    uint8              code of the tokens' type
    uint64             s, number of sequences
    uint64             d, number of document bounds, one more than there are documents
    int32[s]           tokens of each sequence
    int64[s]           byte in .bin at which each sequence begins
    int64[d]           sequence at which each document begins, then s
    int8[s]            mode of each sequence, in multimodal datasets only
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from zephon.abc import Shard, ShardContext
from zephon_megatron.failures import corrupt, truncated
from zephon_megatron.files import beside, read, size_or_none
from zephon_megatron.layout import Layout

BIN: Final = ".bin"
IDX: Final = ".idx"
MAGIC: Final = b"MMIDIDX\x00\x00"
_HEADER: Final = struct.Struct("<9sQBQQ")
_TYPES: Final = {1: "|u1", 2: "|i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}


def index_indexed(shard: Shard, context: ShardContext, *, by_sequence: bool) -> Layout:
    """Read a ``.idx`` file and compare it with the size of its ``.bin`` file.

    Args:
        shard: the ``.bin`` file.
        context: its storage.
        by_sequence: whether a row is a sequence; a document otherwise.

    Raises:
        ShardError: ``shard-truncated``, ``shard-corrupt``.
    """
    url = beside(shard.url, BIN, IDX)
    name = beside(shard.name, BIN, IDX)
    size, length = context.size(shard.url), size_or_none(url, context)
    if length is None:
        raise corrupt(shard.name, f"there is no {name} beside it")
    if length < _HEADER.size:
        raise truncated(name, f"{length} bytes; the header alone has {_HEADER.size}")
    data = memoryview(read(shard, url, 0, length, context))
    magic, version, code, sequences, bounds = _HEADER.unpack_from(data)
    if magic != MAGIC or version != 1 or code not in _TYPES:
        raise corrupt(
            name, f"it begins with {magic!r}, version {version} and the type code {code}; expected {MAGIC!r}, 1, 1 to 8"
        )
    expected = _HEADER.size + 12 * sequences + 8 * bounds
    if length < expected:
        raise truncated(
            name, f"{length} bytes; {sequences} sequences and {bounds} document bounds take at least {expected}"
        )
    if length not in (expected, expected + sequences):
        raise corrupt(name, f"{length} bytes; {sequences} sequences and {bounds} document bounds take {expected}")
    place = _HEADER.size
    lengths = np.frombuffer(data, "<i4", sequences, place)
    pointers = np.frombuffer(data, "<i8", sequences, place + 4 * sequences)
    documents = np.frombuffer(data, "<i8", bounds, place + 12 * sequences)
    width = np.dtype(_TYPES[code]).itemsize
    ends = _ends(name, lengths, pointers, documents, width)
    if size < ends[-1] * width:
        raise truncated(shard.name, f"{size} bytes; its index speaks of {ends[-1]} tokens in {ends[-1] * width} bytes")
    if size > ends[-1] * width:
        raise corrupt(shard.name, f"{size} bytes; its index speaks of {ends[-1]} tokens in {ends[-1] * width} bytes")
    return Layout(
        size=size,
        data=0,
        dtype=_TYPES[code],
        tokens=int(ends[-1]),
        window=0,
        stride=0,
        bounds=ends if by_sequence else ends[documents] if bounds else np.zeros(1, dtype=np.int64),
    )


def _ends(
    name: str,
    lengths: npt.NDArray[np.int32],
    pointers: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int64],
    width: int,
) -> npt.NDArray[np.int64]:
    """int64 ``[sequences + 1]``: the first token of each sequence, and the end.

    Lengths, pointers and bounds say much of the same: whatever contradicts the others is found here.
    """
    if (lengths < 0).any():
        where = int(np.argmax(lengths < 0))
        raise corrupt(name, f"sequence {where} has {lengths[where]} tokens")
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    wrong = np.flatnonzero(pointers != ends[:-1] * width)
    if len(wrong):
        where = int(wrong[0])
        raise corrupt(
            name,
            f"sequence {where} begins at byte {pointers[where]}; those before it take {ends[where] * width} bytes",
        )
    if len(documents) == 0:
        if len(lengths):
            raise corrupt(name, f"{len(lengths)} sequences and no document")
    elif documents[0] != 0 or documents[-1] != len(lengths) or (np.diff(documents) < 0).any():
        raise corrupt(
            name,
            f"its document bounds run from {documents[0]} to {documents[-1]}, not ascending from 0 to {len(lengths)}",
        )
    return ends
