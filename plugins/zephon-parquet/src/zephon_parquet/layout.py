"""Where things are in a Parquet file: units, column chunks, byte ranges. Arithmetic on the footer; nothing is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq


@attrs.frozen(slots=True, eq=False)
class Layout:
    """The layout of one file.

    Attributes:
        metadata: the file's metadata.
        schema: its fields as Arrow reads them.
        bounds: int64 ``[u + 1]``, first rows of the units, which are the row groups that have rows, and the row count.
        groups: int64 ``[u]``, the row group of each unit.
        leaves: the column chunks of each top-level field, as a range of column numbers.
    """

    metadata: pq.FileMetaData
    schema: pa.Schema
    bounds: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    leaves: dict[str, range]

    @classmethod
    def of(cls, metadata: pq.FileMetaData, schema: pa.Schema) -> Layout:
        """The layout a footer describes.

        Raises:
            ValueError: the footer contradicts itself.
        """
        sizes = np.fromiter((metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)), dtype=np.int64)
        if (sizes < 0).any() or sizes.sum() != metadata.num_rows:
            raise ValueError(f"its row groups hold {sizes.sum()} rows, the file {metadata.num_rows}")
        groups = np.flatnonzero(sizes)
        bounds = np.concatenate([[0], np.cumsum(sizes[groups])]).astype(np.int64)
        leaves, first = {}, 0
        for field in schema:
            count = _leaf_count(field.type)
            leaves[field.name] = range(first, first + count)
            first += count
        if first != metadata.num_columns:
            raise ValueError(f"its schema has {first} columns, its row groups {metadata.num_columns}")
        return cls(metadata, schema, bounds, groups, leaves)

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return int(self.bounds[-1])

    def by_unit(self, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """The units that hold some of these rows, in order, with the rows each holds.

        Args:
            rows: int64 ``[n]``, strictly increasing.
        """
        if not len(rows):
            return
        first, last = (self.bounds.searchsorted(rows[[0, -1]], side="right") - 1).tolist()
        cuts = [0, *rows.searchsorted(self.bounds[first + 1 : last + 1]).tolist(), len(rows)]
        for unit, (start, stop) in enumerate(pairwise(cuts), start=first):
            if start < stop:
                yield unit, rows[start:stop]

    def ranges(self, units: Iterable[int], fields: Iterable[str]) -> list[tuple[int, int]]:
        """Byte ranges of the column chunks of some units and fields; sorted, those that touch joined."""
        found: list[tuple[int, int]] = []
        for start, stop in sorted(self._chunk(unit, leaf) for unit in units for leaf in self._leaves(fields)):
            if found and start <= found[-1][1]:
                found[-1] = (found[-1][0], max(stop, found[-1][1]))
            elif stop > start:
                found.append((start, stop))
        return found

    def chunk_start(self, unit: int, field: str) -> int:
        """Byte offset of the first column chunk of a field."""
        return min((self._chunk(unit, leaf)[0] for leaf in self.leaves[field]), default=0)

    def decoded_bytes(self, unit: int, fields: Iterable[str]) -> int:
        """About how much memory a unit takes: its uncompressed size, which is less than that for repeated values."""
        group = self.metadata.row_group(int(self.groups[unit]))
        return sum(group.column(leaf).total_uncompressed_size for leaf in self._leaves(fields))

    def unit_rows(self, unit: int) -> int:
        """Rows of a unit."""
        return int(self.bounds[unit + 1] - self.bounds[unit])

    def _leaves(self, fields: Iterable[str]) -> Sequence[int]:
        return [leaf for field in fields for leaf in self.leaves[field]]

    def _chunk(self, unit: int, leaf: int) -> tuple[int, int]:
        chunk = self.metadata.row_group(int(self.groups[unit])).column(leaf)
        start = chunk.data_page_offset
        dictionary = chunk.dictionary_page_offset
        # Some writers put 0 where there is no dictionary, as parquet-cpp's reader knows.
        if dictionary is not None and 0 < dictionary < start:
            start = dictionary
        return start, start + chunk.total_compressed_size


def _leaf_count(kind: pa.DataType) -> int:
    """How many Parquet columns hold one Arrow field."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf_count(kind.storage_type)
    if types.is_dictionary(kind):
        return _leaf_count(kind.value_type)
    if types.is_map(kind):
        return _leaf_count(kind.key_type) + _leaf_count(kind.item_type)
    if types.is_struct(kind):
        return sum(_leaf_count(field.type) for field in kind)
    if types.is_nested(kind):
        return _leaf_count(kind.value_type)
    return 1
