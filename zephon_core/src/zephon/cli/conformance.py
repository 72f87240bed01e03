"""``zephon conformance``: check a plugin against its contract. ``zephon_testkit.cli.conformance`` does the work."""

from __future__ import annotations

import argparse

from zephon.cli.kit import part


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    part("conformance").configure(parser)


def run(args: argparse.Namespace) -> int:
    """Run it."""
    status: int = part("conformance").run(args)
    return status
