"""Mutates golden files: what comes out is an error of ours or the right rows. ``python fuzz_csv.py 2000`` runs many."""

from __future__ import annotations

import csv
import io
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from zephon.abc import FileInfo, Shard, ShardFormat
from zephon.errors import BadRowsError, DataError
from zephon_csv.table import CsvFormat
from zephon_testkit.files import DiskContext

GOLDEN = Path(__file__).parent / "golden"
FILES = ("pandas.csv", "pandas.tsv", "pandas.csv.gz", "pandas.csv.zst", "polars.csv", "arrow.csv", "stray.csv")
CODES = {"rows", "shard-corrupt", "shard-truncated", "duplicate-field"}


def read_rows(path: Path, fmt: ShardFormat, *, is_local: bool = True) -> tuple[pa.RecordBatch, list[int]]:
    """All rows that can be read, and the numbers of those that can not."""
    context = DiskContext(is_local=is_local)
    shard = Shard(url=str(path), name=path.name, file=FileInfo(url=str(path), name=path.name, size=path.stat().st_size))
    index = fmt.index(shard, context)
    reader = fmt.open(shard, index, context)
    rows = np.arange(index.rows)
    bad: list[int] = []
    try:
        batch = reader.read(rows, None)
    except BadRowsError as error:
        bad = [row.row for row in error.rows]
        batch = reader.read(np.setdiff1d(rows, bad), None)
    finally:
        reader.close()
    batch.validate(full=True)
    assert batch.schema.equals(index.schema)
    return batch, bad


def reference(data: bytes, delimiter: str) -> list[list[Any]]:
    """The records of a CSV file, as the standard library reads them, without blank lines."""
    text = io.StringIO(data.decode("utf-8-sig", errors="replace"), newline="")
    return [record for record in csv.reader(text, delimiter=delimiter) if record]


def fuzz(count: int, seed: int) -> Counter[str]:
    """Read ``count`` mutated files as text columns, and compare them with what the standard library reads.

    Returns:
        How often what happened.
    """
    random = Random(seed)
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            name = random.choice(FILES)
            content = bytearray((GOLDEN / name).read_bytes())
            if random.random() < 0.3:
                del content[random.randrange(len(content)) :]
            else:
                for _ in range(random.choice((1, 1, 2, 8))):
                    content[random.randrange(len(content))] = random.choice(b'",\t\n\r\0\xff\x80aZ0')
            path = Path(folder) / f"{number}-{name}"
            path.write_bytes(content)
            try:
                typed, bad = read_rows(path, CsvFormat(), is_local=number % 2 == 0)
            except DataError as error:
                found[error.code if path.name in str(error) else "an error that does not name the shard"] += 1
            else:
                types = dict.fromkeys(typed.schema.names, "string")
                batch, still_bad = read_rows(path, CsvFormat(column_types=types), is_local=number % 2 == 1)
                assert still_bad == bad
                if name.endswith((".csv", ".tsv")):
                    _compare(bytes(content), "\t" if name.endswith(".tsv") else ",", batch, bad)
                found["rows"] += 1
            path.unlink()
    assert set(found) <= CODES, found
    return found


def _compare(content: bytes, delimiter: str, batch: pa.RecordBatch, bad: list[int]) -> None:
    expected = reference(content, delimiter)
    names, rows = (expected[0], expected[1:]) if expected else ([], [])
    assert batch.schema.names == names
    assert batch.num_rows + len(bad) == len(rows)
    found = iter(batch.to_pylist())
    for number, row in enumerate(rows):
        if number not in bad:
            assert list(next(found).values()) == row, f"row {number} of {content!r}"
        else:
            replaced = any("\ufffd" in value for value in row)
            assert len(row) != len(names) or replaced or number == len(rows) - 1, f"row {number} is not bad: {row}"


if __name__ == "__main__":
    print(dict(fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
