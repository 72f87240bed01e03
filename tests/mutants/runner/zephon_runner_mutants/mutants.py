"""Runners with one fault each."""

import atexit
import mmap
import multiprocessing
import os
import pickle
import threading
import time
from collections import deque
from concurrent.futures import Future
from queue import SimpleQueue

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import RunnerFacts
from zephon.block import Block
from zephon.errors import WorkerError
from zephon_runner_mutants.children import Child, Lost, Pipe, hosted, run_hosted
from zephon_runner_mutants.toys import Maximal, Minimal, Pool, ProcessPool

#: Clause that must find it, by mutant.
MUTANTS = {}


def killed_by(clause):
    """Note which clause must find a mutant."""

    def note(cls):
        name = "".join("_" + letter.lower() if letter.isupper() else letter for letter in cls.__name__).lstrip("_")
        MUTANTS[name] = clause
        return cls

    return note


def pooled(pool, toy=Minimal):
    """The toy, with another pool."""
    return type(pool.__name__, (toy,), {"pool": pool, "__doc__": pool.__doc__, "__module__": __name__})


# --- facts


@killed_by("RU-1")
class CountsTwice(Minimal):
    """Says it has more workers than were asked for."""

    @property
    def facts(self):
        return RunnerFacts(workers=2 * self._parallelism)


@killed_by("RU-1")
class KnowsItselfLate(Minimal):
    """Asks its pool, which is not there yet."""

    @property
    def facts(self):
        return RunnerFacts(workers=len(self._pool.threads))


@killed_by("RU-2")
class TakesAnyNumber(Minimal):
    """Makes the best of it."""

    def checked(self, parallelism):
        return 2 if parallelism is None else max(1, int(parallelism))


# --- results


class ByCompletion(Pool):
    def __init__(self, workers, programs):
        self.waiting = deque()
        super().__init__(workers, programs)

    def submit(self, program, task):
        with self.lock:
            future = super().submit(program, task)
            self.waiting.append(future)
            return future

    def succeeded(self, future, result):
        with self.lock:
            super().succeeded(self.waiting.popleft(), result)


@killed_by("RU-3")
class MatchesByCompletion(pooled(ByCompletion)):
    """Gives the first result to the first future."""


class ByHash(Pool):
    def __init__(self, workers, programs):
        self.known = {}
        super().__init__(workers, programs)

    def instance(self, program, instances):
        found = super().instance(program, instances)
        return lambda task: self.known.setdefault((program, hash(task)), found(task))


@killed_by("RU-3")
class RemembersByHash(pooled(ByHash)):
    """Takes tasks of one hash for one task."""


class Forgetful(Pool):
    def submit(self, program, task):
        future = super().submit(program, task)
        self.count = getattr(self, "count", 0) + 1
        return Future() if self.count % 25 == 0 else future


@killed_by("RU-3")
class LosesTasks(pooled(Forgetful)):
    """Every now and then, a future belongs to no task."""


class OneAtATime(Pool):
    def run(self, future, program, task, instances):
        with self.lock:
            super().run(future, program, task, instances)


@killed_by("RU-4")
class LocksAroundTasks(pooled(OneAtATime)):
    """Its workers wait for each other."""


class Doubled(Pool):
    def __init__(self, workers, programs):
        super().__init__(2 * workers, programs)


@killed_by("RU-4")
class RunsMoreThanItSays(pooled(Doubled)):
    """Has twice the threads."""


# --- what fails


class Swallowing(Pool):
    def failed(self, future, error):
        future.set_result(None)


@killed_by("RU-5")
class SwallowsErrors(pooled(Swallowing)):
    """Nothing is wrong, there is just no result."""


class Wrapping(Pool):
    def failed(self, future, error):
        future.set_exception(WorkerError("a task failed", found=repr(error), code="task-failed"))


@killed_by("RU-5")
class WrapsErrors(pooled(Wrapping)):
    """Every exception becomes one of its own."""


class Forwarding(Pool):
    def failed(self, future, error):
        future.set_exception(error.with_traceback(None))


@killed_by("RU-5")
class DropsTracebacks(pooled(Forwarding)):
    """Tells what was raised, and not where."""


