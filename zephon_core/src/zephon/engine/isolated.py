"""The engine in a process of its own: the training process only receives finished microbatches.

The other process runs a :class:`LocalEngine` and sends what its lanes hand over, in the order the consumer will ask
for it, a few rounds ahead. What a lane operator holds never crosses: a cut is sent as a number, and when a checkpoint
is taken, the states behind the numbers are encoded over there. Everything the consumer sees is decided on this side, by
the same code as without isolation: rounds, fillers, the agreement of the ranks, counters, hooks.
"""

from __future__ import annotations

import pickle
import select
import socket
import threading
import traceback
import warnings
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

import attrs

from zephon.abc import HostsEngines, Line
from zephon.checkpoint.state import LaneCheckpoint, StageState, encode_lane
from zephon.engine.lane import Item
from zephon.engine.local import LocalEngine, Start, Tell, iterator_closed
from zephon.engine.local import operator_counts as counts_of
from zephon.engine.plan import Plan
from zephon.errors import EngineError, PeerGoneError
from zephon.plugins import registry

#: Finished microbatches on their way or waiting here, for every owned lane: at least, and where they are small.
AHEAD: Final = 2
FAR_AHEAD: Final = 16
#: Bytes on their way up to which there may be more than the least, and about the most in one message.
SMALL: Final = 8 << 20
#: Seconds the other process has for its last answers.
PATIENCE: Final = 1.0


class RemoteStages(tuple[StageState, ...]):
    """Stands for the lane operators' states at a cut, which are in the other process; empty here.

    Attributes:
        number: of the cut, in its lane.
        counters: what the operators have counted.
    """

    number: int
    counters: Mapping[str, int]

    def __new__(cls, number: int, counters: Mapping[str, int]) -> RemoteStages:
        """The states behind a number."""
        made = super().__new__(cls)
        made.number = number
        made.counters = counters
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """As what it was made of."""
        return RemoteStages, (self.number, self.counters)


def operator_counts(stages: Any) -> Mapping[str, int]:
    """What the operators of a cut have counted, wherever their states are."""
    return stages.counters if isinstance(stages, RemoteStages) else counts_of(stages)


