"""index.json: which shards a directory has, with their rows, columns and hashes. Read once for all its shards.

The layout is that of version 2, the only one there is: ``{"version": 2, "shards": [...]}``, one object per shard.
Names in it are relative to its directory; a merged index names files in folders below.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final
from weakref import WeakKeyDictionary

import attrs

from zephon.abc import Shard, ShardContext
from zephon.errors import ShardError
from zephon_mds.errors import corrupt, mismatch

INDEX_NAME: Final = "index.json"
#: Offsets within a shard are 32-bit numbers.
_MOST_BYTES: Final = 1 << 32


@attrs.frozen(slots=True, kw_only=True)
class Entry:
    """What index.json says of one shard.

    Attributes:
        rows: number of rows.
        names: columns, as they lie in a row.
        encodings: MDS encoding of each column.
        sizes: bytes each column takes in every row; None where that varies.
        compression: "" or the family, without level: "zstd".
        raw_bytes: bytes of the shard, uncompressed.
        stored_bytes: bytes of its file.
        hashes: of the file as it is stored, by algorithm.
    """

    rows: int
    names: Sequence[str]
    encodings: Sequence[str]
    sizes: Sequence[int | None]
    compression: str
    raw_bytes: int
    stored_bytes: int
    hashes: Mapping[str, str]

    def to_json(self) -> str:
        """Inverse of :meth:`from_json`."""
        return json.dumps(attrs.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Entry:
        """Inverse of :meth:`to_json`."""
        return cls(**json.loads(text))


def entry_of(shard: Shard, context: ShardContext) -> Entry:
    """What the index.json of a shard says of it, compared with the file and with the shard that follows in it.

    That every shard looks for its successor finds each file that is missing, at one question per shard.

    Raises:
        ShardError: ``index-file-mismatch``, ``shard-corrupt``, ``shard-unsupported``.
    """
    folder, name = _split(shard)
    catalog = _catalogs.get(shard, folder + INDEX_NAME, context)
    place = catalog.places.get(name)
    if place is None:
        raise mismatch(
            shard,
            f"index.json lists {len(catalog.shards)} shards, and {name} is not one of them",
            "move the file out of the dataset, or write index.json again with streaming.base.util.merge_index",
        )
    stated = catalog.shards[place]
    try:
        entry = _entry(stated, name)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise corrupt(shard, f"its entry in index.json cannot be read: {type(error).__name__}: {error}") from error
    if entry.stored_bytes != shard.file.size:
        raise corrupt(shard, f"{shard.file.size} bytes where index.json says {entry.stored_bytes}")
    following = catalog.shards[(place + 1) % len(catalog.shards)]
    if following is not stated and not any(_exists(folder + other, context) for other in _file_names(following)):
        raise mismatch(
            shard,
            f"index.json lists {' or '.join(_file_names(following)) or 'a shard without a file'}, which is not there",
            "copy the missing file as well, or write index.json again with streaming.base.util.merge_index",
        )
    return entry


@attrs.frozen(slots=True, eq=False)
class _Catalog:
    """One index.json: its entries, and the place of each file name among them."""

    shards: Sequence[Mapping[str, Any]]
    places: Mapping[str, int]


class _Catalogs:
    """Each index.json is read once per context. Thread-safe: the first caller reads, the others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[ShardContext, dict[str, Future[_Catalog]]] = WeakKeyDictionary()

    def get(self, shard: Shard, url: str, context: ShardContext) -> _Catalog:
        with self._lock:
            try:
                of_context = self._known.setdefault(context, {})
            except TypeError:
                # A context of slots: nothing can be kept for as long as it lives.
                of_context = {}
            waiting = of_context.get(url)
            if waiting is None:
                mine = of_context[url] = Future()
        if waiting is not None:
            return waiting.result()
        try:
            catalog = _load(shard, url, context)
        except BaseException as error:
            with self._lock:
                del of_context[url]  # the next call tries again
            mine.set_exception(error)
            raise
        mine.set_result(catalog)
        return catalog


_catalogs: Final = _Catalogs()


def _load(shard: Shard, url: str, context: ShardContext) -> _Catalog:
    try:
        text = context.read_all(url).to_pybytes()
    except FileNotFoundError as error:
        raise mismatch(
            shard, f"there is no {INDEX_NAME} where it belongs", "copy index.json as well: it is part of the dataset"
        ) from error
    try:
        stated = json.loads(text)
        shards = stated["shards"]
        places = {name: place for place, entry in enumerate(shards) for name in _file_names(entry)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ShardError(
            f"the {INDEX_NAME} of {shard.name} cannot be read",
            found=f"{len(text)} bytes: {type(error).__name__}: {error}",
            fix="copy it again, or write it again with streaming.base.util.merge_index",
            code="shard-corrupt",
        ) from error
    return _Catalog(shards, places)


def _entry(stated: Mapping[str, Any], name: str) -> Entry:
    if stated["version"] != 2 or stated["format"] != "mds":
        raise ValueError(f"version {stated['version']!r} of {stated['format']!r}; version 2 of 'mds' is read")
    names, encodings, sizes = stated["column_names"], stated["column_encodings"], stated["column_sizes"]
    if not len(names) == len(encodings) == len(sizes) or len(set(names)) != len(names):
        raise ValueError("it does not give every column one name, one encoding and one size")
    if not all(isinstance(text, str) for text in (*names, *encodings)):
        raise TypeError("names and encodings of columns are texts")
    if not all(size is None or (_is_count(size) and size > 0) for size in sizes):
        raise ValueError(f"column sizes {sizes}")
    raw = stated["raw_data"]
    if not _is_count(stated["samples"]) or not _is_count(raw["bytes"]) or raw["bytes"] >= _MOST_BYTES:
        raise ValueError(f"{stated['samples']!r} rows in {raw['bytes']!r} bytes")
    is_raw = raw["basename"] == name
    file = raw if is_raw else stated["zip_data"]
    return Entry(
        rows=stated["samples"],
        names=list(names),
        encodings=list(encodings),
        sizes=list(sizes),
        compression="" if is_raw else str(stated["compression"]).partition(":")[0],
        raw_bytes=raw["bytes"],
        stored_bytes=file["bytes"],
        hashes={str(algorithm): str(digest) for algorithm, digest in (file.get("hashes") or {}).items()},
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _file_names(stated: Mapping[str, Any]) -> list[str]:
    """The files a shard may be in: uncompressed, compressed."""
    return [str(file["basename"]) for file in (stated.get("raw_data"), stated.get("zip_data")) if file]


def _split(shard: Shard) -> tuple[str, str]:
    """The URL of the index's directory, with its slash, and the shard's name in the index."""
    base = shard.url.rpartition("/")[2]
    name = f"{shard.part}/{base}" if shard.part else base
    return shard.url[: len(shard.url) - len(name)], name


def _exists(url: str, context: ShardContext) -> bool:
    try:
        context.size(url)
    except FileNotFoundError:
        return False
    return True
