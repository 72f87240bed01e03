"""Arrays of tokens in ``.npy`` files: a stream of tokens in one dimension, rows in two.

The format is described in ``numpy.lib.format``: magic, version, the length of the header, and a Python dictionary of
three entries; then the values.
"""

from __future__ import annotations

import ast
from typing import Any, Final

import attrs
import numpy as np

from zephon.abc import Shard, ShardContext
from zephon.errors import ConfigError
from zephon_megatron.failures import corrupt, no_boundaries, truncated, unsupported
from zephon_megatron.files import read
from zephon_megatron.layout import Layout

NPY: Final = ".npy"
MAGIC: Final = b"\x93NUMPY"
#: Of the header's length, by version: where it is written, and in how many bytes.
_LENGTH: Final = {1: 2, 2: 4, 3: 4}
_LENGTH_AT: Final = 8
#: Longest header that is believed: numpy's own limit.
_LONGEST: Final = 10_000
_ENTRIES: Final = {"descr", "fortran_order", "shape"}


class HeaderError(ValueError):
    """A header that is none; the message says why."""


@attrs.frozen(slots=True, kw_only=True)
class Header:
    """What a ``.npy`` header says.

    Attributes:
        dtype: of the values.
        shape: of the array.
        is_fortran: whether columns, not rows, lie together.
        stop: offset of the first value.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    stop: int

    @property
    def holds_tokens(self) -> bool:
        """Whether these are integers in one or two dimensions."""
        return self.dtype.kind in "iu" and len(self.shape) in (1, 2) and not (self.is_fortran and len(self.shape) > 1)


def parse_header(head: bytes) -> Header:
    """The header at the beginning of a file, whose first bytes ``head`` is.

    Raises:
        HeaderError: it is none, or does not end here.
    """
    if not head.startswith(MAGIC) or len(head) <= _LENGTH_AT + 4 or head[6] not in _LENGTH or head[7]:
        raise HeaderError(f"it begins with {head[:8]!r}, not with {MAGIC!r} and a known version")
    start = _LENGTH_AT + _LENGTH[head[6]]
    length = int.from_bytes(head[_LENGTH_AT:start], "little")
    text = head[start : start + length]
    if length > _LONGEST or len(text) < length:
        raise HeaderError(f"its header has {length} bytes, of which {len(text)} are there")
    try:
        entries = ast.literal_eval(text.decode("utf-8" if head[6] == 3 else "latin-1"))
        if not isinstance(entries, dict) or set(entries) != _ENTRIES:
            raise HeaderError("its header has other entries than descr, fortran_order and shape")
        shape, fortran = entries["shape"], entries["fortran_order"]
        if not isinstance(entries["descr"], (str, list)) or not isinstance(fortran, bool) or not _is_shape(shape):
            raise HeaderError("its header describes no array")
        # A list describes records, of whatever fields.
        dtype = np.dtype(entries["descr"] if isinstance(entries["descr"], str) else np.void)
    except HeaderError:
        raise
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise HeaderError(f"its header cannot be read: {error}") from error
    return Header(dtype=dtype, shape=shape, is_fortran=fortran, stop=start + length)


def index_array(shard: Shard, context: ShardContext, *, is_stream: bool) -> Layout:
    """Read the header and compare it with the size of the file.

    Args:
        shard: the file.
        context: its storage.
        is_stream: whether rows are windows of a stream of tokens.

    Raises:
        ShardError: ``shard-truncated``, ``shard-corrupt``, ``shard-unsupported``.
        ConfigError: ``window-missing``, ``option-conflict``.
    """
    size = context.size(shard.url)
    try:
        header = parse_header(read(shard, shard.url, 0, min(size, _LENGTH_AT + 4 + _LONGEST), context).to_pybytes())
    except HeaderError as error:
        raise corrupt(shard.name, str(error)) from error
    if not header.holds_tokens:
        order = ", columns together" if header.is_fortran else ""
        raise unsupported(shard.name, f"an array of {header.dtype} in {len(header.shape)} dimensions{order}")
    count = 1
    for length in header.shape:
        count *= length
    expected = header.stop + count * header.dtype.itemsize
    if size != expected:
        fail = truncated if size < expected else corrupt
        raise fail(shard.name, f"{size} bytes; an array of shape {header.shape} takes {expected}")
    plain = len(header.shape) == 2
    if not plain and not is_stream:
        raise no_boundaries(shard.name, f"a one-dimensional array of {count} tokens")
    if plain and is_stream:
        raise ConfigError(
            f"{shard.name} has rows of its own, which windows would run across",
            found=f"an array of shape {header.shape}, and a window",
            fix="leave window and stride out, or store the array in one dimension",
            code="option-conflict",
        )
    # Rows of one width are given by it; rows of no values have to be counted.
    width = header.shape[1] if plain else 0
    empty = header.shape[0] if plain and not width else 0
    return Layout(
        size=size,
        data=header.stop,
        dtype=header.dtype.str,
        tokens=count,
        window=width,
        stride=width,
        bounds=np.zeros(empty + 1, dtype=np.int64),
    )


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(n) is int and 0 <= n < 1 << 62 for n in value)
