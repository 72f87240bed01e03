"""index.json: which chunks a directory has, with their rows, and what a row consists of. Read once for all its chunks.

The layout is ``{"chunks": [...], "config": {...}}``: one object per chunk, one description of rows for all.
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
from zephon_litdata.errors import corrupt, mismatch, unsupported

INDEX_NAME: Final = "index.json"
#: Offsets within a chunk are 32-bit numbers.
_MOST_BYTES: Final = 1 << 32
_LOADERS: Final = frozenset({None, "PyTreeLoader", "TokensLoader"})


@attrs.frozen(slots=True, kw_only=True)
class Entry:
    """What index.json says of one chunk.

    Attributes:
        items: number of items.
        stated_bytes: bytes of the chunk, without the compression of the whole; see :meth:`possible_sizes`.
        tokens: number of tokens in all items; None where items are not token streams.
        compression: "" or "zstd".
        level: what is compressed: "chunk", "batch" or "sample".
        formats: serializer of each leaf of an item.
        spec: the tree that an item is, as LitData writes it; "" if it does not.
        is_tokens: whether items are pieces of one token stream.
    """

    items: int
    stated_bytes: int
    tokens: int | None
    compression: str
    level: str
    formats: Sequence[str]
    spec: str
    is_tokens: bool

    def possible_sizes(self) -> tuple[int, int]:
        """Bytes of the chunk before it was compressed: older versions did not count the offsets at its beginning."""
        return self.stated_bytes, self.stated_bytes + 4 * (self.items + 2)

    def to_json(self) -> str:
        """Inverse of :meth:`from_json`."""
        return json.dumps(attrs.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Entry:
        """Inverse of :meth:`to_json`."""
        return cls(**json.loads(text))


def entry_of(shard: Shard, context: ShardContext) -> Entry:
    """What the index.json of a chunk says of it, compared with the file and with the chunk that follows in it.

    That every chunk looks for its successor finds each file that is missing, at one question per chunk.

    Raises:
        ShardError: ``index-file-mismatch``, ``shard-corrupt``, ``shard-unsupported``.
    """
    folder, _, name = shard.url.rpartition("/")
    catalog = _catalogs.get(shard, f"{folder}/{INDEX_NAME}", context)
    place = catalog.places.get(name)
    if place is None:
        raise mismatch(
            shard,
            f"index.json lists {len(catalog.chunks)} chunks, and {name} is not one of them",
            "move the file out of the dataset, or write the dataset again",
        )
    try:
        entry = _entry(catalog.chunks[place], catalog.config)
        loader = catalog.config.get("item_loader")
        encryption = catalog.config.get("encryption")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise corrupt(shard, f"its entry in index.json cannot be read: {type(error).__name__}: {error}") from error
    if encryption:
        raise unsupported(shard, "it is encrypted", "decrypt it where the keys are, and train on the copy")
    if loader not in _LOADERS:
        raise unsupported(
            shard, f"it was written for the item loader {loader!r}", "read Parquet files with fmt='parquet'"
        )
    if entry.compression not in ("", "zstd"):
        raise unsupported(shard, f"its compression is {entry.compression!r}", "write it with zstd or none")
    if not (entry.compression and entry.level == "chunk") and shard.file.size not in entry.possible_sizes():
        raise corrupt(shard, f"{shard.file.size} bytes where index.json says {entry.stated_bytes}")
    following = catalog.names[(place + 1) % len(catalog.names)]
    if following != name and not _exists(f"{folder}/{following}", context):
        raise mismatch(shard, f"index.json lists {following}, which is not there", "copy the missing file as well")
    return entry


@attrs.frozen(slots=True, eq=False)
class _Catalog:
    """One index.json: its entries, their file names, and the place of each name."""

    chunks: Sequence[Mapping[str, Any]]
    config: Mapping[str, Any]
    names: Sequence[str]
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
        chunks, config = stated["chunks"], stated["config"]
        names = [str(chunk["filename"]) for chunk in chunks]
        if not isinstance(config, dict):
            raise TypeError(f"config is {config!r}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ShardError(
            f"the {INDEX_NAME} of {shard.name} cannot be read",
            found=f"{len(text)} bytes: {type(error).__name__}: {error}",
            fix="copy it again, or write the dataset again",
            code="shard-corrupt",
        ) from error
    return _Catalog(chunks, config, names, {name: place for place, name in enumerate(names)})


def _entry(chunk: Mapping[str, Any], config: Mapping[str, Any]) -> Entry:
    formats = config["data_format"]
    if not isinstance(formats, list) or not formats or not all(isinstance(name, str) for name in formats):
        raise TypeError(f"data_format is {formats!r}")
    items, size, tokens = chunk["chunk_size"], chunk["chunk_bytes"], chunk.get("dim")
    if not _is_count(items) or not _is_count(size) or size >= _MOST_BYTES or not (tokens is None or _is_count(tokens)):
        raise ValueError(f"{items!r} items with {tokens!r} tokens in {size!r} bytes")
    spec = config["data_spec"] or ""
    level = config.get("compression_level") or "chunk"
    if not isinstance(spec, str) or level not in ("chunk", "batch", "sample"):
        raise ValueError(f"data_spec {spec!r}, compression_level {level!r}")
    is_tokens = config.get("item_loader") == "TokensLoader"
    if is_tokens and len(formats) != 1:
        raise ValueError(f"tokens in {len(formats)} leaves")
    return Entry(
        items=items,
        stated_bytes=size,
        tokens=tokens,
        compression=str(config.get("compression") or "").partition(":")[0],
        level=level,
        formats=formats,
        spec=spec,
        is_tokens=is_tokens,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _exists(url: str, context: ShardContext) -> bool:
    try:
        context.size(url)
    except FileNotFoundError:
        return False
    return True
