"""What a batch shows of its rows: all of them, a rank's share, fill rows, or none."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zephon
import zephon.batch
from zephon.batch import Batch, BatchFacts, Origin, Record
from zephon.errors import ConfigError

ROWS = [[1, 2, 3], [4], [5, 6]]


@pytest.fixture
def marked(tokens_field):
    field = tokens_field(pad=9)
    return field.with_metadata({**field.metadata, b"zephon.attention_mask": b"true"})


def test_the_public_names_are_these():
    assert zephon.batch.__all__ == ["Batch", "BatchFacts", "Origin", "Record"]
    assert zephon.Batch is Batch


def test_a_batch_is_its_rows(make_batch):
    batch = make_batch({"n": [1, 2, 3], "text": ["a", "b", "c"]})
    assert len(batch) == 3 and (batch.lane, batch.index) == (3, 7) and not batch.is_filler
    assert batch["n"] == pa.array([1, 2, 3]) and batch["n"] is not None
    assert "n" in batch and "m" not in batch and 3 not in batch
    assert batch.schema.names == ["n", "text"] and batch.row_mask.tolist() == [True] * 3
    assert batch.origins.row.tolist() == [0, 1, 2]
    assert repr(batch) == "<Batch 7 of lane 3: 3 rows of n, text>"
    with pytest.raises(TypeError):
        iter(batch)
    with pytest.raises(ConfigError) as caught:
        batch["m"]
    assert caught.value.code == "field-missing"


@given(st.integers(0, 4), st.integers(0, 3), st.data())
def test_views_of_a_microbatch_put_together_are_the_microbatch(make_batch, held, fill, data):
    columns = {"n": pa.array(range(held), pa.int64()), "text": pa.array(list("abcd"[:held]), pa.string())}
    whole = make_batch(columns, size=held + fill)
    cut = data.draw(st.integers(0, held + fill))
    parts = [make_batch(columns, size=held + fill, rows=rows) for rows in ((0, cut), (cut, held + fill))]
    assert sum(map(len, parts)) == len(whole) == held + fill
    for name in ("n", "text"):
        assert pa.concat_arrays([p[name] for p in parts]) == whole[name]
        assert whole[name].null_count == fill
    for key in whole.origins.columns():
        joined = np.concatenate([p.origins.columns()[key] for p in parts])
        assert joined.tolist() == whole.origins.columns()[key].tolist()
    assert [r for p in parts for r in p.records] == list(whole.records)
    assert np.concatenate([p.row_mask for p in parts]).tolist() == [True] * held + [False] * fill
    assert whole.row_mask.tolist() == (whole.origins.row >= 0).tolist()
    for part in parts:
        assert part.is_filler == (not part.row_mask.any())
    for key, array in whole.to_numpy().items():
        assert np.concatenate([p.to_numpy()[key] for p in parts]).tolist() == array.tolist()


@pytest.mark.parametrize(("size", "rows"), [(1, None), (3, (0, 4)), (3, (2, 1)), (3, (-1, 2))])
def test_views_that_cannot_be_are_refused(make_batch, size, rows):
    with pytest.raises(ValueError, match="microbatch"):
        make_batch({"n": [1, 2]}, size=size, rows=rows)


def test_fill_rows_are_null_in_columns_of_every_type(make_batch):
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(4, dtype=np.float32).reshape(1, 2, 2))
    columns = {
        "tensor": tensor,
        "list": pa.array([[1]]),
        "struct": pa.array([{"a": 1}]),
        "bool": pa.array([True]),
        "time": pa.array([0], pa.timestamp("us")),
        "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
        "binary": pa.array([b"x"]),
        "nothing": pa.nulls(1),
    }
    batch = make_batch(columns, size=3)
    for name, column in columns.items():
        assert len(batch[name]) == 3 and batch[name].type == column.type
        assert batch[name].is_null().to_pylist()[1:] == [True, True]


# -- row views ---------------------------------------------------------------------------------------------------------


def test_records_are_the_real_rows_with_readable_origins(make_batch):
    batch = make_batch({"n": [1, 2, 3]}, datasets=[0, 1, 0], size=5, rows=(1, 5))
    assert len(batch.records) == 2
    assert batch.records[0] == Record({"n": 2}, Origin("code", "code", "c0", 1, 0, 0, 0))
    assert batch.records[-1].payload == {"n": 3}
    assert [r.origin.row for r in batch.records] == [1, 2]
    assert [r.payload for r in batch.records[::-1]] == [{"n": 3}, {"n": 2}]
    assert batch.to_pylist() == [{"n": 2}, {"n": 3}]
    with pytest.raises(IndexError):
        batch.records[2]


def test_fields_a_dataset_does_not_have_are_missing_from_its_payloads(make_batch):
    facts = BatchFacts(datasets=("a", "b", "c"), fields={0: frozenset({"x"}), 1: frozenset({"x", "y"})})
    batch = make_batch({"x": [1, None, 3], "y": [None, None, None]}, datasets=[0, 1, 2], facts=facts)
    assert batch.to_pylist() == [{"x": 1}, {"x": None, "y": None}, {"x": 3, "y": None}]
    made = make_batch({"x": [1], "y": [5]}, datasets=[0], facts=facts)
    assert made.to_pylist() == [{"x": 1, "y": 5}], "a value an operator made is never hidden"


def test_origins_have_names_where_names_are_known(make_batch):
    named = make_batch({"n": [1, 2]}, datasets=[0, 1]).records[1].origin
    assert named == Origin("code", "code", "c0", 1, 0, 0, 0)
    unknown = make_batch({"n": [1, 2]}, datasets=[0, 1], facts=BatchFacts()).records[1].origin
    assert unknown == Origin(1, 1, 0, 1, 0, 0, 0)
    computed = BatchFacts(shards=lambda dataset, shard: f"{dataset}/{shard}")
    assert make_batch({"n": [1]}, facts=computed).records[0].origin.shard == "0/0"


def test_packed_rows_are_addressed_by_lane_and_ordinal(make_packed):
    origin = make_packed([[[1]], [[2]]]).records[1].origin
    assert origin == Origin(None, None, 3, 1, 0, 0, -1)


def test_a_batch_without_columns_still_has_rows(make_batch):
    from zephon.block import Block, empty_columns

    block = make_batch({"n": [1, 2]}).block
    batch = Batch(Block(empty_columns(2), block.origins), facts=BatchFacts(), size=3)
    assert len(batch) == 3 and batch.to_pylist() == [{}, {}] and batch.to_numpy() == {}


# -- fillers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "width"), [(None, 2), (5, 5)])
def test_a_filler_has_the_shape_of_a_full_batch_and_trains_on_nothing(make_packed, tokens_field, facts, length, width):
    schema = make_packed([[[1, 2]]], field=tokens_field(pad=9, length=length), loss=[[1, 1]]).schema
    filler = Batch.filler(schema, 4, -1, 12, facts)
    assert filler.is_filler and len(filler) == 4 and (filler.lane, filler.index) == (-1, 12)
    assert not filler.row_mask.any() and filler.to_pylist() == [] and (filler.origins.row == -1).all()
    assert filler.to_numpy()["input_ids"].tolist() == [[9] * width] * 4
    out = filler.to_training(
        return_labels=True,
        return_padding_mask=True,
        return_num_valid_tokens=True,
        return_loss_mask=True,
        return_cu_seqlens=True,
        return_document_ids=True,
        mask_document_boundaries=True,
    )
    assert out["num_valid_tokens"] == 0 and out["padding_mask"].all() and not out["loss_mask"].any()
    assert out["labels"].shape == out["input_ids"].shape == (4, width - 1)
    assert (out["labels"] == -100).all() and not out["document_ids"].any()
    assert "4 of them fill" in repr(filler)


def test_a_rank_of_a_shared_lane_sees_its_share_of_a_filler(make_batch, facts, marked):
    schema = make_batch({"input_ids": ROWS}, marked).schema
    filler = Batch.filler(schema, 4, 3, 0, facts, rows=(2, 4))
    assert len(filler) == 2 and filler.is_filler and filler.to_numpy()["attention_mask"].tolist() == [[0, 0]] * 2


def test_a_filler_of_plain_columns_has_zeros(facts):
    schema = pa.schema([("n", pa.int64()), ("text", pa.string()), ("v", pa.list_(pa.float32(), 3))])
    arrays = Batch.filler(schema, 2, 0, 0, facts).to_numpy()
    assert arrays["n"].tolist() == [0, 0] and arrays["text"].tolist() == [None, None]
    assert arrays["v"].tolist() == [[0.0] * 3] * 2


def test_batches_survive_pickling(make_batch, marked):
    batch = make_batch({"input_ids": ROWS, "text": list("abc")}, marked, size=4, rows=(1, 4))
    again = pickle.loads(pickle.dumps(batch))
    assert again.to_pylist() == batch.to_pylist() and len(again) == 3 and again.records[0] == batch.records[0]
    assert again.to_numpy()["input_ids"].tolist() == batch.to_numpy()["input_ids"].tolist()


# -- for functions of a batch ------------------------------------------------------------------------------------------


def test_columns_can_be_added_and_replaced(make_batch, marked):
    batch = make_batch({"input_ids": ROWS, "n": [1, 2, 3]}, marked)
    made = batch.with_columns(
        {
            "n": ["x", "y", "z"],
            "half": np.array([0.5, 1.0, 1.5]),
            "pair": np.arange(6).reshape(3, 2),
            "input_ids": pa.chunked_array(
                [pa.array([[7], [8]], pa.list_(pa.int32())), pa.array([[9, 9]], pa.list_(pa.int32()))]
            ),
        }
    )
    assert made.schema.names == ["input_ids", "n", "half", "pair"]
    assert made["n"].to_pylist() == ["x", "y", "z"] and made["half"].type == pa.float64()
    assert made["pair"].type == pa.list_(pa.int64(), 2)
    assert made.schema.field("input_ids").metadata == marked.metadata, "metadata stay with a column of equal type"
    assert made.to_numpy()["input_ids"].tolist() == [[7, 9], [8, 9], [9, 9]]
    assert made.block.origins == batch.block.origins and (made.lane, made.index) == (3, 7)
    assert batch["n"].to_pylist() == [1, 2, 3], "the batch it was made of is as it was"


def test_replacing_keeps_view_and_origins_but_never_changes_the_number_of_rows(make_batch):
    batch = make_batch({"n": [1, 2, 3]}, size=4, rows=(2, 4))
    other = batch.replace(pa.record_batch({"m": [4, 5, 6]}))
    assert other["m"].to_pylist() == [6, None] and other.records[0].origin.row == 2
    for call in (lambda: batch.replace(pa.record_batch({"m": [1]})), lambda: batch.with_columns({"m": [1]})):
        with pytest.raises(ConfigError) as caught:
            call()
        assert caught.value.code == "row-count"


# -- tracing -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 4), max_size=4), min_size=1, max_size=4), st.booleans(), st.data())
def test_every_token_of_a_packed_batch_leads_to_its_document(make_packed, tokens_field, lengths, left, data):
    value = iter(range(1000))
    rows = [[[next(value) for _ in range(n)] for n in row] for row in lengths]
    field = tokens_field(pad=-1, side="left" if left else "right", length=20)
    start = data.draw(st.integers(0, len(rows)))
    batch = make_packed(rows, field=field, size=len(rows) + 1, seen=(start, len(rows) + 1))
    grid = batch.to_numpy()["input_ids"]
    first = {}  # document -> value of its first token
    number = iter(range(1000))
    for row in rows:
        for document in row:
            first[next(number)] = document[0]
    for (i, j), token in np.ndenumerate(grid):
        if token < 0:
            with pytest.raises(ConfigError) as caught:
                batch.trace(i, j)
            assert caught.value.code == "no-such-token"
            continue
        origin, offset = batch.trace(i, j)
        assert first[origin.row] + offset - 10 == token
        assert origin.dataset == ("web", "code")[origin.row % 2]


def test_a_token_of_a_row_that_is_not_packed_leads_to_the_row(make_batch, tokens_field):
    batch = make_batch({"input_ids": ROWS}, tokens_field(pad=0, side="left"), rows=(1, 3))
    assert batch.trace(0, 2) == (batch.records[0].origin, 0)
    assert batch.trace(1, 2) == (batch.records[1].origin, 1)
    for row, token in ((0, 0), (0, 1), (1, 0), (1, 3), (2, 0), (-1, 0)):
        with pytest.raises(ConfigError) as caught:
            batch.trace(row, token)
        assert caught.value.code == "no-such-token"
