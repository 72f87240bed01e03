"""``zephon inspect``: rows as a person wants to see them."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from itertools import islice
from typing import Any

from zephon.cli.index import add_dataset_arguments, dataset_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_dataset_arguments(parser)
    parser.add_argument("-n", type=int, default=3, help="rows, or batches of a recipe, to show (default 3)")
    parser.add_argument("--width", type=int, help="columns to wrap at (default: the terminal's)")
    parser.add_argument("--full", action="store_true", help="do not shorten long values")


def run(args: argparse.Namespace) -> int:
    """Show rows of a dataset, or batches of a recipe (a path ending in .toml)."""
    width = args.width or shutil.get_terminal_size((100, 24)).columns
    if len(args.path) == 1 and args.path[0].endswith(".toml"):
        return _show_recipe(args, width)
    dataset = dataset_of(args)
    print(f"{dataset.total():,} rows in {dataset.shard_count():,} shards of {dataset.format_name}")
    for number, row in enumerate(dataset.head(args.n)):
        print(f"\nrow {number}")
        _show_row(row, width, args.full)
    return 0


def _show_recipe(args: argparse.Namespace, width: int) -> int:
    from zephon import Pipeline

    with Pipeline.from_spec(args.path[0]) as pipeline:
        for batch in islice(pipeline, args.n):
            print(f"\nbatch {batch.index} of lane {batch.lane}: {_rows(len(batch.records), len(batch))}")
            for record in batch.records:
                print(f"  {record.origin}")
                _show_row(record.payload, width, args.full)
    return 0


def _rows(real: int, size: int) -> str:
    if real == 0:
        return "filler"
    return f"{real} rows" + (f", and {size - real} to fill it up" if real < size else "")


def _show_row(row: dict[str, Any], width: int, full: bool) -> None:
    longest = max((len(name) for name in row), default=0)
    for name, value in row.items():
        lines = _lines(value, max(20, width - longest - 4), full)
        print(f"  {name.ljust(longest)}  {lines[0]}")
        for line in lines[1:]:
            print(f"  {' ' * longest}  {line}")


def _lines(value: Any, width: int, full: bool) -> list[str]:
    """A value as lines: text as it reads, bytes and lists by length and beginning."""
    if isinstance(value, str):
        text = value if full or len(value) <= 600 else f"{value[:600]}... ({len(value):,} characters)"
        wrapped = [part for line in text.splitlines() or [""] for part in textwrap.wrap(line, width) or [""]]
        return wrapped or [""]
    if isinstance(value, bytes):
        shown = value if full else value[:48]
        return [f"{len(value):,} bytes: {shown!r}"]
    if isinstance(value, list):
        shown_items = value if full else value[:16]
        more = ", ..." if len(shown_items) < len(value) else ""
        return textwrap.wrap(f"{len(value):,} items: [{', '.join(map(repr, shown_items))}{more}]", width)
    return [repr(value)]
