"""Arrays and tensors in LitData.

Those of one dimension are their values alone, their dtype being part of the serializer's name
(``no_header_numpy:CODE``, ``no_header_tensor:CODE``). All others say dtype, number of dimensions and their lengths
before the values, 32 bits each: little endian, but for tensors of newer versions, which have them big endian.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon_litdata.cells import BadValuesError, Cells

#: LitData's codes of dtypes. Of torch's, several mean the same.
_NUMPY: Final = {
    0: "int8",
    1: "int16",
    2: "int32",
    3: "int64",
    4: "uint8",
    5: "uint16",
    6: "uint32",
    7: "uint64",
    8: "float16",
    9: "float32",
    10: "float64",
    13: "bool",
}
_TORCH: Final = {
    **dict.fromkeys((0, 1), "float32"),
    **dict.fromkeys((2, 3), "float64"),
    **dict.fromkeys((8, 9), "float16"),
    11: "uint8",
    12: "int8",
    **dict.fromkeys((13, 14), "int16"),
    **dict.fromkeys((15, 16), "int32"),
    **dict.fromkeys((17, 18), "int64"),
    19: "bool",
    20: "uint16",
}
#: Serializer -> codes of dtypes.
WITH_HEADER: Final = {"numpy": _NUMPY, "tensor": _TORCH}
FLAT: Final = {"no_header_numpy": _NUMPY, "no_header_tensor": _TORCH}
_MOST_DIMENSIONS: Final = 32
_MOST_EMPTY_LISTS: Final = 1 << 16


def type_of(serializer: str, first: bytes) -> pa.DataType | str:
    """The Arrow type of arrays with a head, or why there is none."""
    codes = WITH_HEADER[serializer]
    if len(first) < 8:
        return f"no dtype and shape at the beginning of the first array, {first!r}"
    code, levels = _heads(np.frombuffer(first, "<u4", 2)[None, :])[0].tolist()
    if code not in codes or levels > _MOST_DIMENSIONS:
        return f"arrays of dtype {code} and {levels} dimensions, by the first one"
    kind = _arrow(codes[code])
    for _ in range(levels):
        kind = pa.list_(kind)
    return kind


def flat_type_of(serializer: str, dtype: str) -> pa.DataType | str:
    """The Arrow type of arrays without a head, or why there is none."""
    known = FLAT[serializer]
    if not dtype.isdecimal() or int(dtype) not in known:
        return f"arrays of dtype {dtype!r}, which Arrow does not have"
    return pa.list_(_arrow(known[int(dtype)]))


def itemsize(kind: pa.DataType) -> int:
    """Bytes of one value of a list."""
    return _numpy(kind.value_type).itemsize


def decode_flat(kind: pa.DataType, cells: Cells) -> pa.Array:
    """Arrays without a head, as lists.

    Raises:
        BadValuesError: arrays that end within a value.
    """
    dtype = _numpy(kind.value_type)
    lengths = cells.stops - cells.starts
    wrong = np.flatnonzero(lengths % dtype.itemsize)
    if len(wrong):
        raise BadValuesError({int(place): f"an array that ends within a {dtype.name}" for place in wrong})
    counts = lengths // dtype.itemsize
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _values(kind.value_type, int(offsets[-1]), cells))


def decode(serializer: str, kind: pa.DataType, cells: Cells) -> pa.Array:
    """Arrays with a head, as lists of lists, all with as many dimensions as the type has, and of its dtype.

    Raises:
        BadValuesError: arrays of other dtypes or dimensions, or that do not have the bytes their shape takes.
    """
    levels, item = 0, kind
    while pa.types.is_list(item):
        levels, item = levels + 1, item.value_type
    starts, shapes = _shapes(serializer, levels, _numpy(item), cells)
    values = _values(item, int(shapes.prod(axis=1).sum()), Cells(cells.data, starts, cells.stops))
    # From the innermost lists outwards: a row has as many lists of a level as the product of the lengths above it.
    for level in reversed(range(levels)):
        lengths = np.repeat(shapes[:, level], shapes[:, :level].prod(axis=1))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        values = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    return values


def _shapes(
    serializer: str, levels: int, dtype: np.dtype[np.generic], cells: Cells
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the values of each array begin, and int64 ``[n, levels]`` lengths of its dimensions."""
    codes = WITH_HEADER[serializer]
    size = 4 * (2 + levels)
    bad = np.full(len(cells), "", dtype=object)
    lengths = np.zeros((len(cells), levels), dtype=np.int64)

    def refuse(wrong: npt.NDArray[np.bool_], reason: str) -> None:
        bad[wrong & (bad == "")] = reason

    refuse(cells.stops - cells.starts < size, f"an array without the head of one of {levels} dimensions")
    some = np.flatnonzero(bad == "")
    if len(some):
        heads = np.zeros((len(cells), 2 + levels), dtype=np.int64)
        heads[some] = _heads(np.ascontiguousarray(cells.array[cells.starts[some, None] + np.arange(size)]).view("<u4"))
        known = [code for code, name in codes.items() if name == dtype.name]
        refuse(~np.isin(heads[:, 0], known), f"an array of another dtype than {dtype.name}, the first row's")
        refuse(heads[:, 1] != levels, f"an array of other than {levels} dimensions, which the first row has")
        lengths = heads[:, 2:]
    # As floating point first: a product of wrong lengths may pass 64 bits.
    refuse(lengths.astype(np.float64).prod(axis=1) * dtype.itemsize > 2.0**62, "an array of impossible shape")
    room = cells.stops - cells.starts - size
    # An array without values has no bytes, however many lists its other dimensions ask for.
    lists = np.cumprod(lengths[:, :-1].astype(np.float64), axis=1).max(axis=1, initial=0)
    refuse(lists > np.maximum(room, _MOST_EMPTY_LISTS), "an array of impossible shape")
    refuse(lengths.prod(axis=1) * dtype.itemsize != room, "an array that does not have the bytes its shape takes")
    if (bad != "").any():
        raise BadValuesError({int(place): bad[place] for place in np.flatnonzero(bad != "")})
    return cells.starts + size, lengths


def _heads(little: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Heads, one a row, each in its own byte order: dtypes and dimensions are few, so the other order shows."""
    is_big = np.any(little[:, :2] > 255, axis=1, keepdims=True)
    return np.where(is_big, little.byteswap(), little).astype(np.int64)


def _values(item: pa.DataType, count: int, cells: Cells) -> pa.Array:
    joined = cells.joined()
    if pa.types.is_boolean(item):
        return pa.array(np.frombuffer(joined, np.uint8, count) != 0)
    return pa.Array.from_buffers(item, count, [None, joined])


def _arrow(name: str) -> pa.DataType:
    return pa.from_numpy_dtype(name)


def _numpy(item: pa.DataType) -> np.dtype[np.generic]:
    return np.dtype(item.to_pandas_dtype())
