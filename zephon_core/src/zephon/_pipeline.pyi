"""``Pipeline`` for type checkers. Written by ``zephon stubs write``; do not edit.

What is common to all pipelines is in :mod:`zephon._builder`; here are the options and the operators.
"""

# fmt: off
# ruff: noqa
import pyarrow as pa
import pyarrow.compute as pc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self
from zephon._builder import PipelineBase

__all__ = ["Pipeline"]

class _OperatorsAsMethods(type): ...

class Pipeline(PipelineBase, metaclass=_OperatorsAsMethods):
    def options(  # type: ignore[override]  # names the options that **settings takes
        self,
        *,
        canonical_replicas: int | None = ...,
        dp_degree: int | None = ...,
        dp_group_id: int | None = ...,
        runner: str | Mapping[str, Any] = ...,
        parallelism: int | None = ...,
        max_rounds: int | None = ...,
        agree: Callable[[int], int] | None = ...,
        memory_limit: Any = ...,
        prefetch_batches: int = ...,
        uneven: Literal["error", "pad"] = ...,
        tail: Literal["drop", "pad"] = ...,
        on_error: Any = ...,
        block_rows: int | None = ...,
        isolate: bool = ...,
        io_options: Any = ...,
        world_size: int | None = ...,
        global_rank: int | None = ...,
        mtp_mode: bool = ...,
    ) -> Self:
        """The settings of a pipeline. Only ``canonical_replicas`` is a data setting.

        Attributes:
            canonical_replicas: number of lanes; None: ``dp_degree``, or what the checkpoint says.
            dp_degree: number of data-parallel groups; None: found from the environment.
            dp_group_id: this rank's group; None: found from the environment.
            runner: registered name of a runner, or ``"auto"``, which is threads, and processes for what these cannot
                speed up; or ``{"name": ..., ...}`` with arguments of that runner.
            parallelism: tasks at once; None: the CPUs this process may use; 0: all on the calling thread.
            max_rounds: end after so many rounds.
            agree: ``agree(int) -> int``, the minimum over all ranks; called inside ``next()``.
            memory_limit: bytes, or text such as ``"4GiB"``; None: a quarter of what is available.
            prefetch_batches: finished microbatches kept ready per lane.
            uneven: ``"pad"`` allows group counts that do not divide the lanes.
            tail: how a finite curriculum ends: ``"drop"`` with the last full round, ``"pad"`` with the last row.
            on_error: see :class:`ErrorPolicy`.
            block_rows: fixed number of rows per block instead of an adaptive one; changes no result.
            isolate: run the whole engine in a process of its own, so that it takes nothing from the training process's
                threads; finished microbatches come through shared memory.
            io_options: ``{"cache": {"directory": ..., "limit": ...}}`` keeps whole shards of remote storage on a local
                disk, which processes and runs may share.
        """

    def batch(
        self,
        microbatch_size: int,
        *,
        drop_last: bool = True,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
        """Cut the rows of each lane into microbatches.

        Every microbatch holds exactly ``microbatch_size`` rows of one lane, whatever happens upstream: neither the end of a
        pass, nor a checkpoint, nor the number of workers cuts one short. Only the rows left at the very end of a lane can
        be fewer.

        Args:
            microbatch_size: rows of a microbatch.
            drop_last: whether the rows left at the end of a lane are dropped. False delivers them as one shorter batch.

        Raises:
            ConfigError: ``operator-argument``.
        """

    def decode_text(
        self,
        fields: Any = ...,
        encoding: str = "utf-8",
        errors: str = "strict",
        normalize_newlines: bool = True,
        *,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
        r"""Turn bytes into text.

        Binary columns become string columns; string columns stay as they are. Nulls stay null. With
        ``normalize_newlines``, ``\r\n`` and ``\r`` become ``\n`` in both.

        Args:
            fields: names of the columns.
            encoding: any text encoding Python knows. UTF-8 is checked column by column, others are decoded row by row.
            errors: what to do with bytes that are no text: ``"strict"`` makes the row a bad row (see ``on_error``),
                ``"replace"`` puts U+FFFD in their place, ``"ignore"`` leaves them out.
            normalize_newlines: make all line ends ``\n``.
            parallelism: execution setting, how many workers run it.
            placement: execution setting, where it runs.

        Raises:
            ConfigError: ``encoding-unknown``, ``option-invalid``.
            PlanError: ``field-missing``, ``field-type`` when planned.
            BadRowsError: ``text-undecodable``, naming field, byte offset and byte of every bad row.
        """

    def ensure_mixture(
        self,
        max_buffer_size: int = 1000,
        weight_by: str = "auto",
        warn_tolerance: float | None = None,
        *,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
        """Reorder the rows of each lane so that the mixture stays on target at every point, by tokens or by rows.

        The curriculum keeps the mixture of *rows* on target. Where the rows of one dataset are longer than those of
        another, the mixture of *tokens* runs in bursts; this operator evens them out. It holds ``max_buffer_size`` rows
        back, and for every further row one leaves: of the component that is furthest behind its share of what has left so
        far. No row is added, dropped or changed, and none is overtaken by more than ``8 * max_buffer_size`` later ones.

        Rows can be reordered, not made up: if a component brings in less than its share for good, its rows leave as soon as
        they come, and no more can be done here. Such a deficit is remembered up to what the buffer ever held. To have it
        made good, set the weights of the mixture in tokens.

        Args:
            max_buffer_size: rows held back in each lane.
            weight_by: ``"rows"``; ``"tokens"``: the length of the token column; ``"auto"``: tokens where there is a token
                column, else rows; or the name of a field: the length of a list, or an integer taken as it is.
            warn_tolerance: warn once per lane when, after ``max_buffer_size`` rows, the share of a component is off its
                target by more than this (0.05: five percentage points).

        Raises:
            ConfigError: ``operator-argument``.
            PlanError: ``mixture-weight`` for a field that is missing or has neither length nor integers;
                ``mixture-after-packing``: packed rows belong to several components.
        """

    def filter(
        self,
        predicate: Callable[[dict[str, Any]], bool] | pc.Expression | Mapping[str, Any],
        *,
        version: str | None = None,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
        """Keep the rows a predicate is true for.

        An Arrow expression is evaluated on whole columns, reads only the fields it names, and can be pushed down into
        readers that skip what it excludes; where it is null, the row is dropped, as Arrow and SQL have it. A function gets
        one row at a time as a dict and is clearly the slow path.

        Args:
            predicate: ``fn(dict) -> bool``, or a ``pyarrow.compute.Expression`` over field names.
            version: change it when the function's behaviour changes; enters the fingerprint together with its name.

        Raises:
            ConfigError: ``operator-argument``; ``filter-expression`` for an expression that has no address in the data
                (fields by position) or is not pure.
            PlanError: ``filter-expression`` for one that cannot be evaluated on these rows, or is not boolean.
            BadRowsError: ``function-failed`` for rows the function raised on, the first exception as its cause;
                ``function-result`` for rows it returned anything but a bool for.
        """

    def map_batch(
        self,
        fn: Callable[[Any], Any],
        *,
        schema: pa.Schema | Mapping[str, Any] | None = None,
        drop_none: bool = True,
        version: str | None = None,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
        """Apply a Python function to every microbatch, after ``batch``.

        ``fn`` gets what the training loop would get, a ``Batch``, and returns a ``Batch``, or None to drop the microbatch.
        It must be pure: the same microbatch, the same result. When the pipeline is planned it is run once on the first rows
        of every dataset, unless ``schema`` is given.

        Args:
            fn: ``fn(Batch) -> Batch | None``.
            schema: the columns ``fn`` returns: an Arrow schema, or ``{"field": "type"}``.
            drop_none: whether returning None drops the microbatch. False promises a row for every row, which keeps lengths
                computable: None or another number of rows is then an error.
            version: change it when the function's behaviour changes; enters the fingerprint together with its name.

        Raises:
            DataError: ``function-result`` for a result that is no ``Batch``.
        """

    def map_transform(
        self,
        fn: Callable[..., Any],
        *,
        reads: str | Iterable[str] | None = None,
        schema: pa.Schema | Mapping[str, Any] | None = None,
        drop_none: bool = True,
        vectorized: bool = False,
        version: str | None = None,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
        """Apply a Python function to every row.

        ``fn`` gets a row as a dict of Python values and returns a dict: exactly the columns that go on, the fields it was
        given included only if it returns them (``{**row, "n": 1}``). It must be pure: the same row, the same result. Nulls,
        and fields that a row's dataset does not have, are None; tensors are read-only numpy arrays. It may return str, int,
        float, bool, bytes, None, dates and times, decimals, numpy scalars and arrays (one dimension becomes a list, several
        a tensor), and lists and dicts of these. A key it leaves out is null. Anything else is refused; nothing is pickled.

        The columns' types are those of ``schema``, or found by running ``fn`` on the first 64 rows of every dataset when
        the pipeline is planned. A later row that does not fit is a bad row, and the error shows the ``schema=`` to paste.
        Fields handed on unchanged keep their type and metadata; so do token columns.

        Args:
            fn: ``fn(dict) -> dict | None``; with ``vectorized``, ``fn(RecordBatch) -> RecordBatch``, or
                ``-> (RecordBatch, parents)`` where rows are dropped or multiplied: ``parents`` holds, for each new row, the
                position of the row it was made from, never decreasing.
            reads: the fields ``fn`` sees; None: all of them, so that none can be left unread. What it returns is still all
                that goes on.
            schema: the columns ``fn`` returns: an Arrow schema, or ``{"field": "type"}``.
            drop_none: whether returning None drops the row. False promises one row for every row, which keeps lengths
                computable: None (or, vectorized, another number of rows) is then an error.
            vectorized: hand over whole record batches. Promises that no row's result depends on the rows beside it.
            version: change it when the function's behaviour changes; enters the fingerprint together with its name.

        Raises:
            BadRowsError: ``function-failed`` for rows ``fn`` raised on, the first exception as its cause;
                ``function-result`` for rows with a result that is no dict; ``row-does-not-fit``.
            DataError: ``function-result`` for a vectorised function.
        """

    def pack_flat(
        self,
        max_length: int,
        *,
        algorithm: Literal["first_fit", "best_fit", "wrap", "best_fit_wrap"] = "first_fit",
        num_bins: int | None = None,
        pad_token_id: int | None = None,
        tokens_field: str = "auto",
        overflow: Literal["split", "truncate", "drop", "error"] = "split",
        homogeneity: Literal["none", "dataset", "component", "group", "full"] = "none",
        groups: Mapping[str, str] | None = None,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
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

    def shuffle(
        self,
        buffer_size: int = 8192,
        *,
        seed: int = 0,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
        """Shuffle the rows of each lane through a buffer.

        The buffer fills up once. From then on every row that comes in takes the slot of a row drawn at random, which
        leaves; at the end of the lane the rest leaves in random order. The buffer is part of a checkpoint, so it never
        warms up again, and the order never depends on where a run was interrupted.

        For a shuffle over everything at no memory cost, use ``shuffle_block_size="global"`` of the work source; this
        operator is for what comes out of other operators, e.g. rows split from one long document.

        Args:
            buffer_size: rows held back in each lane.
            seed: changes the order; combined with the seed of the work source.

        Raises:
            ConfigError: ``operator-argument``.
        """

    def stateful_transform(
        self,
        name: str,
        *,
        init_state: Callable[[], Any] | Any,
        push: Callable[..., Any],
        flush: Callable[..., Any] | None = None,
        schema: pa.Schema | Mapping[str, Any] | None = None,
        vectorized: bool = False,
        version: str | None = None,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
        """Fold functions of your own over the rows of each lane.

        ``push`` gets the state and one row as a dict, and returns the new state and what to emit: None, a row, or a list
        of rows. It may change the state in place. A row it emits inherits the origin of the row it was called with; rows of
        ``flush`` that of the last row of the lane. All must be deterministic: a checkpoint holds the state between two
        rows, and the rows after it are pushed again.

        The state is plain data: None, bool, int, float, str, bytes, lists, tuples, dicts, numpy arrays, Arrow arrays and
        record batches. It is copied at every cut, Arrow data excepted; one object in two places comes back as two.

        A row that ``push`` raises on is a bad row: it leaves the state as it was before.

        Args:
            name: what to call it in ``explain()`` and in errors.
            init_state: the state every lane begins with: JSON data, or a function that returns any state.
            push: ``push(state, row) -> (state, rows)``; with ``vectorized``, ``push(state, RecordBatch)`` ``-> (state,
                RecordBatch)``, ``-> (state, None)`` or, where rows are dropped or multiplied, ``-> (state, RecordBatch,
                parents)``: ``parents`` holds, for each new row, the position of the row it belongs to, never decreasing.
            flush: ``flush(state) -> rows`` at the end of each lane; with ``vectorized``, a RecordBatch or None.
            schema: the columns that come out: an Arrow schema, or ``{"field": "type"}``. None: found by folding over the
                first 64 rows of every dataset when the pipeline is planned.
            vectorized: hand over all rows of a block at once. Promises block invariance: what comes out must not depend on
                where one record batch ends and the next begins. What is emitted may share no memory with numpy arrays that
                change later.
            version: change it when the functions' behaviour changes; enters the fingerprint together with their names.

        Raises:
            ConfigError: ``state-not-plain``.
            BadRowsError: ``function-failed``, ``function-result`` or ``row-does-not-fit``, from ``push``.
            DataError: ``function-result`` or ``row-does-not-fit``, from ``flush``.
        """

    def tokenize(
        self,
        tokenizer: Any = None,
        tokenizer_id: str | None = None,
        *,
        field: str,
        backend: str = "hf",
        max_length: int | None = None,
        truncation: bool = False,
        split_long_samples: bool = False,
        padding: bool | Literal["longest", "max_length"] = False,
        special_tokens: Literal["bos_eos", "bos", "eos", "none", "tokenizer_default"] = "bos_eos",
        missing_field: Literal["error", "skip"] = "error",
        add_attention_mask: bool = True,
        preserve_upstream_payload: bool = False,
        parallelism: int | None = None,
        placement: str | None = None,
    ) -> Self:
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
