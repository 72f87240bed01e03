"""Operators of other distributions that whole pipelines are built of."""

from __future__ import annotations

from typing import Any

from zephon.abc import LaneOperator, RowOperator
from zephon.errors import PluginError
from zephon.plugins import registry
from zephon_testkit.incomplete import Incomplete


def operator(name: str, *args: Any, **settings: Any) -> RowOperator | LaneOperator:
    """An operator by its registered name.

    Raises:
        Incomplete: it is not installed.
    """
    try:
        made: RowOperator | LaneOperator = registry("operator").load(name)(*args, **settings)
    except PluginError as error:
        raise Incomplete(f"pipelines of the kit need the operator {name!r}: install zephon-ops\n{error}") from error
    return made
