"""``zephon.shard_format.v1``: how rows lie in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc.storage import FileInfo


@attrs.frozen(slots=True, kw_only=True)
class FileHead:
    """What recognition looks at: a file's facts and its first bytes (at most 4096)."""

    info: FileInfo
    head: bytes


@attrs.frozen(slots=True, kw_only=True)
class Shard:
    """Whatever a format addresses by ``(url, part)``: a file, a run of row groups, a fragment.

    Attributes:
        url: the file.
        part: the piece of it, or "" for all.
        name: relative, stable name: identity of the shard within its dataset, independent of location.
        file: the file's facts at discovery.
    """

    url: str
    part: str = ""
    name: str
    file: FileInfo


@attrs.frozen(slots=True, kw_only=True)
class ShardIndex:
    """What indexing finds out about one shard.

    Attributes:
        rows: number of rows.
        units: int64 ``[u + 1]`` row boundaries of runs that decode independently, from 0 to ``rows``; None where any
            row can be read alone at a cost proportional to itself.
        schema: Arrow schema of the shard in canonical types; a zero-row shard may have no fields.
        blob: the format's own arrays, e.g. byte offsets: one record batch of any schema, or None.
        bad_rows: rows known to be malformed: ``(row, byte offset, reason)``. They stay rows, so that numbering does not
            depend on ``on_error``.
    """

    rows: int
    units: npt.NDArray[np.int64] | None = attrs.field(default=None, eq=attrs.cmp_using(eq=np.array_equal))
    schema: pa.Schema
    blob: pa.RecordBatch | None = None
    bad_rows: tuple[tuple[int, int, str], ...] = ()


class ShardContext(Protocol):
    """What the core hands to a format: storage that is already chosen, authenticated and retried."""

    def size(self, url: str) -> int:
        """Bytes of the file now."""

    def read_ranges(self, url: str, ranges: Sequence[tuple[int, int]]) -> Sequence[pa.Buffer]:
        """As :meth:`StorageBackend.read_ranges`, with retries."""

    def read_all(self, url: str) -> pa.Buffer:
        """The whole file; memory-mapped where it is local."""

    def local_path(self, url: str) -> str | None:
        """Path on this machine's disk, or None where the file is elsewhere."""

    def open_random_access(self, url: str) -> pa.NativeFile:
        """A seekable file for libraries that want one (``pyarrow.parquet.ParquetFile``); the caller closes it."""


class ShardReader(ABC):
    """Reads rows of one shard. Used by one thread at a time; the core keeps several per shard where it must."""

    @abstractmethod
    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """The rows asked for, in the order asked for.

        Args:
            rows: int64 ``[n]``, strictly increasing, each in ``[0, index.rows)``; may be empty.
            columns: top-level fields wanted, in this order, all of the shard's schema; None for all; may be empty, in
                which case the batch has no column and ``n`` rows.

        Returns:
            ``n`` rows, canonical types (see ``zephon.abc.shard`` notes in docs/contracts), the shard's schema or its
            projection. Strings own or share any memory; the core copies where it must.

        Raises:
            BadRowsError: rows that cannot be decoded: *all* bad ones of this call, by their number in the shard.
            ShardError: the shard is not what the index says.
        """

    def close(self) -> None:  # noqa: B027 - most readers hold nothing
        """Release files. Called once; the reader is not used again."""


class ShardFormat(ABC):
    """One way to lay rows into files. An attrs class: its fields are the format's options and enter the fingerprint."""

    @abstractmethod
    def recognise(self, head: FileHead) -> bool:
        """Whether this file is of this format, judged by content first and suffix second."""

    @abstractmethod
    def discover(self, files: Sequence[FileInfo]) -> Iterable[Shard]:
        """The shards in a listing, in any order: the core sorts by name.

        Files that are not of this format are passed over (a README beside the data).
        """

    @abstractmethod
    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """Find rows, units and schema of one shard, reading no more than that takes.

        Raises:
            ShardError: truncated, or not of this format.
        """

    @abstractmethod
    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> ShardReader:
        """A reader of one indexed shard. Cheap: what the index knows is not read again."""


@runtime_checkable
class RangedShard(Protocol):
    """Capability ``ranges``: the reader can tell beforehand which bytes it will read."""

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """int64 ``[n, 2]`` half-open byte ranges, sorted, not overlapping."""


@runtime_checkable
class PushesPredicate(Protocol):
    """Capability ``predicate``: units that cannot hold a matching row can be told without decoding them."""

    def may_match(self, predicate: Any, units: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """For each unit, False if surely no row of it matches the Arrow expression."""


@runtime_checkable
class WritesShards(Protocol):
    """Capability ``write``: one shard can be written from record batches."""

    def write(self, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Write one shard to a local path."""
