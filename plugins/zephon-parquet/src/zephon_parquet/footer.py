"""Footers: where a Parquet file says what it holds. Read once, when a shard is indexed, and kept in the index.

A file ends with its footer (a Thrift structure), the footer's length in four bytes, little endian, and the magic bytes
``PAR1``; see https://parquet.apache.org/docs/file-format/. A file whose footer is encrypted has ``PARE`` instead. An
encrypted file with a plain footer carries a signature of 28 bytes after the Thrift structure
(https://parquet.apache.org/docs/file-format/data-pages/encryption/, section 4.2).
"""

from __future__ import annotations

import hashlib
from typing import Final
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.parquet as pq

from zephon.abc import Shard, ShardContext
from zephon.errors import ShardError
from zephon_parquet.layout import Layout

MAGIC: Final = b"PAR1"
ENCRYPTED_MAGIC: Final = b"PARE"
_TAIL: Final = 8  # length and magic
_SMALLEST: Final = len(MAGIC) + _TAIL
_SIGNATURE: Final = 28
#: Read at once from the end of a file: holds most footers.
_FIRST_READ: Final = 1 << 16
#: Compressed footers up to this size are kept in the index. Larger ones (statistics of long texts in a thousand row
#: groups) would make the index of a large dataset heavy; of them the place is kept, and opening reads just that.
_LARGEST_KEPT: Final = 1 << 16

_CODEC: Final = "zstd"
_BLOB: Final = pa.schema(
    [("start", pa.int64()), ("stop", pa.int64()), ("digest", pa.binary()), ("footer", pa.large_binary())]
)

#: Parsed footers in use, by digest. They are immutable, large, and shared by all readers of a shard.
_parsed: WeakValueDictionary[bytes, Layout] = WeakValueDictionary()


def corrupt(shard: Shard, found: str) -> ShardError:
    """The error for a file that is not a whole Parquet file."""
    return ShardError(
        f"{shard.name} is not a whole Parquet file",
        found=found,
        fix="write or copy the file again, or move it out of the dataset",
        code="shard-corrupt",
    )


def changed(shard: Shard, found: str) -> ShardError:
    """The error for a file that is not the one that was indexed."""
    return ShardError(
        f"{shard.name} has changed since it was indexed",
        found=found,
        fix="put the former file back, or build the dataset's index again",
        code="shard-changed",
    )


def read_footer(shard: Shard, context: ShardContext) -> tuple[Layout, pa.RecordBatch]:
    """A file's layout, and what the index keeps of its footer.

    Raises:
        ShardError: ``shard-corrupt``, ``shard-encrypted``; ``shard-unsupported`` for types Arrow cannot hold.
    """
    size = context.size(shard.url)
    if size < _SMALLEST:
        raise corrupt(shard, f"{size} bytes; the shortest Parquet file has {_SMALLEST}")
    head, end = context.read_ranges(shard.url, [(0, len(MAGIC)), (max(0, size - _FIRST_READ), size)])
    magic, length = end[-len(MAGIC) :].to_pybytes(), int.from_bytes(end[-_TAIL : -len(MAGIC)].to_pybytes(), "little")
    if magic == ENCRYPTED_MAGIC:
        raise _encrypted(shard, "its footer is encrypted")
    if magic != MAGIC:
        begins = head.to_pybytes() == MAGIC
        what = (
            "it begins as Parquet does, so it was probably cut off"
            if begins
            else f"it begins with {head.to_pybytes()!r}"
        )
        raise corrupt(shard, f"{size} bytes that end with {magic!r}, not {MAGIC!r}; {what}")
    start = size - _TAIL - length
    if start < len(MAGIC):
        raise corrupt(shard, f"a footer of {length} bytes is announced in a file of {size}")
    if length + _TAIL > end.size:
        (footer,) = context.read_ranges(shard.url, [(start, size)])
    else:
        footer = end[end.size - length - _TAIL :]
    layout = _parse(shard, footer)
    if length - layout.metadata.serialized_size == _SIGNATURE:
        raise _encrypted(shard, "its footer is signed: some columns are encrypted")
    packed = pa.Codec(_CODEC).compress(footer)
    kept = packed.to_pybytes() if packed.size <= _LARGEST_KEPT else None
    return layout, pa.record_batch([[start], [size], [_digest(footer)], [kept]], schema=_BLOB)


def layout_of(shard: Shard, blob: pa.RecordBatch, context: ShardContext) -> Layout:
    """A file's layout from the index, without reading the file unless its footer is very large.

    Raises:
        ShardError: ``shard-changed`` if another footer is found in the file than was indexed.
    """
    start, stop, digest, kept = (blob.column(name)[0].as_py() for name in _BLOB.names)
    layout = _parsed.get(digest)
    if layout is None:
        if kept is not None:
            footer = pa.Codec(_CODEC).decompress(kept, decompressed_size=stop - start)
        else:
            footer = _read_again(shard, context, start, stop, digest)
        layout = _parsed[digest] = _parse(shard, footer)
    return layout


def _read_again(shard: Shard, context: ShardContext, start: int, stop: int, digest: bytes) -> pa.Buffer:
    try:
        (footer,) = context.read_ranges(shard.url, [(start, stop)])
    except EOFError as error:
        raise changed(shard, f"it has fewer than the {stop} bytes it had") from error
    if _digest(footer) != digest:
        raise changed(shard, "its footer is another one")
    return footer


def _digest(footer: pa.Buffer) -> bytes:
    return hashlib.blake2b(footer, digest_size=16).digest()


def _parse(shard: Shard, footer: pa.Buffer) -> Layout:
    """The layout a footer describes. Arrow opens a footer alone as it does a file: it looks at nothing else."""
    try:
        file = pq.ParquetFile(pa.BufferReader(footer))
        return Layout.of(file.metadata, file.schema_arrow)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ShardError(
            f"the columns of {shard.name} have no Arrow type",
            found=str(error),
            fix="write the file with other types",
            code="shard-unsupported",
        ) from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise corrupt(shard, f"its footer cannot be read: {error}") from error


def _encrypted(shard: Shard, found: str) -> ShardError:
    return ShardError(
        f"{shard.name} is an encrypted Parquet file",
        found=found,
        fix="decrypt it where the keys are, and train on the copy",
        code="shard-encrypted",
    )
