"""The three kinds of field an operator or options class may have.

- a *data* field (any plain ``attrs.field``) can change what a lane emits and enters the fingerprint;
- an *execution* field (``execution(...)``) cannot, and never does;
- a *runtime* field (``runtime()``) is not part of the spec: what ``setup`` loads, e.g. a tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar, overload

import attrs

_KIND = "zephon.kind"

T = TypeVar("T")


@overload
def execution(*, default: T, converter: None = None, **kwargs: Any) -> T: ...
@overload
def execution(*, factory: Callable[[], T], converter: None = None, **kwargs: Any) -> T: ...
@overload
def execution(*, converter: Callable[..., Any], **kwargs: Any) -> Any: ...
def execution(**kwargs: Any) -> Any:
    """Like ``attrs.field(kw_only=True, ...)``, for a setting that cannot change what a lane emits.

    Type checkers know ``attrs.field`` by its name alone and take this for a default value: they compare its type with
    the annotation and let the argument be left out, but would also let it be passed by position. Where that matters,
    ``@attrs.frozen(kw_only=True)`` says the whole truth to them. The methods of ``Pipeline`` always do.
    """
    metadata = {**kwargs.pop("metadata", {}), _KIND: "execution"}
    kwargs.setdefault("kw_only", True)
    return attrs.field(metadata=metadata, **kwargs)


def runtime() -> Any:
    """A namespace for what ``setup`` loads. Not an argument, not compared, not shown, not serialised.

    Declare it with an annotation (``_runtime: Any = runtime()``): attrs ignores plain annotated fields otherwise.
    """
    return attrs.field(init=False, factory=SimpleNamespace, eq=False, repr=False, metadata={_KIND: "runtime"})


def rebuilt(spec: T) -> T:
    """A copy made from the spec alone, with runtime fields of its own."""
    return attrs.evolve(spec)  # type: ignore[misc]


def spec_fields(cls: type) -> tuple[attrs.Attribute[Any], ...]:
    """The fields of an attrs class that are its spec: everything but runtime fields."""
    return tuple(f for f in attrs.fields(cls) if f.metadata.get(_KIND) != "runtime")


def data_fields(cls: type) -> tuple[attrs.Attribute[Any], ...]:
    """The spec fields that enter the fingerprint."""
    return tuple(f for f in spec_fields(cls) if f.metadata.get(_KIND) != "execution")


def execution_fields(cls: type) -> tuple[attrs.Attribute[Any], ...]:
    """The spec fields that never enter the fingerprint."""
    return tuple(f for f in spec_fields(cls) if f.metadata.get(_KIND) == "execution")
