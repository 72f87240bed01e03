"""What an author would tell the kit of the toys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

SUITE: Final = "LaneOperatorTests"


class Samples:
    """All toys can be made without arguments."""

    plugin: str = ""

    @property
    def examples(self) -> Sequence[Mapping[str, Any]]:
        if self.plugin == "maximal":
            return {}, {"size": 1, "copies": 1}, {"size": 500, "field": "score"}
        return ({},)
