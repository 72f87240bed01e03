"""``zephon index``: build or check the index of a dataset."""

from __future__ import annotations

import argparse

from zephon.io import Dataset


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_dataset_arguments(parser)
    parser.add_argument("--output", help="directory to keep the index in, instead of beside the data")


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of every command that reads one dataset."""
    parser.add_argument("path", nargs="+", help="directory, glob, file or URL; several make one dataset")
    parser.add_argument("--format", help="name of the format; recognised when not given")


def dataset_of(args: argparse.Namespace, index_dir: str | None = None) -> Dataset:
    """The dataset the arguments name."""
    path = args.path[0] if len(args.path) == 1 else args.path
    return Dataset.from_path("data", path, fmt=args.format, index_dir=index_dir)


def run(args: argparse.Namespace) -> int:
    """Index the dataset and print what was found."""
    dataset = dataset_of(args, args.output)
    dataset.total()  # whatever is wrong with it is told before anything else
    print(f"format   {dataset.format_name}")
    print(f"shards   {dataset.shard_count():,}")
    print(f"rows     {dataset.total():,}")
    print(f"bytes    {dataset.total_bytes():,}")
    print(f"index    {dataset.index_path or 'in memory'}")
    print("schema")
    for field in dataset.schema:
        print(f"  {field.name}: {field.type}")
    for name, types in dataset.conflicts.items():
        print(f"  {name}: CONFLICT, cannot be read: {types}")
    return 0
