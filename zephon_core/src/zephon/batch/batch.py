"""The microbatch a training loop receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.batch import frameworks, training
from zephon.batch.columns import ATTENTION_MASK, attention_field, to_arrays, unknown_field
from zephon.batch.facts import BatchFacts
from zephon.batch.grid import documents_field, find_tokens, grid_of
from zephon.batch.records import Origin, Records, origin_list
from zephon.batch.window import Window
from zephon.block import ORIGIN_DTYPES, Block, Origins, empty_batch, empty_columns, list_parts
from zephon.errors import ConfigError


class Batch:
    """One microbatch: rows of one lane.

    Row views (:attr:`records`, :meth:`to_pylist`) show the real rows. Array views (``batch["field"]``,
    :meth:`to_numpy`, :meth:`to_torch`, :meth:`to_jax`, :meth:`to_training`) show ``len(batch)`` rows: where a
    microbatch is filled up, *fill rows* follow the real ones. They are null, empty or padding, have origins with
    row -1, are False in :attr:`row_mask` and never train.

    Args:
        block: the real rows of the whole microbatch.
        facts: names behind the indices in origins.
        size: rows of the microbatch once filled up; by default as many as there are.
        rows: the range of rows seen through this view. Widths are still those of the whole microbatch, so ranks that
            share one agree on them.

    Raises:
        ValueError: ``size`` is below the number of real rows, or ``rows`` is no range within ``size``.
    """

    __slots__ = ("_block", "_facts", "_size", "_window")

    def __init__(
        self, block: Block, *, facts: BatchFacts, size: int | None = None, rows: tuple[int, int] | None = None
    ) -> None:
        size = len(block) if size is None else size
        start, stop = rows if rows is not None else (0, size)
        if size < len(block):
            raise ValueError(f"a microbatch of {size} rows cannot hold {len(block)}")
        if not 0 <= start <= stop <= size:
            raise ValueError(f"rows {start}:{stop} of a microbatch of {size}")
        self._block = block
        self._facts = facts
        self._size = size
        self._window = Window(len(block), start, stop)

    @classmethod
    def filler(
        cls,
        schema: pa.Schema,
        size: int,
        lane: int,
        index: int,
        facts: BatchFacts,
        rows: tuple[int, int] | None = None,
    ) -> Batch:
        """A batch without any real row, in the shape of a full one: everything is padding, nothing trains.

        Where rows are padded to the longest one, there is none here: token columns are two wide, so that inputs and
        labels are not empty.

        Args:
            schema: schema of the batches it stands among.
            size: rows of a full microbatch.
            lane: lane, or -1 where a rank has none.
            index: number of the microbatch.
            facts: names.
            rows: the range of rows this rank sees.
        """
        data = empty_batch(schema) if schema.names else empty_columns(0)
        return cls(Block(data, Origins.empty(), lane, index), facts=facts, size=size, rows=rows)

    def __len__(self) -> int:
        """Rows seen, fill rows included."""
        return self._window.rows

    #: A batch has rows and fields: iterating over either would surprise half of its users.
    __iter__ = None

    def __contains__(self, field: object) -> bool:
        return field in self._block.schema.names or (
            field == ATTENTION_MASK and attention_field(self._block.schema) is not None
        )

    def __getitem__(self, field: str) -> pa.Array:
        """A field as an Arrow array of ``len(batch)`` values, null in fill rows; lists stay ragged.

        Raises:
            ConfigError: ``field-missing``.
        """
        if field not in self:
            raise unknown_field(str(field), self._block.schema)
        if field not in self._block.schema.names:
            return self._attention_lists()
        column = self._block.data.column(field)
        window = self._window
        seen = column.slice(window.start, window.real)
        if window.rows == window.real:
            return seen
        return pa.concat_arrays([seen, pa.nulls(window.rows - window.real, column.type)])

    def __repr__(self) -> str:
        window = self._window
        fill = f" ({window.rows - window.real} of them fill)" if window.rows > window.real else ""
        return f"<Batch {self.index} of lane {self.lane}: {len(self)} rows{fill} of {', '.join(self.schema.names)}>"

    @property
    def block(self) -> Block:
        """The real rows of the whole microbatch, whatever part of it is seen."""
        return self._block

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self._block.schema

    @property
    def lane(self) -> int:
        """The logical stream the rows belong to; -1 for a filler of a rank without lanes."""
        return self._block.lane

    @property
    def index(self) -> int:
        """Number of the microbatch in its lane."""
        return self._block.index

    @property
    def facts(self) -> BatchFacts:
        """Names behind the indices in origins."""
        return self._facts

    @property
    def is_filler(self) -> bool:
        """Whether no row seen is real: every label is ignored, there is nothing to train on."""
        return self._window.real == 0

    @property
    def row_mask(self) -> npt.NDArray[np.bool_]:
        """Which rows are real: bool ``[len(batch)]``."""
        return np.arange(self._window.rows) < self._window.real

    @property
    def origins(self) -> Origins:
        """Origins of the rows seen; fill rows have component, dataset, shard, row and phase -1."""
        window = self._window
        seen = self._block.origins.slice(window.start, window.last)
        n = window.rows - window.real
        if n == 0:
            return seen
        blank = {name: np.full(n, 0 if name in ("epoch", "part") else -1) for name in ORIGIN_DTYPES}
        return Origins.concat([seen, Origins(**blank)])

    @property
    def records(self) -> Records:
        """The real rows seen, as a sequence of :class:`Record`, made when looked at."""
        window = self._window
        return Records(self._block.slice(window.start, window.last), self._facts)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The payloads of :attr:`records`."""
        return [record.payload for record in self.records]

    def to_numpy(self, fields: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """Columns as read-only arrays of ``len(batch)`` rows.

        ========================= ================================================================================
        numbers, booleans, times  ``[B]`` in their own dtype, whether or not there are nulls: null is NaN or NaT, a
                                  masked array for integers and booleans
        lists of numbers          ``[B, L]``, padded by the column's metadata to the longest row of the microbatch or to
                                  a fixed length
        fixed-size lists, tensors ``[B, ...]``
        everything else           ``[B]`` of Python objects
        ========================= ================================================================================

        ``attention_mask`` (int32, 1 for tokens) is made where ``tokenize`` was asked for it. The ``documents`` column
        of packed rows is shown only when it is named.

        Args:
            fields: the fields wanted; by default all.

        Raises:
            ConfigError: ``field-missing``, ``ragged-field``, ``row-too-wide``, ``null-in-list``, ``field-metadata``.
        """
        return to_arrays(self._block.data, self._window, fields)

    def to_torch(self, fields: Sequence[str] | None = None) -> dict[str, Any]:
        """As :meth:`to_numpy`, as tensors that own their memory; what is not numbers is a list.

        Columns of tokens, positions and masks are int64, as embeddings and losses want them.

        Raises:
            ConfigError: ``framework-missing``, ``null-in-field``, ``no-tensor-form``, and as :meth:`to_numpy`.
        """
        return frameworks.torch_columns(self.to_numpy(fields), self._block.schema)

    def to_jax(self, fields: Sequence[str] | None = None) -> dict[str, Any]:
        """As :meth:`to_numpy`, as jax arrays that own their memory; what is not numbers is a list.

        Raises:
            ConfigError: ``framework-missing``, ``null-in-field``, ``no-tensor-form``, and as :meth:`to_numpy`.
        """
        return frameworks.jax_columns(self.to_numpy(fields))

    def to_training(
        self,
        *,
        tokens_field: str = "auto",
        return_labels: bool = False,
        dtype: Any = "auto",
        extra_fields: Sequence[str] = (),
        ignore_index: int = -100,
        rename_fields: Mapping[str, str] | None = None,
        flatten: bool = False,
        exclude_fields: Sequence[str] = (),
        return_num_valid_tokens: bool = False,
        return_loss_mask: bool = False,
        return_cu_seqlens: bool = False,
        return_padding_mask: bool = False,
        return_document_ids: bool = False,
        eos_mask_loss: bool = False,
        mask_document_boundaries: bool = False,
        eos_token_id: int | None = None,
        position_mode: str = "preserve",
    ) -> dict[str, Any]:
        """What a training step takes: torch tensors if torch is installed, else numpy arrays; always owned memory.

        ``B`` is ``len(batch)``, ``L`` the width of the padded tokens, ``S`` is ``L``, or ``L - 1`` with labels: the
        last token is only ever a label.

        ==================== ============================= ========================================================
        key                  when                          form
        ==================== ============================= ========================================================
        ids                  always                        list of :class:`Origin`
        texts                always                        list of str, "" where no text is left
        input_ids            always                        int64 ``[B, S]``
        labels               ``return_labels``             int64 ``[B, S]``: the token one ahead, or ``ignore_index``
        positions            packed, or                    int64 ``[B, S]`` per document, padding counted on its own;
                             ``position_mode="sequence"``  or continuous
        loss_mask            ``return_loss_mask``          float32 ``[B, S]``: 1 where the label is not ignored
        loss_mask            no labels, if there is one    the column itself ``[B, L]``
        padding_mask         ``return_padding_mask``       bool ``[B, S]``: True for padding
        document_ids         ``return_document_ids``       int32 ``[B, S]``: 1, 2, ... in each row, 0 for padding
        cu_seqlens           ``return_cu_seqlens``         list of B int32 vectors, each from 0, strictly increasing, to
                                                           S; padding is a segment of its own
        max_seqlen           ``return_cu_seqlens``         int32 ``[B]``: longest segment
        num_valid_tokens     ``return_num_valid_tokens``   int: labels that are not ignored
        *extra field*        ``extra_fields``              cut like input_ids if it has one value per token
        ==================== ============================= ========================================================

        A label is ignored if it or the token it is predicted from is padding, if the ``loss_mask`` column is 0 at the
        label, with ``mask_document_boundaries`` if the label begins another document, and with ``eos_mask_loss`` if it
        is predicted from the end-of-sequence token. Where documents begin is known from the ``documents`` column or
        from positions that restart, what is padding from lengths; neither is guessed from ids.

        Args:
            tokens_field: the token column; ``"auto"`` takes the one that is marked as such, else ``input_ids``,
                ``tokens``, ``token_ids`` or ``ids``.
            return_labels: shift into inputs and labels.
            dtype: of input_ids, labels, positions and integer extra fields: ``"auto"`` (int64), ``"int32"``,
                ``"int64"``, a numpy dtype (gives numpy arrays), a torch dtype (gives tensors), or None (gives lists).
            extra_fields: further columns to include.
            ignore_index: the label that loss functions ignore.
            rename_fields: new names by old ones.
            flatten: all ``[B, S]`` become ``[B * S]``, after shifting and masking; cu_seqlens one vector over all rows,
                max_seqlen an int.
            exclude_fields: keys to leave out, by their new names; those not there are passed over.
            return_num_valid_tokens: see above.
            return_loss_mask: see above.
            return_cu_seqlens: see above.
            return_padding_mask: see above.
            return_document_ids: see above.
            eos_mask_loss: see above.
            mask_document_boundaries: see above.
            eos_token_id: for ``eos_mask_loss``; by default the tokenizer's.
            position_mode: ``"preserve"``: per document; ``"sequence"``: 0, 1, 2, ... through the whole row.

        Raises:
            ConfigError: a ``ValueError``: ``option-conflict``, ``option-invalid``, ``no-tokens-field``,
                ``field-missing``, ``field-type``, ``name-clash``, ``length-mismatch``, ``ragged-field``,
                ``row-too-wide``, ``null-in-list``, ``null-in-field``, ``no-document-boundaries``, ``bad-positions``,
                ``documents-too-long``, ``eos-unknown``, ``field-metadata``.
        """
        options = training.TrainingOptions(
            tokens_field=tokens_field,
            return_labels=return_labels,
            dtype=dtype,
            extra_fields=extra_fields,
            ignore_index=ignore_index,
            rename_fields=rename_fields,
            flatten=flatten,
            exclude_fields=exclude_fields,
            return_num_valid_tokens=return_num_valid_tokens,
            return_loss_mask=return_loss_mask,
            return_cu_seqlens=return_cu_seqlens,
            return_padding_mask=return_padding_mask,
            return_document_ids=return_document_ids,
            eos_mask_loss=eos_mask_loss,
            mask_document_boundaries=mask_document_boundaries,
            eos_token_id=eos_token_id,
            position_mode=position_mode,
        )
        return training.to_training(self._block.data, self.origins, self._window, self._facts, options)

    def trace(self, row: int, token: int) -> tuple[Origin, int]:
        """The document a token came from, and where in the document's tokens it stood.

        For rows that are not packed, the document is the row itself. A row split from a longer one has a ``part`` of
        its own, and offsets count from where it begins.

        Args:
            row: row of this batch, from 0.
            token: column of the padded rows, as in ``to_numpy()["input_ids"][row, token]``.

        Raises:
            ConfigError: ``no-such-token``: there is no such row, or only padding there.
        """
        window = self._window
        if not 0 <= row < window.real:
            raise self._no_such_token(row, token, f"rows 0 to {window.real - 1} are real")
        grid = grid_of(self._block.data, window)
        offset = token - int(grid.starts[row])
        length = int(grid.lengths[row])
        if not 0 <= offset < length:
            first = int(grid.starts[row])
            raise self._no_such_token(row, token, f"tokens {first} to {first + length - 1} of this row are real")
        name = documents_field(self._block.schema)
        if name is None:
            columns = self._block.origins.slice(window.start + row, window.start + row + 1).columns()
            return origin_list(columns, self._facts)[0], offset
        _, entries = list_parts(self._block.data.column(name).slice(window.start + row, 1))
        ends = np.cumsum(entries.field("length").to_numpy(zero_copy_only=False))
        place = int(np.searchsorted(ends, offset, side="right"))
        document = entries[place].as_py()
        columns = {key: np.array([document[key]]) for key in ORIGIN_DTYPES}
        within = offset - (int(ends[place]) - document["length"])
        return origin_list(columns, self._facts)[0], document["start"] + within

    def replace(self, data: pa.RecordBatch) -> Batch:
        """The same rows with other columns.

        Args:
            data: as many rows as :attr:`block` has, in the same order.

        Raises:
            ConfigError: ``row-count``.
        """
        if data.num_rows != len(self._block):
            raise ConfigError(
                "a batch cannot change its number of rows",
                found=f"{data.num_rows} rows for {len(self._block)}",
                fix="drop rows with .filter() before .batch(), or return None to drop the whole microbatch",
                code="row-count",
            )
        return self._with(self._block.with_data(data))

    def with_columns(self, columns: Mapping[str, Any]) -> Batch:
        """The same rows with columns added or replaced.

        Args:
            columns: by name an Arrow array, a numpy array (``[n]``, or ``[n, k]`` for fixed-size lists) or a sequence
                of Python values, one per row of :attr:`block`. A replaced column of equal type keeps its metadata.

        Raises:
            ConfigError: ``row-count``.
        """
        schema = self._block.schema
        arrays = dict(zip(schema.names, self._block.data.columns, strict=True))
        fields = {field.name: field for field in schema}
        for name, values in columns.items():
            array = _arrow(values)
            old = fields.get(name)
            arrays[name] = array
            if old is None or not old.type.equals(array.type):
                fields[name] = pa.field(name, array.type)
            if len(array) != len(self._block):
                raise ConfigError(
                    f"the column {name!r} does not have one value per row",
                    found=f"{len(array)} values for {len(self._block)} rows",
                    fix="give one value per row of batch.block",
                    code="row-count",
                )
        if not arrays:
            return self
        made = pa.schema(list(fields.values()), metadata=schema.metadata)
        return self.replace(pa.RecordBatch.from_arrays(list(arrays.values()), schema=made))

    def _with(self, block: Block) -> Batch:
        return Batch(block, facts=self._facts, size=self._size, rows=(self._window.start, self._window.stop))

    def _attention_lists(self) -> pa.Array:
        """``attention_mask`` as ragged as the tokens are: all ones."""
        tokens = self[str(find_tokens(self._block.schema))]
        offsets, values = list_parts(tokens)
        ones = pa.array(np.ones(len(values), dtype=np.int32))
        return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), ones)

    def _no_such_token(self, row: int, token: int, found: str) -> ConfigError:
        return ConfigError(
            f"there is no token {token} in row {row} of this batch",
            found=found,
            fix="ask for a token that is not padding: see to_training(return_padding_mask=True)",
            code="no-such-token",
        )


def _arrow(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    array = np.asarray(values) if hasattr(values, "__array__") else None
    if array is not None and array.ndim == 2:
        flat = pa.array(np.ascontiguousarray(array).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
    return pa.array(values if array is None else array)