class Pickling(Pool):
    def failed(self, future, error):
        try:
            future.set_exception(pickle.loads(pickle.dumps(error)))
        except Exception as other:  # noqa: BLE001 - that it hides the first one is the fault
            future.set_exception(other.with_traceback(None))


@killed_by("RU-6")
class MasksWhatItCannotPickle(pooled(Pickling)):
    """The exception about the exception is what arrives."""


class OnlyExceptions(Pool):
    def run(self, future, program, task, instances):
        try:
            result = self.instance(program, instances)(task)
        except Exception as error:  # noqa: BLE001 - that all else gets through is the fault
            self.failed(future, error)
        except BaseException:  # noqa: BLE001 - the thread ends, without a word
            raise SystemExit from None
        else:
            self.succeeded(future, result)


@killed_by("RU-7")
class DiesWithItsTask(pooled(OnlyExceptions)):
    """A worker that exits with the task."""


class Eager(Pool):
    def __init__(self, workers, programs):
        self.opened = [program.open() for program in programs]
        super().__init__(workers, programs)


@killed_by("RU-8")
class OpensOnStart(pooled(Eager)):
    """Opens programs where they may not be meant to open."""


# --- instances


class Anew(Pool):
    def instance(self, program, instances):
        return self.programs[program].open()


@killed_by("RU-9")
class OpensPerTask(pooled(Anew)):
    """A model is loaded for every task."""


class Shared(Pool):
    def __init__(self, workers, programs):
        self.shared = {}
        super().__init__(workers, programs)

    def instance(self, program, instances):
        with self.lock:
            return super().instance(program, self.shared)


@killed_by("RU-10")
class SharesInstances(pooled(Shared)):
    """One instance for all threads."""


class Careless(Pool):
    def end(self, instances):
        instances.clear()


@killed_by("RU-11")
class NeverCloses(pooled(Careless)):
    """Leaves instances to the garbage."""


class Thorough(Pool):
    def end(self, instances):
        super().end(instances)
        super().end(instances)


@killed_by("RU-11")
class ClosesTwice(pooled(Thorough)):
    """Closes what is closed."""


# --- what crosses


def changed(value, change):
    """A value with its blocks changed."""
    if isinstance(value, Block):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(changed(item, change) for item in value))
    return value


class Plain(Pool):
    def succeeded(self, future, result):
        super().succeeded(future, changed(result, self._without_metadata))

    def _without_metadata(self, block):
        schema = pa.schema([field.remove_metadata() for field in block.schema])
        return block.with_data(pa.RecordBatch.from_arrays(block.data.columns, schema=schema))


@killed_by("RU-12")
class LosesMetadata(pooled(Plain)):
    """Sends names and types of fields, and nothing more."""


class Columns(Pool):
    def succeeded(self, future, result):
        super().succeeded(future, changed(result, self._by_columns))

    def _by_columns(self, block):
        if not block.data.columns:
            return block.slice(0, 0)
        arrays = [pickle.loads(pickle.dumps(column)) for column in block.data.columns]
        return block.with_data(pa.RecordBatch.from_arrays(arrays, schema=block.schema))


@killed_by("RU-12")
class LosesRowsWithoutColumns(pooled(Columns)):
    """Sends columns, of which there may be none."""


class Ringed(Pool):
    """Results whose origins are views of an array that is used again."""

    def __init__(self, workers, programs):
        self.ring = np.zeros(1 << 10, dtype=np.int64)
        super().__init__(workers, programs)

    def succeeded(self, future, result):
        super().succeeded(future, changed(result, self._in_the_ring))

    def _in_the_ring(self, block):
        row = self.ring[: len(block)]
        row[:] = block.origins.row
        return attrs.evolve(block, origins=attrs.evolve(block.origins, row=row))


@killed_by("RU-13")
class ReusesItsMemory(pooled(Ringed)):
    """The next result overwrites the last one."""


class Returned(Ringed):
    def _in_the_ring(self, block):
        self.ring = np.zeros(len(block), dtype=np.int64)
        self.lent = [*getattr(self, "lent", []), self.ring]
        return super()._in_the_ring(block)

    def close(self):
        super().close()
        for memory in self.lent:
            memory[:] = -1


