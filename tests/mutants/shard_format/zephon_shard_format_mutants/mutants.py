"""One fault each. Every class is the toy it derives from but for what is wrong with it."""

import json
import os
import random
import threading
import time
from pathlib import Path
from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import ShardIndex
from zephon.errors import ShardError
from zephon_shard_format_mutants.toys import SCHEMA, Maximal, MaximalReader, Minimal, MinimalReader, decode

#: Name of the mutant -> the clause that must find it.
MUTANTS = {}


def killed_by(clause):
    def note(cls):
        name = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")
        MUTANTS[name] = clause
        return attrs.frozen(slots=True)(cls)

    return note


def reading(reader, base=Minimal):
    """A format whose readers are of another class."""

    class Format(base):
        def open(self, shard, index, context):
            made = super().open(shard, index, context)
            made.__class__ = reader
            return made

    return Format


@killed_by("SF-1")
class ClaimsEverything(Minimal):
    """Recognises any file."""

    def recognise(self, head):
        return True


@killed_by("SF-1")
class TripsOverShortFiles(Minimal):
    """Recognition looks at a byte that may not be there."""

    def recognise(self, head):
        return head.head[3] == ord("1") and head.head[:3] == b"TOY"


@killed_by("SF-2")
class TakesReadmes(Minimal):
    """Every file of a folder is taken for a shard."""

    def discover(self, files):
        return [attrs.evolve(s, name=s.name) for s in super().discover(map(renamed, files))]


def renamed(file):
    return file if file.name.endswith(".toy") else attrs.evolve(file, name=f"{file.name}.toy")


@killed_by("SF-2")
class NumbersByListing(Minimal):
    """Shards are named by their place in the listing."""

    def discover(self, files):
        found = super().discover(files)
        return [attrs.evolve(s, name=f"{i}-{s.file.size}") for i, s in enumerate(found)]


@killed_by("SF-3")
class OneRowShort(Minimal):
    """Forgets the last row of a shard that has several."""

    def index(self, shard, context):
        index = super().index(shard, context)
        rows = index.rows - 1 if index.rows > 2 else index.rows
        return attrs.evolve(index, rows=rows, units=np.array(sorted({0, rows}), dtype=np.int64))

    def open(self, shard, index, context):
        return MinimalReader(read_records(shard, context))


def read_records(shard, context):
    index = Minimal().index(shard, context)
    return Minimal().open(shard, index, context).records


@killed_by("SF-4")
class UnitsOverlap(Maximal):
    """Unit boundaries are starts only: the last one is missing."""

    def index(self, shard, context):
        index = super().index(shard, context)
        return attrs.evolve(index, units=index.units[:-1] if len(index.units) > 2 else index.units)


def large(self, rows, columns):
    batch = MinimalReader.read(self, rows, columns)
    return batch.cast(pa.schema([(f.name, pa.large_string() if f.name == "text" else f.type) for f in batch.schema]))


@killed_by("SF-5")
class LargeStrings(reading(type("_", (MinimalReader,), {"read": large}))):
    """Returns what the library gives instead of canonical types."""


SEEN = set()


@killed_by("SF-6")
class RemembersItsFiles(Minimal):
    """Indexing leaves something in a module, and readers look for it there."""

    def index(self, shard, context):
        SEEN.add(shard.url)
        return super().index(shard, context)

    def open(self, shard, index, context):
        records = read_records(shard, context)
        return MinimalReader(records if shard.url in SEEN else [b'{"text": null, "n": null}' for _ in records])


class HashedReader(MinimalReader):
    """Picks a spelling by Python's hash of the text."""

    def read(self, rows, columns):
        records = [self.records[row] for row in rows]
        return decode(
            [record.replace(b"plain", b"PLAIN") if hash(str(record)) % 2 else record for record in records], columns
        )


@killed_by("SF-6")
class DecidesByHash(reading(HashedReader)):
    """What a row is depends on the process that reads it."""


def off_by_one(self, rows, columns):
    contiguous = len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1
    if contiguous or len(rows) < 2:
        return decode([self.records[row] for row in rows], columns)
    # gaps are skipped, but the row after a gap is the one before it
    kept = [self.records[row if i == 0 or rows[i - 1] == row - 1 else row - 1] for i, row in enumerate(rows)]
    return decode(kept, columns)


