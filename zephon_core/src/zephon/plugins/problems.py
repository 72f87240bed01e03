"""The errors of plugins: what they say, in one place.

Whatever is needed only to word an error is imported here on the spot, so that programs that make no mistake do not pay
for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from zephon.errors import PluginError
from zephon.plugins.descriptor import DESCRIPTOR_TYPES, POINTS

if TYPE_CHECKING:
    from zephon.plugins.discovery import Claim


def owner(claim: Claim) -> str:
    """The distribution behind a claim and its version."""
    return f"{claim.distribution} {claim.version}".rstrip()


def unknown_point(point: str) -> PluginError:
    """``plugin-point``: there is no such extension point."""
    near = _near(point, POINTS)
    return PluginError(
        f"there is no extension point {point!r}",
        found=f"the extension points are {', '.join(POINTS)}",
        fix=f"did you mean {near[0]!r}?" if near else "use one of these",
        code="plugin-point",
    )


def unknown(point: str, name: str, installed: Iterable[str]) -> PluginError:
    """``plugin-unknown``: nobody offers the name."""
    from zephon.plugins.known import KNOWN, checkout, install_line

    present = sorted(installed)
    known = {k: distribution for k, distribution in KNOWN[point].items() if k not in present}
    near = [other for other in _near(name, [*present, *known]) if other != name]
    found = f"installed: {', '.join(present) or 'none'}"
    if known:
        found += f"; known, not installed: {', '.join(sorted(known))}"
    if near:
        found += f"; near: {', '.join(near)}"
    if name in known:
        fix = install_line(known[name], checkout())
    elif near and near[0] in known:
        fix = f"did you mean {near[0]!r}? {install_line(known[near[0]], checkout())}"
    elif near:
        fix = f"did you mean {near[0]!r}?"
    else:
        fix = f"install the distribution that provides it; `zephon plugins` lists what this environment has for {point}"
    return PluginError(f"no {point} plugin is named {name!r}", found=found, fix=fix, code="plugin-unknown")


def duplicate(rivals: Sequence[Claim]) -> PluginError:
    """``plugin-duplicate``: the name is claimed more than once."""
    claim = rivals[-1]
    return PluginError(
        f"the {claim.point} name {claim.name!r} is claimed {len(rivals)} times",
        found=" and ".join(f"{owner(rival)} ({rival.target})" for rival in rivals),
        fix="register it under another name" if claim.by_code else f"keep one: pip uninstall {claim.distribution}",
        code="plugin-duplicate",
    )


def outdated(claim: Claim) -> PluginError:
    """``plugin-outdated``: the plugin is written for another major of its contract."""
    behind = claim.distribution if claim.contract < POINTS.get(claim.point, 0) else "zephon-core"
    return PluginError(
        f"the {claim.point} plugin {claim.name!r} of {owner(claim)} does not fit this core",
        found=f"it is {foreign_contract(claim)}",
        fix=f"update {behind} to a version that agrees with the other",
        code="plugin-outdated",
    )


def foreign_contract(claim: Claim) -> str:
    """In a few words, why a claim is not on a contract of this core."""
    if claim.point not in POINTS:
        return f"for an extension point this core does not have: {claim.point}"
    written = f"v{claim.contract}" if claim.is_versioned else "no version"
    return f"written for {written} of the {claim.point} contract; this core reads v{POINTS[claim.point]}"


def wrong_kind(claim: Claim, found: Any) -> PluginError | None:
    """``plugin-kind`` if this is not a descriptor of the claim's point and name, otherwise None."""
    kind = DESCRIPTOR_TYPES[claim.point]
    if not isinstance(found, kind):
        return PluginError(
            f"the {claim.point} plugin {claim.name!r} of {owner(claim)} does not describe a {claim.point}",
            found=f"{claim.target} is a {type(found).__qualname__}; expected a zephon.plugins.{kind.__name__}",
            fix=f"make the entry point lead to a {kind.__name__}",
            code="plugin-kind",
        )
    if found.name != claim.name:
        return PluginError(
            f"the {claim.point} plugin {claim.name!r} of {owner(claim)} calls itself {found.name!r}",
            found=f"the entry point {claim.name!r} leads to a descriptor with name={found.name!r}",
            fix="give the entry point and its descriptor one name",
            code="plugin-kind",
        )
    return None


def broken(claim: Claim, error: BaseException, target: str, requires: Sequence[str] = ()) -> PluginError:
    """``plugin-broken``: importing the plugin failed; the caller raises it from ``error``."""
    if claim.by_code:
        fix = f"make {target} importable, or pass impl= to register()"
    elif isinstance(error, ModuleNotFoundError) and requires:
        fix = f"install what it needs: pip install {' '.join(requires)}"
    else:
        fix = f"repair {claim.distribution}, or do without it: pip uninstall {claim.distribution}"
    return PluginError(
        f"the {claim.point} plugin {claim.name!r} of {owner(claim)} cannot be imported",
        found=f"importing {target} raised {type(error).__name__}: {error}",
        fix=fix,
        code="plugin-broken",
    )


def unknown_hook(who: str, hook: str, hooks: Sequence[str]) -> PluginError:
    """``hook-unknown``: there is no such hook."""
    near = _near(hook, hooks)
    return PluginError(
        f"{who} asks for a hook {hook!r}, which does not exist",
        found=f"the hooks are {', '.join(hooks)}",
        fix=f"did you mean {near[0]!r}?" if near else "use one of these, or mark it @hookimpl(optionalhook=True)",
        code="hook-unknown",
    )


def no_hook(label: str, is_class: bool, hooks: Sequence[str]) -> PluginError:
    """``hook-unknown``: an observer that would never be called."""
    found = "it is a class; observers are objects" if is_class else "no function of it is marked @hookimpl"
    return PluginError(
        f"the observer {label!r} implements no hook",
        found=f"{found}; the hooks are {', '.join(hooks)}",
        fix=f"register({label.rpartition('.')[2]}())" if is_class else "mark its functions @zephon.plugins.hookimpl",
        code="hook-unknown",
    )


def _near(name: str, candidates: Iterable[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name, sorted(candidates), n=3, cutoff=0.6)