class IsolatedEngine:
    """This side: asks for items, and for the states behind cuts. See :class:`LocalEngine` for what each method does."""

    def __init__(self, plan: Plan, start: Start, tell: Tell, wanted: frozenset[str]) -> None:
        self._plan = plan
        self._begin = start
        self._tell = tell
        self._wanted = wanted
        self._line: Line | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._items: dict[int, deque[Item]] = {lane: deque() for lane in plan.topology.owned}
        self._last: dict[int, int] = {}
        self._taken = 0
        self._thank_after = 1
        self._adopted: dict[int, int] = {}
        self._stats: dict[str, Any] = {}
        self._encoded: dict[int, bytes] = {}

    def start(self) -> None:
        """Start the other process."""
        host = registry("runner").load("processes")
        if not isinstance(host, HostsEngines):
            raise EngineError(
                "the engine cannot be isolated",
                found="the runner 'processes' that is installed starts no interpreters for others",
                fix="install the zephon-processes of this version, or leave isolate out",
                code="isolate-unavailable",
            )
        ending = attrs.evolve(self._plan.ending, agree=None)
        options = attrs.evolve(self._plan.options, agree=None)
        plan = attrs.evolve(self._plan, ending=ending, options=options)
        self._line = host.host(EngineHost(plan, self._begin, self._wanted))

    def take(self, lane: int) -> Item:
        """The next item of a lane, waiting for it."""
        with self._lock:
            # Whatever was taken of this lane before has been adopted by now.
            if lane in self._last:
                self._adopted[lane] = self._last[lane]
            items = self._items[lane]
            if not items:
                self._thank()
            while not items:
                self._receive(None)
            item = items.popleft()
            if item.cut is not None and isinstance(item.cut.stages, RemoteStages):
                self._last[lane] = item.cut.stages.number
            if item.block is not None:
                self._taken += 1
                if self._taken >= self._thank_after:
                    self._thank()
            return item

    def waiting(self, lane: int) -> int:
        """Microbatches of a lane that are here."""
        with self._lock:
            while self._line is not None and self._receive(0.0):
                pass
            return sum(item.block is not None for item in self._items[lane])

    def encode(self, states: Mapping[int, LaneCheckpoint]) -> dict[int, bytes]:
        """The bytes of lanes; those whose operators are over there are encoded there."""
        remote = {lane: state for lane, state in states.items() if isinstance(state.stages, RemoteStages)}
        found = {
            lane: encode_lane(state, self._plan.by_origin if state.stages else ())
            for lane, state in states.items()
            if lane not in remote
        }
        if remote and not self._closed:
            self._encoded = self._ask("encode", remote)
            return found | self._encoded
        if not remote.keys() <= self._encoded.keys():
            raise EngineError(
                "the states of the lane operators are lost",
                found="the process that ran the engine has ended before it could be asked for them",
                fix="restore the last checkpoint that was saved",
                code="engine-lost",
            )
        return found | {lane: self._encoded[lane] for lane in remote}

    def stats(self) -> dict[str, Any]:
        """Facts about the work; after the end, those of the end."""
        if self._line is not None and not self._closed:
            self._stats = self._ask("stats", None)
        return (
            dict(self._stats) if self._stats else LocalEngine(self._plan, self._begin, self._tell, self._wanted).stats()
        )

    def close(self, states: Mapping[int, LaneCheckpoint]) -> None:
        """End the other process. May be called twice, from any thread."""
        remote = {lane: state for lane, state in states.items() if isinstance(state.stages, RemoteStages)}
        # Somebody who waits for a batch holds the lock: then there is nobody who could ask afterwards.
        if self._line is not None and not self._closed and self._lock.acquire(timeout=PATIENCE):
            try:
                with suppress(EngineError):
                    self._stats = self._ask("stats", None, within=PATIENCE)
                    self._encoded = self._ask("encode", remote, within=PATIENCE) if remote else {}
            finally:
                self._lock.release()
        self._closed = True
        if self._line is not None:
            self._line.close()

    # -- the line -----------------------------------------------------------------------------------------------------

    def _thank(self) -> None:
        """Say what was taken, so that more is sent, and which cuts nobody will ask for any more."""
        if (self._taken or self._adopted) and self._line is not None:
            taken, adopted = self._taken, self._adopted
            self._taken, self._adopted = 0, {}
            with self._failing():
                self._line.send("taken", (taken, adopted))

    def _ask(self, kind: str, obj: Any, within: float | None = None) -> Any:
        with self._lock:
            if self._line is None or self._closed:
                raise iterator_closed()
            with self._failing():
                self._line.send(kind, obj)
            while True:
                reply = self._receive(within)
                if reply is None:
                    raise EngineError("the engine's process does not answer", code="engine-silent")
                if reply[0] == kind:
                    return reply[1]

    def _receive(self, timeout: float | None) -> tuple[str, Any] | None:
        """Take one message; its kind and content, or None if there is none."""
        if self._line is None or self._closed:
            raise iterator_closed()
        with self._failing():
            message = self._line.receive(timeout)
        if message is None:
            return None
        kind, content = message
        if kind == "items":
            items, self._thank_after = content
            for lane, item in items:
                self._items[lane].append(item)
        elif kind == "event":
            self._tell(*content)
        elif kind == "warning":
            text, category = content
            warnings.warn(text, category, stacklevel=2)
        return message

    def _failing(self) -> _Failing:
        return _Failing(self)


class _Failing:
    """Says in our terms that the other process has gone."""

    def __init__(self, engine: IsolatedEngine) -> None:
        self._engine = engine

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, PeerGoneError):
            if self._engine._closed:
                raise iterator_closed() from error
            raise EngineError(
                "the process that runs the engine has ended",
                found=error.found,
                fix="restore the last checkpoint; if it ends again, look at the system's log for an out-of-memory "
                "killer, or leave isolate out to see an error of Python as it is",
                code="engine-lost",
            ) from error


@attrs.frozen
class EngineHost:
    """The other side, as data: what is run there, from where."""

    plan: Plan
    start: Start
    wanted: frozenset[str]

    def __call__(self, line: Line) -> None:
        """Run the engine until the line is closed, or it is told to end."""
        Host(line, self).serve()


def portable(error: BaseException) -> BaseException:
    """An exception that arrives as what it is, with the traceback of this process as a note; or as text."""
    text = "".join(traceback.format_exception(error))
    try:
        made: BaseException = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - then it travels as text
        made = EngineError(
            "the engine failed with an exception that cannot be sent to the training process",
            found="".join(traceback.format_exception_only(error)).strip(),
            fix="its own traceback is in the note below",
            code="task-failed",
        )
    made.add_note(f"in the engine's process:\n{text}")
    return made


