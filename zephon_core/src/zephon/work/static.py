"""``StaticMixtureWorkSource``: a weighted mixture of datasets, by a schedule or fixed, computed in closed form."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from threading import RLock
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from zephon.abc import DatasetInfo, PhaseWeights, WorkSource
from zephon.block import Origins
from zephon.errors import CheckpointError, ConfigError
from zephon.work import checks
from zephon.work.lanes import Lanes
from zephon.work.mixture import MAX_POSITION, IntArray
from zephon.work.order import DatasetOrder, OrderOptions
from zephon.work.permutation import BoundedCache
from zephon.work.phases import Course, Phase, plan_course
from zephon.work.policies import Policy, listed, near, resolve_policies
from zephon.work.report import report
from zephon.work.resume import resume_course, spans_of
from zephon.work.schedule import (
    Entry,
    Schedule,
    check_estimates,
    check_names,
    entries_of,
    parse_schedule,
    plain_schedule,
    schedule_names,
)

#: What the plain form holds beside settings.
_RESOLVED: Final = ("datasets", "phases", "end", "reason")

#: Bytes of small permutations, lane tables and orders of shards that a source keeps,
_CACHE_BYTES: Final = 32 << 20

#: and tables of shard orders per dataset that it keeps beyond.
_TABLES: Final = 3


class _Derived:
    """What a source computes when it is first needed. A copy, also in another process, starts with nothing."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.cache = BoundedCache(_CACHE_BYTES)
        self.course: Course | None = None
        self.rows: dict[str, int] = {}
        self.orders: dict[str, DatasetOrder] = {}

    def __reduce__(self) -> tuple[type[_Derived], tuple[()]]:
        return _Derived, ()


