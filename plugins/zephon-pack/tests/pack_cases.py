"""Blocks of documents whose every token can be told apart, and ways to run a packer over them."""

import itertools
import json

import numpy as np
import pyarrow as pa

from zephon.abc import LaneContext, Snapshot
from zephon.block import META_EOS_ID, META_PAD_ID, META_PAD_SIDE, META_ROLE, Block, Origins

ALGORITHMS = ("wrap", "first_fit", "best_fit", "best_fit_wrap")
DATASETS = ("code", "web", "wiki")

TOKENS = pa.field(
    "input_ids",
    pa.list_(pa.int32()),
    metadata={META_ROLE: b"tokens", META_PAD_ID: b"7", META_PAD_SIDE: b"left", META_EOS_ID: b"2"},
)
MASK = pa.field("loss_mask", pa.list_(pa.int8()), metadata={META_ROLE: b"loss_mask"})


def token(document, offset):
    """The token at an offset of a document."""
    return document * 1000 + offset


def make_block(lengths, datasets=None, *, mask=False, first=0):
    """Documents of these lengths; a token's mask is its offset within its document, modulo 3."""
    n = len(lengths)
    columns = [pa.array([[token(first + i, j) for j in range(k)] for i, k in enumerate(lengths)], TOKENS.type)]
    fields = [TOKENS]
    if mask:
        columns.append(pa.array([[j % 3 for j in range(k)] for k in lengths], MASK.type))
        fields.append(MASK)
    dataset = np.zeros(n, dtype=int) if datasets is None else np.array(datasets, dtype=int)
    number = np.arange(first, first + n)
    origins = Origins(
        component=dataset % 2,
        dataset=dataset,
        shard=number % 5,
        row=number,
        epoch=number // 7,
        part=(number * 3).astype(np.uint64),
        phase=number % 2,
    )
    return Block(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), origins, lane=4)


def context(schema):
    """Lane 4 of 8."""
    return LaneContext(schema=schema, datasets=DATASETS, components=("a", "b"), lane=4, lanes=8, operator="pack_flat")


def open_state(operator, block):
    """The operator at work on blocks like this one."""
    return operator.open(context(block.schema))


def run(operator, block, cuts=()):
    """All emitted blocks, the input cut into blocks at these rows."""
    state = open_state(operator, block)
    bounds = [0, *sorted(set(cuts)), len(block)]
    blocks = []
    for start, stop in itertools.pairwise(bounds):
        if stop > start:
            blocks += state.push(block.slice(start, stop))
    return blocks + list(state.finish())


def rows_of(blocks):
    """Emitted rows as plain data: columns, and the ordinal that addresses the row."""
    rows = []
    for block in blocks:
        origins = block.origins
        assert (origins.component == -1).all() and (origins.dataset == -1).all() and (origins.shard == 4).all()
        for ordinal, row in zip(origins.row.tolist(), block.data.to_pylist(), strict=True):
            rows.append({"ordinal": ordinal, **row})
    return rows


def pieces_of(rows):
    """Rows as lists of ``(document, start, length)``; ``row`` numbers the documents."""
    return [[(d["row"], d["start"], d["length"]) for d in row["documents"]] for row in rows]


def expected_rows(pieces, block):
    """What a packer must emit for these rows of pieces, as :func:`rows_of` gives it."""
    origins = block.origins.columns()
    masked = "loss_mask" in block.schema.names
    rows = []
    for ordinal, row in enumerate(pieces):
        documents = [
            {name: column[d].item() for name, column in origins.items()} | {"start": start, "length": length}
            for d, start, length in row
        ]
        offsets = [(d, start + i) for d, start, length in row for i in range(length)]
        rows.append(
            {"ordinal": ordinal, "input_ids": [token(d, i) for d, i in offsets]}
            | ({"loss_mask": [i % 3 for _, i in offsets]} if masked else {})
            | {"positions": [i for _, _, length in row for i in range(length)], "documents": documents}
        )
    return rows


def through_bytes(snapshot):
    """The snapshot written down and read again."""
    assert not snapshot.blocks
    tables = {}
    for name, batch in snapshot.tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        tables[name] = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    return Snapshot(meta=json.loads(json.dumps(dict(snapshot.meta))), tables=tables)


def plain(snapshot):
    """The snapshot as plain data."""
    return dict(snapshot.meta), {name: batch.to_pydict() for name, batch in snapshot.tables.items()}
