"""Reading rows of an indexed shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard, ShardContext, ShardIndex, ShardReader
from zephon.block import MAX_COLUMN_BYTES, empty_columns
from zephon.errors import BadRow, BadRowsError, ConfigError, ShardError
from zephon_megatron.failures import changed
from zephon_megatron.layout import Layout
from zephon_megatron.tokens import Tokens


class MegatronReader(ShardReader):
    """Reads rows of one shard: one column, a list of tokens."""

    def __init__(self, shard: Shard, index: ShardIndex, context: ShardContext) -> None:
        if index.blob is None:
            raise changed(shard.name, "an index without a layout")
        self._shard = shard
        self._field: pa.Field = index.schema.field(0)
        self._layout = Layout.from_blob(index.blob)
        self._tokens = Tokens(shard, self._layout, context)

    def read(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> pa.RecordBatch:
        """See :meth:`zephon.abc.ShardReader.read`.

        Raises:
            BadRowsError: ``bad-row``: an unsigned value that is no token id, as it is too large.
            ShardError: ``shard-changed``, ``shard-rows-too-large``.
            ConfigError: ``column-missing``.
        """
        if not self._wants_tokens(columns):
            return empty_columns(len(rows))
        starts, stops = self._layout.spans(rows)
        offsets = np.concatenate([[0], np.cumsum(stops - starts)])
        kind = self._field.type.value_type
        if offsets[-1] * kind.bit_width // 8 > MAX_COLUMN_BYTES:
            raise ShardError(
                f"{self._shard.name}: {len(rows)} rows are too large to be read at once",
                found=f"rows {rows[0]} to {rows[-1]} have {offsets[-1]} tokens; a block's column may take "
                f"{MAX_COLUMN_BYTES} bytes",
                fix='read fewer rows at a time, or cut documents into windows: format_options={"window": 2049}',
                code="shard-rows-too-large",
            )
        values = self._signed(self._tokens.gather(starts, stops), rows, starts, offsets)
        column = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, kind), type=self._field.type)
        return pa.RecordBatch.from_arrays([column], schema=pa.schema([self._field]))

    def ranges(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """See :class:`zephon.abc.RangedShard`."""
        if not self._wants_tokens(columns):
            return np.empty((0, 2), dtype=np.int64)
        return self._tokens.ranges(*self._layout.spans(rows))

    def close(self) -> None:
        """See :meth:`zephon.abc.ShardReader.close`."""
        self._tokens.close()

    def _wants_tokens(self, columns: Sequence[str] | None) -> bool:
        for name in columns or ():
            if name != self._field.name:
                raise ConfigError(
                    f"{self._shard.name} has no field {name!r}",
                    found=f"its only field is {self._field.name!r}",
                    fix=f'ask for {self._field.name!r}, or name the field: format_options={{"field": {name!r}}}',
                    code="column-missing",
                )
        return columns is None or len(columns) > 0

    def _signed(
        self,
        values: npt.NDArray[Any],
        rows: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
    ) -> npt.NDArray[Any]:
        """The values in the type they are delivered in; see :func:`zephon_megatron.layout.token_type`."""
        if values.dtype.kind != "u":
            return values
        if values.dtype.itemsize < 4:
            return values.astype(f"i{2 * values.dtype.itemsize}")
        signed = values.view(f"i{values.dtype.itemsize}")
        negative = np.flatnonzero(signed < 0)
        if len(negative):
            places = np.searchsorted(offsets, negative, side="right") - 1
            met, first = np.unique(places, return_index=True)
            raise BadRowsError(
                BadRow(
                    int(rows[place]),
                    f"{values[at]} is no token id: it does not fit {self._field.type.value_type}",
                    self._layout.data + int(starts[place] + at - offsets[place]) * values.dtype.itemsize,
                )
                for place, at in zip(met.tolist(), negative[first].tolist(), strict=True)
            )
        return signed
