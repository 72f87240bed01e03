"""Curricula with one fault each."""

import random
import time

import attrs
import numpy as np

from zephon.errors import CheckpointError
from zephon.random import derive_key, words
from zephon_work_source_mutants.toys import Maximal, Minimal

#: Clause that must find it, by mutant.
MUTANTS = {
    "caches_by_range_alone": "WS-1",
    "asks_the_clock": "WS-1",
    "keys_by_block": "WS-2",
    "reads_a_row_too_many": "WS-2",
    "hashes_names": "WS-3",
    "asks_more_of_datasets": "WS-3",
    "enumerates": "WS-4",
    "keeps_everything": "WS-5",
    "length_off_by_one": "WS-6",
    "some_lanes_never_end": "WS-6",
    "clamps_like_a_slice": "WS-7",
    "counts_from_the_end": "WS-7",
    "trips_over_empty_ranges": "WS-8",
    "rows_of_the_dataset": "WS-9",
    "phase_too_far": "WS-9",
    "one_epoch_for_all": "WS-10",
    "lanes_overlap": "WS-10",
    "drops_the_tail": "WS-11",
    "skips_last_rows": "WS-12",
    "spec_without_seed": "WS-13",
    "spec_of_tuples": "WS-13",
    "forgets_a_setting": "WS-14",
    "ignores_the_seed": "WS-15",
    "hides_the_seed": "WS-15",
    "orders_as_given": "WS-16",
    "weights_as_shares": "WS-17",
    "says_what_it_has_read": "WS-17",
    "shares_a_scratch_place": "WS-18",
    "seeds_the_global_generator": "WS-19",
    "shuffles_globally": "WS-19",
    "lends_its_cache": "WS-20",
    "reuses_its_buffer": "WS-20",
    "compares_objects": "WS-21",
    "accepts_anything": "WS-22",
    "raises_differences": "WS-22",
    "wears_out": "WS-23",
}


class CachesByRangeAlone(Maximal):
    """A cache whose key leaves the lanes out."""

    def __init__(self, datasets, **settings):
        super().__init__(datasets, **settings)
        self._cache = {}

    def read(self, lane, lanes, start, stop):
        found = super().read(lane, lanes, start, stop)
        return self._cache.setdefault((start, stop), found)


class AsksTheClock(Maximal):
    """Another order for every instance."""

    def __init__(self, datasets, **settings):
        super().__init__(datasets, **settings)
        self._now = time.perf_counter_ns()

    def key(self, name):
        return derive_key(self._now, name)


class KeysByBlock(Maximal):
    """Draws once per read what has to be drawn per pass."""

    def offsets(self, name, epoch):
        return super().offsets(name, np.zeros_like(epoch) + epoch[:1].sum())


class ReadsARowTooMany(Minimal):
    """Includes ``stop`` where the lane goes on."""

    def read(self, lane, lanes, start, stop):
        return super().read(lane, lanes, start, min(stop + (stop > start), max(stop, self.lane_length(lane, lanes))))


class HashesNames(Maximal):
    """Python's own hash, which differs from process to process."""

    def key(self, name):
        return hash((self._seed, name)) & (2**64 - 1)


class AsksMoreOfDatasets(Minimal):
    """Uses what only some datasets have."""

    def __init__(self, datasets):
        super().__init__(datasets)
        self._schemas = [dataset.schema for dataset in self._datasets]


class Enumerates(Minimal):
    """Goes from the first position to the one asked for."""

    def positions(self, lane, lanes, start, stop):
        return np.arange(lane, stop * lanes + lane, lanes)[start:]


class KeepsEverything(Minimal):
    """A cache without a bound."""

    def __init__(self, datasets):
        super().__init__(datasets)
        self._cache = {}

    def read(self, lane, lanes, start, stop):
        key = lane, lanes, start, stop
        if key not in self._cache:
            self._cache[key] = super().read(*key)
        return self._cache[key].take(np.arange(stop - start))


class LengthOffByOne(Minimal):
    """Says one row more than there is."""

    def read(self, lane, lanes, start, stop):
        if stop == self.lane_length(lane, lanes):
            raise IndexError(stop)
        return super().read(lane, lanes, start, stop)

    def total(self):
        return super().total() + 1


class SomeLanesNeverEnd(Maximal):
    """One lane is taken for an endless one."""

    def lane_length(self, lane, lanes):
        length = super().lane_length(lane, lanes)
        return None if lane == 1 else length


class ClampsLikeASlice(Minimal):
    """Gives what there is."""

    def read(self, lane, lanes, start, stop):
        length = self.lane_length(lane, lanes)
        return super().read(lane, lanes, *(min(max(0, at), length) for at in (start, max(start, stop))))


class CountsFromTheEnd(Maximal):
    """Looks at ``stop`` only."""

    def read(self, lane, lanes, start, stop):
        length = self.lane_length(lane, lanes)
        return super().read(lane, lanes, start + (length or 0) if start < 0 else start, stop)


class TripsOverEmptyRanges(Minimal):
    """Looks at the first position, which is not always there."""

    def pointers(self, positions):
        assert positions[0] >= 0
        return super().pointers(positions)


class RowsOfTheDataset(Minimal):
    """Numbers rows through all shards of a dataset."""

    def pointers(self, positions):
        origins = super().pointers(positions)
        begin = np.array([self._rows[(self._dataset == d) & (self._shard < s)].sum() for d, s in self._places(origins)])
        return attrs.evolve(origins, row=origins.row + begin.astype(np.int64))

    def _places(self, origins):
        return zip(origins.dataset, origins.shard, strict=True)


