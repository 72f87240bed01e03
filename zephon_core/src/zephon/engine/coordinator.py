"""Which lane works next, and how much may be in flight.

One coordinator per run. It reacts to events (a task is done, a microbatch was taken) and then hands out reading: first
to the lane with the least finished ahead. With a runner that works on the calling thread there is no coordinator
thread: the consumer turns the same crank while it waits.

The consumer and the coordinator share no counter that both change: what is in stock is made minus taken.
"""

from __future__ import annotations

import heapq
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from zephon.abc import Runner
from zephon.engine.lane import Item, Lane
from zephon.engine.program import ReadTask, TaskResult
from zephon.engine.stall import StallWatch, TaskInFlight, in_flight
from zephon.errors import EngineError

#: Bytes a block may have. A worker waits for the interpreter lock at the end of every task, so few large tasks beat
#: many small ones: 8 MiB was measured some 10 to 20 % faster than 2 MiB with microbatches of 8.
TARGET_BLOCK_BYTES: Final = 8 << 20
#: Bytes and rows of the first block: little, so that the first batch comes soon and a short run reads little ahead.
FIRST_BLOCK_BYTES: Final = 64 << 10
FIRST_BLOCK_ROWS: Final = 64
MAX_BLOCK_ROWS: Final = 8192
#: A task should take long enough to outweigh its own cost, and no longer than that needs, in seconds.
SHORT_TASK: Final = 0.01
LONG_TASK: Final = 0.08
#: How long ``stop`` waits for a lane operator that is at work.
CLOSE_SECONDS: Final = 1.5


class _Event(NamedTuple):
    lane: int  # -1: stop
    future: Future[TaskResult] | None = None
    read: bool = False


