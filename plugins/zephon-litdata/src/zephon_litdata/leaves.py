"""From the bytes of one leaf, row after row, to an Arrow array.

The serializers are those of ``litdata.streaming.serializers``. What they mean is done here with whole columns; images,
sound and the like stay the bytes they are, and so do pickles, which are handed out only where that is allowed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from zephon_litdata import arrays, nested
from zephon_litdata.cells import BadValuesError, Cells

_NUMBERS: Final = {"int": pa.int64(), "float": pa.float64()}
_TEXTS: Final = frozenset({"str", "text"})
_BYTES: Final = frozenset(
    {
        "bytes",
        "pil",
        "jpeg",
        "jpeg_array",
        "image",
        "video",
        "audio",
        "nifti",
        "mesh",
        "pdf",
        "tifffile",
        "tiff",
        "file",
    }
)
#: Lists and dicts, beside arrays or images; otherwise LitData keeps rows with them as an Arrow table.
_NESTED: Final = "json"
#: A graph is tensors and a pickle.
_PICKLES: Final = frozenset({"pickle", "graph"})


def needs_a_row(serializer: str) -> bool:
    """Whether the type of a leaf shows only in its rows: an array that says its own dtype and shape."""
    return serializer in arrays.WITH_HEADER


def type_of(serializer: str, first: bytes, allow_pickle: bool) -> pa.DataType | str:
    """The Arrow type of a leaf, or why it cannot be read.

    Args:
        serializer: as LitData names it, e.g. ``"no_header_tensor:18"``.
        first: the first row's value, for :func:`needs_a_row`; b"" if there is none.
        allow_pickle: whether pickles are to be handed out, as bytes.
    """
    kind, _, detail = serializer.partition(":")
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if kind == "bool":
        return pa.bool_()
    if kind in _TEXTS or kind == _NESTED:
        return pa.string()
    if kind in _BYTES or (kind in _PICKLES and allow_pickle):
        return pa.binary()
    if kind in arrays.WITH_HEADER:
        return arrays.type_of(kind, first)
    if kind in arrays.FLAT:
        return arrays.flat_type_of(kind, detail)
    if kind in _PICKLES:
        return (
            'it holds pickles, which can run any code when they are loaded; format_options={"allow_pickle": True} '
            "hands them out as bytes"
        )
    return f"its serializer {serializer!r} is not read here; write the field as text, numbers, arrays or bytes"


def decode(serializer: str, kind: pa.DataType, cells: Cells) -> pa.Array:
    """A leaf's values.

    Args:
        serializer: as LitData names it.
        kind: what :func:`type_of` said.
        cells: where the values are.

    Raises:
        BadValuesError: with every value that cannot be decoded.
    """
    name = serializer.partition(":")[0]
    if name in _NUMBERS:
        _expect_width(cells, 8)
        return pa.Array.from_buffers(kind, len(cells), [None, cells.joined()])
    if name == "bool":
        _expect_width(cells, 1)
        return pa.array(np.frombuffer(cells.joined(), np.uint8, len(cells)) != 0)
    if name in arrays.WITH_HEADER:
        return arrays.decode(name, kind, cells)
    if name in arrays.FLAT:
        return arrays.decode_flat(kind, cells)
    if name == _NESTED:
        return nested.decode(cells)
    return _text(cells.binary()) if name in _TEXTS else cells.binary()


def _expect_width(cells: Cells, width: int) -> None:
    wrong = np.flatnonzero(cells.stops - cells.starts != width)
    if len(wrong):
        raise BadValuesError({int(place): f"a value that does not take {width} bytes" for place in wrong})


def _text(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        # Few rows are bad, if any: only then each is looked at.
        bad = {place: "text that is not UTF-8" for place, value in enumerate(values) if not _is_text(value.as_py())}
        raise BadValuesError(bad) from error


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
