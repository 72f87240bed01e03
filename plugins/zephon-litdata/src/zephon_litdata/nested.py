"""Lists and dicts within a row that LitData keeps as one leaf, since 0.2.7x: as JSON text.

A value is a tag and what the tag says: JSON, a list of one kind of values, a dict, rows of one shape. What begins with
neither of these tags is JSON as a whole. All numbers are little endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zephon_litdata.cells import BadValuesError, Cells

_JSON, _TEXTS, _INTS, _FLOATS, _BOOLS, _DICT, _ROWS, _TEXT, _INT, _FLOAT, _BOOL, _NONE = range(12)
#: Tags of values in rows of one shape -> those of values anywhere.
_IN_ROWS: Final = {0x10: _NONE, 0x11: _TEXT, 0x12: _INT, 0x13: _FLOAT, 0x14: _BOOL}
_DTYPES: Final = {_INTS: "<i8", _FLOATS: "<f8", _BOOLS: "?"}
_MOST_LEVELS: Final = 64


def decode(cells: Cells) -> pa.Array:
    """The values as JSON text; row by row in Python, as every value has a form of its own.

    Raises:
        BadValuesError: with every value that cannot be decoded.
    """
    texts, bad = [], {}
    for place, value in enumerate(cells.binary().to_pylist()):
        try:
            texts.append(json.dumps(_loads(value), ensure_ascii=False).encode())
        except (ValueError, IndexError, struct.error, RecursionError) as error:
            bad[place] = f"no nested value: {error}"
    if bad:
        raise BadValuesError(bad)
    return pa.array(texts, pa.binary()).cast(pa.string())


def _loads(content: bytes) -> Any:
    if not content or content[0] > _NONE:
        return json.loads(content)
    cursor = _Cursor(content)
    value = cursor.value(cursor.byte(), 0)
    if cursor.at != len(content):
        raise ValueError(f"{len(content) - cursor.at} bytes behind its end")
    return value


class _Cursor:
    """Reads values one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def byte(self) -> int:
        return self.take(1)[0]

    def take(self, count: int) -> bytes:
        if self.at + count > len(self._content):
            raise ValueError(f"it ends within {count} bytes")
        self.at += count
        return self._content[self.at - count : self.at]

    def count(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def text(self) -> str:
        return self.take(self.count()).decode()

    def value(self, tag: int, level: int) -> Any:
        if level > _MOST_LEVELS:
            raise ValueError(f"more than {_MOST_LEVELS} levels")
        if tag == _JSON:
            return json.loads(self.take(self.count()))
        if tag == _TEXTS:
            return [self.text() for _ in range(self.count())]
        if tag in _DTYPES:
            dtype = np.dtype(_DTYPES[tag])
            return np.frombuffer(self.take(self.count() * dtype.itemsize), dtype).tolist()
        if tag == _DICT:
            return {self.text(): self.value(self.byte(), level + 1) for _ in range(self.count())}
        if tag == _ROWS:
            rows, names = self.count(), self.count()
            return self._rows(rows, [self.text() for _ in range(names)])
        return self._single(tag)

    def _rows(self, count: int, names: Sequence[str]) -> list[dict[str, Any]]:
        if not names:
            raise ValueError("rows without fields")
        return [{name: self._single(_IN_ROWS.get(self.byte(), -1)) for name in names} for _ in range(count)]

    def _single(self, tag: int) -> Any:
        if tag == _TEXT:
            return self.text()
        if tag == _NONE:
            return None
        if tag == _BOOL:
            return self.byte() != 0
        if tag in (_INT, _FLOAT):
            return struct.unpack("<q" if tag == _INT else "<d", self.take(8))[0]
        raise ValueError(f"the unknown tag {tag}")
