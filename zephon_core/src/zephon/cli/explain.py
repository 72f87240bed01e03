"""``zephon explain``: the compiled plan of a recipe."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("recipe", help="path of a recipe in TOML")


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    from zephon import Pipeline

    with Pipeline.from_spec(args.recipe) as pipeline:
        print(pipeline.explain())
    return 0
