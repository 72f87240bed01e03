"""Files with something wrong in them, and runs over them whose surroundings change, for the tests of faults.

Rows carry their number in ``n``, so that what was delivered can be compared with what was written, row by row.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon import Pipeline
from zephon.cli.rounds import Fleet, round_digest
from zephon.errors import ZephonError
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

#: Lines that are no row, whatever is around them.
BAD_LINES = (b'{"n": ', b'{"n": 1} {"n": 2}', b'{"text": "\xff"}', b"null", b'{"n": NaN}', b'{"text": "\\ud800"}')


def text_of(n: int) -> str:
    """The text of row ``n``; some are not ASCII."""
    return f"row {n} " + "é東x"[n % 3] * (n % 5)


def lines(numbers: Iterable[int], bad: Mapping[int, bytes] | None = None) -> bytes:
    """JSON Lines of rows ``{"n", "text"}``; the rows of ``bad`` are these bytes instead."""
    made = [(bad or {}).get(n, json.dumps({"n": n, "text": text_of(n)}, ensure_ascii=False).encode()) for n in numbers]
    return b"".join(line + b"\n" for line in made)


def jsonl(folder: Path, shards: Sequence[int], bad: Mapping[int, bytes] | None = None) -> Path:
    """A directory of shards of so many rows, numbered through."""
    folder.mkdir(parents=True, exist_ok=True)
    start = 0
    for i, count in enumerate(shards):
        (folder / f"part-{i}.jsonl").write_bytes(lines(range(start, start + count), bad))
        start += count
    return folder


def parquet(path: Path, rows: int, group: int, *, start: int = 0, bad: Mapping[int, bytes] | None = None) -> Path:
    """One Parquet file of rows ``n``, ``text``, ``raw`` (the text as bytes) in row groups of so many rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = range(start, start + rows)
    table = pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "text": [text_of(n) for n in numbers],
            "raw": pa.array([(bad or {}).get(n, text_of(n).encode()) for n in numbers], pa.binary()),
        }
    )
    pq.write_table(table, path, row_group_size=group, compression="zstd", write_page_checksum=True)
    return path


def flip_page(path: Path, group: int, column: int) -> None:
    """Flip one byte in the last page of a column chunk."""
    chunk = pq.read_metadata(path).row_group(group).column(column)
    start = chunk.data_page_offset if chunk.dictionary_page_offset is None else chunk.dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[start + chunk.total_compressed_size - 5] ^= 0xFF
    path.write_bytes(data)


def work(weights: Mapping[str, float] | None = None, **datasets: Any) -> StaticMixtureWorkSource:
    """A shuffled mixture in which every row comes once; a dataset is a path or a ``Dataset``."""
    made = [v if isinstance(v, Dataset) else Dataset.from_path(name, v) for name, v in datasets.items()]
    return StaticMixtureWorkSource(
        datasets=made,
        mixture=dict(weights or dict.fromkeys(datasets, 1)),
        seed=5,
        shuffle_within_shard=True,
        exhausted_policy="redistribute",
    )


def inline(pipeline: Pipeline, lanes: int = 2, **options: Any) -> Pipeline:
    """On the calling thread, to the very last row."""
    return pipeline.options(canonical_replicas=lanes, **{"parallelism": 0, "tail": "pad", **options})


def payloads(pipeline: Pipeline) -> list[dict[str, Any]]:
    """All rows a run delivers."""
    return [record.payload for batch in pipeline if not batch.is_filler for record in batch.records]


def numbers(pipeline: Pipeline) -> list[int]:
    """The ``n`` of all rows a run delivers, sorted."""
    return sorted(row["n"] for row in payloads(pipeline))


class Stretch(NamedTuple):
    """Part of a run: rounds (None: to the end), groups, parallelism, rows of a block."""

    rounds: int | None = None
    degree: int = 1
    parallelism: int = 0
    block_rows: int | None = None


class Outcome(NamedTuple):
    """What a run came to: the digest of every round, and rows set aside per dataset."""

    digests: list[str]
    skipped: dict[str, int]


def run(make: Callable[[], Pipeline], chain: Sequence[Stretch] = (Stretch(),), **options: Any) -> Outcome:
    """Run a pipeline to its end through a chain of stretches, each restored from the one before.

    In the last stretch there must not be more groups than lanes: then every lane is counted once.
    """
    digests: list[str] = []
    skipped: Counter[str] = Counter()
    states = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, stretch in enumerate(chain):
            execution = {**options, "parallelism": stretch.parallelism, "uneven": "pad", "tail": "pad"}
            if stretch.block_rows is not None:
                execution["block_rows"] = stretch.block_rows
            fleet = Fleet(make, stretch.degree, agree=stretch.degree > 1, **execution)
            try:
                if states is not None:
                    fleet.restore(states)
                last = number == len(chain) - 1
                rounds = fleet.rounds(10_000 if last or stretch.rounds is None else stretch.rounds)
                digests += [round_digest(lanes) for lanes in rounds]
                states = fleet.states()
                if last:
                    for pipeline in fleet.pipelines:
                        skipped.update(pipeline.stats()["skipped"])
            finally:
                fleet.close()
    return Outcome(digests, dict(skipped))


#: Ways to run that must make no difference: block sizes, threads, groups, restarts.
VARIANTS: Mapping[str, tuple[Stretch, ...]] = {
    "rows one by one": (Stretch(block_rows=1),),
    "one block": (Stretch(block_rows=4096),),
    "threads": (Stretch(parallelism=3, block_rows=7),),
    "two groups": (Stretch(degree=2, block_rows=5),),
    "restarts": (
        Stretch(1, block_rows=3),
        Stretch(2, degree=2, block_rows=64),
        Stretch(0, degree=4, block_rows=2),
        Stretch(1, parallelism=2),
        Stretch(block_rows=11),
    ),
}


def entries(folder: Path) -> list[dict[str, Any]]:
    """All lines of all quarantine files."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]


@contextmanager
def fails_with(code: str, kind: type[ZephonError] = ZephonError) -> Iterator[list[Any]]:
    """Expects an error of this code; the list holds it afterwards."""
    found: list[Any] = []
    with pytest.raises(kind) as excinfo:
        yield found
    assert excinfo.value.code == code, str(excinfo.value)
    found.append(excinfo.value)


def byte_tokenizer(path: Path) -> str:
    """A ``tokenizer.json`` that makes one token of every byte, and has ``<|endoftext|>`` besides."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(alphabet)} | {"<|endoftext|>": len(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    path.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    return str(path / "tokenizer.json")
