"""The tokenizer backend ``hf``: the Hugging Face ``tokenizers`` library, without ``transformers``."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer as Library

from zephon.abc import SpecialTokens, Tokenizer, TokenizerBackend
from zephon.errors import ConfigError
from zephon.spec import canonical_json
from zephon_text.files import find_files, unreadable
from zephon_text.special import find_special_tokens
from zephon_text.train import train_bpe

#: Bytes of text handed to the library at once. An encoding takes some 100 bytes a token until its ids are copied out,
#: so this bounds what a call holds on top of its result; the library's threads are still busy at this size.
_CHUNK_BYTES: Final = 1 << 20


class HfTokenizer(Tokenizer):
    """A tokenizer of the ``tokenizers`` library, on a private copy that is never changed again.

    Batches are encoded with the interpreter lock released. The library shares each batch out over its own thread
    pool, one per process; callers wait for it, so several worker threads do not oversubscribe the cores. Its
    process-wide switches (``TOKENIZERS_PARALLELISM``) are left to the user.
    """

    def __init__(self, library: Any, special_tokens: SpecialTokens, content_hash: str) -> None:
        self._library = library
        self._special_tokens = special_tokens
        self._content_hash = content_hash

    def encode(self, texts: pa.Array, *, special_tokens: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Encode a column of texts; see :class:`zephon.abc.Tokenizer`."""
        strings = texts.to_numpy(zero_copy_only=False).tolist()
        ids = array("i")
        ends = [0]
        for start, stop in _chunks(texts):
            encodings = self._library.encode_batch_fast(strings[start:stop], add_special_tokens=special_tokens)
            # The library hands out one object a text and one list of ids an object: a loop is the only way in.
            for encoding in encodings:
                ids.fromlist(encoding.ids)
                ends.append(len(ids))
        return np.array(ends, dtype=np.int64), np.array(ids, dtype=np.int32)

    def decode(self, ids: npt.NDArray[np.int32]) -> str:
        """The text of one sequence of ids, special tokens included."""
        text: str = self._library.decode(np.asarray(ids).tolist(), skip_special_tokens=False)
        return text

    @property
    def special_tokens(self) -> SpecialTokens:
        """Ids found in the tokenizer's own files."""
        return self._special_tokens

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return max(self._library.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @property
    def content_hash(self) -> str:
        """SHA-256 of the tokenizer's JSON without padding and truncation settings, and of its special ids."""
        return self._content_hash

    @staticmethod
    def from_object(live: Any) -> HfTokenizer:
        """Make a private copy of a live ``tokenizers.Tokenizer`` or of a fast tokenizer of ``transformers``.

        Raises:
            ConfigError: ``tokenizer-type``, ``tokenizer-not-deterministic``.
        """
        library = getattr(live, "backend_tokenizer", live)
        if not isinstance(library, Library):
            raise ConfigError(
                "tokenize: tokenizer= is not a tokenizer that can be used",
                found=f"a {type(live).__module__}.{type(live).__qualname__}; expected a tokenizers.Tokenizer, a fast "
                "tokenizer of transformers or a zephon.abc.Tokenizer",
                fix='pass tokenizer_id="..." for a hub id, directory, tokenizer.json or URL',
                code="tokenizer-type",
            )
        try:
            content = library.to_str()
        except Exception as error:
            raise ConfigError(
                "tokenize: this tokenizer cannot be written down",
                found=str(error),
                fix="use components of the tokenizers library only: parts written in Python have no content to compare",
                code="tokenizer-type",
            ) from error
        given = None
        if library is not live:
            ids = {
                purpose: next((i for name in names if (i := getattr(live, f"{name}_token_id", None)) is not None), None)
                for purpose, names in {"bos": ("bos", "cls"), "eos": ("eos", "sep"), "pad": ("pad",)}.items()
            }
            given = SpecialTokens(**ids)
        return _load(content.encode(), "tokenizer=", given=given, special_is_text=library.encode_special_tokens)


class HfBackend(TokenizerBackend):
    """Loads tokenizers by hub id, directory, ``tokenizer.json`` or URL. One process loads the same content once."""

    def load(self, tokenizer_id: str, **options: Any) -> HfTokenizer:
        """Load a tokenizer; there are no options.

        Raises:
            ConfigError: ``tokenizer-not-found``, ``tokenizer-unreadable``, ``tokenizer-not-deterministic``,
                ``option-unknown``.
            StorageError: ``tokenizer-unreachable``.
        """
        if options:
            raise ConfigError(
                f"the tokenizer backend hf has no option {next(iter(options))!r}",
                found=f"options: {', '.join(options)}; expected none",
                fix="leave them out",
                code="option-unknown",
            )
        files = find_files(tokenizer_id)
        return _load(files.tokenizer, files.source, named=files.named)

    def train(self, texts: Iterable[str], *, vocab_size: int, path: str) -> None:
        """Train a byte-level BPE; see :class:`zephon.abc.TrainsTokenizers`."""
        train_bpe(texts, vocab_size, path)


#: What this process has loaded, by content. Workers share one object: it is thread-safe, and vocabularies are large.
_loaded: WeakValueDictionary[str, HfTokenizer] = WeakValueDictionary()
_loading = threading.Lock()


def _load(
    content: bytes,
    source: str,
    *,
    named: Mapping[str, Any] | None = None,
    given: SpecialTokens | None = None,
    special_is_text: bool = False,
) -> HfTokenizer:
    besides = {
        "named": dict(named or {}),
        "given": attrs.asdict(given) if given else None,
        "special_is_text": special_is_text,
    }
    key = _sha256(content, canonical_json(besides))
    with _loading:
        tokenizer = _loaded.get(key)
        if tokenizer is None:
            tokenizer = _loaded[key] = _build(content, source, named or {}, given, special_is_text)
        return tokenizer


def _build(
    content: bytes, source: str, named: Mapping[str, Any], given: SpecialTokens | None, special_is_text: bool
) -> HfTokenizer:
    try:
        plain = json.loads(content)
        padding = plain.pop("padding", None) or {}
        plain.pop("truncation", None)
        dropout = plain["model"].get("dropout")
        library = Library.from_str(content.decode())
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        raise unreadable(source, f"{type(error).__name__}: {error}") from None
    if dropout:
        raise ConfigError(
            "tokenize: this tokenizer draws at random: its ids differ from call to call",
            found=f"{source}: model.dropout is {dropout}",
            fix='set "dropout": null in its tokenizer.json (or tokenizer.model.dropout = None)',
            code="tokenizer-not-deterministic",
        )
    # Batches are cut and padded by the pipeline alone.
    library.no_padding()
    library.no_truncation()
    library.encode_special_tokens = special_is_text
    added = {token.content: i for i, token in library.get_added_tokens_decoder().items()}
    special = given or find_special_tokens(library.token_to_id, added, named, pad_id=padding.get("pad_id"))
    identity = {"special_tokens": attrs.asdict(special), "special_is_text": special_is_text}
    return HfTokenizer(library, special, _sha256(canonical_json(plain), canonical_json(identity)))


def _sha256(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _chunks(texts: pa.Array) -> Iterator[tuple[int, int]]:
    """Ranges of rows of about :data:`_CHUNK_BYTES` of text each."""
    if len(texts) == 0:
        return
    total = np.cumsum(pc.binary_length(texts).to_numpy().astype(np.int64))
    cuts = np.flatnonzero(np.diff(total // _CHUNK_BYTES)) + 1
    bounds = [0, *cuts.tolist(), len(texts)]
    yield from itertools.pairwise(bounds)
