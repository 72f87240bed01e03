"""The identity of a dataset: what must agree for a run to be resumed, and what to say where it does not.

Relative shard names, rows, bytes and the schema; never a location, an etag or a time.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.io.shards import Names
from zephon.spec import to_plain
from zephon.spec.codec import schema_from_plain

#: Up to so many shards the identity holds names, rows and bytes of each; beyond, four bytes of a hash of each.
MOST_LISTED: Final = 100_000
#: Shards, or fields, that one report names of a kind.
_MOST_NAMED: Final = 20


def make_identity(
    names: Names,
    rows: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    schema: pa.Schema,
    digests: npt.NDArray[np.uint64] | None = None,
) -> dict[str, Any]:
    """The identity as plain data (JSON): totals, schema, a digest over all shards, and enough to name what changed.

    Args:
        names: shard names, in order.
        rows: int64 ``[shards]``.
        sizes: bytes, int64 ``[shards]``.
        schema: the dataset's schema.
        digests: uint64 ``[shards]``, hashes of the content where it is at hand.
    """
    content = np.zeros(len(rows), np.uint64) if digests is None else digests
    text = "\0".join(names).encode()
    numbers = np.stack([rows.astype("<i8"), sizes.astype("<i8"), content.astype("<u8").view("<i8")])
    digest = hashlib.blake2b(text, digest_size=16)
    digest.update(numbers.tobytes())
    listing: dict[str, str]
    if len(rows) <= MOST_LISTED:
        listing = {"names": _pack(text), "numbers": _pack(numbers.tobytes())}
    else:
        listing = {"marks": _pack(_marks(list(names), numbers).tobytes())}
    return {
        "shards": len(rows),
        "rows": int(rows.sum()),
        "bytes": int(sizes.sum()),
        "schema": to_plain(schema),
        "digest": digest.hexdigest(),
        "listing": listing,
    }


def identity_differences(
    old: Mapping[str, Any], new: Mapping[str, Any], names: Sequence[str] | None = None
) -> list[str]:
    """What differs between two identities of a dataset, one sentence each, naming shards and fields; empty if equal.

    Args:
        old: an identity, e.g. from a checkpoint.
        new: another.
        names: shard names of the dataset ``new`` is of. They are only needed with more than :data:`MOST_LISTED` shards,
            of which an identity keeps hashes alone; shards that are gone can then be counted, not named.
    """
    found = _schema_differences(schema_from_plain(old["schema"]), schema_from_plain(new["schema"]))
    if old["digest"] == new["digest"]:
        return found
    if "names" in old["listing"] and "names" in new["listing"]:
        found += _shard_differences(old, new)
    else:
        marks_old, marks_new = _marks_of(old), _marks_of(new)
        fresh = np.flatnonzero(~np.isin(marks_new, marks_old))
        if names is not None:
            found += _some([f"shard {names[i]!r} is new or changed" for i in fresh.tolist()])
        gone = int(np.count_nonzero(~np.isin(marks_old, marks_new)))
        found.append(f"{gone} shards are gone or changed, {len(fresh)} are new or changed")
    for what in ("shards", "rows", "bytes"):
        if old[what] != new[what]:
            found.append(f"{what}: {old[what]} -> {new[what]}")
    return found


def _schema_differences(old: pa.Schema, new: pa.Schema) -> list[str]:
    found = [f"field {f.name!r} ({f.type}) is gone" for f in old if f.name not in new.names]
    for field in new:
        if field.name not in old.names:
            found.append(f"field {field.name!r} ({field.type}) is new")
        elif not old.field(field.name).equals(field, check_metadata=True):
            found.append(f"field {field.name!r}: {old.field(field.name).type} -> {field.type}")
    if not found and old.names != new.names:
        found.append(f"order of fields: {', '.join(old.names)} -> {', '.join(new.names)}")
    return found


def _shard_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    before, after = _listing_of(old), _listing_of(new)
    gone = [f"shard {name!r} is gone" for name in before if name not in after]
    added = [f"shard {name!r} is new" for name in after if name not in before]
    changed = []
    for name, numbers in after.items():
        if name in before and before[name] != numbers:
            (rows_old, size_old, _), (rows, size, _) = before[name], numbers
            parts = [f"{rows_old} -> {rows} rows"] if rows_old != rows else []
            parts += [f"{size_old} -> {size} bytes"] if size_old != size else []
            changed.append(f"shard {name!r}: {', '.join(parts) or 'other content'}")
    return [line for lines in (changed, gone, added) for line in _some(lines)]


def _some(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _MOST_NAMED
    return list(lines) if more <= 0 else [*lines[:_MOST_NAMED], f"... and {more} more shards of this kind"]


def _listing_of(identity: Mapping[str, Any]) -> dict[str, tuple[int, int, int]]:
    names = _unpack(identity["listing"]["names"]).decode().split("\0")
    numbers = np.frombuffer(_unpack(identity["listing"]["numbers"]), "<i8").reshape(3, -1)
    return {name: (int(a), int(b), int(c)) for name, a, b, c in zip(names, *numbers, strict=True)}


def _marks_of(identity: Mapping[str, Any]) -> npt.NDArray[np.uint32]:
    if "marks" in identity["listing"]:
        return np.frombuffer(_unpack(identity["listing"]["marks"]), "<u4")
    listing = _listing_of(identity)
    return _marks(list(listing), np.array(list(listing.values()), "<i8").reshape(-1, 3).T)


def _marks(names: Sequence[str], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Four bytes per shard: CRC-32 of its numbers and name. The digest decides equality; these only say where."""
    rows = np.ascontiguousarray(numbers.T).astype("<i8")
    marks = [zlib.crc32(name.encode(), zlib.crc32(rows[i])) for i, name in enumerate(names)]
    return np.array(marks, "<u4")


def _pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _unpack(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))
