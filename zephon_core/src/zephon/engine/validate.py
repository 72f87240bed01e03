"""Fields, types and columns, checked through all operators before anything runs.

The schema of the mixture is the union of its datasets'. It is handed through the operators twice: once with every
field, to see which ones are needed in the end, and once with only those.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import InfersSchema, LaneContext, LaneOperator, LaneState, Operator, RowOperator, WorkSource
from zephon.block import Block, unify_schemas
from zephon.errors import BadRowsError, ConfigError, PlanError, ZephonError
from zephon.spec import rebuilt


@attrs.frozen(slots=True, kw_only=True)
class Bound:
    """An operator in its place.

    Attributes:
        name: registered name.
        operator: with its schema frozen, where that had to be inferred.
        context: its surroundings, of lane 0.
        output: schema of what comes out.
        fields: per dataset, the fields it has after this operator; None once rows are not of one dataset.
    """

    name: str
    operator: Operator
    context: LaneContext
    output: pa.Schema
    fields: Mapping[str, frozenset[str]] | None

    @property
    def label(self) -> str:
        """``name``, or ``name#2`` for its second use."""
        n = self.context.occurrence
        return self.name + (f"#{n + 1}" if n else "")


@attrs.frozen(slots=True, kw_only=True)
class Chain:
    """All operators in their places.

    Attributes:
        source: schema of what is read.
        bound: the operators.
        fields: per dataset, its fields at the source.
    """

    source: pa.Schema
    bound: tuple[Bound, ...]
    fields: Mapping[str, frozenset[str]]

    @property
    def output(self) -> pa.Schema:
        """Schema of what is delivered."""
        return self.bound[-1].output if self.bound else self.source


def makes_batches(operator: Operator) -> bool:
    """Whether every block an operator emits is one microbatch."""
    return isinstance(operator, LaneOperator) and operator.emits == "microbatches"


def check_order(operators: Sequence[tuple[str, Operator]]) -> int:
    """Check that exactly one operator makes microbatches and only row operators follow it.

    Returns:
        The place of that operator.

    Raises:
        PlanError: ``no-batch`` or ``operator-after-batch``.
    """
    places = [i for i, (_, op) in enumerate(operators) if makes_batches(op)]
    if not places:
        raise PlanError(
            "the pipeline makes no microbatches",
            found=f"operators: {', '.join(name for name, _ in operators) or 'none'}",
            fix="add .batch(microbatch_size=...)",
            code="no-batch",
        )
    after = [name for name, op in operators[places[0] + 1 :] if not isinstance(op, RowOperator)]
    if after:
        raise PlanError(
            f"{after[0]!r} cannot come after batch: it would join or cut microbatches",
            found=f"operators: {', '.join(name for name, _ in operators)}",
            fix=f"move .{after[0]}(...) before .batch(...)" if after[0] != "batch" else "batch once",
            code="operator-after-batch",
        )
    return places[0]


def build_chain(
    schemas: Mapping[str, pa.Schema],
    inner_conflicts: Mapping[str, Mapping[str, str]],
    operators: Sequence[tuple[str, Operator]],
    context: LaneContext,
    samples: Callable[[pa.Schema], Sequence[Block]],
) -> Chain:
    """Hand the schemas through the operators and keep only the columns that are needed.

    Args:
        schemas: per dataset, its schema.
        inner_conflicts: per dataset, its fields whose types do not unite, and why.
        operators: names and operators, in order.
        context: what all operators share; name, occurrence and schema are filled in.
        samples: gives the first rows of every dataset, read with a schema.

    Raises:
        PlanError: ``field-missing``, ``field-conflict``, ``schema-not-inferable`` or what an operator raises.
    """
    union, between = unify_schemas(schemas)
    conflicts = {field: {name: str(kind) for name, kind in kinds.items()} for field, kinds in between.items()}
    for name, inner in inner_conflicts.items():
        for field, why in inner.items():
            conflicts.setdefault(field, {})[name] = why
    union = pa.schema([field for field in union if field.name not in conflicts])
    # A field in conflict stands in as null: it may pass, but nobody may look at it.
    whole = union
    for name in conflicts:
        whole = whole.append(pa.field(name, pa.null()))
    chain = _walk(schemas, whole, operators, context, samples, conflicts)
    needed = _needed(chain)
    bad = [name for name in conflicts if name in needed]
    if bad:
        raise _conflict("delivered in batches", bad[0], conflicts[bad[0]])
    projected = pa.schema([field for field in whole if field.name in needed])
    if projected.equals(chain.source):
        return chain
    settled = [(b.name, b.operator) for b in chain.bound]
    return _walk(schemas, projected, settled, context, samples, conflicts)


