"""Descriptors of toys and mutants, made from their names: ``counts_from_one`` is the class ``CountsFromOne``."""

from zephon.plugins import OperatorDescriptor

TOYS = ("minimal", "maximal", "needs_arguments", "reads_another_field")


def __getattr__(name: str) -> OperatorDescriptor:
    if name.startswith("_"):
        raise AttributeError(name)
    module = "toys" if name in TOYS else "mutants"
    cls = name.title().replace("_", "")
    return OperatorDescriptor(name=name, summary="a toy", impl=f"zephon_row_operator_mutants.{module}:{cls}")
