"""The suite of lane operators of ``zephon.operator.v1``; the clauses are in ``docs/contracts/operator-v1.md``."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from zephon.abc import LaneState, Snapshot
from zephon.block import Block
from zephon.errors import BadRowsError
from zephon_testkit import blocks, runs
from zephon_testkit.clauses import clause
from zephon_testkit.operators import ROWS, OperatorTests
from zephon_testkit.profiles import for_all

#: Rows that show whether a state grows.
MANY: Final = 1200
#: Bytes that do not count: schemas, counters, a few rows.
SLACK: Final = 32 << 10

_sizes = st.lists(st.integers(1, ROWS // 2), max_size=10)
_lengths = st.integers(1, ROWS)
_seeds = st.integers(0, 1 << 32)


class LaneOperatorTests(OperatorTests):
    """Subclass it, name the plugin, and say what it is made with::

        class TestDedup(LaneOperatorTests):
            plugin = "dedup"
            examples = ({"field": "text", "window": 4}, {"field": "text", "window": 1000})

    The kit makes up rows with a field of every common type (:data:`zephon_testkit.blocks.SAMPLE_SCHEMA`); give
    ``schema`` or override ``block`` where the operator needs others. Small windows, buffers and bins show more than
    large ones: have them overflow within thirty rows.
    """

    def opened(self, operator: Any, block: Block, **changes: Any) -> LaneState:
        """A fresh state."""
        state: LaneState = operator.open(self.context(operator, block.schema, **changes))
        return state

    def fold(self, operator: Any, given: Sequence[Block], *, seed: int = 7, **options: Any) -> list[Block]:
        """What a lane emits; see :func:`zephon_testkit.runs.folded`."""
        return runs.folded(operator, given, self.context(operator, given[0].schema, seed=seed), **options)

    def abandon(self, operator: Any, block: Block) -> None:
        """Drop states of a lane that has not ended: a fresh one, and one in the middle."""
        self.opened(operator, block)
        list(self.opened(operator, block).push(block))

    # ------------------------------------------------------------------ a fold over rows

    @clause("LO-1")
    def test_what_comes_out_does_not_depend_on_where_blocks_end(self) -> None:
        """If this fails, something is decided once per ``push``: by ``len(block)``, at the end of a block, or by a
        count of blocks. Decide row by row, for all rows of a block at once.
        """

        def law(operator: Any, block: Block) -> None:
            def check(sizes: Sequence[int], length: int, seed: int) -> None:
                lane = block.slice(0, min(length, len(block)))
                whole = self.fold(operator, [lane], seed=seed)
                pieces = self.fold(operator, blocks.cut(lane, sizes), seed=seed)
                blocks.same(f"in blocks of {sizes!r:.100} rows", blocks.rows(pieces), blocks.rows(whole))
                if operator.emits == "microbatches":
                    assert [len(made) for made in pieces] == [len(made) for made in whole]

            check([1] * len(block), len(block), 7)
            for_all(_sizes, _lengths, _seeds)(check)

        self.for_each_example(law)

    @clause("LO-2")
    def test_a_lane_without_rows_ends_well(self) -> None:
        """If this fails, ``finish`` of a fresh state assumes that something was pushed: there are more lanes than rows
        in short runs. A fresh state has a snapshot, too.
        """

        def law(operator: Any, block: Block) -> None:
            promised = operator.output_schema(block.schema)
            plain = list(self.opened(operator, block).finish())
            for made in plain:
                assert made.schema.equals(promised, check_metadata=True), f"{made.schema}\nis not\n{promised}"
            state = self.opened(operator, block)
            restored = self.opened(operator, block)
            restored.restore(blocks.through_bytes(state.snapshot()))
            blocks.same("after a restore", blocks.rows(restored.finish()), blocks.rows(plain))

        self.for_each_example(law)

    @clause("LO-3")
    def test_it_emits_what_it_says(self) -> None:
        """If this fails with ``emits = "rows"``: a row was lost, made twice, changed, or lost its origin. With
        ``"microbatches"``: rows were changed or reordered, a batch but the last has not ``microbatch_size`` rows, or
        one is empty. (Planning looks at that attribute.)
        """

        def law(operator: Any, block: Block) -> None:
            out = self.run(operator, block)
            assert operator.emits in ("rows", "new", "microbatches")
            given, made = blocks.rows([block]), blocks.rows(out)
            if operator.emits == "rows":
                blocks.same("rows that came out, sorted", sorted(made, key=repr), sorted(given, key=repr))
            elif operator.emits == "microbatches":
                full, sizes = operator.microbatch_size, [len(batch) for batch in out]
                assert sizes[:-1] == [full] * len(sizes[:-1]), f"microbatches of {full} rows have {sizes} rows"
                assert all(0 < size <= full for size in sizes), f"microbatches of {full} rows have {sizes} rows"
                if operator.output_schema(block.schema).equals(block.schema):
                    blocks.same("rows that came out", made, given[: len(made)])

        self.for_each_example(law)

    @clause("LO-4")
    def test_no_two_rows_that_come_out_have_one_origin(self) -> None:
        """If this fails, later operators draw the same for several rows. Rows made of one row are its children
        (``block.derive``); rows made of many are addressed by lane and ordinal (``Origins.of_lane``), and the ordinal
        counts on after a restore.
        """

        def law(operator: Any, block: Block) -> None:
            found = self.fold(operator, self.units(block), restore_after=lambda number: number % 7 == 6)
            origins = [row[1:] for row in blocks.rows(found, ())]
            twice = {origin for origin in origins if origins.count(origin) > 1}
            assert not twice, f"several rows have the origin {sorted(twice)[0]}"

        self.for_each_example(law)

    @clause("LO-5")
    def test_what_was_emitted_stays(self) -> None:
        """If this fails, an emitted block refers to a buffer that the state goes on changing."""

        def law(operator: Any, block: Block) -> None:
            state = self.opened(operator, block)
            emitted, kept = [], []
            for piece in blocks.cut(block, [3] * len(block)):
                for made in state.push(piece):
                    emitted.append(made)
                    kept += blocks.rows([made])
            for made in state.finish():
                emitted.append(made)
                kept += blocks.rows([made])
            blocks.same("later", blocks.rows(emitted), kept)

        self.for_each_example(law)

    @clause("LO-6")
    def test_rows_without_columns_pass(self) -> None:
        """If this fails, the operator counts rows by a column. A block may have no column at all where nothing reads
        any: use ``Block.concat``, ``Block.take`` and the helpers of ``zephon.block`` rather than ``pyarrow.concat``.
        """

        def law(operator: Any, block: Block) -> None:
            if self._reads(operator, block.schema):
                return
            bare = blocks.select(block, ())
            found = self.fold(operator, blocks.cut(bare, [5, 1, 9]), restore_after=lambda number: True)
            names = {name for made in found for name in made.schema.names}
            blocks.same("without columns", blocks.rows(found), blocks.rows(self.run(operator, block), names))

        self.for_each_example(law)

    # ------------------------------------------------------------------ snapshots

    @clause("LO-7")
    def test_a_restore_at_any_boundary_cannot_be_seen(self) -> None:
        """If this fails, the snapshot lacks something that ``push`` or ``finish`` uses, or ``restore`` does not put it
        back: compare the attributes of your state one by one. What is missing may show many rows later, or only at the
        end of the lane.
        """

        def law(operator: Any, block: Block) -> None:
            plain = blocks.rows(self.fold(operator, [block]))
            single = self.fold(operator, self.units(block), restore_after=lambda number: True)
            blocks.same("restored after every row", blocks.rows(single), plain)

            @for_all(_sizes, st.sets(st.integers(-1, ROWS // 2)), _lengths, _seeds)
            def _(sizes: list[int], stops: set[int], length: int, seed: int) -> None:
                pieces = blocks.cut(block.slice(0, min(length, len(block))), sizes)
                plain = blocks.rows(self.fold(operator, pieces, seed=seed))
                resumed = self.fold(operator, pieces, seed=seed, restore_after=lambda number: number in stops)
                what = f"in blocks of {sizes!r:.100} rows, restored after {sorted(stops)}"
                blocks.same(what, blocks.rows(resumed), plain)

        self.for_each_example(law)

    @clause("LO-8")
    def test_snapshots_are_json_and_arrow(self) -> None:
        """If this fails, ``meta`` holds what JSON does not (numpy numbers, sets, NaN, keys that are no text) or would
        give back as something else (a tuple); or blocks and tables are none.
        """

        def law(operator: Any, block: Block) -> None:
            state = self.opened(operator, block)
            for piece in [None, *blocks.cut(block, [4] * len(block))]:
                if piece is not None:
                    list(state.push(piece))
                snapshot = state.snapshot()
                assert isinstance(snapshot, Snapshot)
                _check_plain(snapshot.meta, "meta")
                for name, held in snapshot.blocks.items():
                    assert isinstance(name, str)
                    assert isinstance(held, Block), f"blocks[{name!r}] is a {type(held).__name__}"
                for name, table in snapshot.tables.items():
                    assert isinstance(name, str)
                    assert isinstance(table, pa.RecordBatch), f"tables[{name!r}] is a {type(table).__name__}"
                assert blocks.content(blocks.through_bytes(snapshot)) == blocks.content(snapshot)

        self.for_each_example(law)

    @clause("LO-9")
    def test_snapshots_do_not_change_later(self) -> None:
        """If this fails, a snapshot refers to a list, dict or array that the state goes on changing. Checkpoints are
        written later than they are taken: copy what changes in place.
        """

        def law(operator: Any, block: Block) -> None:
            state = self.opened(operator, block)
            taken = []
            for piece in blocks.cut(block, [3] * len(block)):
                snapshot = state.snapshot()
                taken.append((snapshot, blocks.content(snapshot)))
                list(state.push(piece))
            snapshot = state.snapshot()
            taken.append((snapshot, blocks.content(snapshot)))
            list(state.finish())
            for number, (snapshot, before) in enumerate(taken):
                now = blocks.content(snapshot)
                for part, value in before.items():
                    assert now[part] == value, f"{part} of the snapshot after push {number} has changed"

        self.for_each_example(law)

    @clause("LO-10")
    def test_taking_a_snapshot_changes_nothing(self) -> None:
        """If this fails, ``snapshot`` empties, sorts or cuts what is held. The engine takes one after every push,
        whether anybody asks for a checkpoint or not.
        """

        def law(operator: Any, block: Block) -> None:
            pieces = blocks.cut(block, [2, 5] * len(block))
            state = self.opened(operator, block)
            watched: list[Block] = []
            for piece in pieces:
                watched += state.push(piece)
                first = blocks.content(state.snapshot())
                assert blocks.content(state.snapshot()) == first, "two snapshots at one boundary differ"
            watched += state.finish()
            blocks.same("with snapshots", blocks.rows(watched), blocks.rows(self.fold(operator, pieces)))

        self.for_each_example(law)

    @clause("LO-11")
    def test_the_snapshot_of_a_restored_state_is_the_one_it_was_restored_from(self) -> None:
        """If this fails, ``restore`` leaves something at its first value that shows only later, or after another
        restore: a counter, an ordinal, a set of what was seen.
        """

        def law(operator: Any, block: Block) -> None:
            pieces = blocks.cut(block, [3] * len(block))
            state = self.opened(operator, block)
            for number, piece in enumerate(pieces):
                list(state.push(piece))
                saved = blocks.through_bytes(state.snapshot())
                restored = self.opened(operator, block)
                restored.restore(saved)
                again, before = blocks.content(restored.snapshot()), blocks.content(saved)
                assert again["meta"] == before["meta"], f"after push {number}: {again['meta']} is not {before['meta']}"
                held = [_rows_of(part) for part in (again, before)]
                assert held[0] == held[1], f"after push {number}, what is held differs"

        self.for_each_example(law)

    @clause("LO-12")
    def test_a_snapshot_can_be_restored_many_times(self) -> None:
        """If this fails, ``restore`` keeps a list, dict or array of the snapshot and changes it afterwards, so that the
        snapshot, or another state restored from it, changes too.
        """

        def law(operator: Any, block: Block) -> None:
            middle = len(block) // 2
            head, tail = block.slice(0, middle), block.slice(middle, len(block))
            state = self.opened(operator, block)
            list(state.push(head))
            saved = blocks.through_bytes(state.snapshot())
            before = blocks.content(saved)
            expected = blocks.rows([*state.push(tail), *state.finish()])
            one, other = self.opened(operator, block), self.opened(operator, block)
            one.restore(saved)
            other.restore(saved)
            other_head = list(other.push(head))
            found = blocks.rows([*one.push(tail), *one.finish()])
            blocks.same("beside another state of the same snapshot", found, expected)
            list(other.finish())
            assert blocks.content(saved) == before, "the snapshot has changed"
            third = self.opened(operator, block)
            third.restore(saved)
            blocks.same("of the third state", blocks.rows(third.push(head)), blocks.rows(other_head))

        self.for_each_example(law)

    # ------------------------------------------------------------------ lanes

    @clause("LO-13")
    def test_lanes_share_nothing(self) -> None:
        """If this fails, states write to something they have in common: a default argument, an attribute of the class
        or of the operator. All lanes of a rank are opened from one operator and pushed in turns.
        """

        def law(operator: Any, block: Block) -> None:
            lanes = (0, 3, 5)
            given = {lane: block.take(np.roll(np.arange(len(block)), lane)) for lane in lanes}
            alone = {lane: blocks.rows(self.run(operator, given[lane], lane=lane)) for lane in lanes}
            states = {lane: self.opened(operator, block, lane=lane) for lane in lanes}
            out: dict[int, list[Block]] = {lane: [] for lane in lanes}
            for start in range(0, len(block), 4):
                for lane, state in states.items():
                    out[lane] += state.push(given[lane].slice(start, min(start + 4, len(block))))
            for lane, state in states.items():
                out[lane] += state.finish()
                blocks.same(f"lane {lane} in turns with others", blocks.rows(out[lane]), alone[lane])

        self.for_each_example(law)

    @clause("LO-14")
    def test_who_draws_draws_anew_in_every_lane_and_use(self) -> None:
        """If this fails, the operator draws (its result depends on the seed), but all lanes, or two uses in a pipeline,
        draw the same. Derive keys from ``context.lane_key``.
        """

        def law(operator: Any, block: Block) -> None:
            def values(**changes: Any) -> list[list[str]]:
                found = [blocks.rows(self.run(operator, block, seed=seed, **changes)) for seed in range(6)]
                return [[row[0] for row in made] for made in found]

            drawn = values()
            if all(found == drawn[0] for found in drawn):
                return
            assert values(lane=4) != drawn, "another lane draws the same"
            assert values(occurrence=1) != drawn, "another use in the pipeline draws the same"

        self.for_each_example(law)

    # ------------------------------------------------------------------ bad rows

    @clause("LO-15")
    def test_bad_rows_are_named_before_anything_changes(self) -> None:
        """If this fails, ``push`` has taken some rows of a block when it raises ``BadRowsError``, or names only some of
        the bad ones. Check all rows first; the rest is then pushed again.
        """

        def law(operator: Any, _: Block) -> None:
            block = self.damaged(ROWS)
            pieces = blocks.cut(block, [5, 9, 1] * len(block))
            state = self.opened(operator, block)
            made: list[Block] = []
            good: list[Block] = []
            for piece in pieces:
                before = blocks.content(state.snapshot())
                rest = piece
                try:
                    made += list(state.push(piece))
                except BadRowsError as error:
                    assert blocks.content(state.snapshot()) == before, "the state has changed"
                    bad = sorted(row.row for row in error.rows)
                    assert bad == sorted(set(bad)), "a row is named twice"
                    assert bad[0] >= 0, "positions count from 0"
                    assert bad[-1] < len(piece), "positions are those in the block"
                    for row in bad:
                        alone = _refused(state, piece.slice(row, row + 1))
                        assert alone, f"row {row} was named as bad, but can be pushed alone"
                    rest = piece.take(np.setdiff1d(np.arange(len(piece)), bad))
                    if len(rest):
                        made += list(state.push(rest))
                if len(rest):
                    good.append(rest)
            made += state.finish()
            if good:
                blocks.same("of the good rows", blocks.rows(made), blocks.rows(self.fold(operator, good)))

        self.for_each_example(law)

    # ------------------------------------------------------------------ memory

    @clause("LO-16")
    def test_what_is_held_keeps_little_else_alive(self) -> None:
        """If this fails, the state holds slices of blocks, and with them the whole blocks. Copy what is held
        (``Block.compact``) as soon as ``zephon.block.retained_bytes`` is over twice its own bytes.
        """

        def law(operator: Any, block: Block) -> None:
            parent = Block.concat([block] * 40)
            state = self.opened(operator, block)
            gc.collect()
            before = pa.total_allocated_bytes()
            for number in range(30):
                fresh = parent.compact()
                list(state.push(fresh.slice(number, number + 3)))
                del fresh
                retained = pa.total_allocated_bytes() - before
                live = _bytes_of(blocks.through_bytes(state.snapshot()))
                allowed = 2 * live + SLACK + parent.data.nbytes // 4
                assert retained <= allowed, f"{live} bytes are held, and keep {retained} alive"

        self.for_each_example(law)

    @clause("LO-17")
    def test_state_bytes_covers_what_is_held(self) -> None:
        """If this fails, a state holds more than ``state_bytes`` says: planning compares it with ``memory_limit``. Give
        the bytes of a full buffer, from ``row_bytes``; or forget rows that were emitted.
        """

        def law(operator: Any, block: Block) -> None:
            row_bytes = block.data.nbytes / len(block)
            estimate = operator.state_bytes(block.schema, row_bytes)
            assert isinstance(estimate, int)
            assert estimate >= 0
            for held in self._growing(operator, block):
                live = _bytes_of(held)
                assert live <= 2 * estimate + SLACK, f"{live} bytes are held, state_bytes says {estimate}"

        self.for_each_example(law)

    @clause("LO-18")
    def test_snapshots_do_not_grow_with_the_rows_seen(self) -> None:
        """If this fails, a snapshot remembers every row that ever came: it is taken at every push and written with
        every checkpoint. Keep counters, and what is still held; what has to grow belongs into ``tables``, covered by
        ``state_bytes``.
        """

        def law(operator: Any, block: Block) -> None:
            taken = list(self._growing(operator, block))
            early, late = (len(json.dumps(taken[place].meta)) for place in (len(taken) // 10, -1))
            assert late <= 2 * early + 512, f"meta has {early} bytes after a few rows and {late} after many"

        self.for_each_example(law)

    def _growing(self, operator: Any, block: Block) -> list[Snapshot]:
        """Snapshots on the way to a state that has seen many rows."""
        state = self.opened(operator, block)
        taken = []
        for turn in range(MANY // len(block)):
            origins = attrs.evolve(block.origins, epoch=block.origins.epoch + 10 * turn)
            list(state.push(attrs.evolve(block, origins=origins)))
            taken.append(blocks.through_bytes(state.snapshot()))
        return taken


def _refused(state: LaneState, block: Block) -> bool:
    try:
        list(state.push(block))
    except BadRowsError:
        return True
    return False


def _check_plain(value: Any, where: str) -> None:
    """JSON data that JSON gives back as it was."""
    if isinstance(value, dict) or (where == "meta" and hasattr(value, "items")):
        for key, item in value.items():
            assert type(key) is str, f"a key of {where} is a {type(key).__name__}"
            _check_plain(item, f"{where}[{key!r}]")
    elif type(value) is list:
        for number, item in enumerate(value):
            _check_plain(item, f"{where}[{number}]")
    else:
        assert value is None or type(value) in (bool, int, float, str), f"{where} is a {type(value).__name__}"
        assert type(value) is not float or math.isfinite(value), f"{where} is {value}"


def _rows_of(part: dict[str, Any]) -> list[str]:
    """All that blocks and tables hold: how it is divided among them is the state's own affair."""
    held = [row for group in ("blocks", "tables") for name in sorted(part[group]) for row in part[group][name]]
    return sorted(map(repr, held))


def _bytes_of(snapshot: Snapshot) -> int:
    batches = [*(block.data for block in snapshot.blocks.values()), *snapshot.tables.values()]
    return sum(batch.nbytes for batch in batches)
