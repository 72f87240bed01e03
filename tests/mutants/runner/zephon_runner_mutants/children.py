"""A process that runs tasks, and how tasks and results get there and back."""

import io
import multiprocessing
import pickle
import traceback

import pyarrow as pa

from zephon.block import Block
from zephon.errors import PeerGoneError


class Lost(Exception):
    """The process is no more."""


class Child:
    """A process forked from a clean server, never from this one."""

    def __init__(self, programs):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["zephon.block", "pyarrow.ipc"])
        self._mine, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, packed(programs)), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, program, task):
        """Result and exception of a task; one of them is None.

        Raises:
            Lost: the process has ended.
        """
        try:
            self._mine.send_bytes(packed((program, task)))
            return pickle.loads(self._mine.recv_bytes())
        except (EOFError, OSError) as error:
            raise Lost from error

    def close(self):
        """Let it close its instances and end."""
        try:
            self._mine.send_bytes(b"")
        except OSError:
            self._process.kill()
        self._process.join()
        self._process.close()
        self._mine.close()


def serve(pipe, programs):
    """Run tasks until there are no more."""
    programs, instances = pickle.loads(programs), {}
    while content := pipe.recv_bytes():
        program, task = pickle.loads(content)
        try:
            if program not in instances:
                instances[program] = programs[program].open()
            answer = packed((instances[program](task), None))
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asks for the result
            answer = packed((None, sendable(error)))
        pipe.send_bytes(answer)
    for instance in instances.values():
        if hasattr(instance, "close"):
            instance.close()


def sendable(error):
    """The exception with its traceback as a note, or, where it does not survive pickling, one that says the same."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - pickling may raise anything
        again = None
    if type(again) is type(error) and str(again) == str(error):
        return error
    other = RuntimeError(f"{type(error).__name__}: {error}")
    other.add_note(error.__notes__[-1])
    return other


def packed(value):
    """Bytes of plain data; blocks in them as Arrow IPC, of which a slice is no more than its rows."""
    sink = io.BytesIO()
    _Pickler(sink, protocol=5).dump(value)
    return sink.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if isinstance(value, Block):
            batch = value.to_record_batch()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            return _block, (sink.getvalue().to_pybytes(),)
        return NotImplemented


def _block(content):
    return Block.from_record_batch(pa.ipc.open_stream(content).read_next_batch())


class Pipe:
    """A line over a pipe, and the process at its other end, if this end has started one."""

    def __init__(self, pipe, process=None):
        self._pipe, self._process = pipe, process

    def send(self, kind, obj=None):
        try:
            self._pipe.send_bytes(packed((kind, obj)))
        except OSError as error:
            raise PeerGoneError from error

    def receive(self, timeout=None):
        try:
            if not self._pipe.poll(timeout):
                return None
            kind, obj = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise PeerGoneError from error
        if kind == "failed":
            raise obj
        return kind, obj

    def fileno(self):
        return self._pipe.fileno()

    def close(self):
        self._pipe.close()
        if self._process is not None:
            self._process.join()
            self._process.close()
            self._process = None


def hosted(entry):
    """This end of a line to a process that runs a function."""
    context = multiprocessing.get_context("forkserver")
    mine, theirs = context.Pipe()
    process = context.Process(target=run_hosted, args=(theirs, entry), daemon=True)
    process.start()
    theirs.close()
    return Pipe(mine, process)


def run_hosted(pipe, entry):
    """The other end."""
    line = Pipe(pipe)
    try:
        entry(line)
    except PeerGoneError:
        return
    except Exception as error:  # noqa: BLE001 - raised on the other side
        line.send("failed", sendable(error))
    line.close()
