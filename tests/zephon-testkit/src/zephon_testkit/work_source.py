"""The suite of ``zephon.work_source.v1``; the clauses are in ``docs/contracts/work_source-v1.md``."""

from __future__ import annotations

import inspect
import itertools
import json
import random
import time
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final

import numpy as np
import pytest
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.abc import DatasetInfo, PhaseWeights, WorkSource
from zephon.block import ORIGIN_DTYPES, Origins
from zephon.errors import ConfigError
from zephon.io import Dataset
from zephon_testkit.clauses import clause
from zephon_testkit.incomplete import Incomplete
from zephon_testkit.installed import operator
from zephon_testkit.packaging import PluginTests
from zephon_testkit.pointers import Named, Question, Reading, Sizes, answers_elsewhere, digest, named
from zephon_testkit.profiles import for_all

#: How many rows of a lane are looked at where it does not end before.
REACH: Final = 200
#: How much more a read far out may cost than one at the start, by the best of several measurements; and the seconds
#: below which nothing is measured.
DEARER: Final = 20
NOISE: Final = 0.003
#: Bytes a source may keep of what it has computed.
KEPT: Final = 64 << 20


class WorkSourceTests(PluginTests):
    """Subclass it, name the plugin, and say what it is made with beside datasets::

    class TestCurriculum(WorkSourceTests):
        plugin = "curriculum"
        settings = {"seed": 3}
        variants = ({"repeat": True},)
    """

    point: ClassVar[str] = "work_source"
    #: Further settings to try; each is laid over :attr:`settings`.
    variants: ClassVar[Sequence[Mapping[str, Any]]] = ()
    #: Numbers of lanes to try.
    lanes: ClassVar[Sequence[int]] = (1, 2, 3, 8)
    #: Whether every dataset completes a pass before a finite curriculum ends.
    complete: ClassVar[bool] = True
    #: Whether another seed gives another order; None: it does if the source takes a ``seed``.
    shuffled: ClassVar[bool | None] = None

    def datasets(self) -> Sequence[DatasetInfo]:
        """What the curriculum is made of: by default, datasets in memory named ``a``, ``b`` and ``c``."""
        # Together a number of rows that few numbers of lanes divide.
        rows = {"a": (19, 1, 11), "b": (17,), "c": (1,)}
        return [
            Dataset.from_dict(name, {f"{i:02}": [{"n": n} for n in range(size)] for i, size in enumerate(sizes)})
            for name, sizes in rows.items()
        ]

    # ------------------------------------------------------------------ what tests are made of

    def source(self, settings: Mapping[str, Any], datasets: Sequence[DatasetInfo] | None = None) -> WorkSource:
        """A work source of settings, over :meth:`datasets` unless others are given."""
        over = self.datasets() if datasets is None else datasets
        made: WorkSource = self.implementation()(datasets=over, **settings)
        return made

    def tried(self) -> list[dict[str, Any]]:
        """:attr:`settings`, and each of :attr:`variants` laid over them."""
        return [dict(self.settings), *({**self.settings, **variant} for variant in self.variants)]

    def takes_seed(self) -> bool:
        """Whether ``seed`` is one of the settings."""
        return "seed" in inspect.signature(self.implementation()).parameters

    def reseeded(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The same settings with another seed."""
        return {**settings, "seed": int(settings.get("seed", 0)) + 1}

    def span(self, source: WorkSource, lane: int, lanes: int) -> int:
        """How many rows of a lane are looked at."""
        length = source.lane_length(lane, lanes)
        return REACH if length is None else min(length, REACH)

    def every_lane(self, source: WorkSource) -> Iterator[tuple[int, int, int]]:
        """Lane, lanes and span, for all numbers of lanes."""
        for lanes in self.lanes:
            for lane in range(lanes):
                yield lane, lanes, self.span(source, lane, lanes)

    def everything(self, source: WorkSource) -> list[Reading]:
        """The beginning of every lane, of all numbers of lanes."""
        return [(lane, lanes, 0, span) for lane, lanes, span in self.every_lane(source)]

    def whole(self, source: WorkSource, lanes: int) -> list[Named] | None:
        """All pointers of a finite curriculum, lane after lane; None of an endless one."""
        found: list[Named] = []
        for lane in range(lanes):
            length = source.lane_length(lane, lanes)
            if length is None:
                return None
            found += named(source, source.read(lane, lanes, 0, length))
        return found

    def readings(self, source: WorkSource) -> st.SearchStrategy[Reading]:
        """Ranges of all lanes, long ones and short ones."""

        def within(place: tuple[int, int, int]) -> st.SearchStrategy[Reading]:
            lane, lanes, span = place
            ends = st.tuples(st.integers(0, span), st.integers(0, span)).map(sorted)
            return ends.map(lambda pair: (lane, lanes, pair[0], pair[1]))

        return st.sampled_from(list(self.every_lane(source))).flatmap(within)

    # ------------------------------------------------------------------ reading

    @clause("WS-1")
    def test_a_range_gives_the_same_pointers_at_any_time(self) -> None:
        """If this fails, reading has a memory: a cursor, a generator that is drawn from once, a cache with too short a
        key, or a clock. Compute pointers from positions alone.
        """
        for settings in self.tried():
            self._check_any_order(settings)

    @clause("WS-2")
    def test_ranges_join_without_a_seam(self) -> None:
        """If this fails, a pointer depends on where a read begins or ends: the block size would show in the data."""
        for settings in self.tried():
            self._check_seams(settings)

    @clause("WS-3")
    def test_another_process_reads_the_same(self) -> None:
        """If this fails, a pointer depends on ``hash()``, on the order of a set, on ``id()``, on the clock, or on more
        of a dataset than its name and ``shard_rows``. Derive keys with ``zephon.random.derive_key``.
        """
        questions, here = [], []
        datasets = {dataset.name: np.asarray(dataset.shard_rows).tolist() for dataset in self.datasets()}
        for settings in self.tried():
            source = self.source(settings)
            readings = self.everything(source)
            here.append(digest(source, readings))
            questions.append(Question(plugin=self.plugin, settings=settings, datasets=datasets, readings=readings))
        same = "datasets of the same names and sizes give other pointers"
        assert [question.answer() for question in questions] == here, same
        assert answers_elsewhere(questions) == here, "a fresh interpreter reads other pointers"

    @clause("WS-4")
    def test_reading_far_out_costs_what_reading_at_the_start_costs(self) -> None:
        """If this fails, ``read`` enumerates, sorts or skips what lies before ``start``. A position has to be computed:
        resuming a long run would take as long as the run did.
        """
        datasets = self._huge()
        for settings in self.tried():
            near = self._cost(settings, datasets, 0)
            # Step by step, so that what enumerates is found before it takes a lifetime.
            for exponent in (2, 3, 4, 5, 6, 7, 8, 10, 12):
                far = self._cost(settings, datasets, 10**exponent)
                bound = DEARER * near + NOISE
                assert far < bound, f"at 10^{exponent} it takes {far:.3g} s, at 0 {near:.3g} s, with {settings}"

    @clause("WS-5")
    def test_what_a_source_keeps_does_not_grow_with_what_was_read(self) -> None:
        """If this fails, a cache has no bound: ``lru_cache(maxsize=None)``, or a dict that is only written to."""
        source = self.source(self.settings, self._huge())
        rows, length = 1 << 16, source.lane_length(0, 1)
        # All that is read takes twice what may be kept.
        reads = 2 * KEPT // (rows * sum(dtype.itemsize for dtype in ORIGIN_DTYPES.values()))
        stride = 10**9 if length is None else (length - rows) // reads
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(reads):
                source.read(0, 1, number * stride, number * stride + rows)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < KEPT, f"after {reads} reads of {rows} rows it keeps {after - before} bytes"

    # ------------------------------------------------------------------ lanes and their ends

    @clause("WS-6")
    def test_the_length_of_a_lane_is_exact(self) -> None:
        """If this fails, ``lane_length`` is off, or some lanes end and others do not: runs of several groups agree on
        their last round by these lengths alone.
        """
        for settings in self.tried():
            source = self.source(settings)
            for lanes in self.lanes:
                lengths = [source.lane_length(lane, lanes) for lane in range(lanes)]
                assert all(n is None for n in lengths) or not any(n is None for n in lengths), f"{lengths}: {settings}"
                for lane, length in enumerate(lengths):
                    if length is not None:
                        assert isinstance(length, int)
                        assert length >= 0
                        assert len(source.read(lane, lanes, 0, length)) == length
                        with pytest.raises(ConfigError):
                            source.read(lane, lanes, length, length + 1)

    @clause("WS-7")
    def test_what_is_out_of_range_is_refused(self) -> None:
        """If this fails, a wrong position gives pointers, none at all, or an exception of numpy. Raise ``ConfigError``,
        with the code ``position-out-of-range`` where it is about positions.
        """
        for settings in self.tried():
            source = self.source(settings)
            for lane, lanes, span in self.every_lane(source):
                bad = [(-1, 0), (-1, span), (span, span - 1)]
                length = source.lane_length(lane, lanes)
                if length is not None:
                    bad += [(0, length + 1), (length, length + 1), (length + 1, length + 1), (10**15, 10**15 + 1)]
                for start, stop in bad:
                    with pytest.raises(ConfigError) as raised:
                        source.read(lane, lanes, start, stop)
                    assert raised.value.code == "position-out-of-range", f"read({lane}, {lanes}, {start}, {stop})"
            for lane, lanes in ((-1, 2), (2, 2), (0, 0)):
                with pytest.raises(ConfigError):
                    source.read(lane, lanes, 0, 0)
                with pytest.raises(ConfigError):
                    source.lane_length(lane, lanes)

    @clause("WS-8")
    def test_an_empty_range_holds_no_pointers(self) -> None:
        """If this fails, ``read(k, k)`` raises or returns a row; ``Origins.empty()`` is what to return."""
        for settings in self.tried():
            source = self.source(settings)
            for lane, lanes, span in self.every_lane(source):
                for at in {0, span // 2, span}:
                    self._check_columns(source.read(lane, lanes, at, at), 0)

    # ------------------------------------------------------------------ pointers

    @clause("WS-9")
    def test_pointers_are_valid(self) -> None:
        """If this fails, a pointer leads to a shard or row that does not exist, which readers do not check again; or it
        says a component or a phase that is not in the lists of the source.
        """
        for settings in self.tried():
            source = self.source(settings)
            sizes = [np.asarray(dataset.shard_rows) for dataset in source.datasets]
            components, phases = list(source.components), list(source.phases)
            for reading in self.everything(source):
                origins = source.read(*reading)
                self._check_columns(origins, reading[3])
                assert not origins.part.any(), "part is 0: nothing has been split yet"
                for component, dataset, shard, row, epoch, _, phase in map(origins.at, range(len(origins))):
                    assert 0 <= component < len(components)
                    assert 0 <= dataset < len(sizes)
                    assert 0 <= shard < len(sizes[dataset])
                    assert 0 <= row < sizes[dataset][shard], f"row {row} of a shard of {sizes[dataset][shard]}"
                    assert epoch >= 0
                    assert 0 <= phase < len(phases)
                    assert phases[phase].weights.get(components[component], 0) > 0, (
                        f"{components[component]} in {phase}"
                    )

    @clause("WS-10")
    def test_a_pointer_comes_once(self) -> None:
        """If this fails, two lanes overlap, one lane goes over rows again, or a further pass has the same ``epoch``:
        operators would draw the same random numbers for it again.
        """
        for settings in self.tried():
            source = self.source(settings)
            for lanes in self.lanes:
                counted: Counter[tuple[Any, ...]] = Counter()
                for lane in range(lanes):
                    # The phase is what it was drawn in; it does not tell two draws apart.
                    pointers = named(source, source.read(lane, lanes, 0, self.span(source, lane, lanes)))
                    counted.update(pointer[:-1] for pointer in pointers)
                twice = [pointer for pointer, times in counted.most_common(3) if times > 1]
                assert not twice, f"of {lanes} lanes, with {settings}: {twice}"

    @clause("WS-11")
    def test_the_lanes_hold_the_curriculum_whatever_their_number(self) -> None:
        """If this fails, rows get lost or are added where the curriculum is cut into lanes: look at its end, where the
        last chunks are dealt.
        """
        for settings in self.tried():
            source = self.source(settings)
            first = self.whole(source, self.lanes[0])
            if first is not None:
                for lanes in self.lanes[1:]:
                    other = self.whole(source, lanes)
                    assert other is not None
                    assert Counter(other) == Counter(first), f"{lanes} lanes and {self.lanes[0]}, with {settings}"

    @clause("WS-12")
    def test_passes_are_whole(self) -> None:
        """If this fails, a pass over a dataset leaves rows out: its first or last row, or the last one of a shard."""
        for settings in self.tried():
            source = self.source(settings)
            pointers = self.whole(source, self.lanes[-1])
            passes: dict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
            for dataset, _, shard, row, epoch, _ in pointers or ():
                passes[dataset, epoch].add((shard, row))
            for name, rows in self._rows().items() if pointers is not None else ():
                last = max((epoch for known, epoch in passes if known == name), default=0)
                for epoch in range(max(last, int(self.complete))):
                    missing = sorted(rows - passes[name, epoch])
                    assert not missing, f"pass {epoch} over {name!r} lacks (shard, row) {missing[:5]}, with {settings}"

    # ------------------------------------------------------------------ the spec

    @clause("WS-13")
    def test_the_spec_is_plain_data_that_tells_curricula_apart(self) -> None:
        """If this fails, ``to_plain`` holds something that JSON does not keep, such as a tuple, an array or a number as
        a key; or it leaves a setting out that moves rows, so that a checkpoint would restore into another curriculum.
        """
        sources = [self.source(settings) for settings in self._all_settings()]
        specs = []
        for source in sources:
            plain = dict(source.to_plain())
            assert _through_json(plain) == plain, "JSON does not keep it"
            assert dict(source.to_plain()) == plain, "it differs from call to call"
            specs.append(plain)
        contents = [digest(source, self.everything(source)) for source in sources]
        for (one, here), (other, there) in itertools.combinations(zip(specs, contents, strict=True), 2):
            assert one != other or here == there, f"other pointers, and the same spec {one}"

    @clause("WS-14")
    def test_it_can_be_made_again_from_its_settings(self) -> None:
        """If this fails, a pipeline that was written down as a recipe has another curriculum than the one it was
        written of. Where ``to_plain`` holds more than the arguments of the class, a method ``settings`` returns those.
        """
        for settings in self.tried():
            source = self.source(settings)
            written = getattr(source, "settings", source.to_plain)()
            kept = {name: value for name, value in _through_json(written).items() if name != "datasets"}
            again = self.source(kept)
            assert dict(again.to_plain()) == dict(source.to_plain())
            readings = self.everything(source)
            assert digest(again, readings) == digest(source, readings), f"made of {kept}"

    @clause("WS-15")
    def test_the_seed_decides_the_order(self) -> None:
        """If this fails, ``seed`` is not the one the source was made with, though operators derive their randomness
        from it; or it does not reach the order of rows.
        """
        takes = self.takes_seed()
        for settings in self.tried():
            source = self.source(settings)
            assert isinstance(source.seed, int)
            if takes and "seed" in settings:
                assert source.seed == settings["seed"]
                assert self.source(self.reseeded(settings)).seed == settings["seed"] + 1
            if takes if self.shuffled is None else self.shuffled:
                other = self.source(self.reseeded(settings))
                # Lanes may be of other lengths under another seed; both have what is read here.
                spans = {reading[:2]: reading[3] for reading in self.everything(other)}
                readings = [(a, b, c, min(d, spans.get((a, b), 0))) for a, b, c, d in self.everything(source)]
                readings = [reading for reading in readings if reading[2] < reading[3]]
                assert digest(other, readings) != digest(source, readings), f"the seed moves no row, with {settings}"

    @clause("WS-16")
    def test_datasets_count_by_name(self) -> None:
        """If this fails, order or randomness is keyed by the place of a dataset in the list it was given in. Key by
        name, and number datasets in the order of their first use, then of their names.
        """
        for settings in self.tried():
            source = self.source(settings)
            readings = self.everything(source)
            for order in itertools.permutations(self.datasets()):
                other = self.source(settings, order)
                assert [d.name for d in other.datasets] == [d.name for d in source.datasets]
                assert list(other.components) == list(source.components)
                for reading in readings:
                    assert other.read(*reading) == source.read(*reading), f"{reading} with {settings}"

    @clause("WS-17")
    def test_it_says_what_it_is_made_of(self) -> None:
        """If this fails, planning, ``stats()`` and operators that follow the mixture are told something else than what
        is read; or reading changes it.
        """
        for settings in self.tried():
            given = self.datasets()
            source = self.source(settings, given)
            facts = self._facts(source)
            for phase in source.phases:
                assert isinstance(phase, PhaseWeights)
                assert set(phase.weights) <= set(source.components)
                assert all(type(weight) is int and weight > 0 for weight in phase.weights.values()), f"{phase}"
            assert sorted(d.name for d in source.datasets) == sorted(d.name for d in given)
            assert all(any(d is other for other in given) for d in source.datasets), "datasets are those given"
            assert len(set(source.components)) == len(source.components)
            digest(source, self.everything(source))
            assert self._facts(source) == facts

    # ------------------------------------------------------------------ surroundings

    @clause("WS-18")
    def test_threads_may_share_it(self) -> None:
        """If this fails, reads share something unprotected: a scratch array, an attribute that is set and used, a cache
        that is filled in two steps. Workers of the thread runner share one source.
        """
        for settings in self.tried():
            alone = self.source(settings)
            readings = self.everything(alone) * 3
            random.Random(5).shuffle(readings)
            expected = [alone.read(*reading) for reading in readings]
            shared = self.source(settings)  # a fresh one, so that threads meet while it is being filled
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(lambda reading, source=shared: source.read(*reading), readings))
            assert found == expected, f"with {settings}"

    @clause("WS-19")
    def test_nothing_global_is_drawn_from_or_changed(self) -> None:
        """If this fails, order is drawn from ``random`` or ``numpy.random``, or these are seeded anew: every other user
        of them in the process would notice. Or the sizes of a dataset are changed in place.
        """
        states = random.getstate(), np.random.get_state()
        try:
            for settings in self.tried():
                assert self._drawn_under(settings, 1) == self._drawn_under(settings, 2), f"it matters, with {settings}"
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])

    @clause("WS-20")
    def test_what_was_read_is_the_readers(self) -> None:
        """If this fails, ``read`` hands out views of an array that it keeps: in a cache, or to write the next result
        into.
        """
        for settings in self.tried():
            source = self.source(settings)
            readings = self.everything(source)
            found, copies = [], []
            for reading in readings:
                found.append(source.read(*reading))
                copies.append(found[-1].take(np.arange(reading[3])))
            assert found == copies, "a later read changed it"
            for origins in found:
                for column in origins.columns().values():
                    if column.flags.writeable:
                        column[:] = 0
            assert [source.read(*reading) for reading in readings] == copies, "the reader's change came back"

    # ------------------------------------------------------------------ going on

    @clause("WS-21")
    def test_a_run_may_go_on_with_the_same_curriculum(self) -> None:
        """If this fails, no checkpoint would restore: ``continues`` compares objects where it has to compare the values
        of two specs, one of which went through JSON.
        """
        for settings in self.tried():
            source = self.source(settings)
            old = _through_json(self.source(settings).to_plain())
            for lanes in self.lanes:
                for share in (0, 0.5, 1):
                    positions = self._positions(source, lanes, share)
                    assert list(source.continues(old, lanes, positions)) == [], f"{positions} with {settings}"

    @clause("WS-22")
    def test_a_run_may_not_go_on_with_other_pointers_than_it_has_read(self) -> None:
        """If this fails, a checkpoint restores into a curriculum that has other rows at positions already read: some
        would come again and others never. Or ``continues`` raises where it has to say what differs.
        """
        pairs = itertools.permutations(self._all_settings(), 2)
        for old_settings, settings in pairs:
            old, new = self.source(old_settings), self.source(settings)
            spec = _through_json(old.to_plain())
            for lanes, share in ((self.lanes[0], 0.0), (self.lanes[-1], 0.5), (self.lanes[0], 1.0)):
                positions = self._positions(old, lanes, share)
                found = list(new.continues(spec, lanes, positions))
                assert all(isinstance(text, str) and text.strip() for text in found), "differences are sentences"
                if not found:
                    self._check_kept(old, new, spec, lanes, positions)

    @clause("WS-23")
    def test_a_pipeline_over_it_resumes_everywhere(self) -> None:
        """If this fails although the clauses above hold, the source keeps something between reads, or two instances
        made with the same arguments differ.
        """
        from zephon_testkit.resume import check_resume_everywhere

        if not all(isinstance(dataset, Dataset) for dataset in self.datasets()):
            raise Incomplete("datasets() gives what no pipeline can read; make them with zephon.io.Dataset")
        source = self.source(self.settings)
        elements = 20 if source.lane_length(0, 2) is None else None

        def pipeline() -> Pipeline:
            return Pipeline(self.source(self.settings)).pipe(operator("batch", 5)).options(canonical_replicas=2)

        check_resume_everywhere(pipeline, elements=elements)

    # ------------------------------------------------------------------ helpers

    def _check_any_order(self, settings: Mapping[str, Any]) -> None:
        used = self.source(settings)
        for lane, lanes, span in self.every_lane(used):
            reading = (lane, lanes, 0, min(span, 5))  # one range of all lanes, which a cache might take for one
            assert used.read(*reading) == self.source(settings).read(*reading), f"{reading} with {settings}"

        @for_all(st.lists(self.readings(used), min_size=2, max_size=4))
        def _(sequence: list[Reading]) -> None:
            for reading in sequence:
                assert used.read(*reading) == self.source(settings).read(*reading), f"{reading} with {settings}"

    def _check_seams(self, settings: Mapping[str, Any]) -> None:
        source = self.source(settings)

        @for_all(self.readings(source), st.floats(0, 1))
        def _(reading: Reading, share: float) -> None:
            lane, lanes, start, stop = reading
            cut = start + int(share * (stop - start))
            halves = [source.read(lane, lanes, start, cut), source.read(lane, lanes, cut, stop)]
            assert Origins.concat(halves) == source.read(*reading), f"{reading} cut at {cut}, with {settings}"

    def _all_settings(self) -> list[dict[str, Any]]:
        """Everything tried, and, where it can be seeded, the same with another seed."""
        return self.tried() + ([self.reseeded(settings) for settings in self.tried()] if self.takes_seed() else [])

    def _drawn_under(self, settings: Mapping[str, Any], seed: int) -> str:
        """The digest of all pointers, with the global generators seeded before."""
        datasets = [Sizes(d.name, d.shard_rows) for d in self.datasets()]
        sizes = [dataset.shard_rows.copy() for dataset in datasets]
        random.seed(seed)
        np.random.seed(seed)
        before = repr((random.getstate(), np.random.get_state()))
        source = self.source(settings, datasets)
        found = digest(source, self.everything(source))
        assert repr((random.getstate(), np.random.get_state())) == before, f"global state changes, with {settings}"
        assert all(np.array_equal(d.shard_rows, rows) for d, rows in zip(datasets, sizes, strict=True))
        return found

    def _rows(self) -> dict[str, set[tuple[int, int]]]:
        """Shard and number of every row, by name of the dataset."""
        return {
            dataset.name: {(i, row) for i, n in enumerate(np.asarray(dataset.shard_rows).tolist()) for row in range(n)}
            for dataset in self.datasets()
        }

    def _huge(self) -> list[Sizes]:
        """Datasets of the same names that no machine holds."""
        return [Sizes(dataset.name, [10**9] * 4000) for dataset in self.datasets()]

    def _cost(self, settings: Mapping[str, Any], datasets: Sequence[DatasetInfo], start: int) -> float:
        """Seconds of a read from a source that has read nothing before; the best of five."""
        found = []
        for _ in range(5):
            source = self.source(settings, datasets)
            length = source.lane_length(0, 2)
            first = start if length is None else max(0, min(start, length - 64))
            begun = time.perf_counter()
            source.read(0, 2, first, first + 64)
            found.append(time.perf_counter() - begun)
        return min(found)

    def _positions(self, source: WorkSource, lanes: int, share: float) -> list[int]:
        return [int(share * self.span(source, lane, lanes)) for lane in range(lanes)]

    def _facts(self, source: WorkSource) -> Any:
        phases = [dict(phase.weights) for phase in source.phases]
        return [dataset.name for dataset in source.datasets], list(source.components), phases, source.seed

    def _check_columns(self, origins: Any, rows: int) -> None:
        assert isinstance(origins, Origins)
        assert len(origins) == rows
        for name, column in origins.columns().items():
            assert column.dtype == ORIGIN_DTYPES[name]

    def _check_kept(self, old: WorkSource, new: WorkSource, spec: Any, lanes: int, positions: Sequence[int]) -> None:
        """The source a run goes on with holds what was read of the old one."""
        resumed = getattr(new, "resumed", None)
        onward = new if resumed is None else resumed(spec, lanes, positions)
        for lane, position in enumerate(positions):
            before = [pointer[:-1] for pointer in named(old, old.read(lane, lanes, 0, position))]
            after = [pointer[:-1] for pointer in named(onward, onward.read(lane, lanes, 0, position))]
            assert after == before, f"no difference is named between {spec} and {dict(new.to_plain())}"


def _through_json(plain: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(plain), allow_nan=False))
