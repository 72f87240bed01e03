"""Which of a tokenizer's tokens begin a text, end it and fill it up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from zephon.abc import SpecialTokens

#: For each purpose, the entries of tokenizer_config.json and special_tokens_map.json that name the token, best first.
_ENTRIES: Final[Mapping[str, tuple[str, ...]]] = {
    "bos": ("bos_token", "cls_token"),
    "eos": ("eos_token", "sep_token"),
    "pad": ("pad_token",),
}

#: What such tokens are called where no file names them, best first. Only *added* tokens are considered, never words.
_COMMON: Final[Mapping[str, tuple[str, ...]]] = {
    "bos": (
        "<s>",
        "<bos>",
        "<|begin_of_text|>",
        "<|startoftext|>",
        "<|bos|>",
        "<｜begin▁of▁sentence｜>",
        "[BOS]",
        "[CLS]",
        "<|endoftext|>",
    ),
    "eos": (
        "</s>",
        "<eos>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<|eos|>",
        "<｜end▁of▁sentence｜>",
        "[EOS]",
        "[SEP]",
    ),
    "pad": ("<pad>", "<|pad|>", "<|finetune_right_pad_id|>", "[PAD]"),
}


def find_special_tokens(
    token_id: Callable[[str], int | None],
    added: Mapping[str, int],
    named: Mapping[str, Any],
    *,
    pad_id: int | None = None,
) -> SpecialTokens:
    """Find begin, end and pad.

    What a file says wins, and a token a file declares to be null is surely not there. Where no file says anything,
    the names in common use are looked for among the added tokens.

    Args:
        token_id: id of a token, or None.
        added: ids of the added tokens by their text.
        named: entries of the tokenizer's configuration files: a token's text, or a dict with its text as ``content``.
        pad_id: id used by the tokenizer's own padding settings, if it has any.
    """
    ids = {purpose: _find(purpose, token_id, added, named) for purpose in _ENTRIES}
    if ids["pad"] is None:
        ids["pad"] = pad_id
    return SpecialTokens(**ids)


def _find(
    purpose: str, token_id: Callable[[str], int | None], added: Mapping[str, int], named: Mapping[str, Any]
) -> int | None:
    present = [entry for entry in _ENTRIES[purpose] if entry in named]
    for entry in present:
        value = named[entry]
        text = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(text, str) and (found := token_id(text)) is not None:
            return found
    if present:
        return None
    return next((added[text] for text in _COMMON[purpose] if text in added), None)
