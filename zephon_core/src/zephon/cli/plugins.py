"""``zephon plugins``: what is installed, and whether it works."""

from __future__ import annotations

import argparse
import json

from zephon.plugins import status


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--point", help="only this extension point, e.g. shard_format")


def run(args: argparse.Namespace) -> int:
    """Print a table or JSON; status 1 if any plugin is broken."""
    found = [plugin for plugin in status() if args.point in (None, plugin.point)]
    if args.json:
        print(json.dumps([plugin.to_plain() for plugin in found], indent=2))
    else:
        rows = [("PLUGIN", "DISTRIBUTION", "VERSION", "STATUS", "SUMMARY")]
        rows += [
            (f"{p.point}:{p.name}", p.distribution, p.version, p.status.partition(":")[0], p.summary) for p in found
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]).rstrip())
        for plugin in found:
            if plugin.status != "ok":
                print(f"\n{plugin.point}:{plugin.name}: {plugin.status}")
    return int(any(plugin.status != "ok" for plugin in found))
