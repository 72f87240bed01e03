"""Damages golden files at random: an error of ours, or the right rows.

Run it as a script for many: ``python plugins/zephon-mds/tests/fuzz_mds.py 3000 7``.

What a plain shard without a hash cannot tell is a flipped bit within a value: there the rows may differ, but only in
the rows the flipped bytes lie in. The same is true of zstd, Brotli and Snappy, anywhere in the shard. With
``validate_hash`` no damage passes.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from .conftest import GOLDEN, DiskContext, shards
else:
    sys.path.insert(0, str(Path(__file__).parent))
    from conftest import GOLDEN, DiskContext, shards  # type: ignore[no-redef,import-not-found]

from zephon.errors import BadRowsError, ConfigError, ShardError
from zephon_mds.format import MdsFormat

FOLDERS = ("scalars", "arrays", "zstd", "gz", "br", "bz2", "snappy", "zstd_arrays", "streams/a")


def fuzz(count: int, seed: int) -> dict[str, int]:
    """Damage ``count`` copies of golden folders; how often which outcome was seen.

    Raises:
        AssertionError: another exception than ours, or wrong rows.
    """
    rng = random.Random(seed)
    whole = {folder: _rows(GOLDEN / folder, MdsFormat())[0] for folder in FOLDERS}
    outcomes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(count):
            folder = rng.choice(FOLDERS)
            copy = Path(shutil.copytree(GOLDEN / folder, Path(temporary) / str(number)))
            file = rng.choice(sorted(path for path in copy.iterdir() if path.is_file()))
            touched = _damage(file, rng)
            has_hash = folder in ("scalars", "arrays", "zstd", "gz", "br", "bz2", "snappy")
            checked = MdsFormat(validate_hash="sha1") if has_hash and rng.random() < 0.5 else MdsFormat()
            outcome = _judge(copy, file, touched, checked, whole[folder], f"{number} of seed {seed}: {file}")
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            shutil.rmtree(copy)
    return outcomes


def _damage(file: Path, rng: random.Random) -> range:
    """Cut a file, or change some bytes of it; the place of the change."""
    content = bytearray(file.read_bytes())
    place = rng.randrange(len(content))
    if rng.random() < 0.3:
        file.write_bytes(content[:place])
        return range(place, len(content))
    changed = range(place, min(len(content), place + rng.choice((1, 1, 4))))
    for at in changed:
        content[at] ^= rng.randrange(1, 256)
    file.write_bytes(content)
    return changed


def _has_no_checksum(shard: str) -> bool:
    """Whether a compression lets one know: gzip and bzip2 carry checksums, the others as MDS writes them do not."""
    return not shard.endswith((".gz", ".bz2"))


def _rows(folder: Path, fmt: MdsFormat) -> tuple[dict[str, list[dict[str, Any]]], list[Exception], dict[str, Any]]:
    """Rows that can be read by shard, the errors met, and each shard's offsets."""
    found: dict[str, list[dict[str, Any]]] = {}
    errors: list[Exception] = []
    offsets: dict[str, Any] = {}
    context = DiskContext()
    for shard in shards(folder, fmt):
        try:
            index = fmt.index(shard, context)
            offsets[shard.name] = index.blob.column("offsets")[0].values if index.blob else None
            reader = fmt.open(shard, index, context)
            rows = np.arange(index.rows)
            try:
                batch = reader.read(rows, None)
            except BadRowsError as error:
                errors.append(error)
                rows = np.setdiff1d(rows, [bad.row for bad in error.rows])
                batch = reader.read(rows, None)
            found[shard.name] = [{"row": int(n)} | row for n, row in zip(rows, batch.to_pylist(), strict=True)]
        except (ShardError, ConfigError) as error:
            errors.append(error)
    return found, errors, offsets


def _judge(copy: Path, file: Path, touched: range, fmt: MdsFormat, whole: Any, label: str) -> str:
    try:
        found, errors, offsets = _rows(copy, fmt)
    except Exception as error:
        raise AssertionError(f"{label}: {type(error).__name__}: {error}") from error
    for shard, rows in found.items():
        right = {repr(row) for row in whole[shard]}
        wrong = [row["row"] for row in rows if repr(row) not in right]
        if not wrong:
            continue
        assert shard == file.name, f"{label}: a shard that was not damaged has wrong rows {wrong}"
        assert not fmt.validate_hash, f"{label}: wrong rows {wrong} in spite of their hash"
        if offsets[shard] is None:
            assert _has_no_checksum(shard), f"{label}: wrong rows {wrong} in spite of the checksum of {shard}"
            return "content changed"
        bounds = offsets[shard].to_numpy()
        hit = {int(np.searchsorted(bounds, at, side="right")) - 1 for at in touched}
        assert set(wrong) <= hit, f"{label}: rows {wrong} are wrong, damaged were {sorted(hit)}"
        return "value changed"
    if errors:
        return type(errors[0]).__name__
    return "unharmed"


if __name__ == "__main__":
    print(fuzz(int(sys.argv[1]), int(sys.argv[2])))
