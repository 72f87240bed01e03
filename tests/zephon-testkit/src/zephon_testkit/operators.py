"""What the suites of both kinds of operator share; the clauses are in ``docs/contracts/operator-v1.md``."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final

import attrs
import numpy as np
import pyarrow as pa
import pytest

from zephon import Pipeline
from zephon.abc import InfersSchema
from zephon.block import Block
from zephon.errors import BadRowsError, ConfigError, PlanError
from zephon.io import Dataset
from zephon.spec import execution_fields, from_plain, is_importable, rebuilt, to_plain
from zephon.work import StaticMixtureWorkSource
from zephon_testkit import blocks, installed, operators_elsewhere, runs
from zephon_testkit.clauses import clause
from zephon_testkit.incomplete import Incomplete
from zephon_testkit.leaks import leaked
from zephon_testkit.packaging import PluginTests

#: Rows of the block most tests work on: several microbatches, and an odd one at the end.
ROWS: Final = 34
#: Rows of the block another interpreter works on: a fault that shows in one row of three shows in some of these.
FEW: Final = 12


class OperatorTests(PluginTests):
    """What both suites of operators ask their author, and the clauses they share."""

    point: ClassVar[str] = "operator"
    #: Keyword arguments of instances that are all checked; where empty, one is made with :attr:`settings`. Functions
    #: among them must be importable.
    examples: Sequence[Mapping[str, Any]] = ()
    #: Fields of the rows the kit makes up.
    schema: pa.Schema = blocks.SAMPLE_SCHEMA
    #: Whether the operator runs after ``batch``, so that a block is one microbatch and there is a ``Batch`` of it.
    after_batch: ClassVar[bool] = False

    def block(self, rows: int) -> Block:
        """Rows the operator can work on, the same on every call, every one with an origin of its own.

        The kit's own are of :attr:`schema`; override this where the values matter, with ``sample_block`` of
        :mod:`zephon_testkit.blocks` for the rest.
        """
        return blocks.sample_block(rows, self.schema)

    def damaged(self, rows: int) -> Block:
        """Rows some of which the operator may be unable to work on. By default: with nulls in what it reads."""
        block = self.block(rows)
        read = {name for settings in self._examples() for name in self._reads(self.made(settings), block.schema)}
        return blocks.with_nulls(block, read)

    # ------------------------------------------------------------------ what tests are made of

    def context(self, operator: Any, schema: pa.Schema, **changes: Any) -> Any:
        """The surroundings of sample rows."""
        return runs.surroundings(operator, self.plugin, schema, after_batch=self.after_batch, **changes)

    def run(self, operator: Any, *given: Block, **changes: Any) -> list[Block]:
        """What becomes of blocks in a run of their own; ``changes`` are of the context."""
        return runs.outcome(rebuilt(operator), self.pieces(*given), self.context(operator, given[0].schema, **changes))

    def pieces(self, *given: Block) -> list[Block]:
        """The blocks as the engine hands them over: after ``batch``, one microbatch a call."""
        return [piece for block in given for piece in self.units(block)] if self.after_batch else list(given)

    def units(self, block: Block) -> list[Block]:
        """The block in pieces as small as may be: rows, or microbatches."""
        return runs.units(block, after_batch=self.after_batch)

    def made(self, settings: Mapping[str, Any]) -> Any:
        """An instance, with the schema found as planning finds it.

        Raises:
            Incomplete: these are no arguments of the operator, or functions that no other process could import.
        """
        cls = self.implementation()
        for name, value in settings.items():
            if callable(value) and hasattr(value, "__code__") and not is_importable(value):
                raise Incomplete(f"{name}={value!r} cannot be imported by other processes: use a function of a module")
        try:
            inspect.signature(cls).bind(**settings)
        except TypeError as error:
            raise Incomplete(
                f"{self.address()} cannot be made with {dict(settings)!r}: {error}; name its arguments in `settings`, "
                "or in `examples`, of a subclass or of a class named as samples= in the descriptor"
            ) from error
        return self.settled(cls(**settings))

    def settled(self, operator: Any) -> Any:
        """The operator with its schema found on the sample rows, if it has to be found."""
        if not isinstance(operator, InfersSchema) or operator.schema_is_known:
            return operator
        block = self.block(ROWS)
        numbers = np.unique(block.origins.dataset)
        samples = [block.take(np.flatnonzero(block.origins.dataset == number)) for number in numbers]
        return operator.infer(
            samples, blocks.sample_context(block.schema, operator=self.plugin, lane=0, lanes=1, batch_view=self._view())
        )

    def abandon(self, operator: Any, block: Block) -> None:
        """Begin what need not come to an end. Row operators always do: by ``teardown``."""

    def for_each_example(self, law: Callable[[Any, Block], None], rows: int = ROWS) -> None:
        """Check a law of an instance and the rows it can work on, for every example."""
        for number, settings in enumerate(self._examples()):
            try:
                operator = self.made(settings)
                law(operator, self._usable(operator, rows))
            except Exception as error:
                error.add_note(f"example {number}: {dict(settings)!r:.300}")
                raise

    def _view(self) -> Any:
        return runs.batch_view(blocks.DATASETS) if self.after_batch else None

    def _examples(self) -> Sequence[Mapping[str, Any]]:
        return self.examples or (self.settings,)

    def _reads(self, operator: Any, schema: pa.Schema) -> list[str]:
        """What it looks at of this schema."""
        found = operator.reads_of(schema)
        wanted = set(schema.names if found is None else found) | set(operator.optional_reads)
        return [name for name in schema.names if name in wanted]

    def _usable(self, operator: Any, rows: int) -> Block:
        """The sample rows, without those that the operator calls bad.

        Raises:
            Incomplete: it takes none; the author has to make up rows.
        """
        block = self.block(rows)
        kit = type(self).kit().__name__
        advice = f"override block() in a subclass of {kit}, or `schema` with the fields it needs, or say `after_batch`"
        for name in operator.reads or ():
            if name not in block.schema.names:
                raise Incomplete(f"{self.address()} reads {name!r}, which the sample rows do not have: {advice}")
        while True:
            try:
                operator.output_schema(block.schema)
                self.run(operator, block)
                return block
            except PlanError as error:
                raise Incomplete(f"{self.address()} cannot work on the sample rows: {advice}\n{error}") from error
            except BadRowsError as error:
                # Options may refuse some rows, e.g. long ones: the laws are about the others.
                good = np.setdiff1d(np.arange(len(block)), [row.row for row in error.rows])
                if self.after_batch or not rows // 3 <= len(good) < len(block):
                    raise Incomplete(f"{self.address()} refuses most sample rows: {advice}\n{error}") from error
                block = block.take(good)

    # ------------------------------------------------------------------ the spec

    @clause("OP-1")
    def test_its_options_are_plain_data(self) -> None:
        """If this fails, the operator is no frozen attrs class, or an option does not survive being written down:
        a converter that is not idempotent, an object instead of plain data, a set whose order differs. Options enter
        the fingerprint of checkpoints, and every worker makes an operator of its own from them.
        """
        for settings in self._examples():
            operator = self.made(settings)
            cls = type(operator)
            assert attrs.has(cls), "it is no attrs class"
            plain = json.loads(json.dumps(to_plain(operator), allow_nan=False))
            assert from_plain(cls, plain) == operator
            assert to_plain(from_plain(cls, plain)) == plain
            assert from_plain(cls, to_plain(operator, defaults=False)) == operator
            assert rebuilt(operator) == operator
            with pytest.raises((attrs.exceptions.FrozenInstanceError, AttributeError)):
                operator.anything = 1

    @clause("OP-2")
    def test_parallelism_and_placement_are_execution_settings(self) -> None:
        """If this fails, the operator lacks ``parallelism`` or ``placement`` (declare them with
        ``zephon.spec.execution(default=None)``), lets them enter the fingerprint, or makes its result depend on them.
        """

        def law(operator: Any, block: Block) -> None:
            offered = {field.name for field in execution_fields(type(operator))}
            for name in ("parallelism", "placement"):
                assert name in offered, f"{name} is no execution setting of it"
            plain, expected = to_plain(operator, data_only=True), blocks.rows(self.run(operator, block))
            for parallelism, placement in ((1, None), (5, "driver")):
                changed = attrs.evolve(operator, parallelism=parallelism, placement=placement)
                assert to_plain(changed, data_only=True) == plain, "it enters the fingerprint"
                blocks.same("with other execution settings", blocks.rows(self.run(changed, block)), expected)

        self.for_each_example(law)

    @clause("OP-3")
    def test_options_it_does_not_know_are_refused(self) -> None:
        """If this fails, a misspelt option is taken and has no effect: remove ``**kwargs`` from the constructor."""
        for settings in self._examples():
            operator = self.made(settings)
            with pytest.raises((TypeError, ConfigError)):
                type(operator)(**settings, no_such_option=1)
            with pytest.raises((TypeError, ConfigError)):
                from_plain(type(operator), {**to_plain(operator), "no_such_option": 1})

    # ------------------------------------------------------------------ what planning asks

    @clause("OP-4")
    def test_what_comes_out_has_the_promised_columns(self) -> None:
        """If this fails, ``output_schema`` promises another order, type, nullability or metadata than comes out.

        Make the record batch with ``schema=`` what ``output_schema`` returned: field metadata tells batches how to pad.
        """

        def law(operator: Any, block: Block) -> None:
            promised = operator.output_schema(block.schema)
            for made in self.run(operator, block):
                assert made.schema.equals(promised, check_metadata=True), f"{made.schema}\nis not\n{promised}"
                made.data.validate(full=True)

        self.for_each_example(law)

    @clause("OP-5")
    def test_what_planning_asks_needs_no_run_and_has_one_answer(self) -> None:
        """If this fails, ``output_schema`` or ``reads`` needs what ``setup`` or ``open`` prepares, remembers what it
        was asked before, or changes after a run: the plan is made before, and made again after a restore.
        """

        def law(operator: Any, block: Block) -> None:
            def answers(asked: Any) -> tuple[Any, ...]:
                promised = asked.output_schema(block.schema).serialize().to_pybytes()
                return promised, asked.reads_of(block.schema), list(asked.optional_reads), asked.preserves_rows

            fresh = rebuilt(operator)
            first = answers(fresh)
            assert answers(fresh) == first, "asked twice, it answers differently"
            runs.outcome(fresh, self.pieces(block), self.context(fresh, block.schema))
            assert answers(fresh) == first, "it answers differently after a run"
            assert answers(from_plain(type(operator), to_plain(operator))) == first

        self.for_each_example(law)

    @clause("OP-6")
    def test_it_reads_what_it_declares_and_nothing_else(self) -> None:
        """If this fails, the operator looks at a field that ``reads`` or ``optional_reads`` does not name; in a
        pipeline it is not there, because what nobody declares is not read from disk.
        """

        def law(operator: Any, block: Block) -> None:
            if operator.reads_of(block.schema) is None:
                return
            whole = self.run(operator, block)
            narrow = self.run(operator, blocks.select(block, self._reads(operator, block.schema)))
            made = {name for b in narrow for name in b.schema.names}
            what = "with nothing but the declared fields"
            blocks.same(what, blocks.rows(narrow), blocks.rows(whole, made))
            passed = {name for b in whole for name in b.schema.names} - made
            assert passed <= set(block.schema.names), f"{what}, it does not make {passed - set(block.schema.names)}"

        self.for_each_example(law)

    @clause("OP-7")
    def test_fields_that_are_missing_or_of_another_type_are_told_when_planned(self) -> None:
        """If this fails, ``output_schema`` or ``reads_of`` meets a schema it cannot use with something else than a
        ``PlanError``, e.g. ``KeyError`` for a field that is not there, or does not name the field.
        """

        def law(operator: Any, block: Block) -> None:
            for name in operator.reads or ():
                place = block.schema.get_field_index(name)
                error = _refusal(operator, block.schema.remove(place), name)
                assert error is None or name in str(error), f"the error does not name {name!r}: {error}"
            for name in self._reads(operator, block.schema):
                place = block.schema.get_field_index(name)
                for kind in (pa.null(), pa.bool_(), pa.struct([("x", pa.int8())]), pa.list_(pa.list_(pa.date32()))):
                    _refusal(operator, block.schema.set(place, pa.field(name, kind)), name)

        self.for_each_example(law)

    @clause("OP-8")
    def test_preserves_rows_is_kept(self) -> None:
        """If this fails, ``preserves_rows`` is true, and a row was dropped or multiplied: lane lengths are computed
        from this promise. It may be a property that looks at the options.
        """

        def law(operator: Any, block: Block) -> None:
            if not operator.preserves_rows:
                return
            counted = sum(len(made) for made in self.run(operator, block))
            assert counted == len(block), f"{len(block)} rows went in, {counted} came out"

        self.for_each_example(law)

    @clause("OP-9")
    def test_it_is_a_method_of_pipelines(self) -> None:
        """If this fails, ``Pipeline`` has a method or attribute of this name already, which hides your operator: give
        the plugin another name. The method takes the arguments of the constructor.
        """
        method = getattr(Pipeline, self.plugin)
        cls = self.implementation()
        assert inspect.unwrap(method) is cls, f"Pipeline.{self.plugin} is something else"
        _, *offered = inspect.signature(method).parameters.values()
        assert offered == list(inspect.signature(cls).parameters.values())

    # ------------------------------------------------------------------ what it is given

    @clause("OP-10")
    def test_what_it_is_given_stays_as_it_is(self) -> None:
        """If this fails, the operator writes into the columns or origins of a block: others hold the same memory."""

        def law(operator: Any, block: Block) -> None:
            before = blocks.rows([block])
            self.run(operator, block)
            blocks.same("the input after a run", blocks.rows([block]), before)
            self.run(operator, blocks.read_only(block))  # as blocks are that came from another process

        self.for_each_example(law)

    @clause("OP-11")
    def test_where_rows_lie_in_memory_does_not_show(self) -> None:
        """If this fails, the operator looks at Arrow buffers and overlooks that a column may be a slice: use
        ``zephon.block.list_parts``, ``to_numpy`` or ``pyarrow.compute`` rather than ``buffers()`` and ``values``.
        """

        def law(operator: Any, block: Block) -> None:
            expected = blocks.rows(self.run(operator, block))
            slices = blocks.rows(self.run(operator, blocks.inside_another(block)))
            blocks.same("where columns are slices", slices, expected)
            received = blocks.rows(self.run(operator, blocks.received(block)))
            blocks.same("where the block came from another process", received, expected)

        self.for_each_example(law)

    @clause("OP-12")
    def test_lane_and_number_of_a_block_do_not_show(self) -> None:
        """If this fails, something is made of ``block.index`` or ``block.lane``. They depend on how a lane was cut, on
        what stands before the operator and on what was dropped; key randomness by origin, or by an ordinal you count.
        """

        def law(operator: Any, block: Block) -> None:
            expected = blocks.rows(self.run(operator, block))
            moved = attrs.evolve(block, lane=block.lane + 2, index=block.index + 1_000_003)
            blocks.same("with another number", blocks.rows(self.run(operator, moved)), expected)

        self.for_each_example(law)

    @clause("OP-13")
    def test_datasets_and_components_are_known_by_name(self) -> None:
        """If this fails, numbers of datasets or components enter a result. They change when a dataset is added; look
        names up in the context, and draw with ``context.row_words``, which goes by name.
        """

        def law(operator: Any, block: Block) -> None:
            expected = blocks.by_name(self.run(operator, block), blocks.DATASETS, blocks.COMPONENTS)
            datasets, components = blocks.DATASETS[::-1], (*blocks.COMPONENTS[1:], blocks.COMPONENTS[0])
            origins = block.origins
            renamed = attrs.evolve(
                origins,
                dataset=np.array([datasets.index(blocks.DATASETS[i]) for i in origins.dataset]),
                component=np.array([components.index(blocks.COMPONENTS[i]) for i in origins.component]),
            )
            made = self.run(operator, attrs.evolve(block, origins=renamed), datasets=datasets, components=components)
            blocks.same("with datasets in another order", blocks.by_name(made, datasets, components), expected)

        self.for_each_example(law)

    # ------------------------------------------------------------------ what it must not look at

    @clause("OP-14")
    def test_global_generators_are_neither_used_nor_changed(self) -> None:
        """If this fails, the operator draws from ``random`` or ``numpy.random``, or seeds them. Use
        :mod:`zephon.random`: every draw has an address.
        """

        def law(operator: Any, block: Block) -> None:
            def run(seed: int) -> list[tuple[Any, ...]]:
                random.seed(seed)
                np.random.seed(seed)
                before = repr((random.getstate(), np.random.get_state()))
                found = blocks.rows(self.run(operator, block))
                after = repr((random.getstate(), np.random.get_state()))
                assert after == before, "a run changes the state of a global generator"
                return found

            blocks.same("under another global seed", run(1), run(2))

        states = random.getstate(), np.random.get_state()
        try:
            self.for_each_example(law)
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])

    @clause("OP-15")
    def test_another_interpreter_at_another_time_gives_the_same(self) -> None:
        """If this fails, the result depends on a clock, on ``hash()`` of a string, on the order of a set, on an address
        or on what this process did before. The other interpreter has another ``PYTHONHASHSEED``, another time zone, and
        a ``time.time`` that is 400 days ahead.
        """
        tasks, expected = [], []
        for settings in self._examples():
            operator = self.made(settings)
            block = self._usable(operator, FEW)
            # A seed that this process has not used before, or caches that know nothing of seeds would not show.
            tasks.append(operators_elsewhere.Task(operator, block, self.after_batch, 11))
            expected.append(blocks.rows(self.run(operator, block, seed=11)))
        answers = operators_elsewhere.outcomes(self, tasks)
        for settings, mine, theirs in zip(self._examples(), expected, answers, strict=True):
            blocks.same(f"in another interpreter, with {dict(settings)!r:.200}", theirs, mine)

    @clause("OP-16")
    def test_instances_share_nothing(self) -> None:
        """If this fails, something is kept on the class or in the module, and one instance changes the other: a cache
        without the seed or the options in its key, a buffer that is used again. Lanes and threads have instances and
        states of their own; keep what ``setup`` loads in a ``zephon.spec.runtime()`` field.
        """

        def law(operator: Any, block: Block) -> None:
            seeds = (7, 8, 9, 7, 8, 9)
            alone = {seed: blocks.rows(self.run(operator, block, seed=seed)) for seed in sorted(set(seeds))}
            contexts = [self.context(operator, block.schema, seed=seed) for seed in seeds]
            pieces = self.pieces(*blocks.cut(block, [12] * len(block)))
            turns = runs.in_turns([rebuilt(operator) for _ in seeds], pieces, contexts)
            for seed, made in zip(seeds, turns, strict=True):
                blocks.same("in turns with others", blocks.rows(made), alone[seed])
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(lambda seed: blocks.rows(self.run(operator, block, seed=seed)), seeds))
            for seed, mine in zip(seeds, found, strict=True):
                blocks.same("in several threads", mine, alone[seed])

        self.for_each_example(law)

    @clause("OP-17")
    def test_nothing_stays_open(self) -> None:
        """If this fails, ``setup`` or ``open`` starts a thread or opens a file that ``teardown``, or the end of the
        state, does not close. States of lanes are simply dropped: nothing of them may need closing.
        """

        def law(operator: Any, block: Block) -> None:
            def work() -> None:
                self.run(operator, block)
                self.abandon(operator, block)

            remains = leaked(work)
            assert not remains, "; ".join(remains)

        self.for_each_example(law, FEW)

    # ------------------------------------------------------------------ in a pipeline

    @clause("OP-18")
    def test_a_pipeline_with_it_resumes_everywhere(self) -> None:
        """If this fails although the clauses above hold, something differs between two instances, or a state lacks what
        only a run shows: see what :func:`zephon_testkit.check_resume_everywhere` says a failure means.
        """
        from zephon_testkit.resume import check_resume_everywhere

        def law(operator: Any, block: Block) -> None:
            def pipeline() -> Any:
                return self._pipeline(operator, block)

            try:
                with pipeline() as planned:
                    planned.validate()
            except PlanError as error:
                raise Incomplete(f"no pipeline can be made of the sample rows\n{error}") from error
            check_resume_everywhere(pipeline)

        self.for_each_example(law, FEW)

    def _pipeline(self, operator: Any, block: Block) -> Any:
        """Two datasets, two lanes, microbatches of three rows."""
        middle = len(block) // 2 + 1
        datasets = [
            Dataset.from_dict("web", block.slice(0, middle).data),
            Dataset.from_dict("code", block.slice(middle, len(block)).data),
        ]
        source = StaticMixtureWorkSource(datasets, {"web": 1, "code": 1}, seed=5)
        made: Any = Pipeline(source).options(canonical_replicas=2, tail="pad")
        batch = installed.operator("batch", 3, drop_last=False)
        if getattr(operator, "emits", "") == "microbatches":
            return made.pipe(operator)
        return made.pipe(batch).pipe(operator) if self.after_batch else made.pipe(operator).pipe(batch)


def _refusal(operator: Any, schema: pa.Schema, name: str) -> PlanError | None:
    """What planning hears of a schema; None if it is taken, or left to the core, which looks for what is read."""
    try:
        declared = operator.reads_of(schema)
        if name in schema.names or name not in (declared or ()):
            operator.output_schema(schema)
    except PlanError as error:
        return error
    return None
