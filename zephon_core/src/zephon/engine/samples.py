"""What the conformance kit is told of the inline runner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class InlineSamples:
    """There is nothing to run in parallel."""

    parallelism: ClassVar[Sequence[int]] = (0,)
