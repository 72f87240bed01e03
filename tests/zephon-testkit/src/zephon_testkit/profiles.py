"""How hard the kit tries: Hypothesis profiles of its own, which leave those of the author's other tests alone.

``quick`` is derandomised and small: the same examples on every run, for the edit loop and for every commit. ``ci``
draws new examples and keeps failing ones; ``nightly`` draws very many. Choose with ``pytest --zephon-profile=ci`` or
the environment variable ``ZEPHON_PROFILE``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

#: The environment variable that names the profile.
VARIABLE: Final = "ZEPHON_PROFILE"

# Suites run inside tests that hold files and threads; how long one example takes is no finding.
_SHARED: Final = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=False)

PROFILES: Final = {
    "quick": settings(_SHARED, max_examples=15, stateful_step_count=12, derandomize=True, database=None),
    "ci": settings(_SHARED, max_examples=60, stateful_step_count=25),
    "nightly": settings(_SHARED, max_examples=1000, stateful_step_count=60),
}


def profile() -> settings:
    """The settings in force.

    Raises:
        ValueError: ``ZEPHON_PROFILE`` names no profile.
    """
    name = os.environ.get(VARIABLE, "quick")
    if name not in PROFILES:
        raise ValueError(f"{VARIABLE}={name!r} is no profile of the kit; choose one of {', '.join(PROFILES)}")
    return PROFILES[name]


def for_all(*strategies: SearchStrategy[Any], **named: SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
    """Check a property at once, under the profile in force::

    @for_all(st.integers(), st.integers())
    def _(a, b):
        assert a + b == b + a
    """

    def check(law: Callable[..., None]) -> None:
        profile()(given(*strategies, **named)(law))()

    return check
