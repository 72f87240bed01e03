"""A user's state as data: JSON and Arrow, never pickle.

A state may be made of None, bool, int, float, str, bytes, lists, tuples, dicts, numpy arrays and scalars, and Arrow
arrays and record batches, nested at will. It is encoded as a JSON tree; what JSON does not have is tagged, with its
bytes in one Arrow column (``blobs``) or, for Arrow data, in a table of its own::

    {"$dict": [[key, value], ...]}   {"$tuple": [...]}   {"$float": "nan"}
    {"$bytes": 3}   {"$npy": 4}   {"$scalar": 5}   {"$array": "arrow.0"}   {"$batch": "arrow.1"}

Dicts are lists of pairs so that their order and the types of their keys survive any JSON writer. numpy arrays are
stored in numpy's own file format (NEP 1), pickling refused. Encoding copies all but Arrow data, which cannot change.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zephon.errors import ConfigError

_BLOBS: Final = "blobs"
_DEPTH: Final = 100


def encode_state(state: Any, label: str) -> tuple[Any, dict[str, pa.RecordBatch]]:
    """A state as a JSON tree and tables.

    Args:
        state: the user's state.
        label: operator, for errors.

    Raises:
        ConfigError: ``state-not-plain``, naming where in the state.
    """
    encoder = _Encoder(label)
    tree = encoder.encode(state, "state", 0)
    if encoder.blobs:
        encoder.tables[_BLOBS] = pa.record_batch([pa.array(encoder.blobs, type=pa.large_binary())], names=["blob"])
    return tree, encoder.tables


def decode_state(tree: Any, tables: Mapping[str, pa.RecordBatch]) -> Any:
    """Inverse of :func:`encode_state`; everything but Arrow data is made anew."""
    if isinstance(tree, list):
        return [decode_state(item, tables) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ((tag, value),) = tree.items()
    if tag == "$dict":
        return {decode_state(k, tables): decode_state(v, tables) for k, v in value}
    if tag == "$tuple":
        return tuple(decode_state(item, tables) for item in value)
    if tag == "$float":
        return float(value)
    if tag == "$batch":
        return tables[value]
    if tag == "$array":
        return tables[value].column(0)
    blob = tables[_BLOBS].column(0)[value].as_py()
    if tag == "$bytes":
        return blob
    array = np.lib.format.read_array(io.BytesIO(blob), allow_pickle=False)
    return array if tag == "$npy" else array[()]


class _Encoder:
    def __init__(self, label: str) -> None:
        self.label = label
        self.blobs: list[bytes] = []
        self.tables: dict[str, pa.RecordBatch] = {}

    def encode(self, value: Any, path: str, depth: int) -> Any:
        # Subclasses are refused: a restored state would hold the base class instead.
        kind = type(value)
        if depth > _DEPTH:
            raise self._refused(path, f"nesting deeper than {_DEPTH}; does it contain itself?")
        if value is None or kind in (bool, int):
            return value
        if kind is str:
            return self._text(value, path)
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is list:
            return [self.encode(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
        if kind is tuple:
            return {"$tuple": [self.encode(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]}
        if kind is dict:
            return {"$dict": [self._pair(k, v, path, depth + 1) for k, v in value.items()]}
        if kind is bytes:
            return {"$bytes": self._blob(value)}
        if kind is np.ndarray or isinstance(value, np.generic):
            return {"$npy" if kind is np.ndarray else "$scalar": self._npy(np.asanyarray(value), path)}
        if isinstance(value, pa.RecordBatch):
            return {"$batch": self._table(value)}
        if isinstance(value, pa.Array):
            return {"$array": self._table(pa.record_batch([value], names=["values"]))}
        raise self._refused(path, f"a {kind.__module__}.{kind.__qualname__}")

    def _pair(self, key: Any, value: Any, path: str, depth: int) -> list[Any]:
        return [self.encode(key, f"a key of {path}", depth), self.encode(value, f"{path}[{key!r}]", depth)]

    def _text(self, value: str, path: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise self._refused(path, "text with a lone surrogate, which UTF-8 does not have") from error
        return value

    def _blob(self, data: bytes) -> int:
        self.blobs.append(data)
        return len(self.blobs) - 1

    def _npy(self, array: np.ndarray[Any, Any], path: str) -> int:
        if array.dtype.hasobject:
            raise self._refused(path, f"a numpy array of {array.dtype}")
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        return self._blob(buffer.getvalue())

    def _table(self, batch: pa.RecordBatch) -> str:
        name = f"arrow.{len(self.tables)}"
        self.tables[name] = batch
        return name

    def _refused(self, path: str, found: str) -> ConfigError:
        return ConfigError(
            f"the state of {self.label} cannot be kept in a checkpoint",
            found=f"{path} is {found}",
            fix="keep None, bool, int, float, str, bytes, list, tuple, dict, numpy arrays, pyarrow arrays or batches",
            code="state-not-plain",
        )
