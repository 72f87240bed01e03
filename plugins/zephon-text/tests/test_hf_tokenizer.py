"""The backend hf: content, special tokens, sharing, and what it leaves alone."""

from __future__ import annotations

import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import AddedToken

from zephon.abc import SpecialTokens, Tokenizer
from zephon.errors import ConfigError
from zephon_text.hf import HfBackend, HfTokenizer
from zephon_text.special import find_special_tokens


def write(directory, tokenizer, **companions):
    directory.mkdir(exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    for name, entries in companions.items():
        (directory / f"{name}.json").write_text(json.dumps(entries))
    return str(directory)


def test_offsets_and_ids_are_flat_and_typed(llama_like):
    tokenizer = HfTokenizer.from_object(llama_like)
    offsets, ids = tokenizer.encode(pa.array(["a", "", "the fox"]), special_tokens=False)
    assert isinstance(tokenizer, Tokenizer)
    assert (offsets.dtype, ids.dtype) == (np.int64, np.int32)
    assert offsets[0] == 0 and offsets[-1] == len(ids) and offsets[1] == offsets[2]
    empty_offsets, empty_ids = tokenizer.encode(pa.array([], pa.string()), special_tokens=False)
    assert empty_offsets.tolist() == [0] and empty_ids.dtype == np.int32 and len(empty_ids) == 0


def test_decode_gives_the_text_with_its_special_tokens(llama_like, bert_like):
    assert HfTokenizer.from_object(bert_like).decode(np.array([1, 2], np.int32)) == "[CLS] [SEP]"


def test_vocab_size_is_one_more_than_the_largest_id(train):
    live = train(["<s>"])
    largest = max(live.get_vocab(with_added_tokens=True).values())
    live.add_tokens(["extra"])
    assert HfTokenizer.from_object(live).vocab_size == largest + 2


# -- content -----------------------------------------------------------------------------------------------------------


def test_padding_and_truncation_found_in_the_file_are_off_and_are_no_content(train, tmp_path):
    live = train(["<s>", "</s>"])
    plain = HfBackend().load(write(tmp_path / "plain", live))
    live.enable_padding(length=40, pad_id=7)
    live.enable_truncation(2)
    configured = HfBackend().load(write(tmp_path / "configured", live))
    texts = pa.array(["the quick brown fox", "a"])
    for one, other in zip(*(t.encode(texts, special_tokens=False) for t in (plain, configured)), strict=True):
        assert one.tolist() == other.tolist()
    assert configured.special_tokens.pad == 7, "a pad id is known from the padding settings"
    live.enable_padding(length=99, pad_id=7)
    other_length = HfBackend().load(write(tmp_path / "other", live))
    assert configured.content_hash == other_length.content_hash
    assert configured.content_hash != plain.content_hash, "another pad id gives other batches"


def test_the_hash_knows_every_change_that_changes_ids(train, tmp_path):
    live = train(["<s>", "</s>"])
    hashes = {HfTokenizer.from_object(live).content_hash}
    assert HfBackend().load(write(tmp_path / "a", live)).content_hash in hashes, "file and object are the same content"
    other_eos = HfBackend().load(write(tmp_path / "b", live, tokenizer_config={"eos_token": "<s>"}))
    live.encode_special_tokens = True
    hashes |= {HfTokenizer.from_object(live).content_hash, other_eos.content_hash}
    live.encode_special_tokens = False
    live.add_tokens([AddedToken("fox", single_word=True)])
    hashes.add(HfTokenizer.from_object(live).content_hash)
    assert len(hashes) == 4


def test_special_tokens_in_the_text_follow_the_setting_of_the_live_object(train):
    live = train(["<s>"])
    text = pa.array(["<s>"])
    assert HfTokenizer.from_object(live).encode(text, special_tokens=False)[1].tolist() == [0]
    live.encode_special_tokens = True
    assert len(HfTokenizer.from_object(live).encode(text, special_tokens=False)[1]) == 3


def test_a_tokenizer_that_draws_at_random_is_refused(train):
    live = train(["<s>"])
    live.model.dropout = 0.1
    with pytest.raises(ConfigError) as caught:
        HfTokenizer.from_object(live)
    assert caught.value.code == "tokenizer-not-deterministic"


@pytest.mark.parametrize("thing", [object(), SimpleNamespace(backend_tokenizer=3), {"a": 1}])
def test_things_that_are_no_tokenizers_are_refused(thing):
    with pytest.raises(ConfigError) as caught:
        HfTokenizer.from_object(thing)
    assert caught.value.code == "tokenizer-type"


def test_the_backend_has_no_options(tmp_path):
    with pytest.raises(ConfigError) as caught:
        HfBackend().load(str(tmp_path), revision="main")
    assert caught.value.code == "option-unknown"


# -- special tokens ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({}, (0, 1, 2)),
        ({"bos_token": "</s>", "eos_token": {"content": "<s>"}}, (1, 0, 2)),
        ({"bos_token": None}, (None, 1, 2)),
        ({"bos_token": None, "cls_token": "<pad>"}, (2, 1, 2)),
        ({"cls_token": "<pad>", "sep_token": "<s>"}, (2, 0, 2)),
        ({"eos_token": "not in the vocabulary"}, (0, None, 2)),
        ({"pad_token": "<s>", "chat_template": "..."}, (0, 1, 0)),
    ],
)
def test_files_name_special_tokens_and_common_names_are_the_last_resort(llama_like, tmp_path, named, expected):
    found = HfBackend().load(write(tmp_path, llama_like, tokenizer_config=named)).special_tokens
    assert found == SpecialTokens(bos=expected[0], eos=expected[1], pad=expected[2])


