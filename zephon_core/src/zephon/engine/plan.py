"""Compile: source -> [row operators] -> lane operator -> [row operators] -> ... -> deliver."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import HasContent, LaneContext, LaneOperator, Operator, RowOperator, WorkSource
from zephon.batch import Batch, BatchFacts
from zephon.block import Block, conform
from zephon.engine.delivery import Ending
from zephon.engine.lane import LaneStage
from zephon.engine.options import Options, default_memory_limit
from zephon.engine.program import Source, StageProgram, Step
from zephon.engine.runners import check_runner
from zephon.engine.topology import Identity, Topology, layout
from zephon.engine.validate import Bound, Chain, build_chain, check_order, makes_batches
from zephon.errors import PlanError
from zephon.io.dataset import Dataset
from zephon.io.reader import BlockReader
from zephon.io.sample import first_rows
from zephon.spec import fingerprint, source_hash, spec_fields, to_plain

#: Rows of each dataset that functions without a declared schema are tried on.
SAMPLE_ROWS: Final = 64

#: Share of the rows a finite run may leave undelivered before planning warns.
DROP_WARNING: Final = 0.05


# What follows goes to workers as part of programs, so it is data and no closure.


@attrs.frozen(slots=True)
class RowName:
    """Names rows in errors, for people."""

    datasets: tuple[Dataset, ...]

    def __call__(self, dataset: int, shard: int, row: int) -> str:
        """The name of a row."""
        if dataset < 0:
            return f"packed row {row} of lane {shard}"
        found = self.datasets[dataset]
        return f"row {row} of shard {found.shard_names[shard]!r} of dataset {found.name!r}"


@attrs.frozen(slots=True)
class BatchView:
    """Makes a ``Batch`` of a block that is one microbatch.

    Attributes:
        facts: what the batch knows of its pipeline.
    """

    facts: BatchFacts

    def __call__(self, block: Block) -> Batch:
        """The batch."""
        return Batch(block, facts=self.facts)


@attrs.frozen(slots=True, kw_only=True)
class Plan:
    """A compiled pipeline.

    Attributes:
        work: the curriculum.
        datasets: its datasets, indexed by ``origins.dataset``.
        options: as set.
        topology: what this rank delivers.
        chain: the operators in their places.
        stages: what every lane does; programs are referred to by index.
        programs: fused row operators, then the programs that make held rows again.
        facts: what batches know of the pipeline.
        microbatch: rows of a microbatch.
        lengths: rows per lane, where computable from the curriculum; None for an endless one.
        ending: how the run ends.
        spec: data settings as plain data; ``fingerprint`` is its hash.
        notes: what a person should know, one sentence each.
        memory_limit: bytes.
        state_sizes: per lane operator, an estimate of the bytes its state in one lane holds; 0 where it does not say.
        row_bytes: average bytes of a row as it lies in its shard.
    """

    work: WorkSource
    datasets: tuple[Dataset, ...]
    options: Options
    topology: Topology
    chain: Chain
    stages: tuple[LaneStage, ...]
    programs: tuple[StageProgram, ...]
    facts: BatchFacts
    microbatch: int
    lengths: tuple[int, ...] | None
    ending: Ending
    spec: Mapping[str, Any]
    notes: tuple[str, ...]
    memory_limit: int
    state_sizes: Mapping[str, int]
    row_bytes: float

    @property
    def state_bytes(self) -> int:
        """Estimate of one lane's operator state."""
        return sum(self.state_sizes.values())

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return self.topology.lanes

    @property
    def fingerprint(self) -> str:
        """Hash of all data settings."""
        return fingerprint(self.spec)

    @property
    def reader(self) -> BlockReader:
        """The reader all programs share."""
        return self.programs[0].source.reader

    def opened(self, readers: int = 1) -> Plan:
        """This plan with a reader of its own: every run closes the one it has used.

        Args:
            readers: how many copies of it will share the memory: one for each worker that is a process.
        """
        reader = BlockReader(
            self.datasets,
            self.chain.source,
            cache_bytes=self.memory_limit // 4 // max(1, readers),
            shards=self.options.io_options,
        )
        source = attrs.evolve(self.programs[0].source, reader=reader)
        return attrs.evolve(self, programs=tuple(attrs.evolve(p, source=source) for p in self.programs))

    @property
    def rounds(self) -> int | None:
        """Rounds this run delivers, if that is known beforehand."""
        known = [n for n in (self.ending.rounds, self.ending.max_rounds) if n is not None]
        if not known or (self.ending.rounds is None and not self.ending.endless):
            return None
        return min(known)

    @property
    def by_origin(self) -> tuple[bool, ...]:
        """For each stage with a lane operator, whether its held rows can be made again."""
        return tuple(s.rereads is not None for s in self.stages if s.operator is not None)


