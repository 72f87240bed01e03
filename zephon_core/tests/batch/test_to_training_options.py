"""to_training: renaming, extra fields, dtypes, and options or columns that do not fit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from zephon.batch import Origin
from zephon.block import META_PAD_ID, META_ROLE
from zephon.errors import ConfigError

ROWS = [[1, 2, 3], [4, 5]]


def code_of(batch, **options):
    with pytest.raises(ConfigError) as caught:
        batch.to_training(**options)
    assert isinstance(caught.value, ValueError)
    return caught.value.code


@pytest.fixture
def plain(make_batch, tokens_field):
    return make_batch({"input_ids": ROWS, "text": ["a", None]}, tokens_field(pad=9, eos=3), size=3)


def test_ids_are_origins_and_texts_are_never_null(plain):
    out = plain.to_training()
    assert out["ids"] == [
        Origin("web", "web", "w0", 0, 0, 0, 0),
        Origin("web", "web", "w0", 1, 0, 0, 0),
        Origin(None, None, -1, -1, 0, 0, -1),
    ]
    assert out["texts"] == ["a", "", ""]
    assert set(out) == {"ids", "texts", "input_ids"}


def test_without_text_texts_are_empty(make_batch, tokens_field):
    batch = make_batch({"input_ids": ROWS, "text": [1, 2]}, tokens_field())
    assert batch.to_training()["texts"] == ["", ""]


def test_inputs_are_padded_with_the_pad_id_of_the_column(plain):
    assert plain.to_training(dtype=None)["input_ids"] == [[1, 2, 3], [4, 5, 9], [9, 9, 9]]


def test_a_row_of_a_shared_microbatch_has_the_width_of_the_whole(make_batch, tokens_field):
    for seen, expected in (((0, 1), [[1, 2, 3]]), ((1, 2), [[4, 5, 9]]), ((2, 3), [[9, 9, 9]])):
        batch = make_batch({"input_ids": ROWS}, tokens_field(pad=9), size=3, rows=seen)
        assert batch.to_training(dtype=None)["input_ids"] == expected


# -- which column ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["input_ids", "tokens", "token_ids", "ids"])
def test_tokens_are_found_by_their_usual_names(make_batch, name):
    field = pa.field(name, pa.list_(pa.int64()), metadata={META_PAD_ID: b"0"})
    assert make_batch({name: ROWS}, field).to_training(dtype=None)["input_ids"] == [[1, 2, 3], [4, 5, 0]]


def test_a_marked_column_comes_before_one_of_a_usual_name(make_batch):
    field = pa.field("encoded", pa.list_(pa.int32()), metadata={META_ROLE: b"tokens", META_PAD_ID: b"0"})
    batch = make_batch({"tokens": [[7], [7]], "encoded": ROWS}, field)
    assert batch.to_training(dtype=None)["input_ids"] == [[1, 2, 3], [4, 5, 0]]
    assert batch.to_training(dtype=None, tokens_field="tokens")["input_ids"] == [[7], [7]]


def test_columns_that_are_no_tokens_are_errors(make_batch):
    assert code_of(make_batch({"text": ["a"], "tokens": [[0.5]]})) == "no-tokens-field"
    assert code_of(make_batch({"tokens": [[1]]}), tokens_field="token") == "no-tokens-field"
    assert code_of(make_batch({"tokens": ["a"]}), tokens_field="tokens") == "field-type"
    assert code_of(make_batch({"tokens": [[[1], [2]]]}), tokens_field="tokens") == "field-type"


# -- rows that cannot be laid out --------------------------------------------------------------------------------------


def test_ragged_rows_need_to_say_how_they_are_padded(make_batch, tokens_field):
    assert code_of(make_batch({"input_ids": ROWS}, tokens_field(pad=None))) == "ragged-field"
    even = make_batch({"input_ids": [[1, 2], [3, 4]]}, tokens_field(pad=None), size=3)
    assert even.to_training(dtype=None)["input_ids"] == [[1, 2], [3, 4], [0, 0]]


def test_rows_longer_than_what_they_are_padded_to_are_errors(make_batch, tokens_field):
    assert code_of(make_batch({"input_ids": ROWS}, tokens_field(length=2))) == "row-too-wide"


def test_broken_metadata_are_errors(make_batch, tokens_field):
    assert code_of(make_batch({"input_ids": ROWS}, tokens_field(side="top"))) == "field-metadata"
    field = tokens_field().with_metadata({META_PAD_ID: b"none"})
    assert code_of(make_batch({"input_ids": ROWS}, field)) == "field-metadata"


def test_nulls_among_tokens_are_errors(make_batch, tokens_field):
    assert code_of(make_batch({"input_ids": [[1, None]]}, tokens_field())) == "null-in-list"


def test_a_row_without_tokens_is_all_padding(make_batch, tokens_field):
    batch = make_batch({"input_ids": [[1, 2], None, []]}, tokens_field(pad=9))
    out = batch.to_training(dtype=None, return_labels=True)
    assert out["input_ids"] == [[1], [9], [9]] and out["labels"] == [[2], [-100], [-100]]


@pytest.mark.parametrize("name", ["positions", "loss_mask"])
def test_columns_beside_the_tokens_must_be_as_long(make_batch, tokens_field, name):
    batch = make_batch({"input_ids": ROWS, name: [[0, 1, 1], [0]]}, tokens_field())
    assert code_of(batch, return_labels=True) == "length-mismatch"
    missing = make_batch({"input_ids": ROWS, name: [[0, 1, 1], None]}, tokens_field())
    assert code_of(missing, return_labels=True) == "length-mismatch"


def test_documents_longer_than_their_row_are_errors(make_packed, make_batch):
    packed = make_packed([[[1, 2], [3]]], positions=False)
    shorter = packed.with_columns({"input_ids": pa.array([[1, 2]], pa.list_(pa.int32()))})
    assert code_of(shorter) == "documents-too-long"


# -- boundaries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["return_cu_seqlens", "return_document_ids", "mask_document_boundaries"])
def test_boundaries_are_never_guessed(plain, option):
    assert code_of(plain, return_labels=True, **{option: True}) == "no-document-boundaries"


@pytest.mark.parametrize("positions", [[[1, 2, 3], [0, 1]], [[0, 2, 3], [0, 1]], [[0, 1, 0], [1, 1]]])
def test_positions_that_do_not_restart_properly_tell_no_boundaries(make_batch, tokens_field, positions):
    batch = make_batch({"input_ids": ROWS, "positions": positions}, tokens_field())
    assert code_of(batch, return_cu_seqlens=True) == "bad-positions"


def test_sequence_positions_are_no_boundaries(plain):
    assert plain.to_training(position_mode="sequence", dtype=None)["positions"] == [[0, 1, 2]] * 3
    assert code_of(plain, position_mode="sequence", return_cu_seqlens=True) == "no-document-boundaries"


def test_a_column_called_documents_that_is_something_else_is_left_alone(make_batch, tokens_field):
    batch = make_batch({"input_ids": ROWS, "documents": [["a"], ["b", "c"]]}, tokens_field())
    assert "positions" not in batch.to_training()
    assert batch.to_numpy()["documents"].tolist() == [["a"], ["b", "c"]]


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"return_num_valid_tokens": True}, "option-conflict"),
        ({"return_loss_mask": True}, "option-conflict"),
        ({"eos_mask_loss": True}, "option-conflict"),
        ({"mask_document_boundaries": True}, "option-conflict"),
        ({"position_mode": "document"}, "option-invalid"),
        ({"eos_token_id": -1}, "option-invalid"),
        ({"eos_token_id": True}, "option-invalid"),
        ({"eos_token_id": "2"}, "option-invalid"),
        ({"extra_fields": "text"}, "option-invalid"),
        ({"exclude_fields": "ids"}, "option-invalid"),
        ({"dtype": "float32"}, "option-invalid"),
        ({"dtype": np.int16}, "option-invalid"),
        ({"dtype": "torch.bfloat16"}, "option-invalid"),
    ],
)
def test_options_that_contradict_or_make_no_sense_are_refused(plain, options, code):
    assert code_of(plain, **options) == code


def test_the_end_of_sequence_id_must_be_known_to_be_masked(make_batch, tokens_field):
    batch = make_batch({"input_ids": ROWS}, tokens_field())
    assert code_of(batch, return_labels=True, eos_mask_loss=True) == "eos-unknown"
    assert batch.to_training(return_labels=True, eos_mask_loss=True, eos_token_id=0)


@pytest.mark.parametrize(("dtype", "kind"), [("int32", np.int32), ("int64", np.int64), (np.int32, np.int32)])
def test_dtype_is_that_of_ids_labels_and_positions(make_packed, dtype, kind):
    out = make_packed([[[1, 2]]]).to_training(return_labels=True, dtype=dtype)
    assert {np.asarray(out[k]).dtype for k in ("input_ids", "labels", "positions")} == {np.dtype(kind)}


def test_ids_that_do_not_fit_the_dtype_are_errors(make_batch):
    batch = make_batch({"tokens": pa.array([[1 << 40]], pa.list_(pa.int64()))})
    assert code_of(batch, dtype="int32") == "option-conflict"
    assert batch.to_training(dtype="int64")["input_ids"][0, 0] == 1 << 40


# -- names -------------------------------------------------------------------------------------------------------------


def test_fields_are_renamed_then_left_out_by_their_new_names(plain):
    out = plain.to_training(
        return_labels=True,
        return_num_valid_tokens=True,
        rename_fields={"input_ids": "tokens", "num_valid_tokens": "count"},
        exclude_fields=("ids", "texts", "labels", "input_ids", "not there"),
    )
    assert set(out) == {"tokens", "count"} and out["count"] == 3


def test_names_may_be_swapped_but_never_shared(plain):
    out = plain.to_training(rename_fields={"ids": "texts", "texts": "ids"})
    assert out["ids"] == ["a", "", ""]
    assert code_of(plain, rename_fields={"input_ids": "texts"}) == "name-clash"
    assert code_of(plain, rename_fields={"input_ids": "texts"}, exclude_fields=("texts",)) == "name-clash"
    assert code_of(plain, rename_fields={"ids": "x", "texts": "x"}) == "name-clash"
    assert code_of(plain, rename_fields={"labels": "y"}) == "field-missing"


# -- extra fields ------------------------------------------------------------------------------------------------------


def test_extra_fields_with_a_value_per_token_are_cut_and_flattened_like_tokens(make_batch, tokens_field):
    weights = pa.field("weights", pa.list_(pa.float32()))
    batch = make_batch(
        {"input_ids": ROWS, "types": [[1, 1, 1], [2, 2]], "weights": [[0.5, 1.0, 1.5], [2.0, 2.5]]},
        tokens_field(pad=9),
        weights,
    )
    out = batch.to_training(return_labels=True, extra_fields=("types", "weights"), dtype=None)
    assert out["types"] == [[1, 1], [2, 2]] and out["weights"] == [[0.5, 1.0], [2.0, 2.5]]
    flat = batch.to_training(extra_fields=("types", "weights"), flatten=True)
    assert flat["types"].tolist() == [1, 1, 1, 2, 2, 0] and flat["types"].dtype == np.int64
    assert flat["weights"].tolist() == [0.5, 1.0, 1.5, 2.0, 2.5, 0.0] and flat["weights"].dtype == np.float32


def test_other_extra_fields_stay_as_they_are(make_batch, tokens_field):
    batch = make_batch(
        {
            "input_ids": [[1, 2, 3], [4, 5, 6]],
            "score": [0.5, 1.5],
            "name": ["x", None],
            "vector": pa.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], pa.list_(pa.float64(), 3)),
        },
        tokens_field(),
        size=3,
    )
    out = batch.to_training(return_labels=True, flatten=True, extra_fields=("score", "name", "vector"))
    assert out["score"].tolist() == [0.5, 1.5, 0.0] and out["score"].flags.writeable
    assert out["name"] == ["x", None, None]
    assert out["vector"].shape == (3, 3)


def test_the_attention_mask_is_made_when_read(make_batch, tokens_field):
    field = tokens_field(pad=9)
    marked = field.with_metadata({**field.metadata, b"zephon.attention_mask": b"true"})
    batch = make_batch({"input_ids": ROWS}, marked, size=3)
    assert batch.to_training(extra_fields=("attention_mask",), dtype=None)["attention_mask"] == [
        [1] * 3,
        [1, 1, 0],
        [0] * 3,
    ]
    shifted = batch.to_training(extra_fields=("attention_mask",), return_labels=True)["attention_mask"]
    assert shifted.tolist() == [[1, 1], [1, 1], [0, 0]] and shifted.dtype == np.int64


def test_extra_fields_that_are_missing_or_clash_are_errors(make_batch, tokens_field):
    batch = make_batch({"input_ids": ROWS, "labels": [1, 2], "ids": [1, 2], "n": [1, None]}, tokens_field())
    assert code_of(batch, extra_fields=("score",)) == "field-missing"
    assert code_of(batch, extra_fields=("ids",)) == "name-clash"
    assert code_of(batch, extra_fields=("input_ids",)) == "name-clash"
    assert code_of(batch, extra_fields=("labels",), return_labels=True) == "name-clash"
    assert code_of(batch, extra_fields=("n",)) == "null-in-field"
    assert batch.to_training(extra_fields=("labels",))["labels"].tolist() == [1, 2]


def test_what_is_shown_anyway_may_be_asked_for_but_no_mask_out_of_line_with_labels(make_packed):
    batch = make_packed([[[1, 2], [3]]], loss=[[0, 1, 1]])
    out = batch.to_training(extra_fields=("positions", "loss_mask"), dtype=None)
    assert out["positions"] == [[0, 1, 0]] and out["loss_mask"] == [[0, 1, 1]]
    for flag in (False, True):
        options = {"extra_fields": ("loss_mask",), "return_labels": True, "return_loss_mask": flag}
        assert code_of(batch, **options) == "option-conflict"
