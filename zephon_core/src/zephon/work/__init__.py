"""Work sources: the curriculum in closed form.

::

    mixture       weights as written -> integers -> a tree that interleaves components
    schedule      the mixture argument: one mixture, or several with their positions
    policies      what happens when a dataset runs out, and what the run waits for
    phases        schedules, exhaustion and edits as a list of phases with computed ends
    permutation   permutations that are computed, not stored
    order         from the n-th draw of a dataset to (epoch, shard, row)
    lanes         from a lane's position to a position of the curriculum
    resume        whether a curriculum may go on where another one stopped
    report        what explain() says of a curriculum
    checks        checks of single arguments
    static        StaticMixtureWorkSource, which puts them together
    samples       what the conformance kit is told of it

Names load on first use, so that the descriptor of the static mixture stays light.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zephon.work.mixture import MixtureSpec
    from zephon.work.static import StaticMixtureWorkSource

__all__ = ["MixtureSpec", "StaticMixtureWorkSource"]

_HOME = {"MixtureSpec": "mixture", "StaticMixtureWorkSource": "static"}

if not TYPE_CHECKING:  # which would take it that every name is here

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            from importlib import import_module

            value = getattr(import_module(f"zephon.work.{_HOME[name]}"), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'zephon.work' has no attribute {name!r}")
