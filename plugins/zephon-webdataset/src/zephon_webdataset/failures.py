"""What can be wrong with a tar shard, in one place for the modules that find it."""

from __future__ import annotations

from zephon.errors import ShardError

_ANEW = "fetch or write the file anew"


def corrupt(name: str, found: str) -> ShardError:
    """The shard is no sound archive."""
    return ShardError(f"{name} is not a sound tar archive", found=found, fix=_ANEW, code="shard-corrupt")


def truncated(name: str, found: str) -> ShardError:
    """The shard ends before its content does."""
    return ShardError(
        f"{name} ends too early",
        found=found,
        fix=f'{_ANEW}, or read the rows before the cut: format_options={{"truncated": "keep"}}',
        code="shard-truncated",
    )


def changed(name: str, found: str) -> ShardError:
    """The shard is not what its index says."""
    return ShardError(
        f"{name} has changed since it was indexed",
        found=found,
        fix="index the dataset anew, or restore the file that was indexed",
        code="shard-changed",
    )


def interleaved(name: str, key: str, offset: int) -> ShardError:
    """Members of one key that do not lie together."""
    return ShardError(
        f"{name}: the members of key {key!r} do not lie together",
        found=f"the key comes again at byte {offset}, after members of other keys",
        fix="write the members in the order of their names (tar --sort=name), or say what it means: "
        'format_options={"interleaved": "group"} for one row, "split" for one row each time',
        code="tar-key-interleaved",
    )


def duplicate(name: str, member: str, offset: int) -> ShardError:
    """Two members for one field of one row."""
    return ShardError(
        f"{name} has two members for one field of one row",
        found=f"{member!r} comes again at byte {offset}",
        fix='write each member once, or say which one counts: format_options={"duplicate": "first"} or "last"',
        code="tar-member-duplicate",
    )


def link(name: str, member: str, offset: int) -> ShardError:
    """A member that only refers to content elsewhere."""
    return ShardError(
        f"{name} has a link where content should be",
        found=f"{member!r} at byte {offset} is a hard or symbolic link",
        fix="write the archive with tar --dereference --hard-dereference, or do without such members: "
        'format_options={"links": "skip"}',
        code="tar-member-link",
    )


def unsupported(name: str, found: str) -> ShardError:
    """A kind of member that is not read."""
    return ShardError(
        f"{name} holds members of a kind that is not read",
        found=found,
        fix="write the archive without tar's --sparse",
        code="shard-unsupported",
    )
