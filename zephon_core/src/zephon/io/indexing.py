"""Making a dataset's index: found where it was saved, built where it was not, in parallel, for changed shards only."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import attrs
import pyarrow as pa

from zephon.abc import Shard, ShardFormat, ShardIndex
from zephon.errors import EngineError, ShardError, StorageError, ZephonError
from zephon.io.index import DamagedIndexError, Index, IndexWriter, read_index
from zephon.io.listing import OWN_DIRECTORY
from zephon.io.progress import Progress
from zephon.io.shards import ShardTable
from zephon.io.storage import StorageContext
from zephon.io.urls import display
from zephon.spec import canonical_json

_logger = logging.getLogger("zephon.io")

_THREADS_PER_CPU: Final = 4
_MOST_THREADS: Final = 16
#: Shards that cannot be indexed and are named before giving up.
_MOST_FAILURES: Final = 20


@attrs.frozen(slots=True, kw_only=True)
class IndexJob:
    """What an index is made of and where it is kept.

    Attributes:
        name: the dataset, for messages.
        shards: its shards.
        format_name: registered name of the format.
        fmt: the format.
        context: where the files are.
        subject: plain data that says what the index is of: format, its options and version, which files.
        root: the dataset's directory, or None where there are several.
        directory: where the user wants the index kept, or None.
    """

    name: str
    shards: ShardTable
    format_name: str
    fmt: ShardFormat
    context: StorageContext
    subject: Any
    root: str | None
    directory: str | None

    def places(self) -> list[str]:
        """Files the index may be kept in, the preferred first."""
        key = hashlib.blake2b(canonical_json(self.subject), digest_size=8).hexdigest()
        where = self.root if self.root is not None else (self.shards.urls[0].as_py() if len(self.shards) else "")
        private = hashlib.blake2b(canonical_json([where, self.subject]), digest_size=12).hexdigest()
        if self.directory is not None:
            return [os.path.join(os.path.expanduser(self.directory), f"index-{private}.arrow")]
        places = []
        path = self.context.local_path(self.root) if self.root is not None else None
        if path is not None:
            places.append(os.path.join(path, OWN_DIRECTORY, f"index-{key}.arrow"))
        places.append(os.path.join(cache_directory(), f"index-{private}.arrow"))
        return places


def cache_directory() -> str:
    """Where indexes are kept that cannot lie beside their data: the one place that asks the environment for it."""
    own = os.environ.get("ZEPHON_CACHE_DIR")
    if own:
        return own
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "zephon")


def make_index(job: IndexJob) -> Index:
    """The index of a dataset's shards: loaded where every entry is valid, else built and saved.

    Raises:
        ShardError: shards that cannot be indexed, all of them if few.
        StorageError: the storage did not answer.
        EngineError: ``format-failed``.
    """
    old: Index | None = None
    for place in job.places():
        found = _load(place, job.subject)
        if found is not None and found.matches(job.shards):
            return found
        old = found if old is None else old
    return _build(job, old)


def index_shard(job: IndexJob, shard: Shard) -> ShardIndex:
    """Ask the format for one shard's entry.

    Raises:
        ShardError, StorageError, EngineError: with the shard named.
    """
    with guarded(job.name, job.format_name, shard):
        return job.fmt.index(shard, job.context)


class guarded:  # noqa: N801 - reads as a statement
    """Turns what a format raises about a shard into the errors the engine knows; use as a context manager."""

    __slots__ = ("_dataset", "_format", "_shard")

    def __init__(self, dataset: str, format_name: str, shard: Shard) -> None:
        self._dataset = dataset
        self._format = format_name
        self._shard = shard

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None or isinstance(error, (ZephonError, MemoryError)) or not isinstance(error, Exception):
            return
        where = f"shard {self._shard.name!r} of dataset {self._dataset!r}"
        at = display(self._shard.url)
        if isinstance(error, EOFError):
            raise ShardError(
                f"{where} is shorter than when it was listed",
                found=f"{at}: {error}; it had {self._shard.file.size} bytes",
                fix="do not change files while they are read; make the dataset anew if they were replaced",
                code="shard-changed",
            ) from error
        if isinstance(error, (FileNotFoundError, PermissionError)):
            gone = isinstance(error, FileNotFoundError)
            raise StorageError(
                f"{where} {'is gone' if gone else 'may not be read'}",
                found=f"{at} was listed, now: {type(error).__name__}",
                fix="put it back" if gone else "grant this user, or these storage options, read access",
                code="shard-missing",
            ) from error
        raise EngineError(
            f"the format {self._format!r} failed on {where}",
            found=f"{at}: {type(error).__name__}: {error}",
            fix=f"if the file is of this format, report this to whoever provides {self._format!r}",
            code="format-failed",
        ) from error


def _load(place: str, subject: Any) -> Index | None:
    """The index in a file, memory-mapped; None where there is none that can be used."""
    try:
        with pa.memory_map(place) as mapped:
            return read_index(mapped.read_buffer(), subject, place)
    except FileNotFoundError:
        return None
    except (DamagedIndexError, OSError, pa.ArrowException) as error:
        _logger.warning("the index %s is built anew: %s", place, error)
        return None


def _build(job: IndexJob, old: Index | None) -> Index:
    reused = {} if old is None else old.valid_entries(job.shards)
    _logger.info("indexing %s: %d shards, %d of them known", job.name, len(job.shards), len(reused))
    for place in job.places():
        temporary = _create_beside(place)
        if temporary is None:
            continue
        try:
            with pa.OSFile(temporary, "wb") as sink:
                _write(job, old, reused, sink)
            _sync(temporary)
            with pa.memory_map(temporary) as mapped:
                # Checked before it gets its name; the mapping outlives the renaming.
                index = read_index(mapped.read_buffer(), job.subject, place)
            if not index.matches(job.shards):
                raise DamagedIndexError("it does not fit the shards it was written for")
            os.replace(temporary, place)
            return index
        except (OSError, DamagedIndexError) as error:
            if isinstance(error, ZephonError):
                raise
            _logger.warning("the index of %s cannot be kept at %s: %s", job.name, place, error)
        finally:
            with suppress(OSError):
                os.unlink(temporary)
    sink = pa.BufferOutputStream()
    _write(job, old, reused, sink)
    return read_index(sink.getvalue(), job.subject)


def _create_beside(place: str) -> str | None:
    """A new empty file in the directory of ``place``, or None where none can be made."""
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".index-", suffix=".tmp", dir=os.path.dirname(place))
    except OSError:
        return None
    os.close(descriptor)
    # mkstemp makes files private; an index is as readable as the directory it lies in.
    with suppress(OSError):
        os.chmod(temporary, 0o644)
    return temporary


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(job: IndexJob, old: Index | None, reused: dict[int, int], sink: Any) -> None:
    """Write all entries, in order."""
    writer = IndexWriter(sink, job.subject)
    failures: list[ShardError] = []
    try:
        with Progress(f"indexing {job.name}", len(job.shards), "shards") as progress:
            for shard, entry in _entries(job, old, reused):
                if isinstance(entry, ShardError):
                    failures.append(entry)
                    if len(failures) >= _MOST_FAILURES:
                        break
                elif not failures:
                    writer.append(shard, entry)
                progress.step()
        if failures:
            raise _failure(job, failures)
    except BaseException:
        writer.abort()
        raise
    writer.close()


def _entries(
    job: IndexJob, old: Index | None, reused: dict[int, int]
) -> Iterator[tuple[Shard, ShardIndex | ShardError]]:
    """Every shard with its entry, in order: old ones where they are valid, new ones made by a pool of threads."""

    def make(i: int) -> tuple[Shard, ShardIndex | ShardError]:
        shard = job.shards[i]
        if old is not None and i in reused:
            with suppress(DamagedIndexError):
                return shard, old.entry(reused[i])
        try:
            return shard, index_shard(job, shard)
        except ShardError as error:
            return shard, error

    threads = min(_MOST_THREADS, _THREADS_PER_CPU * (os.cpu_count() or 1), max(1, len(job.shards) - len(reused)))
    yield from _in_order(make, len(job.shards), threads, give_up=job.context.close)


def _in_order(make: Callable[[int], Any], count: int, threads: int, give_up: Callable[[], None]) -> Iterator[Any]:
    """``make(0), make(1), ...`` by a pool that is never more than a few results ahead.

    ``give_up`` is called when no more results are wanted, before the running ones are waited for.
    """
    if threads == 1:
        yield from map(make, range(count))
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="zephon-index")
    ahead: deque[Future[Any]] = deque()
    try:
        for i in range(count):
            ahead.append(pool.submit(make, i))
            if len(ahead) >= 4 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    except BaseException:
        give_up()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _failure(job: IndexJob, failures: Sequence[ShardError]) -> ShardError:
    some = " or more" if len(failures) >= _MOST_FAILURES else ""
    counted = "a shard" if len(failures) == 1 else f"{len(failures)}{some} shards"
    summary = ShardError(
        f"{counted} of dataset {job.name!r} cannot be indexed",
        found="; ".join(f"{failure.what}: {failure.found}" for failure in failures),
        fix=failures[0].fix,
        code=failures[0].code,
    )
    summary.__cause__ = failures[0].__cause__ or failures[0]
    return summary
