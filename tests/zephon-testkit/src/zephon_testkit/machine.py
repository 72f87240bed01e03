"""A pipeline under everything that may change around it, against the plain run in memory."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from zephon import Pipeline
from zephon.errors import PlanError
from zephon_testkit.profiles import profile
from zephon_testkit.script import Name, Script, made_by, made_from_spec

#: Groups cost a pipeline each, and more than these show nothing new.
_MOST_GROUPS: Final = 8
#: What stands for one of a list that is known only when the pipeline is: its place, taken modulo the length.
_NUMBERS: Final = st.integers(0, 719)
#: Rounds taken right after a start: a state that was restored wrongly shows in the next few batches.
_ROUNDS: Final = st.integers(0, 3)


class ResumeMachine(RuleBasedStateMachine):
    """Hypothesis takes batches, saves, restores, changes groups, runners and block sizes, and kills workers.

    Subclass it with the pipeline, and hand its test case to pytest::

        class Packing(ResumeMachine):
            def pipeline(self):
                work = StaticMixtureWorkSource(datasets=[DOCUMENTS], mixture={"documents": 1}, seed=7)
                return Pipeline(work).shuffle(8).my_operator(3).batch(2).options(canonical_replicas=4)

        TestPacking = Packing.TestCase

    The pipeline has data settings only, and several lanes (``canonical_replicas``): how it is executed is the machine's
    to choose. To have it drawn, set :attr:`draws` and look at ``self.drawn``.

    A failure says which group, round and slot received what, and what should have come: the batch of the *plain run*,
    one group that owns all lanes, on the calling thread, never interrupted. The error carries a script that does the
    same again without the kit (:func:`zephon_testkit.script.script_of`); its last steps tell where to look:

    - it fails without ``restore``: the operator lets the end of a block show (``block_rows=``), or looks at a clock, a
      global generator or state shared between lanes or pipelines;
    - it fails after ``restore`` with the same number of groups: ``snapshot()`` or ``restore()`` loses something, or a
      snapshot changes after it was taken;
    - only with another number of groups: something depends on the rank instead of the lane;
    - only after ``kill_worker``: a runner loses, repeats or reorders the tasks of a worker it has lost.
    """

    #: What ``pipeline()`` finds in ``self.drawn``, drawn once for every example. Plain data, so that a script can name
    #: it.
    draws: ClassVar[st.SearchStrategy[Any]] = st.none()
    #: Runners to choose from, by registered name; the first is the one that failures are reduced to.
    runners: ClassVar[Sequence[str]] = ("inline", "threads")
    #: Values of ``memory_limit`` to choose from; those too small for what the operators hold are left out.
    memory_limits: ClassVar[Sequence[str | None]] = (None, "64MiB")

    saved = Bundle("saved")
    drawn: Any = None

    def pipeline(self) -> Pipeline:
        """A new pipeline: equal ones however often it is called."""
        raise NotImplementedError(f"{type(self).__name__} has to define pipeline()")

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        # Which lines of the engine a failure came by is of no use to the author, and costs more runs than finding it.
        cls.TestCase.settings = settings(
            profile(), phases=[phase for phase in profile().phases if phase is not Phase.explain]
        )

    def __init__(self) -> None:
        super().__init__()
        self._script: Script | None = None
        self._newest: Name | None = None
        self._degree = 1
        self._degrees: list[int] = []
        self._executions: list[dict[str, Any]] = []

    # -- rules --------------------------------------------------------------------------------------------------------

    @initialize(data=st.data(), degree=_NUMBERS, execution=_NUMBERS, rounds=_ROUNDS)
    def begin(self, data: st.DataObject, degree: int, execution: int, rounds: int) -> None:
        """A first run."""
        self.drawn = data.draw(self.draws, label="drawn")
        with _quiet():
            self._script = Script(self.pipeline, self._source)
            self._degrees = _degrees(self._script.run.lanes)
            self._executions = self._find_executions()
        self._start(degree, execution, rounds)

    @rule(group=st.integers(0, _MOST_GROUPS - 1), count=st.integers(1, 4))
    def next(self, group: int, count: int) -> None:
        """One group goes on, the others wait."""
        self._step("next", group % self._degree, count)

    @rule(count=st.integers(1, 4))
    def rounds(self, count: int) -> None:
        """All groups go on, in step."""
        self._step("rounds", count)

    @rule(target=saved, between=st.booleans())
    def checkpoint(self, between: bool) -> Name:
        """Save all groups: where they stand, or first brought to the same boundary between rounds."""
        if between:
            self._step("align")
        return self._save()

    @rule(saved=saved, degree=_NUMBERS, execution=_NUMBERS, rounds=_ROUNDS)
    def restore(self, saved: Name, degree: int, execution: int, rounds: int) -> None:
        """Go back to any state, on groups of any number if it was taken between rounds."""
        self._restore(saved, degree, execution, rounds)

    @rule(target=saved, degree=_NUMBERS, execution=_NUMBERS, rounds=_ROUNDS)
    def reshard(self, degree: int, execution: int, rounds: int) -> Name:
        """Save between rounds and go on with another number of groups."""
        self._step("align")
        saved = self._save()
        self._restore(saved, degree, execution, rounds)
        return saved

    @rule(target=saved, execution=_NUMBERS, rounds=_ROUNDS)
    def change_execution(self, execution: int, rounds: int) -> Name:
        """Save where the groups stand and go on with another runner, parallelism, block size, look-ahead or limit."""
        saved = self._save()
        self._restore(saved, self._degrees.index(self._degree), execution, rounds)
        return saved

    @rule(degree=_NUMBERS, execution=_NUMBERS, rounds=_ROUNDS)
    def kill_worker(self, degree: int, execution: int, rounds: int) -> None:
        """Kill a process of the run, which has to go on; or, where there is none, lose all groups of the run."""
        if self._recorder.run.workers():
            self._step("kill_worker")
            self._step("rounds", 1)
            return
        self._step("abandon")
        if self._newest is None:
            self._start(degree, execution, rounds)
        else:
            self._restore(self._newest, degree, execution, rounds)

    def teardown(self) -> None:
        """Close everything, abandoned runs too."""
        if self._script is not None:
            self._script.close()

    # -- steps --------------------------------------------------------------------------------------------------------

    @property
    def _recorder(self) -> Script:
        assert self._script is not None
        return self._script

    def _step(self, method: str, *arguments: Any, **settings: Any) -> None:
        with _quiet():
            self._recorder.step(method, *arguments, **settings)

    def _save(self) -> Name:
        with _quiet():
            self._newest = self._recorder.save()
        return self._newest

    def _start(self, degree: int, execution: int, rounds: int) -> None:
        self._degree = self._degrees[degree % len(self._degrees)]
        self._step("start", self._degree, **self._executions[execution % len(self._executions)])
        self._take(rounds)

    def _restore(self, saved: Name, degree: int, execution: int, rounds: int) -> None:
        states = self._recorder.saved(saved)
        # A state inside a round is for the groups that wrote it.
        self._degree = self._degrees[degree % len(self._degrees)] if states.whole else len(states.states)
        self._step("restore", saved, self._degree, **self._executions[execution % len(self._executions)])
        self._take(rounds)

    def _take(self, rounds: int) -> None:
        if rounds:
            self._step("rounds", rounds)

    def _find_executions(self) -> list[dict[str, Any]]:
        """Execution settings to choose from, the plainest first."""
        workers = [(name, n) for name in self.runners for n in ((0,) if name == "inline" else (1, 3))]
        limits = [limit for limit in self.memory_limits if limit is None or self._is_enough(limit)]
        names = ("block_rows", "runner", "parallelism", "prefetch_batches", "memory_limit")
        return [
            dict(zip(names, (rows, *worker, ahead, limit), strict=True))
            for limit, ahead, worker, rows in itertools.product(limits, (2, 1, 5), workers, (None, 1, 2, 3, 7))
        ]

    def _is_enough(self, limit: str) -> bool:
        try:
            self.pipeline().options(dp_degree=1, dp_group_id=0, memory_limit=limit).validate()
        except PlanError as error:
            return error.code != "memory-limit"
        return True

    def _source(self) -> str:
        return made_from_spec(self.pipeline()) or made_by(type(self), "pipeline", self.drawn)


def _degrees(lanes: int) -> list[int]:
    """Degrees that divide the lanes, some that do not, multiples that share lanes, and more than there is for."""
    above = {degree for degree in (lanes + 1, 2 * lanes, 3 * lanes) if degree <= _MOST_GROUPS}
    return sorted({*range(1, min(lanes, _MOST_GROUPS) + 1), *above})


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What planning says of rows that fill no last round is no finding here, nor is a worker that was killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
