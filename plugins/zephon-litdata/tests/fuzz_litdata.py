"""Damages golden files at random: an error of ours, or the right rows.

Run it as a script for many: ``python plugins/zephon-litdata/tests/fuzz_litdata.py 3000 7``.

LitData has no checksums, so a flipped bit within a value cannot be told from another value. There the rows may differ,
but only in the rows the flipped bytes lie in; in a frame, a compressed chunk or an Arrow table, in any row of that. Nor
is what a row consists of said anywhere but in index.json: another name or dtype there is another name or dtype.
"""

from __future__ import annotations

import json
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
from zephon_litdata.format import LitDataFormat

INDEX = "index.json"
FOLDERS = (
    "rows",
    "pairs",
    "values",
    "tokens",
    "zstd",
    "zstd_tokens",
    "frames",
    "each",
    "table",
    "table_zstd",
    "mixed",
    "before/rows",
)


#: A field of pickles in one of them.
LEFT_OUT = ("scalar",)


def fuzz(count: int, seed: int) -> dict[str, int]:
    """Damage ``count`` copies of golden folders; how often which outcome was seen.

    Raises:
        AssertionError: another exception than ours, or wrong rows.
    """
    rng = random.Random(seed)
    formats = {folder: LitDataFormat(block_size=4 if "tokens" in folder else 0) for folder in FOLDERS}
    whole = {folder: _rows(GOLDEN / folder, formats[folder])[0] for folder in FOLDERS}
    outcomes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(count):
            folder = rng.choice(FOLDERS)
            copy = Path(shutil.copytree(GOLDEN / folder, Path(temporary) / str(number)))
            file = rng.choice(sorted(path for path in copy.iterdir() if path.is_file()))
            touched = _damage(file, rng)
            outcome = _judge(
                copy, file, touched, formats[folder], folder, whole[folder], f"{number} of seed {seed}: {file}"
            )
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            shutil.rmtree(copy)
    return outcomes


def _described(folder: Path) -> Any:
    """What index.json says a row consists of."""
    config = json.loads((folder / INDEX).read_bytes())["config"]
    return config["data_format"], config["data_spec"]


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


def _rows(folder: Path, fmt: LitDataFormat) -> tuple[dict[str, list[dict[str, Any]]], list[Exception], dict[str, Any]]:
    """Rows that can be read by shard, the errors met, and each shard's offsets."""
    found: dict[str, list[dict[str, Any]]] = {}
    errors: list[Exception] = []
    offsets: dict[str, Any] = {}
    context = DiskContext()
    for shard in shards(folder, fmt):
        try:
            index = fmt.index(shard, context)
            kind = index.blob.column("kind")[0].as_py()
            bounds = index.blob.column("offsets")[0].values.to_numpy() if kind in ("plain", "each") else None
            offsets[shard.name] = None if fmt.block_size else bounds
            names = [name for name in index.schema.names if name not in LEFT_OUT]
            reader = fmt.open(shard, index, context)
            rows = np.arange(index.rows)
            try:
                batch = reader.read(rows, names)
            except BadRowsError as error:
                errors.append(error)
                rows = np.setdiff1d(rows, [bad.row for bad in error.rows])
                batch = reader.read(rows, names)
            found[shard.name] = [{"row": int(n)} | row for n, row in zip(rows, batch.to_pylist(), strict=True)]
        except (ShardError, ConfigError) as error:
            errors.append(error)
    return found, errors, offsets


def _judge(copy: Path, file: Path, touched: range, fmt: LitDataFormat, folder: str, whole: Any, label: str) -> str:
    try:
        found, errors, offsets = _rows(copy, fmt)
    except Exception as error:
        raise AssertionError(f"{label}: {type(error).__name__}: {error}") from error
    for shard, rows in found.items():
        right = {repr(row) for row in whole[shard]}
        wrong = [row["row"] for row in rows if repr(row) not in right]
        if not wrong:
            continue
        if file.name == INDEX and _described(copy) != _described(GOLDEN / folder):
            return "description changed"
        assert shard == file.name, f"{label}: a shard that was not damaged has wrong rows {wrong}"
        bounds = offsets[shard]
        if bounds is None:
            return "content changed"
        hit = {int(np.searchsorted(bounds, at, side="right")) - 1 for at in touched}
        assert set(wrong) <= hit, f"{label}: rows {wrong} are wrong, damaged were {sorted(hit)}"
        return "value changed"
    if errors:
        return type(errors[0]).__name__
    return "unharmed"


if __name__ == "__main__":
    print(fuzz(int(sys.argv[1]), int(sys.argv[2])))
