"""What ``tokenize`` costs on top of the tokenizer library.

Texts are Python's own library sources in pieces of 2 kB, the tokenizer a byte-level BPE trained on them. Baseline and
operator encode the same blocks in turn, several times; the best run of each counts. On a machine that is busy with
other things, look at CPU time. Budget: at least 90 % of the library's own batch throughput.

Run: ``python tests/benchmarks/bench_tokenize.py [--megabytes 16] [--rounds 5]``
"""

from __future__ import annotations

import argparse
import sysconfig
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from zephon.abc import OperatorContext
from zephon.block import Block, Origins
from zephon_text.tokenize import Tokenize

PIECE = 2000
BLOCK_ROWS = 512


def library_texts(megabytes: float) -> list[str]:
    """Pieces of Python's own sources."""
    texts: list[str] = []
    budget = int(megabytes * 1e6)
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if budget <= 0:
            break
        if "site-packages" in path.parts:
            continue
        source = path.read_text(encoding="utf-8", errors="ignore")[:budget]
        budget -= len(source)
        texts += [source[i : i + PIECE] for i in range(0, len(source), PIECE)]
    return texts


def train(texts: list[str]) -> Tokenizer:
    """A byte-level BPE of 8000 tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=8000,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts[:2000], trainer)
    return tokenizer


def blocks_of(texts: list[str]) -> list[Block]:
    """Blocks as a reader would make them."""
    blocks = []
    for start in range(0, len(texts), BLOCK_ROWS):
        data = pa.record_batch({"text": pa.array(texts[start : start + BLOCK_ROWS])})
        zeros = np.zeros(data.num_rows, dtype=np.int64)
        row = np.arange(start, start + data.num_rows)
        origins = Origins(component=zeros, dataset=zeros, shard=zeros, row=row, epoch=zeros, part=zeros, phase=zeros)
        blocks.append(Block(data, origins))
    return blocks


def best(rounds: int, *runs: Callable[[], object]) -> list[tuple[float, float]]:
    """Best wall and best CPU seconds of each run, taken in turn so that a busy machine hurts all alike."""
    wall, cpu = [float("inf")] * len(runs), [float("inf")] * len(runs)
    for _ in range(rounds):
        for i, run in enumerate(runs):
            start = time.perf_counter(), time.process_time()
            run()
            wall[i] = min(wall[i], time.perf_counter() - start[0])
            cpu[i] = min(cpu[i], time.process_time() - start[1])
    return list(zip(wall, cpu, strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=16.0)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    texts = library_texts(arguments.megabytes)
    tokenizer = train(texts)
    blocks = blocks_of(texts)
    batches = [block.data.column("text").to_pylist() for block in blocks]
    operator = Tokenize(tokenizer, field="text")
    operator.setup(OperatorContext(schema=blocks[0].schema))

    def encode(batch: list[str]) -> int:
        return len(tokenizer.encode_batch_fast(batch, add_special_tokens=False))

    def tokens(done: Iterable[Block]) -> int:
        return sum(len(block.data.column("input_ids").values) for block in done)

    size = sum(len(text.encode()) for text in texts) / 1e6
    total = tokens(map(operator.apply, blocks))
    print(f"{len(texts)} texts, {size:.1f} MB, {total} tokens, blocks of {BLOCK_ROWS} rows")
    for workers in (1, 2):
        with ThreadPoolExecutor(workers) as pool:
            library, ours = best(
                arguments.rounds,
                lambda pool=pool: sum(pool.map(encode, batches)),  # type: ignore[misc]
                lambda pool=pool: tokens(pool.map(operator.apply, blocks)),  # type: ignore[misc]
            )
        print(
            f"{workers} worker thread(s): library {size / library[0]:6.2f} MB/s, tokenize {size / ours[0]:6.2f} MB/s, "
            f"{total / ours[0] / 1e6:.2f} M tokens/s: {library[0] / ours[0]:.0%} of the library by the clock, "
            f"{library[1] / ours[1]:.0%} by CPU time"
        )


if __name__ == "__main__":
    main()
