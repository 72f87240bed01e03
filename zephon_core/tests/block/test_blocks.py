"""Blocks and origins: cutting and joining them is unobservable."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.block import (
    ORIGIN_DTYPES,
    Block,
    Origins,
    concat_batches,
    empty_columns,
    list_column,
    list_parts,
    retained_bytes,
)


@st.composite
def origins(draw, rows=None):
    n = draw(st.integers(0, 20)) if rows is None else rows
    columns = {}
    for name, dtype in ORIGIN_DTYPES.items():
        info = np.iinfo(dtype)
        values = draw(st.lists(st.integers(int(info.min), int(info.max)), min_size=n, max_size=n))
        columns[name] = np.array(values, dtype=dtype)
    return Origins(**columns)


@st.composite
def blocks(draw):
    at = draw(origins())
    n = len(at)
    texts = draw(st.lists(st.none() | st.text(max_size=5), min_size=n, max_size=n))
    lists = draw(st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=n, max_size=n))
    columns = {"text": pa.array(texts, pa.string()), "ids": pa.array(lists, pa.list_(pa.int32()))}
    keep = draw(st.sets(st.sampled_from(["text", "ids"])))
    batch = pa.record_batch({k: v for k, v in columns.items() if k in keep}) if keep else empty_columns(n)
    return Block(batch, at, draw(st.integers(0, 99)), draw(st.integers(0, 99)))


def same(a: Block, b: Block) -> bool:
    return a.data.equals(b.data) and a.origins == b.origins and a.lane == b.lane


@given(blocks(), st.data())
def test_cutting_and_joining_gives_the_same_block(block, data):
    at = data.draw(st.integers(0, len(block)))
    assert same(Block.concat([block.slice(0, at), block.slice(at, len(block))]), block)


@given(blocks())
def test_a_block_survives_one_record_batch_and_ipc(block):
    sink = pa.BufferOutputStream()
    batch = block.to_record_batch()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        back = Block.from_record_batch(reader.read_next_batch())
    assert same(back, block)
    assert back.index == block.index


@given(blocks(), st.data())
def test_take_and_filter_keep_rows_with_their_origins(block, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(block), max_size=len(block))), dtype=bool)
    kept = block.filter(mask)
    assert kept.data.to_pylist() == [row for row, keep in zip(block.data.to_pylist(), mask, strict=True) if keep]
    assert kept.origins == block.origins.take(mask)


@given(origins(), st.data())
def test_the_parts_of_a_split_row_do_not_depend_on_its_neighbours(at, data):
    copies = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(at), max_size=len(at))), dtype=np.int64)
    parents = np.repeat(np.arange(len(at)), copies)
    whole = at.children(parents)
    cut = data.draw(st.integers(0, len(at)))
    left = at.slice(0, cut).children(parents[parents < cut])
    right = at.slice(cut, len(at)).children(parents[parents >= cut] - cut)
    assert Origins.concat([left, right]) == whole


def test_siblings_get_different_parts_through_several_splits():
    one = Origins(component=[0], dataset=[0], shard=[0], row=[0], epoch=[0], part=[0], phase=[0])
    twice = one.children(np.zeros(40, dtype=np.int64)).children(np.repeat(np.arange(40), 40))
    assert len(set(twice.part.tolist())) == 1600
    assert one.children(np.zeros(1, dtype=np.int64)) == one


def test_memory_counts_each_buffer_once_and_slices_as_the_whole_they_keep_alive():
    batch = pa.record_batch({"a": pa.array(range(10_000), pa.int64())})
    whole = retained_bytes([batch])
    assert whole >= 80_000
    assert retained_bytes([batch.slice(0, 10)]) == whole
    assert retained_bytes([batch, batch.slice(5, 3)]) == whole
    block = Block(batch, Origins.of_lane(0, np.arange(10_000)))
    assert block.slice(0, 10).compact().nbytes < 2_000


@given(st.lists(st.none() | st.lists(st.integers(-5, 5), max_size=4), max_size=12), st.data())
def test_list_parts_and_list_column_are_inverse_on_slices(rows, data):
    column = pa.array(rows, pa.list_(pa.int32()))
    start = data.draw(st.integers(0, len(rows)))
    piece = column.slice(start, data.draw(st.integers(0, len(rows) - start)))
    offsets, values = list_parts(piece)
    assert offsets[0] == 0
    assert offsets[-1] == len(values)
    assert list_column(offsets, values).to_pylist() == [row or [] for row in piece.to_pylist()]


def test_a_null_list_that_covers_values_counts_as_empty():
    column = pa.ListArray.from_arrays(
        pa.array([0, 2, 4], pa.int32()), pa.array([1, 2, 3, 4]), mask=pa.array([True, False])
    )
    offsets, values = list_parts(column)
    assert offsets.tolist() == [0, 0, 2]
    assert values.to_pylist() == [3, 4]


def test_blocks_of_different_schemas_do_not_join():
    with pytest.raises(ValueError, match="schemas differ"):
        concat_batches([pa.record_batch({"a": [1]}), pa.record_batch({"b": [1]})])


def test_rows_and_origins_must_agree_in_number():
    with pytest.raises(ValueError, match="origins"):
        Block(pa.record_batch({"a": [1, 2]}), Origins.empty())
