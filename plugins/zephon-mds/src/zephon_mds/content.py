"""A whole shard: fetched, compared with its hash, decompressed."""

from __future__ import annotations

import bz2
import hashlib
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from zephon.abc import Shard, ShardContext
from zephon.errors import ConfigError, ShardError
from zephon_mds.catalog import Entry
from zephon_mds.errors import changed, corrupt

#: MDS's name of a compression -> Arrow's.
_CODECS: Final = {"br": "brotli", "gz": "gzip", "zstd": "zstd"}
COMPRESSIONS: Final = frozenset({*_CODECS, "bz2", "snappy"})


def read_whole(shard: Shard, entry: Entry, context: ShardContext, algorithm: str) -> pa.Buffer:
    """The uncompressed bytes of a shard.

    Args:
        shard: which one.
        entry: what index.json says of it.
        context: where it is.
        algorithm: hash to check, or "".

    Raises:
        ConfigError: ``hash-unavailable``.
        ShardError: ``shard-corrupt``, ``shard-changed``.
    """
    stored = context.read_all(shard.url)
    if stored.size != shard.file.size:
        raise changed(shard, f"it has {stored.size} bytes and had {shard.file.size}")
    if algorithm:
        digest = new_hash(shard, entry, algorithm)
        digest.update(stored)
        if digest.hexdigest() != entry.hashes[algorithm]:
            raise corrupt(shard, f"its {algorithm} is {digest.hexdigest()}, not {entry.hashes[algorithm]}")
    if not entry.compression:
        return stored
    try:
        content = _decompress(stored, entry)
    except (OSError, ValueError, EOFError, pa.ArrowException) as error:
        raise corrupt(shard, f"{entry.compression} cannot decompress it: {error}") from error
    if content.size != entry.raw_bytes:
        raise corrupt(shard, f"it decompresses to other than the {entry.raw_bytes} bytes that index.json says")
    return content


def new_hash(shard: Shard, entry: Entry, algorithm: str) -> Any:
    """A hash object of the algorithm asked for.

    Raises:
        ConfigError: ``hash-unavailable`` where index.json has no such hash, or Python does not.
    """
    if algorithm not in entry.hashes:
        raise ConfigError(
            f"{shard.name} has no {algorithm} to compare with",
            found=f"index.json gives {', '.join(sorted(entry.hashes)) or 'no hash'}",
            fix="choose one of these for validate_hash, or leave the option out",
            code="hash-unavailable",
        )
    if algorithm.startswith("xxh"):
        try:
            known = getattr(import_module("xxhash"), algorithm, None)
        except ImportError as error:
            raise ConfigError(
                f"the {algorithm} of {shard.name} cannot be computed",
                found="xxhash is not installed",
                fix="pip install xxhash",
                code="hash-unavailable",
            ) from error
        if known is not None:
            return known()
    elif algorithm in hashlib.algorithms_guaranteed:
        return hashlib.new(algorithm, usedforsecurity=False)
    raise ConfigError(
        f"the {algorithm} of {shard.name} cannot be computed",
        found="it is no algorithm that is known here",
        fix=f"choose another of {', '.join(sorted(entry.hashes))} for validate_hash",
        code="hash-unavailable",
    )


def refuse_unknown_compression(shard: Shard, entry: Entry) -> None:
    """Raise ``shard-unsupported`` for a compression MDS does not have."""
    if entry.compression and entry.compression not in COMPRESSIONS:
        raise ShardError(
            f"the compression of {shard.name} is not known",
            found=f"{entry.compression!r}; known are {', '.join(sorted(COMPRESSIONS))}",
            fix="decompress the shards, or write them again with one of these",
            code="shard-unsupported",
        )


def _decompress(stored: pa.Buffer, entry: Entry) -> pa.Buffer:
    """At most one byte more than expected: enough to tell that it is too much."""
    if entry.compression == "bz2":
        return pa.py_buffer(bz2.BZ2Decompressor().decompress(stored, entry.raw_bytes + 1))
    if entry.compression == "snappy":
        # A block of Snappy begins with its length, 7 bits a byte; the decoder needs room for exactly that.
        if _varint(stored[:5].to_pybytes()) != entry.raw_bytes:
            raise ValueError("another length is announced at its beginning")
        return pa.Codec("snappy").decompress(stored, decompressed_size=entry.raw_bytes)
    with pa.CompressedInputStream(pa.BufferReader(stored), _CODECS[entry.compression]) as stream:
        return stream.read_buffer(entry.raw_bytes + 1)


def _varint(head: bytes) -> int:
    value = 0
    for place, byte in enumerate(head):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value
    return -1
