"""Which members make a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import attrs
import numpy as np
import pyarrow as pa

from zephon.errors import ShardError
from zephon_webdataset.failures import duplicate, interleaved, link
from zephon_webdataset.headers import Member
from zephon_webdataset.layout import MISSING, Layout
from zephon_webdataset.names import KEY, split_name

#: More different fields than that are no columns.
MAX_FIELDS: Final = 1024


@attrs.frozen(slots=True, kw_only=True)
class Policy:
    """What to make of archives that are not as they should be: the options of ``WebDatasetFormat``."""

    truncated: Literal["error", "keep"]
    interleaved: Literal["error", "group", "split"]
    duplicate: Literal["error", "first", "last"]
    links: Literal["error", "skip"]


class Grouping:
    """Takes the members of one shard, one by one, and has the rows in the end."""

    def __init__(self, shard: str, policy: Policy) -> None:
        self._shard = shard
        self._policy = policy
        self._keys: list[str] = []
        #: The latest row of each key.
        self._row_of: dict[str, int] = {}
        self._row = -1
        #: Of each field, where the member of each row begins and its size.
        self._fields: dict[str, dict[int, tuple[int, int]]] = {}
        self._bad: dict[int, tuple[int, str]] = {}

    def take_all(self, members: Iterable[Member]) -> None:
        """Take members until there is none.

        Raises:
            ShardError: what ``members`` raises, but for a cut that is to be overlooked; ``tar-key-interleaved``,
                ``tar-member-duplicate``, ``tar-member-link``, ``too-many-fields``.
        """
        try:
            for member in members:
                self._take(member)
        except ShardError as error:
            if error.code != "shard-truncated" or self._policy.truncated == "error":
                raise
            # More members of the last row may have been behind the cut.
            self._forget(self._row)

    def finish(self, compression: str, size: int) -> tuple[Layout, tuple[tuple[int, int, str], ...]]:
        """The rows, and the bad ones among them."""
        names = tuple(sorted(self._fields))
        starts = np.full((len(names), len(self._keys)), MISSING, dtype=np.int64)
        sizes = np.zeros_like(starts)
        for place, name in enumerate(names):
            rows = np.fromiter(self._fields[name], dtype=np.int64)
            found = np.array(list(self._fields[name].values()), dtype=np.int64).reshape(len(rows), 2)
            starts[place, rows], sizes[place, rows] = found[:, 0], found[:, 1]
        layout = Layout(
            compression=compression,
            size=size,
            names=names,
            keys=pa.array(self._keys, pa.string()),
            starts=starts,
            sizes=sizes,
        )
        return layout, tuple((row, *self._bad[row]) for row in sorted(self._bad))

    def _take(self, member: Member) -> None:
        name = member.name.decode("utf-8", "replace")
        parts = split_name(name)
        if parts is None or member.kind == "other":
            return
        if member.kind == "link":
            if self._policy.links == "skip":
                return
            raise link(self._shard, name, member.header)
        key, field = parts
        row = self._find_row(key, member)
        if not _is_text(member.name):
            self._bad.setdefault(row, (member.header, f"the member's name {member.name!r} is not UTF-8"))
        members = self._fields.setdefault(field, {})
        if len(self._fields) > MAX_FIELDS:
            raise ShardError(
                f"the members of {self._shard} have more than {MAX_FIELDS} different fields",
                found=f"among them {', '.join(map(repr, list(self._fields)[-3:]))}; a key ends at the first dot of the "
                "file's name, and the field is what follows",
                fix="write keys without dots",
                code="too-many-fields",
            )
        if field == KEY or (row in members and self._policy.duplicate == "error"):
            raise duplicate(self._shard, name, member.header)
        if row not in members or self._policy.duplicate == "last":
            members[row] = (member.start, member.size)

    def _find_row(self, key: str, member: Member) -> int:
        if self._row < 0 or key != self._keys[self._row]:
            if key in self._row_of and self._policy.interleaved != "split":
                if self._policy.interleaved == "error":
                    raise interleaved(self._shard, key, member.header)
                self._row = self._row_of[key]
            else:
                self._row = self._row_of[key] = len(self._keys)
                self._keys.append(key)
        return self._row

    def _forget(self, row: int) -> None:
        if row < 0:
            return
        del self._keys[row]
        self._fields = {
            name: {r - (r > row): place for r, place in members.items() if r != row}
            for name, members in self._fields.items()
            if members.keys() != {row}
        }
        self._bad = {r - (r > row): why for r, why in self._bad.items() if r != row}


def _is_text(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
