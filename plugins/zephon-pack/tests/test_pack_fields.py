"""Which columns are packed, what comes out, and which rows and schemas are refused."""

import numpy as np
import pack_cases as cases
import pyarrow as pa
import pytest

from zephon.block import (
    DOCUMENT_TYPE,
    META_EOS_ID,
    META_PAD_ID,
    META_PAD_LENGTH,
    META_PAD_SIDE,
    META_ROLE,
)
from zephon.errors import BadRowsError, PlanError
from zephon_pack.pack_flat import PackFlat

INTS = pa.list_(pa.int32())


def block_of(column, field=None):
    """One row per list of ``column``."""
    field = field or cases.TOKENS.with_type(column.type)
    return cases.make_block([0] * len(column)).with_data(
        pa.RecordBatch.from_arrays([column], schema=pa.schema([field]))
    )


def packed_tokens(column):
    return [row["input_ids"] for row in cases.rows_of(cases.run(PackFlat(10), block_of(column)))]


def with_role(name, kind, role, **more):
    metadata = {META_ROLE: role} | {getattr(cases, key): value for key, value in more.items()}
    return pa.field(name, kind, metadata=metadata)


# What comes out


def test_the_output_schema_says_how_to_pad_and_is_that_of_the_blocks():
    block = cases.make_block([3, 4], mask=True)
    operator = PackFlat(10)
    schema = operator.output_schema(block.schema)
    assert schema.names == ["input_ids", "loss_mask", "positions", "documents"]
    assert [schema.field(i).type for i in range(4)] == [INTS, pa.list_(pa.int8()), INTS, pa.list_(DOCUMENT_TYPE)]
    padding = {META_PAD_LENGTH: b"10", META_PAD_SIDE: b"right"}
    assert schema.field(0).metadata == padding | {META_ROLE: b"tokens", META_PAD_ID: b"7", META_EOS_ID: b"2"}
    assert schema.field(1).metadata == padding | {META_ROLE: b"loss_mask", META_PAD_ID: b"0"}
    assert schema.field(2).metadata == padding | {META_ROLE: b"positions", META_PAD_ID: b"0"}
    (emitted,) = cases.run(operator, block)
    assert emitted.schema.equals(schema, check_metadata=True)
    emitted.data.validate(full=True)


@pytest.mark.parametrize("pad_id", [0, 5])
def test_the_pad_id_given_wins_over_that_of_the_tokenizer(pad_id):
    schema = PackFlat(10, pad_token_id=pad_id).output_schema(pa.schema([cases.TOKENS]))
    assert schema.field(0).metadata[META_PAD_ID] == str(pad_id).encode()


def test_without_any_pad_id_none_is_claimed():
    schema = PackFlat(10).output_schema(pa.schema([pa.field("ids", INTS)]))
    assert META_PAD_ID not in schema.field("ids").metadata
    assert schema.field("ids").metadata[META_ROLE] == b"tokens"


def test_other_fields_end_at_packing():
    schema = pa.schema([cases.TOKENS, pa.field("text", pa.string()), pa.field("documents", pa.list_(pa.string()))])
    assert PackFlat(10).output_schema(schema).names == ["input_ids", "positions", "documents"]


def test_short_rows_stay_ragged_in_the_block():
    rows = cases.rows_of(cases.run(PackFlat(10), cases.make_block([3])))
    assert [len(row["input_ids"]) for row in rows] == [3]


@pytest.mark.parametrize("kind", [pa.int8(), pa.float32(), pa.bool_()])
@pytest.mark.parametrize("algorithm", cases.ALGORITHMS)
def test_a_loss_mask_of_any_type_keeps_to_its_tokens(algorithm, kind):
    lengths = [3, 8, 5, 0, 25, 1, 9]
    block = cases.make_block(lengths, mask=True)
    mask = pa.array([[(j % 3 == 0) for j in range(n)] for n in lengths], pa.list_(pa.bool_()))
    mask = mask.cast(pa.list_(kind)) if kind != pa.bool_() else mask
    field = cases.MASK.with_type(mask.type)
    data = pa.RecordBatch.from_arrays([block.data.column(0), mask], schema=pa.schema([cases.TOKENS, field]))
    rows = cases.rows_of(cases.run(PackFlat(10, algorithm=algorithm), block.with_data(data), range(len(lengths))))
    for row in rows:
        assert row["loss_mask"] == [value % 1000 % 3 == 0 for value in row["input_ids"]]


# Which field holds the tokens


def test_the_field_of_role_tokens_is_found_among_other_lists():
    schema = pa.schema([pa.field("labels", INTS), with_role("ids", INTS, b"tokens")])
    assert PackFlat(10).output_schema(schema).names[0] == "ids"


def test_without_a_role_the_only_list_of_integers_is_found():
    schema = pa.schema([pa.field("ids", pa.large_list(pa.uint16())), pa.field("scores", pa.list_(pa.float32()))])
    assert PackFlat(10).output_schema(schema).names[0] == "ids"


def test_a_field_of_another_role_is_not_taken_for_the_tokens():
    schema = pa.schema([pa.field("ids", INTS), with_role("attention_mask", INTS, b"attention_mask")])
    assert PackFlat(10).output_schema(schema).names[0] == "ids"


def test_a_named_field_wins_over_the_role():
    schema = pa.schema([cases.TOKENS, pa.field("ids", INTS)])
    assert PackFlat(10, tokens_field="ids").output_schema(schema).names[0] == "ids"


