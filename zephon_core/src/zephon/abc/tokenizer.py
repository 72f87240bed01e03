"""``zephon.tokenizer.v1``: tokenizer backends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa


@attrs.frozen(slots=True, kw_only=True)
class SpecialTokens:
    """Ids of the tokens a pipeline may add, None where the tokenizer has none."""

    bos: int | None = None
    eos: int | None = None
    pad: int | None = None


class Tokenizer(ABC):
    """A loaded tokenizer. Thread-safe; never touches process-wide settings."""

    @abstractmethod
    def encode(self, texts: pa.Array, *, special_tokens: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Encode a column of texts.

        Args:
            texts: ``string`` array ``[n]`` without nulls.
            special_tokens: whether the tokenizer adds its own special tokens (its post-processor): the same before and
                after every text.

        Returns:
            Offsets int64 ``[n + 1]`` from 0, and flat ids int32 ``[offsets[-1]]``, the caller's own. The ids of a text
            do not depend on the texts around it.
        """

    @abstractmethod
    def decode(self, ids: npt.NDArray[np.int32]) -> str:
        """The text of one sequence of ids."""

    @property
    @abstractmethod
    def special_tokens(self) -> SpecialTokens:
        """Ids found in the tokenizer's own files."""

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """One more than the largest id."""

    @property
    @abstractmethod
    def content_hash(self) -> str:
        """Hash of everything that determines the ids; not of where it was loaded from."""


@runtime_checkable
class TrainsTokenizers(Protocol):
    """Capability ``train``: a backend that can make a tokenizer from text."""

    def train(self, texts: Iterable[str], *, vocab_size: int, path: str) -> None:
        """Train a byte-level BPE and write it to a file or folder.

        ``<|endoftext|>``, its eos, is the only special token.
        """


class TokenizerBackend(ABC):
    """Loads tokenizers of one library."""

    @abstractmethod
    def load(self, tokenizer_id: str, **options: Any) -> Tokenizer:
        """Load by hub id, directory, file or URL.

        Raises:
            ConfigError: ``tokenizer-not-found``; ``option-unknown``.
        """
