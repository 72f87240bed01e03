"""Arrays in MDS: ``ndarray``, ``ndarray:DTYPE`` and ``ndarray:DTYPE:SHAPE``.

What the encoding does not declare stands before the values of each row: one byte for the dtype; one for the number of
dimensions and the width of the numbers that follow, which are the lengths of the dimensions.

An array of one dimension becomes a list; one of several a fixed-shape tensor where the shape is declared, and lists of
lists where it is not.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon_mds.cells import BadValuesError, Cells

#: The byte that stands for a dtype.
_DTYPES: Final = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
_CODES: Final = {name: code for code, name in _DTYPES.items()}


def type_of(encoding: str, size: int | None, first: bytes) -> pa.DataType | str:
    """The Arrow type of a column of arrays, or why there is none; see :func:`zephon_mds.columns.type_of`."""
    declared, shape = _declared(encoding)
    if declared and declared not in _CODES:
        return f"arrays of {declared!r}"
    if shape is not None:
        if not shape or min(shape) < 1 or size != math.prod(shape) * np.dtype(declared).itemsize:
            return f"arrays of {encoding!r} that take {size} bytes"
        item = pa.from_numpy_dtype(declared)
        return pa.list_(item) if len(shape) == 1 else pa.fixed_shape_tensor(item, shape)
    if size is not None:
        return f"arrays of any shape that all take {size} bytes"
    if not declared:
        if not first or first[0] not in _DTYPES:
            return f"no dtype at the beginning of the first array, {first[:8]!r}"
        declared, first = _DTYPES[first[0]], first[1:]
    if not first or not first[0] >> 2:
        return f"no dimension at the beginning of the first array, {first[:8]!r}"
    kind = pa.from_numpy_dtype(declared)
    for _ in range(first[0] >> 2):
        kind = pa.list_(kind)
    return kind


def decode(encoding: str, kind: pa.DataType, cells: Cells) -> pa.Array:
    """The arrays of a column; see :func:`zephon_mds.columns.decode`."""
    declared, shape = _declared(encoding)
    if shape is None:
        return _decode_any_shape(not declared, kind, cells)
    count = math.prod(shape)
    item = pa.from_numpy_dtype(declared)
    values = pa.Array.from_buffers(item, count * len(cells), [None, cells.joined()])
    if isinstance(kind, pa.FixedShapeTensorType):
        return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(values, count))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(cells) + 1) * count, pa.int32()), values)


def _decode_any_shape(has_dtype: bool, kind: pa.DataType, cells: Cells) -> pa.Array:
    """Arrays that say their own shape, all with as many dimensions as the type has, and of its dtype."""
    levels, item = 0, kind
    while pa.types.is_list(item):
        levels, item = levels + 1, item.value_type
    dtype = np.dtype(item.to_pandas_dtype())
    starts, shapes = _shapes(has_dtype, levels, dtype, cells)
    values = pa.Array.from_buffers(
        item, int(shapes.prod(axis=1).sum()), [None, Cells(cells.data, starts, cells.stops).joined()]
    )
    # From the innermost lists outwards: a row has as many lists of a level as the product of the lengths above it.
    for level in reversed(range(levels)):
        lengths = np.repeat(shapes[:, level], shapes[:, :level].prod(axis=1))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        values = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    return values


def _shapes(
    has_dtype: bool, levels: int, dtype: np.dtype[np.generic], cells: Cells
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the values of each array begin, and int64 ``[n, levels]`` lengths of its dimensions.

    Raises:
        BadValuesError: arrays of other dtypes or dimensions, or that do not have the bytes their shape takes.
    """
    data, bad = cells.array, np.full(len(cells), "", dtype=object)

    def refuse(wrong: npt.NDArray[np.bool_], reason: str) -> None:
        bad[wrong & (bad == "")] = reason

    at = cells.starts.copy()
    refuse(cells.stops - at < 1 + has_dtype, "an array without a head")
    at[bad != ""] = 0  # never looked at: any place that exists
    if has_dtype:
        refuse(data[at] != _CODES[dtype.name], f"an array of another dtype than {dtype.name}, the first row's")
        at += bad == ""
    head = data[at]
    refuse(head >> 2 != levels, f"an array of other than {levels} dimensions, which the first row has")
    at += 1
    lengths = np.zeros((len(cells), levels), dtype=np.int64)
    for code in range(4):
        width = 1 << code
        refuse((head & 3 == code) & (cells.stops - at < levels * width), "an array that ends within its shape")
        some = np.flatnonzero((head & 3 == code) & (bad == ""))
        stated = data[at[some, None] + np.arange(levels * width)]
        lengths[some] = np.ascontiguousarray(stated).view(f"<u{width}").astype(np.int64)
        at[some] += levels * width
    room = cells.stops - at
    # As floating point first: a product of wrong lengths may pass 64 bits.
    rough = lengths.astype(np.float64).prod(axis=1) * dtype.itemsize
    refuse((lengths < 1).any(axis=1) | (rough > 2.0**62), "an array of impossible shape")
    refuse(lengths.prod(axis=1) * dtype.itemsize != room, "an array that does not have the bytes its shape takes")
    if (bad != "").any():
        raise BadValuesError({int(place): bad[place] for place in np.flatnonzero(bad != "")})
    return at, lengths


def _declared(encoding: str) -> tuple[str, tuple[int, ...] | None]:
    """The dtype ("" if any) and the shape (None if any) an encoding declares; an empty shape for one that is none."""
    _, dtype, shape = (*encoding.split(":"), "", "")[:3]
    try:
        return dtype, tuple(map(int, shape.split(","))) if shape else None
    except ValueError:
        return dtype, ()
