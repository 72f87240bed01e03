"""One run of a plan, as its consumer sees it: an engine somewhere, and what was received of it."""

from __future__ import annotations

import itertools
import threading
import warnings
import weakref
from collections import Counter
from typing import Any, Final

from zephon.abc import CheckpointState
from zephon.batch import Batch
from zephon.checkpoint.merging import lane_key
from zephon.checkpoint.state import LaneCheckpoint, encode_header
from zephon.engine.delivery import Cursor, Delivery
from zephon.engine.explain import describe
from zephon.engine.isolated import IsolatedEngine, operator_counts
from zephon.engine.local import Engine, LocalEngine, Start, iterator_closed
from zephon.engine.plan import Plan, function_sources, versions
from zephon.plugins import hooks

#: Hooks the engine speaks to, wherever it runs; the session speaks to the others.
_OF_THE_ENGINE: Final = ("block", "quarantine", "worker_start", "worker_stop")
_RUNS = itertools.count()


class Session:
    """A run. Threads start with the first batch asked for and end with ``close``; the position outlives them."""

    def __init__(self, plan: Plan, start: Start) -> None:
        self.plan = plan
        self._closed = False
        self._announced = False
        self._started = False
        # An observer, or a function of the user, may close the run from within.
        self._lock = threading.RLock()
        self._run = next(_RUNS)
        self._hooks = hooks()
        wanted = frozenset(hook for hook in _OF_THE_ENGINE if self._hooks is not None and self._hooks.has(hook))
        make = IsolatedEngine if plan.options.isolate else LocalEngine
        self._engine: Engine = make(plan, start, self._tell, wanted)
        names, schema = plan.facts.datasets, plan.chain.output
        self._cursors = {
            lane: Cursor(lane, names, schema, start.lanes.get(lane), start.raw.get(lane))
            for lane in plan.topology.owned
        }
        self._delivery = Delivery(
            plan.topology,
            self._engine,
            self._cursors,
            ending=plan.ending,
            facts=plan.facts,
            schema=plan.chain.output,
            round_=start.round,
            slot=start.slot,
        )
        self._header = {
            "versions": versions(),
            "fingerprint": plan.fingerprint,
            "lanes": plan.lanes,
            "spec": plan.spec,
            "functions": function_sources(plan.chain),
        }

    # -- running ------------------------------------------------------------------------------------------------------

    def next(self) -> Batch | None:
        """The next batch, or None at the end.

        Raises:
            EngineError: ``iterator-closed``, or whatever stopped the run.
        """
        if self._closed:
            if self._delivery.done:
                return None
            raise iterator_closed()
        try:
            if not self._started:
                self._begin()
            batch = self._delivery.next(self._announce)
        except BaseException as error:
            # What was delivered stays countable, so the state before the failure can still be saved. Ctrl-C may have
            # struck in the middle of a lane's work on this thread: going on with it could lose rows.
            if self._end() or not isinstance(error, Exception):
                raise
            # Closed meanwhile from another thread: whatever broke here broke because of that.
            raise iterator_closed() from error
        if batch is None:
            self.close()
            if self._delivery.round == 0:
                warnings.warn(
                    "the run has ended without a single batch: no full round came through the operators; "
                    'look at the filters, or use .options(tail="pad")',
                    stacklevel=3,
                )
        return batch

    def _announce(self, batch: Batch, round_: int) -> None:
        self._tell("batch", {"batch": batch, "round": round_})

    def _tell(self, hook: str, event: dict[str, Any]) -> None:
        if self._hooks is not None and self._hooks.has(hook):
            self._hooks.call(hook, run=self._run, **event)

    def _begin(self) -> None:
        if self._hooks is not None:
            self._announced = True
            self._tell("plan", {"plan": describe(self.plan)})
        # Who closes meanwhile, from another thread, waits until there is something whole to close.
        with self._lock:
            if self._closed:
                raise iterator_closed()
            self._started = True
            self._engine.start()

    def close(self) -> None:
        """Stop threads, release files. May be called twice, from any thread."""
        self._end()

    def _end(self) -> bool:
        """Close; whether it was open until now."""
        with self._lock:
            if self._closed:
                return False
            self._closed = True
        self._engine.close(self._changed())
        if self._announced:
            self._tell("close", {"stats": self.stats()})
        return True

    # -- state --------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> CheckpointState:
        """The owned lanes as the consumer has seen them, at this moment."""
        encoded = self._engine.encode(self._changed())
        lanes = {lane_key(lane): encoded.get(lane) or cursor.unchanged or b"" for lane, cursor in self._cursors.items()}
        header: dict[str, Any] = {**self._header, "round": self._delivery.round, "slot": self._delivery.slot}
        if self._delivery.slot:
            topology = self.plan.topology
            header["topology"] = {"dp_degree": topology.dp_degree, "uneven": self.plan.options.uneven}
        state: CheckpointState = {"header": encode_header(header), "lanes": lanes}
        try:
            self._tell("checkpoint", {"state": state, "round": self._delivery.round})
        except Exception:
            self.close()
            raise
        return state

    def _changed(self) -> dict[int, LaneCheckpoint]:
        """The lanes in which something has happened."""
        return {lane: cursor.state() for lane, cursor in self._cursors.items() if cursor.unchanged is None}

    def stats(self) -> dict[str, Any]:
        """Counters of the owned lanes, as delivered."""
        totals: dict[str, Counter[str]] = {"rows": Counter(), "tokens": Counter(), "skipped": Counter()}
        epochs: dict[str, int] = {}
        operators: Counter[str] = Counter()
        for cursor in self._cursors.values():
            counts = cursor.tally.to_plain()
            for kind in ("rows", "tokens"):
                totals[kind].update(counts.get(kind, {}))
            totals["skipped"].update(cursor.skipped)
            for name, epoch in counts.get("epochs", {}).items():
                epochs[name] = max(epochs.get(name, 0), epoch)
            ended = cursor.operators
            operators.update(ended if ended is not None else operator_counts(cursor.cut.stages))
        return {
            "rounds": self._delivery.round,
            "batches": {lane: c.delivered for lane, c in self._cursors.items()},
            "rows": dict(totals["rows"]),
            "tokens": dict(totals["tokens"]),
            "passes_begun": epochs,
            "skipped": dict(totals["skipped"]),
            "operators": dict(operators),
            **self._engine.stats(),
        }


class BatchIterator:
    """What ``iter(pipeline)`` returns. When it is collected, its run is closed; its position stays known."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._finalizer = weakref.finalize(self, session.close)

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Batch:
        batch = self._session.next()
        if batch is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        """End the run."""
        self._finalizer()