class PhaseTooFar(Maximal):
    """Counts phases from one."""

    def pointers(self, positions):
        origins = super().pointers(positions)
        return attrs.evolve(origins, phase=origins.phase + 1)


class OneEpochForAll(Maximal):
    """Does not count passes."""

    def pointers(self, positions):
        return attrs.evolve(super().pointers(positions), epoch=np.zeros(len(positions)))


class LanesOverlap(Minimal):
    """A lane goes on where its neighbour is."""

    def positions(self, lane, lanes, start, stop):
        found = super().positions(lane, lanes, start, stop)
        return np.where(np.arange(start, stop) % 5 == 4, found - lane, found)


class DropsTheTail(Minimal):
    """Ends with the last row that every lane has."""

    def lane_length(self, lane, lanes):
        super().lane_length(lane, lanes)
        return self.total() // lanes


class SkipsLastRows(Minimal):
    """Ends one row before the end of every shard that has several."""

    def __init__(self, datasets):
        super().__init__(datasets)
        self._rows = np.where(self._rows > 1, self._rows - 1, self._rows)
        self._ends = np.cumsum(self._rows)


class SpecWithoutSeed(Maximal):
    """A checkpoint would restore under another seed."""

    def to_plain(self):
        return {name: value for name, value in super().to_plain().items() if name != "seed"}

    def continues(self, old, lanes, positions):
        return super().continues({**old, "seed": self._seed}, lanes, positions)


class SpecOfTuples(Maximal):
    """JSON makes lists of them."""

    def to_plain(self):
        return {**super().to_plain(), "schedule": tuple(super().to_plain()["schedule"])}


class ForgetsASetting(Maximal):
    """A recipe of it has chunks of another size."""

    def settings(self):
        return {name: value for name, value in super().settings().items() if name != "chunk"}

    def to_plain(self):
        return {**super().to_plain(), "chunk": self._chunk}


class IgnoresTheSeed(Maximal):
    """One order for all."""

    def key(self, name):
        return derive_key(0, name)


class HidesTheSeed(Maximal):
    """Operators would draw the same for every seed."""

    @property
    def seed(self):
        return 0


class OrdersAsGiven(Minimal):
    """The first in the list comes first."""

    def in_order(self, datasets):
        return datasets


class WeightsAsShares(Maximal):
    """Floats where integers are asked for."""

    @property
    def phases(self):
        phases = super().phases
        return [attrs.evolve(p, weights={k: v / sum(p.weights.values()) for k, v in p.weights.items()}) for p in phases]


class SaysWhatItHasRead(Maximal):
    """Knows the phases it has come by."""

    def __init__(self, datasets, **settings):
        super().__init__(datasets, **settings)
        self._seen = 1

    def pointers(self, positions):
        origins = super().pointers(positions)
        self._seen = max(self._seen, int(origins.phase.max(initial=0)) + 1)
        return origins

    @property
    def phases(self):
        return super().phases[: self._seen]


class SharesAScratchPlace(Minimal):
    """Puts down where it is and looks there again."""

    def positions(self, lane, lanes, start, stop):
        self._place = super().positions(lane, lanes, start, stop)
        time.sleep(0.0005)
        return self._place


class SeedsTheGlobalGenerator(Maximal):
    """Reproducible, and everybody else's numbers with it."""

    def key(self, name):
        random.seed(derive_key(self._seed, name))
        return random.getrandbits(64)


class ShufflesGlobally(Maximal):
    """Draws the order from numpy's global generator."""

    def __init__(self, datasets, **settings):
        super().__init__(datasets, **settings)
        self._drawn = int(np.random.randint(2**62))

    def key(self, name):
        return derive_key(self._seed, self._drawn, name)


class LendsItsCache(Minimal):
    """Hands out the very arrays it keeps."""

    def __init__(self, datasets):
        super().__init__(datasets)
        self._cache = {}

    def read(self, lane, lanes, start, stop):
        key = lane, lanes, start, stop
        if key not in self._cache:
            self._cache.clear() if len(self._cache) > 20 else None
            self._cache[key] = super().read(*key)
        return self._cache[key]


class ReusesItsBuffer(Minimal):
    """Writes the rows of every read into one array."""

    def __init__(self, datasets):
        super().__init__(datasets)
        self._buffer = np.empty(1 << 16, dtype=np.int64)

    def pointers(self, positions):
        origins = super().pointers(positions)
        row = self._buffer[: len(positions)]
        row[:] = origins.row
        return attrs.evolve(origins, row=row)


class ComparesObjects(Minimal):
    """Takes the same for another."""

    def __init__(self, datasets):
        super().__init__(datasets)
        self._plain = super().to_plain()

    def to_plain(self):
        return self._plain

    def continues(self, old, lanes, positions):
        return [] if old is self._plain else [f"the run was made with {old}"]


class AcceptsAnything(Maximal):
    """Trusts that nobody changes a thing."""

    def continues(self, old, lanes, positions):
        return []


class RaisesDifferences(Maximal):
    """Raises where it has to tell."""

    def continues(self, old, lanes, positions):
        found = super().continues(old, lanes, positions)
        if found:
            raise CheckpointError(
                "another curriculum", found="; ".join(found), fix="undo it", code="curriculum-differs"
            )
        return found


class WearsOut(Maximal):
    """A cache that loses its key once it has been filled."""

    def __init__(self, datasets, **settings):
        super().__init__(datasets, **settings)
        self._reads = 0

    def offsets(self, name, epoch):
        self._reads += len(epoch)
        return super().offsets(name, epoch) if self._reads < 30 else words(0, epoch).astype(np.int64) % 1
