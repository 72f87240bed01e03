"""What can be wrong with a token file, in one place for the modules that find it."""

from __future__ import annotations

from zephon.errors import ConfigError, ShardError


def corrupt(name: str, found: str) -> ShardError:
    """A file, or the index beside it, contradicts itself."""
    return ShardError(
        f"{name} is not a sound token file",
        found=found,
        fix="fetch or write the file, and the index beside it, anew",
        code="shard-corrupt",
    )


def truncated(name: str, found: str) -> ShardError:
    """A file ends before its content does."""
    return ShardError(
        f"{name} ends too early",
        found=found,
        fix="fetch or write the file, and the index beside it, anew",
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


def unsupported(name: str, found: str) -> ShardError:
    """Sound, but nothing tokens are read from."""
    return ShardError(
        f"{name} holds no tokens that can be read",
        found=found,
        fix="write one- or two-dimensional arrays of integers, in C order",
        code="shard-unsupported",
    )


def no_boundaries(name: str, found: str) -> ConfigError:
    """Rows have to be windows, and no window is given."""
    return ConfigError(
        f"{name} does not say where its documents end",
        found=found,
        fix='pass the length of a row in tokens: format_options={"window": 2049}',
        code="window-missing",
    )
