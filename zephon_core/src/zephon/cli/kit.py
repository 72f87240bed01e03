"""The way from the command line to the conformance kit, which is a distribution of its own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from zephon.errors import PluginError
from zephon.plugins.known import checkout, install_line


def part(module: str) -> Any:
    """A module of ``zephon_testkit.cli``.

    Raises:
        PluginError: ``testkit-missing``.
    """
    try:
        return import_module(f"zephon_testkit.cli.{module}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"zephon_testkit", "pytest", "hypothesis"}:
            raise
        raise PluginError(
            "this command is part of the conformance kit, which is not installed",
            found=f"no module {error.name}",
            fix=install_line("zephon-testkit", checkout()),
            code="testkit-missing",
        ) from error
