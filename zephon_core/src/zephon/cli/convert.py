"""``zephon convert``: write a dataset anew in another format."""

from __future__ import annotations

import argparse

from zephon.cli.index import add_dataset_arguments, dataset_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_dataset_arguments(parser)
    parser.add_argument("destination", help="a local directory: new, empty, or of a conversion that was interrupted")
    parser.add_argument("--to", required=True, metavar="FORMAT", help="name of a format that can be written")
    parser.add_argument("--shard-bytes", default="256MiB", help="about how many bytes of the source go into a shard")


def run(args: argparse.Namespace) -> int:
    """Convert, and read back how much is there."""
    from zephon.engine.options import parse_bytes
    from zephon.io import Dataset
    from zephon.io.convert import convert

    size = parse_bytes(args.shard_bytes, "--shard-bytes")
    assert size is not None
    done = convert(dataset_of(args), args.destination, args.to, shard_bytes=size)
    found = Dataset.from_path("data", args.destination, fmt=args.to)
    print(f"{found.total():,} rows in {done.shards:,} shards, {done.nbytes:,} bytes; {done.written:,} written now")
    return 0 if found.total() == done.rows else 1
