"""The suite of ``zephon.checkpoint_store.v1``; the clauses are in ``docs/contracts/checkpoint_store-v1.md``."""

from __future__ import annotations

import copy
import logging
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from hypothesis import strategies as st

from zephon.abc import CheckpointState, CheckpointStore
from zephon.errors import CheckpointError
from zephon.plugins import CheckpointStoreDescriptor
from zephon_testkit.clauses import clause
from zephon_testkit.incomplete import Incomplete
from zephon_testkit.leaks import leaked
from zephon_testkit.packaging import PluginTests
from zephon_testkit.profiles import for_all
from zephon_testkit.saver import kill, start
from zephon_testkit.shown import TOKEN, attempt, secrets_of, shown
from zephon_testkit.states import LANES, ROUNDS, merged, pipeline, ranks

#: Seconds two processes save before they are killed.
_SAVING: Final = 0.15


class CheckpointStoreTests(PluginTests):
    """Subclass it and name the plugin. A store that takes plain paths or ``file:`` URLs needs no more; others say
    where a test can keep states::

        class TestBucket(CheckpointStoreTests):
            plugin = "bucket"
            settings = {"endpoint": "http://127.0.0.1:9000"}

            def location(self, folder):
                return f"bucket://kit{folder}"
    """

    point: ClassVar[str] = "checkpoint_store"

    def location(self, folder: Path) -> str:
        """Where a store of one test keeps its states; nothing has to be there yet.

        Args:
            folder: a folder of this test's own on the local disk. Where the store is elsewhere, it serves as a name
                that no other test has.
        """
        descriptor = self.descriptor()
        assert isinstance(descriptor, CheckpointStoreDescriptor)
        if "" in descriptor.schemes:
            return str(folder)
        if "file" in descriptor.schemes:
            return folder.as_uri()
        raise Incomplete(
            f"the kit does not know where {self.address()} can keep states: override location() in a subclass of "
            "CheckpointStoreTests, or name a class with a location() as samples= in the descriptor"
        )

    # ------------------------------------------------------------------ what tests are made of

    def store(self, location: str) -> CheckpointStore:
        """A new store, with :attr:`settings`."""
        made: CheckpointStore = self.implementation()(location, **self.settings)
        return made

    # ------------------------------------------------------------------ saving and loading

    @clause("CS-1")
    def test_what_is_saved_is_loaded(self, tmp_path: Path) -> None:
        """If this fails, a state comes back with other bytes, other lanes, or values that are no ``bytes``. Stores do
        not look into what they keep: no text mode, no stripping, no compression that is not undone.
        """
        location = self.location(tmp_path / "states")
        store = self.store(location)
        for step, rounds in enumerate((0, 1, ROUNDS)):
            [state] = ranks(rounds, degree=1)
            store.save(step, state)
            loaded = store.load(step)
            assert loaded == state
            assert list(loaded) == ["header", "lanes"]
            assert {type(part) for part in (loaded["header"], *loaded["lanes"].values())} == {bytes}
            assert {type(key) for key in loaded["lanes"]} == {str}
        if location in (str(tmp_path / "states"), (tmp_path / "states").as_uri()):
            assert any((tmp_path / "states").iterdir()), f"{location} was not saved to"

    @clause("CS-2")
    def test_ranks_save_in_any_order_and_are_merged(self, tmp_path: Path) -> None:
        """If this fails, the store waits for a certain rank, lets one rank's lanes replace another's, or depends on the
        order in which they come. There is no leader: the last one to come completes the step.
        """
        examples = iter(range(1_000_000))

        @for_all(st.sampled_from([2, 4]).flatmap(lambda degree: st.permutations(ranks(2, degree))))
        def _(states: list[CheckpointState]) -> None:
            location = self.location(tmp_path / str(next(examples)))
            for state in states:
                assert list(self.store(location).steps()) == []
                self.store(location).save(5, state)
            assert list(self.store(location).steps()) == [5]
            assert self.store(location).load(5) == merged(states)

    @clause("CS-3")
    def test_a_step_without_all_its_lanes_does_not_count(self, tmp_path: Path) -> None:
        """If this fails, a run would resume without some of its data: ``steps`` lists a step whose lanes are not all
        there, or ``load`` gives it. The header names how many lanes there are; the error is ``checkpoint-incomplete``
        and says which are missing.
        """
        states = ranks(1, degree=LANES)
        for missing in range(LANES):
            store = self.store(self.location(tmp_path / str(missing)))
            for rank, state in enumerate(states):
                if rank != missing:
                    store.save(77, state)
            assert list(store.steps()) == []
            with pytest.raises(CheckpointError) as caught:
                store.load(77)
            assert caught.value.code == "checkpoint-incomplete"
            assert re.search(rf"(?<!\d)0*{missing}(?!\d)", caught.value.found), (
                f"lane {missing} is missing, and not named in {caught.value.found!r}"
            )
            store.save(77, states[missing])
            assert store.load(77) == merged(states)

    @clause("CS-4")
    def test_a_step_that_was_never_saved_is_missing(self, tmp_path: Path) -> None:
        """If this fails, an unknown step is an empty state or an error of your storage, or looking for one makes
        something: a new store has no steps, and asking does not change that.
        """
        location = self.location(tmp_path / "new")
        store = self.store(location)
        assert list(store.steps()) == []
        for _ in range(2):
            with pytest.raises(CheckpointError) as caught:
                store.load(3)
            assert caught.value.code == "checkpoint-missing"
        assert list(self.store(location).steps()) == []
        assert not (tmp_path / "new").exists(), "a store that nothing was saved to has been made"
        store.save(30, ranks(1, degree=1)[0])
        for step in (3, 300, 0):
            with pytest.raises(CheckpointError) as caught:
                store.load(step)
            assert caught.value.code == "checkpoint-missing"
        assert list(store.steps()) == [30]

    @clause("CS-5")
    def test_steps_ascend(self, tmp_path: Path) -> None:
        """If this fails, steps are in the order of a directory, or of texts (10 before 9), are no ``int``, or do not
        fit into the digits a name has.
        """
        store = self.store(self.location(tmp_path))
        [state] = ranks(0, degree=1)
        saved = [9, 10, 1_000_000_000_000_000, 0, 11, 100, 99_999_999_999, 2**31]
        for number, step in enumerate(saved, start=1):
            store.save(step, state)
            assert list(store.steps()) == sorted(saved[:number])
        assert {type(step) for step in store.steps()} == {int}
        assert all(store.load(step) == state for step in saved)

    @clause("CS-6")
    def test_saving_again_replaces_the_lanes_saved_and_no_others(self, tmp_path: Path) -> None:
        """If this fails, a lane that is saved again keeps its old bytes, or takes along others. A run that resumed from
        an earlier step saves the later ones again.
        """
        location = self.location(tmp_path)
        old, new = ranks(2), ranks(2, other=True)
        for state in old:
            self.store(location).save(8, state)
        self.store(location).save(8, new[1])
        assert self.store(location).load(8) == merged([old[0], new[1]])
        self.store(location).save(8, new[0])
        assert self.store(location).load(8) == merged(new)
        for state in old[::-1]:
            self.store(location).save(8, state)
        assert self.store(location).load(8) == merged(old), "a state that is saved again is not the newest one"
        assert list(self.store(location).steps()) == [8]

    @clause("CS-7")
    def test_a_deleted_step_is_forgotten_and_no_other(self, tmp_path: Path) -> None:
        """If this fails, ``delete`` leaves a lane behind, takes others along (step 1 is no part of step 10), or makes
        an error of a step that is not there.
        """
        location = self.location(tmp_path)
        store = self.store(location)
        store.delete(4)
        states = {step: ranks(rounds) for step, rounds in ((1, 1), (10, 2), (11, 3))}
        for step, saved in states.items():
            for state in saved:
                store.save(step, state)
        store.delete(1)
        store.delete(1)
        store.delete(2)
        assert list(store.steps()) == [10, 11]
        with pytest.raises(CheckpointError) as caught:
            store.load(1)
        assert caught.value.code == "checkpoint-missing"
        assert all(store.load(step) == merged(states[step]) for step in (10, 11))
        store.save(1, states[1][0])
        assert list(store.steps()) == [10, 11], "a lane of the deleted step is still there"
        store.save(1, states[1][1])
        assert store.load(1) == merged(states[1])
        store.save(12, states[1][0])
        store.delete(12)
        with pytest.raises(CheckpointError) as caught:
            store.load(12)
        assert caught.value.code == "checkpoint-missing", "an incomplete step is forgotten, too"

    @clause("CS-8")
    def test_stores_of_one_place_see_the_same(self, tmp_path: Path) -> None:
        """If this fails, a store remembers what it saved, listed or loaded. Ranks, and the command line, each make
        their own, and what one does the others must see.
        """
        location = self.location(tmp_path)
        one, two = self.store(location), self.store(location)
        old, new = ranks(1, degree=1)[0], ranks(1, degree=1, other=True)[0]
        assert list(one.steps()) == list(two.steps()) == []
        one.save(1, old)
        assert list(two.steps()) == [1]
        assert two.load(1) == old
        two.save(1, new)
        two.save(2, old)
        assert one.load(1) == new
        assert list(one.steps()) == [1, 2]
        two.delete(1)
        assert list(one.steps()) == [2]
        with pytest.raises(CheckpointError):
            one.load(1)
        assert self.store(location).load(2) == old

    @clause("CS-9")
    def test_lanes_of_different_moments_are_never_one_state(self, tmp_path: Path) -> None:
        """If this fails, ranks that saved different moments, or different pipelines, under one step are put together:
        rows would come twice and others never. Headers are byte-equal on all ranks; where they are not, ``save`` or
        ``load`` raises ``CheckpointError``, and ``steps`` leaves the step out.
        """
        first, second = ranks(1), ranks(2)
        for number, states in enumerate(([first[0], second[1]], [*first, second[0]])):
            store = self.store(self.location(tmp_path / str(number)))
            store.save(1, merged(first))
            *former, last = states
            for state in former:
                store.save(6, state)
            with pytest.raises(CheckpointError):
                _saved(store, 6, last)
            if 6 in store.steps():
                assert store.load(6) == merged(first), "lanes of two moments make one state"
            assert store.load(1) == merged(first)

    # ------------------------------------------------------------------ several at once

    @clause("CS-10")
    def test_ranks_save_at_the_same_time(self, tmp_path: Path) -> None:
        """If this fails, savers disturb each other: a list of lanes is read, changed and written back; two of them make
        one directory or one temporary file. Give every lane a file, or object, of its own.
        """
        location = self.location(tmp_path)
        shared = self.store(location)
        steps = range(1, 7)
        states = ranks(2, degree=LANES)
        expected = merged(states)
        together = threading.Barrier(LANES)
        done = threading.Event()

        def save(rank: int) -> None:
            try:
                store = shared if rank % 2 else self.store(location)
                for step in steps:
                    together.wait(timeout=60)
                    store.save(step, states[rank])
            except BaseException:
                together.abort()  # nobody waits for one that has failed
                raise

        def watch() -> None:
            while not done.is_set():
                found = list(shared.steps())
                assert found == sorted(found)
                assert all(shared.load(step) == expected for step in found), "an incomplete step was listed"

        with ThreadPoolExecutor(LANES + 1) as pool:
            watching = pool.submit(watch)
            try:
                failures = [saved.exception() for saved in [pool.submit(save, rank) for rank in range(LANES)]]
            finally:
                done.set()
            watching.result()
        assert not [failure for failure in failures if failure], f"savers failed: {failures}"
        assert list(self.store(location).steps()) == list(steps)
        assert all(self.store(location).load(step) == expected for step in steps)

    @clause("CS-11")
    def test_a_reader_sees_the_old_bytes_of_a_lane_or_the_new(self, tmp_path: Path) -> None:
        """If this fails, a lane is removed, or emptied, before it is replaced, or grows while it is read. Write
        beside it and rename; where an object appears whole, put it in one request.
        """
        location = self.location(tmp_path)
        versions = [merged(ranks(2)), merged(ranks(2, other=True))]
        self.store(location).save(1, versions[0])
        done = threading.Event()

        def look() -> Iterator[str]:
            store = self.store(location)
            while not done.is_set():
                if (found := list(store.steps())) != [1]:
                    yield f"the steps are {found}"
                yield from _mixed(store.load(1), versions)

        def watch() -> list[str]:
            try:
                return list(look())
            except CheckpointError as error:
                return [str(error)]

        with ThreadPoolExecutor(2) as pool:
            watching = [pool.submit(watch) for _ in range(2)]
            try:
                for turn in range(20):
                    self.store(location).save(1, versions[turn % 2])
            finally:
                done.set()
            seen = [text for watcher in watching for text in watcher.result()]
        assert not seen, "; ".join(seen[:3])

    @clause("CS-12")
    def test_a_rank_that_is_killed_leaves_whole_lanes(self, tmp_path: Path) -> None:
        """If this fails, the process that dies while it saves takes a former state along, or leaves half of a lane, a
        lock nobody removes, or a step that counts and is not whole. Two processes save two ranks of one step, over and
        over, and are killed.
        """
        location = self.location(tmp_path)
        store = self.store(location)
        before = merged(ranks(1))
        store.save(1, before)
        versions = [merged(ranks(2)), merged(ranks(2, other=True))]
        pairs = zip(ranks(2), ranks(2, other=True), strict=True)
        processes = [start(self.plugin, location, self.settings, 2, pair) for pair in pairs]
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == b"saving\n", "a process could not save"
            deadline = time.monotonic() + _SAVING
            while time.monotonic() < deadline:
                assert not list(_mixed(store.load(2), versions)), "while two processes save"
        finally:
            for process in processes:
                kill(process)
        assert list(self.store(location).steps()) == [1, 2]
        assert self.store(location).load(1) == before, "a former state was lost"
        assert not list(_mixed(self.store(location).load(2), versions))
        for state in ranks(2):
            self.store(location).save(2, state)
        assert self.store(location).load(2) == versions[0]
        self.store(location).delete(2)
        assert list(self.store(location).steps()) == [1]

    @clause("CS-13")
    def test_a_save_that_fails_leaves_what_was_there(self, tmp_path: Path) -> None:
        """If this fails, half a lane takes the place of a whole one, a step counts that was not saved, or the failure
        is swallowed. Here it is a value that cannot be written.
        """
        location = self.location(tmp_path)
        store = self.store(location)
        [state] = ranks(2, degree=1)
        store.save(1, state)
        broken: Any = {"header": state["header"], "lanes": {"00000": ["no", "bytes"]}}
        for step in (1, 2):
            with pytest.raises(Exception):  # noqa: B017 - whatever it says of data that is no bytes
                store.save(step, broken)
        assert self.store(location).load(1) == state
        assert list(self.store(location).steps()) == [1]
        self.store(location).save(2, state)
        assert self.store(location).load(2) == state

    @clause("CS-14")
    def test_stores_of_two_places_are_apart(self, tmp_path: Path) -> None:
        """If this fails, a store finds the states of another: ``run`` is no part of ``run-2``. Look at how the location
        and the name of a step are put together.
        """
        [state] = ranks(1, degree=1)
        places = [self.location(tmp_path / name) for name in ("run", "run-2", "ru", "run 3/of#4")]
        for number, place in enumerate(places):
            self.store(place).save(number, state)
        for number, place in enumerate(places):
            assert list(self.store(place).steps()) == [number]
        self.store(places[0]).delete(0)
        assert [list(self.store(place).steps()) for place in places[1:]] == [[1], [2], [3]]

    # ------------------------------------------------------------------ discretion and order

    @clause("CS-15")
    def test_states_belong_to_those_who_hold_them(self, tmp_path: Path) -> None:
        """If this fails, ``save`` changes the state it is given, keeps it instead of a copy, or ``load`` gives out
        something of the store's own: the next one to load would find what the first one did to it.
        """
        store = self.store(self.location(tmp_path))
        [state] = ranks(2, degree=1)
        kept = copy.deepcopy(state)
        store.save(1, state)
        assert state == kept, "save() has changed the state"
        state["lanes"].clear()
        loaded = store.load(1)
        assert loaded == kept, "the store keeps the state it was given, not a copy"
        loaded["lanes"].clear()
        loaded["header"] = b""
        assert store.load(1) == kept, "what was loaded is the store's own"

    @clause("CS-16")
    def test_options_and_credentials_are_never_shown(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """If this fails, a repr, an error (its causes included) or a log line quotes an option of the store, or the
        user and password of its URL.
        """
        caplog.set_level(logging.INFO)  # below it, libraries speak for themselves
        location = self.location(tmp_path)
        places = [location]
        scheme, joint, _ = location.partition("://")
        if joint and scheme != "file":
            places.append(f"{scheme}://kit:{TOKEN}@host.invalid/states")
        state = ranks(0)[0]
        seen = []
        for place in places:
            try:
                store = self.implementation()(place, **{**self.settings, "kit_option": TOKEN})
            except Exception as error:  # noqa: BLE001 - refusing an option is right; how, is its own affair
                seen.append(shown(error))
                try:
                    store = self.store(place)
                except Exception as error:  # noqa: BLE001 - so may be refusing a place
                    seen.append(shown(error))
                    continue
            seen += [repr(store), str(store), attempt(store.load, 5), attempt(store.save, 5, state)]
            seen += [attempt(store.load, 5), attempt(store.save, 5, {"header": b"", "lanes": {"00001": None}})]
        seen.append(caplog.text)
        for secret in {TOKEN, *secrets_of(self.settings)}:
            if secret not in location:
                assert not [part for part in seen if secret in part], "a value of an option, or a password, is shown"

    @clause("CS-17")
    def test_nothing_is_left_open(self, tmp_path: Path) -> None:
        """If this fails, a file, a lock, a connection or a thread outlives its use: look at loads that fail."""
        location = self.location(tmp_path)
        states = ranks(1)

        def work() -> None:
            store = self.store(location)
            store.save(1, states[0])
            attempt(store.load, 1)
            store.save(1, states[1])
            store.load(1)
            store.steps()
            attempt(store.load, 2)
            attempt(store.save, 3, {"header": states[0]["header"], "lanes": {"00000": None}})
            store.delete(1)

        remains = leaked(work)
        assert not remains, "; ".join(remains)

    @clause("CS-18")
    def test_a_run_resumes_from_what_is_loaded(self, tmp_path: Path) -> None:
        """If this fails although the clauses above hold, something happens to states on the way that a comparison of
        bytes does not show: their type, or the order of their lanes. Two ranks save after every round; one goes on.
        """
        location = self.location(tmp_path)
        for rounds in range(ROUNDS + 1):
            for state in ranks(rounds):
                self.store(location).save(rounds, state)
        with pipeline() as running:
            plain = [batch.to_pylist() for batch in running]
        assert list(self.store(location).steps()) == list(range(ROUNDS + 1))
        for step in self.store(location).steps():
            with pipeline().restore(self.store(location).load(step)) as running:
                assert [batch.to_pylist() for batch in running] == plain[step * LANES :]


def _saved(store: CheckpointStore, step: int, state: CheckpointState) -> CheckpointState:
    """Save, and load what is there then."""
    store.save(step, state)
    return store.load(step)


def _mixed(found: CheckpointState, versions: list[CheckpointState]) -> Iterator[str]:
    """The lanes whose bytes are those of no version."""
    if found["header"] != versions[0]["header"]:
        yield "the header is another"
    if found["lanes"].keys() != versions[0]["lanes"].keys():
        yield f"the lanes are {sorted(found['lanes'])}"
    for key, data in found["lanes"].items():
        if data not in [version["lanes"].get(key) for version in versions]:
            yield f"lane {key} has {len(data)} bytes that nobody saved"
