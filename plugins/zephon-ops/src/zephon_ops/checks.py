"""Checks of operator arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from zephon.errors import ConfigError


def at_least(minimum: int) -> Callable[[Any, attrs.Attribute[int], int], None]:
    """An attrs validator for integers from ``minimum``.

    Raises:
        ConfigError: ``operator-argument``.
    """

    def check(instance: Any, attribute: attrs.Attribute[int], value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ConfigError(
                f"{attribute.name} of {type(instance).__name__} must be an integer of at least {minimum}",
                found=repr(value),
                fix=f"{attribute.name}={minimum}, or more",
                code="operator-argument",
            )

    return check