@killed_by("SF-7")
class OffByOneAfterAGap(reading(type("_", (MinimalReader,), {"read": off_by_one}))):
    """A slice that begins one row too early after a gap."""


@killed_by("SF-7")
class ReadsARowTooMany(
    reading(
        type(
            "_",
            (MinimalReader,),
            {"read": lambda self, rows, columns: decode([self.records[r] for r in one_more(self, rows)], columns)},
        )
    )
):
    """The end of a range is taken for its last row."""


def one_more(self, rows):
    rows = list(rows)
    return [*rows, rows[-1] + 1] if len(rows) > 3 and rows[-1] + 1 < len(self.records) else rows


@killed_by("SF-8")
class FileOrderOfColumns(
    reading(
        type(
            "_",
            (MinimalReader,),
            {
                "read": lambda self, rows, columns: MinimalReader.read(
                    self, rows, None if columns is None else [n for n in SCHEMA.names if n in columns]
                )
            },
        )
    )
):
    """Columns come in the file's order, whatever was asked for."""


@killed_by("SF-8")
class LosesRowsWithoutColumns(
    reading(
        type(
            "_",
            (MinimalReader,),
            {
                "read": lambda self, rows, columns: (
                    pa.RecordBatch.from_arrays([], names=[])
                    if columns is not None and not columns
                    else MinimalReader.read(self, rows, columns)
                )
            },
        )
    )
):
    """A batch without columns has no rows either."""


class ForwardReader(MinimalReader):
    """Only ever moves forward."""

    def read(self, rows, columns):
        place = getattr(self, "place", 0)
        behind = [row for row in rows if row < place]
        if len(rows):
            self.place = int(rows[-1])
        return decode([self.records[place if row in behind else row] for row in rows], columns)


@killed_by("SF-9")
class CannotGoBack(reading(ForwardReader)):
    """A cursor that does not turn back."""


class SharedBuffer(MinimalReader):
    """Every batch's numbers lie in one buffer, which the next read overwrites."""

    numbers = np.zeros(4096, dtype=np.int64)

    def read(self, rows, columns):
        batch = MinimalReader.read(self, rows, columns)
        if "n" not in batch.schema.names:
            return batch
        column = batch.column("n")
        self.numbers[: len(rows)] = column.fill_null(0).to_numpy(zero_copy_only=False)
        shared = pa.Array.from_buffers(
            pa.int64(), len(rows), [mask(column), pa.py_buffer(self.numbers)], null_count=column.null_count
        )
        return batch.set_column(batch.schema.get_field_index("n"), batch.schema.field("n"), shared)