def test_special_tokens_map_counts_where_the_config_is_silent(llama_like, tmp_path):
    place = write(
        tmp_path,
        llama_like,
        tokenizer_config={"eos_token": "<pad>"},
        special_tokens_map={"eos_token": "<s>", "bos_token": "</s>"},
    )
    assert HfBackend().load(place).special_tokens == SpecialTokens(bos=1, eos=2, pad=2)


def test_a_word_of_the_vocabulary_is_never_taken_for_a_special_token():
    found = find_special_tokens({"<s>": 5, "</s>": 6}.get, added={}, named={})
    assert found == SpecialTokens()


def test_a_transformers_tokenizer_says_itself_what_its_special_tokens_are(llama_like):
    fast = SimpleNamespace(
        backend_tokenizer=llama_like,
        bos_token_id=None,
        cls_token_id=2,
        eos_token_id=0,
        sep_token_id=1,
        pad_token_id=None,
    )
    assert HfTokenizer.from_object(fast).special_tokens == SpecialTokens(bos=2, eos=0, pad=None)


# -- one process, several workers --------------------------------------------------------------------------------------


def test_workers_of_one_process_share_one_object(llama_like, tmp_path):
    place = write(tmp_path, llama_like)
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda _: HfBackend().load(place), range(8)))
    assert len({id(t) for t in loaded}) == 1
    other = write(tmp_path, llama_like, tokenizer_config={"eos_token": "<s>"})
    assert HfBackend().load(other) is not loaded[0], "what changed on disk is loaded again"


def test_threads_encoding_at_once_get_what_one_gets(llama_like):
    tokenizer = HfTokenizer.from_object(llama_like)
    texts = [pa.array([f"the quick brown fox {i} 東京"] * 50) for i in range(16)]
    expected = [tokenizer.encode(t, special_tokens=False)[1].tolist() for t in texts]
    with ThreadPoolExecutor(8) as pool:
        found = [ids.tolist() for _, ids in pool.map(lambda t: tokenizer.encode(t, special_tokens=False), texts)]
    assert found == expected


def test_a_tokenizer_survives_pickling(bert_like):
    tokenizer = HfTokenizer.from_object(bert_like)
    again = pickle.loads(pickle.dumps(tokenizer))
    texts = pa.array(["the fox", ""])
    assert (
        again.encode(texts, special_tokens=True)[1].tolist() == tokenizer.encode(texts, special_tokens=True)[1].tolist()
    )
    assert (again.content_hash, again.special_tokens) == (tokenizer.content_hash, tokenizer.special_tokens)


def test_process_wide_settings_are_left_alone(llama_like, monkeypatch):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    before = dict(os.environ)
    HfTokenizer.from_object(llama_like).encode(pa.array(["a", "b"]), special_tokens=False)
    assert dict(os.environ) == before
