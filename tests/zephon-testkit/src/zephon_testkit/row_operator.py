"""The suite of row operators of ``zephon.operator.v1``; the clauses are in ``docs/contracts/operator-v1.md``."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from hypothesis import strategies as st

from zephon.abc import HoldsGil
from zephon.block import Block, Origins, take_batch
from zephon.errors import BadRowsError
from zephon.spec import rebuilt
from zephon_testkit import blocks
from zephon_testkit.clauses import clause
from zephon_testkit.lock import share_held
from zephon_testkit.operators import FEW, ROWS, OperatorTests
from zephon_testkit.profiles import for_all

#: Seeds tried to find out whether an operator draws at all.
SEEDS = range(6)
#: Rows of a block that is large, seconds that ``apply`` has to take for the lock to matter, and the share of time in
#: which holding it cannot be put down to anything else.
LARGE = 8192
LONG_APPLY = 0.02
HELD = 0.75


class RowOperatorTests(OperatorTests):
    """Subclass it, name the plugin, and say what it is made with::

        class TestTruncate(RowOperatorTests):
            plugin = "truncate"
            examples = ({"field": "text", "length": 3}, {"field": "text", "length": 3, "where": "start"})

    The kit makes up rows with a field of every common type (:data:`zephon_testkit.blocks.SAMPLE_SCHEMA`); give
    ``schema`` or override ``block`` where the operator needs others.
    """

    def set_up(self, operator: Any, block: Block, **changes: Any) -> Any:
        """A copy of the operator that is ready to apply."""
        copy = rebuilt(operator)
        copy.setup(self.context(copy, block.schema, **changes))
        return copy

    # ------------------------------------------------------------------ row by row

    @clause("RO-1")
    def test_a_block_in_pieces_gives_the_pieces_of_the_result(self) -> None:
        """If this fails, a row's result depends on the rows beside it: an average over the block, a comparison with the
        row before, a counter, a decision by ``len(block)``. Runners cut blocks as they like.
        """

        def law(operator: Any, block: Block) -> None:
            whole = blocks.rows(self.run(operator, block))
            blocks.same("row by row", blocks.rows(self.run(operator, *self.units(block))), whole)

            @for_all(st.lists(st.integers(1, ROWS // 2), max_size=8), st.integers(0, 1 << 32))
            def _(sizes: list[int], seed: int) -> None:
                units = self.units(block)
                pieces = [Block.concat(units[a:b]) for a, b in _ranges(sizes, len(units))]
                whole = blocks.rows(self.run(operator, block, seed=seed))
                found = blocks.rows(self.run(operator, *pieces, seed=seed))
                blocks.same(f"in pieces of {sizes}, with seed {seed}", found, whole)

        self.for_each_example(law)

    @clause("RO-2")
    def test_the_order_of_calls_does_not_show(self) -> None:
        """If this fails, ``apply`` remembers former calls: a counter, a cache that is too coarse. Blocks are applied in
        any order, and again when a worker is lost; nothing may be left behind in the instance but what ``setup`` loads.
        """

        def law(operator: Any, block: Block) -> None:
            units = self.units(block)
            expected = [blocks.rows(self.run(operator, unit)) for unit in units]

            @for_all(st.lists(st.integers(0, len(units) - 1), min_size=1, max_size=12))
            def _(order: list[int]) -> None:
                ready = self.set_up(operator, block)
                for number in order:
                    blocks.same("after other calls", blocks.rows([ready.apply(units[number])]), expected[number])
                ready.teardown()

        self.for_each_example(law)

    @clause("RO-3")
    def test_a_row_gives_the_same_wherever_it_stands(self) -> None:
        """If this fails, the position of a row in its block enters the result. Draw with ``context.row_words``, by
        origin, and not by position.
        """

        def law(operator: Any, block: Block) -> None:
            units = self.units(block)
            expected = [blocks.rows(self.run(operator, unit)) for unit in units]

            @for_all(st.permutations(range(len(units))), st.integers(1, len(units)))
            def _(order: list[int], length: int) -> None:
                chosen = order[:length]
                found = self.run(operator, Block.concat([units[number] for number in chosen]))
                blocks.same("in another order", blocks.rows(found), [row for n in chosen for row in expected[n]])

        self.for_each_example(law)

    # ------------------------------------------------------------------ what comes back

    @clause("RO-4")
    def test_rows_have_the_origin_of_the_row_they_come_from(self) -> None:
        """If this fails, origins are not those of the rows, or children of one row are not told apart, or fields that
        pass through went to other rows. Make the block with ``block.with_data``, ``block.filter`` or
        ``block.derive(data, parents)``, with ``parents`` non-decreasing.
        """

        def law(operator: Any, block: Block) -> None:
            declared = self._reads(operator, block.schema)
            for piece in self.units(block) if self.after_batch else [block]:
                for made in self.run(operator, piece):
                    parents = blocks.parents_of(piece.origins, made.origins)
                    derived = piece.origins.children(parents)
                    assert made.origins == derived, _difference(made.origins, derived)
                    passed = [name for name in made.schema.names if name in piece.schema.names and name not in declared]
                    before = take_batch(blocks.select(piece, passed).data, parents)
                    after = blocks.select(made, passed).data
                    what = "fields that it does not read"
                    blocks.same(what, list(map(repr, after.to_pylist())), list(map(repr, before.to_pylist())))

        self.for_each_example(law)

    @clause("RO-5")
    def test_the_block_keeps_its_lane_and_number(self) -> None:
        """If this fails, the operator makes a ``Block`` by itself and leaves out ``lane`` or ``index``: use
        ``with_data`` or ``derive``, or ``attrs.evolve``.
        """

        def law(operator: Any, block: Block) -> None:
            for piece in self.units(block):
                [made] = self.run(operator, piece)
                assert (made.lane, made.index) == (piece.lane, piece.index)

        self.for_each_example(law)

    @clause("RO-6")
    def test_one_row_or_none_have_the_promised_columns_too(self) -> None:
        """If this fails, look at what is returned where no row is kept, or where a column of the only row is null or
        empty: types must come from ``output_schema``, never from the values.
        """

        def law(operator: Any, block: Block) -> None:
            promised = operator.output_schema(block.schema)
            for unit in self.units(block):
                [made] = self.run(operator, unit)
                assert made.schema.equals(promised, check_metadata=True), f"{made.schema}\nis not\n{promised}"
                made.data.validate(full=True)

        self.for_each_example(law)

    @clause("RO-7")
    def test_what_was_returned_stays(self) -> None:
        """If this fails, a block that was returned changes with a later call or with ``teardown``: the operator fills
        one buffer again and again, or frees what columns refer to.
        """

        def law(operator: Any, block: Block) -> None:
            ready = self.set_up(operator, block)
            returned = [ready.apply(unit) for unit in self.units(block)]
            kept = [blocks.rows([made]) for made in returned]
            again = [blocks.rows(self.run(operator, unit)) for unit in self.units(block)]
            ready.teardown()
            for made, before, fresh in zip(returned, kept, again, strict=True):
                blocks.same("later", blocks.rows([made]), before)
                blocks.same("when it was returned", before, fresh)

        self.for_each_example(law)

    @clause("RO-8")
    def test_rows_without_columns_pass(self) -> None:
        """If this fails, the operator counts rows by a column. A block may have no column at all where nothing reads
        any; make its data with ``block.with_data`` or ``zephon.block.empty_columns``.
        """

        def law(operator: Any, block: Block) -> None:
            if self._reads(operator, block.schema):
                return
            bare = blocks.select(block, ())
            found = self.run(operator, bare)
            names = {name for made in found for name in made.schema.names}
            blocks.same("without columns", blocks.rows(found), blocks.rows(self.run(operator, block), names))

        self.for_each_example(law)

    # ------------------------------------------------------------------ bad rows

    @clause("RO-9")
    def test_bad_rows_are_named_all_at_once_by_position(self) -> None:
        """If this fails, ``BadRowsError`` names some bad rows but not all, or a row that is good, or counts from
        something else than the beginning of the block. Or the operator fails on a block but on none of its rows.
        """

        def law(operator: Any, _: Block) -> None:
            block = self.damaged(ROWS)
            ready = self.set_up(operator, block)
            units = self.units(block)
            bad = [number for number, unit in enumerate(units) if _failure(ready, unit) is not None]
            assert bad == [n for n, unit in enumerate(units) if _failure(ready, unit) is not None], (
                "not always the same"
            )
            if self.after_batch:  # a microbatch is set aside as a whole
                return
            for start in (0, 1, 6):
                failure = _failure(ready, block.slice(start, len(block)))
                expected = [number - start for number in bad if number >= start]
                assert (failure is not None) == bool(expected), f"alone, rows {bad} fail, but together: {failure!r}"
                if isinstance(failure, BadRowsError):
                    assert sorted(row.row for row in failure.rows) == expected
                    assert all(row.reason for row in failure.rows), "a bad row is named without a reason"

        self.for_each_example(law)

    @clause("RO-10")
    def test_after_bad_rows_the_others_can_be_applied(self) -> None:
        """If this fails, a failed call leaves something behind in the instance, or a row is bad only beside others."""

        def law(operator: Any, _: Block) -> None:
            block = self.damaged(ROWS)
            units = self.units(block)
            good = [unit for unit in units if _failure(self.set_up(operator, block), unit) is None]
            if not good:
                return
            expected = [blocks.rows(self.run(operator, unit)) for unit in good]
            ready = self.set_up(operator, block)
            for unit in units:
                _failure(ready, unit)
            if not self.after_batch:
                _failure(ready, block)
                found = blocks.rows([ready.apply(Block.concat(good))])
                blocks.same("the good rows", found, [row for rows in expected for row in rows])
            for unit, rows in zip(good, expected, strict=True):
                blocks.same("a good row", blocks.rows([ready.apply(unit)]), rows)

        self.for_each_example(law)

    # ------------------------------------------------------------------ randomness

    @clause("RO-11")
    def test_who_draws_draws_anew_for_every_epoch_dataset_and_use(self) -> None:
        """If this fails, the operator draws (its result depends on the seed), but the address of a draw lacks the
        epoch, the row, the dataset's name or the occurrence: the same row would be treated alike in every pass, or by
        both of two uses. ``context.row_words(block.origins)`` has them all. What is to be the same in every pass should
        depend on an option of yours, and not on the seed.
        """

        def law(operator: Any, block: Block) -> None:
            def values(given: Block, **changes: Any) -> list[str]:
                made = blocks.rows(self.run(operator, given, **changes))
                return [row[0] for row in made]

            drawn = [values(block, seed=seed) for seed in SEEDS]
            if all(found == drawn[0] for found in drawn):
                return
            origins = block.origins
            others = {
                "epoch": attrs.evolve(origins, epoch=origins.epoch + 1),
                "row": attrs.evolve(origins, row=origins.row + 1000),
                "shard": attrs.evolve(origins, shard=origins.shard + 10),
            }
            for what, changed in others.items():
                moved = attrs.evolve(block, origins=changed)
                assert [values(moved, seed=seed) for seed in SEEDS] != drawn, f"another {what} draws the same"
            again = [values(block, seed=seed, occurrence=1) for seed in SEEDS]
            assert again != drawn, "another use in the pipeline draws the same"
            names = tuple(f"{name}-2" for name in blocks.DATASETS)
            assert [values(block, seed=seed, datasets=names) for seed in SEEDS] != drawn, (
                "another dataset draws the same"
            )

        self.for_each_example(law)

    # ------------------------------------------------------------------ setup and teardown

    @clause("RO-12")
    def test_setup_works_again_after_teardown(self) -> None:
        """If this fails, ``teardown`` leaves behind a closed handle, or a mark that makes ``setup`` do nothing; or one
        of both may be called once only. A second ``setup`` may come with other surroundings.
        """

        def law(operator: Any, block: Block) -> None:
            expected = {seed: blocks.rows(self.run(operator, block, seed=seed)) for seed in (7, 8)}
            copy = rebuilt(operator)
            for seed in (7, 8, 7):
                copy.setup(self.context(copy, block.schema, seed=seed))
                pieces = self.units(block) if self.after_batch else [block]
                found = blocks.rows([copy.apply(piece) for piece in pieces])
                blocks.same("after another setup", found, expected[seed])
                copy.teardown()

        self.for_each_example(law)

    # ------------------------------------------------------------------ the interpreter lock

    @clause("RO-13")
    def test_who_says_that_the_lock_is_free_leaves_it_to_others(self) -> None:
        """If this fails, ``holds_gil`` is False, and yet no other thread gets on while ``apply`` works on a large
        block: it loops in Python. ``runner="auto"`` would leave the operator on threads, where it uses one core. Say
        True, or None where it depends on something else; or leave ``holds_gil`` out, and it is measured.
        """

        def law(operator: Any, _: Block) -> None:
            if not isinstance(operator, HoldsGil) or operator.holds_gil is not False:
                return
            rows, seconds = ROWS, 0.0
            while seconds < LONG_APPLY and rows <= LARGE:
                rows *= 4
                block = self._usable(operator, rows)
                ready, pieces = self.set_up(operator, block), self.pieces(block)
                begun = time.perf_counter()
                for piece in pieces:
                    ready.apply(piece)
                seconds = time.perf_counter() - begun
            if seconds < LONG_APPLY:
                return  # it takes too little time to keep anybody waiting
            # The middle of three: a machine that is busy otherwise keeps threads waiting too.
            held = statistics.median(share_held(lambda: [ready.apply(piece) for piece in pieces]) for _ in range(3))
            assert held < HELD, f"in {held:.0%} of the samples, another thread had to have the lock taken from it"

        self.for_each_example(law, FEW)


def _ranges(sizes: Sequence[int], n: int) -> list[tuple[int, int]]:
    ends = [min(int(end), n) for end in np.cumsum(sizes)]
    bounds = sorted({0, *ends, n})
    return list(itertools.pairwise(bounds))


def _failure(operator: Any, block: Block) -> Exception | None:
    """What the operator raises on a block."""
    try:
        operator.apply(block)
    except Exception as error:  # noqa: BLE001 - whatever it raises concerns the rows; the laws look at which
        return error
    return None


def _difference(found: Origins, expected: Origins) -> str:
    names = [n for n, column in found.columns().items() if column.tolist() != expected.columns()[n].tolist()]
    return f"{', '.join(names)}: {found.columns()[names[0]].tolist()} and not {expected.columns()[names[0]].tolist()}"
