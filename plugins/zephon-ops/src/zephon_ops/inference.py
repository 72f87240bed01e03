"""Finding the schema of what a Python function returns, from the first rows of every dataset.

Types are found value by value and united, never from a column as a whole, so the result depends on the sampled values
and on nothing else. A field the function passes on unchanged keeps its type and metadata, as do token columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from zephon.abc import OperatorContext
from zephon.block import META_ROLE, Block, unify_schemas
from zephon.errors import DataError, PlanError
from zephon_ops.values import (
    CONVERSION_ERRORS,
    MisfitRowsError,
    Row,
    build_batch,
    build_column,
    infer_type,
    schema_line,
    unify_value_types,
)


class Sampled(NamedTuple):
    """A row a function returned.

    Attributes:
        given: the row it was given, untouched; None if it was made from no row in particular.
        made: the row it returned.
    """

    given: Row | None
    made: Mapping[str, Any]


def dataset_names(samples: Sequence[Block], context: OperatorContext) -> list[str]:
    """What to call each sample in errors: its dataset."""
    names = []
    for i, sample in enumerate(samples):
        dataset = int(sample.origins.dataset[0]) if len(sample) else -1
        known = 0 <= dataset < len(context.datasets)
        names.append(context.datasets[dataset] if known else f"sample {i}")
    return names


def schema_of_rows(label: str, sampled: Mapping[str, Sequence[Sampled]], given: pa.Schema) -> pa.Schema:
    """The schema that holds all sampled rows, fields in order of first appearance.

    Args:
        label: operator and function.
        sampled: rows by dataset.
        given: schema of the rows the function was given.

    Raises:
        PlanError: ``schema-not-inferable``.
    """
    everything = [item for items in sampled.values() for item in items]
    if not everything:
        raise no_rows(label)
    by_dataset = {name: _types_of_rows(label, name, items) for name, items in sampled.items()}
    united: dict[str, pa.DataType] = {}
    for types in by_dataset.values():
        for name, t in types.items():
            both = unify_value_types(united.get(name, t), t)
            if both is None:
                raise _conflict(label, name, {d: found[name] for d, found in by_dataset.items() if name in found})
            united[name] = both
    schema = pa.schema([_kept_field(name, t, everything, given) for name, t in united.items()])
    try:
        build_batch([item.made for item in everything], schema)
    except MisfitRowsError as error:
        position, reason = next(iter(error.rows.items()))
        raise PlanError(
            f"the columns {label} makes cannot be found out: a sampled row does not fit",
            found=f"row {position} of the samples: {reason}",
            fix=f"return values of one type per field; what was found is {schema_line(schema)}",
            code="schema-not-inferable",
        ) from error
    return schema


def schema_of_batches(label: str, made: Mapping[str, pa.Schema], given: pa.Schema) -> pa.Schema:
    """The schema that holds all record batches a function returned.

    A column that has the name and type of one the function was given, and no metadata, gets that one's: most ways of
    building a record batch lose it.

    Args:
        label: operator and function.
        made: schemas of what it returned, by dataset.
        given: schema of what it was given.

    Raises:
        PlanError: ``schema-not-inferable``.
    """
    if not made:
        raise no_rows(label)
    try:
        united, conflicts = unify_schemas(made)
    except DataError as error:
        raise PlanError(
            f"the columns {label} makes cannot be used", found=error.found, fix=error.fix, code="schema-not-inferable"
        ) from error
    for name, kinds in conflicts.items():
        raise _conflict(label, name, kinds)
    return pa.schema([_with_metadata(field, given) for field in united])


def no_rows(label: str, cause: Exception | None = None) -> PlanError:
    """The error for a function that returned no row, or raised, on every sample."""
    found, fix = "it returned no row for the first rows of any dataset", "declare them"
    if cause is not None:
        found = f"it raised {type(cause).__name__} on the first rows of every dataset: {cause}"
        fix = "make it work on these rows, or declare them"
    error = PlanError(
        f"the columns {label} makes cannot be found out",
        found=found,
        fix=fix + ': schema={"field": "type", ...}',
        code="schema-not-inferable",
    )
    error.__cause__ = cause
    return error


def unknown_schema(label: str) -> PlanError:
    """The error for asking for columns that were neither declared nor found on samples."""
    return PlanError(
        f"the columns {label} makes are not known yet",
        found="no schema= and no sample",
        fix='declare them: schema={"field": "type", ...}',
        code="schema-not-inferable",
    )


def _types_of_rows(label: str, dataset: str, items: Sequence[Sampled]) -> dict[str, pa.DataType]:
    united: dict[str, pa.DataType] = {}
    for item in items:
        for name, value in item.made.items():
            t = infer_type(value)
            if t is None or not isinstance(name, str):
                kind = f"{type(value).__module__}.{type(value).__qualname__}"
                raise PlanError(
                    f"{label} returned something that cannot become a column",
                    found=f"field {name!r} of a row of {dataset}: a {kind}",
                    fix="return str keys with str, int, float, bool, bytes, None, arrays, lists or dicts of these",
                    code="schema-not-inferable",
                )
            both = unify_value_types(united.get(name, t), t)
            if both is None:
                raise _conflict(label, name, {dataset: united[name], f"a later row of {dataset}": t})
            united[name] = both
    return united


def _kept_field(name: str, t: pa.DataType, items: Sequence[Sampled], given: pa.Schema) -> pa.Field:
    """The input's field of that name where it still holds, or a new one.

    Python has one int and one float: without this, every function that hands ``input_ids`` on would turn int32 into
    int64 and forget how to pad.
    """
    if name not in given.names:
        return pa.field(name, t)
    field = given.field(name)
    is_tokens = META_ROLE in (field.metadata or {})
    unchanged = all(
        item.given is not None and _same(item.given.get(name), item.made[name]) for item in items if name in item.made
    )
    if is_tokens or unchanged:
        try:
            build_column([item.made.get(name) for item in items], field.type)
        except CONVERSION_ERRORS:
            return pa.field(name, t)
        return field
    return pa.field(name, t)


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    try:
        return bool(a == b)
    except ValueError:  # numpy arrays somewhere inside: they did not come out of a row
        return False


def _with_metadata(field: pa.Field, given: pa.Schema) -> pa.Field:
    if field.metadata or field.name not in given.names:
        return field
    former = given.field(field.name)
    return former if former.type == field.type else field


def _conflict(label: str, field: str, kinds: Mapping[str, pa.DataType]) -> PlanError:
    return PlanError(
        f"{label} returns {field!r} with types that do not unite",
        found=", ".join(f"{kind} for {name}" for name, kind in kinds.items()),
        fix=f"return {field!r} with one type, or under two names",
        code="schema-not-inferable",
    )
