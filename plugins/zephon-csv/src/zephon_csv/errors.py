"""Errors several modules raise."""

from __future__ import annotations

from zephon.abc import Shard
from zephon.errors import ConfigError, ShardError


def changed(shard: Shard, found: str) -> ShardError:
    """A file is not the one that was indexed."""
    return ShardError(
        f"{shard.name} has changed since it was indexed",
        found=found,
        fix="put the former file back, or build the dataset's index again",
        code="shard-changed",
    )


def missing(shard: Shard, name: str, names: list[str]) -> ConfigError:
    """A column is asked for that is not there."""
    return ConfigError(
        f"{shard.name} has no field {name!r}",
        found=f"its fields are {names}",
        fix="name fields of the shard only; header and column_names say where their names come from",
        code="column-missing",
    )


def too_large(shard: Shard, found: str) -> ShardError:
    """Rows do not fit into one column."""
    return ShardError(
        f"{shard.name}: some rows are too large to be read at once",
        found=found,
        fix="read fewer rows at a time, or leave the field out with columns=",
        code="shard-rows-too-large",
    )
