"""Two runners that are right: threads that share a queue, and processes that may be lost."""

import contextlib
import threading
import warnings
import weakref
from concurrent.futures import Future, InvalidStateError
from queue import Empty, SimpleQueue

from zephon.abc import Runner, RunnerFacts
from zephon.errors import ConfigError, EngineError, WorkerError
from zephon_runner_mutants.children import Child, Lost, hosted


class Pool:
    """Threads that take tasks from one queue. Knows nothing of the runner, so that a runner can be garbage."""

    def __init__(self, workers, programs):
        self.programs = tuple(programs)
        self.jobs = SimpleQueue()
        self.lock = threading.RLock()
        self.stopped = False
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(workers)]
        for thread in self.threads:
            thread.start()

    def submit(self, program, task):
        """A future; None once stopped."""
        with self.lock:
            if self.stopped:
                return None
            future = Future()
            self.jobs.put((future, program, task))
            return future

    def work(self):
        """What one thread does."""
        instances = {}
        try:
            while (job := self.jobs.get()) is not None:
                if job[0].set_running_or_notify_cancel():
                    self.run(*job, instances)
                del job
        finally:
            self.end(instances)

    def run(self, future, program, task, instances):
        """One task."""
        try:
            result = self.instance(program, instances)(task)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asks for the result
            self.failed(future, error)
        else:
            self.succeeded(future, result)

    def instance(self, program, instances):
        """The worker's own instance."""
        if program not in instances:
            instances[program] = self.programs[program].open()
        return instances[program]

    def failed(self, future, error):
        """Tell what a task raised."""
        future.set_exception(error)

    def succeeded(self, future, result):
        """Hand a result over."""
        future.set_result(result)

    def end(self, instances):
        """Close what a worker has opened."""
        for instance in instances.values():
            if hasattr(instance, "close"):
                instance.close()

    def stop(self):
        """Cancel what waits, and tell the threads to end."""
        with self.lock:
            if self.stopped:
                return
            self.stopped = True
        with contextlib.suppress(Empty):
            while True:
                self.jobs.get_nowait()[0].cancel()
        for _ in self.threads:
            self.jobs.put(None)

    def close(self):
        """Stop, and wait for the threads."""
        self.stop()
        for thread in self.threads:
            thread.join()


class Minimal(Runner):
    """Threads that take tasks from one queue."""

    pool = Pool
    shares_memory = True

    def __init__(self, parallelism=None):
        self._parallelism = self.checked(parallelism)
        self._pool = None
        self._closed = False

    def checked(self, parallelism):
        """How many workers there are."""
        if parallelism is None:
            return 2
        if type(parallelism) is not int or parallelism < 1:
            raise ConfigError(
                "there is no such number of workers",
                found=f"parallelism={parallelism!r}",
                fix="pass a positive number",
                code="bad-parallelism",
            )
        return parallelism

    def start(self, programs):
        if self._pool is not None or self._closed:
            raise misused("start")
        self._pool = self.pool(self._parallelism, programs)
        weakref.finalize(self, self._pool.stop)

    def submit(self, program, task):
        future = None if self._pool is None else self._pool.submit(program, task)
        if future is None:
            raise misused("submit")
        return future

    def close(self):
        self._closed = True
        if self._pool is not None:
            self._pool.close()

    @property
    def facts(self):
        return RunnerFacts(workers=self._parallelism, shares_memory=self.shares_memory)


class ProcessPool(Pool):
    """Each thread has a process that does its work, and another one where it is lost."""

    report = None

    def work(self):
        name = threading.current_thread().name
        self.tell("start", name)
        super().work()
        self.tell("stop", name)

    def tell(self, event, name):
        if self.report is not None:
            self.report(event, name, "")

    def run(self, future, program, task, instances):
        for _ in range(3):
            if "child" not in instances:
                instances["child"] = Child(self.programs)
            try:
                result, error = instances["child"].run(program, task)
            except Lost:
                instances.pop("child").close()
                warnings.warn("a worker was lost; its task is run again", RuntimeWarning, stacklevel=1)
                continue
            with contextlib.suppress(InvalidStateError):
                if error is None:
                    self.succeeded(future, result)
                else:
                    self.failed(future, error)
            return
        self.failed(future, WorkerError("a task has ended three workers", found=repr(task), code="worker-lost"))


class Maximal(Minimal):
    """Processes that may be lost."""

    pool = ProcessPool
    shares_memory = False

    @classmethod
    def host(cls, entry):
        return hosted(entry)

    def report_workers(self, report):
        self.pool = type("Reporting", (self.pool,), {"report": staticmethod(report)})


def misused(call):
    return EngineError(f"{call}() was called at the wrong time", fix="make a new runner", code="runner-state")
