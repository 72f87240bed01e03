"""Which lanes a data-parallel group owns and what it delivers in each slot of a round.

A group owns a contiguous share of the lanes and never talks to another group. Four cases, for ``D`` groups and ``L``
lanes:

- ``D`` divides ``L``: every group owns ``L / D`` lanes;
- ``L`` divides ``D`` and ``D / L`` divides the microbatch: ``D / L`` groups share a lane and take disjoint rows;
- any other ``D < L`` with ``uneven="pad"``: shares differ by one lane, shorter ones end their round with a filler;
- any other ``D > L`` with ``uneven="pad"``: as many groups as possible share lanes evenly, the others get fillers.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import attrs

from zephon.engine.options import Options
from zephon.errors import ConfigError


class Slot(NamedTuple):
    """What a group delivers at one place of a round.

    Attributes:
        lane: the lane, or -1 for a filler.
        rows: the rows ``[a, b)`` of the microbatch this group takes.
    """

    lane: int
    rows: tuple[int, int]


@attrs.frozen(slots=True, kw_only=True)
class Topology:
    """One group's place among all groups.

    Attributes:
        lanes: number of lanes.
        dp_degree: number of groups.
        dp_group_id: this group.
        microbatch: rows of a microbatch.
        slots: what this group delivers in each round, in order; equally many in every group.
        source: where the identity came from, for ``explain()``.
    """

    lanes: int
    dp_degree: int
    dp_group_id: int
    microbatch: int
    slots: tuple[Slot, ...]
    source: str

    @property
    def owned(self) -> tuple[int, ...]:
        """The lanes this group reads, ascending."""
        return tuple(slot.lane for slot in self.slots if slot.lane >= 0)

    @property
    def shared(self) -> bool:
        """Whether several groups take rows of one microbatch."""
        return any(slot.rows != (0, self.microbatch) for slot in self.slots)


class Identity(NamedTuple):
    """Who this rank is."""

    dp_degree: int
    dp_group_id: int
    source: str


def identify(options: Options, environ: Mapping[str, str] | None = None) -> Identity:
    """Find this rank's group from the options, then from ``WORLD_SIZE``/``RANK``, then assume a single one.

    Raises:
        ConfigError: ``rank-unknown`` when other ranks are visible but this one's place is not; ``rank-invalid``.
    """
    env = os.environ if environ is None else environ
    degree, group = options.dp_degree, options.dp_group_id
    if degree is not None and group is not None:
        return _checked(degree, group, "options")
    world, rank = env.get("WORLD_SIZE"), env.get("RANK")
    if degree is None and group is None and world and rank:
        return _checked(int(world), int(rank), "WORLD_SIZE and RANK")
    if degree is not None and degree > 1 and rank is not None and world is not None and int(world) == degree:
        return _checked(degree, int(rank), "dp_degree from options, RANK")
    if degree == 1:
        return Identity(1, 0, "options")
    if degree is not None or group is not None:
        known = f"dp_degree={degree}" if degree is not None else f"dp_group_id={group}"
        raise ConfigError(
            "this rank's place among the data-parallel groups is only half known",
            found=f"{known} alone",
            fix=".options(dp_degree=..., dp_group_id=...) with both",
            code="rank-unknown",
        )
    seen = _visible_ranks(env)
    if seen:
        raise ConfigError(
            "several ranks are running, and this one does not know which it is: all would get the same data",
            found=seen,
            fix=".options(dp_degree=<number of groups>, dp_group_id=<this group>), or set WORLD_SIZE and RANK",
            code="rank-unknown",
        )
    return Identity(1, 0, "no other rank in sight")


def _visible_ranks(env: Mapping[str, str]) -> str:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        size = distributed.get_world_size()
        if size > 1:
            return f"a torch process group of {size}"
    for name in ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE"):
        if env.get(name, "").isdigit() and int(env[name]) > 1:
            return f"{name}={env[name]}"
    return ""


def _checked(degree: int, group: int, source: str) -> Identity:
    if degree < 1 or not 0 <= group < degree:
        raise ConfigError(
            f"group {group} of {degree} data-parallel groups does not exist",
            found=f"from {source}; groups count from 0",
            fix=f".options(dp_degree={max(1, degree)}, dp_group_id=<0..{max(1, degree) - 1}>)",
            code="rank-invalid",
        )
    return Identity(degree, group, source)


def resolve_lanes(options: Options, identity: Identity, from_checkpoint: int | None) -> int:
    """The number of lanes: as set, else as the checkpoint says, else one per group with a warning."""
    if options.canonical_replicas is not None:
        return options.canonical_replicas
    if from_checkpoint is not None:
        return from_checkpoint
    if identity.dp_degree > 1:
        warnings.warn(
            f"canonical_replicas is not set: taking dp_degree={identity.dp_degree}. It decides on which numbers of "
            "groups this run can resume; set one with many divisors, e.g. .options(canonical_replicas=48).",
            stacklevel=2,
        )
    return identity.dp_degree


def layout(lanes: int, identity: Identity, microbatch: int, uneven: str) -> Topology:
    """The slots of one group.

    Raises:
        ConfigError: ``topology-invalid``, listing the degrees that work.
    """
    degree, group, source = identity
    whole = (0, microbatch)
    if degree <= lanes:
        if lanes % degree and uneven != "pad":
            raise _invalid(lanes, degree, microbatch)
        start, stop = lanes * group // degree, lanes * (group + 1) // degree
        slots = [Slot(lane, whole) for lane in range(start, stop)]
        slots += [Slot(-1, whole)] * (-(-lanes // degree) - len(slots))
    else:
        share = degree // lanes
        if degree % lanes or microbatch % share:
            if uneven != "pad":
                raise _invalid(lanes, degree, microbatch)
            while microbatch % share:
                share -= 1
        rows = microbatch // share
        lane, part = divmod(group, share)
        slots = [Slot(lane, (part * rows, (part + 1) * rows)) if lane < lanes else Slot(-1, (0, rows))]
    return Topology(
        lanes=lanes, dp_degree=degree, dp_group_id=group, microbatch=microbatch, slots=tuple(slots), source=source
    )


def valid_degrees(lanes: int, microbatch: int) -> list[int]:
    """Numbers of groups that work without padding."""
    below = [d for d in range(1, lanes + 1) if lanes % d == 0]
    return below + [lanes * k for k in range(2, microbatch + 1) if microbatch % k == 0]


def _invalid(lanes: int, degree: int, microbatch: int) -> ConfigError:
    degrees = ", ".join(map(str, valid_degrees(lanes, microbatch)))
    return ConfigError(
        f"{lanes} lanes cannot be shared evenly by {degree} data-parallel groups",
        found=f"degrees that work with microbatches of {microbatch}: {degrees}",
        fix='use one of these, or .options(uneven="pad") to fill up with masked batches',
        code="topology-invalid",
    )
