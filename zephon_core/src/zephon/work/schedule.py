"""The ``mixture`` argument: one mixture, or several with the positions from which they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import attrs
import numpy as np

from zephon.errors import ConfigError
from zephon.work.mixture import MAX_POSITION, MixtureSpec, exact, integer_weights
from zephon.work.policies import listed, near, require_known

#: Components are numbered by int16 in origins.
_MAX_COMPONENTS = 1 << 15

Schedule = tuple[tuple[int, MixtureSpec], ...]


@attrs.frozen(slots=True, kw_only=True)
class Entry:
    """What holds from a position on.

    Attributes:
        start: first position.
        weights: integer weights of rows, by name in order of names.
        error: largest error of a component's share, 0 unless the weights had to be rounded.
    """

    start: int
    weights: Mapping[str, int]
    error: Fraction


def parse_schedule(mixture: Any) -> Schedule:
    """Normalise a mixture, a dict of weights, or a list of ``(position, either)``.

    Raises:
        ConfigError: ``bad-schedule``, ``bad-mixture``, ``bad-weight``.
    """
    if isinstance(mixture, (MixtureSpec, Mapping)):
        mixture = [(0, mixture)]
    if not isinstance(mixture, Sequence) or isinstance(mixture, str) or not mixture:
        raise _bad_schedule(repr(mixture)[:200])
    entries = []
    for entry in mixture:
        if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 2:
            raise _bad_schedule(f"the entry {entry!r}"[:200])
        start, spec = entry
        if not isinstance(start, (int, np.integer)) or isinstance(start, bool) or not 0 <= start < MAX_POSITION:
            raise _bad_schedule(f"the position {start!r}")
        entries.append((int(start), spec if isinstance(spec, MixtureSpec) else MixtureSpec(spec)))
    starts = [start for start, _ in entries]
    if starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
        raise _bad_schedule(f"the positions {starts[:20]}")
    return tuple(entries)


def _bad_schedule(found: str) -> ConfigError:
    return ConfigError(
        "a schedule lists positions, from 0 and rising, each with the mixture from there on",
        found=found,
        fix='write e.g. mixture=[(0, {"web": 1, "code": 1}), (1_000_000, {"web": 2, "code": 1})]',
        code="bad-schedule",
    )


def schedule_names(schedule: Schedule) -> list[str]:
    """All names, in the order of their first use, then of their names."""
    return list(dict.fromkeys(name for _, spec in schedule for name in sorted(spec.weights)))


def check_names(schedule: Schedule, datasets: Sequence[str]) -> None:
    """Check that mixture and datasets name the same things.

    Raises:
        ConfigError: ``duplicate-dataset``, ``mixture-names``, ``bad-mixture``.
    """
    twice = [name for name, n in Counter(datasets).items() if n > 1]
    if twice:
        raise ConfigError(
            f"several datasets have the same name: {listed(twice)}",
            found="names tell datasets apart, in the mixture and in all randomness",
            fix='give each its own: Dataset.from_path("web-2023", ...)',
            code="duplicate-dataset",
        )
    names = schedule_names(schedule)
    missing = sorted({*names} - {*datasets})
    extra = sorted({*datasets} - {*names})
    if missing or extra:
        found = []
        if missing:
            found.append(f"in the mixture, but no dataset: {listed(missing)}{near(missing, extra or datasets)}")
        if extra:
            found.append(f"a dataset, but not in the mixture: {listed(extra)}")
        raise ConfigError(
            "the names in the mixture do not match the datasets",
            found="; ".join(found),
            fix="name every dataset in the mixture, and pass a dataset for every name",
            code="mixture-names",
        )
    if len(names) > _MAX_COMPONENTS:
        raise ConfigError(
            "the mixture has too many components",
            found=f"{len(names)}; origins number up to {_MAX_COMPONENTS} of them",
            fix="join small datasets: a dataset may list many paths",
            code="bad-mixture",
        )


def entries_of(schedule: Schedule, token_estimation: Mapping[str, Any] | None) -> list[Entry]:
    """The schedule in integer weights of rows.

    Args:
        schedule: weights are shares of tokens if there are estimates, else of rows.
        token_estimation: mean tokens per row by dataset, checked by :func:`check_estimates`.
    """
    entries = []
    for start, spec in schedule:
        shares = spec.shares()
        if token_estimation is not None:
            shares = {n: share / exact(token_estimation[n], n, "bad-token-estimation") for n, share in shares.items()}
        weights, error = integer_weights(shares)
        entries.append(Entry(start=start, weights=weights, error=error))
    return entries


def check_estimates(token_estimation: Any, names: Sequence[str]) -> None:
    """Check mean tokens per row by dataset.

    Raises:
        ConfigError: ``bad-token-estimation``, ``unknown-dataset``.
    """
    if token_estimation is None:
        return
    if isinstance(token_estimation, Mapping):
        require_known("token_estimation", token_estimation, names)
        missing = [name for name in names if name not in token_estimation]
        if not missing:
            for name in names:
                exact(token_estimation[name], f"token_estimation[{name!r}]", "bad-token-estimation")
            return
        found = f"no estimate for {listed(missing)}"
    else:
        found = repr(token_estimation)[:200]
    raise ConfigError(
        "token_estimation gives the mean number of tokens per row of every dataset",
        found=found,
        fix='write token_estimation={"web": 812.5, "code": 2048}, or leave it out: weights are then shares of rows',
        code="bad-token-estimation",
    )


def plain_number(value: Any) -> int | float | str:
    """A weight or an estimate as JSON and TOML can hold it, with the same decimals."""
    if isinstance(value, np.generic):
        value = float(str(value)) if isinstance(value, np.floating) else value.item()
    return str(value) if isinstance(value, (Decimal, Fraction)) else value


def plain_schedule(schedule: Schedule) -> Any:
    """Plain data that :func:`parse_schedule` reads: a dict where one mixture holds throughout, else a list."""
    entries = [[start, {n: plain_number(w) for n, w in spec.weights.items()}] for start, spec in schedule]
    return entries[0][1] if len(entries) == 1 else entries
