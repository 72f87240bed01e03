"""Members as values: text, numbers and JSON, by the last part of their extension."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zephon.block import META_CONFLICT, canonical_type, unify_types
from zephon.errors import BadRow, BadRowsError

#: Kinds of extensions, as the webdataset library decodes them by default.
KINDS: Final = {
    **dict.fromkeys(("txt", "text", "transcript"), "text"),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), "number"),
    **dict.fromkeys(("json", "jsn"), "json"),
}
#: All extensions there is a kind for.
EVERY: Final = "*"
#: JSON nests no deeper: Arrow's IPC reader holds to this.
MAX_DEPTH: Final = 60
_NUMBER: Final = re.compile(rb"\s*([+-]?[0-9]{1,20})\s*")
_PLAIN_NUMBER: Final = r"^(0|-?[1-9][0-9]{0,17})$"


class _BadValueError(Exception):
    """A member that does not hold what its extension says; the message says why."""


def kind_of(field: str, decode: Iterable[str]) -> str:
    """How a field is decoded: "text", "number", "json", or "" for one that stays bytes."""
    return KINDS.get(field.rpartition(".")[2], "") if field in decode or EVERY in decode else ""


def infer(batches: Iterable[pa.Array], name: str) -> pa.Field:
    """The field for JSON members: one type for all rows, or null and the reason why there is none.

    Members that are no JSON have no part in it: their rows are bad when they are read.
    """
    united: pa.DataType = pa.null()
    for batch in batches:
        # One by one: any JSON value at all may be in a member.
        values = [value for raw in batch for value in _json_or_nothing(raw)]
        try:
            found: pa.DataType | None = canonical_type(pa.array(values).type)
        except (pa.ArrowException, OverflowError) as error:
            return _conflict(name, f"the members of {name!r} have no one type: {error}")
        both = unify_types(united, found)
        if both is None:
            return _conflict(name, f"the members of {name!r} have no one type: {united} and {found}")
        united = both
    return pa.field(name, united)


def _conflict(name: str, reason: str) -> pa.Field:
    return pa.field(name, pa.null(), metadata={META_CONFLICT: reason.encode()})


def _json_or_nothing(raw: Any) -> Iterator[Any]:
    if raw.is_valid:
        try:
            yield _json(raw.as_py())
        except _BadValueError:
            return


def decode(column: pa.Array, kind: str, field: pa.Field, bad: dict[int, str]) -> pa.Array:
    """One column of members as values.

    Args:
        column: binary.
        kind: of :data:`KINDS`, or "" to leave it as it is.
        field: what it becomes.
        bad: gets the places of members that cannot be decoded, with the reason.
    """
    if not kind:
        return column
    if kind == "text":
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            return _each(column, field, _text, bad)
    if kind == "number":
        plain = pc.match_substring_regex(column, _PLAIN_NUMBER)
        if pc.all(plain).as_py() is not False:
            return column.cast(pa.string()).cast(pa.int64())
        return _each(column, field, _number, bad)
    return _each(column, field, _json, bad)


def refuse(bad: dict[int, str], rows: npt.NDArray[np.int64]) -> None:
    """Raise for the bad places of one call.

    Raises:
        BadRowsError: ``bad-row``.
    """
    if bad:
        raise BadRowsError(BadRow(int(rows[place]), bad[place]) for place in sorted(bad))


def _each(column: pa.Array, field: pa.Field, decoder: Any, bad: dict[int, str]) -> pa.Array:
    """Member by member, in Python: each may hold anything."""
    values: list[Any] = []
    for place, raw in enumerate(column.to_pylist()):
        try:
            values.append(None if raw is None else decoder(raw))
        except _BadValueError as error:
            values.append(None)
            bad.setdefault(place, f"field {field.name!r} is {error}")
    return pa.array(values, field.type)


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _BadValueError(f"not UTF-8: {error.reason} at byte {error.start}") from None


def _number(raw: bytes) -> int:
    digits = _NUMBER.fullmatch(raw)
    if digits is None:
        raise _BadValueError(f"not a whole number: {raw[:40]!r}")
    value = int(digits[1])
    if not -(1 << 63) <= value < 1 << 63:
        raise _BadValueError(f"beyond a 64-bit integer: {value}")
    return value


def _json(raw: bytes) -> Any:
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        raise _BadValueError(f"nested more than {MAX_DEPTH} levels deep")
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_constant)
        # Escapes of lone surrogates are JSON, but no text.
        if b"\\u" in raw:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise _BadValueError(f"not JSON: {error}") from None
    return value


def _depth(raw: bytes) -> int:
    codes = np.frombuffer(re.sub(rb'"(?:[^"\\]|\\.)*"', b"", raw, flags=re.DOTALL), dtype=np.uint8) | 0x20
    steps = (codes == ord("{")).astype(np.int8) - (codes == ord("}")).astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


def _constant(literal: str) -> NoReturn:
    raise _BadValueError(f"not JSON: {literal}")