@killed_by("RU-13")
class TakesItsMemoryBack(pooled(Returned)):
    """Results are gone after ``close``."""


class Consuming(Pool):
    def run(self, future, program, task, instances):
        super().run(future, program, task, instances)
        if isinstance(task, list):
            task.clear()


@killed_by("RU-14")
class EmptiesTasks(pooled(Consuming)):
    """Clears away what is done."""


# --- its life


@killed_by("RU-15")
class TakesTasksAfterClose(Minimal):
    """The future is never done."""

    def submit(self, program, task):
        return Future() if self._closed else super().submit(program, task)


@killed_by("RU-15")
class StartsTwice(Minimal):
    """Takes other programs later on."""

    def start(self, programs):
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        super().start(programs)


class ToTheEnd(Pool):
    def stop(self):
        with self.lock:
            self.stopped = True
        for _ in self.threads:
            self.jobs.put(None)


@killed_by("RU-16")
class RunsItsQueueToTheEnd(pooled(ToTheEnd)):
    """Closes when all is done."""


class Dropping(Pool):
    def stop(self):
        with self.lock:
            self.stopped = True
        while not self.jobs.empty():
            self.jobs.get()
        for _ in self.threads:
            self.jobs.put(None)


@killed_by("RU-16")
class DropsWaitingFutures(pooled(Dropping)):
    """Who waits for them waits for ever."""


@killed_by("RU-16")
class ClosesOnce(Minimal):
    """A second time is an error."""

    def close(self):
        if self._closed:
            raise RuntimeError("closed already")
        super().close()


class Deaf(Pool):
    def close(self):
        """Nothing."""


@killed_by("RU-17")
class IgnoresClose(pooled(Deaf)):
    """Its threads go on."""


class Watched(Pool):
    def __init__(self, workers, programs):
        super().__init__(workers, programs)
        threading.Thread(target=time.sleep, args=(30,), name="watcher", daemon=True).start()


@killed_by("RU-17")
class LeaksAThread(pooled(Watched)):
    """Something looks after the pool, and goes on to."""


class Piped(Pool):
    def __init__(self, workers, programs):
        super().__init__(workers, programs)
        self.pipe = os.pipe()


@killed_by("RU-17")
class LeaksFiles(pooled(Piped)):
    """A pipe to wake workers with is never closed."""


class InSharedMemory(Pool):
    memory = []  # noqa: RUF012 - kept on purpose, until the interpreter ends

    def __init__(self, workers, programs):
        super().__init__(workers, programs)
        path = f"/dev/shm/zephon-mutant-{os.getpid()}-{time.monotonic_ns()}"
        with open(path, "w+b") as file:
            file.write(b"ring")
            file.flush()
            # Mapped, as such segments are: by that, others can tell whose it is.
            self.memory.append(mmap.mmap(file.fileno(), 4))
        atexit.register(os.unlink, path)


@killed_by("RU-17")
class LeaksSharedMemory(pooled(InSharedMemory)):
    """A segment is left until the interpreter ends."""


class Orphaning(ProcessPool):
    kept = []  # noqa: RUF012 - kept on purpose, until the interpreter ends

    def end(self, instances):
        self.kept.extend(instances.values())


@killed_by("RU-17")
class LeavesChildren(pooled(Orphaning, Maximal)):
    """Its processes wait for another task."""


@killed_by("RU-18")
class KnowsItsOwner(Minimal):
    """Its threads keep it alive."""

    def start(self, programs):
        super().start(programs)
        self._pool.owner = self


# --- much, several, lost


class Cutting(Pool):
    def succeeded(self, future, result):
        super().succeeded(future, changed(result, self._within_limits))

    def _within_limits(self, block):
        return block if block.data.nbytes < 1 << 24 else block.slice(0, len(block) // 2)


@killed_by("RU-19")
class CutsWhatIsLarge(pooled(Cutting)):
    """A length in too few bits."""


class Stalling(Pool):
    def run(self, future, program, task, instances):
        if self.jobs.qsize() > 500:
            future.set_exception(WorkerError("too many tasks", code="queue-full"))
        else:
            super().run(future, program, task, instances)


@killed_by("RU-19")
class RefusesALongQueue(pooled(Stalling)):
    """Turns tasks away while many wait."""


class Common(Pool):
    common = SimpleQueue()

    def __init__(self, workers, programs):
        super().__init__(workers, programs)
        for _ in self.threads:
            self.jobs.put(None)
        for thread in self.threads:
            thread.join()
        self.jobs = self.common
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(workers)]
        for thread in self.threads:
            thread.start()


