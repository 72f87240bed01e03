"""One fault each. Every class is the toy it derives from but for what is wrong with it."""

import contextlib
import itertools
import os
import threading
import time
from pathlib import Path
from urllib.parse import unquote

import attrs
import pyarrow as pa

from zephon.abc import FileInfo
from zephon_storage_mutants.toys import Maximal, Minimal, path_of

#: Name of the mutant -> the clause that must find it.
MUTANTS = {}


def killed_by(clause):
    def note(cls):
        MUTANTS["".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")] = clause
        return cls

    return note


@killed_by("ST-1")
class CountsBlocks(Minimal):
    """The size is that on the disk."""

    def stat(self, url):
        found = super().stat(url)
        return attrs.evolve(found, size=512 * os.stat(path_of(url)).st_blocks)


@killed_by("ST-1")
class TellsTheTime(Minimal):
    """The time of a file is the time it is asked for."""

    def stat(self, url):
        return attrs.evolve(super().stat(url), mtime=time.time())


@killed_by("ST-2")
class TakesDirectoriesForFiles(Minimal):
    """Looks at the size alone."""

    def stat(self, url):
        return FileInfo(url=url, size=os.stat(path_of(url)).st_size)


@killed_by("ST-3")
class MissingIsEmpty(Minimal):
    """A file that is not there has no bytes."""

    def read_ranges(self, url, ranges):
        if any(stop > start for start, stop in ranges):
            return super().read_ranges(url, ranges)
        return [pa.py_buffer(b"") for _ in ranges]


@killed_by("ST-3")
class LooksUpByPrefix(Minimal):
    """The first file whose name begins as asked for, as an object store's listing gives it."""

    def stat(self, url):
        path = Path(path_of(url))
        if not path.exists() and path.parent.is_dir():
            for name in sorted(os.listdir(path.parent)):
                if name.startswith(path.name) and (path.parent / name).is_file():
                    return FileInfo(url=url, size=(path.parent / name).stat().st_size)
        return super().stat(url)


@killed_by("ST-4")
class HidesALackOfRights(Minimal):
    """Whatever fails is not there."""

    def stat(self, url):
        try:
            return super().stat(url)
        except PermissionError as error:
            raise FileNotFoundError(*error.args) from error


@killed_by("ST-4")
class ListsWhatItMay(Minimal):
    """Directories that may not be read are passed over."""

    def list(self, url):
        try:
            yield from super().list(url)
        except PermissionError:
            return


@killed_by("ST-5")
class StopsAtTheSecondLevel(Minimal):
    """Deeper files are not found."""

    def list(self, url):
        depth = url.rstrip("/").count("/")
        return (info for info in super().list(url) if info.url.count("/") <= depth + 2)


@killed_by("ST-5")
class KnowsOnePage(Minimal):
    """A listing ends with its first page."""

    def list(self, url):
        return itertools.islice(super().list(url), 1000)


@killed_by("ST-5")
class ListsDirectories(Minimal):
    """Directories are entries, as in the console of an object store."""

    def list(self, url):
        for folder, _, _ in os.walk(path_of(url)):
            if folder != path_of(url):
                yield FileInfo(url=f"toy://{folder}/", size=0)
        yield from super().list(url)


@killed_by("ST-6")
class ComparesTexts(Minimal):
    """A directory's name is taken for a prefix."""

    def list(self, url):
        path = path_of(url).rstrip("/")
        super().list(url)
        for info in super().list(f"toy://{os.path.dirname(path)}"):
            if path_of(info.url).startswith(path):
                yield info


@killed_by("ST-6")
class DoublesTheSlash(Minimal):
    """A slash at the end of the directory ends up in the files' URLs."""

    def list(self, url):
        for info in super().list(url):
            yield attrs.evolve(info, url=info.url.replace(url.rstrip("/"), url, 1)) if url.endswith("/") else info


@killed_by("ST-7")
class ResolvesEscapes(Minimal):
    """A percent sign begins an escape."""

    def stat(self, url):
        return attrs.evolve(super().stat(unquote(url)), url=url)


@killed_by("ST-7")
class CutsAtTheQuestionMark(Minimal):
    """The rest of the name is taken for a query."""

    def read_ranges(self, url, ranges):
        return super().read_ranges(url.partition("?")[0].partition("#")[0], ranges)


@killed_by("ST-8")
class SortsRanges(Minimal):
    """Ranges come in the order of the file."""

    def read_ranges(self, url, ranges):
        return super().read_ranges(url, sorted(ranges))


@killed_by("ST-8")
class JoinsRanges(Minimal):
    """Equal ranges are read once, and given once."""

    def read_ranges(self, url, ranges):
        return super().read_ranges(url, list(dict.fromkeys(ranges)))


@killed_by("ST-8")
class CountsTheLastByte(Minimal):
    """Ranges are taken for closed ones, where there is another byte."""

    def piece(self, file, start, stop, size):
        return super().piece(file, start, min(stop + 1, size) if start else stop, size)


@killed_by("ST-9")
class ReadsAllForNothing(Minimal):
    """An empty range is no range at all, as ``bytes=5-4`` is over HTTP."""

    def piece(self, file, start, stop, size):
        return super().piece(file, *((start, stop) if stop > start else (0, size)), size)


@killed_by("ST-9")
class NeedsARange(Minimal):
    """Looks at the first range without asking whether there is one."""

    def read_ranges(self, url, ranges):
        assert ranges[0][0] >= 0
        return super().read_ranges(url, ranges)


@killed_by("ST-10")
class GivesWhatThereIs(Minimal):
    """A read past the end is a shorter read."""

    def piece(self, file, start, stop, size):
        return super().piece(file, min(start, size), min(stop, size), size)


@killed_by("ST-11")
class MapsFiles(Minimal):
    """Buffers look into the file."""

    def read_ranges(self, url, ranges):
        if os.stat(path_of(url)).st_size == 0 or any(stop > os.stat(path_of(url)).st_size for _, stop in ranges):
            return super().read_ranges(url, ranges)
        with pa.memory_map(path_of(url)) as mapped:
            whole = mapped.read_buffer()
        return [whole.slice(start, stop - start) for start, stop in ranges]


@killed_by("ST-11")
class ReusesItsMemory(Minimal):
    """All reads fill one buffer."""

    def __init__(self):
        self.memory = bytearray(1 << 20)

    def read_ranges(self, url, ranges):
        place, found = 0, []
        for piece in super().read_ranges(url, ranges):
            self.memory[place : place + piece.size] = bytes(piece)
            found.append(pa.py_buffer(memoryview(self.memory)[place : place + piece.size]))
            place += piece.size
        return found


@killed_by("ST-12")
class RemembersListings(Minimal):
    """A directory is listed once."""

    def __init__(self):
        self.listings = {}

    def list(self, url):
        if url not in self.listings:
            self.listings[url] = list(super().list(url))
        return iter(self.listings[url])


@killed_by("ST-12")
class RemembersOpenFiles(Minimal):
    """The content of a file is read once."""

    def __init__(self):
        self.contents = {}

    def read_ranges(self, url, ranges):
        if url not in self.contents:
            [self.contents[url]] = super().read_ranges(url, [(0, os.stat(path_of(url)).st_size)])
        whole = self.contents[url]
        if any(stop > whole.size for _, stop in ranges):
            raise EOFError(url)
        return [whole.slice(start, stop - start) for start, stop in ranges]


@killed_by("ST-12")
class HasOneEtagForAll(Minimal):
    """The etag says nothing of the content."""

    def stat(self, url):
        return attrs.evolve(super().stat(url), etag="W/1")


@killed_by("ST-13")
class RemembersTheCurrentUrl(Minimal):
    """What one call is about is kept where the next finds it."""

    def read_ranges(self, url, ranges):
        self.url = url
        time.sleep(0.0002)
        return super().read_ranges(self.url, ranges)


@killed_by("ST-13")
class BelongsToOneThread(Minimal):
    """Refuses the threads it was not made in, as some client libraries do."""

    def __init__(self):
        self.thread = threading.get_ident()

    def stat(self, url):
        if threading.get_ident() != self.thread:
            raise RuntimeError("made in another thread")
        return super().stat(url)


@killed_by("ST-14")
class ShowsItsOptions(Maximal):
    """The repr is that of a data class."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def __repr__(self):
        return f"Storage({self.options})"


@killed_by("ST-14")
class QuotesItsOptions(Maximal):
    """The cause of an error was made with the options."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def stat(self, url):
        try:
            return super().stat(url)
        except FileNotFoundError as error:
            raise FileNotFoundError(url) from ValueError(f"{error} with {self.options}")


@killed_by("ST-14")
class QuotesUrls(Minimal):
    """Errors quote the URL as it is, password and all."""

    def stat(self, url):
        try:
            return super().stat(url)
        except FileNotFoundError:
            raise FileNotFoundError(f"nothing at {url}") from None


KEPT = []


@killed_by("ST-15")
class LeavesFilesOpen(Minimal):
    """A read that fails does not close its file."""

    def read_ranges(self, url, ranges):
        file = open(path_of(url), "rb")  # noqa: SIM115 - the fault
        size = os.fstat(file.fileno()).st_size
        try:
            found = [self.piece(file, start, stop, size) for start, stop in ranges]
        except EOFError:
            KEPT.append(file)
            raise
        file.close()
        return found


@killed_by("ST-16")
class NotesTheTime(Minimal):
    """Reading a file changes its time."""

    def stat(self, url):
        return attrs.evolve(super().stat(url), mtime=os.stat(path_of(url)).st_mtime)

    def read_ranges(self, url, ranges):
        found = super().read_ranges(url, ranges)
        os.utime(path_of(url))
        return found


@killed_by("ST-16")
class LeavesASidecar(Minimal):
    """A listing is kept beside the data."""

    def list(self, url):
        found = list(super().list(url))
        Path(path_of(url), ".listing").write_text(str(len(found)))
        return iter(found)


@killed_by("ST-17")
class LeadsElsewhere(Maximal):
    """Escapes are resolved in paths, though they are none."""

    def local_path(self, url):
        return unquote(super().local_path(url))


@killed_by("ST-17")
class HidesItsPaths(Maximal):
    """Has local paths and does not say so."""


@killed_by("ST-18")
class WritesTheWholeBuffer(Maximal):
    """A slice is written with what it was cut from."""

    def write(self, url, data):
        parent = data.parent if isinstance(data, pa.Buffer) else None
        super().write(url, data if parent is None else parent)


@killed_by("ST-18")
class NeedsDirectories(Maximal):
    """Directories have to be there."""

    def write(self, url, data):
        if not Path(path_of(url)).parent.is_dir():
            raise FileNotFoundError(url)
        super().write(url, data)


@killed_by("ST-18")
class SaysItWrites(Minimal):
    """Declares a capability it has not."""


@killed_by("ST-19")
class WritesInPlace(Maximal):
    """A file is emptied, then filled."""

    def write(self, url, data):
        path = Path(path_of(url))
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            for start in range(0, len(data), 4096):
                file.write(memoryview(data)[start : start + 4096])
                file.flush()


@killed_by("ST-19")
class RemovesFirst(Maximal):
    """The old file is gone before the new one is there."""

    def write(self, url, data):
        Path(path_of(url)).unlink(missing_ok=True)
        time.sleep(0.001)
        super().write(url, data)


@killed_by("ST-19")
class ShowsItsTemporaryFiles(Maximal):
    """What is being written looks like data."""

    def write(self, url, data):
        super().write(f"{url}.part", data)
        time.sleep(0.002)
        os.replace(path_of(f"{url}.part"), path_of(url))


@killed_by("ST-20")
class LeavesHalfAFile(Maximal):
    """A temporary file stays behind when the disk is full."""

    def write(self, url, data):
        path = Path(path_of(url))
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.part")
        temporary.write_bytes(data)
        os.replace(temporary, path)


@killed_by("ST-20")
class SwallowsFailures(Maximal):
    """A write that fails looks like one that does not."""

    def write(self, url, data):
        with contextlib.suppress(OSError):
            super().write(url, data)


@killed_by("ST-21")
class RemembersWhatIsMissing(Minimal):
    """What was not there once is never there."""

    def __init__(self):
        self.missing = set()

    def stat(self, url):
        if url in self.missing:
            raise FileNotFoundError(url)
        try:
            return super().stat(url)
        except FileNotFoundError:
            self.missing.add(url)
            raise
