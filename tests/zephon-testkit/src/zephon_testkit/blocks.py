"""Blocks as operators get them: sample rows of several datasets, cut, moved in memory, sent through bytes, compared."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import LaneContext, PhaseWeights, Snapshot
from zephon.block import DOCUMENT_TYPE, META_EOS_ID, META_PAD_ID, META_ROLE, Block, Origins
from zephon_testkit.incomplete import Incomplete
from zephon_testkit.tables import TEXTS, sample_table

#: Names behind the numbers in the origins of sample rows. A component has another number than its dataset on purpose.
DATASETS: Final = ("web", "code", "books")
COMPONENTS: Final = ("books", "code", "web")

_TOKENS: Final = {META_ROLE: b"tokens", META_PAD_ID: b"0", META_EOS_ID: b"2"}

#: Fields of sample rows: of every kind operators work on. ``note`` has nulls, the others have none.
SAMPLE_SCHEMA: Final = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("n", pa.int64()),
        pa.field("score", pa.float64()),
        pa.field("flag", pa.bool_()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("meta", pa.struct([("lang", pa.string()), ("page", pa.int64())])),
        pa.field("note", pa.string()),
        pa.field("input_ids", pa.list_(pa.int32()), metadata=_TOKENS),
    ]
)


def sample_block(
    rows: int, schema: pa.Schema = SAMPLE_SCHEMA, *, nulls: Collection[str] = ("note",), lane: int = 3
) -> Block:
    """Rows of several datasets, components, shards, epochs and phases, every one with an origin of its own.

    Args:
        rows: how many; the same on every call.
        schema: their fields. Texts are of several scripts and differ in every row, binaries are UTF-8, integers are
            small.
        nulls: names of fields that have nulls.
        lane: the lane they belong to.

    Raises:
        Incomplete: a type the kit has no values for.
    """
    columns = []
    for place, field in enumerate(schema):
        values = _values(field, rows, place)
        if field.name in nulls:
            values = [None if row % 3 == 1 else value for row, value in enumerate(values)]
        columns.append(pa.array(values, field.type))
    data = pa.RecordBatch.from_arrays(columns, schema=schema)
    return Block(data, sample_origins(rows), lane, 40)


def sample_origins(rows: int) -> Origins:
    """Distinct origins: some rows were split from one sample, some come again in a later epoch."""
    number = np.arange(rows)
    dataset = np.array([0, 0, 1, 0, 2])[number % 5]
    return Origins(
        component=len(DATASETS) - 1 - dataset,
        dataset=dataset,
        shard=(number // 5 % 3).astype(np.int32),
        row=7 * (number % 17) + number % 5,
        epoch=number // 17,
        part=np.where(number % 6 == 5, 9001, 0),
        phase=(2 * number >= rows).astype(np.int32),
    )


def sample_context(schema: pa.Schema, **changes: Any) -> LaneContext:
    """The surroundings of sample rows: lane 3 of 8, a mixture of three components in two phases."""
    phases = (
        PhaseWeights(weights={"web": 5, "code": 3, "books": 2}),
        PhaseWeights(weights={"web": 1, "code": 3, "books": 1}),
    )
    given: dict[str, Any] = {
        "seed": 7,
        "operator": "sample",
        "datasets": DATASETS,
        "components": COMPONENTS,
        "schema": schema,
        "phases": phases,
        "lane": 3,
        "lanes": 8,
    }
    return LaneContext(**{**given, **changes})


def with_nulls(block: Block, fields: Collection[str]) -> Block:
    """The same rows, with every fourth value of these fields missing; the rows without are not the same for all."""
    columns = list(block.data.columns)
    for place, field in enumerate(block.schema):
        if field.name in fields:
            kept = np.array([None if row % 4 == place % 4 else row for row in range(len(block))], dtype=object)
            columns[place] = columns[place].take(pa.array(kept.tolist(), pa.int64()))
    return block.with_data(pa.RecordBatch.from_arrays(columns, schema=block.schema)) if fields else block


def cut(block: Block, sizes: Iterable[int]) -> list[Block]:
    """The block in pieces of these sizes, what is left last."""
    pieces, start = [], 0
    for size in sizes:
        if start < len(block):
            pieces.append(block.slice(start, min(start + size, len(block))))
            start += size
    if start < len(block):
        pieces.append(block.slice(start, len(block)))
    return pieces


def select(block: Block, names: Collection[str]) -> Block:
    """The same rows with these columns, in the block's order; with none at all, too."""
    return block.with_data(block.data.select([name for name in block.schema.names if name in names]))


def read_only(block: Block) -> Block:
    """The same rows with origins that numpy refuses to write to."""
    origins = Origins(**{name: column.copy() for name, column in block.origins.columns().items()})
    for column in origins.columns().values():
        column.flags.writeable = False
    return attrs.evolve(block, origins=origins)


def inside_another(block: Block) -> Block:
    """The same rows as a slice: other rows lie before and behind them in every buffer."""
    n = len(block)
    around = block.take(np.arange(n)[::-1].copy())
    whole = Block.concat([around, block, around])
    return attrs.evolve(whole.slice(n, 2 * n), index=block.index)