def _walk(
    schemas: Mapping[str, pa.Schema],
    source: pa.Schema,
    operators: Sequence[tuple[str, Operator]],
    context: LaneContext,
    samples: Callable[[pa.Schema], Sequence[Block]],
    conflicts: Mapping[str, Mapping[str, str]],
) -> Chain:
    schema = source
    start = {name: frozenset(s.names) for name, s in schemas.items()}
    fields: Mapping[str, frozenset[str]] | None = start
    seen: dict[str, int] = {}
    bound: list[Bound] = []
    for name, given in operators:
        here = attrs.evolve(context, operator=name, occurrence=seen.get(name, 0), schema=schema)
        if not any(makes_batches(b.operator) for b in bound):
            here = attrs.evolve(here, batch_view=None)
        seen[name] = here.occurrence + 1
        _check_reads(name, given, schema, fields, conflicts)
        operator: Operator = given
        if isinstance(given, InfersSchema) and not given.schema_is_known:
            operator = _inferred(name, given, _sample(samples, source, bound, conflicts), here)
        output = operator.output_schema(schema)
        fields = _fields_after(operator, schema, output, fields)
        bound.append(Bound(name=name, operator=operator, context=here, output=output, fields=fields))
        schema = output
    return Chain(source=source, bound=tuple(bound), fields=start)


def _check_reads(
    name: str,
    operator: Operator,
    schema: pa.Schema,
    fields: Mapping[str, frozenset[str]] | None,
    conflicts: Mapping[str, Mapping[str, str]],
) -> None:
    declared = operator.reads_of(schema)
    reads = list(schema.names) if declared is None else list(declared)
    for field in reads:
        if field in conflicts and schema.get_field_index(field) >= 0 and pa.types.is_null(schema.field(field).type):
            raise _conflict(f"read by operator {name!r}", field, conflicts[field])
    if declared is None:
        return
    for field in reads:
        lacking = [d for d, has in (fields or {}).items() if field not in has]
        if field in schema.names and not lacking:
            continue
        near = difflib.get_close_matches(field, schema.names, n=1)
        where = f"datasets {', '.join(map(repr, lacking))} lack it" if lacking else "no dataset has it"
        fix = f"name an existing field, or add {field!r} with .map_transform()"
        if field in schema.names:  # some datasets have it
            fix = f"add {field!r} where it is lacking with .map_transform(), or leave these datasets out"
        elif near:
            fix = f"did you mean {near[0]!r}?"
        raise PlanError(
            f"operator {name!r} reads the field {field!r}, and {where}",
            found=f"fields there: {', '.join(schema.names) or 'none'}",
            fix=fix,
            code="field-missing",
        )


def _fields_after(
    operator: Operator, schema: pa.Schema, output: pa.Schema, fields: Mapping[str, frozenset[str]] | None
) -> Mapping[str, frozenset[str]] | None:
    """Which fields each dataset has after an operator: what passes through stays absent where it was absent."""
    if fields is None or (isinstance(operator, LaneOperator) and operator.emits == "new"):
        return None
    if isinstance(operator, InfersSchema):
        return {dataset: frozenset(output.names) for dataset in fields}
    made = set(output.names) - (set(schema.names) - set(operator.reads_of(schema) or ()))
    return {dataset: frozenset(n for n in output.names if n in made or n in has) for dataset, has in fields.items()}


def _needed(chain: Chain) -> set[str]:
    """Source fields that something reads or that are delivered."""
    needed = set(chain.output.names)
    for place in reversed(chain.bound):
        arriving = set(place.context.schema.names)
        reads = place.operator.reads_of(place.context.schema)
        if reads is None:
            needed = arriving
        else:
            wanted = {*needed, *reads, *place.operator.optional_reads}
            needed = wanted & arriving
    return needed


