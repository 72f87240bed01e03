"""Ragged rows become rectangles.

How wide, on which side and with what is decided by the metadata of the column, over the whole microbatch: the ranks
that share one see equal widths.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.batch.window import Window
from zephon.block import META_PAD_ID, META_PAD_LENGTH, META_PAD_SIDE, META_ROLE, list_parts
from zephon.errors import ConfigError

#: Width of a microbatch without any real row whose columns have no fixed length: enough that inputs and labels, which
#: are one shorter, are not empty.
FILLER_WIDTH: Final = 2

#: Roles of columns with one value per token.
TOKEN_ROLES: Final = frozenset({b"tokens", b"positions", b"loss_mask", b"attention_mask"})


@attrs.frozen(slots=True)
class Layout:
    """A rectangle for ragged rows.

    Attributes:
        width: columns.
        left: whether padding comes before the row instead of after it.
        value: what padding is.
    """

    width: int
    left: bool
    value: int


@attrs.frozen(slots=True)
class Ragged:
    """A list column of numbers: row ``i`` is ``values[offsets[i]:offsets[i + 1]]``.

    Attributes:
        field: name, type and metadata.
        offsets: int64 ``[n + 1]``, from 0.
        values: the flat values, a view of Arrow memory where possible.
    """

    field: pa.Field
    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[Any]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of every row of the microbatch: int64 ``[n]``."""
        return np.diff(self.offsets)

    @staticmethod
    def of(field: pa.Field, column: pa.Array) -> Ragged:
        """Take a column apart; a null row counts as empty.

        Raises:
            ConfigError: ``null-in-list``.
        """
        offsets, values = list_parts(column)
        if values.null_count:
            raise ConfigError(
                f"the lists of field {field.name!r} hold nulls",
                found=f"{values.null_count} null values in this batch",
                fix=f"fill them with .map_transform(), or read batch[{field.name!r}]",
                code="null-in-list",
            )
        return Ragged(field, offsets, values.to_numpy(zero_copy_only=False))


def is_ragged(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists of numbers or booleans of any length."""
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    item = kind.value_type
    return pa.types.is_integer(item) or pa.types.is_floating(item) or pa.types.is_boolean(item)


def role(field: pa.Field) -> bytes:
    """The role a field's metadata give it, or ``b""``."""
    return (field.metadata or {}).get(META_ROLE, b"")


def number(field: pa.Field, key: bytes) -> int | None:
    """A decimal integer in a field's metadata, or None.

    Raises:
        ConfigError: ``field-metadata``.
    """
    text = (field.metadata or {}).get(key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            f"the metadata of field {field.name!r} are not valid",
            found=f"{key.decode()} is {text!r}; expected a decimal integer",
            fix="write it as e.g. b'0'",
            code="field-metadata",
        ) from None


def layout_of(ragged: Ragged, like: Layout | None = None) -> Layout:
    """The rectangle for a column.

    Args:
        ragged: the column, with all real rows of the microbatch.
        like: take width and side from here where the metadata do not say.

    Raises:
        ConfigError: ``ragged-field``: rows differ in length and nothing says how to pad; ``row-too-wide``: a row is
            longer than the length to pad to; ``field-metadata``.
    """
    field, lengths = ragged.field, ragged.lengths
    longest = int(lengths.max(initial=0))
    width = number(field, META_PAD_LENGTH)
    if width is not None and longest > width:
        raise ConfigError(
            f"a row of field {field.name!r} is longer than the length its rows are padded to",
            found=f"{longest} values, padded to {width}",
            fix=f"cut {field.name!r} where it is made, or raise its max_length",
            code="row-too-wide",
        )
    value = number(field, META_PAD_ID)
    if value is None and role(field) not in TOKEN_ROLES - {b"tokens"} and like is None and (lengths != longest).any():
        raise ConfigError(
            f"the rows of field {field.name!r} differ in length, and nothing says how to pad them",
            found=f"lengths from {int(lengths.min())} to {longest}",
            fix=f"give the field the metadata {META_PAD_ID!r}, leave it out, or read batch[{field.name!r}]",
            code="ragged-field",
        )
    side = (field.metadata or {}).get(META_PAD_SIDE)
    if side not in (None, b"left", b"right"):
        raise ConfigError(
            f"the metadata of field {field.name!r} are not valid",
            found=f"{META_PAD_SIDE.decode()} is {side!r}; expected b'left' or b'right'",
            fix="write b'right'",
            code="field-metadata",
        )
    if width is None:
        width = like.width if like else longest if len(lengths) else FILLER_WIDTH
    left = side == b"left" if side is not None else like is not None and like.left
    return Layout(width=width, left=left, value=value or 0)


def lay_out(ragged: Ragged, window: Window, layout: Layout) -> npt.NDArray[Any]:
    """The rows of a window as a rectangle.

    Returns:
        ``[window.rows, layout.width]`` in the dtype of the values. A view of them where nothing needs padding.
    """
    offsets = ragged.offsets[window.start : window.last + 1] if window.real else ragged.offsets[:1]
    values = ragged.values[offsets[0] : offsets[-1]]
    lengths = np.zeros(window.rows, dtype=np.int64)
    lengths[: window.real] = np.diff(offsets)
    if bool((lengths == layout.width).all()):
        return values.reshape(window.rows, layout.width)
    result = np.full((window.rows, layout.width), layout.value, dtype=values.dtype)
    result[filled(lengths, layout)] = values
    return result


def filled(lengths: npt.NDArray[np.int64], layout: Layout) -> npt.NDArray[np.bool_]:
    """Where rows of these lengths lie in the rectangle: bool ``[n, width]``."""
    places = np.arange(layout.width)
    if layout.left:
        return places >= (layout.width - lengths)[:, None]
    return places < lengths[:, None]
