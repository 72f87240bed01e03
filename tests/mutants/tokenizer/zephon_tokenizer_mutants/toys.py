"""Tokenizers of bytes: what each must do, and one that trains and takes an option."""

import json
import zlib
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from zephon.abc import SpecialTokens, Tokenizer, TokenizerBackend
from zephon.errors import ConfigError

END = 0
END_OF_TEXT = "<|endoftext|>"


class Bytes(Tokenizer):
    """Every byte is an id, turned by a number and behind the one special token; texts are worked off one by one."""

    def __init__(self, turn):
        self.turn = turn

    def ids_of(self, text):
        return [1 + (byte + self.turn) % 256 for byte in text.encode()]

    def encode(self, texts, *, special_tokens):
        offsets, ids = [0], []
        for text in texts.to_pylist():
            ids += self.ids_of(text) + [END] * special_tokens
            offsets.append(len(ids))
        return np.array(offsets, np.int64), np.array(ids, np.int32)

    def decode(self, ids):
        pieces = [END_OF_TEXT.encode() if i == END else bytes([(i - 1 - self.turn) % 256]) for i in ids.tolist()]
        return b"".join(pieces).decode(errors="replace")

    @property
    def special_tokens(self):
        return SpecialTokens(eos=END)

    @property
    def vocab_size(self):
        return 257

    @property
    def content_hash(self):
        return f"bytes turned by {self.turn}"


class FastBytes(Bytes):
    """The same on whole columns."""

    def encode(self, texts, *, special_tokens):
        lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        content = np.frombuffer("".join(texts.to_pylist()).encode(), np.uint8)
        ids = 1 + (content.astype(np.int32) + self.turn) % 256
        if special_tokens:
            ids = np.insert(ids, bounds[1:], END).astype(np.int32)
            bounds = bounds + np.arange(len(bounds))
        return bounds, ids


class Minimal(TokenizerBackend):
    """Loads a toy from its folder."""

    kind = Bytes

    def load(self, tokenizer_id, **options):
        if options:
            raise ConfigError(f"unknown option {next(iter(options))!r}", fix="leave it out", code="option-unknown")
        return self.kind(self.read(tokenizer_id)["turn"])

    def read(self, tokenizer_id):
        path = Path(tokenizer_id)
        path = path / "toy.json" if path.is_dir() else path
        try:
            return json.loads(path.read_text())
        except FileNotFoundError as error:
            raise ConfigError(f"no toy at {path}", fix="make one", code="tokenizer-not-found") from error


class Maximal(Minimal):
    """Loads, trains, and can be told to turn further."""

    kind = FastBytes

    def load(self, tokenizer_id, **options):
        further = options.pop("further", 0)
        tokenizer = super().load(tokenizer_id, **options)
        tokenizer.turn += further
        return tokenizer

    def train(self, texts, *, vocab_size, path):
        if vocab_size < 257:
            raise ConfigError("a vocabulary of bytes has 257 ids", fix="vocab_size=257", code="toy-vocabulary")
        target = Path(path)
        turn = zlib.crc32("".join(texts).encode()) % 256
        (target / "toy.json" if target.is_dir() else target).write_text(json.dumps({"turn": turn}))
