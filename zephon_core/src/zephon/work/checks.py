"""Checks of single arguments, and their plain forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from zephon.abc import DatasetInfo
from zephon.errors import ConfigError
from zephon.work.mixture import MAX_POSITION
from zephon.work.schedule import plain_number

# Validators of attrs fields: instance, attribute, value.


def positive(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """An integer from 1."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < MAX_POSITION:
        raise ConfigError(
            f"{attribute.name} has to be a positive integer",
            found=repr(value),
            fix=f"write {attribute.name}=16384, or leave it out",
            code="bad-chunk-size",
        )


def integer(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """An integer of any size."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(
            f"{attribute.name} has to be an integer",
            found=repr(value),
            fix=f"write {attribute.name}=42",
            code="bad-seed",
        )


def switch(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise ConfigError(
            f"{attribute.name} is either True or False",
            found=repr(value),
            fix=f"write {attribute.name}=True",
            code="bad-switch",
        )


def block_size(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """What shuffle_block_size may be."""
    number = isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_POSITION
    if not number and value not in (None, "auto", "global"):
        raise ConfigError(
            "shuffle_block_size is unknown",
            found=f'{value!r}; expected None, a positive number of rows, "auto" or "global"',
            fix='write shuffle_block_size="auto" for windows of 8 times the largest shard',
            code="bad-shuffle-block-size",
        )


def datasets(value: Any) -> tuple[DatasetInfo, ...]:
    """A list of datasets."""
    # Only names are looked at: counting rows may mean building an index.
    if not isinstance(value, Sequence) or not value or not all(isinstance(getattr(d, "name", 0), str) for d in value):
        raise ConfigError(
            "datasets is a list of datasets, each with a name",
            found=repr(value)[:200],
            fix='write datasets=[Dataset.from_path("web", "/data/web/"), ...]',
            code="bad-datasets",
        )
    return tuple(value)


def names_of(value: tuple[DatasetInfo, ...]) -> str:
    """What a source shows of its datasets."""
    return repr([dataset.name for dataset in value])


def plain_int(value: Any) -> Any:
    """A Python integer for a numpy one."""
    return value.item() if isinstance(value, np.integer) else value


def plain_estimates(value: Any) -> Any:
    """Numbers by name as JSON can hold them."""
    return {name: plain_number(mean) for name, mean in value.items()} if isinstance(value, Mapping) else value


def plain_policy(value: Any) -> Any:
    """A policy, or policies by name, with Python integers."""
    return {name: plain_int(v) for name, v in value.items()} if isinstance(value, Mapping) else plain_int(value)
