"""How densely, how fast and with how much state documents are packed.

    python tests/benchmarks/bench_pack.py [density] [speed] [checkpoint]

Without arguments, all three. Lengths are log-normal with median 500 and mean 900, as those of web text roughly are.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import LaneContext, Snapshot
from zephon.block import META_ROLE, Block, Origins, list_column
from zephon_pack.pack_flat import Algorithm, PackFlat
from zephon_pack.pieces import apply_overflow, whole_documents
from zephon_pack.state import PackState

Int64Array = npt.NDArray[np.int64]

LENGTHS = (2049, 4097, 8193)
BINS = (1, 2, 4, 8, 16, 32, 64)
BIN_ALGORITHMS: tuple[Algorithm, ...] = ("first_fit", "best_fit", "best_fit_wrap")
FIELD = pa.field("input_ids", pa.list_(pa.int32()), metadata={META_ROLE: b"tokens"})
SCHEMA = pa.schema([FIELD])


def web_lengths(n: int, *, mean: float | None = None) -> Int64Array:
    """Lengths of n documents; scaled to another mean if given."""
    sigma = np.sqrt(2 * np.log(900 / 500))
    lengths = 500 * np.exp(sigma * np.random.default_rng(0).standard_normal(n))
    return np.maximum(1, lengths * (1 if mean is None else mean / 900)).astype(np.int64)


def blocks_of(lengths: Int64Array, rows: int) -> list[Block]:
    """The documents in blocks of so many rows."""
    blocks = []
    for start in range(0, len(lengths), rows):
        part = lengths[start : start + rows]
        offsets = np.append(0, np.cumsum(part))
        data = pa.RecordBatch.from_arrays([list_column(offsets, np.zeros(offsets[-1], dtype=np.int32))], schema=SCHEMA)
        zero = np.zeros(len(part), dtype=np.int64)
        row = np.arange(start, start + len(part))
        origins = Origins(component=zero, dataset=zero, shard=zero, row=row, epoch=zero, part=zero, phase=zero)
        blocks.append(Block(data, origins))
    return blocks


def open_state(operator: PackFlat) -> PackState:
    """The operator in its lane."""
    state = operator.open(LaneContext(schema=SCHEMA))
    assert isinstance(state, PackState)
    return state


def whole_lane(operator: PackFlat, blocks: list[Block]) -> tuple[dict[str, int], float]:
    """Counters of a whole lane, and how many tokens of its own document a token cannot see, on average."""
    state = open_state(operator)
    lost = 0
    for emitted in itertools.chain(*(state.push(block) for block in blocks), state.finish()):
        entries = emitted.data.column("documents").flatten()
        start, length = (entries.field(name).to_numpy().astype(np.int64) for name in ("start", "length"))
        lost += int(start @ length)
    return state.counters, lost / state.counters["tokens"]


def best_of(times: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest run."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def density() -> None:
    """Share of the room of all rows that holds tokens, documents delivered in pieces, context lost to that."""
    lengths = web_lengths(50_000)
    blocks = blocks_of(lengths, 1000)
    print(f"{len(lengths)} documents, mean {lengths.mean():.0f}, median {np.median(lengths):.0f}, max {lengths.max()}")
    print("tokens / room in %, documents in pieces in %, mean tokens of its document that a token cannot see")
    print(f"{'':22}" + "".join(f"{'L = ' + str(length):>22}" for length in LENGTHS))

    def row(name: str, algorithm: Algorithm, num_bins: int | None) -> None:
        cells = []
        for length in LENGTHS:
            counters, lost = whole_lane(PackFlat(length, algorithm=algorithm, num_bins=num_bins), blocks)
            room = counters["tokens"] + counters["padding_tokens"]
            cut = counters["cut_documents"] / counters["documents"]
            cells.append(f"{100 * counters['tokens'] / room:10.2f}{100 * cut:6.1f}{lost:6.0f}")
        print(f"{name:22}" + "".join(cells))

    row("wrap", "wrap", None)
    for algorithm in BIN_ALGORITHMS:
        for num_bins in BINS:
            row(f"{algorithm}, {num_bins} bins", algorithm, num_bins)


def speed() -> None:
    """Documents per second, and how the time of a document divides."""
    print(f"{'':24}{'block':>6}{'mean':>6}{'docs/s':>12}{'us/doc':>8}{'placement':>10}{'rest':>6}{'ns/token':>9}")
    cases: list[tuple[Algorithm, int | None]] = [("wrap", None)]
    cases += [("first_fit", b) for b in (8, 16, 64)] + [("best_fit", b) for b in (8, 16, 64)] + [("best_fit_wrap", 16)]
    for (mean, rows), (algorithm, num_bins) in itertools.product(((500, 1000), (50, 1000), (500, 64)), cases):
        lengths = web_lengths(20_000, mean=mean)
        blocks = blocks_of(lengths, rows)
        operator = PackFlat(4097, algorithm=algorithm, num_bins=num_bins)
        total = best_of(5, partial(_pack, operator, blocks)) / len(lengths)
        placing = best_of(5, partial(_place, operator, lengths, rows)) / len(lengths)
        name = f"{algorithm}, {num_bins} bins" if num_bins else algorithm
        print(
            f"{name:24}{rows:>6}{lengths.mean():>6.0f}{1 / total:>12,.0f}{1e6 * total:>8.2f}{1e6 * placing:>10.2f}"
            f"{1e6 * (total - placing):>6.2f}{1e9 * total / lengths.mean():>9.2f}"
        )


def _pack(operator: PackFlat, blocks: list[Block]) -> None:
    state = open_state(operator)
    for block in blocks:
        list(state.push(block))


def _place(operator: PackFlat, lengths: Int64Array, rows: int) -> None:
    placement = operator._new_placement()
    for start in range(0, len(lengths), rows):
        pieces = whole_documents(lengths[start : start + rows])
        if operator.algorithm != "wrap":
            pieces = apply_overflow(pieces, operator.max_length, "split")
        placement.place(pieces.length, None, 1000 * start)


def checkpoint() -> None:
    """Snapshots of 8 lanes, written as JSON and Arrow IPC."""
    print(f"{'8 lanes, L = 4097':24}{'block':>6}{'snapshot ms':>12}{'with IPC ms':>12}{'kB':>8}{'live kB':>8}")
    cases: list[tuple[Algorithm, int | None]] = [("wrap", None), ("first_fit", 16), ("best_fit", 64)]
    for (algorithm, num_bins), rows in itertools.product(cases, (1, 16, 1000)):
        states = [open_state(PackFlat(4097, algorithm=algorithm, num_bins=num_bins)) for _ in range(8)]
        for state in states:
            for block in blocks_of(web_lengths(500 if rows == 1 else 3000), rows):
                list(state.push(block))
        take = best_of(20, partial(_take, states))
        both = best_of(20, partial(_write, states))
        live = sum(int(state._held.records["length"].sum()) * 4 for state in states)
        name = f"{algorithm}, {num_bins} bins" if num_bins else algorithm
        print(f"{name:24}{rows:>6}{1e3 * take:>12.2f}{1e3 * both:>12.2f}{_write(states) / 1e3:>8.0f}{live / 1e3:>8.0f}")


def _take(states: list[PackState]) -> list[Snapshot]:
    return [state.snapshot() for state in states]


def _write(states: list[PackState]) -> int:
    size = 0
    for snapshot in _take(states):
        size += len(json.dumps(dict(snapshot.meta)))
        for batch in snapshot.tables.values():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            size += sink.getvalue().size
    return size


if __name__ == "__main__":
    parts = {"density": density, "speed": speed, "checkpoint": checkpoint}
    for name in sys.argv[1:] or parts:
        parts[name]()
        print()
