"""What the conformance kit makes operators with; imported by nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from zephon.block import META_ROLE, Block, list_column, list_parts


class PackFlatSamples:
    """Every algorithm, every policy for long documents, every grouping; rows of a few tokens, so that all overflow."""

    examples: Sequence[Mapping[str, Any]] = (
        {"max_length": 8},
        {"max_length": 5, "overflow": "truncate", "num_bins": 2},
        {"max_length": 5, "overflow": "drop", "algorithm": "best_fit", "num_bins": 3, "pad_token_id": 1},
        {"max_length": 6, "overflow": "error", "algorithm": "best_fit"},
        {"max_length": 5, "algorithm": "wrap"},
        {"max_length": 7, "algorithm": "best_fit_wrap", "num_bins": 2, "homogeneity": "component"},
        {"max_length": 6, "num_bins": 1, "homogeneity": "dataset", "tokens_field": "input_ids"},
        {"max_length": 9, "homogeneity": "group", "groups": {"web": "a", "code": "a"}},
    )

    def block(self, rows: int) -> Block:
        """Documents with a loss mask."""
        block: Block = super().block(rows)  # type: ignore[misc] # the kit's suite comes behind this class
        offsets, tokens = list_parts(block.data.column("input_ids"))
        mask = list_column(offsets, pa.array(np.asarray(tokens) % 3 > 0).cast(pa.int8()))
        field = pa.field("loss_mask", mask.type, metadata={META_ROLE: b"loss_mask"})
        data = pa.RecordBatch.from_arrays([*block.data.columns, mask], schema=block.schema.append(field))
        return block.with_data(data)
