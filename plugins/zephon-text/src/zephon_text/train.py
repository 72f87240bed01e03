"""Train a byte-level BPE (Radford et al. 2019, "Language models are unsupervised multitask learners") on text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"


def train_bpe(texts: Iterable[str], vocab_size: int, path: str) -> None:
    """Train and write ``tokenizer.json``, with ``<|endoftext|>`` as the only special token (id 0).

    Args:
        texts: what to train on; read once.
        vocab_size: number of tokens, at least 257.
        path: the file, or a folder to write ``tokenizer.json`` into.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    target = Path(path)
    tokenizer.save(str(target / "tokenizer.json" if target.is_dir() else target))
