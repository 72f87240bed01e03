"""Law 2 for every row operator: ``f(a ++ b) == f(a) ++ f(b)``, and what a row operator must leave alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon_ops.filter import Filter
from zephon_ops.map_transform import MapTransform


def shout(row):
    return {"text": row["text"].upper(), "twice": row["n"] * 2}


def odd_only(row):
    row["extra"] = [row["n"]] * (row["n"] % 4)
    return row if row["n"] % 2 else None


def repeated(batch):
    parents = np.repeat(np.arange(batch.num_rows), batch.column("n").to_numpy() % 3)
    return batch.take(pa.array(parents)), parents


def lengths(batch):
    return pa.record_batch({"n": pc.utf8_length(batch.column("text"))})


OPERATORS = {
    "rows": MapTransform(shout, schema={"text": "string", "twice": "int64"}, drop_none=False),
    "rows, some dropped": MapTransform(odd_only, schema={"n": "int64", "text": "string", "extra": "list<int32>"}),
    "rows, one field": MapTransform(
        lambda row: {**row, "m": len(row)}, reads=["n"], schema={"n": "int64", "m": "int8"}
    ),
    "batches": MapTransform(lengths, vectorized=True, schema={"n": "int64"}, drop_none=False),
    "batches, repeated": MapTransform(repeated, vectorized=True, schema={"n": "int64", "text": "string"}),
    "filter by function": Filter(lambda row: row["n"] % 3 == 0),
    "filter by expression": Filter((pc.field("n") > 10) | pc.starts_with(pc.field("text"), "row 1")),
}

every = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


@every
@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 60), cuts=st.lists(st.integers(1, 25), max_size=10))
def test_a_block_in_pieces_gives_the_pieces_of_the_result(lab, operator, n, cuts):
    """If this fails, a row's result depends on the rows beside it, or origins of children on the block."""
    block = lab.block(n)
    pieces = [operator.apply(piece) for piece in lab.cut(block, cuts)]
    assert lab.rows(pieces) == lab.rows([operator.apply(block)])


@every
def test_the_result_has_the_promised_columns_and_the_input_stays(lab, operator):
    block = lab.block(40)
    before = lab.rows([block])
    made = operator.apply(block)
    assert made.schema.equals(operator.output_schema(block.schema), check_metadata=True)
    assert lab.rows([block]) == before
    if operator.preserves_rows:
        assert made.origins == block.origins


def test_only_a_map_that_promises_a_row_for_a_row_keeps_lengths_computable():
    assert [name for name, operator in OPERATORS.items() if operator.preserves_rows] == ["rows", "batches"]


def test_reads_are_the_fields_named_and_everything_for_a_function():
    assert OPERATORS["rows"].reads is None
    assert list(OPERATORS["rows, one field"].reads) == ["n"]
    assert list(MapTransform(shout, reads="text").reads) == ["text"]
    assert OPERATORS["filter by function"].reads is None
    assert list(OPERATORS["filter by expression"].reads) == ["n", "text"]
