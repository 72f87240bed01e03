"""The few fields of Arrow's metadata that pyarrow does not show: where messages lie, and where buffers lie in them.

Metadata are FlatBuffers (https://flatbuffers.dev/internals/) of the tables in ``format/Message.fbs`` and
``format/File.fbs`` of the Arrow project. Every offset is checked: the bytes may be damaged.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

SCHEMA: Final = 1
DICTIONARY: Final = 2
RECORDS: Final = 3

_BLOCK_BYTES: Final = 24
_PAIR_BYTES: Final = 16


class FlatError(Exception):
    """The bytes are no such metadata."""


@attrs.frozen(slots=True)
class Table:
    """One FlatBuffers table: the bytes it is in, and its place there."""

    data: bytes
    place: int

    @staticmethod
    def root(data: bytes) -> Table:
        """The outermost table."""
        return Table(data, _unpack("<I", data, 0))

    def number(self, field: int, form: str, default: int = 0) -> int:
        """A scalar field; ``form`` is its ``struct`` format."""
        place = self._field(field)
        return _unpack("<" + form, self.data, place) if place else default

    def table(self, field: int) -> Table | None:
        """A field that is a table, or None."""
        place = self._field(field)
        return Table(self.data, place + _unpack("<I", self.data, place)) if place else None

    def structs(self, field: int, size: int) -> bytes:
        """The bytes of a vector of structs of ``size`` bytes each."""
        place = self._field(field)
        if not place:
            return b""
        start = place + _unpack("<I", self.data, place)
        stop = start + 4 + _unpack("<I", self.data, start) * size
        if stop > len(self.data):
            raise FlatError("a vector reaches past the end of the metadata")
        return self.data[start + 4 : stop]

    def _field(self, field: int) -> int:
        """Where a field lies; 0 where it is absent."""
        vtable = self.place - _unpack("<i", self.data, self.place)
        if _unpack("<H", self.data, vtable) < 6 + 2 * field:
            return 0
        offset = _unpack("<H", self.data, vtable + 4 + 2 * field)
        return self.place + offset if offset else 0


@attrs.frozen(slots=True, kw_only=True)
class MessageFacts:
    """What a message's metadata say.

    Attributes:
        kind: :data:`SCHEMA`, :data:`DICTIONARY` or :data:`RECORDS`.
        body: bytes of its body.
        rows: rows of a record batch, entries of a dictionary.
        dictionary: number of the dictionary, or -1.
        is_delta: whether the entries are added to that dictionary rather than put in its place.
        buffers: int64 ``[n, 2]``, offset in the body and length of each buffer.
    """

    kind: int
    body: int
    rows: int
    dictionary: int
    is_delta: bool
    buffers: npt.NDArray[np.int64] = attrs.field(eq=False)


def message_facts(metadata: bytes) -> MessageFacts:
    """Read a message's metadata.

    Raises:
        FlatError: they are not metadata of a message, or those of one that cannot be.
    """
    message = Table.root(metadata)
    kind, header = message.number(1, "B"), message.table(2)
    if kind not in (SCHEMA, DICTIONARY, RECORDS) or header is None:
        raise FlatError(f"a message of kind {kind}, neither schema nor dictionary nor record batch")
    body = message.number(3, "q")
    dictionary, is_delta, records = -1, False, None
    if kind == DICTIONARY:
        dictionary, is_delta, records = header.number(0, "q"), bool(header.number(2, "B")), header.table(1)
    elif kind == RECORDS:
        records = header
    rows = records.number(0, "q") if records else 0
    data = records.structs(2, _PAIR_BYTES) if records else b""
    buffers = np.frombuffer(data, dtype="<i8").astype(np.int64).reshape(-1, 2)
    if body < 0 or rows < 0:
        raise FlatError(f"{rows} rows in {body} bytes")
    offsets, lengths = buffers.T
    if (buffers < 0).any() or (lengths > body - offsets).any():
        raise FlatError("a buffer reaches past the end of its message")
    if (offsets % 8).any():
        raise FlatError("a buffer does not begin at a multiple of 8 bytes")
    nodes = records.structs(1, _PAIR_BYTES) if records else b""
    if nodes and _unpack("<q", nodes, 0) != rows:
        raise FlatError(f"{rows} rows, but {_unpack('<q', nodes, 0)} values in the first field")
    return MessageFacts(kind=kind, body=body, rows=rows, dictionary=dictionary, is_delta=is_delta, buffers=buffers)


def footer_blocks(footer: bytes) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """The places of a file's dictionaries and record batches: ``(offset, bytes before the body, bytes of the body)``.

    Raises:
        FlatError: the bytes are no footer.
    """
    table = Table.root(footer)
    dictionaries, batches = (list(struct.iter_unpack("<qi4xq", table.structs(field, _BLOCK_BYTES))) for field in (2, 3))
    return dictionaries, batches


def _unpack(form: str, data: bytes, place: int) -> int:
    if place < 0 or place + struct.calcsize(form) > len(data):
        raise FlatError(f"an offset to byte {place} of {len(data)}")
    number: int = struct.unpack_from(form, data, place)[0]
    return number
