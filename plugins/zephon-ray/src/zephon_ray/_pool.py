"""The main process's side: actors, the tasks they have, and one thread that looks after both.

Ray reports what has become of a call on a thread of its own, which puts it into the queue that our thread waits at.
"""

from __future__ import annotations

import atexit
import itertools
import math
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

import attrs
import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    NodeDiedError,
    ObjectLostError,
    RayActorError,
    RuntimeEnvSetupError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zephon.abc import Program
from zephon.errors import ZephonError
from zephon.plugins import POINTS, registry
from zephon_ray import _errors
from zephon_ray._cluster import connect
from zephon_ray._wire import packed, unpacked
from zephon_ray._worker import Answer, Notes, Place, Worker

#: How long ``close`` waits, in all, for tasks that are running.
GRACE_SECONDS: Final = 3.0
#: Workers a task may cost: the first death may be anybody's fault, from the second on it is looked at step by step.
DEATHS_OF_A_TASK: Final = 3
#: Workers that may die one after the other with no task done in between.
DEATHS_IN_A_ROW: Final = 8
#: How often Ray makes an actor anew before it is given up, and another one asked for.
RESTARTS: Final = 3
#: Seconds to wait before another worker is asked for, by deaths in a row.
BACKOFF: Final = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)
#: Seconds between two looks at whether this process is connected at all.
_LOOK: Final = 5.0
#: Seconds that ``close`` waits for the connection to end.
_SHUTDOWN_SECONDS: Final = 15.0

# A worker, its node, or what it has made is gone. All other errors of Ray would come again.
_LOST: Final = (RayActorError, ObjectLostError, NodeDiedError, WorkerCrashedError)
_HOPELESS: Final = (RuntimeEnvSetupError, ActorUnschedulableError)

#: Told of workers that come and go: event, name, reason.
Report = Callable[[str, str, str], None]


@attrs.define(eq=False)
class Job:
    """A task and what became of it so far."""

    future: Future[Any]
    program: int
    task: Any
    key: int
    begun: bool = False
    deaths: int = 0


@attrs.define(eq=False)
class Member:
    """An actor and what it has to do."""

    actor: Any
    name: str  # of its process: an actor made anew has another
    place: Place | None = None
    ready: bool = False
    job: Job | None = None
    leaving: bool = False

    @property
    def where(self) -> str:
        """For people."""
        return self.name if self.place is None else f"{self.name} (pid {self.place.pid} on {self.place.address})"


