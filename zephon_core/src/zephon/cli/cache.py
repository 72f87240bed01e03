"""``zephon cache``: what a shard cache holds, make it smaller, check it."""

from __future__ import annotations

import argparse
from contextlib import suppress
from datetime import UTC, datetime

from zephon.errors import ConfigError
from zephon.io.cache_files import CacheFiles


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action, summary in (
        ("ls", "every shard that is there"),
        ("prune", "remove shards until no more than --limit bytes are left; those in use stay"),
        ("verify", "compare every shard with its checksum, and remove those that differ"),
    ):
        sub = actions.add_parser(action, help=summary, description=summary)
        sub.add_argument("directory", help="the cache's directory")
        if action == "prune":
            sub.add_argument("--limit", default="0", help='bytes, or text such as "20GB"; everything goes if left out')


def run(args: argparse.Namespace) -> int:
    """Do it; 1 if ``verify`` found damage."""
    files = CacheFiles(args.directory)
    if not files.directory.is_dir():
        raise ConfigError(
            f"there is no cache in {args.directory}",
            found="no such directory",
            fix='name the directory of io_options={"cache": {"directory": ..., "limit": ...}}',
            code="cache-missing",
        )
    if args.action == "ls":
        for entry in files.entries():
            used = entry.used_again or entry.fetched
            print(f"{entry.size:>15,}  {datetime.fromtimestamp(used, UTC):%Y-%m-%d %H:%M}  {entry.url}")
        print(f"{files.used():>15,}  bytes in all")
        return 0
    return _prune(files, args.limit) if args.action == "prune" else _verify(files)


def _prune(files: CacheFiles, limit: str) -> int:
    from zephon.engine.options import parse_bytes
    from zephon.io.cache import make_room

    files.sweep()
    removed, _ = make_room(files, 0 if limit == "0" else parse_bytes(limit, "--limit") or 0)
    print(f"{removed} shards removed, {files.used():,} bytes left")
    return 0


def _verify(files: CacheFiles) -> int:
    good = bad = 0
    for entry in files.entries():
        with suppress(FileNotFoundError):  # removed by somebody in the meantime
            if files.digest(entry.key) == entry.digest:
                good += 1
            else:
                bad += 1
                print(f"damaged, removed: {entry.url}")
                files.remove(entry.key)
    print(f"{good} shards are as they were fetched, {bad} were not")
    return 1 if bad else 0
