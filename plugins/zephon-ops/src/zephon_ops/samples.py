"""What the conformance kit makes operators with that need functions; imported by nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def measured(row: dict[str, Any]) -> dict[str, Any]:
    """A row with other columns."""
    return {"text": row["text"], "length": len(row["text"] or ""), "input_ids": row["input_ids"]}


def odd_only(row: dict[str, Any]) -> dict[str, Any] | None:
    """Some rows are dropped; a row without a number cannot be judged."""
    return {**row, "half": row["n"] // 2} if row["n"] % 2 else None


def repeated(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """Some rows are dropped, others come twice."""
    parents = np.repeat(np.arange(batch.num_rows), np.asarray(pc.fill_null(batch.column("n"), 0)) % 3)
    return batch.take(pa.array(parents)), parents


def is_even(row: dict[str, Any]) -> bool:
    """Whether a row is kept; one without a number cannot be judged."""
    even: bool = row["n"] % 2 == 0
    return even


def the_same(batch: Any) -> Any:
    """A microbatch as it is."""
    return batch


def with_numbers(batch: Any) -> Any:
    """A microbatch, dropped where its first number is odd."""
    first = batch.block.data.column("n")[0].as_py()
    return None if first is not None and first % 2 else batch


def running_total(state: dict[str, Any], row: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A state that is changed in place, and no, one or two rows for a row."""
    state["total"] += row["n"]
    state["last"] = [*state["last"][-2:], row["text"]]
    return state, [{"total": state["total"], "text": text} for text in state["last"][: row["n"] % 3]]


def last_total(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows at the end of a lane."""
    return [{"total": state["total"], "text": None}, {"total": -1, "text": "end"}]


def changes(state: dict[str, Any], batch: pa.RecordBatch) -> tuple[Any, ...]:
    """Of a lane's numbers, those that differ from the one before."""
    numbers = np.asarray(pc.fill_null(batch.column("n"), -1))
    before = np.concatenate([[state["last"]], numbers[:-1]])
    parents = np.flatnonzero(numbers != before)
    return {"last": int(numbers[-1])}, pa.record_batch({"n": numbers[parents]}), parents


class MapTransformSamples:
    """Rows and batches, kept and dropped, with and without declared columns."""

    examples: Sequence[Mapping[str, Any]] = (
        {"fn": measured, "drop_none": False, "reads": ["text", "input_ids"]},
        {"fn": odd_only},
        {"fn": repeated, "vectorized": True, "schema": {"n": "int64", "text": "string"}, "reads": ["n", "text"]},
    )


class FilterSamples:
    """A function and an expression."""

    examples: Sequence[Mapping[str, Any]] = (
        {"predicate": is_even},
        {"predicate": (pc.field("n") > 20) | pc.field("flag")},
    )


class MapBatchSamples:
    """Microbatches handed on, and dropped."""

    after_batch = True
    examples: Sequence[Mapping[str, Any]] = ({"fn": the_same, "drop_none": False}, {"fn": with_numbers})


class StatefulTransformSamples:
    """A fold of rows and one of record batches."""

    examples: Sequence[Mapping[str, Any]] = (
        {
            "name": "totals",
            "init_state": {"total": 0, "last": []},
            "push": running_total,
            "flush": last_total,
            "schema": {"total": "int64", "text": "string"},
        },
        {"name": "changes", "init_state": {"last": -1}, "push": changes, "vectorized": True},
    )


class ShuffleSamples:
    """Buffers that overflow at once, soon and never."""

    examples: Sequence[Mapping[str, Any]] = ({"buffer_size": 1}, {"buffer_size": 5, "seed": 3}, {"buffer_size": 8192})


class EnsureMixtureSamples:
    """Buffers that overflow at once, soon and never, by tokens, by rows and by a field."""

    examples: Sequence[Mapping[str, Any]] = (
        {"max_buffer_size": 1},
        {"max_buffer_size": 6, "weight_by": "rows"},
        {"max_buffer_size": 6, "weight_by": "n"},
        {"max_buffer_size": 1000, "weight_by": "tokens"},
    )


class BatchSamples:
    """Full batches alone, and with the rows left at the end."""

    examples: Sequence[Mapping[str, Any]] = (
        {"microbatch_size": 1},
        {"microbatch_size": 4},
        {"microbatch_size": 5, "drop_last": False},
        {"microbatch_size": 500, "drop_last": False},
    )
