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

import difflib
import functools
import inspect
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MethodType
from typing import Any, Protocol

import attrs

from zephon.abc import DatasetInfo, Operator, WorkSource
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

    signature = inspect.signature(cls)

    @functools.wraps(cls, updated=())
    def method(pipeline: Builder, /, *args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _wrong_arguments(name, signature, kwargs, error) from None
        return pipeline._append(name, cls(*args, **kwargs))

    pipeline = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[pipeline, *signature.parameters.values()], return_annotation=signature.empty
    )
    method.__name__, method.__qualname__ = name, f"Pipeline.{name}"
    return method


def _wrong_arguments(name: str, signature: inspect.Signature, given: Mapping[str, Any], error: TypeError) -> TypeError:
    """The error for a call that does not fit, in the words of the method instead of the operator's class."""
    known = list(signature.parameters)
    near = [match for key in given if key not in known for match in difflib.get_close_matches(key, known, n=1)]
    hint = f"; did you mean {near[0]}=?" if near else ""
    return TypeError(f"Pipeline.{name}(): {error}; its arguments are {', '.join(known)}{hint}")


def to_recipe(work: WorkSource, operators: Sequence[tuple[str, Operator]], options: Options) -> dict[str, Any]:
    """A pipeline as plain data."""
    kind = _source_kind(work)
    settings = getattr(work, "settings", None)
    source = {"kind": kind, **(settings() if callable(settings) else dict(work.to_plain()))}
    source["datasets"] = [_require_dataset(d).to_plain() for d in work.datasets]
    recipe: dict[str, Any] = {
        "source": source,
        "operators": [{"op": name, **_written(f"operator {name!r}", op)} for name, op in operators],
    }
    # Who this rank is does not belong into a recipe: all who read it would be the same group.
    if options.canonical_replicas is None and options.dp_degree is not None:
        options = attrs.evolve(options, canonical_replicas=options.dp_degree)
    options = attrs.evolve(options, dp_degree=None, dp_group_id=None)
    settings = _written("the options", options)
    if settings:
        recipe["options"] = settings
    return recipe


def from_recipe(
    spec: Mapping[str, Any] | str | os.PathLike[str],
) -> tuple[WorkSource, list[tuple[str, Operator]], dict[str, Any]]:
    """Inverse of :func:`to_recipe`; also reads a TOML file."""
    recipe = _load(spec)
    unknown = set(recipe) - {"source", "operators", "options"}
    if unknown or "source" not in recipe:
        raise _invalid(f"parts: {', '.join(recipe)}", "a recipe has [source], [[operators]] and [options]")
    work = _make_source(_table(recipe["source"], "[source]"))
    operators = []
    for settings in _tables(recipe.get("operators", []), "[[operators]]"):
        name = settings.pop("op", None)
        if not isinstance(name, str):
            raise _invalid(repr(settings), 'every [[operators]] entry needs op = "<name>"')
        operators.append((name, make_operator(name, settings)))
    options = _table(recipe.get("options", {}), "[options]")
    if isinstance(options.get("agree"), str):
        options["agree"] = resolve_reference(options["agree"])
    return work, operators, options


def make_operator(name: str, settings: Mapping[str, Any]) -> Operator:
    """An operator from its registered name (or ``module:Class``) and plain settings."""
    cls: Any = resolve_reference(name) if ":" in name else registry("operator").load(name)
    if not (isinstance(cls, type) and issubclass(cls, Operator)):
        raise ConfigError(
            f"{name!r} is not an operator",
            found=f"{cls!r}; expected a subclass of RowOperator or LaneOperator",
            fix="name an operator; a plain function goes into map_transform, filter or map_batch",
            code="not-an-operator",
        )
    return from_plain(cls, dict(settings))


def _make_source(settings: dict[str, Any]) -> WorkSource:
    kind = settings.pop("kind", "static_mixture")
    cls = registry("work_source").load(kind)
    known = [name for name in inspect.signature(cls).parameters if name != "datasets"]
    for name in settings:
        if name not in [*known, "datasets"]:
            near = difflib.get_close_matches(name, known, n=1)
            fix = f"did you mean {near[0]!r}?" if near else f"the settings of {kind} are: {', '.join(known)}"
            raise _invalid(f"[source] has {name!r}, which {kind} does not take", fix)
    try:
        datasets = [Dataset.from_plain(d) for d in _tables(settings.pop("datasets", []), "[[source.datasets]]")]
        return cls(datasets=datasets, **settings)
    except TypeError as error:
        raise _invalid(f"[source]: {error}", f"the settings of {kind} are: {', '.join(known)}") from error


def _written(what: str, spec: Any) -> Any:
    """Settings as plain data; names whose they are where they have no such form."""
    try:
        return to_plain(spec, defaults=False)
    except ConfigError as error:
        raise ConfigError(
            f"{what} cannot be written down", found=f"{error.what}; {error.found}", fix=error.fix, code=error.code
        ) from error


def _table(value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise _invalid(f"{where} is {value!r:.80}", f"{where} is a table of settings")


def _tables(value: Any, where: str) -> list[dict[str, Any]]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_table(entry, where) for entry in value]
    raise _invalid(f"{where} is {value!r:.80}", f"{where} is a list of tables")


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


def _require_dataset(dataset: DatasetInfo) -> Dataset:
    if isinstance(dataset, Dataset):
        return dataset
    raise ConfigError(
        f"dataset {dataset.name!r} cannot be written down",
        found=f"a {type(dataset).__name__}",
        fix="make it with Dataset.from_path(...)",
        code="dataset-not-portable",
    )


def _load(spec: Mapping[str, Any] | str | os.PathLike[str]) -> Mapping[str, Any]:
    if isinstance(spec, Mapping):
        return spec
    path = Path(spec)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _invalid(f"{path}: {error.strerror}", "pass the path of a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _invalid(f"{path}: {error}", "correct the TOML") from error


def _invalid(found: str, fix: str) -> ConfigError:
    return ConfigError("this is not a recipe", found=found, fix=fix, code="recipe-invalid")
