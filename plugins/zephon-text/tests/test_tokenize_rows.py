"""tokenize is the tokenizers library, row by row, and nothing else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zephon_text.hf as hf
from zephon_text.tokenize import Tokenize

WORDS = st.sampled_from(["the ", "fox", "東京", "Straße", "<s>", "</s>", "\n", "😀", "\x00", "  ", "0"])
TEXTS = st.one_of(
    st.just(""), st.text(st.characters(codec="utf-8"), max_size=20), st.lists(WORDS, max_size=30).map("".join)
)
CUTS = st.lists(st.integers(0, 12), max_size=4)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Blocks of a few rows shall cross chunk boundaries too."""
    monkeypatch.setattr(hf, "_CHUNK_BYTES", 64)


def reference(tokenizer, texts, mode):
    ids = [tokenizer.encode(t, add_special_tokens=mode == "tokenizer_default").ids for t in texts]
    before = [0] if mode in ("bos", "bos_eos") else []
    after = [1] if mode in ("eos", "bos_eos") else []
    return [[*before, *row, *after] for row in ids]


def ids_of(block):
    return block.data.column("input_ids").to_pylist()


@given(
    st.lists(TEXTS, min_size=1, max_size=12),
    CUTS,
    st.sampled_from(["bos_eos", "bos", "eos", "none", "tokenizer_default"]),
)
@settings(max_examples=80)
def test_rows_are_the_librarys_whatever_the_block_boundaries(
    llama_like, make_block, apply_in_pieces, texts, cuts, mode
):
    operator = Tokenize(llama_like, field="text", special_tokens=mode)
    block = make_block({"text": pa.array(texts, pa.string())})
    out = apply_in_pieces(operator, block, cuts)
    assert ids_of(out) == reference(llama_like, texts, mode)
    assert out.origins == block.origins
    assert out.data.column("input_ids").type == pa.list_(pa.int32())


@given(st.lists(TEXTS, min_size=1, max_size=10), CUTS, st.integers(1, 9))
@settings(max_examples=80)
def test_split_rows_are_the_whole_row_cut_whatever_the_block_boundaries(
    llama_like, make_block, apply_in_pieces, texts, cuts, length
):
    operator = Tokenize(
        llama_like, field="text", max_length=length, split_long_samples=True, preserve_upstream_payload=True
    )
    block = make_block({"text": pa.array(texts, pa.string())})
    out = apply_in_pieces(operator, block, cuts)
    whole = reference(llama_like, texts, "bos_eos")
    expected = [(i, row[k : k + length]) for i, row in enumerate(whole) for k in range(0, len(row), length)]
    assert ids_of(out) == [piece for _, piece in expected]
    assert out.origins.row.tolist() == [i for i, _ in expected]
    assert out.data.column("text").to_pylist() == [texts[i] for i, _ in expected]
    addresses = list(zip(out.origins.row.tolist(), out.origins.part.tolist(), strict=True))
    assert len(set(addresses)) == len(addresses), "two pieces share one origin"


@given(st.lists(TEXTS, min_size=1, max_size=10), st.integers(2, 9))
@settings(max_examples=60)
def test_truncation_is_the_librarys_own(bert_like, make_block, texts, length):
    """With the tokenizer's own special tokens, cut rows equal what the library cuts itself."""
    operator = Tokenize(bert_like, field="text", special_tokens="tokenizer_default", max_length=length, truncation=True)
    out = ids_of(operator.apply(make_block({"text": pa.array(texts, pa.string())})))
    bert_like.enable_truncation(length)
    try:
        expected = [bert_like.encode(t).ids for t in texts]
    finally:
        bert_like.no_truncation()
    assert out == expected


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=10), CUTS)
@settings(max_examples=40)
def test_skipping_drops_the_rows_without_text_and_no_other(llama_like, make_block, apply_in_pieces, texts, cuts):
    operator = Tokenize(llama_like, field="text", missing_field="skip", preserve_upstream_payload=True)
    block = make_block({"text": pa.array(texts, pa.string()), "n": pa.array(range(len(texts)))})
    out = apply_in_pieces(operator, block, cuts)
    kept = [i for i, t in enumerate(texts) if t is not None]
    assert out.data.column("n").to_pylist() == kept == out.origins.row.tolist()
    assert ids_of(out) == reference(llama_like, [texts[i] for i in kept], "bos_eos")


def test_a_very_long_row_among_short_ones_is_encoded_whole(llama_like, make_block):
    texts = ["a", "the quick brown fox " * 20_000, "", "b"]
    out = Tokenize(llama_like, field="text").apply(make_block({"text": pa.array(texts)}))
    assert ids_of(out) == reference(llama_like, texts, "bos_eos")


def test_a_slice_of_a_column_is_encoded_as_itself(llama_like, make_block):
    block = make_block({"text": pa.array(["one", "two", None, "three"])}).slice(1, 4)
    out = Tokenize(llama_like, field="text", missing_field="skip", special_tokens="none").apply(block)
    assert ids_of(out) == reference(llama_like, ["two", "three"], "none")
    assert out.origins.row.tolist() == [1, 3]


def test_the_tokenizer_that_was_handed_over_is_left_as_it_was(train, make_block):
    live = train(["<s>", "</s>"])
    live.enable_padding(length=50)
    live.enable_truncation(3)
    texts = ["the quick brown fox", "fox"]
    out = ids_of(Tokenize(live, field="text", special_tokens="none").apply(make_block({"text": pa.array(texts)})))
    assert live.padding is not None and live.truncation is not None
    live.no_padding()
    live.no_truncation()
    assert out == reference(live, texts, "none")
    assert np.all(np.array([len(r) for r in out]) != 50)