class Coordinator:
    """Drives the lanes of one rank.

    Args:
        runner: a started runner.
        budget: bytes that may lie finished or be in flight before only starving lanes go on.
        prefetch: finished microbatches to keep ready per lane.
        block_rows: fixed rows per block, or None to adapt.
        row_bytes: average bytes of a row as it lies in its shard.
        programs: what people call the programs tasks refer to by number.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        budget: int,
        prefetch: int,
        block_rows: int | None,
        row_bytes: float,
        programs: Sequence[str] = (),
    ) -> None:
        self._runner = runner
        self._programs = programs
        self._tasks: dict[Future[TaskResult], TaskInFlight] = {}
        self._advancing = -1  # the lane whose operators are at work now
        self._happened = 0
        self._watch = StallWatch(self._describe)
        self._workers = runner.facts.workers
        self._budget = budget
        self._prefetch = prefetch
        self._adapts = block_rows is None
        self._first_rows = block_rows or max(1, min(FIRST_BLOCK_ROWS, int(FIRST_BLOCK_BYTES / max(1.0, row_bytes))))
        self._block_rows = self._first_rows
        self._begun: set[int] = set()
        self._row_bytes = row_bytes
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._crashed: BaseException | None = None
        self._stopping = False
        self._lanes: dict[int, Lane] = {}
        self._queues: dict[int, deque[Item]] = {}
        self._sizes: dict[int, deque[int]] = {}
        self._made: dict[int, int] = {}
        self._taken: dict[int, int] = {}
        self._taken_to: dict[int, int] = {}
        self._made_bytes = 0
        self._taken_bytes = 0
        self._waiting_for = -1
        self._blocked = False
        self._hungry: list[tuple[int, int]] = []
        self._in_hungry: set[int] = set()
        self._in_flight = 0
        self._reading = 0

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self, numbers: Iterable[int], make_lane: Callable[[int], Lane]) -> None:
        """Make the lanes and begin."""
        for number in numbers:
            self._queues[number] = deque()
            self._sizes[number] = deque()
            self._made[number] = self._taken[number] = 0
            lane = self._lanes[number] = make_lane(number)
            self._taken_to[number] = lane.position
        # Enough to keep the workers busy, and no more than every lane can use.
        self._cap = max(1, 2 * self._workers)
        self._lane_cap = max(1, -(-self._cap // max(1, len(self._lanes))))
        self._turn([_Event(number) for number in self._lanes])
        if self._workers > 0 and self._lanes:
            self._thread = threading.Thread(target=self._run, name="zephon-coordinator", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the coordinator thread. May be called twice, from any thread."""
        self._stopping = True
        self._events.put(_Event(-1))
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)
            if thread.is_alive():
                warnings.warn(
                    f"an operator of lane {self._advancing} is still at work {CLOSE_SECONDS:.1f} s after the run was "
                    "closed; its thread ends with it",
                    RuntimeWarning,
                    stacklevel=3,
                )
        self._tasks.clear()
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn(self._gather(self._events.get()))
        except BaseException as error:  # noqa: BLE001 - a defect of ours: the consumer must not wait for ever
            self._crashed = error
            with self._changed:
                self._changed.notify_all()

    # -- the consumer's side ------------------------------------------------------------------------------------------

    def take(self, number: int) -> Item:
        """The next item of a lane, waiting for it.

        Raises:
            EngineError: the coordinator crashed, or the run was closed.
        """
        queue = self._queues[number]
        while not queue:
            self._wait(number, queue)
        item = queue.popleft()
        if item.block is not None:
            self._taken_bytes += self._sizes[number].popleft()
            self._taken[number] += 1
            self._taken_to[number] = item.frontier
            if self._blocked or self._wants_more(number):
                self._events.put(_Event(number))
        return item

    def waiting(self, number: int) -> int:
        """Microbatches of a lane that can be taken without waiting."""
        return self._made[number] - self._taken[number]

    @property
    def block_rows(self) -> int:
        """Rows the next block is read with."""
        return self._block_rows

    @property
    def stock_bytes(self) -> int:
        """Bytes of finished microbatches."""
        return self._made_bytes - self._taken_bytes

    def _wait(self, number: int, queue: deque[Item]) -> None:
        if self._thread is None:
            self._crank(number)
            return
        with self._changed:
            self._waiting_for = number
            self._events.put(_Event(number))
            self._watch.begin(self._happened)
            while not queue:
                if self._crashed is not None:
                    raise EngineError(
                        "the coordinator crashed",
                        found=f"{type(self._crashed).__name__}: {self._crashed}",
                        fix="this is a defect of Zephon or of a plugin: report it with the traceback above",
                        code="coordinator-crashed",
                    ) from self._crashed
                if self._stopping:
                    raise EngineError(
                        "this iterator is closed",
                        found="the pipeline was closed or iterated again",
                        fix="use the newest iterator of the pipeline",
                        code="iterator-closed",
                    )
                if not self._changed.wait(self._watch.interval):
                    self._watch.look(self._happened, f"lane {number}")
            self._waiting_for = -1

    def _crank(self, number: int) -> None:
        """Do one turn on the calling thread."""
        self._waiting_for = number
        try:
            events = self._gather(self._events.get_nowait())
        except Empty:
            events = [_Event(number)]
        before = self._in_flight
        self._turn(events)
        if not self._queues[number] and self._events.empty() and self._in_flight == before == 0:
            raise EngineError(
                f"lane {number} can neither go on nor end",
                found="nothing is in flight and nothing may be read",
                fix="this is a defect of Zephon or of a plugin: report it",
                code="engine-stalled",
            )

    # -- the coordinator's side ---------------------------------------------------------------------------------------

    def submit(self, lane: int, program: int, task: Any) -> Future[TaskResult]:
        """Hand a task to the runner; the lane is advanced when it is done."""
        read = isinstance(task, ReadTask)
        self._in_flight += 1
        self._reading += read
        future = self._runner.submit(program, task)
        name = self._programs[program] if self._programs else f"program {program}"
        self._tasks[future] = TaskInFlight(lane, name, task, time.monotonic())
        future.add_done_callback(lambda done: self._events.put(_Event(lane, done, read)))
        return future

    def put(self, number: int, item: Item) -> None:
        """Take an item from a lane to the consumer."""
        queue = self._queues[number]
        if item.block is not None:
            size = item.block.data.nbytes
            self._sizes[number].append(size)
            self._made_bytes += size
            self._made[number] += 1
        queue.append(item)
        if self._waiting_for == number and self._thread is not None:
            with self._changed:
                self._changed.notify_all()

    def _describe(self) -> str:
        """What is going on, for those who wait too long. Called on their thread."""
        busy = f"the operators of lane {self._advancing} are at work; " if self._advancing >= 0 else ""
        return busy + in_flight(list(self._tasks.copy().items()), self._waiting_for, self._runner)

    def _gather(self, first: _Event) -> list[_Event]:
        events = [first]
        try:
            while True:
                events.append(self._events.get_nowait())
        except Empty:
            return events

    def _turn(self, events: list[_Event]) -> None:
        advance = {}
        for event in events:
            if event.lane < 0:
                continue
            if event.future is not None:
                self._happened += 1
                self._tasks.pop(event.future, None)
                self._in_flight -= 1
                self._reading -= event.read
                self._adapt(event)
                advance[event.lane] = True
            else:
                advance.setdefault(event.lane, False)
        for number, something_done in advance.items():
            lane = self._lanes[number]
            if something_done or not lane.may_read:
                self._advancing = number
                lane.advance()
                self._advancing = -1
                self._happened += 1
            self._consider(number)
        self._hand_out()

    def _adapt(self, event: _Event) -> None:
        """Fit the size of blocks to time and memory. It can change no result, so measuring is allowed here."""
        future = event.future
        if not self._adapts or future is None or future.cancelled() or future.exception() is not None:
            return
        result = future.result()
        rows = self._block_rows
        if result.seconds > LONG_TASK:
            rows //= 2
        elif event.read and result.rows_in:
            now = result.block.data.nbytes / result.rows_in
            self._row_bytes = max(1.0, 0.75 * self._row_bytes + 0.25 * now)
            # Blocks grow only while the consumer waits: one that keeps up with small ones needs no larger ones.
            if result.seconds < SHORT_TASK and self._waiting_for >= 0:
                rows *= 2
        target = min(TARGET_BLOCK_BYTES, self._budget // (4 * max(1, len(self._lanes))))
        self._block_rows = max(1, min(int(target / self._row_bytes), rows, MAX_BLOCK_ROWS))

    def _wants_more(self, number: int) -> bool:
        lane = self._lanes[number]
        if lane.reading >= self._lane_cap or not lane.may_read:
            return False
        ahead = lane.position - self._taken_to[number]
        return self.waiting(number) < self._prefetch or ahead < self._block_rows * (1 + self._lane_cap)

    def _consider(self, number: int) -> None:
        if number not in self._in_hungry and self._wants_more(number):
            self._in_hungry.add(number)
            heapq.heappush(self._hungry, (self.waiting(number), number))

    def _hand_out(self) -> None:
        self._blocked = False
        if self._waiting_for >= 0:
            self._feed_if_starving(self._waiting_for)
        while self._hungry and self._reading < self._cap and self._in_flight < 4 * self._cap:
            _, number = self._hungry[0]
            if self._over_budget() and not self._starves(number):
                self._blocked = True
                return
            heapq.heappop(self._hungry)
            self._in_hungry.discard(number)
            if self._wants_more(number):
                self._read(number)
                self._consider(number)

    def _feed_if_starving(self, number: int) -> None:
        """Whatever the budget says, the lane the consumer waits for goes on: there is no deadlock."""
        lane = self._lanes[number]
        if self._starves(number) and lane.may_read:
            self._read(number)

    def _read(self, number: int) -> None:
        """Read a block; the first of each lane is small, whatever the others have grown to."""
        rows = self._block_rows if number in self._begun else min(self._first_rows, self._block_rows)
        self._begun.add(number)
        self._lanes[number].read(rows)

    def _starves(self, number: int) -> bool:
        return self.waiting(number) == 0 and not self._lanes[number].busy

    def _over_budget(self) -> bool:
        in_flight = self._reading * self._block_rows * self._row_bytes
        return self.stock_bytes + in_flight >= self._budget