@pytest.mark.parametrize(
    ("fields", "options", "code"),
    [
        ([pa.field("text", pa.string())], {}, "pack-tokens-missing"),
        ([], {}, "pack-tokens-missing"),
        ([with_role("ids", pa.string(), b"tokens")], {}, "pack-tokens-missing"),
        ([pa.field("a", INTS), pa.field("b", INTS)], {}, "pack-tokens-ambiguous"),
        ([with_role("a", INTS, b"tokens"), with_role("b", INTS, b"tokens")], {}, "pack-tokens-ambiguous"),
        ([cases.TOKENS], {"tokens_field": "ids"}, "pack-tokens-missing"),
        ([pa.field("ids", pa.string())], {"tokens_field": "ids"}, "pack-tokens-type"),
        ([pa.field("ids", pa.list_(pa.float32()))], {"tokens_field": "ids"}, "pack-tokens-type"),
        ([pa.field("ids", INTS, metadata={META_PAD_LENGTH: b"10"})], {}, "padding-before-packing"),
        ([cases.TOKENS, with_role("loss_mask", pa.int8(), b"loss_mask")], {}, "pack-loss-mask-type"),
        ([cases.TOKENS, with_role("loss_mask", pa.list_(pa.string()), b"loss_mask")], {}, "pack-loss-mask-type"),
        ([pa.field("positions", INTS)], {}, "pack-name-clash"),
        ([cases.TOKENS, with_role("documents", INTS, b"loss_mask")], {}, "pack-name-clash"),
    ],
)
def test_a_schema_that_cannot_be_packed_is_refused_when_planning(fields, options, code):
    with pytest.raises(PlanError) as excinfo:
        PackFlat(10, **options).output_schema(pa.schema(fields))
    assert excinfo.value.code == code


def test_rows_that_are_packed_already_are_refused():
    packed = PackFlat(10).output_schema(pa.schema([cases.TOKENS]))
    for schema in (packed, pa.schema([cases.TOKENS, packed.field("documents")])):
        with pytest.raises(PlanError) as excinfo:
            PackFlat(10).output_schema(schema)
        assert excinfo.value.code == "pack-already-packed"


# Token lists as they come


@pytest.mark.parametrize("values", [pa.int64(), pa.uint64(), pa.uint32(), pa.uint16(), pa.int16(), pa.int8()])
@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
def test_integers_of_any_width_become_int32(make, values):
    assert packed_tokens(pa.array([[1, 2], [], [127]], make(values))) == [[1, 2, 127]]


def test_a_slice_of_a_column_is_read_from_its_first_row():
    assert packed_tokens(pa.array([[1, 2], [3], [4, 5], [6]], INTS).slice(1, 2)) == [[3, 4, 5]]


def test_the_extremes_of_int32_are_tokens():
    low, high = -(1 << 31), (1 << 31) - 1
    assert packed_tokens(pa.array([[low, high]], pa.list_(pa.int64()))) == [[low, high]]


def bad_rows(operator, block, code):
    """Positions of the rows refused; nothing may have been packed."""
    state = cases.open_state(operator, block)
    before = cases.plain(state.snapshot())
    with pytest.raises(BadRowsError) as excinfo:
        state.push(block)
    assert excinfo.value.code == code
    assert cases.plain(state.snapshot()) == before
    return [bad.row for bad in excinfo.value.rows]


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        (pa.array([[1], None, [2], None], INTS), [1, 3]),
        (pa.array([[1], [2, None], [], [None, None]], INTS), [1, 3]),
        (pa.array([[1], [1 << 31], [2], [-(1 << 31) - 1]], pa.list_(pa.int64())), [1, 3]),
        (pa.array([[1], [-(1 << 31) - 1]], pa.list_(pa.int64())), [1]),
        (pa.array([[(1 << 32) - 1], [], [], [3]], pa.list_(pa.uint32())), [0]),
        (pa.array([[5], [1 << 63]], pa.list_(pa.uint64())), [1]),
        (pa.array([None, [None], [1 << 40], [], [1]], pa.list_(pa.int64())), [0, 1, 2]),
    ],
)
def test_every_row_without_usable_tokens_is_named(column, rows):
    assert bad_rows(PackFlat(10), block_of(column), "pack-bad-tokens") == rows


def test_every_row_whose_loss_mask_is_of_another_length_is_named():
    block = cases.make_block([2, 3, 0, 1], mask=True)
    mask = pa.array([[1, 1], [1], None, [0, 1]], cases.MASK.type)
    data = pa.RecordBatch.from_arrays([block.data.column(0), mask], schema=block.schema)
    assert bad_rows(PackFlat(10), block.with_data(data), "pack-bad-tokens") == [1, 3]


@pytest.mark.parametrize("algorithm", ["first_fit", "best_fit"])
def test_overflow_error_names_every_document_that_is_too_long(algorithm):
    operator = PackFlat(10, algorithm=algorithm, overflow="error")
    assert bad_rows(operator, cases.make_block([10, 11, 3, 25]), "pack-document-too-long") == [1, 3]


def test_too_long_and_malformed_rows_of_one_block_are_named_together():
    column = pa.array([list(range(12)), None, [1]], INTS)
    assert bad_rows(PackFlat(10, overflow="error"), block_of(column), "pack-bad-tokens") == [0, 1]


def test_without_the_bad_rows_the_block_is_packed():
    block = block_of(pa.array([[1], None, [2]], INTS))
    state = cases.open_state(PackFlat(10), block)
    with pytest.raises(BadRowsError):
        state.push(block)
    rows = cases.rows_of([*state.push(block.filter(np.array([True, False, True]))), *state.finish()])
    assert [row["input_ids"] for row in rows] == [[1, 2]]
