"""The one place where specs become plain data and plain data becomes specs (cattrs).

Plain data is what JSON and TOML can hold: dict with string keys, list, str, int, float, bool, None. What
needs more says so with one tagged form: ``{"$schema": ...}`` for Arrow schemas, ``{"$bytes": ...}`` for bytes.
Functions are their ``module:qualname``.
"""

from __future__ import annotations

import base64
import collections.abc
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
import pyarrow as pa
from cattrs.preconf.json import make_converter

from zephon.errors import ConfigError
from zephon.spec.callables import callable_reference, is_importable, resolve_reference
from zephon.spec.fields import data_fields, spec_fields

T = TypeVar("T")


def to_plain(spec: Any, *, data_only: bool = False, defaults: bool = True, portable: bool = True) -> Any:
    """Turn a spec (or any value a spec field may hold) into plain data.

    Args:
        spec: an attrs instance or a value.
        data_only: leave out execution fields; this is what a fingerprint is made of.
        defaults: keep fields that have their default value; recipes leave them out.
        portable: refuse functions that cannot be imported again; a fingerprint takes their name as it is, and what is
            only shown the class of any live object.

    Raises:
        ConfigError: ``callable-not-importable`` for a lambda, closure or live object;
            ``not-plain-data`` for anything else that has no plain form.
    """
    if attrs.has(type(spec)) and not isinstance(spec, type):
        chosen = data_fields(type(spec)) if data_only else spec_fields(type(spec))
        plain: dict[str, Any] = {}
        for field in chosen:
            value = getattr(spec, field.name)
            if not defaults and value is _default(field):
                continue
            item = to_plain(value, data_only=data_only, defaults=defaults, portable=portable)
            if not defaults and (item is None or item == _plain_default(field, data_only, portable)):
                continue
            plain[field.alias or field.name] = item
        return plain
    if spec is None or isinstance(spec, (bool, int, float, str)):
        return spec
    if isinstance(spec, Mapping):
        return {str(k): to_plain(v, data_only=data_only, defaults=defaults, portable=portable) for k, v in spec.items()}
    if isinstance(spec, (frozenset, set)):
        return sorted(to_plain(v, portable=portable) for v in spec)
    if isinstance(spec, (list, tuple)):
        return [to_plain(v, data_only=data_only, defaults=defaults, portable=portable) for v in spec]
    if isinstance(spec, bytes):
        return {"$bytes": base64.b64encode(spec).decode()}
    if isinstance(spec, pa.Schema):
        return {"$schema": base64.b64encode(spec.serialize().to_pybytes()).decode()}
    if isinstance(spec, pa.DataType):
        return str(spec)
    plain_form = getattr(spec, "to_plain", None)
    if plain_form is not None:
        return plain_form()
    if callable(spec):
        if portable and not is_importable(spec):
            raise ConfigError(
                f"{callable_reference(spec)} cannot be written down: it cannot be imported again",
                found="a lambda, a closure, a live object or a function of __main__",
                fix="move it into a module and pass the function itself",
                code="callable-not-importable",
            )
        return callable_reference(spec)
    if not (portable or data_only):
        return f"<{type(spec).__module__}.{type(spec).__qualname__}>"
    raise ConfigError(
        f"a {type(spec).__module__}.{type(spec).__qualname__} has no plain form",
        found=repr(spec)[:200],
        fix="pass plain data, or the path or name the object can be made from",
        code="not-plain-data",
    )


def from_plain(cls: type[T], plain: Any) -> T:
    """Build a spec from plain data, checking names and types.

    Raises:
        ConfigError: ``bad-spec`` naming what does not fit, or what the spec's own checks raise.
    """
    try:
        return converter().structure(plain, cls)
    except cattrs.BaseValidationError as error:
        own = _own_error(error)
        if own is not None:
            raise own from None
        reasons = "; ".join(cattrs.transform_error(error, path=cls.__name__))
        raise ConfigError(
            f"these settings do not make a {cls.__name__}",
            found=reasons,
            fix=f"the settings are: {', '.join(f.alias or f.name for f in spec_fields(cls))}",
            code="bad-spec",
        ) from error


def _own_error(error: BaseException) -> ConfigError | None:
    """What a spec raised about its own values: it says more than where in the data they stand."""
    if isinstance(error, ConfigError):
        return error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for found in map(_own_error, inner) if found is not None), None)


@cache
def converter() -> cattrs.Converter:
    """The converter all specs share."""
    made = make_converter(forbid_extra_keys=True)
    made.register_structure_hook(pa.Schema, lambda value, _: schema_from_plain(value))
    made.register_structure_hook(bytes, lambda value, _: _bytes_from_plain(value))
    made.register_structure_hook_func(_is_callable_type, _structure_callable)
    made.register_structure_hook_func(_is_loose_union, lambda value, _: _loose(value))
    return made


def schema_from_plain(value: Any) -> pa.Schema:
    """An Arrow schema from itself, from its tagged form, or from ``{"field": "type", ...}``."""
    if isinstance(value, pa.Schema):
        return value
    if isinstance(value, Mapping) and set(value) == {"$schema"}:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value["$schema"])))
    return pa.schema([(name, type_from_plain(kind)) for name, kind in dict(value).items()])


def type_from_plain(value: Any) -> pa.DataType:
    """An Arrow type from itself or from its name: ``"int64"``, ``"string"``, ``"list<int32>"``."""
    if isinstance(value, pa.DataType):
        return value
    text = str(value).strip()
    if text.startswith("list<") and text.endswith(">"):
        inner = text[5:-1]
        return pa.list_(type_from_plain(inner.removeprefix("item: ").removeprefix("element: ")))
    try:
        return pa.type_for_alias(text)
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is not the name of an Arrow type",
            found=str(error),
            fix="write e.g. string, int64, double, bool, binary or list<int32>",
            code="bad-spec",
        ) from error


def _is_factory(default: Any) -> bool:
    return isinstance(default, attrs.Factory)  # type: ignore[arg-type]


def _default(field: attrs.Attribute[Any]) -> Any:
    return None if _is_factory(field.default) else field.default


def _plain_default(field: attrs.Attribute[Any], data_only: bool, portable: bool) -> Any:
    default: Any = field.default
    if default is attrs.NOTHING:
        return attrs.NOTHING
    if _is_factory(default):
        if default.takes_self:
            return attrs.NOTHING
        default = default.factory()
    return to_plain(default, data_only=data_only, defaults=False, portable=portable)


def _bytes_from_plain(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return base64.b64decode(value["$bytes"])


def _is_callable_type(kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(_is_callable_type(arm) for arm in get_args(kind))
    return get_origin(kind) is collections.abc.Callable or kind is Callable


def _structure_callable(value: Any, _: Any) -> Any:
    return resolve_reference(value) if isinstance(value, str) and ":" in value else value


def _is_loose_union(kind: Any) -> bool:
    """Unions that cattrs cannot tell apart by class: the operator's own validator decides."""
    if kind is Any or kind is object:
        return True
    if get_origin(kind) not in (Union, types.UnionType) or _is_callable_type(kind):
        return False
    arms = [arm for arm in get_args(kind) if arm is not type(None)]
    return len(arms) > 1 or (len(arms) == 1 and get_origin(arms[0]) is not None and not attrs.has(arms[0]))


def _loose(value: Any) -> Any:
    if isinstance(value, Mapping) and set(value) == {"$schema"}:
        return schema_from_plain(value)
    if isinstance(value, Mapping) and set(value) == {"$bytes"}:
        return _bytes_from_plain(value)
    return value
