"""Checks of operator arguments, as attrs validators that raise ``operator-argument``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from zephon.errors import ConfigError

Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def _validator(accepts: Callable[[Any], bool], expected: str) -> Validator:
    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not accepts(value):
            raise ConfigError(
                f"{attribute.name} of {type(instance).__name__} must be {expected}",
                found=f"{value!r:.80} ({type(value).__qualname__})",
                fix=f"pass {expected} as {attribute.name}",
                code="operator-argument",
            )

    return check


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def at_least(minimum: int) -> Validator:
    """An integer from ``minimum``."""
    return _validator(lambda value: _is_integer(value) and value >= minimum, f"an integer of at least {minimum}")


integer = _validator(_is_integer, "an integer")
name = _validator(lambda value: isinstance(value, str) and bool(value), "a name")
function = _validator(callable, "a function")
function_or_none = _validator(lambda value: value is None or callable(value), "a function or None")
positive_or_none = _validator(
    lambda value: value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0),
    "a positive number or None",
)
