"""Registries: one thing selected by name, at one extension point.

Two stages keep this light. Names come from the metadata of installed distributions and import nothing. A description
imports the plugin's small descriptor module. Only ``load`` imports the implementation. A plugin that is broken,
outdated or claimed twice raises when its own name is used and never gets in the way of another.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple, NoReturn

from zephon.errors import PluginError
from zephon.plugins import discovery, problems
from zephon.plugins.descriptor import POINTS, Descriptor


class PluginRequirement(NamedTuple):
    """What a worker is told of a plugin: names and a version, never the plugin.

    Attributes:
        point: extension point.
        name: registered name.
        distribution: the distribution that provides it.
        version: that distribution's version.
    """

    point: str
    name: str
    distribution: str
    version: str


class Registry:
    """The plugins of one extension point. Made by :func:`registry`; holds no state of its own.

    Attributes:
        point: the extension point.
    """

    __slots__ = ("point",)

    def __init__(self, point: str) -> None:
        self.point: str = point

    def __repr__(self) -> str:
        return f"<registry of {self.point} plugins>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the {self.point} registry cannot be pickled: send registry({self.point!r}).requirement(name), and check "
            "it on the other side with zephon.plugins.require()"
        )

    def names(self) -> list[str]:
        """Names claimed for the contract this core reads, sorted. Imports no plugin."""
        return sorted(discovery.claims(self.point))

    def describe(self, name: str) -> Descriptor:
        """The descriptor of a plugin. Imports its light module only.

        Raises:
            PluginError: ``plugin-unknown``, ``plugin-outdated``, ``plugin-duplicate``, ``plugin-broken`` with the
                original error as its cause, or ``plugin-kind``.
        """
        return self._claim(name).describe()

    def load(self, name: str) -> Any:
        """The implementation of a plugin, imported now if it was not before.

        Raises:
            PluginError: as :meth:`describe`.
        """
        return self._claim(name).load()

    def descriptors(self) -> dict[str, Descriptor]:
        """The descriptors of all plugins that work, by name; the others are passed over (see :func:`status`)."""
        working: dict[str, Descriptor] = {}
        for name, claimants in sorted(discovery.claims(self.point).items()):
            if len(claimants) == 1:
                try:
                    working[name] = claimants[0].describe()
                except PluginError:
                    continue
        return working

    def requirement(self, name: str) -> PluginRequirement:
        """What to tell a worker, or to write down, of a plugin. Imports nothing of it.

        Raises:
            PluginError: ``plugin-unknown``, ``plugin-outdated`` or ``plugin-duplicate``.
        """
        claim = self._claim(name)
        return PluginRequirement(self.point, name, claim.distribution, claim.version)

    def _claim(self, name: str) -> discovery.Claim:
        claimants = discovery.claims(self.point).get(name)
        if claimants is None:
            # It may have been installed while this process ran, as notebooks do.
            discovery.inventory(rescan=True)
            claimants = discovery.claims(self.point).get(name)
        if claimants is None:
            for claim in discovery.inventory().foreign:
                if (claim.point, claim.name) == (self.point, name):
                    raise problems.outdated(claim)
            raise problems.unknown(self.point, name, self.names())
        if len(claimants) > 1:
            raise problems.duplicate(claimants)
        return claimants[0]


def registry(point: str) -> Registry:
    """The registry of an extension point: ``registry("shard_format").load("parquet")``.

    Raises:
        PluginError: ``plugin-point``.
    """
    _check_point(point)
    return Registry(point)


def require(requirements: list[PluginRequirement]) -> None:
    """Check, in a worker, that it has the very plugins the main process has.

    Raises:
        PluginError: ``plugin-mismatch`` naming both sides, or what :meth:`Registry.describe` raises for a plugin that
            is not there at all.
    """
    for wanted in requirements:
        present = registry(wanted.point).requirement(wanted.name)
        if present != wanted:
            raise PluginError(
                f"the {wanted.point} plugin {wanted.name!r} differs between the main process and a worker",
                found=f"main process: {wanted.distribution} {wanted.version}; "
                f"worker: {present.distribution} {present.version}",
                fix="give workers the environment of the main process",
                code="plugin-mismatch",
            )


class Registration:
    """A plugin registered by code. Leaving it as a context manager, or :meth:`undo`, takes it back."""

    __slots__ = ("_claim",)

    def __init__(self, claim: discovery.RegisteredClaim) -> None:
        self._claim = claim

    def undo(self) -> None:
        """Take the plugin back; doing so twice is no error."""
        discovery.remove(self._claim)

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.undo()


def register(point: str, descriptor: Descriptor, impl: Any = None) -> Registration:
    """Register a plugin in this process, as if it were installed; for tests and notebooks.

    It takes effect at once and takes precedence over nothing. Other processes do not know of it.

    Args:
        point: extension point; observers are registered with :func:`zephon.plugins.hooks_manager` instead.
        descriptor: a descriptor of that point's class.
        impl: the implementation, if ``descriptor.impl`` is not to be imported.

    Returns:
        A context manager that takes the plugin back, with a plain ``undo()``.

    Raises:
        PluginError: ``plugin-duplicate`` if the name is taken; ``plugin-kind``; ``plugin-point``.
    """
    _check_point(point)
    if point == "hooks":
        raise PluginError(
            "observers are not registered by name",
            found=f"register('hooks', {descriptor!r})",
            fix="zephon.plugins.hooks_manager().register(observer)",
            code="plugin-point",
        )
    claim = discovery.RegisteredClaim(point, descriptor, impl)
    problem = problems.wrong_kind(claim, descriptor)
    if problem is not None:
        raise problem
    discovery.add(claim)
    return Registration(claim)


def _check_point(point: str) -> None:
    if point not in POINTS:
        raise problems.unknown_point(point)
