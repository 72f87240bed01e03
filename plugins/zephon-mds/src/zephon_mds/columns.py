"""From the bytes of one column, row after row, to an Arrow array.

The encodings are those of ``streaming.base.format.mds.encodings``. What they mean is done here with whole columns;
images and the like stay the bytes they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon_mds import arrays
from zephon_mds.cells import BadValuesError, Cells

_SCALARS: Final[Mapping[str, str]] = {
    "int": "int64",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
#: Exact as they are written: a decimal has no one Arrow type, JSON has any shape.
_TEXTS: Final = frozenset({"str", "json", "str_decimal"})
_BYTES: Final = frozenset(
    {"bytes", "pil", "jpeg", "png", "jpeg_array", "jpegarray", "list[pil]", "list[jpeg]", "list[png]"}
)
_PICKLE: Final = "pkl"


def needs_a_row(encoding: str, size: int | None) -> bool:
    """Whether the type of a column shows only in its rows: an array whose dimensions are not declared."""
    return size is None and encoding.partition(":")[0] == "ndarray"


def type_of(encoding: str, size: int | None, first: bytes, allow_pickle: bool) -> pa.DataType | str:
    """The Arrow type of a column, or why it cannot be read.

    Args:
        encoding: as MDS names it.
        size: bytes of each value; None if that varies.
        first: the first row's value, for :func:`needs_a_row`; b"" if there is none.
        allow_pickle: whether pickles are to be handed out, as bytes.
    """
    kind = encoding.partition(":")[0]
    if kind in _SCALARS:
        found: pa.DataType = pa.from_numpy_dtype(_SCALARS[kind])
        return found if size == np.dtype(_SCALARS[kind]).itemsize else f"values of {kind} that take {size} bytes"
    if kind == "ndarray":
        return arrays.type_of(encoding, size, first)
    if size is not None:
        return f"values of {kind} that all take {size} bytes"
    if kind in _TEXTS:
        return pa.string()
    if kind == "str_int":
        return pa.int64()
    if kind == "str_float":
        return pa.float64()
    if kind in _BYTES or (kind == _PICKLE and allow_pickle):
        return pa.binary()
    if kind == _PICKLE:
        return (
            'it holds pickles, which can run any code when they are loaded; format_options={"allow_pickle": True} '
            "hands them out as bytes"
        )
    return (
        f"its encoding {encoding!r} is not known here; with zephon-mds[streaming] installed, convert the column with "
        "streaming's MDSWriter to one that is"
    )


def decode(encoding: str, kind: pa.DataType, cells: Cells) -> pa.Array:
    """A column's values.

    Args:
        encoding: as MDS names it.
        kind: what :func:`type_of` said.
        cells: where the values are.

    Raises:
        BadValuesError: with every value that cannot be decoded.
    """
    name = encoding.partition(":")[0]
    if name in _SCALARS:
        return pa.Array.from_buffers(kind, len(cells), [None, cells.joined()])
    if name == "ndarray":
        return arrays.decode(encoding, kind, cells)
    if name in _TEXTS:
        return _text(cells.binary())
    if name == "str_int":
        return _numbers(cells.binary(), kind, _whole)
    if name == "str_float":
        return _numbers(cells.binary(), kind, float)
    return cells.binary()


def _text(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        # Few rows are bad, if any: only then each is looked at.
        bad = {place: "text that is not UTF-8" for place, value in enumerate(values) if not _is_text(value.as_py())}
        raise BadValuesError(bad) from error


def _numbers(values: pa.Array, kind: pa.DataType, parse: Callable[[str], Any]) -> pa.Array:
    try:
        return values.cast(pa.string()).cast(kind)
    except pa.ArrowInvalid:
        # Python reads more spellings than Arrow, and it is Python that MDS means: value by value.
        bad: dict[int, str] = {}
        numbers = []
        for place, value in enumerate(values):
            try:
                numbers.append(parse(value.as_py().decode()))
            except ValueError as error:
                bad[place] = str(error)
        if bad:
            raise BadValuesError(bad) from None
        return pa.array(numbers, kind)


def _whole(text: str) -> int:
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{text[:40]} is beyond 64 bits")
    return value


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def sizes_of(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], sizes: list[int | None]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Where the columns of rows begin and end.

    Args:
        data: bytes.
        starts: int64 ``[n]``, where rows begin in them.
        stops: int64 ``[n]``, where they end.
        sizes: bytes of each column; None where a row says how many.

    Returns:
        int64 ``[n, columns + 1]`` boundaries in ``data``, and bool ``[n]``: the rows whose sizes add up.
    """
    varying = sum(size is None for size in sizes)
    fits = stops - starts >= 4 * varying
    bounds = np.zeros((len(starts), len(sizes) + 1), dtype=np.int64)
    bounds[:, 0] = starts + 4 * varying
    if varying and fits.any():
        places = starts[fits, None] + np.arange(4 * varying)
        stated = np.ascontiguousarray(data[places]).view("<u4")
    column = 0
    for i, size in enumerate(sizes):
        if size is not None:
            bounds[:, i + 1] = size
        elif fits.any():
            bounds[fits, i + 1] = stated[:, column]
            column += 1
    bounds = np.cumsum(bounds, axis=1)
    return bounds, fits & (bounds[:, -1] == stops)
