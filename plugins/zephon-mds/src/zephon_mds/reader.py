"""Reading rows of an indexed shard."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext, ShardReader
from zephon.block import MAX_COLUMN_BYTES, META_CONFLICT, empty_batch, empty_columns
from zephon.errors import BadRow, BadRowsError, ConfigError, ShardError
from zephon_mds import columns as mds_columns
from zephon_mds.cells import BadValuesError, Cells, TooLargeError
from zephon_mds.content import read_whole
from zephon_mds.errors import changed
from zephon_mds.layout import Layout, parse_offsets

_UNEVEN = "the sizes of its columns do not add up to the row's"


class MdsReader(ShardReader):
    """Reads rows of one shard: by range, or, if it is compressed or its hash is asked for, whole and once."""

    def __init__(
        self, shard: Shard, schema: pa.Schema, layout: Layout, context: ShardContext, validate_hash: str
    ) -> None:
        self._shard = shard
        self._schema = schema
        self._layout = layout
        self._context = context
        self._hash = validate_hash
        self._content: pa.Buffer | None = None
        self._offsets = layout.offsets

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``.
            ShardError: ``field-conflict`` for a column that cannot be read; ``shard-changed``, ``shard-corrupt``,
                ``shard-rows-too-large``.
            ConfigError: ``column-missing``, ``hash-unavailable``.
        """
        schema = self._projection(columns)
        if len(schema) == 0:
            return empty_columns(len(rows))
        if len(rows) == 0:
            return empty_batch(schema)
        data, starts, stops = self._fetch(rows)
        array = np.frombuffer(data, np.uint8)
        bounds, is_whole = mds_columns.sizes_of(array, starts, stops, list(self._layout.entry.sizes))
        bad = dict.fromkeys(np.flatnonzero(~is_whole).tolist(), _UNEVEN)
        kept = np.flatnonzero(is_whole)
        arrays = []
        for field in schema:
            column = list(self._layout.entry.names).index(field.name)
            cells = Cells(data, bounds[kept, column], bounds[kept, column + 1])
            try:
                arrays.append(mds_columns.decode(self._layout.entry.encodings[column], field.type, cells))
            except BadValuesError as error:
                for place, reason in error.reasons.items():
                    bad.setdefault(int(kept[place]), f"field {field.name!r}: {reason}")
            except TooLargeError as error:
                raise self._too_large(field.name, len(rows)) from error
        if bad:
            self._refuse(rows, bad)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """See :class:`zephon.abc.RangedShard`. The columns of a row lie together: they make no difference."""
        if len(rows) == 0 or self._layout.size == 0:
            return np.empty((0, 2), dtype=np.int64)
        if self._is_whole or self._layout.offsets is None:
            return np.array([[0, self._layout.size]], dtype=np.int64)
        return _spans(rows, *_edges(rows, self._layout.offsets))

    def close(self) -> None:
        """Let go of the content."""
        self._content = None

    @property
    def _is_whole(self) -> bool:
        return bool(self._layout.entry.compression or self._hash)

    def _fetch(self, rows: npt.NDArray[np.int64]) -> tuple[pa.Buffer, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Bytes that hold the rows, and where in them each begins and ends."""
        if self._is_whole:
            if self._content is None:
                content = read_whole(self._shard, self._layout.entry, self._context, self._hash)
                self._offsets = parse_offsets(self._shard, self._layout.entry, content)
                self._content = content
            assert self._offsets is not None
            return self._content, *_edges(rows, self._offsets)
        assert self._offsets is not None
        starts, stops = _edges(rows, self._offsets)
        spans = _spans(rows, starts, stops)
        try:
            buffers = self._context.read_ranges(self._shard.url, [(start, stop) for start, stop in spans.tolist()])
        except EOFError as error:
            raise changed(self._shard, f"it has fewer than the {self._layout.size} bytes it had") from error
        data = buffers[0] if len(buffers) == 1 else pa.py_buffer(b"".join(map(memoryview, buffers)))
        # Where each span begins in what was fetched, less where it begins in the file.
        shifts = np.cumsum(spans[:, 1] - spans[:, 0]) - spans[:, 1]
        span = np.searchsorted(spans[:, 0], starts, side="right") - 1
        return data, starts + shifts[span], stops + shifts[span]

    def _projection(self, columns: Sequence[str] | None) -> pa.Schema:
        fields = []
        for name in self._schema.names if columns is None else columns:
            place = self._schema.get_field_index(name)
            if place < 0:
                raise ConfigError(
                    f"{self._shard.name} has no field {name!r}",
                    found=f"its fields are {self._schema.names}",
                    fix="ask for fields of the shard's schema only",
                    code="column-missing",
                )
            fields.append(self._schema.field(place))
        for field in fields:
            why = (field.metadata or {}).get(META_CONFLICT)
            if why is not None:
                readable = [f.name for f in self._schema if META_CONFLICT not in (f.metadata or {})]
                raise ShardError(
                    f"{self._shard.name}: field {field.name!r} cannot be read",
                    found=why.decode(),
                    fix=f"leave it out: Dataset.from_path(..., columns={readable})",
                    code="field-conflict",
                )
        return pa.schema(fields)

    def _refuse(self, rows: npt.NDArray[np.int64], bad: dict[int, str]) -> None:
        offsets = self._layout.offsets
        found = [
            BadRow(int(rows[place]), bad[place], -1 if offsets is None else int(offsets[rows[place]]))
            for place in sorted(bad)
        ]
        raise BadRowsError(found, what=f"{self._shard.name}: row {found[0].row} cannot be read")

    def _too_large(self, name: str, rows: int) -> ShardError:
        return ShardError(
            f"{rows} rows of {self._shard.name} are too large to be read at once",
            found=f"field {name!r} takes more than the {MAX_COLUMN_BYTES} bytes a column of a block may take",
            fix="read fewer rows at a time, or leave the field out with columns=",
            code="shard-rows-too-large",
        )


def _edges(
    rows: npt.NDArray[np.int64], offsets: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where rows begin and end."""
    return offsets[rows].astype(np.int64), offsets[rows + 1].astype(np.int64)


def _spans(
    rows: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """int64 ``[n, 2]`` byte ranges, rows that follow each other taken together."""
    first = np.flatnonzero(np.append(True, np.diff(rows) != 1))
    last = np.append(first[1:], len(rows)) - 1
    return np.stack([starts[first], stops[last]], axis=1)
