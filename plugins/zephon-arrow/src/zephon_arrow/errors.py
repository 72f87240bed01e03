"""Errors several modules raise."""

from __future__ import annotations

from zephon.abc import Shard
from zephon.errors import ShardError


def corrupt(shard: Shard, found: str) -> ShardError:
    """A file, or a part of it, cannot be decoded."""
    return ShardError(
        f"{shard.name} is not sound Arrow data",
        found=found,
        fix="write or copy the file again, or move it out of the dataset",
        code="shard-corrupt",
    )


def truncated(shard: Shard, found: str) -> ShardError:
    """A file ends where it may not."""
    return ShardError(
        f"{shard.name} ends too early",
        found=found,
        fix="write or copy the file again, or move it out of the dataset",
        code="shard-truncated",
    )


def changed(shard: Shard, found: str) -> ShardError:
    """A file is not the one that was indexed."""
    return ShardError(
        f"{shard.name} has changed since it was indexed",
        found=found,
        fix="put the former file back, or build the dataset's index again",
        code="shard-changed",
    )


def unsupported(shard: Shard, found: str, fix: str) -> ShardError:
    """A file is sound, and of a kind that is not read."""
    return ShardError(f"{shard.name} cannot be read", found=found, fix=fix, code="shard-unsupported")
