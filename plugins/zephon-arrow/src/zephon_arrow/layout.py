"""What the index keeps of one shard: where its messages lie, and what their metadata were."""

from __future__ import annotations

import hashlib
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon_arrow.flat import DICTIONARY, RECORDS, SCHEMA

#: Metadata of all messages of a shard up to this size are kept in the index, so that a reader can tell which bytes hold
#: a column without asking the file. Of more (thousands of columns in thousands of batches) only the schema's are kept.
_MOST_KEPT: Final = 4 << 20

_BLOB: Final = pa.schema(
    [
        ("kind", pa.int8()),
        ("start", pa.int64()),
        ("head", pa.int64()),
        ("body", pa.int64()),
        ("rows", pa.int64()),
        ("dictionary", pa.int64()),
        ("is_delta", pa.bool_()),
        ("digest", pa.binary()),
        ("bytes", pa.binary()),
    ]
)


def digest(head: pa.Buffer | bytes) -> bytes:
    """What tells one message's metadata from another's."""
    return hashlib.blake2b(head, digest_size=16).digest()


@attrs.frozen(slots=True, kw_only=True)
class Message:
    """One message of a shard.

    Attributes:
        kind: as :class:`zephon_arrow.flat.MessageFacts` has it.
        start: offset in the file.
        head: bytes before its body: length prefix, metadata, padding.
        body: bytes of its body.
        rows: its rows, where it is a record batch.
        dictionary: number of the dictionary it holds, or -1.
        is_delta: whether it adds to that dictionary.
        digest: of the head.
        bytes: the head itself, or None where the index does not keep it.
    """

    kind: int
    start: int
    head: int
    body: int
    rows: int
    dictionary: int
    is_delta: bool
    digest: bytes
    bytes: bytes | None

    @property
    def stop(self) -> int:
        """The byte after it."""
        return self.start + self.head + self.body


@attrs.frozen(slots=True, kw_only=True)
class Layout:
    """The messages of a shard, in the order they are needed.

    Attributes:
        messages: the schema, then dictionaries and record batches; a batch needs the dictionaries before it.
    """

    messages: tuple[Message, ...]

    def bounds(self) -> npt.NDArray[np.int64]:
        """int64 ``[batches + 1]``: rows at which record batches begin, then the number of rows."""
        return np.cumsum([0, *(m.rows for m in self.messages if m.kind == RECORDS)]).astype(np.int64)

    @property
    def schema(self) -> Message:
        """The schema's message."""
        return self.messages[0]

    def batches(self) -> list[tuple[Message, tuple[Message, ...]]]:
        """Each record batch, with the dictionaries in force where it stands: the latest, and what was added to them."""
        found = []
        known: dict[int, list[tuple[int, Message]]] = {}
        in_force: tuple[Message, ...] = ()
        for number, message in enumerate(self.messages):
            if message.kind == DICTIONARY:
                former = known.get(message.dictionary, []) if message.is_delta else []
                known[message.dictionary] = [*former, (number, message)]
                everything = (entry for held in known.values() for entry in held)
                in_force = tuple(m for _, m in sorted(everything, key=lambda entry: entry[0]))
            elif message.kind == RECORDS:
                found.append((message, in_force))
        return found

    def to_blob(self) -> pa.RecordBatch:
        """One row a message."""
        keep = sum(m.head for m in self.messages) <= _MOST_KEPT
        rows = [attrs.asdict(m) for m in self.messages]
        for row in rows:
            row["bytes"] = row["bytes"] if keep or row["kind"] == SCHEMA else None
        return pa.RecordBatch.from_pylist(rows, schema=_BLOB)

    @staticmethod
    def from_blob(blob: pa.RecordBatch) -> Layout:
        """Inverse of :meth:`to_blob`, but for metadata that were too many to keep."""
        return Layout(messages=tuple(Message(**row) for row in blob.to_pylist()))
