"""``Pipeline``: every registered operator is a method of that name.

This module only binds names; what a pipeline does is in :mod:`zephon._builder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zephon._builder import PipelineBase

__all__ = ["Pipeline"]


class Pipeline(PipelineBase):
    """A data pipeline: a curriculum, operators, options.

    Every operator that is installed is a method of its name, with the operator's own arguments.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from zephon.engine.recipe import operator_method

            return operator_method(self, name)

    def __dir__(self) -> list[str]:
        from zephon.plugins import registry

        return sorted({*super().__dir__(), *registry("operator").names()})
