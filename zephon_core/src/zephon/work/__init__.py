"""Work sources: the curriculum in closed form.

::

    mixture       weights as written -> integers -> a tree that interleaves components
    policies      what happens when a dataset runs out, and when the run ends
    phases        schedules, exhaustion and edits as a list of phases with computed ends
    permutation   permutations that are computed, not stored
    order         from the n-th draw of a dataset to (epoch, shard, row)
    lanes         from a lane's position to a position of the curriculum
    resume        whether a curriculum may go on where another one stopped
    report        what explain() says of a curriculum
    static        StaticMixtureWorkSource, which puts them together
"""

from zephon.work.mixture import MixtureSpec


__all__ = ["MixtureSpec"]
