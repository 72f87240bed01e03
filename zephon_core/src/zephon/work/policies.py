"""Policies: what happens when a dataset has supplied all its rows, and how long the run waits for it.

The three options become three facts about each dataset:

========================  ==============================  ============  ==============
given                     limit in passes                 at the limit  goal in passes
========================  ==============================  ============  ==============
nothing                   none                            --            1
``"repeat"``              none                            --            none
``"stop"``                1                               run ends      none
``"redistribute"``        1                               leaves        none
``max_repeats=n``         1 + n, also of the above three  run ends (*)  none
``stop_after_passes=n``   as above                        as above      n
========================  ==============================  ============  ==============

(*) or the dataset leaves, with ``"redistribute"``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import attrs

from zephon.errors import ConfigError

T = TypeVar("T")

EXHAUSTED: Final = ("repeat", "stop", "redistribute")


@attrs.frozen(slots=True, kw_only=True)
class Policy:
    """What a dataset may supply and what the run waits for.

    Attributes:
        limit: passes it may supply at most; None for no limit.
        leaves: whether it leaves the mixture at its limit; otherwise the run ends at its first draw beyond.
        goal: passes the run waits for; None if it does not wait for this dataset.
    """

    limit: int | None = None
    leaves: bool = False
    goal: int | None = None

    def __str__(self) -> str:
        if self.limit is None:
            text = "repeats"
        elif self.leaves:
            text = f"gives its share to the others after {_passes(self.limit)}"
        else:
            text = f"ends the run when it would exceed {_passes(self.limit)}"
        return text if self.goal is None else f"{text}; the run waits for {_passes(self.goal)} of it"


def _passes(n: int) -> str:
    return "1 pass" if n == 1 else f"{n} passes"


def resolve_policies(
    names: Sequence[str], exhausted_policy: Any, max_repeats: Any, stop_after_passes: Any
) -> dict[str, Policy]:
    """The policy of each dataset.

    Args:
        names: all datasets.
        exhausted_policy: None, one of :data:`EXHAUSTED`, or a dict of these by dataset.
        max_repeats: None, an int from 0, or a dict of these by dataset.
        stop_after_passes: None, an int from 1, or a dict of these by dataset.

    What a dict does not name is as if it were not given for that dataset.

    Raises:
        ConfigError: ``bad-policy``, ``unknown-dataset``, ``contradictory-policy``, ``goal-beyond-limit``.
    """
    exhausted = _per_dataset("exhausted_policy", exhausted_policy, names, _exhausted)
    repeats = _per_dataset("max_repeats", max_repeats, names, lambda what, value: _count(what, value, 0))
    goals = _per_dataset("stop_after_passes", stop_after_passes, names, lambda what, value: _count(what, value, 1))
    return {name: _policy(name, exhausted[name], repeats[name], goals[name]) for name in names}


def _policy(name: str, exhausted: str | None, repeats: int | None, goal: int | None) -> Policy:
    if exhausted == "stop" and repeats:
        raise ConfigError(
            f"the policies of dataset {name!r} contradict each other",
            found=f'exhausted_policy="stop" allows no repeat, max_repeats allows {repeats}',
            fix='leave out exhausted_policy: max_repeats alone ends the run; with "redistribute" the dataset leaves',
            code="contradictory-policy",
        )
    if repeats is not None:
        limit: int | None = 1 + repeats
    else:
        limit = 1 if exhausted in ("stop", "redistribute") else None
    if goal is None and exhausted is None and repeats is None:
        goal = 1
    if goal is not None and limit is not None and goal > limit:
        raise ConfigError(
            f"dataset {name!r} can never complete {_passes(goal)}",
            found=f"stop_after_passes={goal}, but exhausted_policy={exhausted!r} and max_repeats={repeats!r} "
            f"allow {_passes(limit)}",
            fix=f'set max_repeats={goal - 1} or more, or exhausted_policy="repeat" without max_repeats',
            code="goal-beyond-limit",
        )
    return Policy(limit=limit, leaves=exhausted == "redistribute", goal=goal)


def _per_dataset(
    option: str, given: Any, names: Sequence[str], check: Callable[[str, Any], T | None]
) -> dict[str, T | None]:
    if not isinstance(given, Mapping):
        value = check(option, given)
        return dict.fromkeys(names, value)
    require_known(option, given, names)
    return {name: check(f"{option}[{name!r}]", given.get(name)) for name in names}


def require_known(option: str, given: Mapping[str, Any], names: Sequence[str]) -> None:
    """Check that an option given by dataset names only datasets of the mixture.

    Raises:
        ConfigError: ``unknown-dataset``.
    """
    unknown = sorted({str(name) for name in given} - {*names})
    if unknown:
        raise ConfigError(
            f"{option} names datasets that are not in the mixture: {listed(unknown)}",
            found=f"the mixture has {listed(names)}{near(unknown, names)}",
            fix=f"write {option}={{dataset name: value}} with names of the mixture",
            code="unknown-dataset",
        )


def _exhausted(what: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value in EXHAUSTED):
        return value
    raise ConfigError(
        f"{what} is unknown: {value!r}",
        found=f"expected None or one of {listed(EXHAUSTED)}{near([str(value)], EXHAUSTED)}",
        fix='write e.g. exhausted_policy="repeat", or a dict with one of these for each dataset',
        code="bad-policy",
    )


def _count(what: str, value: Any, least: int) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    raise ConfigError(
        f"{what} has to be an integer from {least}",
        found=repr(value),
        fix=f"write {what.partition('[')[0]}={least + 1}, or a dict with a number for each dataset",
        code="bad-policy",
    )


def listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Names in quotes, the first twenty of many."""
    shown = [repr(name) for name in list(names)[:20]]
    return ", ".join(shown) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def near(unknown: Sequence[str], known: Sequence[str]) -> str:
    """``; did you mean ...`` for names that are close to known ones, else nothing."""
    pairs = [f"{name!r} -> {close[0]!r}" for name in unknown[:20] if (close := get_close_matches(name, known, 1))]
    return f"; did you mean {', '.join(pairs)}?" if pairs else ""
