"""Three pipelines as people run them, small: text that is packed, a heavy Python function, images as bytes.

Their functions can be imported by any worker. Data is made from numbers alone, so every process makes the same.
"""

from __future__ import annotations

import hashlib
import random
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_fault_files import byte_tokenizer, jsonl

LANES = 4


def heavy(row: dict[str, Any]) -> dict[str, Any] | None:
    """A function that keeps the interpreter busy; drops some rows."""
    value = row["n"]
    for _ in range(400):
        value = (value * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    if value % 11 == 0:
        return None
    return {"n": row["n"], "value": value % (1 << 32), "digest": hashlib.sha256(row["text"].encode()).hexdigest()}


def slow_heavy(row: dict[str, Any]) -> dict[str, Any] | None:
    """The same function where it takes longer."""
    time.sleep(0.002)
    return heavy(row)


def thumbnail(row: dict[str, Any]) -> dict[str, Any]:
    """Every fourth byte of an image, in a better packing."""
    raw = zlib.decompress(row["image"])[::4]
    return {"n": row["n"], "image": zlib.compress(raw, 1), "size": len(raw)}


def is_large(row: dict[str, Any]) -> bool:
    """A predicate."""
    return bool(row["size"] > 300)


class Workloads:
    """Pipelines over files in a folder.

    Args:
        folder: where data is written.
        rows: of each of two datasets.
    """

    def __init__(self, folder: Path, rows: int = 120) -> None:
        self._folder = folder
        jsonl(folder / "web", [rows // 2, rows - rows // 2])
        jsonl(folder / "code", [rows])
        self._tokenizer = byte_tokenizer(folder / "tokenizer")
        (folder / "images").mkdir()
        for shard in range(2):
            numbers = range(shard * rows // 2, (shard + 1) * rows // 2)
            images = [zlib.compress(random.Random(n).randbytes(400 * (n % 23) + 100), 1) for n in numbers]
            table = pa.table({"n": pa.array(numbers, pa.int64()), "image": pa.array(images, pa.binary())})
            pq.write_table(table, folder / "images" / f"{shard}.parquet", row_group_size=16)

    @property
    def all(self) -> dict[str, Callable[[], Pipeline]]:
        """What makes each pipeline, by name."""
        return {"text pack": self.text_pack, "heavy map": self.heavy_map, "images": self.images}

    def text_pack(self) -> Pipeline:
        """Tokens of two datasets in rows of one length."""
        return (
            self._over("web", "code")
            .tokenize(tokenizer_id=self._tokenizer, field="text")
            .shuffle(12)
            .pack_flat(max_length=64, algorithm="best_fit_wrap")
            .batch(2)
            .options(canonical_replicas=LANES)
        )

    def heavy_map(self) -> Pipeline:
        """A Python function that counts."""
        schema = {"n": "int64", "value": "int64", "digest": "string"}
        pipeline = self._over("web", "code").map_transform(heavy, schema=schema).shuffle(9).batch(3)
        return pipeline.options(canonical_replicas=LANES)

    def images(self) -> Pipeline:
        """Binary rows that are decoded, shrunk and encoded again."""
        schema = {"n": "int64", "image": "binary", "size": "int64"}
        pipeline = self._over("images").map_transform(thumbnail, schema=schema).filter(is_large).batch(3)
        return pipeline.options(canonical_replicas=LANES)

    def _over(self, *names: str) -> Pipeline:
        datasets = [Dataset.from_path(name, self._folder / name) for name in names]
        weights = {name: number + 1 for number, name in enumerate(names)}
        return Pipeline(
            StaticMixtureWorkSource(
                datasets, weights, seed=11, shuffle_within_shard=True, chunk_size=16, stop_after_passes=2
            )
        )