class Pool:
    """Up to ``limit`` actors that run the tasks of one runner.

    Holds no reference to the runner, so that a runner nobody closes is collected, and its actors then end.
    """

    def __init__(
        self,
        limit: int,
        programs: Sequence[Program],
        options: Mapping[str, Any],
        address: str | None,
        start_timeout: float,
        report: Report,
    ) -> None:
        self._limit = limit
        self._options = dict(options)
        self._start_timeout = start_timeout
        self._report = report
        self._events: SimpleQueue[tuple[str, Any, Any]] = SimpleQueue()
        self._pending: deque[Job] = deque()
        self._lock = threading.RLock()  # the collector may call stop() on a thread that holds it
        self._members: list[Member] = []
        self._keys = itertools.count()
        self._stopping = False
        self._deadline = math.inf
        self._deaths = 0
        self._started = 0
        self._start_at = 0.0
        self._alone_since: float | None = None
        self._broken: Exception | None = None
        self._notes: Any = None
        self._lease = connect(address, limit * float(self._options.get("num_cpus", 1)))
        self._programs: dict[int, ray.ObjectRef[Any]] = {}
        self._unsendable: dict[int, Exception] = {}
        for number, program in enumerate(programs):
            try:
                self._programs[number] = ray.put(packed(program, by_value=True))
            except Exception as error:  # noqa: BLE001 - it fails the tasks of this program, and no others
                self._unsendable[number] = _errors.cannot_send(error)
        self._thread = threading.Thread(target=self._run, name="zephon-ray", daemon=True)
        atexit.register(self.close)  # before Ray's own
        self._thread.start()

    # -- any thread ---------------------------------------------------------------------------------------------------

    def submit(self, program: int, task: Any) -> Future[Any] | None:
        """Queue a task; tasks begin in the order they are queued. None once stopped."""
        future: Future[Any] = Future()
        with self._lock:
            if self._stopping:
                return None
            self._pending.append(Job(future, program, task, next(self._keys)))
        self._events.put(("wake", None, None))
        return future

    def stop(self, grace: float = 0.0) -> None:
        """Cancel what has not begun, and have the actors end within ``grace`` seconds; does not wait for that."""
        with self._lock:
            self._stopping = True
            self._deadline = min(self._deadline, time.monotonic() + grace)
            cancelled = list(self._pending)
            self._pending.clear()
        for job in cancelled:
            job.future.cancel()
        self._events.put(("wake", None, None))

    def close(self) -> None:
        """Stop, and wait until nothing is left."""
        self.stop(GRACE_SECONDS)
        if self._thread is not threading.current_thread():
            self._thread.join(GRACE_SECONDS + _SHUTDOWN_SECONDS)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._turn():
                pass
        except BaseException as error:  # noqa: BLE001 - a defect of ours: nobody may wait for ever
            self._fail_everything(error)
        finally:
            for member in list(self._members):
                self._end(member)
            self._leave()
            atexit.unregister(self.close)

    def _turn(self) -> bool:
        """Do what there is to do; whether that was all for ever."""
        self._hire()
        self._hand_out()
        if self._stopping and self._wind_up():
            return True
        with suppress(Empty):
            event = self._events.get(timeout=self._patience())
            while True:
                self._take(*event)
                event = self._events.get_nowait()
        if not self._stopping and self._members and not ray.is_initialized():
            self._fail_everything(_errors.disconnected())
            for member in list(self._members):
                self._end(member)
        return False

    def _patience(self) -> float | None:
        """Seconds after which there is something to do although nothing happens."""
        now = time.monotonic()
        if self._stopping:
            return max(0.0, min(0.05, self._deadline - now))
        with self._lock:
            waiting = bool(self._pending)
        until = now + _LOOK if self._members else math.inf
        if waiting and self._start_at > now:
            until = min(until, self._start_at)
        return None if until == math.inf else max(0.001, until - now)

    def _hire(self) -> None:
        """Ask for workers while there is work for more, but not faster than they die."""
        if self._stopping or self._broken is not None:
            return
        with self._lock:
            waiting = len(self._pending)
        wanted = min(self._limit, waiting + sum(1 for member in self._members if member.job is not None))
        while len(self._members) < wanted and self._broken is None and time.monotonic() >= self._start_at:
            self._start()
        now = time.monotonic()
        if not waiting or any(member.ready for member in self._members):
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > self._start_timeout:
            free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
            self._fail_everything(_errors.no_place(self._start_timeout, self._options, free))

    def _start(self) -> None:
        threads = max(1, math.ceil(self._options.get("num_cpus", 1)))
        options = {**self._options, "max_restarts": RESTARTS, "max_task_retries": 0}
        try:
            actor = ray.remote(Worker).options(**options).remote(_requirements(), threads)
        except Exception as error:  # noqa: BLE001 - Ray refuses the options, or has been shut down
            self._fail_everything(_errors.cannot_start(error))
            return
        member = Member(actor, "")
        self._members.append(member)
        self._ask_whether_ready(member)

    def _ask_whether_ready(self, member: Member) -> None:
        member.name = f"zephon-ray-{self._started}"
        self._started += 1
        self._when_done(member.actor.ready.remote(), "ready", member, None)

    def _when_done(self, reference: Any, event: str, member: Member, job: Job | None) -> None:
        events = self._events
        reference.future().add_done_callback(lambda done: events.put((event, member, (job, done))))

    def _hand_out(self) -> None:
        """Give tasks to the workers that have none."""
        while self._broken is None:
            # One task a worker: what lay in its queue would wait behind a long one while others are idle.
            member = next((m for m in self._members if m.ready and m.job is None and not m.leaving), None)
            if member is None:
                return
            with self._lock:
                if not self._pending:
                    return
                job = self._pending.popleft()
            if not job.begun and not job.future.set_running_or_notify_cancel():
                continue
            job.begun = True
            self._send(member, job)

    def _send(self, member: Member, job: Job) -> None:
        if job.program in self._unsendable:
            _settle(job.future.set_exception, self._unsendable[job.program])
            return
        try:
            program, parcel = [self._programs[job.program]], packed(job.task)
            reference = member.actor.run.remote(job.program, program, parcel, self._note_taker(job), job.key)
        except Exception as error:  # noqa: BLE001 - it cannot be pickled: the task's own trouble
            _settle(job.future.set_exception, error if isinstance(error, ZephonError) else _errors.cannot_send(error))
        else:
            member.job = job
            self._when_done(reference, "answer", member, job)

    def _take(self, event: str, member: Member, content: Any) -> None:
        """Take what Ray reports of a call."""
        if event == "wake" or member not in self._members:
            return
        job, done = content
        if event == "closed":
            self._end(member)
        elif event == "ready":
            self._take_ready(member, done)
        else:
            member.job = None
            self._take_answer(member, job, done)

    def _take_ready(self, member: Member, done: Future[Answer]) -> None:
        error = done.exception()
        if isinstance(error, ActorDiedError) and not _in_creation(error):
            self._end(member)
            self._lose_heart(_errors.how_it_died(error), deaths=1 + RESTARTS)
        elif error is not None:
            self._end(member)
            self._fail_everything(_errors.cannot_start(error))
        elif (failure := done.result().failure) is not None:
            self._fail_everything(_errors.refused(failure))
        else:
            member.place = done.result().place
            member.ready = True
            self._report("start", member.name, "")

    def _take_answer(self, member: Member, job: Job, done: Future[Answer]) -> None:
        error = done.exception()
        if isinstance(error, _LOST):
            self._mourn(member, job, error)
            return
        if error is not None:
            _settle(job.future.set_exception, _errors.of_ray(error, member.where))
            return
        answer = done.result()
        self._deaths = 0
        if answer.failure is not None:
            _settle(job.future.set_exception, _errors.failed_there(answer.failure, member.name, answer.place))
            return
        assert answer.parcel is not None
        try:
            result = unpacked(answer.parcel)
        except Exception as unreadable:  # noqa: BLE001 - a result that cannot be unpickled here
            _settle(job.future.set_exception, _errors.cannot_send(unreadable))
        else:
            _settle(job.future.set_result, result)

    # -- deaths -------------------------------------------------------------------------------------------------------

    def _mourn(self, member: Member, job: Job, error: BaseException) -> None:
        """A worker has died with a task, which goes to another; Ray makes the worker anew as often as it may."""
        how, who = _errors.how_it_died(error), member.where
        self._tell_stopped(member, how)
        if isinstance(error, ActorDiedError) or self._stopping:
            self._end(member)
        else:
            self._ask_whether_ready(member)
        if self._stopping:
            _settle(job.future.set_exception, _errors.given_up(who, GRACE_SECONDS))
            return
        job.deaths += 1
        if job.deaths >= DEATHS_OF_A_TASK:
            _settle(job.future.set_exception, _errors.poisonous(job.deaths, how, self._read_note(job)))
        else:
            with self._lock:
                self._pending.appendleft(job)
        self._lose_heart(how)
        if self._broken is None:
            _warn(f"Ray worker {who} was lost with a task, which is run again: {how}")

    def _lose_heart(self, how: str, deaths: int = 1) -> None:
        """Count deaths, and give up when nothing else happens any more."""
        self._deaths += deaths
        self._start_at = time.monotonic() + BACKOFF[min(self._deaths, len(BACKOFF)) - 1]
        if self._deaths > DEATHS_IN_A_ROW:
            self._fail_everything(_errors.keep_dying(self._deaths, how))

    def _note_taker(self, job: Job) -> Any:
        """For a task that has cost a worker: who takes notes, on the node of this process."""
        if not job.deaths:
            return None
        if self._notes is None:
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
            self._notes = ray.remote(Notes).options(num_cpus=0, scheduling_strategy=here).remote()
        return self._notes

    def _read_note(self, job: Job) -> str:
        try:
            return str(ray.get(self._notes.read.remote(job.key), timeout=_LOOK))
        except Exception:  # noqa: BLE001 - the note is lost as well
            return ""

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self, member: Member) -> None:
        """Have an actor ended and forget it."""
        if member in self._members:
            self._members.remove(member)
        with suppress(Exception):  # it has ended, or the cluster has
            ray.kill(member.actor, no_restart=True)
        self._tell_stopped(member, "")

    def _tell_stopped(self, member: Member, reason: str) -> None:
        if member.ready:
            member.ready = False
            self._report("stop", member.name, reason)

    def _wind_up(self) -> bool:
        """End the actors, those at work when their task is done or the time is up; whether all have ended."""
        late = time.monotonic() >= self._deadline
        for member in list(self._members):
            if late or not member.ready:
                if member.job is not None:
                    job, member.job = member.job, None
                    _settle(job.future.set_exception, _errors.given_up(member.where, GRACE_SECONDS))
                self._end(member)
            elif not member.leaving and member.job is None:
                member.leaving = True
                self._when_done(member.actor.close.remote(), "closed", member, None)
        return not self._members

    def _fail_everything(self, error: BaseException) -> None:
        self._broken = error if isinstance(error, Exception) else RuntimeError(repr(error))
        with self._lock:
            self._stopping = True
            self._deadline = min(self._deadline, time.monotonic() + GRACE_SECONDS)
            jobs = list(self._pending)
            self._pending.clear()
        jobs += [member.job for member in self._members if member.job is not None]
        for job in jobs:
            _settle(job.future.set_exception, self._broken)

    def _leave(self) -> None:
        """Let go of what lies in the cluster, and of the connection."""
        if self._notes is not None:
            with suppress(Exception):
                ray.kill(self._notes)
            self._notes = None
        self._programs.clear()
        self._lease.release()


def _requirements() -> list[tuple[str, ...]]:
    """The installed plugins a worker has to agree on; what code has registered in this process is sent by value."""
    found: list[tuple[str, ...]] = []
    for point in POINTS:
        for name in registry(point).names():
            try:
                requirement = registry(point).requirement(name)
            except ZephonError:
                continue  # broken, and an error when its name is used
            if requirement.version:
                found.append(tuple(requirement))
    return found


def _in_creation(error: ActorDiedError) -> bool:
    """Whether it is the constructor that has failed: it would again."""
    return "creation task" in str(error)


def _settle(settle: Any, outcome: Any) -> None:
    with suppress(InvalidStateError):  # nobody waits for it any more
        settle(outcome)


def _warn(text: str) -> None:
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:
        return  # warnings are errors here, and this thread has nobody to tell
