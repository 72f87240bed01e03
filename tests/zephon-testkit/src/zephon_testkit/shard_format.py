"""The suite of ``zephon.shard_format.v1``; the clauses are in ``docs/contracts/shard_format-v1.md``."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.abc import PushesPredicate, RangedShard, Shard, ShardFormat, ShardIndex, ShardReader, WritesShards
from zephon.block import canonical_schema, conform
from zephon.errors import BadRowsError, DataError
from zephon.io import Dataset
from zephon.plugins import ShardFormatDescriptor
from zephon.spec import from_plain, to_plain
from zephon.work import StaticMixtureWorkSource
from zephon_testkit.clauses import clause
from zephon_testkit.elsewhere import read_elsewhere
from zephon_testkit.files import DiskContext, head, listing
from zephon_testkit.incomplete import Incomplete
from zephon_testkit.installed import operator
from zephon_testkit.leaks import leaked
from zephon_testkit.packaging import PluginTests
from zephon_testkit.profiles import for_all
from zephon_testkit.resume import check_resume_everywhere
from zephon_testkit.tables import sample_table

#: Rows of the shard most tests read: more than one unit of any size an author would choose for a test.
ROWS = 57


@attrs.frozen(slots=True, kw_only=True)
class Written:
    """A shard on disk that the code under test did not write."""

    folder: Path
    table: pa.Table


class ShardFormatTests(PluginTests):
    """Subclass it, name the plugin, and write a file of the format without the plugin::

    class TestLines(ShardFormatTests):
        plugin = "lines"
        schema = pa.schema([("text", pa.string())])

        def write(self, path, table):
            path.with_suffix(".lines").write_text("".join(f"{t}\\n" for t in table["text"].to_pylist()))
    """

    point: ClassVar[str] = "shard_format"
    #: Fields of the rows the kit has written.
    schema: ClassVar[pa.Schema] = pa.schema([("text", pa.string()), ("n", pa.int64())])
    #: Whether these fields may hold nulls.
    nulls: ClassVar[bool] = False

    def write(self, path: Path, table: pa.Table) -> None:
        """Write one shard, by other means than the plugin: the format's own library, or bytes.

        Args:
            path: where, without a suffix: add it, or make a folder of that name.
            table: the rows, of :attr:`schema`.
        """
        if not isinstance(self.format(), WritesShards):
            raise Incomplete(
                f"{self.address()} does not write, so the kit has no shard to read: override write() in a subclass of "
                "ShardFormatTests, or name a class with a write() as samples= in the descriptor"
            )
        self.format().write(f"{path}{self._suffix()}", table.to_batches(), table.schema)  # type: ignore[attr-defined]

    def table(self, rows: int) -> pa.Table:
        """The rows the kit has written, the same on every call."""
        return sample_table(self.schema, rows, nulls=self.nulls)

    # ------------------------------------------------------------------ what tests are made of

    @pytest.fixture
    def written(self, tmp_path: Path) -> Written:
        """A shard of :data:`ROWS` rows."""
        return self._written(tmp_path / "data", ROWS)

    def format(self) -> ShardFormat:
        """The format under test, with :attr:`settings`."""
        made: ShardFormat = self.implementation()(**self.settings)
        return made

    def shards(self, folder: Path) -> list[Shard]:
        """What the format finds in a folder, as the core sorts it."""
        return sorted(self.format().discover(listing(folder)), key=lambda shard: (shard.name, shard.part))

    def readers(self, folder: Path, context: DiskContext | None = None) -> list[tuple[ShardIndex, ShardReader]]:
        """Every shard of a folder, indexed and opened."""
        context = context or DiskContext()
        found = []
        for shard in self.shards(folder):
            index = self.format().index(shard, context)
            found.append((index, self.format().open(shard, index, context)))
        return found

    def rows(self, folder: Path, context: DiskContext | None = None) -> list[dict[str, Any]]:
        """All rows of a folder, shard after shard."""
        found: list[dict[str, Any]] = []
        for index, reader in self.readers(folder, context):
            found += reader.read(np.arange(index.rows), None).to_pylist()
            reader.close()
        return found

    def only(self, folder: Path) -> tuple[ShardIndex, ShardReader]:
        """The shard of a folder that has most rows: a format may cut what one call of ``write`` wrote into several."""
        return max(self.readers(folder), key=lambda pair: pair[0].rows)

    def _written(self, folder: Path, rows: int) -> Written:
        folder.mkdir(parents=True, exist_ok=True)
        table = self.table(rows)
        self.write(folder / "part-0", table)
        if not listing(folder):
            raise Incomplete("write() left no file")
        return Written(folder=folder, table=table)

    def _suffix(self) -> str:
        descriptor = self.descriptor()
        assert isinstance(descriptor, ShardFormatDescriptor)
        return descriptor.suffixes[0] if descriptor.suffixes else ""

    # ------------------------------------------------------------------ finding shards

    @clause("SF-1")
    def test_it_recognises_its_files_and_no_others(self, written: Written, tmp_path: Path) -> None:
        """If this fails, ``recognise`` does not know a file of its own, claims a stranger's, or raises on one.

        Judge by content first: magic bytes, or the form of the first line; the suffix decides only what content cannot.
        """
        known = {file.name for file in listing(written.folder) if self.format().recognise(head(file))}
        assert known, f"none of {[f.name for f in listing(written.folder)]} is recognised"
        strangers = tmp_path / "strangers"
        strangers.mkdir()
        (strangers / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
        (strangers / "noise.bin").write_bytes(random.Random(7).randbytes(5000))
        (strangers / "empty").write_bytes(b"")
        claimed = [file.name for file in listing(strangers) if self.format().recognise(head(file))]
        assert not claimed, f"it claims {', '.join(claimed)}"
        for suffix in self._suffixes():
            (strangers / f"empty{suffix}").write_bytes(b"")
            (strangers / f"short{suffix}").write_bytes(b"\x00")
        for file in listing(strangers):
            self.format().recognise(head(file))

    @clause("SF-2")
    def test_discovery_finds_the_same_shards_in_any_listing_and_passes_over_other_files(self, written: Written) -> None:
        """If this fails, ``discover`` depends on the order of the listing, takes a README for a shard, or names two
        shards alike. Names must be relative, so that moved data is still the same data.
        """
        self.write(written.folder / "part-1", self.table(5))
        alone = self.shards(written.folder)
        (written.folder / "README.md").write_text("# about this data\n")
        (written.folder / ".hidden").write_text("x")
        files = listing(written.folder)
        key = {(shard.name, shard.part) for shard in alone}
        assert len(key) == len(alone), "two shards have one name"
        for order in (files, files[::-1], files[1::2] + files[::2]):
            found = self.format().discover(order)
            assert {(shard.name, shard.part) for shard in found} == key
        assert not any(shard.name.startswith("/") for shard in alone), "names are relative to the dataset"
        by_url = {file.url: file for file in files}
        assert all(shard.file == by_url.get(shard.url) for shard in alone), "a shard carries the facts of its file"

    # ------------------------------------------------------------------ the index

    @clause("SF-3")
    @pytest.mark.filterwarnings("default")
    def test_the_index_counts_every_row(self, tmp_path: Path) -> None:
        """If this fails, ``index`` miscounts: look at no rows, one row, and the last row of the file."""
        for rows in (0, 1, 2, ROWS):
            written = self._written(tmp_path / str(rows), rows)
            counted = sum(index.rows for index, _ in self.readers(written.folder))
            assert counted == rows
            assert self.rows(written.folder) == self._expected(written)

    @clause("SF-4")
    def test_units_cover_the_shard_from_its_first_row_to_its_last(self, written: Written) -> None:
        """If this fails, ``units`` has gaps, overlaps, or another end than ``rows``: rows would be decoded twice or not
        at all. They are boundaries: int64, one more than there are units.
        """
        for index, _ in self.readers(written.folder):
            if index.units is not None:
                assert index.units.dtype == np.int64
                assert index.units[0] == 0
                assert index.units[-1] == index.rows
                assert (np.diff(index.units) > 0).all() or index.rows == 0

    @clause("SF-5")
    def test_the_schema_of_the_index_is_canonical_and_is_what_reads_return(self, written: Written) -> None:
        """If this fails, convert what your library gives: large, view and dictionary strings to ``string``, integers as
        ``zephon.block.canonical_schema`` widens them. The index must promise exactly what ``read`` returns.
        """
        for index, reader in self.readers(written.folder):
            assert index.schema.equals(canonical_schema(index.schema)), f"not canonical: {index.schema}"
            batch = reader.read(np.arange(min(3, index.rows)), None)
            assert batch.schema.equals(index.schema), f"{batch.schema}\nis not\n{index.schema}"

    @clause("SF-6")
    def test_an_index_that_was_saved_reads_the_same_rows(self, written: Written) -> None:
        """If this fails, a reader depends on what ``index`` left in the format object or in a module, on ``hash()``, or
        on an index that is more than its fields. Other processes get the index from disk and make the format anew.
        """
        for shard in self.shards(written.folder):
            index = self.format().index(shard, DiskContext())
            again = self.format().index(shard, DiskContext())
            assert (index.rows, index.bad_rows) == (again.rows, again.bad_rows)
            assert index.blob == again.blob
            here = self.format().open(shard, index, DiskContext()).read(np.arange(index.rows), None)
            assert read_elsewhere(self.point, self.plugin, to_plain(self.format()), shard, index).equals(here)

    # ------------------------------------------------------------------ reading

    @clause("SF-7")
    def test_rows_come_as_asked_for(self, written: Written) -> None:
        """If this fails, ``read`` returns other rows than ``rows`` names: one more, one less, a neighbour, or a whole
        unit. Try the first and last row of a unit, and rows far apart.
        """
        index, reader = self.only(written.folder)
        everything = reader.read(np.arange(index.rows), None).to_pylist()

        @for_all(st.sets(st.integers(0, index.rows - 1), max_size=index.rows))
        def _(wanted: set[int]) -> None:
            rows = np.array(sorted(wanted), dtype=np.int64)
            assert reader.read(rows, None).to_pylist() == [everything[row] for row in rows]

    @clause("SF-8")
    def test_columns_come_as_asked_for(self, written: Written) -> None:
        """If this fails, a projection has other columns, another order or other values than asked for. With no columns
        at all, the batch still has as many rows as were asked for: see ``zephon.block.empty_columns``.
        """
        index, reader = self.only(written.folder)
        whole = reader.read(np.arange(index.rows), None)
        names = index.schema.names
        for order in itertools.permutations(names[:3]):
            assert reader.read(np.arange(3), list(order)).schema.names == list(order)

        @for_all(st.permutations(names), st.integers(0, len(names)), st.integers(0, index.rows))
        def _(order: list[str], width: int, height: int) -> None:
            batch = reader.read(np.arange(height), order[:width])
            assert batch.schema.names == order[:width]
            assert batch.num_rows == height
            for name in order[:width]:
                assert batch.column(name).to_pylist() == whole.column(name).slice(0, height).to_pylist()

    @clause("SF-9")
    def test_a_read_does_not_depend_on_the_reads_before_it(self, written: Written) -> None:
        """If this fails, the reader has a cursor or a cache that a former read moves: going back, or reading the same
        rows again, gives something else; or it draws from a global random generator.
        """
        before = _random_states()
        index, reader = self.only(written.folder)
        reader.read(np.arange(index.rows), None)
        reader.close()
        assert _random_states() == before, "a global random generator was used"
        spans = st.tuples(st.integers(0, index.rows), st.integers(0, 9)).map(
            lambda span: np.arange(span[0], min(index.rows, span[0] + span[1]))
        )

        @for_all(st.lists(spans, min_size=1, max_size=6))
        def _(sequence: list[Any]) -> None:
            used = self.only(written.folder)[1]
            for rows in sequence:
                fresh = self.only(written.folder)[1]
                assert used.read(rows, None).equals(fresh.read(rows, None))
                fresh.close()
            used.close()

    @clause("SF-10")
    def test_what_was_read_stays_as_it_was(self, written: Written) -> None:
        """If this fails, batches share a buffer that a later read, or ``close``, overwrites or frees."""
        index, reader = self.only(written.folder)
        batches = [reader.read(np.arange(start, min(index.rows, start + 7)), None) for start in range(0, index.rows, 7)]
        before = [batch.to_pylist() for batch in batches]
        for start in range(0, index.rows, 5):
            reader.read(np.arange(start, min(index.rows, start + 5)), None)
        reader.close()
        assert [batch.to_pylist() for batch in batches] == before

    @clause("SF-11")
    def test_readers_of_one_shard_work_side_by_side(self, written: Written) -> None:
        """If this fails, readers share something unprotected: a file position, a decoder, a class attribute."""
        expected = self._expected(written)

        def read(_: int) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            for index, reader in self.readers(written.folder):
                for row in range(index.rows):
                    found += reader.read(np.array([row]), None).to_pylist()
                reader.close()
            return found

        with ThreadPoolExecutor(4) as pool:
            assert all(found == expected for found in pool.map(read, range(8)))

    @clause("SF-12")
    def test_a_store_elsewhere_gives_the_same_rows(self, written: Written) -> None:
        """If this fails, the format opens the URL itself. Read through the context: ``read_ranges``, ``read_all`` or
        ``open_random_access``; ``local_path`` is None for data that is not on this machine.
        """
        assert self.rows(written.folder, DiskContext(is_local=False)) == self._expected(written)

    @clause("SF-13")
    def test_closed_readers_leave_no_file_or_thread_open(self, written: Written) -> None:
        """If this fails, ``close`` forgets a file handle or a thread, or ``index`` does not close what it opened."""
        remains = leaked(lambda: self.rows(written.folder))
        assert not remains, "; ".join(remains)

    @clause("SF-14")
    def test_reading_leaves_the_files_alone(self, written: Written) -> None:
        """If this fails, indexing or reading writes into the dataset's folder: it may be read-only, or shared."""
        before = {file.name: Path(file.url).read_bytes() for file in listing(written.folder)}
        self.rows(written.folder)
        assert {file.name: Path(file.url).read_bytes() for file in listing(written.folder)} == before

    # ------------------------------------------------------------------ what is damaged

    @clause("SF-15")
    def test_a_file_cut_short_is_an_error_of_ours_or_a_shorter_file(self, written: Written, tmp_path: Path) -> None:
        """If this fails, a truncated file makes your library's own exception come out (``struct.error``,
        ``IndexError``), or gives rows that were never written. Raise ``ShardError``, or ``BadRowsError`` for single
        rows, with the shard and the place.
        """
        whole = self._expected(written)
        largest = max(listing(written.folder), key=lambda file: file.size)
        for share in (0.0, 0.03, 0.3, 0.5, 0.9, 0.99):
            folder = tmp_path / f"cut-{share}"
            shutil.copytree(written.folder, folder)
            cut = folder / largest.name
            cut.write_bytes(cut.read_bytes()[: int(largest.size * share)])
            try:
                found = self.rows(folder)
            except DataError:
                continue
            # The row at the cut may be shorter than it was: a text format cannot know.
            assert len(found) <= len(whole)
            assert found[:-1] == whole[: max(0, len(found) - 1)]

    @clause("SF-16")
    def test_a_file_that_changed_since_it_was_indexed_is_an_error_of_ours(
        self, written: Written, tmp_path: Path
    ) -> None:
        """If this fails, a reader trusts an index that no longer fits its file and raises something of its own, or
        returns rows that are in neither version. Raise ``ShardError``.
        """
        shard = max(self.shards(written.folder), key=lambda s: self.format().index(s, DiskContext()).rows)
        index = self.format().index(shard, DiskContext())
        other = self._written(tmp_path / "other", 2)
        for file in listing(written.folder):
            Path(file.url).unlink()
        for file in listing(other.folder):
            target = written.folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.url, target)
        wanted = np.array([index.rows - 2, index.rows - 1])
        with pytest.raises((DataError, FileNotFoundError, EOFError)):
            self.format().open(shard, index, DiskContext()).read(wanted, None)

    @clause("SF-17")
    def test_bad_rows_are_named_all_at_once_by_their_number(self, written: Written) -> None:
        """If this fails, a row that ``index`` lists under ``bad_rows`` can be read all the same, or reading it does not
        raise ``BadRowsError`` with all bad rows of the call, by their number in the shard.
        """
        for index, reader in self.readers(written.folder):
            bad = [row for row, _, _ in index.bad_rows]
            assert bad == sorted(set(bad))
            assert all(0 <= row < index.rows for row in bad), "bad rows keep their place in the numbering"
            if bad:
                with pytest.raises(BadRowsError) as raised:
                    reader.read(np.arange(index.rows), None)
                assert [row.row for row in raised.value.rows] == bad
        self._check_damaged_rows(written)

    # ------------------------------------------------------------------ the spec

    @clause("SF-18")
    def test_its_options_are_plain_data(self) -> None:
        """If this fails, the format is not a frozen attrs class, or an option is not plain data. Options enter the
        fingerprint of checkpoints and are sent to workers.
        """
        made = self.format()
        assert attrs.has(type(made)), "it is no attrs class"
        assert from_plain(type(made), to_plain(made)) == made
        with pytest.raises((attrs.exceptions.FrozenInstanceError, AttributeError)):
            made.anything = 1  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ capabilities

    @clause("SF-19")
    def test_ranges_are_exactly_what_a_read_touches_or_not_offered(self, written: Written) -> None:
        """If this fails with the capability ``ranges`` declared: a read went outside of the ranges it announced, or
        they are not sorted, half-open and apart. Without it: the reader has a ``ranges`` method nobody will call.
        """
        for shard in self.shards(written.folder):
            index = self.format().index(shard, DiskContext())
            reader = self.format().open(shard, index, DiskContext(is_local=False))
            if not self.has("ranges"):
                assert not isinstance(reader, RangedShard), "it has ranges(), but does not declare the capability"
                continue
            assert isinstance(reader, RangedShard), "the capability is declared, but there is no ranges()"
            size = Path(shard.url).stat().st_size
            whole = reader.read(np.arange(index.rows), None).to_pylist()
            for rows in (np.arange(index.rows), np.arange(index.rows)[3:5], np.arange(index.rows)[::9]):
                ranges = reader.ranges(rows, None)
                assert ranges.dtype == np.int64
                assert ranges.ndim == 2
                flat = ranges.ravel()
                assert (np.diff(flat) >= 0).all(), "ranges are sorted and do not overlap"
                assert len(flat) == 0 or (flat[0] >= 0 and flat[-1] <= size)
                allowed = [(int(a), int(b)) for a, b in _joined(ranges)]
                context = DiskContext(is_local=False, allowed=allowed)
                opened = self.format().open(shard, index, context)
                context.trespasses.clear()  # opening may read a header that the index left in the file
                assert opened.read(rows, None).to_pylist() == [whole[row] for row in rows]
                assert not context.trespasses, f"read {context.trespasses}, announced {allowed}"

    @clause("SF-20")
    def test_units_a_filter_excludes_hold_no_match_or_it_is_not_offered(self, written: Written) -> None:
        """If this fails with the capability ``predicate`` declared: a unit was excluded although a row of it matches.
        Statistics may be missing, truncated or wrong (NaN); in doubt a unit may match. Without it: the reader has a
        ``may_match`` nobody will call.
        """
        index, reader = self.only(written.folder)
        if not self.has("predicate"):
            assert not isinstance(reader, PushesPredicate), "it has may_match(), but does not declare the capability"
            return
        assert isinstance(reader, PushesPredicate), "the capability is declared, but there is no may_match()"
        units = np.array([0, index.rows]) if index.units is None else index.units
        batch = reader.read(np.arange(index.rows), None)
        for predicate in _predicates(batch):
            matches = set(_matching(batch, predicate))
            answers = reader.may_match(predicate, np.arange(len(units) - 1))
            for unit, may in enumerate(answers):
                if matches & set(range(int(units[unit]), int(units[unit + 1]))):
                    assert may, f"unit {unit} was excluded by {predicate}, but has a match"

    @clause("SF-21")
    def test_what_it_writes_it_reads_or_it_does_not_offer_to_write(self, tmp_path: Path) -> None:
        """If this fails with the capability ``write`` declared: rows written and read again differ, or a write that
        fails half-way leaves a file that looks whole. Without it: there is a ``write`` nobody will call.
        """
        made = self.format()
        if not self.has("write"):
            assert not isinstance(made, WritesShards), "it has write(), but does not declare the capability"
            return
        assert isinstance(made, WritesShards), "the capability is declared, but there is no write()"
        table = self.table(ROWS)
        folder = tmp_path / "written"
        folder.mkdir()
        made.write(str(folder / f"rows{self._suffix()}"), table.to_batches(max_chunksize=10), table.schema)
        assert self.rows(folder) == table.to_pylist()

        def broken() -> Any:
            yield from table.to_batches(max_chunksize=10)
            raise RuntimeError("the source failed")

        other = tmp_path / "failed"
        other.mkdir()
        with pytest.raises(RuntimeError, match="the source failed"):
            made.write(str(other / f"rows{self._suffix()}"), broken(), table.schema)
        assert not self.shards(other), "half a shard was left where a whole one is expected"

    # ------------------------------------------------------------------ in a pipeline

    @clause("SF-22")
    def test_a_pipeline_over_it_delivers_every_row_and_resumes_everywhere(self, tmp_path: Path) -> None:
        """If this fails although the clauses above hold, something differs between two readers of one shard, or
        between two processes: a clock, ``hash()``, a global generator, the order of a directory.
        """
        folder = tmp_path / "data"
        folder.mkdir()
        expected = []
        for part, rows in enumerate((9, 1, 14)):
            self.write(folder / f"part-{part}", self.table(rows))
            expected += self._canonical(self.table(rows))

        def pipeline() -> Pipeline:
            dataset = Dataset.from_path("data", str(folder), fmt=self.plugin)
            source = StaticMixtureWorkSource([dataset], {"data": 1.0}, shuffle_block_size=5, seed=3)
            made: Pipeline = Pipeline(source).pipe(operator("batch", 4)).options(canonical_replicas=2)
            return made

        check_resume_everywhere(pipeline)
        with pipeline() as whole:
            delivered = [row for batch in whole for row in batch.to_pylist()]
        assert sorted(map(repr, delivered)) == sorted(map(repr, expected))

    def _suffixes(self) -> Sequence[str]:
        descriptor = self.descriptor()
        assert isinstance(descriptor, ShardFormatDescriptor)
        return descriptor.suffixes

    def _expected(self, written: Written) -> list[dict[str, Any]]:
        return self._canonical(written.table)

    def _canonical(self, table: pa.Table) -> list[dict[str, Any]]:
        """The rows as values of canonical types."""
        schema = canonical_schema(table.schema)
        return [row for batch in table.to_batches() for row in conform(batch, schema).to_pylist()]

    def _check_damaged_rows(self, written: Written) -> None:
        """Flip bytes in the middle of the file: whatever is wrong with it is said in our terms."""
        largest = Path(max(listing(written.folder), key=lambda file: file.size).url)
        content = bytearray(largest.read_bytes())
        middle = len(content) // 2
        content[middle : middle + 4] = b"\xff\xfe\x00\xff"
        largest.write_bytes(bytes(content))
        try:
            for index, reader in self.readers(written.folder):
                rows = np.arange(index.rows)
                try:
                    reader.read(rows, None)
                except BadRowsError as error:
                    bad = [row.row for row in error.rows]
                    good = np.setdiff1d(rows, bad)
                    assert reader.read(good, None).num_rows == len(good)
        except DataError:
            return


def _random_states() -> tuple[object, str]:
    return random.getstate(), repr(np.random.get_state())


def _joined(ranges: Any) -> list[tuple[int, int]]:
    """Ranges that touch, as one: a reader may join them into one request."""
    found: list[list[int]] = []
    for start, stop in ranges.tolist():
        if found and found[-1][1] == start:
            found[-1][1] = stop
        else:
            found.append([start, stop])
    return [(start, stop) for start, stop in found]


def _predicates(batch: pa.RecordBatch) -> list[pc.Expression]:
    """Filters on every column of a plain type, about values it has and has not."""
    found = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_floating(column.type):
            field = pc.field(name)
            found += [field.is_null(), field.is_valid()]
            for value in column.drop_null().unique().to_pylist()[:6]:
                found += [field == value, field != value, field < value, field >= value, ~(field > value)]
    return found


def _matching(batch: pa.RecordBatch, predicate: pc.Expression) -> list[int]:
    table = pa.Table.from_batches([batch]).append_column("\0row", [np.arange(batch.num_rows)])
    rows: list[int] = table.filter(predicate).column("\0row").to_pylist()
    return rows
