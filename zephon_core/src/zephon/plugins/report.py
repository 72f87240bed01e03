"""The state of every plugin of an environment, for ``zephon plugins`` and ``zephon doctor``."""

from __future__ import annotations

from typing import Any

import attrs

from zephon.errors import PluginError
from zephon.plugins import discovery, problems
from zephon.plugins.descriptor import POINTS


@attrs.frozen(slots=True, kw_only=True)
class PluginStatus:
    """One claim on one name; an entry of ``zephon plugins --json``.

    Attributes:
        point: extension point.
        name: registered name; with the point it makes the plugin's address, ``point:name``.
        distribution: the distribution that claims the name.
        version: that distribution's version.
        contract: major of the contract it is written for; 0 where its entry-point group names none.
        summary: the plugin's own words; empty unless its descriptor could be read.
        capabilities: sorted; empty unless its descriptor could be read.
        status: ``"ok"``, or ``"broken: ..."``, ``"outdated: ..."``, ``"duplicate: ..."`` with the reason.
    """

    point: str
    name: str
    distribution: str
    version: str
    contract: int
    summary: str = ""
    capabilities: tuple[str, ...] = ()
    status: str

    @property
    def address(self) -> str:
        """``point:name``, e.g. ``shard_format:parquet``."""
        return f"{self.point}:{self.name}"

    def to_plain(self) -> dict[str, Any]:
        """All attributes as JSON can hold them."""
        return {**attrs.asdict(self), "capabilities": list(self.capabilities)}


def status() -> list[PluginStatus]:
    """Every claim of this environment, by point and name.

    Light modules are imported, implementations are not. What is outdated is named without importing any of it.
    Nothing is raised: what is wrong with a plugin is in its ``status``.
    """
    found: list[PluginStatus] = []
    for point in POINTS:
        for _, claimants in sorted(discovery.claims(point).items()):
            for claim in claimants:
                rivals = [rival for rival in claimants if rival is not claim]
                found.append(_conflict(claim, rivals) if rivals else _described(claim))
    for claim in discovery.inventory().foreign:
        found.append(_undescribed(claim, f"outdated: {problems.foreign_contract(claim)}"))
    return sorted(found, key=lambda s: (s.point, s.name, s.contract, s.distribution))


def _described(claim: discovery.Claim) -> PluginStatus:
    try:
        descriptor = claim.describe()
    except PluginError as error:
        return _undescribed(claim, f"broken: {error.found}")
    return attrs.evolve(
        _undescribed(claim, "ok"), summary=descriptor.summary, capabilities=tuple(sorted(descriptor.capabilities))
    )


def _conflict(claim: discovery.Claim, rivals: list[discovery.Claim]) -> PluginStatus:
    others = ", ".join(problems.owner(rival) for rival in rivals)
    return _undescribed(claim, f"duplicate: also claimed by {others}")


def _undescribed(claim: discovery.Claim, verdict: str) -> PluginStatus:
    return PluginStatus(
        point=claim.point,
        name=claim.name,
        distribution=claim.distribution,
        version=claim.version,
        contract=claim.contract,
        status=verdict,
    )
