"""A dataset, written anew in another format: row for row, shard by shard, and again from where it was interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import WritesShards
from zephon.block import ORIGIN_DTYPES, Origins
from zephon.errors import BadRowsError, ConfigError, DataError
from zephon.io.dataset import Dataset
from zephon.io.progress import Progress
from zephon.io.reader import BlockReader
from zephon.io.recognise import make_format
from zephon.plugins import registry

#: What is done, in the destination; its name keeps it out of the dataset.
MANIFEST: Final = ".zephon-convert.json"
#: Rows read at once.
_ROWS: Final = 1024


@attrs.frozen(kw_only=True)
class Converted:
    """What a conversion wrote.

    Attributes:
        rows: of the dataset.
        shards: files of the destination.
        written: those of them written this time; the others had been there.
        nbytes: bytes of all files.
    """

    rows: int
    shards: int
    written: int
    nbytes: int


def convert(dataset: Dataset, destination: str | Path, to: str, *, shard_bytes: int = 256 << 20) -> Converted:
    """Write a dataset's rows, in order, as shards of a format.

    Which row goes to which shard depends on the dataset and ``shard_bytes`` alone, so a conversion that was interrupted
    goes on behind the shards it has finished. Each is known by its checksum in ``.zephon-convert.json``.

    Args:
        dataset: what to convert.
        destination: a local directory, new, empty, or of the same conversion.
        to: name of a format that can be written.
        shard_bytes: about how many bytes of the dataset's files go into a shard.

    Raises:
        ConfigError: ``convert-cannot-write``, ``convert-destination``.
        DataError: ``bad-row``: a row cannot be read.
    """
    writer = make_format(to, {})
    if not isinstance(writer, WritesShards):
        able = [n for n, d in registry("shard_format").descriptors().items() if "write" in d.capabilities]
        raise ConfigError(
            f"the format {to!r} cannot be written",
            found=f"those that can: {', '.join(sorted(able)) or 'none is installed'}",
            fix="convert to one of these",
            code="convert-cannot-write",
        )
    folder = Path(destination)
    rows = dataset.total()
    shards = max(1, -(-dataset.total_bytes() // shard_bytes))
    per_shard = -(-rows // shards)
    plan = {"dataset": dataset.fingerprint, "format": to, "rows": rows, "rows_per_shard": per_shard}
    done = _done(folder, plan)
    suffix = _suffix(to)
    starts = range(0, rows, per_shard)
    written = 0
    reader = BlockReader([dataset], dataset.schema)
    try:
        with Progress(f"converting {dataset.name}", len(starts), "shards") as progress:
            for number, start in enumerate(starts):
                name = f"part-{number:05d}{suffix}"
                path = folder / name
                if name not in done or done[name] != _digest(path):
                    batches = _batches(dataset, reader, start, min(start + per_shard, rows))
                    writer.write(str(path), batches, dataset.schema)
                    digest = _digest(path)
                    assert digest is not None, "the format has written its file"
                    done[name] = digest
                    _save(folder, plan, done)
                    written += 1
                progress.step()
    finally:
        reader.close()
    nbytes = sum((folder / name).stat().st_size for name in done)
    return Converted(rows=rows, shards=len(starts), written=written, nbytes=nbytes)


def _batches(dataset: Dataset, reader: BlockReader, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    ends = np.cumsum(dataset.shard_rows)
    for first in range(start, stop, _ROWS):
        numbers = np.arange(first, min(first + _ROWS, stop), dtype=np.int64)
        shard = np.searchsorted(ends, numbers, side="right")
        columns: dict[str, Any] = {name: np.zeros(len(numbers), dtype) for name, dtype in ORIGIN_DTYPES.items()}
        begin = np.concatenate([[0], ends])[shard]
        pointers = Origins(**{**columns, "shard": shard, "row": numbers - begin})
        try:
            yield reader.read(pointers)
        except BadRowsError as error:
            bad = error.rows[0]
            shard_name = dataset.shard_names[int(shard[bad.row])]
            raise DataError(
                "a row cannot be read",
                found=f"row {int(pointers.row[bad.row])} of {shard_name}: {bad.reason}",
                fix="repair or remove it; conversion goes on from the shard it is in",
                code="bad-row",
            ) from error


def _done(folder: Path, plan: dict[str, Any]) -> dict[str, str]:
    """Checksums of the shards that are finished."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if found["plan"] == plan:
            shards: dict[str, str] = found["shards"]
            return shards
        raise ConfigError(
            "the destination holds another conversion",
            found=", ".join(
                f"{k} {found['plan'].get(k)} there, {v} now" for k, v in plan.items() if found["plan"].get(k) != v
            ),
            fix="choose another directory, or remove this one",
            code="convert-destination",
        )
    if any(folder.iterdir()):
        raise ConfigError(
            "the destination is not empty",
            found=f"{folder} holds files of something else",
            fix="choose a directory that is new or empty",
            code="convert-destination",
        )
    _save(folder, plan, {})
    return {}


def _save(folder: Path, plan: dict[str, Any], done: dict[str, str]) -> None:
    temporary = folder / f".{secrets.token_hex(8)}.tmp"
    temporary.write_text(json.dumps({"plan": plan, "shards": done}, indent=1), encoding="utf-8")
    os.replace(temporary, folder / MANIFEST)


def _digest(path: Path) -> str | None:
    """Checksum of a file, or None if it is not there."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
    return None


def _suffix(name: str) -> str:
    suffixes: tuple[str, ...] = getattr(registry("shard_format").descriptors()[name], "suffixes", ())
    return suffixes[0] if suffixes else f".{name}"
