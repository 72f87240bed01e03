"""Tar headers: which members an archive has and where their bytes are.

Read are ustar and pax archives (POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block") and those with
GNU long names and large sizes (GNU tar manual, "Basic Tar Format"). A header is checked against its checksum; the
bytes of members have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

import attrs

from zephon_webdataset.content import Content
from zephon_webdataset.failures import corrupt, truncated, unsupported

#: Headers and contents begin at multiples of this.
BLOCK: Final = 512
_ZEROS: Final = bytes(BLOCK)
_FILES: Final = frozenset({b"0", b"\0", b"7"})  # regular, regular as old tars write it, contiguous
_LINKS: Final = frozenset({b"1", b"2"})  # hard, symbolic
#: Devices, directories, pipes: whatever their size field says, no content follows.
_EMPTY: Final = frozenset({b"3", b"4", b"5", b"6"})
_PAX_GLOBAL: Final = b"g"
_LONG_NAME: Final = b"L"
_LONG_LINK: Final = b"K"
_SPARSE: Final = b"S"
#: Headers that tell more about the next one.
_EXTENDED: Final = frozenset({b"x", b"X", _PAX_GLOBAL, _LONG_NAME, _LONG_LINK})
_POSIX_MAGIC: Final = b"ustar\0"
_OCTAL: Final = re.compile(rb" *([0-7]*)[ \0]*")
_PAX_LENGTH: Final = re.compile(rb"([1-9][0-9]{0,8}) ")
#: Longest extended header that is believed.
_LONGEST_EXTENSION: Final = 1 << 20
#: Bytes behind the end mark that are looked at together.
_TAIL_STEP: Final = 1 << 16


@attrs.frozen(slots=True, kw_only=True)
class Member:
    """One entry of an archive.

    Attributes:
        name: path in the archive, as its bytes.
        kind: a file with content, a link to another one, or anything else (directories, devices).
        header: where its first header begins, extended ones included.
        start: where its content begins.
        size: bytes of its content.
    """

    name: bytes
    kind: Literal["file", "link", "other"]
    header: int
    start: int
    size: int


@attrs.frozen(slots=True)
class _Header:
    name: bytes
    flag: bytes
    size: int


def members(content: Content, size: int | None, shard: str) -> Iterator[Member]:
    """Every member, in the order of the archive.

    One by one, as only a header says where the next one is.

    Args:
        content: the archive.
        size: its bytes, None where they are not known before its end.
        shard: its name, for errors.

    Raises:
        ShardError: ``shard-truncated`` for an archive without its end mark of zeros, ``shard-corrupt``,
            ``shard-unsupported`` for sparse members.
    """
    position = 0
    everywhere: dict[bytes, bytes] = {}
    while True:
        first = position
        own: dict[bytes, bytes] = {}
        header = _read(content, position, shard)
        while header is not None and header.flag in _EXTENDED:
            record = _extension(content, position, header, shard)
            if header.flag == _LONG_NAME:
                own[b"path"] = record.partition(b"\0")[0]
            elif header.flag == _PAX_GLOBAL:
                everywhere |= _records(record, position, shard)
            elif header.flag != _LONG_LINK:
                own |= _records(record, position, shard)
            position += BLOCK + _padded(header.size)
            header = _read(content, position, shard)
        if header is None:
            if position != first:
                raise corrupt(shard, f"the extended header at byte {first} belongs to no member")
            _refuse_more(content, position, shard)
            return
        member = _member(header, everywhere | own, first, position + BLOCK, shard)
        stop = member.start + member.size
        if size is not None and stop > size:
            raise truncated(
                shard,
                f"member {_shown(member.name)} at byte {first} has {member.size} bytes from byte {member.start} on; "
                f"the file has {size}",
            )
        yield member
        position = member.start + _padded(member.size)


def _read(content: Content, position: int, shard: str) -> _Header | None:
    """The header at a place; None for a block of zeros, which ends an archive."""
    block = content.peek(position, position + BLOCK)
    if len(block) < BLOCK:
        raise truncated(shard, f"there is no header and no end mark at byte {position}, where one has to be")
    if block == _ZEROS:
        return None
    stored = _number(block[148:156], "checksum", position, shard)
    unsigned = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    # Some old tars summed signed characters.
    if stored != unsigned and stored != unsigned - 256 * sum(byte > 127 for byte in (*block[:148], *block[156:])):
        raise corrupt(shard, f"the header at byte {position} has checksum {unsigned}, and {stored} is written there")
    name = block[:100].partition(b"\0")[0]
    prefix = block[345:500].partition(b"\0")[0]
    if prefix and block[257:263] == _POSIX_MAGIC:
        name = prefix + b"/" + name
    return _Header(name, block[156:157], _number(block[124:136], "size", position, shard))


def _member(header: _Header, records: dict[bytes, bytes], first: int, start: int, shard: str) -> Member:
    sparse = header.flag == _SPARSE or any(key.startswith(b"GNU.sparse.") for key in records)
    name = records.get(b"path") or header.name
    if sparse:
        raise unsupported(shard, f"{_shown(name)} at byte {first} is a sparse file")
    size = header.size
    if records.get(b"size"):
        if not records[b"size"].isdigit():
            raise corrupt(shard, f"the extended header at byte {first} gives the size {records[b'size']!r}")
        size = int(records[b"size"])
    if header.flag in _LINKS:
        return Member(name=name, kind="link", header=first, start=start, size=0)
    if header.flag in _EMPTY:
        return Member(name=name, kind="other", header=first, start=start, size=0)
    # In archives older than POSIX a directory is a file whose name ends in a slash.
    is_file = header.flag in _FILES and not name.endswith(b"/")
    return Member(name=name, kind="file" if is_file else "other", header=first, start=start, size=size)


def _extension(content: Content, position: int, header: _Header, shard: str) -> bytes:
    if header.size > _LONGEST_EXTENSION:
        raise corrupt(shard, f"the extended header at byte {position} has {header.size} bytes")
    record = content.peek(position + BLOCK, position + BLOCK + header.size)
    if len(record) < header.size:
        raise truncated(shard, f"the extended header at byte {position} is cut off")
    return record


def _records(data: bytes, position: int, shard: str) -> dict[bytes, bytes]:
    """The ``length key=value`` lines of a pax header."""
    found = {}
    place = 0
    while place < len(data):
        length = _PAX_LENGTH.match(data, place)
        stop = place + int(length[1]) if length else 0
        key, equals, value = data[length.end() if length else 0 : max(0, stop - 1)].partition(b"=")
        if not length or not equals or stop > len(data) or data[stop - 1 : stop] != b"\n":
            raise corrupt(shard, f"the extended header at byte {position} cannot be read at its byte {place}")
        found[key] = value
        place = stop
    return found


def _number(field: bytes, what: str, position: int, shard: str) -> int:
    """An octal number, or a binary one where it would not fit, as GNU tar writes it."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = _OCTAL.fullmatch(field)
    if digits is None:
        raise corrupt(shard, f"the header at byte {position} has the {what} {field!r}")
    return int(digits[1] or b"0", 8)


def _refuse_more(content: Content, position: int, shard: str) -> None:
    """Whatever lies behind the end mark has to be padding: members there would be lost silently."""
    while True:
        rest = content.peek(position, position + _TAIL_STEP)
        if rest.strip(b"\0"):
            place = position + len(rest) - len(rest.lstrip(b"\0"))
            raise corrupt(shard, f"data at byte {place}, behind the archive's end mark: several archives in one file?")
        if len(rest) < _TAIL_STEP:
            return
        position += _TAIL_STEP


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _shown(name: bytes) -> str:
    return repr(name.decode("utf-8", "replace"))
