"""One state or many become the lanes a rank needs.

States merge only if all lanes stand at the same round boundary: ranks that saved at different steps would otherwise
go on with some batches twice and others never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from zephon.abc import CheckpointState
from zephon.checkpoint.state import LaneCheckpoint, decode_header, decode_lane, lane_key
from zephon.errors import CheckpointError


@attrs.frozen(slots=True, kw_only=True)
class Merged:
    """States of one moment, as one.

    Attributes:
        header: what they share, decoded.
        lanes: all lanes found, decoded.
        raw: their bytes.
    """

    header: Mapping[str, Any]
    lanes: Mapping[int, LaneCheckpoint]
    raw: Mapping[int, bytes]

    @property
    def total(self) -> int:
        """Number of lanes of the run."""
        return int(self.header["lanes"])

    def require(self, owned: Sequence[int], why: str = "which this rank owns now") -> None:
        """Check that all these lanes are there.

        Raises:
            CheckpointError: ``checkpoint-incomplete`` naming the missing ones.
        """
        missing = [lane for lane in owned if lane not in self.lanes]
        if missing:
            raise CheckpointError(
                f"the checkpoint lacks lanes {ranges(missing)}, {why}",
                found=f"lanes {ranges(sorted(self.lanes))} of {self.total}",
                fix="pass the states of all ranks that wrote it: pipeline.restore([state_0, state_1, ...])",
                code="checkpoint-incomplete",
            )


def merge(states: CheckpointState | Sequence[CheckpointState]) -> Merged:
    """Merge one state, or the states of several ranks.

    Raises:
        CheckpointError: ``checkpoint-corrupt``, ``checkpoint-newer``, ``checkpoint-mixed`` (different pipelines),
            ``checkpoint-rounds`` (different moments) or ``checkpoint-disagrees`` (copies of a lane differ).
    """
    many = [states] if isinstance(states, Mapping) else list(states)
    if not many or not all(isinstance(s, Mapping) and {"header", "lanes"} <= set(s) for s in many):
        raise CheckpointError(
            "this is not a checkpoint",
            found=f"a {type(states).__name__}; expected what pipeline.checkpoint() returned, or a list of such",
            fix="pass the state itself, e.g. pipeline.restore(store.load(step))",
            code="checkpoint-corrupt",
        )
    headers = [decode_header(bytes(state["header"])) for state in many]
    first = headers[0]
    for other in headers[1:]:
        if other["fingerprint"] != first["fingerprint"] or other["lanes"] != first["lanes"]:
            raise CheckpointError(
                "these states are of different pipelines",
                found=f"fingerprints {first['fingerprint'][:12]} and {other['fingerprint'][:12]}",
                fix="pass the states of one run",
                code="checkpoint-mixed",
            )
    lanes: dict[int, LaneCheckpoint] = {}
    raw: dict[int, bytes] = {}
    for state in many:
        for data in state["lanes"].values():
            lane = decode_lane(bytes(data))
            if lane.lane in lanes and not _agree(lanes[lane.lane], lane):
                raise CheckpointError(
                    f"two states tell lane {lane.lane} differently",
                    found=f"{lanes[lane.lane].delivered} and {lane.delivered} microbatches delivered",
                    fix="pass states that were saved at the same step",
                    code="checkpoint-disagrees",
                )
            lanes.setdefault(lane.lane, lane)
            raw.setdefault(lane.lane, bytes(data))
    _check_rounds(headers, lanes)
    return Merged(header=first, lanes=lanes, raw=raw)


def ranges(numbers: Sequence[int]) -> str:
    """``[0, 1, 2, 5]`` as ``0-2, 5``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts) or "none"


def _agree(a: LaneCheckpoint, b: LaneCheckpoint) -> bool:
    """Copies may differ in where their cut lies, never in what was delivered."""
    return (a.delivered, a.rounds, a.counters.get("delivered")) == (b.delivered, b.rounds, b.counters.get("delivered"))


def _check_rounds(headers: Sequence[Mapping[str, Any]], lanes: Mapping[int, LaneCheckpoint]) -> None:
    moments = {(header["round"], header["slot"]) for header in headers}
    topologies = {str(header.get("topology")) for header in headers}
    if len(moments) == 1 and len(topologies) == 1 and (headers[0]["slot"] or _same_round(lanes)):
        return
    by_round: dict[int, list[int]] = {}
    for number in sorted(lanes):
        by_round.setdefault(lanes[number].rounds, []).append(number)
    listing = "; ".join(f"round {r}: lanes {ranges(numbers)}" for r, numbers in sorted(by_round.items()))
    raise CheckpointError(
        "the states were saved at different moments: some batches would come twice and others never",
        found=listing,
        fix="save on every rank after the same step, at the end of a round, and restore those states",
        code="checkpoint-rounds",
    )


def _same_round(lanes: Mapping[int, LaneCheckpoint]) -> bool:
    return len({lane.rounds for lane in lanes.values()}) <= 1


__all__ = ["Merged", "lane_key", "merge", "ranges"]
