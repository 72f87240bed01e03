"""``pack_flat``: documents in, flat rows of one length out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal, get_args

import attrs
import pyarrow as pa

from zephon.abc import Emits, LaneContext, LaneOperator, LaneState
from zephon.errors import ConfigError
from zephon.spec import execution
from zephon_pack.fields import find_tokens, packed_schema, role_of
from zephon_pack.fit import BestFit, BestFitWrap, FirstFit
from zephon_pack.homogeneity import Homogeneity, make_keys, one_name
from zephon_pack.pieces import RECORD, Overflow
from zephon_pack.placement import Placement
from zephon_pack.state import PackState
from zephon_pack.wrap import Wrap

Algorithm = Literal["first_fit", "best_fit", "wrap", "best_fit_wrap"]

#: Open bins where ``num_bins`` is not given. From 8 to 16 the padding on web text falls by about a third, from 16 to 32
#: by a fifth (see the README), while open rows, and so the short rows at the end of a lane, double each time. Part of
#: the data contract: another number moves the rows of every pipeline that does not give one.
DEFAULT_BINS: Final = 16

#: Bytes a held piece takes beyond its record: id, chunk, offset, its place in a list of Python integers.
_PIECE_BYTES: Final = 64


def _groups(value: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if value is None else dict(value)


@attrs.frozen(slots=True)
class PackFlat(LaneOperator):
    """Pack documents into flat rows of at most ``max_length`` tokens.

    Out come ``input_ids`` (under the name the tokens came in with, list<int32>), the loss mask if there was one,
    ``positions`` (list<int32>, from 0 in every document, and from 0 again where a document goes on in another row) and
    ``documents`` (which documents a row holds, ``start`` and ``length`` in tokens, in order and without gap). All other
    fields end here. Rows that are not full hold only their own tokens; they are padded on the right, to ``max_length``,
    when they are read. Nothing is flushed: a row leaves when it is full or when its bin is needed, and what is open is
    part of the checkpoint. Documents without a token are counted and leave no trace.

    Args:
        max_length: tokens of a full row. Training on labels one ahead uses one token less: 4097 for a context of 4096.
        algorithm: ``"first_fit"``: a document goes into the oldest open bin with room for it. ``"best_fit"``: into
            the one it fills best. Where none has room, the fullest of ``num_bins`` leaves. ``"wrap"``: documents follow
            each other and are cut where a row ends; every row is full. ``"best_fit_wrap"``: like best_fit, but a
            document that fits nowhere is cut to fill up the fullest bin; every row is full.
        num_bins: open bins (per group of ``homogeneity``) of all algorithms but wrap; 16 if not given. More bins:
            less padding, more memory, more short rows at the end.
        pad_token_id: what short rows are padded with; by default what the tokenizer says.
        tokens_field: the field of tokens; ``"auto"``: the one a tokenizer made, or the only list of integers.
        overflow: documents longer than ``max_length`` under first_fit and best_fit. ``"split"``: rows of
            ``max_length`` tokens, and the remainder is packed like a document; no token is lost. ``"truncate"``: keep
            the beginning. ``"drop"``: leave out, counted. ``"error"``: a bad row, subject to ``on_error``. The other
            algorithms cut anyway.
        homogeneity: what the documents of a row have in common: ``"none"``, their ``"dataset"``, their mixture
            ``"component"`` (``"full"`` is accepted for it), or their ``"group"``.
        groups: for ``homogeneity="group"``: group by name of dataset; others are groups of their own.
        parallelism: accepted on all operators; packing is sequential in its lane.
        placement: accepted on all operators; packing runs beside the consumer.

    Raises:
        ConfigError: ``pack-algorithm-unknown``, ``pack-bad-option``, ``pack-option-unused``.
    """

    emits: ClassVar[Emits] = "new"

    max_length: int
    algorithm: Algorithm = attrs.field(default="first_fit", kw_only=True)
    num_bins: int | None = attrs.field(default=None, kw_only=True)
    pad_token_id: int | None = attrs.field(default=None, kw_only=True)
    tokens_field: str = attrs.field(default="auto", kw_only=True)
    overflow: Overflow = attrs.field(default="split", kw_only=True)
    homogeneity: Homogeneity = attrs.field(default="none", kw_only=True, converter=one_name)
    groups: Mapping[str, str] | None = attrs.field(default=None, kw_only=True, converter=_groups)
    parallelism: int | None = execution(default=None)
    placement: str | None = execution(default=None)

    def __attrs_post_init__(self) -> None:
        _check_integer("max_length", self.max_length, 1)
        if self.num_bins is not None:
            _check_integer("num_bins", self.num_bins, 1)
        if self.pad_token_id is not None:
            _check_integer("pad_token_id", self.pad_token_id, -(1 << 31))
        _check_choice("algorithm", self.algorithm, get_args(Algorithm), "pack-algorithm-unknown")
        _check_choice("overflow", self.overflow, get_args(Overflow), "pack-bad-option")
        _check_choice("homogeneity", self.homogeneity, get_args(Homogeneity), "pack-bad-option")
        if self.algorithm == "wrap" and self.num_bins is not None:
            raise _unused("num_bins", self.num_bins, "wrap fills one row at a time", "remove num_bins")
        if self.algorithm in ("wrap", "best_fit_wrap") and self.overflow != "split":
            reason = f"{self.algorithm} cuts documents to fit, so none is too long"
            raise _unused("overflow", self.overflow, reason, "remove overflow, or choose first_fit or best_fit")
        if self.groups is not None and self.homogeneity != "group":
            reason = f"homogeneity is {self.homogeneity!r}"
            raise _unused("groups", self.groups, reason, 'pass homogeneity="group", or remove groups')
        if self.groups is None and self.homogeneity == "group":
            raise ConfigError(
                'pack_flat: homogeneity="group" needs groups',
                found="groups=None",
                fix='pass groups={"dataset": "group", ...}',
                code="pack-bad-option",
            )

    @property
    def reads(self) -> Sequence[str] | None:
        """The tokens; None (any field) where they are found by role or type."""
        return None if self.tokens_field == "auto" else (self.tokens_field,)

    def reads_of(self, schema: pa.Schema) -> Sequence[str]:
        """The tokens and the loss masks of this schema: columns that are not packed need not be read."""
        masks = [field.name for field in schema if role_of(field) == b"loss_mask"]
        return [find_tokens(schema, self.tokens_field).name, *masks]

    @property
    def optional_reads(self) -> Sequence[str]:
        """The usual name of a loss mask, which is packed if it has that role."""
        return () if self.tokens_field == "auto" else ("loss_mask",)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """Tokens, loss masks, positions, documents.

        Raises:
            PlanError: ``pack-tokens-missing``, ``pack-tokens-ambiguous``, ``pack-tokens-type``,
                ``padding-before-packing``, ``pack-already-packed``, ``pack-name-clash``, ``pack-loss-mask-type``.
        """
        return packed_schema(schema, self.tokens_field, self.max_length, self.pad_token_id)

    def open(self, context: LaneContext) -> LaneState:
        """A packer with no open row.

        Raises:
            ConfigError: ``pack-unknown-dataset``.
            PlanError: as :meth:`output_schema`.
        """
        return PackState(
            self.output_schema(context.schema),
            self._new_placement(),
            make_keys(self.homogeneity, self.groups, context.datasets),
            max_length=self.max_length,
            overflow=None if self.algorithm == "wrap" else self.overflow,
            lane=context.lane,
        )

    def state_bytes(self, schema: pa.Schema, row_bytes: float) -> int:
        """All bins full, held twice over, and a record per piece.

        The number of datasets is not known here: with ``homogeneity`` by dataset or component it counts as one.
        """
        columns = list(self.output_schema(schema))[:-2]
        token_bytes = sum(field.type.value_type.bit_width for field in columns) / 8
        groups = len(set(self.groups.values())) if self.groups else 1
        bins = 1 if self.algorithm == "wrap" else self.num_bins or DEFAULT_BINS
        tokens = groups * bins * self.max_length
        documents = min(tokens, tokens * token_bytes / max(row_bytes, token_bytes))
        return int(tokens * token_bytes * 2 + documents * (RECORD.itemsize + _PIECE_BYTES))

    def _new_placement(self) -> Placement:
        if self.algorithm == "wrap":
            return Wrap(self.max_length)
        kinds: dict[str, type[FirstFit] | type[BestFit]] = {
            "first_fit": FirstFit,
            "best_fit": BestFit,
            "best_fit_wrap": BestFitWrap,
        }
        return kinds[self.algorithm](self.max_length, self.num_bins or DEFAULT_BINS)


def _check_integer(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 31:
        raise ConfigError(
            f"pack_flat: {name} is not usable",
            found=f"{value!r}; expected an integer from {least} to 2**31 - 1",
            fix=f"pass e.g. {name}={4097 if name == 'max_length' else max(least, 0) or 16}",
            code="pack-bad-option",
        )


def _check_choice(name: str, value: object, choices: Sequence[str], code: str) -> None:
    if value not in choices:
        raise ConfigError(
            f"pack_flat: {name} {value!r} does not exist",
            found=f"{value!r}; the choices are: {', '.join(choices)}",
            fix=f"pass {name}={choices[0]!r}",
            code=code,
        )


def _unused(name: str, value: object, reason: str, fix: str) -> ConfigError:
    return ConfigError(
        f"pack_flat: {name} would have no effect",
        found=f"{name}={value!r}, but {reason}",
        fix=fix,
        code="pack-option-unused",
    )
