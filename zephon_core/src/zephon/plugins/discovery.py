"""Which distribution claims which name at which extension point, read from metadata alone.

Nothing here imports a plugin until a claim is asked to describe itself.
"""

from __future__ import annotations

import re
import sys
import threading
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from zephon.plugins import problems
from zephon.plugins.descriptor import POINTS, Descriptor

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_GROUP: Final = re.compile(r"zephon\.(\w+)\.v(\d+)")


class Claim:
    """One distribution's claim on one name at one extension point.

    Attributes:
        point: the extension point, as the group names it: not necessarily one this core has.
        name: what users write.
        contract: major version of the contract it was written for; 0 where the group names none.
        by_code: whether code in this process makes the claim, rather than an installed distribution.
    """

    by_code: ClassVar[bool] = False
    __slots__ = ("_descriptor", "_entry", "contract", "name", "point")

    def __init__(self, point: str, contract: int, entry: EntryPoint) -> None:
        self.point: str = point
        self.name: str = entry.name
        self.contract: int = contract
        self._entry = entry
        self._descriptor: Descriptor | None = None

    @property
    def distribution(self) -> str:
        """Name of the distribution that makes the claim."""
        return self._metadata("Name") or "(unreadable distribution)"

    @property
    def version(self) -> str:
        """Version of that distribution."""
        return self._metadata("Version")

    @property
    def is_versioned(self) -> bool:
        """Whether the entry-point group names a version of the contract."""
        return _GROUP.fullmatch(self._entry.group) is not None

    @property
    def target(self) -> str:
        """Where the descriptor is: ``module:attribute``."""
        return self._entry.value

    def describe(self) -> Descriptor:
        """Import the plugin's light module and return its descriptor.

        Raises:
            PluginError: ``plugin-broken`` with the original error as its cause; ``plugin-kind``.
        """
        if self._descriptor is None:
            try:
                found = self._entry.load()
            except (Exception, SystemExit) as error:
                raise problems.broken(self, error, self.target) from error
            problem = problems.wrong_kind(self, found)
            if problem is not None:
                raise problem
            self._descriptor = found
        return self._descriptor

    def load(self) -> Any:
        """Import the implementation.

        Raises:
            PluginError: as :meth:`describe`.
        """
        descriptor = self.describe()
        try:
            return descriptor.load()
        except (Exception, SystemExit) as error:
            raise problems.broken(self, error, descriptor.impl, descriptor.requires) from error

    def _metadata(self, field: str) -> str:
        # What an interrupted uninstallation leaves behind must not keep a report from being made.
        try:
            return str(self._entry.dist.metadata[field] or "") if self._entry.dist else ""
        except (TypeError, KeyError, OSError, UnicodeError):
            return ""


class RegisteredClaim(Claim):
    """A claim made by code in this process, with the descriptor, and perhaps the implementation, at hand."""

    by_code = True
    __slots__ = ("_impl",)

    def __init__(self, point: str, descriptor: Descriptor, impl: Any = None) -> None:
        self.point: str = point
        self.name: str = str(getattr(descriptor, "name", descriptor))
        self.contract: int = POINTS[point]
        self._descriptor = descriptor
        self._impl = impl

    @property
    def distribution(self) -> str:
        """A phrase in place of the name of a distribution."""
        return "(registered in this process)"

    @property
    def version(self) -> str:
        """Empty: code has no version."""
        return ""

    @property
    def target(self) -> str:
        """Where the implementation is."""
        return str(getattr(self._descriptor, "impl", "what was registered"))

    def load(self) -> Any:
        """The implementation that was registered, or else the one the descriptor names."""
        return super().load() if self._impl is None else self._impl


class Inventory(NamedTuple):
    """All claims of one environment.

    Attributes:
        current: by point and name, the claims on the contracts this core reads; more than one is a conflict.
        foreign: claims on other majors, or on points this core does not have.
    """

    current: dict[str, dict[str, list[Claim]]]
    foreign: list[Claim]


_lock = threading.Lock()
_registered: Final[list[RegisteredClaim]] = []
_scanned: tuple[tuple[str, ...], Inventory] | None = None


def inventory(*, rescan: bool = False) -> Inventory:
    """Claims of all installed distributions; read again when ``sys.path`` has changed, or on demand.

    Args:
        rescan: look for distributions that were installed since.
    """
    global _scanned  # noqa: PLW0603 - the one cache of this module, replaced as a whole
    path = tuple(sys.path)
    scanned = _scanned
    if rescan or scanned is None or scanned[0] != path:
        if rescan:
            from importlib import invalidate_caches

            invalidate_caches()
        scanned = _scanned = (path, _scan())
    return scanned[1]


def claims(point: str) -> dict[str, list[Claim]]:
    """By name, who claims it at a point of this core: installed distributions and code in this process."""
    found = {name: list(claimants) for name, claimants in inventory().current[point].items()}
    for claim in tuple(_registered):
        if claim.point == point:
            found.setdefault(claim.name, []).append(claim)
    return found


def add(claim: RegisteredClaim) -> None:
    """Add a claim made by code.

    Raises:
        PluginError: ``plugin-duplicate``.
    """
    with _lock:
        rivals = claims(claim.point).get(claim.name)
        if rivals:
            raise problems.duplicate([*rivals, claim])
        _registered.append(claim)


def remove(claim: RegisteredClaim) -> None:
    """Take back a claim made by code; doing so twice is no error."""
    with _lock:
        _registered[:] = [other for other in _registered if other is not claim]


def _scan() -> Inventory:
    from importlib.metadata import entry_points

    found = entry_points()
    current: dict[str, dict[str, list[Claim]]] = {point: {} for point in POINTS}
    foreign: list[Claim] = []
    for group in sorted(found.groups):
        if not group.startswith("zephon."):
            continue
        match = _GROUP.fullmatch(group)
        point, contract = (match[1], int(match[2])) if match else (group.removeprefix("zephon."), 0)
        for entry in found.select(group=group):
            claim = Claim(point, contract, entry)
            if POINTS.get(point) == contract:
                current[point].setdefault(claim.name, []).append(claim)
            else:
                foreign.append(claim)
    return Inventory(current, [claim for claim in foreign if not _also_current(claim, current)])


def _also_current(claim: Claim, current: dict[str, dict[str, list[Claim]]]) -> bool:
    """Whether the distribution offers the same plugin for the contract this core reads, too."""
    rivals = current.get(claim.point, {}).get(claim.name, [])
    return any(rival.distribution == claim.distribution for rival in rivals)