@attrs.frozen(slots=True, eq=False)
class StaticMixtureWorkSource(WorkSource):
    """A curriculum that draws rows from datasets in fixed proportions.

    Every row of a pass is delivered exactly once, the mixture is on target within 2 rows in every prefix, and any
    position of any lane is found in the same short time. Building a source, or asking for its length, draws nothing.

    Args:
        datasets: what rows are drawn from; anything with a ``name`` and ``shard_rows``. Read when first needed.
        mixture: a :class:`MixtureSpec` or a dict of weights; or a schedule ``[(0, {...}), (position, {...}), ...]`` in
            which datasets may enter and leave. Positions count rows of the curriculum, over all lanes.
        chunk_size: upper bound of the consecutive rows of the curriculum that one lane reads. Small data is cut
            finer, so that every pass has at least 8 rounds of chunks.
        seed: what all order is derived from.
        shuffle_shards: whether each pass has an order of shards of its own; otherwise that of their names.
        shuffle_within_shard: whether the rows of a shard are shuffled, also across the edges of shuffle windows.
        shuffle_block_size: rows in a shuffle window, which may span several shards: None for no windows, a number,
            ``"auto"`` for 8 times the largest shard, ``"global"`` for the whole dataset.
        exhausted_policy: what happens when a dataset has supplied all its rows, for all datasets or as a dict:
            ``"repeat"`` starts it again, ``"stop"`` ends the run when it cannot supply its next draw,
            ``"redistribute"`` gives its share to the others. Without this and ``max_repeats``, a dataset repeats, and
            the run waits for its first pass.
        reshuffle_on_repeat: whether each pass over a dataset has an order of its own.
        max_repeats: how often a dataset may be repeated at most; an int from 0, or a dict. The run ends when it would
            exceed that; with ``"redistribute"`` the dataset leaves instead.
        stop_after_passes: how many passes over a dataset the run waits for; an int from 1, or a dict.
        token_estimation: mean tokens per row by dataset, if the weights are shares of tokens instead of rows.

    What a dict of policies does not name is as if it were not given for that dataset.

    Raises:
        ConfigError: ``mixture-names``, ``duplicate-dataset``, ``unknown-dataset`` for names that do not match;
            ``bad-datasets``, ``bad-mixture``, ``bad-weight``, ``bad-schedule``, ``bad-token-estimation``,
            ``bad-policy``, ``bad-chunk-size``, ``bad-seed``, ``bad-switch``, ``bad-shuffle-block-size`` for arguments
            that are wrong by themselves; ``contradictory-policy``, ``goal-beyond-limit`` for such that are wrong
            together. When rows are counted: ``empty-dataset``, ``curriculum-too-long``.
    """

    # The aliases are those attrs finds by itself; pyright takes no underscore off.
    _datasets: tuple[DatasetInfo, ...] = attrs.field(alias="datasets", converter=checks.datasets, repr=checks.names_of)
    mixture: Schedule = attrs.field(converter=parse_schedule)
    chunk_size: int = attrs.field(default=16384, converter=checks.plain_int, validator=checks.positive)
    _seed: int = attrs.field(default=0, alias="seed", converter=checks.plain_int, validator=checks.integer)
    shuffle_shards: bool = attrs.field(default=True, validator=checks.switch)
    shuffle_within_shard: bool = attrs.field(default=False, validator=checks.switch)
    shuffle_block_size: int | str | None = attrs.field(
        default=None, converter=checks.plain_int, validator=checks.block_size
    )
    exhausted_policy: str | Mapping[str, str | None] | None = attrs.field(default=None, converter=checks.plain_policy)
    reshuffle_on_repeat: bool = attrs.field(default=True, validator=checks.switch)
    max_repeats: int | Mapping[str, int | None] | None = attrs.field(default=None, converter=checks.plain_policy)
    stop_after_passes: int | Mapping[str, int | None] | None = attrs.field(default=None, converter=checks.plain_policy)
    token_estimation: Mapping[str, Any] | None = attrs.field(default=None, converter=checks.plain_estimates)

    _names: tuple[str, ...] = attrs.field(init=False, repr=False)
    _by_name: dict[str, DatasetInfo] = attrs.field(init=False, repr=False)
    _policies: dict[str, Policy] = attrs.field(init=False, repr=False)
    _entries: tuple[Entry, ...] = attrs.field(init=False, repr=False)
    # Set where phases were settled by an earlier run.
    _settled: Course | None = attrs.field(init=False, repr=False, default=None)
    _derived: _Derived = attrs.field(init=False, repr=False, factory=_Derived)

    def __attrs_post_init__(self) -> None:
        names = [dataset.name for dataset in self._datasets]
        check_names(self.mixture, names)
        check_estimates(self.token_estimation, names)
        by_name = dict(zip(names, self._datasets, strict=True))
        ordered = {name: by_name[name] for name in schedule_names(self.mixture)}
        policies = resolve_policies(list(ordered), self.exhausted_policy, self.max_repeats, self.stop_after_passes)
        entries = tuple(entries_of(self.mixture, self.token_estimation))
        for field, value in (
            ("_names", tuple(ordered)),
            ("_by_name", ordered),
            ("_policies", policies),
            ("_entries", entries),
        ):
            object.__setattr__(self, field, value)

    # --- what the curriculum is made of -------------------------------------------------------------------------------

    @property
    def datasets(self) -> Sequence[DatasetInfo]:
        """The datasets, in the order of their first use in the schedule, then of their names."""
        return list(self._by_name.values())

    @property
    def components(self) -> Sequence[str]:
        """One component per dataset, of its name."""
        return list(self._by_name)

    @property
    def phases(self) -> Sequence[PhaseWeights]:
        """Integer weights of each phase, by name; ``origins.phase`` indexes them."""
        return [PhaseWeights(weights=phase.weights) for phase in self.course.phases]

    @property
    def seed(self) -> int:
        """The seed operators derive their randomness from."""
        return self._seed

    @property
    def course(self) -> Course:
        """All phases, computed when first asked for.

        Raises:
            ConfigError: ``empty-dataset``, ``curriculum-too-long``.
        """
        if self._settled is not None:
            return self._settled
        with self._derived.lock:
            if self._derived.course is None:
                self._derived.course = self._plan((), 0)
            return self._derived.course

    @property
    def total_samples(self) -> int | None:
        """Rows of all lanes together; None if the curriculum never ends."""
        return self.course.end

    def __len__(self) -> int:
        end = self.course.end
        if end is None:
            error = ConfigError(
                "the curriculum never ends, so it has no length",
                found=f"policies: {'; '.join(f'{name}: {policy}' for name, policy in self._policies.items())}",
                fix="set stop_after_passes=1 or max_repeats, or test total_samples for None",
                code="endless-curriculum",
            )
            # len() is documented to raise TypeError where there is no length; list() and friends rely on it.
            raise TypeError(str(error))
        return end

    def __bool__(self) -> bool:
        return True

    def mixture_at(self, position: int) -> dict[str, Fraction]:
        """The target share of each component at a position, over all lanes.

        Raises:
            ConfigError: ``position-out-of-range``.
        """
        weights = self._phase_at(position).weights
        period = sum(weights.values())
        return {name: Fraction(weight, period) for name, weight in weights.items()}

    def drawn_at(self, position: int) -> dict[str, int]:
        """How many rows of each dataset the first ``position`` rows of the curriculum hold.

        Raises:
            ConfigError: ``position-out-of-range``.
        """
        drawn = self._phase_at(position).drawn(position)
        return {name: drawn.get(name, 0) for name in self._by_name}

    # --- pointers -----------------------------------------------------------------------------------------------------

    def read(self, lane: int, lanes: int, start: int, stop: int) -> Origins:
        """The pointers at positions ``start:stop`` of one lane; see :meth:`zephon.abc.WorkSource.read`.

        Raises:
            ConfigError: ``lane-out-of-range``, ``position-out-of-range``.
        """
        dealer = self._lanes(lane, lanes)
        _check_range(dealer, lane, start, stop)
        cache = self._derived.cache
        pieces = [self._draws(i, at) for i, at in dealer.pieces(lane, start, stop, cache)]
        if not pieces:
            return Origins.empty()
        component, ordinal, phase = pieces[0] if len(pieces) == 1 else map(np.concatenate, zip(*pieces, strict=True))
        n = len(component)
        shard, row, epoch = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
        # A stable sort groups the rows of a component and keeps their order, which makes their look-up local.
        by_component = np.argsort(component, kind="stable")
        ends = np.cumsum(np.bincount(component))
        begin = 0
        for number, end in enumerate(ends.tolist()):
            if end > begin:
                here = by_component[begin:end]
                shard[here], row[here], epoch[here] = self._order(number).locate(ordinal[here], cache)
                begin = end
        return Origins(
            component=component,
            dataset=component,
            shard=shard,
            row=row,
            epoch=epoch,
            part=np.zeros(n, dtype=np.uint64),
            phase=phase,
        )

    def lane_length(self, lane: int, lanes: int) -> int | None:
        """Rows of a lane; None if it never ends. The lengths of all lanes differ by at most one.

        Raises:
            ConfigError: ``lane-out-of-range``.
        """
        return self._lanes(lane, lanes).length(lane)

    def position_of(self, lane: int, lanes: int, lane_positions: npt.ArrayLike) -> IntArray:
        """The positions of the curriculum behind positions of a lane.

        Args:
            lane: in ``[0, lanes)``.
            lanes: number of lanes.
            lane_positions: integers ``[n]``, each below the lane's length.

        Raises:
            ConfigError: ``lane-out-of-range``, ``position-out-of-range``.
        """
        dealer = self._lanes(lane, lanes)
        wanted = np.atleast_1d(np.asarray(lane_positions, dtype=np.int64))
        if len(wanted):
            _check_range(dealer, lane, int(wanted.min()), int(wanted.max()) + 1)
        return dealer.positions(lane, wanted, self._derived.cache)

    # --- plain data, resuming, explaining -----------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The arguments that differ from their defaults, but for the datasets, as plain data: what a recipe holds."""
        defaults = {field.alias: field.default for field in attrs.fields(type(self))}
        return {name: value for name, value in self._settings().items() if value != defaults[name]}

    def to_plain(self) -> dict[str, Any]:
        """All settings, the datasets' sizes, and the phases they lead to.

        Keys: the arguments by name; ``datasets``, ``{name: {rows, shards, digest}}``; ``phases``, ``end`` and
        ``reason``, with which a later run keeps what this one has dealt.
        """
        datasets = {name: self._identity(name) for name in self._by_name}
        return {**self._settings(), "datasets": datasets, **self.course.to_plain()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], datasets: Sequence[DatasetInfo]) -> StaticMixtureWorkSource:
        """Inverse of :meth:`to_plain` and :meth:`settings`.

        Args:
            plain: what either has returned. Phases in it are taken as they are.
            datasets: the datasets it names, in any order.

        Raises:
            ConfigError: ``dataset-changed`` if phases were computed for datasets of other sizes, and what the
                class itself raises.
        """
        settings = {name: value for name, value in plain.items() if name not in _RESOLVED}
        names = [field.alias for field in attrs.fields(cls) if field.init and field.alias != "datasets"]
        unknown = [name for name in settings if name not in names]
        if unknown or "mixture" not in settings:
            raise ConfigError(
                "these settings do not make a StaticMixtureWorkSource",
                found=f"unknown: {listed(unknown)}{near(unknown, names)}" if unknown else "no mixture",
                fix=f"the settings are: {', '.join(names)}",
                code="bad-spec",
            )
        source = cls(datasets=datasets, **settings)
        if "phases" not in plain:
            return source
        for name, facts in plain["datasets"].items():
            if source._identity(name) != facts:
                raise ConfigError(
                    f"dataset {name!r} is not the one these phases were computed for",
                    found=f"{source._identity(name)}, expected {facts}",
                    fix="leave out phases, end and reason to compute them anew",
                    code="dataset-changed",
                )
        return source._with(Course.from_plain(plain))

    def continues(self, old: Mapping[str, Any], lanes: int, positions: Sequence[int]) -> Sequence[str]:
        """Whether a run of the curriculum ``old`` may go on with this one, by way of :meth:`resumed`.

        Args:
            old: what :meth:`to_plain` of the former source returned.
            lanes: number of lanes.
            positions: rows read so far, by lane.

        Returns:
            The differences that forbid it, each one sentence with old and new.

        Raises:
            CheckpointError: ``bad-curriculum-state`` if ``old`` is not of this kind.
            ConfigError: ``position-out-of-range``.
        """
        return self._resume(old, lanes, positions)[0]

    def resumed(self, old: Mapping[str, Any], lanes: int, positions: Sequence[int]) -> StaticMixtureWorkSource:
        """The source to go on with: phases dealt by ``old`` as they were, later ones by the settings of this source.

        Raises:
            CheckpointError: ``curriculum-differs`` with the differences, ``bad-curriculum-state``.
            ConfigError: ``position-out-of-range``.
        """
        differences, course = self._resume(old, lanes, positions)
        if course is None:
            raise CheckpointError(
                "the run cannot go on with this curriculum",
                found="; ".join(differences),
                fix="undo these changes, or start anew",
                code="curriculum-differs",
            )
        return self._with(course)

    def explain(self, lanes: int | None = None) -> list[str]:
        """What the curriculum does, line by line: phases, datasets, the end, and what is worth knowing.

        Args:
            lanes: number of lanes, for facts that depend on it.
        """
        orders = {name: self._order(i) for i, name in enumerate(self._by_name) if self._rows(name)}
        return report(self.course, self._entries, self._policies, orders, lanes)

    # --- internals ----------------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        return {
            "mixture": plain_schedule(self.mixture),
            "chunk_size": self.chunk_size,
            "seed": self._seed,
            "shuffle_shards": self.shuffle_shards,
            "shuffle_within_shard": self.shuffle_within_shard,
            "shuffle_block_size": self.shuffle_block_size,
            "exhausted_policy": _named(self.exhausted_policy),
            "reshuffle_on_repeat": self.reshuffle_on_repeat,
            "max_repeats": _named(self.max_repeats),
            "stop_after_passes": _named(self.stop_after_passes),
            "token_estimation": self.token_estimation,
        }

    def _with(self, course: Course) -> StaticMixtureWorkSource:
        settled = attrs.evolve(self)
        object.__setattr__(settled, "_settled", course)
        return settled

    def _plan(self, history: Sequence[Phase], dealt: int) -> Course:
        return plan_course(self._entries, self._rows, self._policies, self.chunk_size, history, dealt)

    def _resume(self, old: Mapping[str, Any], lanes: int, positions: Sequence[int]) -> tuple[list[str], Course | None]:
        _check_lane(0, lanes)
        return resume_course(
            old,
            self._settings(),
            lambda name: self._identity(name) if name in self._by_name else None,
            self._plan,
            lanes,
            positions,
        )

    def _lanes(self, lane: int, lanes: int) -> Lanes:
        _check_lane(lane, lanes)

        def make() -> tuple[Lanes, int]:
            dealer = Lanes(spans_of(self.course, lanes), lanes, self._seed)
            return dealer, 128 * len(self.course.phases)

        return self._derived.cache.once(("lanes", lanes), make)

    def _phase_at(self, position: int) -> Phase:
        end = self.course.end
        if not 0 <= position <= (MAX_POSITION if end is None else end):
            raise ConfigError(
                f"the curriculum has no position {position}",
                found="it never ends, but positions stay below 2**62" if end is None else f"it ends at {end}",
                fix="pass a position from 0 to total_samples",
                code="position-out-of-range",
            )
        return self.course.phases[self.course.at(position)]

    def _draws(self, number: int, positions: IntArray) -> tuple[npt.NDArray[np.int16], IntArray, npt.NDArray[np.int32]]:
        """Component, ordinal and phase of positions of one phase."""
        phase = self.course.phases[number]

        def make() -> tuple[tuple[npt.NDArray[np.int16], IntArray], int]:
            numbers = {name: i for i, name in enumerate(self._names)}
            components = np.array([numbers[name] for name in phase.weights], dtype=np.int16)
            drawn = np.array([phase.ordinals.get(name, 0) for name in phase.weights], dtype=np.int64)
            return (components, drawn), components.nbytes + drawn.nbytes

        components, drawn = self._derived.cache.once(("phase", number), make)
        leaf, ordinal = phase.tree.down(positions - phase.start)
        return components[leaf], drawn[leaf] + ordinal, np.full(len(leaf), number, dtype=np.int32)

    def _shard_rows(self, name: str) -> IntArray:
        return np.asarray(self._by_name[name].shard_rows, dtype=np.int64)

    def _rows(self, name: str) -> int:
        rows = self._derived.rows.get(name)
        if rows is None:
            rows = self._derived.rows[name] = int(self._shard_rows(name).sum())
        return rows

    def _identity(self, name: str) -> dict[str, Any]:
        shard_rows = self._shard_rows(name)
        digest = hashlib.blake2b(shard_rows.astype("<i8").tobytes(), digest_size=16).hexdigest()
        return {"rows": int(shard_rows.sum()), "shards": len(shard_rows), "digest": digest}

    def _order(self, number: int) -> DatasetOrder:
        name = self._names[number]
        order = self._derived.orders.get(name)
        if order is None:
            options = OrderOptions(
                seed=self._seed,
                shuffle_shards=self.shuffle_shards,
                shuffle_within_shard=self.shuffle_within_shard,
                shuffle_block_size=self.shuffle_block_size,
                reshuffle_on_repeat=self.reshuffle_on_repeat,
            )
            with self._derived.lock:
                order = self._derived.orders.get(name)
                if order is None:
                    order = DatasetOrder(name, self._shard_rows(name), options)
                    # Lanes that straddle the end of an epoch need its order of shards and the next one's.
                    self._derived.cache.reserve(_TABLES * order.table_bytes)
                    self._derived.orders[name] = order
        return order


def _named(policy: Any) -> Any:
    """A policy without the datasets it says nothing of: None is as if they were not named."""
    if not isinstance(policy, Mapping):
        return policy
    return {name: value for name, value in policy.items() if value is not None} or None


def _check_lane(lane: int, lanes: int) -> None:
    if not 0 <= lane < lanes:
        raise ConfigError(
            f"there is no lane {lane} of {lanes}",
            found="lanes count from 0",
            fix="pass lanes=canonical_replicas, and a lane below it",
            code="lane-out-of-range",
        )


def _check_range(dealer: Lanes, lane: int, start: int, stop: int) -> None:
    length = dealer.length(lane)
    # Positions of the curriculum have to fit into int64 too.
    bound = MAX_POSITION // dealer.lanes if length is None else length
    if not 0 <= start <= stop <= bound:
        raise ConfigError(
            f"lane {lane} of {dealer.lanes} has no positions {start} to {stop}",
            found=f"it has {bound} rows" if length is not None else f"positions of a lane stay below {bound}",
            fix="read from 0 <= start <= stop <= lane_length(lane, lanes)",
            code="position-out-of-range",
        )
