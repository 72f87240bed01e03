"""Pipelines as plain data, and operators as methods.

A recipe has three parts::

    [source]                       # the work source: its registered name and settings
    kind = "static_mixture"
    seed = 42
    mixture = { web = 0.7, code = 0.3 }
    [[source.datasets]]
    name = "web"
    path = "/data/web/"

    [[operators]]                  # in order: registered name or module:Class, and settings
    op = "tokenize"
    field = "text"

    [options]
    canonical_replicas = 32
"""

from __future__ import annotations

import functools
import inspect
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MethodType
from typing import Any, Protocol

from zephon.abc import Operator, WorkSource
from zephon.engine.options import Options
from zephon.errors import ConfigError, PluginError
from zephon.io.dataset import Dataset
from zephon.plugins import registry
from zephon.spec import from_plain, resolve_reference, to_plain


class Builder(Protocol):
    """What a method of a pipeline needs of it."""

    def _append(self, name: str, operator: Operator) -> Any: ...


def name_of(operator: object) -> str:
    """The registered name of an operator's class, or its ``module:Class``."""
    cls = type(operator)
    reference = f"{cls.__module__}:{cls.__qualname__}"
    for name, descriptor in registry("operator").descriptors().items():
        if descriptor.impl == reference:
            return name
    return reference


def operator_method(pipeline: Builder, name: str) -> Callable[..., Any]:
    """The method that appends the operator of this name.

    Raises:
        AttributeError: no such operator; the text says what is there and what to install.
    """
    return MethodType(operator_function(name), pipeline)


def operator_function(name: str) -> Callable[..., Any]:
    """What ``Pipeline.<name>`` is: a function of a pipeline and the operator's arguments.

    Raises:
        AttributeError: as :func:`operator_method`.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        cls = registry("operator").load(name)
    except PluginError as error:
        if error.code != "plugin-unknown":
            raise
        raise AttributeError(f"Pipeline has no method or operator {name!r}\n{error}") from None

    @functools.wraps(cls, updated=())
    def method(pipeline: Builder, /, *args: Any, **kwargs: Any) -> Any:
        return pipeline._append(name, cls(*args, **kwargs))

    signature = inspect.signature(cls)
    pipeline = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[pipeline, *signature.parameters.values()], return_annotation=signature.empty
    )
    method.__name__, method.__qualname__ = name, f"Pipeline.{name}"
    return method


def to_recipe(work: WorkSource, operators: Sequence[tuple[str, Operator]], options: Options) -> dict[str, Any]:
    """A pipeline as plain data."""
    kind = _source_kind(work)
    settings = getattr(work, "settings", None)
    source = {"kind": kind, **(settings() if callable(settings) else dict(work.to_plain()))}
    source["datasets"] = [_require_dataset(d).to_plain() for d in work.datasets]
    plain = to_plain(options, defaults=False)
    recipe: dict[str, Any] = {
        "source": source,
        "operators": [{"op": name, **to_plain(op, defaults=False)} for name, op in operators],
    }
    if plain:
        recipe["options"] = plain
    return recipe


def from_recipe(
    spec: Mapping[str, Any] | str | os.PathLike[str],
) -> tuple[WorkSource, list[tuple[str, Operator]], dict[str, Any]]:
    """Inverse of :func:`to_recipe`; also reads a TOML file."""
    recipe = _load(spec)
    unknown = set(recipe) - {"source", "operators", "options"}
    if unknown or "source" not in recipe:
        raise _invalid(f"parts: {', '.join(recipe)}", "a recipe has [source], [[operators]] and [options]")
    source = dict(recipe["source"])
    kind = source.pop("kind", "static_mixture")
    datasets = [Dataset.from_plain(d) for d in source.pop("datasets", [])]
    cls = registry("work_source").load(kind)
    try:
        work = cls(datasets=datasets, **source)
    except TypeError as error:
        raise _invalid(str(error), f"[source] takes the settings of {kind}") from error
    operators = []
    for entry in recipe.get("operators", []):
        settings = dict(entry)
        name = settings.pop("op", None)
        if not isinstance(name, str):
            raise _invalid(repr(entry), 'every [[operators]] entry needs op = "<name>"')
        operators.append((name, make_operator(name, settings)))
    return work, operators, dict(recipe.get("options", {}))


def make_operator(name: str, settings: Mapping[str, Any]) -> Operator:
    """An operator from its registered name (or ``module:Class``) and plain settings."""
    cls: Any = resolve_reference(name) if ":" in name else registry("operator").load(name)
    operator = from_plain(cls, dict(settings))
    assert isinstance(operator, Operator)
    return operator


def _source_kind(work: WorkSource) -> str:
    reference = f"{type(work).__module__}:{type(work).__qualname__}"
    for name, descriptor in registry("work_source").descriptors().items():
        if descriptor.impl == reference or descriptor.load() is type(work):
            return name
    raise ConfigError(
        f"the work source {reference} has no registered name",
        found="a recipe names its source",
        fix="register it under the entry point zephon.work_source.v1",
        code="source-not-registered",
    )


def _require_dataset(dataset: object) -> Dataset:
    assert isinstance(dataset, Dataset)
    return dataset


def _load(spec: Mapping[str, Any] | str | os.PathLike[str]) -> Mapping[str, Any]:
    if isinstance(spec, Mapping):
        return spec
    path = Path(spec)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _invalid(f"{path}: {error.strerror}", "pass the path of a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise _invalid(f"{path}: {error}", "correct the TOML") from error


def _invalid(found: str, fix: str) -> ConfigError:
    return ConfigError("this is not a recipe", found=found, fix=fix, code="recipe-invalid")
