"""What the tests of all operators share: rows with origins, lanes to run, snapshots sent through bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from zephon.abc import LaneContext, LaneOperator, PhaseWeights, Snapshot
from zephon.block import Block, Origins


def make_block(
    data: pa.RecordBatch | dict[str, Any] | int,
    *,
    component: Sequence[int] | None = None,
    phase: Sequence[int] | None = None,
    lane: int = 3,
) -> Block:
    """Rows with distinct origins; an integer makes that many rows of two columns."""
    if isinstance(data, int):
        data = {"n": pa.array(range(data), pa.int64()), "text": [f"row {i}" * (i % 5) for i in range(data)]}
    batch = data if isinstance(data, pa.RecordBatch) else pa.record_batch(data)
    n = batch.num_rows
    parts = np.zeros(n) if component is None else np.array(component)
    origins = Origins(
        component=parts,
        dataset=parts,
        shard=np.zeros(n),
        row=np.arange(n),
        epoch=np.zeros(n),
        part=np.zeros(n),
        phase=np.zeros(n) if phase is None else np.array(phase),
    )
    return Block(batch, origins, lane)


def cut(block: Block, sizes: Iterable[int]) -> list[Block]:
    """The block cut into pieces of these sizes, the rest last."""
    pieces, start = [], 0
    for size in sizes:
        if start < len(block):
            pieces.append(block.slice(start, start + size))
            start += size
    if start < len(block):
        pieces.append(block.slice(start, len(block)))
    return pieces


def context(**kwargs: Any) -> LaneContext:
    """A lane of a mixture of three components."""
    names = ("web", "code", "books")
    phases = PhaseWeights(weights={"web": 5, "code": 3, "books": 2}), PhaseWeights(weights={"web": 1, "code": 3})
    defaults: dict[str, Any] = {
        "seed": 7,
        "operator": "op",
        "datasets": names,
        "components": names,
        "phases": phases,
        "lane": 3,
        "lanes": 8,
    }
    return LaneContext(**{**defaults, **kwargs})


def rows(blocks: Iterable[Block]) -> list[tuple[Any, ...]]:
    """Rows with their origins, comparable."""
    found = []
    for block in blocks:
        columns = [column.tolist() for column in block.origins.columns().values()]
        found += list(zip(map(repr, block.data.to_pylist()), *columns, strict=True))
    return found


def through_bytes(snapshot: Snapshot) -> Snapshot:
    """The snapshot as a checkpoint gives it back: JSON with its keys sorted, Arrow IPC, nothing shared."""
    meta = json.dumps(snapshot.meta, sort_keys=True, allow_nan=False, ensure_ascii=False).encode()
    blocks = {name: Block.from_record_batch(_ipc(b.to_record_batch())) for name, b in snapshot.blocks.items()}
    tables = {name: _ipc(table) for name, table in snapshot.tables.items()}
    return Snapshot(meta=json.loads(meta), blocks=blocks, tables=tables)


def content(snapshot: Snapshot) -> tuple[Any, ...]:
    """The snapshot as a value."""
    return (
        json.dumps(snapshot.meta, sort_keys=True),
        {name: block.to_record_batch().to_pylist() for name, block in snapshot.blocks.items()},
        {name: table.to_pylist() for name, table in snapshot.tables.items()},
    )


def _ipc(batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(pa.py_buffer(sink.getvalue().to_pybytes())).read_next_batch()


def fold(
    operator: LaneOperator,
    blocks: Sequence[Block],
    *,
    restore_after: Callable[[int], bool] = lambda i: False,
    finish: bool = True,
    where: LaneContext | None = None,
) -> list[Block]:
    """What a lane emits; after the chosen pushes it goes on in a fresh state made from the snapshot's bytes."""
    where = where or context(schema=blocks[0].schema)
    state = operator.open(where)
    out: list[Block] = []
    for i, block in enumerate(blocks):
        out += state.push(block)
        if restore_after(i):
            snapshot = through_bytes(state.snapshot())
            state = operator.open(where)
            state.restore(snapshot)
    return out + (list(state.finish()) if finish else [])


@pytest.fixture(scope="session")
def lab() -> SimpleNamespace:
    """The helpers above."""
    return SimpleNamespace(
        block=make_block,
        cut=cut,
        context=context,
        rows=rows,
        through_bytes=through_bytes,
        content=content,
        fold=fold,
    )
