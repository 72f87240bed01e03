"""The shards of a dataset, as columns: a million of them take the memory of their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon.abc import FileInfo, Shard
from zephon.errors import PluginError


class Names(Sequence[str]):
    """Shard names in order, backed by one Arrow array."""

    __slots__ = ("column",)

    def __init__(self, column: pa.StringArray) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Names: ...
    def __getitem__(self, index: int | slice) -> str | Names:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self.column))
            return Names(self.column.take(pa.array(range(start, stop, step), pa.int64())))
        return str(self.column[index].as_py())

    def __iter__(self) -> Iterator[str]:
        return iter(self.column.to_pylist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} shard names>"


@attrs.frozen(slots=True, eq=False)
class ShardTable:
    """Shards in order of their names (code points), with the facts of their files.

    Attributes:
        names: string ``[n]``, unique.
        urls: string ``[n]``.
        parts: string ``[n]``.
        etags: string ``[n]``.
        sizes: int64 ``[n]``, bytes of the shard's file.
        mtimes: float64 ``[n]``.
    """

    names: pa.StringArray
    urls: pa.StringArray
    parts: pa.StringArray
    etags: pa.StringArray
    sizes: npt.NDArray[np.int64]
    mtimes: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Shard:
        name, url = self.names[index].as_py(), self.urls[index].as_py()
        info = FileInfo(
            url=url,
            name=name,
            size=int(self.sizes[index]),
            mtime=float(self.mtimes[index]),
            etag=self.etags[index].as_py(),
        )
        return Shard(url=url, part=self.parts[index].as_py(), name=name, file=info)

    @staticmethod
    def of(shards: Iterable[Shard], format_name: str) -> ShardTable:
        """The table of what a format discovered.

        Raises:
            PluginError: ``format-contract`` if two shards have one name.
        """
        rows = [(s.name, s.url, s.part, s.file.etag, s.file.size, s.file.mtime) for s in shards]
        kinds = (pa.string(), pa.string(), pa.string(), pa.string(), pa.int64(), pa.float64())
        columns = [pa.array([row[i] for row in rows], type=kind) for i, kind in enumerate(kinds)]
        order = pc.array_sort_indices(columns[0])
        names, urls, parts, etags, sizes, mtimes = (column.take(order) for column in columns)
        if len(rows) > 1:
            twice = pc.index(pc.equal(names[1:], names[:-1]), True).as_py()
            if twice >= 0:
                raise PluginError(
                    f"the format {format_name!r} found two shards named {names[twice].as_py()!r}",
                    found=f"{parts[twice].as_py()!r} and {parts[twice + 1].as_py()!r} of their files",
                    fix="every shard needs a name of its own: repair the format plugin",
                    code="format-contract",
                )
        return ShardTable(names, urls, parts, etags, sizes.to_numpy(), mtimes.to_numpy())
