"""From the text of records to typed columns, with Arrow's parser; and which types columns have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from zephon.block import unify_types
from zephon.errors import BadRow, BadRowsError
from zephon_csv.records import Dialect

#: Integers up to here are exact in a double.
_EXACT: Final = 1 << 53
_DIGITS: Final = r"^[ \t]*[+-]?[0-9]{16,}[ \t]*$"
_TRUE: Final = ["true", "True", "TRUE"]
_FALSE: Final = ["false", "False", "FALSE"]


@attrs.frozen(slots=True, kw_only=True)
class Parser:
    """Arrow's CSV parser, set up for one shard.

    Attributes:
        dialect: what separates what.
        names: all columns, in order.
        null_values: what stands for no value, in columns of any type; None for Arrow's usual list, in columns that are
            not text.
    """

    dialect: Dialect
    names: Sequence[str]
    null_values: tuple[str, ...] | None

    def parse(self, text: pa.Buffer, types: Mapping[str, pa.DataType], columns: Sequence[str]) -> pa.RecordBatch:
        """Parse records.

        Args:
            text: one or more records, each with as many fields as there are names, at most 1 GiB.
            types: of columns; the others are inferred.
            columns: the columns wanted, in this order; at least one.

        Raises:
            pa.ArrowInvalid: a value is not of its column's type.
        """
        given = self.null_values is not None
        table = pacsv.read_csv(
            pa.BufferReader(text),
            pacsv.ReadOptions(use_threads=False, block_size=text.size + 1, column_names=list(self.names)),
            pacsv.ParseOptions(
                delimiter=self.dialect.delimiter.decode(),
                quote_char=self.dialect.quote.decode() or False,
                newlines_in_values=bool(self.dialect.quote),
            ),
            pacsv.ConvertOptions(
                column_types=dict(types),
                include_columns=list(columns),
                null_values=list(self.null_values) if self.null_values is not None else None,
                strings_can_be_null=given,
                quoted_strings_can_be_null=False,
                true_values=_TRUE,
                false_values=_FALSE,
            ),
        )
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def parse_rows(
    parser: Parser,
    pieces: pa.Array,
    rows: npt.NDArray[np.int64],
    types: Mapping[str, pa.DataType],
    columns: Sequence[str],
) -> pa.RecordBatch | None:
    """Parse the records of some rows.

    Args:
        parser: of the shard.
        pieces: large_binary ``[n]``, a record each.
        rows: int64 ``[n]``, the shard's number of each.
        types: of all columns wanted.
        columns: the columns wanted.

    Returns:
        A batch of n rows; None where there are more or fewer: the records are not what they were.

    Raises:
        BadRowsError: ``bad-row``, naming every row with a value that is not of its column's type.
    """
    try:
        batch = parser.parse(_joined(pieces), types, columns)
    except pa.ArrowInvalid as error:
        bad = list(_bad(parser, pieces, rows, types, columns, str(error)))
        if not bad:
            return None
        raise BadRowsError(bad) from error
    return batch if batch.num_rows == len(rows) else None


def _bad(
    parser: Parser,
    pieces: pa.Array,
    rows: npt.NDArray[np.int64],
    types: Mapping[str, pa.DataType],
    columns: Sequence[str],
    reason: str,
) -> Iterator[BadRow]:
    """The rows that do not parse, by halving: few rows are bad, if any."""
    if len(rows) == 1:
        yield BadRow(int(rows[0]), reason)
        return
    middle = len(rows) // 2
    for part in (slice(0, middle), slice(middle, len(rows))):
        some = pieces[part]
        try:
            parser.parse(_joined(some), types, columns)
        except pa.ArrowInvalid as error:
            yield from _bad(parser, some, rows[part], types, columns, str(error))


def _joined(pieces: pa.Array) -> pa.Buffer:
    offsets = pieces.buffers()[1]
    first, last = np.frombuffer(offsets, dtype=np.int64)[[pieces.offset, pieces.offset + len(pieces)]]
    return pieces.buffers()[2].slice(int(first), int(last - first))


class Types:
    """Unites the types of columns, one block of rows after the other.

    Types are null, int64, double, bool and string. Whatever does not unite is text, and so are numbers that a double
    would round: integers beyond 64 bits, or beyond 2^53 where other rows have fractions.
    """

    def __init__(self, parser: Parser, given: Mapping[str, pa.DataType]) -> None:
        self._parser = parser
        self._given = dict(given)
        self._open = [name for name in parser.names if name not in given]
        self._found: dict[str, pa.DataType] = {name: pa.null() for name in self._open}
        #: Columns with an integer that a double does not hold.
        self._long: set[str] = set()

    def add(self, text: pa.Buffer) -> None:
        """Show consecutive records.

        Raises:
            pa.ArrowInvalid: they do not parse.
        """
        wanted = [name for name in self._open if self._found[name] != pa.string()]
        if not wanted or not text.size:
            return
        batch = self._parser.parse(text, {}, wanted)
        digits = []
        for name in wanted:
            found = batch.column(name)
            kind = found.type
            if not any(kind == plain for plain in (pa.null(), pa.int64(), pa.float64(), pa.bool_())):
                kind = pa.string()
            elif kind in (pa.int64(), pa.float64()) and _is_beyond(found):
                digits.append(name)
            self._found[name] = unify_types(self._found[name], kind) or pa.string()
        if digits:
            self._look_at_digits(text, digits)

    def finish(self) -> dict[str, pa.DataType]:
        """The type of every column, in the file's order."""
        found = {n: pa.string() if n in self._long and t == pa.float64() else t for n, t in self._found.items()}
        return {name: self._given.get(name, found.get(name)) for name in self._parser.names}

    def _look_at_digits(self, text: pa.Buffer, names: list[str]) -> None:
        texts = self._parser.parse(text, dict.fromkeys(names, pa.string()), names)
        for name in names:
            if pc.any(pc.match_substring_regex(texts.column(name), _DIGITS)).as_py():
                self._long.add(name)


def _is_beyond(column: pa.Array) -> bool:
    ends: dict[str, Any] = pc.min_max(column).as_py()
    return any(end is not None and abs(end) >= _EXACT for end in ends.values())
