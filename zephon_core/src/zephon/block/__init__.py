"""Blocks: Arrow record batches of consecutive rows of one lane, each row with its origin.

A block is an execution detail. Where one ends and the next begins may never show in a result.
"""

from zephon.block.block import RESERVED_PREFIX, Block
from zephon.block.canonical import canonical_schema, canonical_type, conform, unify_schemas, unify_types
from zephon.block.columns import (
    MAX_COLUMN_BYTES,
    concat_batches,
    empty_batch,
    empty_columns,
    list_column,
    list_parts,
    retained_bytes,
    take_batch,
)
from zephon.block.metadata import (
    META_ATTENTION_MASK,
    META_CONFLICT,
    META_EOS_ID,
    META_PAD_ID,
    META_PAD_LENGTH,
    META_PAD_SIDE,
    META_ROLE,
)
from zephon.block.origins import DOCUMENT_TYPE, DOCUMENTS_FIELD, ORIGIN_DTYPES, Origins

__all__ = [
    "DOCUMENTS_FIELD",
    "DOCUMENT_TYPE",
    "MAX_COLUMN_BYTES",
    "META_ATTENTION_MASK",
    "META_CONFLICT",
    "META_EOS_ID",
    "META_PAD_ID",
    "META_PAD_LENGTH",
    "META_PAD_SIDE",
    "META_ROLE",
    "ORIGIN_DTYPES",
    "RESERVED_PREFIX",
    "Block",
    "Origins",
    "canonical_schema",
    "canonical_type",
    "concat_batches",
    "conform",
    "empty_batch",
    "empty_columns",
    "list_column",
    "list_parts",
    "retained_bytes",
    "take_batch",
    "unify_schemas",
    "unify_types",
]
