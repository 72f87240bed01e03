"""What the conformance kit makes operators with that need files; imported by nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from zephon.block import Block

_CORPUS: Final = (
    "the quick brown fox jumps over the lazy dog",
    "naïve café, 漢字かな and 🙂",
    "edge row line plain",
) * 3


@cache
def folder() -> TemporaryDirectory[str]:
    """A folder that lives as long as the process, with a ``tokenizer.json`` of a few hundred ids."""
    made = TemporaryDirectory(prefix="zephon-samples-")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.save(str(Path(made.name) / "tokenizer.json"))
    return made


class DecodeTextSamples:
    """Bytes and texts; some bytes that are no text, and some nulls, among the damaged rows."""

    examples: Sequence[Mapping[str, Any]] = (
        {"fields": ("raw",)},
        {"fields": ("text", "raw"), "errors": "replace"},
        {"fields": ("raw",), "encoding": "latin-1", "normalize_newlines": False},
    )

    def damaged(self: Any, rows: int) -> Block:
        """Rows of which every fifth is no UTF-8."""
        block: Block = self.block(rows)
        place = block.schema.get_field_index("raw")
        values = block.data.column(place).to_pylist()
        values[2::5] = [b"\xff" + value for value in values[2::5]]
        values[4::7] = [None] * len(values[4::7])
        column = pa.array(values, pa.binary())
        return block.with_data(block.data.set_column(place, block.schema.field(place), column))


class TokenizeSamples:
    """Rows kept whole, split, shortened, refused and skipped."""

    schema = pa.schema([("text", pa.string()), ("n", pa.int64()), ("note", pa.string())])

    @property
    def examples(self) -> Sequence[Mapping[str, Any]]:
        """All of one tokenizer."""
        given = {"tokenizer_id": str(Path(folder().name) / "tokenizer.json"), "field": "text"}
        return (
            given,
            {**given, "max_length": 8, "split_long_samples": True, "preserve_upstream_payload": True},
            {**given, "max_length": 6, "truncation": True, "padding": "max_length", "special_tokens": "eos"},
            {**given, "max_length": 14, "special_tokens": "none", "preserve_upstream_payload": True},
            {**given, "field": "note", "missing_field": "skip", "special_tokens": "tokenizer_default"},
        )
