"""One line at a time: what a valid row is, decided by Python's own JSON scanner and a few stricter rules.

The block parser (``fast``) is used only for lines on which it agrees with this module; this module is the definition.
A row is one JSON object (RFC 8259) on one line, and

- the line is UTF-8, its escapes are no lone surrogates: every string is Unicode text;
- ``NaN``, ``Infinity`` and numbers that overflow a double are refused (RFC 8259, section 6, leaves the range to us);
- it nests at most :data:`MAX_DEPTH` deep, which Arrow's IPC reader also holds to, and fits in :data:`MAX_LINE` bytes;
- of a key that occurs twice in one object the last value counts, as in Python and JavaScript; the key keeps its first
  place.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

import attrs
import numpy as np

#: Objects and arrays inside each other, the row's own object included.
MAX_DEPTH: Final = 64
#: Bytes of one line: no column of a block may pass as much.
MAX_LINE: Final = 1 << 30
#: What JSON calls whitespace, without the newline that ends a row.
SPACES: Final = b" \t\r"

_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class BadLineError(Exception):
    """A line that is no row; the message says why."""


class Integer(str):
    """An integer's literal: no digit is lost before its column's type is known."""

    __slots__ = ()

    @property
    def fits(self) -> bool:
        """Whether it is an int64."""
        return len(self) <= 18 or (len(self) <= 20 and -(1 << 63) <= int(self) < 1 << 63)


class Real(str):
    """The literal of a number with a fraction or an exponent."""

    __slots__ = ()


@attrs.frozen(slots=True)
class ParsedLine:
    """A valid row.

    Attributes:
        value: the object; numbers are :class:`Integer` and :class:`Real`.
        duplicates: whether some object in it repeats a key.
    """

    value: dict[str, Any]
    duplicates: bool


def parse(line: bytes) -> ParsedLine:
    """The row a line holds.

    Raises:
        BadLineError: the line is no valid row.
    """
    if len(line) > MAX_LINE:
        raise BadLineError(f"the line has {len(line)} bytes, more than {MAX_LINE}")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadLineError(f"not UTF-8: {error.reason} at byte {error.start} of the line") from None
    if too_deep(line):
        raise BadLineError(f"nested more than {MAX_DEPTH} levels deep")
    scanner = _Scanner()
    try:
        value = scanner.decode(text)
    except json.JSONDecodeError as error:
        raise BadLineError(f"not JSON: {error.msg} at character {error.pos} of the line") from None
    if not isinstance(value, dict):
        raise BadLineError("not a JSON object")
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise BadLineError("a string holds a lone surrogate escape, which is no character") from None
    return ParsedLine(value, scanner.duplicates)


def normalise(line: bytes) -> bytes:
    """The same row for a parser that stumbles over it: keys once, plain literals, a newline at the end.

    Raises:
        BadLineError: the line is no valid row.
    """
    return _written(parse(line).value).encode("utf-8") + b"\n"


def too_deep(line: bytes) -> bool:
    """Whether a line nests more than :data:`MAX_DEPTH` levels deep, as far as it is JSON."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    codes = np.frombuffer(_STRINGS.sub(b"", line), dtype=np.uint8) | 0x20  # "[" and "{", "]" and "}" fall together
    steps = (codes == ord("{")).astype(np.int8) - (codes == ord("}")).astype(np.int8)
    return bool(np.cumsum(steps, dtype=np.int64).max(initial=0) > MAX_DEPTH)


class _Scanner:
    """A decoder for one line; remembers whether a key came twice."""

    def __init__(self) -> None:
        self.duplicates = False
        self.decode = json.JSONDecoder(
            object_pairs_hook=self._object, parse_int=_integer, parse_float=_real, parse_constant=_constant
        ).decode

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        self.duplicates = self.duplicates or len(value) < len(pairs)
        return value


def _integer(literal: str) -> Integer:
    if len(literal) > 308:
        _real(literal)
    return Integer(literal)


def _real(literal: str) -> Real:
    if math.isinf(float(literal)):
        raise BadLineError(f"the number {literal[:40]} is beyond a double")
    return Real(literal)


def _constant(literal: str) -> NoReturn:
    raise BadLineError(f"not JSON: {literal}")


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, Integer):
        return str(value)
    if isinstance(value, Real):
        return repr(float(value))
    return _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
