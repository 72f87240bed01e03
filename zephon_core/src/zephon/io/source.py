"""Where a dataset's shards come from: the small contract between a dataset and its readers, and the files behind it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import ShardContext, ShardFormat, ShardIndex, ShardReader
from zephon.errors import ConfigError, ShardError
from zephon.io.index import DamagedIndexError, Index
from zephon.io.indexing import IndexJob, guarded, index_shard, make_index
from zephon.io.listing import list_files
from zephon.io.recognise import index_files_of, make_format, recognise
from zephon.io.shards import Names, ShardTable
from zephon.io.storage import StorageContext, Storages
from zephon.io.urls import absolute, display
from zephon.plugins import registry
from zephon.spec import to_plain

if TYPE_CHECKING:
    from zephon.io.cache import ShardCache


class ShardSource(Protocol):
    """Shards in order of their names, and readers of them. Thread-safe; can be pickled."""

    @property
    def format_name(self) -> str:
        """Registered name of the format, or ``"memory"``."""

    @property
    def index_path(self) -> str:
        """The file the index is kept in, or ""."""

    @property
    def names(self) -> Names:
        """Names of the shards."""

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Rows of each shard, int64 ``[shards]``."""

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each shard, int64 ``[shards]``."""

    @property
    def digests(self) -> npt.NDArray[np.uint64] | None:
        """A hash of each shard's content where the content is at hand, uint64 ``[shards]``."""

    @property
    def schemas(self) -> Sequence[pa.Schema]:
        """The distinct schemas of shards, in order of first appearance."""

    @property
    def schema_ids(self) -> npt.NDArray[np.int32]:
        """Which schema each shard has, int32 ``[shards]``."""

    def index(self, shard: int) -> ShardIndex:
        """What is known of a shard."""

    def context(self, cache: ShardCache | None = None) -> StorageContext:
        """A storage context for readers; its user closes it."""

    def open(self, shard: int, index: ShardIndex, context: ShardContext) -> ShardReader:
        """A reader of a shard.

        Raises:
            ShardError, StorageError, EngineError: with the shard named.
        """

    def guard(self, shard: int) -> guarded:
        """A context manager in which a reader of the shard is used."""


@attrs.frozen(slots=True, kw_only=True)
class FileRecipe:
    """What the user said about a dataset of files.

    Attributes:
        name: the dataset.
        paths: directories, files, globs, URLs.
        fmt: registered name of the format, or None to recognise it.
        format_options: the format's settings.
        storage_options: for the storage backends; never shown.
        index_dir: where to keep the index, or None.
    """

    name: str
    paths: tuple[str, ...]
    fmt: str | None = None
    format_options: Mapping[str, Any] = attrs.field(factory=dict)
    storage_options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    index_dir: str | None = None


