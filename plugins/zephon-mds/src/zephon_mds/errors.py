"""The errors this format raises in more than one place."""

from __future__ import annotations

from zephon.abc import Shard
from zephon.errors import ShardError


def corrupt(shard: Shard, found: str) -> ShardError:
    """The error for a shard that is not whole."""
    return ShardError(
        f"{shard.name} is not a whole MDS shard",
        found=found,
        fix="write or copy the file again, together with its index.json",
        code="shard-corrupt",
    )


def changed(shard: Shard, found: str) -> ShardError:
    """The error for a shard that is not the one that was indexed."""
    return ShardError(
        f"{shard.name} has changed since it was indexed",
        found=found,
        fix="put the former file back, or build the dataset's index again",
        code="shard-changed",
    )


def mismatch(shard: Shard, found: str, fix: str) -> ShardError:
    """The error for an index.json that does not describe the files beside it."""
    return ShardError(
        f"{shard.name} and its index.json do not belong together", found=found, fix=fix, code="index-file-mismatch"
    )
