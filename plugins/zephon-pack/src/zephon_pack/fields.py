"""Which columns are packed, and what comes out."""

from __future__ import annotations

import pyarrow as pa

from zephon.block import (
    DOCUMENT_TYPE,
    DOCUMENTS_FIELD,
    META_PAD_ID,
    META_PAD_LENGTH,
    META_PAD_SIDE,
    META_ROLE,
)
from zephon.errors import PlanError

POSITIONS_FIELD = "positions"

_DOCUMENTS_TYPE = pa.list_(DOCUMENT_TYPE)


def find_tokens(schema: pa.Schema, tokens_field: str) -> pa.Field:
    """The field that holds the tokens.

    Args:
        schema: what comes in.
        tokens_field: its name, or ``"auto"``: the field of role ``tokens``, else the only list of integers.

    Raises:
        PlanError: ``pack-tokens-missing``, ``pack-tokens-ambiguous``, ``pack-tokens-type``.
    """
    if tokens_field != "auto":
        if tokens_field not in schema.names:
            raise PlanError(
                f"pack_flat: there is no field {tokens_field!r}",
                found=f"the fields are: {', '.join(schema.names) or '(none)'}",
                fix="name one of them: pack_flat(..., tokens_field=...)",
                code="pack-tokens-missing",
            )
        field = schema.field(tokens_field)
        if not _is_integer_list(field.type):
            raise PlanError(
                f"pack_flat: field {tokens_field!r} does not hold tokens",
                found=f"{field.type}; expected a list of integers",
                fix="put .tokenize(field=...) before pack_flat, or name a field of tokens",
                code="pack-tokens-type",
            )
        return field
    with_role = [field for field in schema if role_of(field) == b"tokens"]
    candidates = with_role or [f for f in schema if _is_integer_list(f.type) and role_of(f) is None]
    if len(candidates) > 1:
        names = ", ".join(field.name for field in candidates)
        raise PlanError(
            f"pack_flat: several fields could hold the tokens: {names}",
            found="expected one field of role tokens, or a single list of integers",
            fix=f"name it: pack_flat(..., tokens_field={candidates[0].name!r})",
            code="pack-tokens-ambiguous",
        )
    if not candidates or not _is_integer_list(candidates[0].type):
        described = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise PlanError(
            "pack_flat: no field holds tokens",
            found=f"{described or 'no field at all'}; expected a list of integers",
            fix="put .tokenize(field=...) before pack_flat",
            code="pack-tokens-missing",
        )
    return candidates[0]


def packed_schema(schema: pa.Schema, tokens_field: str, max_length: int, pad_token_id: int | None) -> pa.Schema:
    """What comes out: the packed columns, tokens first, then positions and documents.

    Args:
        schema: what comes in.
        tokens_field: a name or ``"auto"``.
        max_length: tokens of a full row.
        pad_token_id: what short rows are padded with when read; the incoming field's, if None.

    Raises:
        PlanError: as :func:`find_tokens`; ``padding-before-packing``, ``pack-already-packed``, ``pack-name-clash``,
            ``pack-loss-mask-type``.
    """
    for field in schema:
        if role_of(field) == b"positions" or field.type == _DOCUMENTS_TYPE:
            raise PlanError(
                "pack_flat: the rows are packed already",
                found=f"the field {field.name!r} of a packing operator",
                fix="pack once: remove one of the packing operators",
                code="pack-already-packed",
            )
    tokens = find_tokens(schema, tokens_field)
    metadata = dict(tokens.metadata or {})
    if META_PAD_LENGTH in metadata:
        raise PlanError(
            f"pack_flat: {tokens.name!r} is padded before it is packed",
            found=f"rows padded to {metadata[META_PAD_LENGTH].decode()} tokens",
            fix="remove padding= from tokenize: packed rows are padded when they are read",
            code="padding-before-packing",
        )
    masks = [field for field in schema if role_of(field) == b"loss_mask"]
    for field in masks:
        if not (pa.types.is_list(field.type) or pa.types.is_large_list(field.type)) or not pa.types.is_primitive(
            field.type.value_type
        ):
            raise PlanError(
                f"pack_flat: the loss mask {field.name!r} cannot be packed",
                found=f"{field.type}; expected a list with one number per token",
                fix="store the loss mask as a list of integers, floats or booleans",
                code="pack-loss-mask-type",
            )
    for field in (tokens, *masks):
        if field.name in (POSITIONS_FIELD, DOCUMENTS_FIELD):
            raise PlanError(
                f"pack_flat: the field {field.name!r} has the name of a field that packing adds",
                found=f"{field.name}: {field.type}",
                fix="rename it before packing",
                code="pack-name-clash",
            )
    padding = {META_PAD_LENGTH: str(max_length).encode(), META_PAD_SIDE: b"right"}
    pad_id = metadata.get(META_PAD_ID) if pad_token_id is None else str(pad_token_id).encode()
    metadata |= {META_ROLE: b"tokens"} | padding | ({} if pad_id is None else {META_PAD_ID: pad_id})
    zero = padding | {META_PAD_ID: b"0"}
    return pa.schema(
        [
            pa.field(tokens.name, pa.list_(pa.int32()), metadata=metadata),
            *(pa.field(f.name, pa.list_(f.type.value_type), metadata=dict(f.metadata or {}) | zero) for f in masks),
            pa.field(POSITIONS_FIELD, pa.list_(pa.int32()), metadata={META_ROLE: b"positions"} | zero),
            pa.field(DOCUMENTS_FIELD, _DOCUMENTS_TYPE),
        ]
    )


def role_of(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(META_ROLE)


def _is_integer_list(kind: pa.DataType) -> bool:
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_integer(kind.value_type)
