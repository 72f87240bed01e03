"""From the bytes of messages to a record batch of the columns wanted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import Shard
from zephon.errors import ShardError
from zephon_arrow.errors import corrupt, unsupported


class _Stream:
    """What ``pyarrow.PythonFile`` needs of a file: one buffer after the other, handed on without a copy."""

    def __init__(self, parts: Iterable[pa.Buffer]) -> None:
        self._parts = [part for part in parts if part.size]
        self._place = 0
        self.closed = False

    def read(self, count: int) -> pa.Buffer:
        """The next bytes: never from two buffers at once where the reader asks as messages are made."""
        if not self._parts or count <= 0:
            return pa.py_buffer(b"")
        part = self._parts[0]
        found = part.slice(self._place, min(count, part.size - self._place))
        self._place += found.size
        if self._place == part.size:
            self._parts, self._place = self._parts[1:], 0
        if found.size < count and self._parts:
            return pa.py_buffer(found.to_pybytes() + self.read(count - found.size).to_pybytes())
        return found

    def close(self) -> None:
        """Nothing is open."""
        self.closed = True

    def readable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """No."""
        return False

    def seekable(self) -> bool:
        """No."""
        return False


def decode(
    shard: Shard, place: str, parts: Iterable[pa.Buffer], stored: pa.Schema, names: tuple[str, ...]
) -> pa.RecordBatch:
    """Decode one record batch.

    Args:
        shard: for errors.
        place: of the batch, for errors.
        parts: a stream: the schema, dictionaries, the batch.
        stored: the schema.
        names: the columns wanted, in this order.

    Raises:
        ShardError: ``shard-corrupt``; ``shard-unsupported`` for a compression that this pyarrow has not.
    """
    fields = sorted(stored.get_field_index(name) for name in names)
    options = pa.ipc.IpcReadOptions(included_fields=fields)
    try:
        with pa.ipc.open_stream(pa.PythonFile(_Stream(parts), mode="r"), options=options) as stream:
            batch = stream.read_next_batch()
        return batch.select(list(names))
    except pa.ArrowNotImplementedError as error:
        raise unsupported(shard, f"{place}: {error}", "write the file with other types or compression") from error
    except ShardError:
        raise
    except (pa.ArrowException, OSError, ValueError, StopIteration, IndexError, KeyError, MemoryError) as error:
        raise corrupt(shard, f"{place}: {error}") from error


def buffers_of(stored: pa.Schema, names: tuple[str, ...]) -> npt.NDArray[np.bool_] | None:
    """Which buffers of a record batch hold these columns; None where the number of buffers is not in the schema."""
    found: list[bool] = []
    for field in stored:
        count = _buffers(field.type)
        if count is None:
            return None
        found += [field.name in names] * count
    return np.array(found, dtype=np.bool_)


def _buffers(kind: pa.DataType) -> int | None:
    """Buffers of a field of one type, in metadata of version 5."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _buffers(kind.storage_type)
    if types.is_null(kind):
        return 0
    if types.is_dictionary(kind):
        return 2
    if types.is_union(kind) or types.is_string_view(kind) or types.is_binary_view(kind):
        return None
    own = 2
    if types.is_struct(kind) or types.is_fixed_size_list(kind):
        own = 1
    elif types.is_run_end_encoded(kind):
        own = 0
    elif (
        types.is_string(kind)
        or types.is_binary(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    ):
        own = 3
    children = [_buffers(kind.field(i).type) for i in range(kind.num_fields)]
    return None if None in children else own + sum(child or 0 for child in children)