def ipc_stream(batch: pa.RecordBatch) -> bytes:
    """The batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def through_ipc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as another process gets it: one buffer for all columns."""
    return pa.ipc.open_stream(pa.py_buffer(ipc_stream(batch))).read_next_batch()


def received(block: Block) -> Block:
    """The block as another process gets it."""
    return Block.from_record_batch(through_ipc(block.to_record_batch()))


def through_bytes(snapshot: Snapshot) -> Snapshot:
    """The snapshot as a checkpoint gives it back: JSON with sorted keys, Arrow IPC, nothing shared."""
    meta = json.loads(json.dumps(snapshot.meta, sort_keys=True, allow_nan=False, ensure_ascii=False).encode())
    blocks = {name: received(block) for name, block in snapshot.blocks.items()}
    return Snapshot(meta=meta, blocks=blocks, tables={name: through_ipc(t) for name, t in snapshot.tables.items()})


def content(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as a value that no later change of it can reach."""
    tables = {name: [repr(row) for row in table.to_pylist()] for name, table in snapshot.tables.items()}
    blocks = {name: rows([block]) for name, block in snapshot.blocks.items()}
    return {"meta": json.dumps(snapshot.meta, sort_keys=True, allow_nan=False), "blocks": blocks, "tables": tables}


def rows(blocks: Iterable[Block], columns: Collection[str] | None = None) -> list[tuple[Any, ...]]:
    """Rows as values: the text of their fields, and their origins as integers in the order of ``ORIGIN_DTYPES``.

    Args:
        blocks: any.
        columns: look at these fields alone.
    """
    found: list[tuple[Any, ...]] = []
    for block in blocks:
        data = block.data if columns is None else select(block, columns).data
        origins = [column.tolist() for column in block.origins.columns().values()]
        found += list(zip(map(repr, data.to_pylist()), *origins, strict=True))
    return found


def by_name(blocks: Iterable[Block], datasets: Sequence[str], components: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows as values, with names in place of the numbers of datasets and components, in packed documents too."""
    found: list[tuple[Any, ...]] = []
    for block in blocks:
        values = block.data.to_pylist()
        for field in block.schema:
            if field.type == pa.list_(DOCUMENT_TYPE):
                for value in values:
                    for document in value[field.name] or ():
                        document["component"] = (*components, "")[document["component"]]
                        document["dataset"] = (*datasets, "")[document["dataset"]]
        for value, row in zip(values, rows([block], ()), strict=True):
            _, component, dataset, *rest = row
            found.append((repr(value), (*components, "")[component], (*datasets, "")[dataset], *rest))
    return found


def same(what: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Compare row by row.

    Raises:
        AssertionError: with the first difference.
    """
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=False)):
        if mine != theirs:
            raise AssertionError(f"{what}: row {number} is {mine!r:.300}, and not {theirs!r:.300}")
    if len(found) != len(expected):
        raise AssertionError(f"{what}: {len(found)} rows, and not {len(expected)}")


def parents_of(given: Origins, made: Origins) -> npt.NDArray[np.int64]:
    """The row each of the made ones comes from, found by all of its origin but ``part``.

    Raises:
        AssertionError: a row comes from none of the given ones, or their order is another.
    """

    def places(origins: Origins) -> list[tuple[int, ...]]:
        columns = [column.tolist() for name, column in origins.columns().items() if name != "part"]
        return list(zip(*columns, strict=True))

    known = {place: row for row, place in enumerate(places(given))}
    if len(known) < len(given):
        raise Incomplete("rows of block() have the same origin: give each one of its own")
    found = places(made)
    strangers = [place for place in found if place not in known]
    assert not strangers, f"a row has the origin {strangers[0]}, which no row of the block has"
    parents = np.array([known[place] for place in found], dtype=np.int64)
    assert (np.diff(parents) >= 0).all(), f"rows come in the order of the rows {parents.tolist()}"
    return parents


def _values(field: pa.Field, rows: int, place: int) -> list[Any]:
    make = _maker(field.type)
    if make is None:
        try:
            return sample_table(pa.schema([field]), rows).column(0).to_pylist()
        except TypeError as error:
            raise Incomplete(f"the kit has no sample values for {field}: override block() in your suite") from error
    return [make(row * 31 + place, row) for row in range(rows)]


def _maker(kind: pa.DataType) -> Callable[[int, int], Any] | None:
    """Makes a value from a number that differs between columns and one that is the row's."""
    types = pa.types
    if types.is_string(kind):
        return lambda n, row: f"{TEXTS[n % len(TEXTS)]} {row}" if n % 11 else ""
    if types.is_binary(kind):
        return lambda n, row: f"{TEXTS[n % len(TEXTS)]}\r\nline {row}\r".encode()
    if types.is_integer(kind):
        return lambda n, row: n * 7 % 50
    if types.is_floating(kind):
        return lambda n, row: math.ldexp(n % 23 - 5, -3)
    if types.is_list(kind) and types.is_integer(kind.value_type):
        return lambda n, row: [(row * 13 + k) % 97 + 3 for k in range(n * 5 % 8)]
    return None