class Host:
    """The other side at work: one thread takes items from the engine, this one sends them and answers."""

    def __init__(self, line: Line, what: EngineHost) -> None:
        self._line = line
        self._lanes = list(what.plan.topology.owned)
        self._by_origin = what.plan.by_origin
        self._outgoing: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._room = threading.Semaphore(AHEAD * max(1, len(self._lanes)))
        self._ahead = 0  # not known before there is a microbatch
        self._cuts: dict[int, OrderedDict[int, tuple[StageState, ...]]] = {lane: OrderedDict() for lane in self._lanes}
        self._numbers = 0
        self._cut_lock = threading.Lock()
        self._engine = LocalEngine(
            what.plan, what.start, lambda hook, event: self._put("event", (hook, event)), what.wanted
        )

    def _on_event(self, hook: str, event: dict[str, Any]) -> None:
        self._put("event", (hook, event))

    def serve(self) -> None:
        """Send, answer, and clean up."""
        warnings.showwarning = lambda message, category, *_, **__: self._put("warning", (str(message), category))
        self._engine.start()
        threading.Thread(target=self._pump, name="zephon-pump", daemon=True).start()
        try:
            poll = select.poll()
            poll.register(self._line.fileno(), select.POLLIN)
            poll.register(self._wake_in.fileno(), select.POLLIN)
            while True:
                for descriptor, _ in poll.poll():
                    if descriptor == self._line.fileno():
                        message = self._line.receive()
                        assert message is not None
                        self._answer(*message)
                    else:
                        self._wake_in.recv(4096)
                for kind, content in self._queued():
                    self._line.send(kind, content)
        finally:
            self._engine.close({})

    def _answer(self, kind: str, content: Any) -> None:
        if kind == "taken":
            taken, adopted = content
            if taken:
                self._room.release(taken)
            with self._cut_lock:
                for lane, number in adopted.items():
                    cuts = self._cuts[lane]
                    while cuts and next(iter(cuts)) < number:
                        cuts.popitem(last=False)
        elif kind == "stats":
            self._line.send("stats", self._engine.stats())
        elif kind == "encode":
            self._line.send("encode", {lane: self._encoded(lane, state) for lane, state in content.items()})

    def _encoded(self, lane: int, state: LaneCheckpoint) -> bytes:
        assert isinstance(state.stages, RemoteStages)
        with self._cut_lock:
            stages = self._cuts[lane][state.stages.number]
        return encode_lane(attrs.evolve(state, stages=stages), self._by_origin if stages else ())

    def _pump(self) -> None:
        """Take items in the order in which the consumer will ask for them, and send on what is there together."""
        going = list(self._lanes)
        ready: list[tuple[int, Item]] = []
        size = 0

        def send() -> None:
            nonlocal ready, size
            if ready:
                self._put("items", (ready, max(1, max(AHEAD, self._ahead) * len(self._lanes) // 2)))
                ready, size = [], 0

        try:
            while going:
                for lane in list(going):
                    if not self._room.acquire(blocking=False):
                        send()
                        self._room.acquire()
                    while True:
                        if not self._engine.waiting(lane):
                            send()
                        item = self._engine.take(lane)
                        if item.block is not None and not self._ahead:
                            self._look_ahead(item.block.data.nbytes)
                        ready.append((lane, self._light(lane, item)))
                        if item.failure is not None or item.last:
                            going.remove(lane)
                            self._room.release()
                            break
                        if item.block is not None:
                            size += item.block.data.nbytes
                            if size >= SMALL:
                                send()
                            break
            send()
        except Exception as error:  # noqa: BLE001 - the consumer gets it where it would have got the item
            failed = Item(number=0, frontier=0, failure=portable(error))
            self._put("items", ([*ready, *((lane, failed) for lane in going)], 1))

    def _look_ahead(self, nbytes: int) -> None:
        """Let more microbatches be on their way where they are small: every message has its price."""
        self._ahead = min(FAR_AHEAD, max(AHEAD, SMALL // max(1, nbytes * len(self._lanes))))
        if self._ahead > AHEAD:
            self._room.release((self._ahead - AHEAD) * len(self._lanes))

    def _light(self, lane: int, item: Item) -> Item:
        """The item with a number in place of the states of its cut."""
        if item.failure is not None:
            return attrs.evolve(item, failure=portable(item.failure))
        if item.cut is None or not item.cut.stages:
            return item
        with self._cut_lock:
            self._numbers += 1
            number = self._numbers
            self._cuts[lane][number] = item.cut.stages
        stages = RemoteStages(number, counts_of(item.cut.stages))
        return attrs.evolve(item, cut=attrs.evolve(item.cut, stages=stages))

    def _put(self, kind: str, content: Any) -> None:
        self._outgoing.put((kind, content))
        with suppress(OSError):  # it is awake, or has ended
            self._wake_out.send(b"\0")

    def _queued(self) -> Iterator[tuple[str, Any]]:
        with suppress(Empty):
            while True:
                yield self._outgoing.get_nowait()