def compile_plan(
    work: WorkSource,
    operators: Sequence[tuple[str, Operator]],
    options: Options,
    identity: Identity,
    lanes: int,
) -> Plan:
    """Check a pipeline and lay it out.

    Raises:
        PlanError: with the code of what is wrong.
        ConfigError: the topology does not fit.
    """
    place = check_order(operators)
    check_runner(options)
    written: dict[int, Operator] = {}
    name, batch = operators[place]
    if options.tail == "pad" and getattr(batch, "drop_last", False):
        # Exactly-once delivery keeps the last, short microbatch and fills it with masked rows.
        written[place] = batch
        changed = (name, attrs.evolve(batch, drop_last=False))  # type: ignore[misc]
        operators = [*operators[:place], changed, *operators[place + 1 :]]
    datasets = _datasets(work)
    microbatch = int(operators[place][1].microbatch_size)  # type: ignore[attr-defined]
    topology = layout(lanes, identity, microbatch, options.uneven)
    context = LaneContext(
        seed=work.seed,
        datasets=tuple(d.name for d in datasets),
        components=tuple(work.components),
        phases=tuple(work.phases),
        lanes=lanes,
    )
    facts = BatchFacts(
        datasets=context.datasets,
        components=context.components,
        shards=[d.shard_names for d in datasets],
        fields={},
        microbatch_size=microbatch,
    )
    context = attrs.evolve(context, batch_view=BatchView(facts))
    chain = build_chain(
        {d.name: d.schema for d in datasets},
        {d.name: d.conflicts for d in datasets},
        operators,
        context,
        lambda schema: _samples(datasets, schema),
    )
    fields = chain.bound[-1].fields
    if fields is not None:
        facts = attrs.evolve(facts, fields={i: fields[d.name] for i, d in enumerate(datasets)})
    memory_limit = options.memory_limit or default_memory_limit()
    stages, programs = _stages(work, datasets, lanes, chain, options, memory_limit)
    lengths = _lengths(work, lanes)
    counts_known = _counts_known(chain, options)
    ending, notes = _ending(lengths, counts_known, chain, options, topology)
    row_bytes = sum(d.total_bytes() for d in datasets) / max(1, sum(d.total() for d in datasets))
    plan = Plan(
        work=work,
        datasets=datasets,
        options=options,
        topology=topology,
        chain=chain,
        stages=stages,
        programs=programs,
        facts=facts,
        microbatch=microbatch,
        lengths=lengths,
        ending=ending,
        spec=_spec(work, datasets, chain, lanes, written),
        notes=(*notes, *_notes(chain)),
        memory_limit=memory_limit,
        state_sizes=_state_sizes(chain, row_bytes),
        row_bytes=row_bytes,
    )
    _check_memory(plan)
    return plan


@cache
def versions() -> dict[str, str]:
    """Versions of the core and of the distributions whose plugins are loaded from its family."""
    found = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"] or ""
        if name.startswith("zephon"):
            found[name] = distribution.version
    return dict(sorted(found.items()))


def _datasets(work: WorkSource) -> tuple[Dataset, ...]:
    datasets = tuple(work.datasets)
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise PlanError(
                f"the work source's dataset {getattr(dataset, 'name', dataset)!r} cannot be read",
                found=f"a {type(dataset).__name__}",
                fix="make it with Dataset.from_path(...) or Dataset.from_dict(...)",
                code="not-a-dataset",
            )
    return datasets  # type: ignore[return-value]


