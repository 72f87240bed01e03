"""Mutates golden files: what comes out is an error of ours or rows. ``python fuzz_arrow.py 2000`` runs many."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from zephon.abc import FileInfo, Shard
from zephon.errors import BadRowsError, DataError
from zephon_arrow.format import ArrowFormat
from zephon_testkit.files import DiskContext

GOLDEN = Path(__file__).parent / "golden"
FILES = ("uncompressed.feather", "lz4.feather", "zstd.feather", "legacy.arrow", "dictionaries.arrow")
STREAM = "saved/data-00000-of-00002.arrow"


def read_rows(path: Path, *, is_local: bool) -> pa.RecordBatch:
    """All rows that can be read, as the engine gets them under ``on_error="skip"``."""
    context = DiskContext(is_local=is_local)
    shard = Shard(url=str(path), name=path.name, file=FileInfo(url=str(path), size=path.stat().st_size))
    index = ArrowFormat().index(shard, context)
    reader = ArrowFormat().open(shard, index, context)
    rows = np.arange(index.rows)
    try:
        batch = reader.read(rows, None)
    except BadRowsError as error:
        batch = reader.read(np.setdiff1d(rows, [bad.row for bad in error.rows]), None)
    finally:
        reader.close()
    batch.validate(full=True)
    assert batch.schema.equals(index.schema)
    return batch


def fuzz(count: int, seed: int) -> Counter[str]:
    """Read ``count`` mutated files, from disk and from elsewhere in turn.

    A file cut short gives rows that were written, or an error. Of flipped bytes only that is asked, since Arrow has no
    checksums, that what comes out are whole rows of the right types; and no exception but ours.

    Returns:
        How often what happened.
    """
    random = Random(seed)
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            name = random.choice((*FILES, STREAM))
            original = (GOLDEN / name).read_bytes()
            content = bytearray(original)
            cut = random.random() < 0.3
            if cut:
                del content[random.randrange(len(content)) :]
            else:
                for _ in range(random.choice((1, 1, 2, 8))):
                    content[random.randrange(len(content))] = random.choice(
                        (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256))
                    )
            path = Path(folder) / f"{number}.arrow"
            path.write_bytes(content)
            try:
                batch = read_rows(path, is_local=number % 2 == 0)
            except DataError as error:
                found[error.code if path.name in str(error) else "an error that does not name the shard"] += 1
            else:
                if cut or content == original:
                    whole = read_rows(GOLDEN / name, is_local=False)
                    assert batch.equals(whole.slice(0, batch.num_rows)), f"wrong rows from {name} cut to {len(content)}"
                batch.to_pylist()
                found["rows"] += 1
            path.unlink()
    assert set(found) <= {"rows", "shard-corrupt", "shard-truncated", "shard-unsupported"}, found
    return found


if __name__ == "__main__":
    print(dict(fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
