"""``to_training``: from a microbatch to inputs, labels and what attention needs.

Everything is computed on ``[rows, width]`` arrays of the whole view; there is no loop over rows or tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.batch import frameworks
from zephon.batch.columns import ATTENTION_MASK, attention_field, to_arrays, unknown_field
from zephon.batch.facts import BatchFacts
from zephon.batch.grid import Bools, Grid, aligned, begins, counted, find_role, grid_of
from zephon.batch.padding import is_ragged, number, role
from zephon.batch.records import Origin, origin_list
from zephon.batch.window import Window
from zephon.block import META_EOS_ID, Origins
from zephon.errors import ConfigError

_POSITION_MODES: Final = ("preserve", "sequence")
_TEXT: Final = "text"


def _refuse(what: str, fix: str, code: str = "option-conflict", found: str = "") -> ConfigError:
    return ConfigError(f"to_training: {what}", found=found, fix=fix, code=code)


def _renames(value: Mapping[str, str] | None) -> dict[str, str]:
    return dict(value or {})


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise _refuse(f"{value!r} is one name, not a sequence of names", f"write ({value!r},)", "option-invalid")
    return tuple(value)


@attrs.frozen(slots=True, kw_only=True)
class TrainingOptions:
    """The arguments of :meth:`zephon.batch.Batch.to_training`, checked against each other."""

    tokens_field: str
    return_labels: bool
    dtype: Any
    extra_fields: tuple[str, ...] = attrs.field(converter=_names)
    ignore_index: int
    rename_fields: Mapping[str, str] = attrs.field(converter=_renames)
    flatten: bool
    exclude_fields: tuple[str, ...] = attrs.field(converter=_names)
    return_num_valid_tokens: bool
    return_loss_mask: bool
    return_cu_seqlens: bool
    return_padding_mask: bool
    return_document_ids: bool
    eos_mask_loss: bool
    mask_document_boundaries: bool
    eos_token_id: int | None
    position_mode: str

    def __attrs_post_init__(self) -> None:
        for name in ("return_num_valid_tokens", "return_loss_mask", "eos_mask_loss", "mask_document_boundaries"):
            if getattr(self, name) and not self.return_labels:
                raise _refuse(f"{name} is about labels, and none are asked for", f"return_labels=True, {name}=True")
        if self.position_mode not in _POSITION_MODES:
            modes = " or ".join(map(repr, _POSITION_MODES))
            raise _refuse(
                f"position_mode={self.position_mode!r} is not possible", f"position_mode={modes}", "option-invalid"
            )
        eos = self.eos_token_id
        if eos is not None and (isinstance(eos, bool) or not isinstance(eos, (int, np.integer)) or eos < 0):
            raise _refuse(f"eos_token_id={eos!r} is no token id", "eos_token_id=2", "option-invalid")

    @property
    def target(self) -> tuple[str, np.dtype[Any]]:
        """Framework (``"torch"``, ``"numpy"``, ``"list"``) and dtype of tokens, labels and positions.

        Raises:
            ConfigError: ``option-invalid``.
        """
        default = "torch" if frameworks.installed("torch") else "numpy"
        if self.dtype is None:
            return "list", np.dtype(np.int64)
        name, framework = self.dtype, default
        if isinstance(name, str) and name == "auto":
            return default, np.dtype(np.int64)
        if str(name).startswith("torch."):
            framework, name = "torch", str(name).removeprefix("torch.")
        elif not isinstance(name, str):
            framework = "numpy"
        try:
            dtype = np.dtype(name)
        except TypeError:
            dtype = np.dtype(object)
        if dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
            raise _refuse(f"dtype={self.dtype!r} cannot hold token ids", 'dtype="int64" or "int32"', "option-invalid")
        return framework, dtype


def to_training(
    data: pa.RecordBatch, origins: Origins, window: Window, facts: BatchFacts, options: TrainingOptions
) -> dict[str, Any]:
    """See :meth:`zephon.batch.Batch.to_training`.

    Args:
        data: the real rows of the whole microbatch.
        origins: origins of the rows seen, fill rows included.
        window: which rows are seen.
        facts: names.
        options: what is wanted.
    """
    framework, dtype = options.target
    conversion = _Conversion(data, window, options, dtype)
    ids: list[Origin] = origin_list(origins.columns(), facts)
    result: dict[str, Any] = {"ids": ids, "texts": _texts(data, window), **conversion.token_arrays()}
    for name in options.extra_fields:
        conversion.check_extra(name, result)
        if name not in result:
            result[name] = conversion.extra(name)
    renamed = _renamed(result, options.rename_fields)
    kept = {name: value for name, value in renamed.items() if name not in options.exclude_fields}
    return {name: frameworks.training_value(value, framework) for name, value in kept.items()}


class _Conversion:
    """The arrays of one call, each made once."""

    def __init__(self, data: pa.RecordBatch, window: Window, options: TrainingOptions, dtype: np.dtype[Any]) -> None:
        self.data = data
        self.window = window
        self.options = options
        self.dtype = dtype
        self.grid: Grid = grid_of(data, window, options.tokens_field)
        self.mask = self.grid.mask()
        self.position_field = find_role(data.schema, b"positions")
        self.loss_field = find_role(data.schema, b"loss_mask")
        #: Columns that remain: with labels the last token is only ever a label.
        self.width = max(self.grid.width - 1, 0) if options.return_labels else self.grid.width

    @cached_property
    def _begins(self) -> Bools | None:
        return begins(self.grid, self.data)

    def token_arrays(self) -> dict[str, Any]:
        """Everything that is made of tokens, masks and boundaries, by key."""
        options = self.options
        tokens = self.grid.tokens()
        if tokens.size and not np.can_cast(tokens.dtype, self.dtype) and int(tokens.max()) > np.iinfo(self.dtype).max:
            raise _refuse(f"token ids do not fit {self.dtype}", 'dtype="int64"', found=f"an id of {int(tokens.max())}")
        result: dict[str, Any] = {"input_ids": self._shaped(tokens, self.dtype)}
        if options.return_labels:
            trained = self._trained(tokens)
            labels = np.where(trained, tokens[:, 1:], options.ignore_index).astype(self.dtype)
            result["labels"] = self._flat(labels)
        positions = self._positions()
        if positions is not None:
            result["positions"] = self._shaped(positions, self.dtype)
        if options.return_loss_mask:
            result["loss_mask"] = self._flat((labels != options.ignore_index).astype(np.float32))
        elif not options.return_labels and self.loss_field is not None:
            result["loss_mask"] = self._shaped(aligned(self.grid, self.data, self.loss_field))
        if options.return_padding_mask:
            result["padding_mask"] = self._shaped(~self.mask)
        if options.return_document_ids:
            result["document_ids"] = self._shaped(self._document_ids(), np.dtype(np.int32))
        if options.return_cu_seqlens:
            result["cu_seqlens"], result["max_seqlen"] = self._sequence_lengths()
        if options.return_num_valid_tokens:
            result["num_valid_tokens"] = int(np.count_nonzero(labels != options.ignore_index))
        return result

    def check_extra(self, name: str, made: Mapping[str, Any]) -> None:
        """Refuse a further column that would hide what is made here, or stand out of line with the labels."""
        if self.options.return_labels and name == self.loss_field:
            raise _refuse(
                f"extra_fields: {name!r} is in line with the inputs, and masks the labels already",
                "return_loss_mask=True gives a mask in line with the labels",
            )
        if name in made and name not in (self.position_field, self.loss_field):
            raise _refuse(
                f"extra_fields: {name!r} is made here and would be overwritten",
                f"rename the column {name!r} before batching",
                "name-clash",
            )

    def extra(self, name: str) -> Any:
        """A further column: cut and flattened like the tokens if it has one value per token, as it is otherwise."""
        schema = self.data.schema
        if name == ATTENTION_MASK and attention_field(schema) is not None:
            return self._shaped(self.mask, self.dtype)
        index = schema.get_field_index(name)
        if index < 0:
            raise unknown_field(name, schema)
        if self._per_token(name):
            values = aligned(self.grid, self.data, name)
            return self._shaped(values, self.dtype if values.dtype.kind in "iu" else values.dtype)
        array = to_arrays(self.data, self.window, (name,))[name]
        if isinstance(array, np.ma.MaskedArray):
            raise ConfigError(
                f"the field {name!r} holds nulls, which an array has no value for",
                found=f"{int(array.mask.sum())} nulls in this batch",
                fix=f"fill them with .map_transform(), or read batch[{name!r}]",
                code="null-in-field",
            )
        return np.array(array) if array.dtype.kind in "iufb" else array.tolist()

    def _per_token(self, name: str) -> bool:
        field = self.data.schema.field(name)
        if role(field) in (b"positions", b"loss_mask", b"attention_mask"):
            return True
        if not is_ragged(field.type):
            return False
        column = self.data.column(name)
        lengths = column.value_lengths().fill_null(0).to_numpy()
        return bool(np.array_equal(lengths, self.grid.ragged.lengths))

    def _trained(self, tokens: npt.NDArray[Any]) -> Bools:
        """Which labels train, ``[rows, width - 1]``: what is read and what is predicted are both real, and wanted."""
        options = self.options
        trained: Bools = self.mask[:, :-1] & self.mask[:, 1:]
        if self.loss_field is not None:
            trained &= aligned(self.grid, self.data, self.loss_field)[:, 1:] != 0
        if options.mask_document_boundaries:
            trained &= ~self._boundaries("mask_document_boundaries")[:, 1:]
        if options.eos_mask_loss:
            trained &= tokens[:, :-1] != self._eos()
        return trained

    def _eos(self) -> int:
        given = self.options.eos_token_id
        found = given if given is not None else number(self.grid.ragged.field, META_EOS_ID)
        if found is None:
            raise _refuse(
                "eos_mask_loss needs the end-of-sequence id",
                "eos_token_id=2",
                "eos-unknown",
                f"the metadata of field {self.grid.ragged.field.name!r} name none",
            )
        return int(found)

    def _boundaries(self, option: str) -> Bools:
        if self._begins is None:
            raise _refuse(
                f"{option} needs to know where documents begin",
                "pack with .pack_flat(), or add a list<int32> column 'positions' that restarts at 0 with each document",
                "no-document-boundaries",
                f"neither a 'documents' nor a 'positions' column among: {', '.join(self.data.schema.names)}",
            )
        return self._begins

    def _positions(self) -> npt.NDArray[Any] | None:
        grid = self.grid
        if self.options.position_mode == "sequence":
            return np.maximum(grid.places(), 0)
        if self.position_field is None:
            return None if self._begins is None else counted(self._begins)
        positions = aligned(grid, self.data, self.position_field)
        if self.mask.all():
            return positions
        # Padding is a segment of its own and counts up as well, so that restarts of positions are segments.
        places = grid.places()
        padding = np.where(places < 0, places + grid.starts[:, None], places - grid.lengths[:, None])
        return np.where(self.mask, positions, padding)

    def _document_ids(self) -> npt.NDArray[Any]:
        """1, 2, ... for the documents of each row, 0 for padding."""
        begin = self._boundaries("return_document_ids") & self.mask
        return np.cumsum(begin, axis=1) * self.mask

    def _sequence_lengths(self) -> tuple[Any, Any]:
        """Boundaries of documents and padding, as variable-length attention wants them."""
        begin = self._boundaries("return_cu_seqlens")[:, : self.width]
        rows = self.window.rows
        starts = np.flatnonzero(begin)
        bounds = np.append(starts, rows * self.width)
        lengths = np.diff(bounds)
        if self.options.flatten:
            if len(starts) == 0:
                return np.zeros(1, dtype=np.int32), 0
            return bounds.astype(np.int32), int(lengths.max())
        if self.width == 0:
            return [np.zeros(1, dtype=np.int32) for _ in range(rows)], np.zeros(rows, dtype=np.int32)
        counts = np.count_nonzero(begin, axis=1)
        first = np.cumsum(counts) - counts
        # One vector per row: they differ in length.
        vectors = [np.append(piece, self.width).astype(np.int32) for piece in np.split(starts % self.width, first[1:])]
        longest = np.maximum.reduceat(lengths, first) if rows else lengths
        return vectors[:rows], longest.astype(np.int32)

    def _shaped(self, values: npt.NDArray[Any], dtype: np.dtype[Any] | None = None) -> npt.NDArray[Any]:
        """Aligned with the inputs, flattened if asked for, in memory of its own."""
        return self._flat(np.array(values[:, : self.width], dtype=dtype))

    def _flat(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values.reshape(-1) if self.options.flatten else values


def _texts(data: pa.RecordBatch, window: Window) -> list[str]:
    index = data.schema.get_field_index(_TEXT)
    if index < 0 or not pa.types.is_string(data.schema.field(index).type):
        return [""] * window.rows
    seen = data.column(index).slice(window.start, window.real).fill_null("").to_pylist()
    return [*seen, *[""] * (window.rows - window.real)]


def _renamed(result: Mapping[str, Any], renames: Mapping[str, str]) -> dict[str, Any]:
    absent = [name for name in renames if name not in result]
    if absent:
        raise _refuse(
            f"rename_fields: there is no {absent[0]!r} to rename",
            f"ask for {absent[0]!r}, or leave it out of rename_fields",
            "field-missing",
            f"keys: {', '.join(result)}",
        )
    names = [renames.get(name, name) for name in result]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise _refuse(
            f"rename_fields: two results would be called {doubled[0]!r}",
            "choose other names",
            "name-clash",
            f"keys: {', '.join(names)}",
        )
    return dict(zip(names, result.values(), strict=True))
