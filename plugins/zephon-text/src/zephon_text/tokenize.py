"""``tokenize``: text to token ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.abc import OperatorContext, RowOperator, Tokenizer
from zephon.block import (
    META_ATTENTION_MASK,
    META_EOS_ID,
    META_PAD_ID,
    META_PAD_LENGTH,
    META_PAD_SIDE,
    META_ROLE,
    Block,
    list_column,
)
from zephon.errors import BadRow, BadRowsError, ConfigError, PlanError
from zephon.plugins import registry
from zephon.spec import execution, runtime
from zephon_text import arrange

#: Name of the column ``tokenize`` makes.
TOKENS_FIELD: Final = "input_ids"

_CHOICES: Final[Mapping[str, tuple[Any, ...]]] = {
    "special_tokens": ("bos_eos", "bos", "eos", "none", "tokenizer_default"),
    "padding": (False, True, "longest", "max_length"),
    "missing_field": ("error", "skip"),
}


@attrs.frozen(slots=True)
class Tokenize(RowOperator):
    """Turn a column of text into token ids.

    The output column ``input_ids`` (``list<int32>``) stays ragged: pad id and pad side travel in its metadata, and
    batches pad when they are read, so padding costs nothing before that and never trains. The pad id is the
    tokenizer's, else its end-of-sequence id, else 0.

    A row longer than ``max_length`` is split (``split_long_samples``), shortened (``truncation``) or, with neither, a
    bad row. Special tokens count: a shortened row keeps its end-of-sequence token, and of the pieces of a split row the
    first alone has the begin-of-sequence token and the last alone the end-of-sequence token.

    Args:
        tokenizer: a live ``tokenizers.Tokenizer``, a fast tokenizer of ``transformers`` or a ``zephon.abc.Tokenizer``.
            A pipeline that holds one runs, but cannot be written down as a recipe.
        tokenizer_id: hub id, directory, ``tokenizer.json`` or URL.
        field: the text column.
        backend: name of the tokenizer backend that loads ``tokenizer_id``.
        max_length: most ids a row may have, special tokens included.
        truncation: shorten longer rows.
        split_long_samples: split longer rows into several.
        padding: ``True`` or ``"longest"`` and ``False`` all pad to the longest row of a microbatch when it is read;
            ``"max_length"`` pads to ``max_length``.
        special_tokens: what is put around each text: ``"bos_eos"``, ``"bos"``, ``"eos"``, ``"none"``, or
            ``"tokenizer_default"`` for whatever the tokenizer's own post-processor adds.
        missing_field: a row without text is a bad row (``"error"``) or dropped (``"skip"``).
        add_attention_mask: let batches show an ``attention_mask`` (1 for tokens, 0 for padding).
        preserve_upstream_payload: keep all other columns, the text included.
        parallelism: execution setting, how many workers run it.
        placement: execution setting, where it runs.

    Raises:
        ConfigError: ``option-invalid``, ``option-conflict``; when planned ``tokenizer-not-found``,
            ``tokenizer-unreadable``, ``tokenizer-type``, ``tokenizer-not-deterministic``.
        PlanError: when planned, ``field-missing``, ``field-type``, ``field-exists``, ``special-token-missing``,
            ``max-length-too-small``.
        BadRowsError: ``text-missing``, ``row-too-long``.
    """

    # The tokenizer's content enters the fingerprint (see ``content``); how it was named or handed over does not, so
    # that a run resumes after its files have moved.
    tokenizer: Any = execution(default=None, kw_only=False)
    tokenizer_id: str | None = execution(default=None, kw_only=False)
    field: str = attrs.field(kw_only=True)
    backend: str = attrs.field(default="hf", kw_only=True)
    max_length: int | None = attrs.field(default=None, kw_only=True)
    truncation: bool = attrs.field(default=False, kw_only=True)
    split_long_samples: bool = attrs.field(default=False, kw_only=True)
    padding: bool | Literal["longest", "max_length"] = attrs.field(default=False, kw_only=True)
    special_tokens: Literal["bos_eos", "bos", "eos", "none", "tokenizer_default"] = attrs.field(
        default="bos_eos", kw_only=True
    )
    missing_field: Literal["error", "skip"] = attrs.field(default="error", kw_only=True)
    add_attention_mask: bool = attrs.field(default=True, kw_only=True)
    preserve_upstream_payload: bool = attrs.field(default=False, kw_only=True)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)
    _runtime: Any = runtime()

    def __attrs_post_init__(self) -> None:
        if (self.tokenizer is None) == (self.tokenizer_id is None):
            both = "both" if self.tokenizer is not None else "neither"
            _refuse(f"tokenize needs either tokenizer= or tokenizer_id=, and got {both}", "option-conflict")
        if isinstance(self.tokenizer, str):
            _refuse(
                f"tokenize: tokenizer={self.tokenizer!r} is a name, not a tokenizer",
                "option-invalid",
                f"tokenizer_id={self.tokenizer!r}",
            )
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                _refuse(
                    f"tokenize: {name}={value!r} is not possible",
                    "option-invalid",
                    f"{name}= one of {', '.join(map(repr, choices))}",
                )
        if self.max_length is not None and (isinstance(self.max_length, bool) or self.max_length < 1):
            _refuse(f"tokenize: max_length={self.max_length!r} is no length", "option-invalid", "max_length=2048")
        wants_length = {
            "truncation=True": self.truncation,
            "split_long_samples=True": self.split_long_samples,
            'padding="max_length"': self.padding == "max_length",
        }
        for setting, given in wants_length.items():
            if given and self.max_length is None:
                _refuse(f"tokenize: {setting} needs a max_length", "option-conflict", f"max_length=2048, {setting}")
        if self.truncation and self.split_long_samples:
            _refuse(
                "tokenize: truncation and split_long_samples exclude each other",
                "option-conflict",
                "split_long_samples=True keeps all tokens, truncation=True the first max_length of each row",
            )

    @property
    def preserves_rows(self) -> bool:
        """Whether every input row gives exactly one output row."""
        return not self.split_long_samples and self.missing_field == "error"

    @property
    def holds_gil(self) -> bool | None:
        """Hugging Face tokenizers release the lock; what others do is not known."""
        return None if self.backend != "hf" or isinstance(self.tokenizer, Tokenizer) else False

    @property
    def reads(self) -> tuple[str, ...]:
        """The text column, unless rows may lack it."""
        return (self.field,) if self.missing_field == "error" else ()

    @property
    def optional_reads(self) -> tuple[str, ...]:
        """The text column, if rows may lack it."""
        return () if self.missing_field == "error" else (self.field,)

    def content(self) -> Mapping[str, Any]:
        """The tokenizer's content, for the fingerprint."""
        return {"tokenizer": self._tokenizer().content_hash}

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """``input_ids`` with its metadata, after the other columns if these are kept."""
        index = schema.get_field_index(self.field)
        if index < 0:
            raise PlanError(
                f"tokenize reads the field {self.field!r}, which is not there",
                found=f"fields there: {', '.join(schema.names) or 'none'}",
                fix='name the text column: .tokenize(..., field="...")',
                code="field-missing",
            )
        kind = schema.field(index).type
        if not pa.types.is_string(kind):
            binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
            raise PlanError(
                f"tokenize cannot read the field {self.field!r}",
                found=f"{self.field!r} is {kind}; expected string",
                fix=f"put .decode_text(fields=({self.field!r},)) before it" if binary else "name a column of text",
                code="field-type",
            )
        if self.preserve_upstream_payload and TOKENS_FIELD in schema.names:
            raise PlanError(
                f"tokenize makes the field {TOKENS_FIELD!r}, which is there already",
                found=f"preserve_upstream_payload=True keeps: {', '.join(schema.names)}",
                fix=f"rename {TOKENS_FIELD!r} with .map_transform(), or leave preserve_upstream_payload out",
                code="field-exists",
            )
        kept = list(schema) if self.preserve_upstream_payload else []
        return pa.schema([*kept, self._tokens_field()], metadata=schema.metadata)

    def setup(self, context: OperatorContext) -> None:
        """Load the tokenizer."""
        self._tokenizer()

    def teardown(self) -> None:
        """Let go of the tokenizer."""
        vars(self._runtime).clear()

    def apply(self, block: Block) -> Block:
        """Tokenize one block."""
        schema = self.output_schema(block.schema)
        texts = block.data.column(self.field)
        rows = np.arange(len(block), dtype=np.int64)
        missing = rows[:0]
        if texts.null_count:
            present = texts.is_valid().to_numpy(zero_copy_only=False)
            if self.missing_field == "error":
                missing = rows[~present]
            rows = rows[present]
            texts = texts.drop_null()
        offsets, ids = self._encode(texts)
        lengths = np.diff(offsets)
        long = lengths[:0]
        parents = rows
        if self.max_length is not None:
            if self.split_long_samples:
                offsets, pieces = arrange.split(offsets, self.max_length)
                parents = rows[pieces]
            elif self.truncation:
                offsets, ids = arrange.cut(offsets, ids, self.max_length, self._around()[1])
            else:
                long = np.flatnonzero(lengths > self.max_length)
        if len(missing) or len(long):
            self._raise_bad(missing.tolist(), dict(zip(rows[long].tolist(), lengths[long].tolist(), strict=True)))
        return self._emit(block, schema, offsets, ids, parents)

    def _emit(
        self,
        block: Block,
        schema: pa.Schema,
        offsets: arrange.Offsets,
        ids: arrange.Ids,
        parents: npt.NDArray[np.int64],
    ) -> Block:
        tokens = list_column(offsets, ids)
        kept: list[pa.Array] = []
        if self.preserve_upstream_payload:
            unchanged = len(parents) == len(block) and self.preserves_rows
            kept = list(block.data.columns) if unchanged else [c.take(pa.array(parents)) for c in block.data.columns]
        data = pa.RecordBatch.from_arrays([*kept, tokens], schema=schema)
        return block.derive(data, parents)

    def _raise_bad(self, missing: list[int], long: Mapping[int, int]) -> NoReturn:
        bad = [BadRow(row, f"field {self.field!r} is null") for row in missing]
        bad += [
            BadRow(row, f"field {self.field!r} gives {length} tokens, max_length is {self.max_length}")
            for row, length in long.items()
        ]
        if missing:
            raise BadRowsError(
                sorted(bad),
                what=f"tokenize: a row has no text in {self.field!r}",
                fix='pass missing_field="skip" to drop such rows',
                code="text-missing",
            )
        raise BadRowsError(
            bad,
            what=f"tokenize: a row is longer than max_length={self.max_length}",
            fix="pass truncation=True, split_long_samples=True or a larger max_length",
            code="row-too-long",
        )

    def _encode(self, texts: pa.Array) -> tuple[arrange.Offsets, arrange.Ids]:
        tokenizer = self._tokenizer()
        if self.special_tokens == "tokenizer_default":
            return tokenizer.encode(texts, special_tokens=True)
        offsets, ids = tokenizer.encode(texts, special_tokens=False)
        special = tokenizer.special_tokens
        return arrange.surround(
            offsets,
            ids,
            special.bos if self.special_tokens in ("bos_eos", "bos") else None,
            special.eos if self.special_tokens in ("bos_eos", "eos") else None,
        )

    def _tokens_field(self) -> pa.Field:
        """The output column's name, type and metadata; checks what can be checked without data."""
        special = self._tokenizer().special_tokens
        self._check_special_tokens()
        if self.truncation and self.max_length is not None and sum(self._around()) > self.max_length:
            raise PlanError(
                f"tokenize: max_length={self.max_length} leaves no room for the special tokens",
                found=f"special_tokens={self.special_tokens!r} adds {sum(self._around())} to every row",
                fix="raise max_length",
                code="max-length-too-small",
            )
        pad = next((i for i in (special.pad, special.eos) if i is not None), 0)
        metadata = {META_ROLE: b"tokens", META_PAD_ID: str(pad).encode(), META_PAD_SIDE: b"right"}
        if special.eos is not None:
            metadata[META_EOS_ID] = str(special.eos).encode()
        if self.padding == "max_length":
            metadata[META_PAD_LENGTH] = str(self.max_length).encode()
        if self.add_attention_mask:
            metadata[META_ATTENTION_MASK] = b"true"
        return pa.field(TOKENS_FIELD, pa.list_(pa.int32()), metadata=metadata)

    def _check_special_tokens(self) -> None:
        special = self._tokenizer().special_tokens
        wanted = {"bos_eos": ("bos", "eos"), "bos": ("bos",), "eos": ("eos",)}.get(self.special_tokens, ())
        lacking = [name for name in wanted if getattr(special, name) is None]
        if not lacking:
            return
        known = {name: i for name in ("bos", "eos", "pad") if (i := getattr(special, name)) is not None}
        possible = [name for name in ("eos", "bos") if name in known] + ["tokenizer_default", "none"]
        raise PlanError(
            f"tokenize: this tokenizer has no {' and no '.join(lacking)} token for "
            f"special_tokens={self.special_tokens!r}",
            found=f"its special tokens: {', '.join(f'{name} = {i}' for name, i in known.items()) or 'none known'}",
            fix=f'special_tokens="{possible[0]}" (possible: {", ".join(possible)})',
            code="special-token-missing",
        )

    def _around(self) -> tuple[int, int]:
        """How many special tokens stand before and after each text."""
        if self.special_tokens != "tokenizer_default":
            return int(self.special_tokens in ("bos_eos", "bos")), int(self.special_tokens in ("bos_eos", "eos"))
        found: tuple[int, int] | None = getattr(self._runtime, "around", None)
        if found is None:
            found = self._runtime.around = _default_specials(self._tokenizer())
        return found

    def _tokenizer(self) -> Tokenizer:
        found: Tokenizer | None = getattr(self._runtime, "tokenizer", None)
        if found is None:
            if isinstance(self.tokenizer, Tokenizer):
                found = self.tokenizer
            elif self.tokenizer is not None:
                from zephon_text.hf import HfTokenizer

                found = HfTokenizer.from_object(self.tokenizer)
            else:
                found = registry("tokenizer").load(self.backend)().load(self.tokenizer_id)
            self._runtime.tokenizer = found
        return found


def _default_specials(tokenizer: Tokenizer) -> tuple[int, int]:
    """How many tokens the tokenizer's post-processor puts before and after a text, found by trying it on one."""
    probe = pa.array(["a"])
    _, bare = tokenizer.encode(probe, special_tokens=False)
    _, full = tokenizer.encode(probe, special_tokens=True)
    for before in range(len(full) - len(bare) + 1):
        if np.array_equal(full[before : before + len(bare)], bare):
            return before, len(full) - len(bare) - before
    return 0, 0


def _refuse(what: str, code: str, fix: str = 'tokenizer_id="gpt2"') -> NoReturn:
    raise ConfigError(what, fix=fix, code=code)
