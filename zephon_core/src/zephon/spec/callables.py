"""Functions inside specs are kept as ``module:qualname``.

A recipe that names a function imports and runs it: treat recipes as code.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from zephon.errors import ConfigError


def callable_reference(fn: Callable[..., Any]) -> str:
    """Return ``module:qualname`` of a function or class.

    Lambdas, closures and bound objects have a name too, but not one that can be imported again; see
    :func:`is_importable`.
    """
    module = getattr(fn, "__module__", None) or type(fn).__module__
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return f"{module}:{name}"


def is_importable(fn: Callable[..., Any]) -> bool:
    """Whether importing :func:`callable_reference` gives back this very object."""
    reference = callable_reference(fn)
    if "<" in reference or reference.startswith("__main__:"):
        return False
    try:
        return _follow(reference) is fn
    except (ImportError, AttributeError):
        return False


def resolve_reference(reference: str) -> Callable[..., Any]:
    """Import what ``module:qualname`` names.

    Raises:
        ConfigError: ``callable-not-importable``.
    """
    try:
        found = _follow(reference)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"the function {reference!r} cannot be imported",
            found=f"{type(error).__name__}: {error}; expected 'module:qualname'",
            fix="put the function into a module that is installed or on PYTHONPATH",
            code="callable-not-importable",
        ) from error
    if not callable(found):
        raise ConfigError(
            f"{reference!r} is not a function",
            found=f"a {type(found).__name__}",
            fix="name a function as 'module:qualname'",
            code="callable-not-importable",
        )
    return found


def source_hash(fn: Callable[..., Any]) -> str:
    """Return a short hash of the function's source, or "" where no source can be had.

    A changed hash only ever warns: source text is a hint, the user's ``version=`` is the promise.
    """
    try:
        return hashlib.blake2b(inspect.getsource(fn).encode(), digest_size=8).hexdigest()
    except (OSError, TypeError):
        return ""


def _follow(reference: str) -> Any:
    module, _, qualname = reference.partition(":")
    if not module or not qualname:
        raise ValueError("no ':' between module and name")
    found: Any = import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found