@killed_by("RU-20")
class SharesAQueue(pooled(Common)):
    """All runners have one queue."""


class Fellow(Pool):
    all = []  # noqa: RUF012 - what is shared is the fault

    def __init__(self, workers, programs):
        super().__init__(workers, programs)
        self.all.append(self)

    def close(self):
        while self.all:
            Pool.close(self.all.pop())


@killed_by("RU-20")
class ClosesAll(pooled(Fellow)):
    """The first to close ends it for everybody."""


class Resigned(ProcessPool):
    def run(self, future, program, task, instances):
        child = instances.setdefault("child", None) or Child(self.programs)
        instances["child"] = child
        try:
            result, error = child.run(program, task)
        except Lost:
            instances.pop("child").close()
            self.failed(future, WorkerError("a worker was lost", code="worker-lost"))
        else:
            self.succeeded(future, result) if error is None else self.failed(future, error)


@killed_by("RU-21")
class LosesTheTaskOfALostWorker(pooled(Resigned, Maximal)):
    """The task goes down with its worker."""


class Waiting(ProcessPool):
    def run(self, future, program, task, instances):
        child = instances.setdefault("child", None) or Child(self.programs)
        instances["child"] = child
        try:
            result, error = child.run(program, task)
        except Lost:
            instances.pop("child").close()
        else:
            self.succeeded(future, result) if error is None else self.failed(future, error)


@killed_by("RU-21")
class SaysNothingOfALostWorker(pooled(Waiting, Maximal)):
    """Nobody is told that the task is lost."""


@killed_by("RU-21")
class SaysItCopies(Minimal):
    """Lies about where its tasks run."""

    shares_memory = False


class ByFirstValue(Pool):
    def __init__(self, workers, programs):
        self.known = {}
        super().__init__(workers, programs)

    def instance(self, program, instances):
        found = super().instance(program, instances)

        def remember(task):
            if not isinstance(task, tuple):
                return found(task)
            return self.known.setdefault((program, repr(task[0])), found(task))

        return remember


@killed_by("RU-22")
class RemembersByLane(pooled(ByFirstValue)):
    """Takes the tasks of a lane for one task."""


# --- reports


class ForgetsToReport(ProcessPool):
    """Tells of workers that come, and not of those that go."""

    def tell(self, event, name):
        if event == "start":
            super().tell(event, name)


ForgetsWhoGoes = killed_by("RU-23")(
    type("ForgetsWhoGoes", (Maximal,), {"pool": ForgetsToReport, "__doc__": "Forgets."})
)


@killed_by("RU-23")
class SaysItReports(Minimal):
    """Lies about a capability: declares what it lacks."""


@killed_by("RU-23")
class ReportsUnasked(Maximal):
    """Has the ability, but its descriptor does not say so."""


# --- hosts


@killed_by("RU-24")
class SaysItHosts(Minimal):
    """Lies about a capability: declares what it lacks."""


@killed_by("RU-24")
class HostsUnasked(Maximal):
    """Has the ability, but its descriptor does not say so."""


@killed_by("RU-24")
class HostsInAThread(Maximal):
    """The other end is in this very process."""

    @classmethod
    def host(cls, entry):
        mine, theirs = multiprocessing.Pipe()
        threading.Thread(target=run_hosted, args=(theirs, entry), daemon=True).start()
        return Pipe(mine)


@killed_by("RU-24")
class HostsAndSwallows(Maximal):
    """What the function raises is nobody's business."""

    @classmethod
    def host(cls, entry):
        line = hosted(entry)
        receive = line.receive

        def quietly(timeout=None):
            try:
                return receive(timeout)
            except ValueError:
                return None

        line.receive = quietly
        return line