class FileSource:
    """Shards in files. Listed and recognised when made, indexed at first need.

    Raises:
        ConfigError: ``path-missing``, ``path-empty``, ``path-unreadable``, ``format-unknown``, ``format-ambiguous``,
            ``no-shard``, ``bad-spec``, ``storage-...``.
        PluginError: a format or storage that is unknown or broken.
    """

    def __init__(self, recipe: FileRecipe) -> None:
        self._recipe = recipe
        self._storages = Storages(recipe.storage_options)
        self._lock = threading.Lock()
        self._index: Index | None = None
        context = self.context()
        listing = list_files(recipe.paths, context)
        self._format_name = recipe.fmt or recognise(recipe.name, listing, context, recipe.format_options)
        self.format: ShardFormat = make_format(self._format_name, recipe.format_options)
        self.root = listing.root
        marks = index_files_of(self._format_name)
        # the format's own index files count even where their names look hidden
        files = [*listing.files, *(f for f in listing.hidden if f.name.rpartition("/")[2] in marks)]
        self.shards = ShardTable.of(self.format.discover(files), self._format_name)
        if not len(self.shards):
            shown = ", ".join(f.name for f in files[:5]) + (", ..." if len(files) > 5 else "")
            raise ConfigError(
                f"dataset {recipe.name!r}: nothing at {listing.shown} is a shard of format {self._format_name!r}",
                found=f"{len(files)} files: {shown}" if files else f"{len(listing.hidden)} hidden files",
                fix="check the path, or name the format the files are of with fmt=...",
                code="no-shard",
            )

    def __getstate__(self) -> dict[str, Any]:
        """All but locks, backends and memory maps: the other side loads the same index, or builds it."""
        rows = self._index.rows if self._index is not None else None
        return {
            "recipe": self._recipe,
            "format_name": self._format_name,
            "root": self.root,
            "shards": self.shards,
            "rows": rows,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._recipe = state["recipe"]
        self._storages = Storages(self._recipe.storage_options)
        self._lock = threading.Lock()
        self._index = None
        self._format_name = state["format_name"]
        self.format = make_format(self._format_name, self._recipe.format_options)
        self.root = state["root"]
        self.shards = state["shards"]
        if state["rows"] is not None and not np.array_equal(state["rows"], self.rows):
            raise ShardError(
                f"dataset {self._recipe.name!r} changed while the run was being started",
                found="a worker counts other rows than the main process did",
                fix="do not change files while they are read; start again",
                code="shard-changed",
            )

    @property
    def format_name(self) -> str:
        """Registered name of the format."""
        return self._format_name

    @property
    def names(self) -> Names:
        """Names of the shards; needs no index."""
        return Names(self.shards.names)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Rows of each shard, int64 ``[shards]``."""
        return self._indexed().rows

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each shard's file, int64 ``[shards]``."""
        return self.shards.sizes

    @property
    def digests(self) -> None:
        """Files are not hashed."""
        return

    @property
    def schemas(self) -> Sequence[pa.Schema]:
        """The distinct schemas of shards, in order of first appearance."""
        return self._indexed().schemas

    @property
    def schema_ids(self) -> npt.NDArray[np.int32]:
        """Which schema each shard has, int32 ``[shards]``."""
        return self._indexed().schema_ids

    @property
    def index_path(self) -> str:
        """The file the index is kept in, "" where it could be written nowhere."""
        return self._indexed().path

    def index(self, shard: int) -> ShardIndex:
        """What is known of a shard; made anew where the saved entry is damaged."""
        try:
            return self._indexed().entry(shard)
        except DamagedIndexError:
            return index_shard(self._job(), self.shards[shard])

    def context(self, cache: ShardCache | None = None) -> StorageContext:
        """A storage context over this dataset's backends."""
        return StorageContext(self._storages, cache=cache)

    def open(self, shard: int, index: ShardIndex, context: ShardContext) -> ShardReader:
        """A reader of a shard."""
        described = self.shards[shard]
        with self.guard(shard):
            # Elsewhere this would cost a request for every shard that is opened.
            size = context.size(described.url) if context.local_path(described.url) is not None else -1
            if size not in {-1, described.file.size}:
                raise ShardError(
                    f"shard {described.name!r} of dataset {self._recipe.name!r} has changed since it was listed",
                    found=f"{display(described.url)} has {size} bytes, it had {described.file.size}",
                    fix="do not change files while they are read; make the dataset anew if they were replaced",
                    code="shard-changed",
                )
            return self.format.open(described, index, context)

    def guard(self, shard: int) -> guarded:
        """Names the shard in whatever its reader raises."""
        return guarded(self._recipe.name, self._format_name, self.shards[shard])

    def _job(self) -> IndexJob:
        requirement = registry("shard_format").requirement(self._format_name)
        # Relative to the dataset's directory, so that data and index can be moved together.
        root = display(self.root) if self.root is not None else ""
        below = [display(absolute(path)).removeprefix(root) for path in self._recipe.paths]
        subject = {
            "format": self._format_name,
            "plugin": [requirement.distribution, requirement.version],
            "options": to_plain(self.format, portable=False),
            "files": sorted(below),
        }
        return IndexJob(
            name=self._recipe.name,
            shards=self.shards,
            format_name=self._format_name,
            fmt=self.format,
            context=self.context(),
            subject=subject,
            root=self.root,
            directory=self._recipe.index_dir,
        )

    def _indexed(self) -> Index:
        if self._index is None:
            with self._lock:
                if self._index is None:
                    self._index = make_index(self._job())
        return self._index
