"""Microbatches made by hand: documents packed into rows, and plain rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from zephon.batch import Batch, BatchFacts
from zephon.block import (
    DOCUMENT_TYPE,
    DOCUMENTS_FIELD,
    META_EOS_ID,
    META_PAD_ID,
    META_PAD_LENGTH,
    META_PAD_SIDE,
    META_ROLE,
    Block,
    Origins,
)

FACTS = BatchFacts(
    datasets=("web", "code"), components=("web", "code"), shards=[["w0", "w1"], ["c0"]], microbatch_size=4
)


def _origins(n: int, datasets: Sequence[int] | None = None) -> Origins:
    zeros = np.zeros(n, dtype=np.int64)
    chosen = zeros if datasets is None else np.asarray(datasets)
    return Origins(
        component=chosen, dataset=chosen, shard=zeros, row=np.arange(n), epoch=zeros, part=zeros, phase=zeros
    )


def _tokens_field(
    *,
    pad: int | None = 0,
    length: int | None = None,
    side: str | None = None,
    eos: int | None = None,
) -> pa.Field:
    metadata = {
        META_ROLE: b"tokens",
        META_PAD_ID: None if pad is None else str(pad).encode(),
        META_PAD_LENGTH: None if length is None else str(length).encode(),
        META_PAD_SIDE: None if side is None else side.encode(),
        META_EOS_ID: None if eos is None else str(eos).encode(),
    }
    return pa.field(
        "input_ids", pa.list_(pa.int32()), metadata={k: v for k, v in metadata.items() if v is not None} or None
    )


def _document(length: int, row: int, start: int = 0) -> dict[str, Any]:
    return {
        "component": row % 2, "dataset": row % 2, "shard": 0, "row": row, "epoch": 0, "part": 0, "phase": 0,
        "start": start, "length": length,
    }  # fmt: skip


@pytest.fixture(scope="session")
def facts() -> BatchFacts:
    return FACTS


@pytest.fixture(scope="session")
def tokens_field() -> Callable[..., pa.Field]:
    return _tokens_field


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., Batch]:
    """A batch of plain columns: name -> array or values; ``fields`` replaces the field of a column."""

    def make(
        columns: dict[str, Any],
        *fields: pa.Field,
        datasets: Sequence[int] | None = None,
        facts: BatchFacts = FACTS,
        **view: Any,
    ) -> Batch:
        given = {f.name: f for f in fields}
        arrays = {
            name: values
            if isinstance(values, pa.Array)
            else pa.array(values, type=given[name].type if name in given else None)
            for name, values in columns.items()
        }
        schema = pa.schema([given.get(name, pa.field(name, array.type)) for name, array in arrays.items()])
        data = pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)
        return Batch(Block(data, _origins(data.num_rows, datasets), lane=3, index=7), facts=facts, **view)

    return make


@pytest.fixture(scope="session")
def make_packed() -> Callable[..., Batch]:
    """A batch of packed rows: each row a list of documents, each document a list of token ids.

    ``fill`` appends so many pad ids to the stored rows themselves, as a packer might.
    """

    def make(
        rows: Sequence[Sequence[Sequence[int]]],
        *,
        field: pa.Field | None = None,
        documents: bool = True,
        positions: bool = True,
        loss: Sequence[Sequence[int]] | None = None,
        fill: int = 0,
        size: int | None = None,
        seen: tuple[int, int] | None = None,
    ) -> Batch:
        field = field or _tokens_field()
        tokens = [[t for d in row for t in d] + [0] * fill for row in rows]
        arrays: list[pa.Array] = [pa.array(tokens, pa.list_(pa.int32()))]
        fields = [field]
        if positions:
            counted = [[i for d in row for i in range(len(d))] + list(range(fill)) for row in rows]
            arrays.append(pa.array(counted, pa.list_(pa.int32())))
            fields.append(pa.field("positions", pa.list_(pa.int32()), metadata={META_ROLE: b"positions"}))
        if documents:
            number = iter(range(1000))
            named = [[_document(len(d), next(number), start=10) for d in row] for row in rows]
            arrays.append(pa.array(named, pa.list_(DOCUMENT_TYPE)))
            fields.append(pa.field(DOCUMENTS_FIELD, pa.list_(DOCUMENT_TYPE)))
        if loss is not None:
            arrays.append(pa.array([[*row, *[1] * fill] for row in loss], pa.list_(pa.int8())))
            fields.append(pa.field("loss_mask", pa.list_(pa.int8()), metadata={META_ROLE: b"loss_mask"}))
        data = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        block = Block(data, Origins.of_lane(3, np.arange(len(rows), dtype=np.int64)), lane=3, index=7)
        return Batch(block, facts=FACTS, size=size, rows=seen)

    return make
