"""``decode_text``: bytes to text, by whole columns."""

from __future__ import annotations

import codecs
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon.abc import RowOperator
from zephon.block import Block
from zephon.errors import BadRow, BadRowsError, ConfigError, PlanError
from zephon.spec import execution

#: Error handlers that give text Arrow can hold (``surrogateescape`` and ``surrogatepass`` give lone surrogates).
_HANDLERS: Final = ("strict", "replace", "ignore")


def _names(value: Any) -> tuple[str, ...]:
    # A plain string is a common slip, and tuple("text") would be four fields.
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen(slots=True)
class DecodeText(RowOperator):
    r"""Turn bytes into text.

    Binary columns become string columns; string columns stay as they are. Nulls stay null. With
    ``normalize_newlines``, ``\r\n`` and ``\r`` become ``\n`` in both.

    Args:
        fields: names of the columns.
        encoding: any text encoding Python knows. UTF-8 is checked column by column, others are decoded row by row.
        errors: what to do with bytes that are no text: ``"strict"`` makes the row a bad row (see ``on_error``),
            ``"replace"`` puts U+FFFD in their place, ``"ignore"`` leaves them out.
        normalize_newlines: make all line ends ``\n``.
        parallelism: execution setting, how many workers run it.
        placement: execution setting, where it runs.

    Raises:
        ConfigError: ``encoding-unknown``, ``option-invalid``.
        PlanError: ``field-missing``, ``field-type`` when planned.
        BadRowsError: ``text-undecodable``, naming field, byte offset and byte of every bad row.
    """

    preserves_rows = True

    fields: tuple[str, ...] = attrs.field(default=("text",), converter=_names)
    encoding: str = "utf-8"
    errors: str = "strict"
    normalize_newlines: bool = True
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def __attrs_post_init__(self) -> None:
        try:
            # Also refuses codecs that are no text encodings, such as "hex". (No bytes at all would not ask the codec.)
            bytes(4).decode(self.encoding, "ignore")
        except (LookupError, UnicodeError) as error:
            raise ConfigError(
                f"decode_text: {self.encoding!r} is no text encoding",
                found=str(error),
                fix='name one Python knows, e.g. encoding="utf-8", "latin-1", "utf-16" or "gb18030"',
                code="encoding-unknown",
            ) from None
        if self.errors not in _HANDLERS:
            raise ConfigError(
                f"decode_text: errors={self.errors!r} is not possible",
                found=f"expected one of {', '.join(map(repr, _HANDLERS))}",
                fix='use errors="strict" with .options(on_error="skip") to drop such rows, or errors="replace"',
                code="option-invalid",
            )

    @property
    def holds_gil(self) -> bool:
        """UTF-8 is checked by Arrow, other encodings are decoded row by row by Python."""
        return codecs.lookup(self.encoding).name != "utf-8"

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields to decode."""
        return self.fields

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The same schema with the named fields as strings."""
        for name in self.fields:
            index = schema.get_field_index(name)
            if index < 0:
                raise PlanError(
                    f"decode_text reads the field {name!r}, which is not there",
                    found=f"fields there: {', '.join(schema.names) or 'none'}",
                    fix='name the fields that hold bytes: .decode_text(fields=("...",))',
                    code="field-missing",
                )
            field = schema.field(index)
            if not (_is_string(field.type) or _is_binary(field.type)):
                raise PlanError(
                    f"decode_text cannot decode the field {name!r}",
                    found=f"{name!r} is {field.type}; expected binary or string",
                    fix="name fields that hold bytes, or convert it with .map_transform() first",
                    code="field-type",
                )
            schema = schema.set(index, field.with_type(pa.string()))
        return schema

    def apply(self, block: Block) -> Block:
        """Decode the named columns of one block."""
        data = block.data
        schema = self.output_schema(data.schema)
        columns = list(data.columns)
        bad: dict[int, str] = {}
        for name in self.fields:
            index = schema.get_field_index(name)
            column = columns[index]
            if _is_string(column.type):
                column = column.cast(pa.string())
            else:
                column, reasons = self._decode(column.cast(pa.binary()))
                bad.update({row: f"field {name!r}: {reason}" for row, reason in reasons.items() if row not in bad})
            columns[index] = column if bad else self._normalized(column)
        if bad:
            raise BadRowsError(
                [BadRow(row, bad[row]) for row in sorted(bad)],
                what=f"decode_text: the bytes of a row are not {self.encoding} text",
                fix='name the right encoding=, or drop such rows with .options(on_error="skip")',
                code="text-undecodable",
            )
        return block.with_data(pa.RecordBatch.from_arrays(columns, schema=schema))

    def _normalized(self, column: pa.Array) -> pa.Array:
        # Looking first is several times cheaper than replacing, and most text holds no \r.
        if not self.normalize_newlines or not pc.any(pc.match_substring(column, "\r")).as_py():
            return column
        return pc.replace_substring(pc.replace_substring(column, "\r\n", "\n"), "\r", "\n")

    def _decode(self, column: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """A string column, and what is wrong with the rows that have no text (the column is then meaningless)."""
        if codecs.lookup(self.encoding).name != "utf-8":
            rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            return self._decoded_rows(column, rows)
        try:
            return column.cast(pa.string()), {}
        except pa.ArrowInvalid:
            return self._decoded_rows(column, _invalid_utf8(column))

    def _decoded_rows(self, column: pa.Array, rows: npt.NDArray[np.int64]) -> tuple[pa.Array, dict[int, str]]:
        # Python's codecs take one value at a time: this path is for other encodings than UTF-8 and for bad rows.
        decoded: list[bytes] = []
        bad: dict[int, str] = {}
        for row in rows.tolist():
            value = column[row].as_py()
            try:
                # Encoding again refuses the lone surrogates that some codecs (UTF-7, unicode_escape) let through.
                decoded.append(value.decode(self.encoding, self.errors).encode("utf-8"))
            except UnicodeDecodeError as error:
                bad[row] = f"byte {error.start} (0x{value[error.start : error.start + 1].hex()}): {error.reason}"
            except UnicodeEncodeError as error:
                bad[row] = f"character {error.start}: {error.reason}"
        if bad:
            return column, bad
        mask = np.zeros(len(column), dtype=bool)
        mask[rows] = True
        replaced = pc.replace_with_mask(column, pa.array(mask), pa.array(decoded, type=pa.binary()))
        return replaced.cast(pa.string()), {}


def _is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _invalid_utf8(column: pa.Array) -> npt.NDArray[np.int64]:
    """Rows whose bytes are not UTF-8, ascending: ranges that fail the whole-column check are halved."""
    found: list[int] = []
    ranges = [(0, len(column))]
    while ranges:
        start, stop = ranges.pop()
        try:
            column.slice(start, stop - start).cast(pa.string())
        except pa.ArrowInvalid:
            if stop - start == 1:
                found.append(start)
            else:
                middle = (start + stop) // 2
                ranges += [(middle, stop), (start, middle)]
    return np.array(found, dtype=np.int64)
