"""tokenize: explicit policies, metadata, and errors that say what to do before a run."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest

from zephon.abc import HasContent, OperatorContext
from zephon.block import META_EOS_ID, META_PAD_ID, META_PAD_LENGTH, META_PAD_SIDE, META_ROLE
from zephon.errors import BadRowsError, ConfigError, PlanError
from zephon.plugins import registry
from zephon.spec import fingerprint, from_plain, to_plain
from zephon_text.decode import DecodeText
from zephon_text.hf import HfBackend
from zephon_text.tokenize import Tokenize

TEXT = pa.schema([("text", pa.string())])


def code_of(call, *args, **kwargs):
    with pytest.raises(ConfigError) as caught:
        call(*args, **kwargs)
    return caught.value.code


def tokens_metadata(operator):
    return operator.output_schema(TEXT).field("input_ids").metadata


@pytest.fixture
def saved(llama_like, tmp_path):
    path = tmp_path / "tokenizer.json"
    llama_like.save(str(path))
    return path


def test_the_registered_names_lead_here():
    assert registry("operator").load("tokenize") is Tokenize
    assert registry("operator").load("decode_text") is DecodeText
    assert registry("tokenizer").load("hf") is HfBackend


def test_the_arguments_are_those_of_the_users_guide():
    names = [f.name for f in attrs.fields(Tokenize) if f.init]
    assert names == [
        "tokenizer", "tokenizer_id", "field", "backend", "max_length", "truncation", "split_long_samples", "padding",
        "special_tokens", "missing_field", "add_attention_mask", "preserve_upstream_payload", "parallelism",
        "placement",
    ]  # fmt: skip
    assert [f.name for f in attrs.fields(Tokenize) if f.init and not f.kw_only] == ["tokenizer", "tokenizer_id"]


# -- rows that do not fit ----------------------------------------------------------------------------------------------


def test_rows_too_long_for_max_length_are_bad_rows_all_named(llama_like, make_block):
    block = make_block({"text": pa.array(["a", "the quick brown fox", "b", "東京 タワー"])})
    with pytest.raises(BadRowsError) as caught:
        Tokenize(llama_like, field="text", max_length=3).apply(block)
    assert caught.value.code == "row-too-long"
    assert [r.row for r in caught.value.rows] == [1, 3]


def test_rows_without_text_are_bad_rows_beside_those_too_long(llama_like, make_block):
    block = make_block({"text": pa.array(["the quick brown fox", "a", None, "the lazy dog is quick", None])})
    with pytest.raises(BadRowsError) as caught:
        Tokenize(llama_like, field="text", max_length=3).apply(block)
    assert caught.value.code == "text-missing"
    assert [r.row for r in caught.value.rows] == [0, 2, 3, 4]


def test_a_row_of_exactly_max_length_is_left_alone(llama_like, make_block):
    block = make_block({"text": pa.array(["the quick"])})
    whole = Tokenize(llama_like, field="text").apply(block).data
    n = len(whole.column("input_ids")[0])
    for options in ({}, {"truncation": True}, {"split_long_samples": True}):
        assert Tokenize(llama_like, field="text", max_length=n, **options).apply(block).data == whole


def test_only_the_first_piece_begins_and_only_the_last_ends(llama_like, make_block):
    block = make_block({"text": pa.array(["the quick brown fox jumps"])})
    operator = Tokenize(llama_like, field="text", max_length=3, split_long_samples=True)
    pieces = operator.apply(block).data.column("input_ids").to_pylist()
    assert len(pieces) > 2 and all(len(p) == 3 for p in pieces[:-1])
    assert pieces[0][0] == 0 and pieces[-1][-1] == 1
    ids = [i for piece in pieces for i in piece]
    assert 0 not in ids[1:] and 1 not in ids[:-1]


# -- what may change the number of rows --------------------------------------------------------------------------------


def test_lane_lengths_stay_computable_unless_rows_are_split_or_skipped(llama_like):
    assert Tokenize(llama_like, field="text").preserves_rows
    assert Tokenize(llama_like, field="text", max_length=8, truncation=True).preserves_rows
    assert not Tokenize(llama_like, field="text", max_length=8, split_long_samples=True).preserves_rows
    assert not Tokenize(llama_like, field="text", missing_field="skip").preserves_rows


def test_a_text_column_that_rows_may_lack_is_an_optional_read(llama_like):
    must, may = Tokenize(llama_like, field="t"), Tokenize(llama_like, field="t", missing_field="skip")
    assert (tuple(must.reads), tuple(must.optional_reads)) == (("t",), ())
    assert (tuple(may.reads), tuple(may.optional_reads)) == ((), ("t",))


# -- metadata ----------------------------------------------------------------------------------------------------------


def test_padding_travels_in_the_metadata_of_the_column(llama_like):
    metadata = tokens_metadata(Tokenize(llama_like, field="text", max_length=64, truncation=True, padding="max_length"))
    assert metadata[META_ROLE] == b"tokens" and metadata[META_PAD_SIDE] == b"right"
    assert (metadata[META_PAD_ID], metadata[META_EOS_ID], metadata[META_PAD_LENGTH]) == (b"2", b"1", b"64")
    assert metadata[b"zephon.attention_mask"] == b"true"
    plain = tokens_metadata(Tokenize(llama_like, field="text", add_attention_mask=False))
    assert META_PAD_LENGTH not in plain and b"zephon.attention_mask" not in plain


def test_without_a_pad_token_rows_are_padded_with_eos_and_without_that_with_zero(gpt2_like, train):
    assert tokens_metadata(Tokenize(gpt2_like, field="text"))[META_PAD_ID] == b"0"
    two = train(["<s>", "</s>"])
    assert tokens_metadata(Tokenize(two, field="text"))[META_PAD_ID] == b"1"
    bare = tokens_metadata(Tokenize(train([]), field="text", special_tokens="none"))
    assert bare[META_PAD_ID] == b"0" and META_EOS_ID not in bare


def test_apply_gives_the_schema_that_was_promised(llama_like, make_block):
    for keep in (False, True):
        operator = Tokenize(llama_like, field="text", preserve_upstream_payload=keep)
        block = make_block({"text": pa.array(["a", "b"]), "n": pa.array([1, 2])})
        operator.setup(OperatorContext(schema=block.schema))
        promised = operator.output_schema(block.schema)
        assert operator.apply(block).schema.equals(promised, check_metadata=True)
        assert promised.names == (["text", "n", "input_ids"] if keep else ["input_ids"])
        operator.teardown()
        assert operator.apply(block).schema.equals(promised, check_metadata=True)


# -- special tokens ----------------------------------------------------------------------------------------------------


def test_one_token_may_begin_and_end(gpt2_like, make_block):
    out = Tokenize(gpt2_like, field="text").apply(make_block({"text": pa.array(["a"])}))
    ids = out.data.column("input_ids")[0].as_py()
    assert ids[0] == ids[-1] == 0 and len(ids) == 3


def test_cls_and_sep_begin_and_end_where_there_is_nothing_else(bert_like, make_block):
    block = make_block({"text": pa.array(["a"])})
    ours = Tokenize(bert_like, field="text").apply(block).data
    assert ours == Tokenize(bert_like, field="text", special_tokens="tokenizer_default").apply(block).data


@pytest.mark.parametrize(
    ("special", "mode", "offered"),
    [(["</s>"], "bos_eos", '"eos"'), (["</s>"], "bos", '"eos"'), ([], "eos", '"tokenizer_default"')],
)
def test_special_tokens_the_tokenizer_lacks_are_found_when_planned(train, special, mode, offered):
    operator = Tokenize(train(special), field="text", special_tokens=mode)
    with pytest.raises(PlanError) as caught:
        operator.output_schema(TEXT)
    assert caught.value.code == "special-token-missing"
    assert offered in caught.value.fix


def test_max_length_must_have_room_for_the_special_tokens(llama_like, bert_like):
    for tokenizer, mode in ((llama_like, "bos_eos"), (bert_like, "tokenizer_default")):
        operator = Tokenize(tokenizer, field="text", special_tokens=mode, max_length=1, truncation=True)
        assert code_of(operator.output_schema, TEXT) == "max-length-too-small"
    assert Tokenize(llama_like, field="text", max_length=1, split_long_samples=True).output_schema(TEXT)


# -- plans that cannot work --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"truncation": True}, "option-conflict"),
        ({"split_long_samples": True}, "option-conflict"),
        ({"padding": "max_length"}, "option-conflict"),
        ({"max_length": 8, "truncation": True, "split_long_samples": True}, "option-conflict"),
        ({"tokenizer_id": "gpt2"}, "option-conflict"),
        ({"tokenizer": None}, "option-conflict"),
        ({"tokenizer": "gpt2"}, "option-invalid"),
        ({"max_length": 0}, "option-invalid"),
        ({"max_length": True}, "option-invalid"),
        ({"padding": "left"}, "option-invalid"),
        ({"special_tokens": "both"}, "option-invalid"),
        ({"missing_field": "empty"}, "option-invalid"),
    ],
)
def test_options_that_make_no_sense_are_refused(llama_like, options, code):
    assert code_of(Tokenize, **{"tokenizer": llama_like, "field": "text", **options}) == code


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (pa.schema([("body", pa.string())]), "field-missing"),
        (pa.schema([("text", pa.binary())]), "field-type"),
        (pa.schema([("text", pa.int64())]), "field-type"),
        (pa.schema([("text", pa.string()), ("input_ids", pa.int64())]), "field-exists"),
    ],
)
def test_fields_that_do_not_fit_are_found_when_planned(llama_like, schema, code):
    operator = Tokenize(llama_like, field="text", preserve_upstream_payload=True)
    with pytest.raises(PlanError) as caught:
        operator.output_schema(schema)
    assert caught.value.code == code
    assert "tokenize" in caught.value.what


# -- specs -------------------------------------------------------------------------------------------------------------


def test_a_spec_survives_plain_data(saved):
    operator = Tokenize(
        tokenizer_id=str(saved),
        field="text",
        max_length=16,
        truncation=True,
        padding="max_length",
        special_tokens="eos",
    )
    assert from_plain(Tokenize, to_plain(operator)) == operator
    assert from_plain(Tokenize, to_plain(operator, defaults=False)) == operator
    decode = DecodeText(fields=("a", "b"), errors="replace")
    assert from_plain(DecodeText, to_plain(decode)) == decode


def test_a_live_tokenizer_cannot_be_written_down(llama_like):
    assert code_of(to_plain, Tokenize(llama_like, field="text")) == "not-plain-data"


def test_content_not_place_decides_whether_tokenizers_are_the_same(llama_like, gpt2_like, saved, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "tokenizer.json").write_bytes(saved.read_bytes())

    def identity(operator):
        assert isinstance(operator, HasContent)
        plain = to_plain(operator, data_only=True, portable=False)
        return fingerprint({"spec": plain, "content": dict(operator.content())})

    here = identity(Tokenize(tokenizer_id=str(saved), field="text"))
    assert here == identity(Tokenize(tokenizer_id=str(elsewhere), field="text"))
    assert here == identity(Tokenize(llama_like, field="text"))
    assert here != identity(Tokenize(gpt2_like, field="text"))
    assert here != identity(Tokenize(llama_like, field="text", special_tokens="none"))
    assert here == identity(Tokenize(llama_like, field="text", parallelism=3, placement="x"))