def _sample(
    samples: Callable[[pa.Schema], Sequence[Block]],
    source: pa.Schema,
    bound: Sequence[Bound],
    conflicts: Mapping[str, Any],
) -> list[Block]:
    """The first rows of every dataset as they reach the next operator."""
    readable = pa.schema([f for f in source if not (f.name in conflicts and pa.types.is_null(f.type))])
    blocks = [_run(block, bound) for block in samples(readable)]
    return [block for block in blocks if block is not None and len(block)]


def _inferred(name: str, operator: InfersSchema, samples: Sequence[Block], context: LaneContext) -> Operator:
    try:
        return operator.infer(samples, context)
    except ZephonError:
        raise
    except Exception as error:
        raise PlanError(
            f"the function of operator {name!r} failed on the first rows of the datasets, where its schema is found",
            found=f"{type(error).__name__}: {error}",
            fix="correct the function, or pass the columns it returns: schema=...",
            code="schema-not-inferable",
        ) from error


def _run(block: Block, bound: Sequence[Bound]) -> Block | None:
    """What becomes of sample rows. Those an operator cannot take are passed over: the run tells, by its policy."""
    for place in bound:
        if len(block) == 0:
            return None
        if isinstance(place.operator, RowOperator):
            operator = rebuilt(place.operator)
            operator.setup(place.context)
            try:
                applied = _apply(operator, block, place.context.batch_view is not None)
            finally:
                operator.teardown()
            if applied is None:
                return None
            block = applied
        elif isinstance(place.operator, LaneOperator):
            state = _keeping_all(place.operator).open(place.context)
            outs = [out for out in [*_push(state, block), *state.finish()] if len(out)]
            if not outs:
                return None
            # One microbatch is what an operator after batch sees at a time.
            block = outs[0] if place.operator.emits == "microbatches" else Block.concat(outs)
    return block


def _apply(operator: RowOperator, block: Block, whole: bool) -> Block | None:
    try:
        return operator.apply(block)
    except BadRowsError as error:
        rest = _without(block, error)
        return None if whole or not len(rest) else _apply(operator, rest, whole)
    except ZephonError:
        raise
    except Exception:  # noqa: BLE001 - whatever the user's function raised
        if whole or len(block) == 1:
            return None
    middle = len(block) // 2
    halves = [_apply(operator, block.slice(a, b), whole) for a, b in ((0, middle), (middle, len(block)))]
    good = [half for half in halves if half is not None]
    return Block.concat(good) if good else None


def _push(state: LaneState, block: Block) -> Sequence[Block]:
    try:
        return list(state.push(block))
    except BadRowsError as error:
        rest = _without(block, error)
    return _push(state, rest) if len(rest) else []


def _without(block: Block, error: BadRowsError) -> Block:
    good = np.ones(len(block), dtype=bool)
    good[[bad.row for bad in error.rows]] = False
    return block.filter(good)


def _keeping_all(operator: LaneOperator) -> LaneOperator:
    """For a sample, a short last microbatch is better than none."""
    return attrs.evolve(operator, drop_last=False) if getattr(operator, "drop_last", False) else operator  # type: ignore[misc]


def _conflict(how: str, field: str, types: Mapping[str, str]) -> PlanError:
    listing = ", ".join(f"{dataset}: {kind}" for dataset, kind in types.items())
    return PlanError(
        f"the field {field!r} is {how}, and its types do not unite",
        found=listing,
        fix=f"leave it out with Dataset.from_path(..., columns=[...]), or make the data agree on {field!r}",
        code="field-conflict",
    )


def require_operator(value: object, name: str) -> Operator:
    """Check that something is an operator.

    Raises:
        ConfigError: ``not-an-operator``.
    """
    if isinstance(value, (RowOperator, LaneOperator)):
        return value
    raise ConfigError(
        f"{name!r} is not an operator",
        found=f"a {type(value).__name__}{' itself, not an instance' if isinstance(value, type) else ''}; "
        "expected a RowOperator or LaneOperator",
        fix="see 'write your own operator' in the README",
        code="not-an-operator",
    )


def require_work_source(value: object) -> WorkSource:
    """Check that something is a work source.

    Raises:
        ConfigError: ``not-a-work-source``.
    """
    if isinstance(value, WorkSource):
        return value
    raise ConfigError(
        "a pipeline begins with a work source",
        found=f"a {type(value).__name__}",
        fix="Pipeline(StaticMixtureWorkSource(datasets=[...], mixture={...}, seed=42))",
        code="not-a-work-source",
    )
