"""Checks of single arguments, and their plain forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from zephon.errors import ConfigError
from zephon.work.mixture import MAX_POSITION
from zephon.work.schedule import plain_number


def positive(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < MAX_POSITION:
        raise ConfigError(
            f"{attribute.name} has to be a positive integer",
            found=repr(value),
            fix=f"write {attribute.name}=16384, or leave it out",
            code="bad-chunk-size",
        )


def integer(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(
            f"{attribute.name} has to be an integer",
            found=repr(value),
            fix=f"write {attribute.name}=42",
            code="bad-seed",
        )


def switch(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigError(
            f"{attribute.name} is either True or False",
            found=repr(value),
            fix=f"write {attribute.name}=True",
            code="bad-switch",
        )


def block_size(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    number = isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_POSITION
    if not number and value not in (None, "auto", "global"):
        raise ConfigError(
            "shuffle_block_size is unknown",
            found=f'{value!r}; expected None, a positive number of rows, "auto" or "global"',
            fix='write shuffle_block_size="auto" for windows of 8 times the largest shard',
            code="bad-shuffle-block-size",
        )


def plain_int(value: Any) -> Any:
    return value.item() if isinstance(value, np.integer) else value


def plain_estimates(value: Any) -> Any:
    return {name: plain_number(mean) for name, mean in value.items()} if isinstance(value, Mapping) else value


def plain_policy(value: Any) -> Any:
    return {name: plain_int(v) for name, v in value.items()} if isinstance(value, Mapping) else plain_int(value)
