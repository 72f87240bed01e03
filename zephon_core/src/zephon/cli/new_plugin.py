"""``zephon new-plugin``: start a distribution from the template. ``zephon_testkit.cli.new_plugin`` does the work."""

from __future__ import annotations

import argparse

from zephon.cli.kit import part


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    part("new_plugin").configure(parser)


def run(args: argparse.Namespace) -> int:
    """Run it."""
    status: int = part("new_plugin").run(args)
    return status