def mask(column):
    valid = np.packbits(column.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    return pa.py_buffer(valid.tobytes())


@killed_by("SF-10")
class ReusesItsBuffer(reading(SharedBuffer)):
    """State aliasing: what was read changes with the next read."""


class OneAtATime(MinimalReader):
    """Readers share a place to put what they read."""

    current: ClassVar = [None]

    def read(self, rows, columns):
        self.current[0] = [self.records[row] for row in rows]
        time.sleep(0)
        time.sleep(0.0002)
        return decode(self.current[0], columns)


@killed_by("SF-11")
class SharesAPlace(reading(OneAtATime)):
    """A class attribute stands for what belongs to one reader."""


@killed_by("SF-12")
class OpensThePathItself(Minimal):
    """Reads through the operating system, not through the context."""

    def open(self, shard, index, context):
        path = context.local_path(shard.url)
        if path is None:
            return MinimalReader([b'{"text": "", "n": 0}'] * index.rows)
        return super().open(shard, index, context)


KEPT = []


@killed_by("SF-13")
class LeavesFilesOpen(Minimal):
    """Keeps a handle per reader."""

    def open(self, shard, index, context):
        KEPT.append(open(context.local_path(shard.url) or os.devnull, "rb"))  # noqa: SIM115 - the fault
        return super().open(shard, index, context)


@killed_by("SF-13")
class LeavesThreads(Minimal):
    """Starts a thread per reader that never ends."""

    def open(self, shard, index, context):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        return super().open(shard, index, context)


@killed_by("SF-14")
class LeavesASidecar(Minimal):
    """Caches its index beside the data."""

    def index(self, shard, context):
        index = super().index(shard, context)
        if context.local_path(shard.url):
            Path(f"{shard.url}.idx").write_text(json.dumps({"rows": index.rows}))
        return index


@killed_by("SF-15")
class LetsErrorsOut(Minimal):
    """A damaged file is whatever the library makes of it."""

    def index(self, shard, context):
        content = context.read_all(shard.url).to_pybytes()
        if len(content) < 12:
            raise IndexError("index out of range")
        return super().index(shard, context)


@killed_by("SF-15")
class FillsInWhatIsMissing(Minimal):
    """Swallows the error: rows that cannot be read become rows without values."""

    def index(self, shard, context):
        content = context.read_all(shard.url).to_pybytes()
        rows = int.from_bytes(content[4:8], "little") if len(content) >= 8 else 0
        return ShardIndex(rows=rows, units=np.array(sorted({0, rows}), dtype=np.int64), schema=SCHEMA)

    def open(self, shard, index, context):
        try:
            return super().open(shard, index, context)
        except ShardError:
            return MinimalReader([b'{"text": null, "n": null}'] * index.rows)


@killed_by("SF-16")
class TrustsAnOldIndex(Minimal):
    """Reads another file under the old row numbers."""

    def open(self, shard, index, context):
        records = read_records(shard, context)
        return MinimalReader([records[row % len(records)] for row in range(index.rows)] if records else [])


@killed_by("SF-17")
class ReadsBadRows(Minimal):
    """Announces a bad row, and returns it."""

    def index(self, shard, context):
        index = super().index(shard, context)
        return attrs.evolve(index, bad_rows=((1, 0, "odd"),)) if index.rows > 1 else index


@killed_by("SF-18")
class HoldsALiveObject(Minimal):
    """An option that is no plain data."""

    lock: object = attrs.field(factory=threading.Lock)


@killed_by("SF-19")
class TouchesMoreThanAnnounced(
    reading(
        type(
            "_",
            (MaximalReader,),
            {
                "read": lambda self, rows, columns: (
                    self.context.read_ranges(self.shard.url, [(0, 12)]),
                    MaximalReader.read(self, rows, columns),
                )[1]
            },
        ),
        Maximal,
    )
):
    """Reads the header again on every read."""


@killed_by("SF-19")
class HidesItsRanges(Maximal):
    """Has the ability, but its descriptor does not say so."""


@killed_by("SF-20")
class ExcludesTheLargest(
    reading(
        type(
            "_",
            (MaximalReader,),
            {
                "may_match": lambda self, predicate, units: (
                    MaximalReader.may_match(self, predicate, units) & open_end(self, units, predicate)
                )
            },
        ),
        Maximal,
    )
):
    """Takes the largest value of a unit for the end of a half-open range."""


def open_end(self, units, predicate):
    text = str(predicate)
    if not text.startswith("(n =="):
        return np.ones(len(units), dtype=np.bool_)
    largest = self.index.blob.column("largest")[0].as_py()
    return np.array([largest[u] != int(text.removeprefix("(n ==").rstrip(")")) for u in units], np.bool_)


@killed_by("SF-20")
class SaysItHasPredicates(Minimal):
    """Lies about a capability: declares what it lacks."""


@killed_by("SF-21")
class DropsTheLastBatch(Maximal):
    """Writes all batches but the last."""

    def write(self, path, batches, schema):
        super().write(path, list(batches)[:-1], schema)


@killed_by("SF-21")
class LeavesHalfAFile(Maximal):
    """Writes in place, batch after batch."""

    def write(self, path, batches, schema):
        written = []
        for batch in batches:
            written.append(batch)
            super().write(path, written, schema)


class GlobalRandom(MinimalReader):
    """A global generator decides about long texts."""

    def read(self, rows, columns):
        batch = MinimalReader.read(self, rows, columns)
        return batch.slice(0, 0) if len(rows) and random.random() < 0.01 else batch


@killed_by("SF-9")
class LosesRowsAtRandom(reading(GlobalRandom)):
    """Now and then a read comes back empty."""


@killed_by("SF-22")
class NamesShardsByTheClock(Minimal):
    """Names depend on when the listing was made, so their order does."""

    def discover(self, files):
        found = super().discover(files)
        if len(found) < 3:
            return found
        turn = time.monotonic_ns() // 1000
        return [attrs.evolve(s, name=f"{(i * 7 + turn) % 101:03}-{s.name}") for i, s in enumerate(found)]
