"""Datasets: named collections of shards, in files or in memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon import spec
from zephon.block import META_CONFLICT, unify_schemas
from zephon.errors import ConfigError
from zephon.io.identity import make_identity
from zephon.io.memory import MemorySource, shards_of
from zephon.io.shards import Names
from zephon.io.source import FileRecipe, FileSource, ShardSource
from zephon.io.urls import display

PathLike = str | os.PathLike[str]


class Dataset:
    """A named collection of rows in shards. Immutable, thread-safe; can be sent to worker processes.

    Made by :meth:`from_path` and :meth:`from_dict`. Making one finds its files and their format; rows are counted, and
    the schema is found, when first asked for, and remembered in an index beside the data.

    Attributes:
        name: its name: randomness and mixtures are keyed by it.
    """

    def __init__(
        self, name: str, source: ShardSource, *, columns: Sequence[str] | None, recipe: FileRecipe | None
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigError(
                "a dataset needs a name",
                found=repr(name),
                fix='e.g. Dataset.from_path("web", ...)',
                code="dataset-name",
            )
        self.name = name
        self._source = source
        self._columns = None if columns is None else tuple(columns)
        self._recipe = recipe
        self._lock = threading.Lock()
        self._facts: tuple[pa.Schema, Mapping[str, str]] | None = None

    @classmethod
    def from_path(
        cls,
        name: str,
        path: PathLike | Sequence[PathLike],
        *,
        fmt: str | None = None,
        columns: Sequence[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        format_options: Mapping[str, Any] | None = None,
        index_dir: PathLike | None = None,
    ) -> Dataset:
        """A dataset of files.

        Args:
            name: the dataset's name.
            path: a directory, read recursively; a glob (``*``, ``?`` and ``[...]`` within a name, ``**`` across
                directories) or a brace pattern (``shard-{000..127}.jsonl``); one file; a URL of any of these; or a list
                of any of these. Names that start with ``.`` or ``_`` are passed over, unless the path asks for them.
            fmt: registered name of the format; by default it is recognised: by index files, then content and suffix.
            columns: top-level fields to read, in this order; by default all of them.
            storage_options: for the storage backend, e.g. credentials. They are never shown and never saved.
            format_options: the format's own settings.
            index_dir: directory to keep the index in; by default ``.zephon`` beside the data, or, where that cannot be
                written, ``$ZEPHON_CACHE_DIR`` or the user's cache directory.

        Raises:
            ConfigError: ``path-missing``, ``path-empty``, ``path-unreadable``, ``no-shard``, ``format-unknown``,
                ``format-ambiguous``, ``bad-spec``, ``storage-scheme``, ``storage-options``.
            PluginError: a format or storage that is unknown or broken.
            StorageError: ``storage-unavailable``.
        """
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        recipe = FileRecipe(
            name=name,
            paths=tuple(os.fspath(p) for p in paths),
            fmt=fmt,
            format_options=dict(format_options or {}),
            storage_options=dict(storage_options or {}),
            index_dir=None if index_dir is None else os.fspath(index_dir),
        )
        return cls(name, FileSource(recipe), columns=_checked_columns(name, columns), recipe=recipe)

    @classmethod
    def from_dict(cls, name: str, rows_or_shards: Any, *, columns: Sequence[str] | None = None) -> Dataset:
        """A dataset in memory.

        Args:
            name: the dataset's name.
            rows_or_shards: a list of dicts; an Arrow table or record batch; or a dict of these by shard name (shards
                are in order of their names). Fields that a row lacks are null.
            columns: top-level fields to use, in this order; by default all of them.

        Raises:
            ConfigError: ``dataset-rows`` for what is no row, or a field without a single Arrow type.
        """
        source = MemorySource(name, shards_of(name, rows_or_shards))
        return cls(name, source, columns=_checked_columns(name, columns), recipe=None)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], *, storage_options: Mapping[str, Any] | None = None) -> Dataset:
        """Inverse of :meth:`to_plain`; what may not be written down is given again.

        Raises:
            ConfigError: ``bad-spec`` for unknown or missing settings; and as :meth:`from_path`.
        """
        allowed = {"name", "path", "fmt", "columns", "format_options"}
        if not {"name", "path"} <= set(plain) <= allowed:
            raise ConfigError(
                "these settings do not make a Dataset",
                found=", ".join(sorted(plain)),
                fix="name and path are needed; fmt, columns and format_options may be given",
                code="bad-spec",
            )
        options = {key: plain[key] for key in ("fmt", "columns", "format_options") if key in plain}
        return cls.from_path(plain["name"], plain["path"], storage_options=storage_options, **options)

    def to_plain(self) -> dict[str, Any]:
        """The dataset as a recipe writes it: name, path, format, columns, format options. URLs lose userinfo and query.

        Raises:
            ConfigError: ``dataset-not-portable`` for a dataset in memory.
        """
        recipe = self._recipe
        if recipe is None:
            raise ConfigError(
                f"dataset {self.name!r} cannot be written down",
                found="its rows are in memory",
                fix=f"save them to a file and use Dataset.from_path({self.name!r}, ...)",
                code="dataset-not-portable",
            )
        paths = [display(path) for path in recipe.paths]
        plain: dict[str, Any] = {"name": self.name, "path": paths[0] if len(paths) == 1 else paths}
        if recipe.fmt is not None:
            plain["fmt"] = recipe.fmt
        if self._columns is not None:
            plain["columns"] = list(self._columns)
        if recipe.format_options:
            plain["format_options"] = spec.to_plain(recipe.format_options)
        return plain

    def __repr__(self) -> str:
        where = "in memory" if self._recipe is None else ", ".join(map(display, self._recipe.paths[:3]))
        return f"<Dataset {self.name!r}: {self.shard_count()} shards, {where}>"

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in {"_lock", "_facts"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._facts = None

    def __len__(self) -> int:
        return self.total()

    def __bool__(self) -> bool:
        """True; asking does not count rows."""
        return True

    def total(self) -> int:
        """Number of rows.

        Raises:
            ConfigError: ``dataset-empty``.
            ShardError: a shard cannot be indexed.
            StorageError: the storage did not answer.
        """
        return int(self.shard_rows.sum())

    def shard_count(self) -> int:
        """Number of shards; needs no index."""
        return len(self._source.names)

    def total_bytes(self) -> int:
        """Bytes of all shards as they lie: of files compressed or not, or of Arrow memory; needs no index."""
        return int(self._source.sizes.sum())

    @property
    def format_name(self) -> str:
        """Registered name of the format, or ``"memory"``."""
        return self._source.format_name

    @property
    def index_path(self) -> str:
        """The file the index is kept in; "" for a dataset in memory or where none could be written."""
        return self._source.index_path

    @property
    def shard_names(self) -> Names:
        """Names of the shards, in order, relative to the dataset's directory; needs no index."""
        return self._source.names

    @property
    def shard_rows(self) -> npt.NDArray[np.int64]:
        """Rows of each shard, int64 ``[shards]``, read-only.

        Raises:
            ConfigError: ``dataset-empty``; others as :meth:`total`.
        """
        rows = self._source.rows
        if not rows.any():
            raise ConfigError(
                f"dataset {self.name!r} has no rows",
                found=f"{len(rows)} shards of 0 rows"
                + ("" if self._recipe is None else f" at {', '.join(map(display, self._recipe.paths[:3]))}"),
                fix="point it at files that hold rows, or leave it out of the mixture",
                code="dataset-empty",
            )
        view = rows.view()
        view.flags.writeable = False
        return view

    @property
    def schema(self) -> pa.Schema:
        """Fields of its rows, in canonical types: the union over its shards, or the columns chosen.

        A field whose types conflict between shards is left out; see :attr:`conflicts`.

        Raises:
            ConfigError: ``column-missing``; others as :meth:`total`.
        """
        return self._schema_and_conflicts()[0]

    @property
    def conflicts(self) -> Mapping[str, str]:
        """Fields whose types conflict between shards, each with the types and a shard that has it."""
        return self._schema_and_conflicts()[1]

    @property
    def fingerprint(self) -> str:
        """Hash of :meth:`identity`: 64 hexadecimal digits, the same wherever the data lies."""
        return spec.fingerprint(self.identity())

    def identity(self) -> dict[str, Any]:
        """What must agree to resume a run, as plain data: relative shard names, rows, bytes and schema.

        :func:`zephon.io.identity_differences` names what differs between two.
        """
        source = self._source
        return make_identity(source.names, self.shard_rows, source.sizes, self.schema, source.digests)

    def head(self, n: int = 5) -> list[dict[str, Any]]:
        """The first ``n`` rows by row number, over shards in order; rows that cannot be read are passed over."""
        from zephon.io.sample import first_rows

        rows: list[dict[str, Any]] = first_rows(self, n)[0].to_pylist()
        return rows

    def _schema_and_conflicts(self) -> tuple[pa.Schema, Mapping[str, str]]:
        if self._facts is None:
            with self._lock:
                if self._facts is None:
                    self._facts = self._find_schema()
        return self._facts

    def _find_schema(self) -> tuple[pa.Schema, Mapping[str, str]]:
        source = self._source
        _, first = np.unique(source.schema_ids, return_index=True)
        named = {source.names[int(i)]: source.schemas[source.schema_ids[i]] for i in np.sort(first)}
        schema, found = unify_schemas(named)
        conflicts = {
            field: "; ".join(f"{kind} in shard {shard!r}" for shard, kind in types.items())
            for field, types in found.items()
        }
        # A format marks fields that have no one type even within a shard; they are of type null there.
        for shard, of_shard in named.items():
            for field in of_shard:
                why = (field.metadata or {}).get(META_CONFLICT)
                if why is not None:
                    conflicts.setdefault(field.name, f"{why.decode()} in shard {shard!r}")
        schema = pa.schema([field for field in schema if field.name not in conflicts])
        if self._columns is None:
            return schema, conflicts
        for column in self._columns:
            if column not in schema.names:
                raise ConfigError(
                    f"dataset {self.name!r} has no column {column!r}",
                    found=conflicts.get(column) or f"its columns are {', '.join(schema.names) or '(none)'}",
                    fix="correct columns=...",
                    code="column-missing",
                )
        chosen = pa.schema([schema.field(column) for column in self._columns])
        return chosen, {field: why for field, why in conflicts.items() if field in self._columns}


def _checked_columns(name: str, columns: Iterable[str] | None) -> tuple[str, ...] | None:
    if columns is None:
        return None
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    if len(set(chosen)) != len(chosen):
        raise ConfigError(
            f"dataset {name!r} is asked for a column twice",
            found=", ".join(chosen),
            fix="name each column once",
            code="column-missing",
        )
    return chosen
