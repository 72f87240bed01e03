"""What the conformance kit is told of the static mixture: mixtures with all that moves a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class StaticMixtureSamples:
    """Settings over datasets named ``a``, ``b`` and ``c``."""

    settings: ClassVar[Mapping[str, Any]] = {"mixture": {"a": 0.5, "b": 0.3, "c": 0.2}, "seed": 3, "chunk_size": 4}
    variants: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"shuffle_within_shard": True, "shuffle_block_size": 8},
        {"shuffle_block_size": "global", "stop_after_passes": 2},
        {"mixture": [[0, {"a": 1}], [20, {"b": 0.75, "a": 0.25}], [40, {"c": 0.1, "b": 0.1, "a": 0.8}]]},
        {"exhausted_policy": "repeat"},
    )
