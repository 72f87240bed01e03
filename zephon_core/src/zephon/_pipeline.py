"""``Pipeline``: every registered operator is a method of that name.

This module only binds names; what a pipeline does is in :mod:`zephon._builder`. Type checkers read ``_pipeline.pyi``.
"""

from __future__ import annotations

from typing import Any

from zephon._builder import PipelineBase

__all__ = ["Pipeline"]


class _OperatorsAsMethods(type):
    """Shows the operators on the class, for ``dir(Pipeline)``, ``help(Pipeline.tokenize)`` and completion."""

    def __getattr__(cls, name: str) -> Any:
        from zephon.engine.recipe import operator_function

        return operator_function(name)

    def __dir__(cls) -> list[str]:
        from zephon.plugins import registry

        return sorted({*super().__dir__(), *registry("operator").names()})


class Pipeline(PipelineBase, metaclass=_OperatorsAsMethods):
    """A data pipeline: a curriculum, operators, options.

    Every operator that is installed is a method of its name, with the operator's own arguments.
    """

    def __getattr__(self, name: str) -> Any:
        from zephon.engine.recipe import operator_method

        return operator_method(self, name)

    def __dir__(self) -> list[str]:
        return dir(type(self))
