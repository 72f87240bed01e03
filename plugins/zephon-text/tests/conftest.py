"""Tokenizers trained on the spot, and blocks of texts with origins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from zephon.block import Block, Origins

CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "def function(argument): return argument + 1",
    "Straßenbahn, naïve café, 東京 タワー, Привет мир",
    "1234567890 <b>markup</b> \t tabs and  spaces",
] * 3


def _train(special: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=list(special),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


@pytest.fixture(scope="session")
def train() -> Callable[[Sequence[str]], Tokenizer]:
    return _train


@pytest.fixture(scope="session")
def llama_like() -> Tokenizer:
    """<s> = 0, </s> = 1, <pad> = 2."""
    return _train(["<s>", "</s>", "<pad>"])


@pytest.fixture(scope="session")
def gpt2_like() -> Tokenizer:
    """One special token that begins and ends."""
    return _train(["<|endoftext|>"])


@pytest.fixture(scope="session")
def bert_like() -> Tokenizer:
    """[CLS] text [SEP], put there by the post-processor."""
    tokenizer = _train(["[PAD]", "[CLS]", "[SEP]", "[UNK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


def _block(columns: dict[str, pa.Array]) -> Block:
    n = len(next(iter(columns.values())))
    zeros = np.zeros(n, dtype=np.int64)
    origins = Origins(
        component=zeros, dataset=zeros, shard=zeros, row=np.arange(n), epoch=zeros, part=zeros, phase=zeros
    )
    return Block(pa.record_batch(columns), origins)


@pytest.fixture(scope="session")
def make_block() -> Callable[[dict[str, pa.Array]], Block]:
    return _block


@pytest.fixture(scope="session")
def apply_in_pieces() -> Callable[[Any, Block, Sequence[int]], Block]:
    """Apply a row operator piece by piece, as an engine with other block boundaries would."""

    def apply(operator: Any, block: Block, cuts: Sequence[int]) -> Block:
        bounds = [0, *sorted({min(c, len(block)) for c in cuts}), len(block)]
        pieces = [operator.apply(block.slice(a, b)) for a, b in itertools.pairwise(bounds) if b > a]
        return Block.concat(pieces)

    return apply
