"""What a pipeline is and does: a work source, operators, options, and the run made of them.

Nothing heavy is imported here until a pipeline is used: ``from zephon import Pipeline`` stays light.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zephon.errors import ConfigError

if TYPE_CHECKING:
    from typing import Self

    from zephon.abc import CheckpointState, Operator, WorkSource
    from zephon.checkpoint import Merged
    from zephon.engine.options import Options
    from zephon.engine.plan import Plan
    from zephon.engine.session import BatchIterator, Session


class PipelineBase:
    """A pipeline under construction and, once iterated, the run made of it.

    Builder methods change this pipeline and return it. Iterating again starts the same curriculum from the beginning
    and closes the former iterator.

    Args:
        work: the curriculum, e.g. a ``StaticMixtureWorkSource``.
    """

    def __init__(self, work: WorkSource) -> None:
        from zephon.engine.validate import require_work_source

        self._work = require_work_source(work)
        self._operators: list[tuple[str, Operator]] = []
        self._settings: dict[str, Any] = {}
        self._plan: Plan | None = None
        self._session: Session | None = None
        self._restored: Merged | None = None
        self._pending: Merged | None = None

    # -- building -----------------------------------------------------------------------------------------------------

    def pipe(self, operator: Operator) -> Self:
        """Append an operator.

        Args:
            operator: any ``RowOperator`` or ``LaneOperator``.

        Raises:
            ConfigError: ``not-an-operator``.
        """
        from zephon.engine.recipe import name_of
        from zephon.engine.validate import require_operator

        require_operator(operator, type(operator).__name__)
        return self._append(name_of(operator), operator)

    add_op = pipe

    def options(self, **settings: Any) -> Self:
        """Set options; see the user guide for their names. Only ``canonical_replicas`` can change the data.

        Raises:
            ConfigError: ``option-unknown``, ``option-not-needed`` or ``option-invalid``.
        """
        from zephon.engine.options import Options

        merged = {**self._settings, **settings}
        Options().changed(merged)
        self._change()
        self._settings = merged
        return self

    def prefetch(self, batches: int = 2) -> Self:
        """Tune the look-ahead: finished microbatches kept ready per lane. Look-ahead itself is automatic."""
        return self.options(prefetch_batches=batches)

    def _append(self, name: str, operator: Operator) -> Self:
        self._change()
        self._operators.append((name, operator))
        return self

    def _change(self) -> None:
        """A changed pipeline is planned anew; a restored one cannot be changed."""
        if self._restored is not None:
            raise ConfigError(
                "this pipeline was restored from a checkpoint and cannot be changed any more",
                found="an operator or option added after restore()",
                fix="build the whole pipeline first, then call restore()",
                code="changed-after-restore",
            )
        self._drop_plan()

    # -- planning -----------------------------------------------------------------------------------------------------

    def validate(self) -> Self:
        """Check everything that can be checked without running.

        Raises:
            PlanError: naming operator, field and datasets.
            ConfigError: an option or the topology is wrong.
        """
        self._compiled()
        return self

    def explain(self) -> str:
        """The compiled plan as text."""
        from zephon.engine.explain import explain

        return explain(self._compiled())

    def _options(self) -> Options:
        from zephon.engine.options import Options

        return Options().changed(self._settings)

    def _compiled(self) -> Plan:
        if self._plan is None:
            self._plan = self._compile(self._work, None)
        return self._plan

    def _compile(self, work: WorkSource, lanes: int | None) -> Plan:
        from zephon.engine.plan import compile_plan
        from zephon.engine.topology import identify, resolve_lanes

        options = self._options()
        identity = identify(options)
        return compile_plan(work, self._operators, options, identity, resolve_lanes(options, identity, lanes))

    @property
    def lanes(self) -> int:
        """Number of lanes: ``canonical_replicas`` as resolved."""
        return self._compiled().lanes

    @property
    def slots_per_round(self) -> int:
        """Batches this rank receives per round, fillers included; the same number on every rank."""
        return len(self._compiled().topology.slots)

    def __len__(self) -> int:
        """Batches one iteration from the beginning delivers to this rank, fillers included.

        Raises:
            TypeError: it cannot be known beforehand.
        """
        plan = self._compiled()
        if plan.rounds is None:
            raise TypeError("this pipeline has no length: it is endless, or an operator changes the number of rows")
        return plan.rounds * len(plan.topology.slots)

    def __bool__(self) -> bool:
        return True

    # -- running ------------------------------------------------------------------------------------------------------

    def __iter__(self) -> BatchIterator:
        """Start a run: from a restored state the first time after ``restore``, else from the beginning."""
        from zephon.engine.local import Start
        from zephon.engine.session import BatchIterator, Session

        plan = self._compiled()
        start = Start()
        if self._pending is not None:
            start = Start.of(self._pending, plan)
            self._pending = None
        self._close_session()
        self._session = Session(plan, start)
        return BatchIterator(self._session)

    def checkpoint(self) -> CheckpointState:
        """The state of this rank at this moment: what was received counts, never what was prefetched.

        Returns:
            ``{"header": bytes, "lanes": {"00012": bytes, ...}}``.
        """
        from zephon.engine.local import Start
        from zephon.engine.session import Session

        if self._session is None or self._pending is not None:
            plan = self._compiled()
            start = Start.of(self._pending, plan) if self._pending is not None else Start()
            return Session(plan, start).checkpoint()
        return self._session.checkpoint()

    def restore(self, state: CheckpointState | Sequence[CheckpointState]) -> Self:
        """Go on from a checkpoint, on this topology, whichever wrote it.

        Args:
            state: one state, or those of all ranks that wrote it.

        Raises:
            CheckpointError: naming each difference; nothing is loaded then.
        """
        from zephon.checkpoint import merge
        from zephon.engine.resume import check_slot, resumable_plan

        merged = merge(state)
        plan = resumable_plan(merged, self._work, self._compile)
        check_slot(merged, plan)
        merged.require(plan.topology.owned)
        self._close_session()
        self._session = None
        self._drop_plan()
        self._plan, self._pending, self._restored = plan, merged, merged
        return self

    def state_dict(self) -> CheckpointState:
        """:meth:`checkpoint` under torch's name."""
        return self.checkpoint()

    def load_state_dict(self, state_dict: CheckpointState | Sequence[CheckpointState]) -> None:
        """:meth:`restore` under torch's name."""
        self.restore(state_dict)

    def stats(self) -> dict[str, Any]:
        """Counters of this rank's lanes, as delivered: rows, tokens, passes begun and rows skipped per dataset.

        They count whole lanes: groups that share a lane each count all of it, so their sums would count it twice.
        """
        from zephon.engine.local import Start
        from zephon.engine.session import Session

        if self._session is not None and self._pending is None:
            return self._session.stats()
        plan = self._compiled()
        start = Start.of(self._pending, plan) if self._pending is not None else Start()
        return Session(plan, start).stats()

    def close(self) -> None:
        """End the run, if there is one. The pipeline can be iterated again."""
        self._close_session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()

    def _drop_plan(self) -> None:
        if self._plan is not None:
            self._close_session()
            self._plan = None
            self._session = None

    # -- as data ------------------------------------------------------------------------------------------------------

    def to_spec(self) -> dict[str, Any]:
        """The pipeline as plain data (JSON, TOML): what :meth:`from_spec` takes.

        Raises:
            ConfigError: ``callable-not-importable``, ``dataset-not-portable`` and the like.
        """
        from zephon.engine.recipe import to_recipe

        return to_recipe(self._work, self._operators, self._options())

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any] | str | os.PathLike[str]) -> Self:
        """A pipeline from plain data or from the path of a recipe in TOML.

        A recipe can name Python functions, which are imported: treat it as code.

        Raises:
            ConfigError: ``recipe-invalid`` and what the parts raise.
        """
        from zephon.engine.recipe import from_recipe

        work, operators, settings = from_recipe(spec)
        pipeline = cls(work)
        for name, operator in operators:
            pipeline._append(name, operator)
        return pipeline.options(**settings) if settings else pipeline