def _samples(datasets: Sequence[Dataset], schema: pa.Schema) -> list[Block]:
    """The first rows of every dataset, as a reader of this schema would give them."""
    samples = []
    for number, dataset in enumerate(datasets):
        data, origins = first_rows(dataset, SAMPLE_ROWS)
        place = np.full(len(origins), number)
        samples.append(Block(conform(data, schema), attrs.evolve(origins, component=place, dataset=place)))
    return samples


def _stages(
    work: WorkSource,
    datasets: Sequence[Dataset],
    lanes: int,
    chain: Chain,
    options: Options,
    memory_limit: int,
) -> tuple[tuple[LaneStage, ...], tuple[StageProgram, ...]]:
    reader = BlockReader(datasets, chain.source, cache_bytes=memory_limit // 4, shards=options.io_options)
    source = Source(work=work, lanes=lanes, reader=reader, row_name=RowName(tuple(datasets)))
    skip = options.on_error.action != "raise"
    programs: list[StageProgram] = []
    stages: list[LaneStage] = []
    steps: list[Step] = []
    rows_only: list[Step] | None = []  # all row operators so far, while lane operators have only reordered
    rereads: list[tuple[int, tuple[Step, ...], pa.Schema]] = []
    schema = chain.source
    whole = False

    def close_stage(operator: LaneOperator | None, bound: Bound | None, emits: pa.Schema) -> None:
        program = None
        if steps or not stages:
            programs.append(StageProgram(source=source, steps=tuple(steps), schema=schema, skip=skip, whole=whole))
            program = len(programs) - 1
        if operator is not None and rows_only is not None:
            rereads.append((len(stages), tuple(rows_only), schema))
        context = bound.context if bound is not None else None
        stages.append(LaneStage(program=program, emits=emits, operator=operator, context=context))
        steps.clear()

    for bound in chain.bound:
        operator = bound.operator
        if isinstance(operator, RowOperator):
            step = Step(operator=operator, context=bound.context, schema=bound.output)
            steps.append(step)
            if rows_only is not None:
                rows_only.append(step)
        elif isinstance(operator, LaneOperator):
            close_stage(operator, bound, bound.output)
            if operator.emits != "rows":
                rows_only = None
            whole = operator.emits == "microbatches"
        schema = bound.output
    close_stage(None, None, schema)
    for place, row_steps, out in rereads:
        programs.append(StageProgram(source=source, steps=row_steps, schema=out))
        stages[place] = attrs.evolve(stages[place], rereads=len(programs) - 1)
    return tuple(stages), tuple(programs)


def _lengths(work: WorkSource, lanes: int) -> tuple[int, ...] | None:
    lengths = [work.lane_length(lane, lanes) for lane in range(lanes)]
    return None if any(n is None for n in lengths) else tuple(int(n) for n in lengths if n is not None)


def _counts_known(chain: Chain, options: Options) -> bool:
    """Whether every row read is surely one row batched and every microbatch one delivered."""
    if options.on_error.action != "raise":
        return False
    return all(bound.operator.preserves_rows or makes_batches(bound.operator) for bound in chain.bound)


def _ending(
    lengths: tuple[int, ...] | None,
    counts_known: bool,
    chain: Chain,
    options: Options,
    topology: Topology,
) -> tuple[Ending, list[str]]:
    pad = options.tail == "pad"
    notes: list[str] = []
    rounds = None
    if lengths is not None and counts_known:
        drop_last = any(getattr(b.operator, "drop_last", False) for b in chain.bound)
        size = topology.microbatch
        batches = [n // size if drop_last else -(-n // size) for n in lengths]
        rounds = max(batches) if pad else min(batches)
        delivered = sum(min(n, min(b, rounds) * size) for n, b in zip(lengths, batches, strict=True))
        notes += _losses(sum(lengths), delivered, topology.lanes, size)
    elif lengths is not None and topology.dp_degree > 1 and options.agree is None:
        if options.max_rounds is None:
            changing = [b.label for b in chain.bound if not b.operator.preserves_rows and b.name != "batch"]
            why = (
                f"operators that change the number of rows: {', '.join(changing)}"
                if changing
                else "on_error drops rows"
            )
            raise PlanError(
                "the ranks cannot know alone which round is the last",
                found=f"a finite curriculum over {topology.dp_degree} groups; {why}",
                fix=".options(agree=lambda n: <minimum of n over all ranks>), .options(max_rounds=...), or "
                'exhausted_policy="repeat"',
                code="end-unknown",
            )
        notes.append("max_rounds must lie before the end of the data on every rank: the ranks do not agree on an end")
    ending = Ending(rounds=rounds, endless=lengths is None, pad=pad, max_rounds=options.max_rounds, agree=options.agree)
    return ending, notes


def _losses(rows: int, delivered: int, lanes: int, size: int) -> list[str]:
    lost = rows - delivered
    if delivered == 0:
        raise PlanError(
            "the pipeline would deliver nothing",
            found=f"{rows} rows over {lanes} lanes do not fill one round of microbatches of {size}",
            fix='use fewer lanes or a smaller microbatch, or .options(tail="pad")',
            code="delivers-nothing",
        )
    if lost == 0:
        return []
    text = f"{lost} of {rows} rows ({lost / rows:.1%}) do not fill a last round and are not delivered"
    if lost > DROP_WARNING * rows:
        warnings.warn(f'{text}; .options(tail="pad") delivers them', stacklevel=2)
    return [text]


def _spec(
    work: WorkSource, datasets: Sequence[Dataset], chain: Chain, lanes: int, written: Mapping[int, Operator]
) -> dict[str, Any]:
    """All data settings. ``written``: operators, by place, as the user wrote them where execution settings differ."""
    operators = []
    for place, bound in enumerate(chain.bound):
        operator = written.get(place, bound.operator)
        entry = {"name": bound.name, "spec": to_plain(operator, data_only=True, portable=False)}
        if isinstance(bound.operator, HasContent):
            entry["content"] = dict(bound.operator.content())
        operators.append(entry)
    return {
        "canonical_replicas": lanes,
        "datasets": {d.name: d.identity() for d in datasets},
        "work": dict(work.to_plain()),
        "operators": operators,
    }


def function_sources(chain: Chain) -> dict[str, str]:
    """Source hashes of the functions in the operators: a change is worth a warning, no more."""
    found = {}
    for bound in chain.bound:
        for field in spec_fields(type(bound.operator)):
            value = getattr(bound.operator, field.name)
            if callable(value) and not isinstance(value, type):
                found[f"{bound.label}.{field.name}"] = source_hash(value)
    return found


def _notes(chain: Chain) -> list[str]:
    return [
        f"{b.label} reads all columns; {_read_less(b.operator)}"
        for b in chain.bound
        if b.operator.reads is None and isinstance(b.operator, RowOperator) and b.name != "map_batch"
    ]


def _read_less(operator: Operator) -> str:
    if any(field.name == "reads" for field in spec_fields(type(operator))):
        return "name the ones it needs with reads=[...] to read less"
    return "an operator that knows the ones it needs, such as a filter by an Arrow expression, reads less"


def _state_sizes(chain: Chain, row_bytes: float) -> dict[str, int]:
    return {
        bound.label: bound.operator.state_bytes(bound.context.schema, row_bytes)
        for bound in chain.bound
        if isinstance(bound.operator, LaneOperator)
    }


def _check_memory(plan: Plan) -> None:
    needed = plan.state_bytes * len(plan.topology.owned)
    if needed > plan.memory_limit:
        biggest = max(plan.state_sizes, key=plan.state_sizes.__getitem__)
        raise PlanError(
            f"the operators' state does not fit into memory_limit; the largest is {biggest!r}",
            found=f"{needed >> 20} MiB for {len(plan.topology.owned)} lanes; limit {plan.memory_limit >> 20} MiB",
            fix=f".options(memory_limit={-(-needed * 5 // 4 >> 20)} << 20), smaller buffers, or fewer lanes per rank",
            code="memory-limit",
        )
