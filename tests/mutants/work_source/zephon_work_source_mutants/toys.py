"""Two curricula that are right: the least there can be, and one with all that there is."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from zephon.abc import PhaseWeights, WorkSource
from zephon.block import Origins
from zephon.errors import ConfigError
from zephon.random import derive_key, words


def out_of_range(what):
    return ConfigError(f"the curriculum has no {what}", fix="ask within its bounds", code="position-out-of-range")


class Minimal(WorkSource):
    """All rows once, in the order of dataset names, shards and rows; dealt to the lanes in turn."""

    def __init__(self, datasets):
        self._datasets = tuple(self.in_order(datasets))
        sizes = [np.asarray(dataset.shard_rows, dtype=np.int64) for dataset in self._datasets]
        self._dataset = np.repeat(np.arange(len(sizes)), [len(rows) for rows in sizes])
        self._shard = np.concatenate([np.arange(len(rows)) for rows in sizes])
        self._rows = np.concatenate(sizes)
        self._ends = np.cumsum(self._rows)

    def in_order(self, datasets):
        return sorted(datasets, key=lambda dataset: dataset.name)

    def read(self, lane, lanes, start, stop):
        length = self.lane_length(lane, lanes)
        if not 0 <= start <= stop <= length:
            raise out_of_range(f"range {start}:{stop} in lane {lane}, which ends at {length}")
        return self.pointers(self.positions(lane, lanes, start, stop))

    def positions(self, lane, lanes, start, stop):
        """Places in the curriculum of a range of a lane."""
        return np.arange(start, stop) * lanes + lane

    def pointers(self, positions):
        """What is at places in the curriculum."""
        part = np.searchsorted(self._ends, positions, side="right")
        zeros = np.zeros(len(positions), dtype=np.int64)
        return Origins(
            component=self._dataset[part],
            dataset=self._dataset[part],
            shard=self._shard[part],
            row=positions - (self._ends - self._rows)[part],
            epoch=zeros,
            part=zeros,
            phase=zeros,
        )

    def total(self):
        return int(self._rows.sum())

    def lane_length(self, lane, lanes):
        if not 0 <= lane < lanes:
            raise out_of_range(f"lane {lane} of {lanes}")
        return max(0, (self.total() - lane + lanes - 1) // lanes)

    @property
    def datasets(self):
        return list(self._datasets)

    def to_plain(self):
        return {"datasets": {dataset.name: np.asarray(dataset.shard_rows).tolist() for dataset in self._datasets}}

    def continues(self, old, lanes, positions):
        new = self.to_plain()
        return [] if old == new else [f"the run was made with {old}, this is {new}"]


class Maximal(WorkSource):
    """A mixture by integer weights that change at given places; each pass begins at another row; endless on demand.

    Args:
        datasets: what is mixed.
        schedule: pairs of a place in the curriculum and the weights from there on.
        seed: decides where passes begin.
        chunk: how many rows in a row a lane gets.
        passes: how many passes over every dataset the end waits for; None for no end.
    """

    def __init__(self, datasets, schedule, seed=0, chunk=2, passes=1):
        self._schedule = [(int(start), {k: int(v) for k, v in sorted(weights.items())}) for start, weights in schedule]
        names = dict.fromkeys(name for _, weights in self._schedule for name in weights)
        by_name = {dataset.name: dataset for dataset in datasets}
        self._datasets = [by_name[name] for name in names]
        self._seed, self._chunk, self._passes = seed, chunk, passes
        self._ends = {name: np.cumsum(np.asarray(by_name[name].shard_rows, dtype=np.int64)) for name in names}
        self._base = [Counter()]
        for (start, weights), (stop, _) in zip(self._schedule, self._schedule[1:], strict=False):
            self._base.append(self._base[-1] + Counter({n: self._draws(weights, n, stop - start) for n in weights}))

    # --- lanes

    def read(self, lane, lanes, start, stop):
        length = self.lane_length(lane, lanes)
        if not 0 <= start <= stop or (length is not None and stop > length):
            raise out_of_range(f"range {start}:{stop} in lane {lane}, which ends at {length}")
        return self.pointers(self.positions(lane, lanes, start, stop))

    def positions(self, lane, lanes, start, stop):
        """Places in the curriculum of a range of a lane."""
        at = np.arange(start, stop)
        return (at // self._chunk * lanes + lane) * self._chunk + at % self._chunk

    def lane_length(self, lane, lanes):
        if not 0 <= lane < lanes:
            raise out_of_range(f"lane {lane} of {lanes}")
        end = self.end()
        if end is None:
            return None
        rounds, rest = divmod(end, lanes * self._chunk)
        return rounds * self._chunk + min(max(rest - lane * self._chunk, 0), self._chunk)

    # --- pointers

    def pointers(self, positions):
        """What is at places in the curriculum."""
        starts = [start for start, _ in self._schedule]
        phases = np.searchsorted(starts, positions, side="right") - 1
        columns = {name: np.zeros(len(positions), dtype=np.int64) for name in ("component", "shard", "row", "epoch")}
        for phase, (start, weights) in enumerate(self._schedule):
            cycle, nth = self._cycle(weights)
            for number, dataset in enumerate(self._datasets):
                turns, place = np.divmod(positions - start, len(cycle))
                here = np.flatnonzero((phases == phase) & (cycle[place] == dataset.name))
                ordinals = turns[here] * weights.get(dataset.name, 0) + nth[place[here]]
                columns["component"][here] = number
                found = self._locate(dataset.name, self._base[phase][dataset.name] + ordinals)
                columns["shard"][here], columns["row"][here], columns["epoch"][here] = found
        zeros = np.zeros(len(positions), dtype=np.int64)
        return Origins(**columns, dataset=columns["component"], part=zeros, phase=phases)

    def _cycle(self, weights):
        """Names of the components at the places of one period, and which draw of its component each is."""
        cycle = np.concatenate([np.repeat(name, weight) for name, weight in weights.items()])
        return cycle, np.concatenate([np.arange(weight) for weight in weights.values()])

    def _draws(self, weights, name, length):
        """How often a component is drawn at the first places of a phase."""
        cycle, _ = self._cycle(weights)
        return length // len(cycle) * weights[name] + int((cycle[: length % len(cycle)] == name).sum())

    def _locate(self, name, ordinals):
        """Shard, row and pass of the n-th draws of a dataset."""
        ends = self._ends[name]
        epoch, place = np.divmod(ordinals, ends[-1])
        place = (place + self.offsets(name, epoch)) % ends[-1]
        shard = np.searchsorted(ends, place, side="right")
        return shard, place - np.append(0, ends)[shard], epoch

    def offsets(self, name, epoch):
        """Where passes over a dataset begin."""
        return (words(self.key(name), epoch) % np.uint64(self._ends[name][-1])).astype(np.int64)

    def key(self, name):
        """What the order of a dataset is derived from."""
        return derive_key(self._seed, name)

    def end(self):
        """Where the curriculum ends; None if it does not."""
        if self._passes is None:
            return None
        start, weights = self._schedule[-1]
        cycle, _ = self._cycle(weights)
        found = start
        for name, weight in weights.items():
            missing = self._passes * int(self._ends[name][-1]) - self._base[-1][name]
            if missing > 0:
                turns, nth = divmod(missing - 1, weight)
                found = max(found, start + turns * len(cycle) + int(np.flatnonzero(cycle == name)[nth]) + 1)
        return found

    # --- what it is made of

    @property
    def datasets(self):
        return list(self._datasets)

    @property
    def components(self):
        return [dataset.name for dataset in self._datasets]

    @property
    def phases(self):
        return [PhaseWeights(weights=weights) for _, weights in self._schedule]

    @property
    def seed(self):
        return self._seed

    def settings(self):
        schedule = [[start, dict(weights)] for start, weights in self._schedule]
        return {"schedule": schedule, "seed": self._seed, "chunk": self._chunk, "passes": self._passes}

    def to_plain(self):
        return {
            **self.settings(),
            "rows": {name: np.diff(ends, prepend=0).tolist() for name, ends in self._ends.items()},
        }

    def continues(self, old: Mapping, lanes, positions):
        new = self.to_plain()
        found = [f"{name}: {old[name]} -> {new[name]}" for name in ("seed", "chunk", "rows") if old[name] != new[name]]
        if not found:
            read = [self.positions(lane, lanes, at - 1, at)[0] for lane, at in enumerate(positions) if at]
            former, now = ([e for e in spec["schedule"] if e[0] <= max(read, default=-1)] for spec in (old, new))
            if former != now:
                found.append(f"schedule: {former} -> {now}")
        for lane, position in enumerate(positions):
            length = self.lane_length(lane, lanes)
            if length is not None and position > length:
                found.append(f"lane {lane} now ends at {length}, and {position} rows of it were read")
        return found
