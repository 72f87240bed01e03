"""Keys of Arrow field metadata (bytes -> bytes): they tell views what a column means and how to pad it."""

from typing import Final

META_PAD_ID: Final = b"zephon.pad_id"  # decimal integer: the value rows are padded with
META_PAD_SIDE: Final = b"zephon.pad_side"  # b"right" or b"left"
META_PAD_LENGTH: Final = b"zephon.pad_length"  # decimal integer: pad to this; absent: to the longest row
META_ROLE: Final = b"zephon.role"  # b"tokens", b"positions", b"loss_mask", b"attention_mask"
#: A field whose values have no one type in its shard: why, as text. Its own type is null; reading it is an error.
META_CONFLICT: Final = b"zephon.conflict"
#: On a token column: whether views make an attention mask beside it, b"true" or absent.
META_ATTENTION_MASK: Final = b"zephon.attention_mask"
META_EOS_ID: Final = b"zephon.eos_id"  # decimal integer: the tokenizer's end-of-sequence id
