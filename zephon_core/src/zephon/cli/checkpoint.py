"""``zephon checkpoint show``: look into a checkpoint."""

from __future__ import annotations

import argparse
import json
from typing import Any

from zephon.checkpoint import DirectoryStore, decode_header
from zephon.checkpoint.state import describe_lane
from zephon.errors import CheckpointError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="what a stored state holds")
    show.add_argument("path", help="directory of a DirectoryStore")
    show.add_argument("--step", type=int, help="default: the latest complete step")
    show.add_argument("--json", action="store_true", help="print everything as one object")


def run(args: argparse.Namespace) -> int:
    """Print header and lanes."""
    store = DirectoryStore(args.path)
    steps = store.steps()
    if args.step is None and not steps:
        raise CheckpointError(
            f"there is no complete checkpoint in {args.path}",
            found="no step whose lanes are all there",
            fix="pass the directory that DirectoryStore was made with",
            code="checkpoint-missing",
        )
    step = args.step if args.step is not None else steps[-1]
    state = store.load(step)
    header = decode_header(state["header"])
    lanes = [describe_lane(data) for data in state["lanes"].values()]
    if args.json:
        print(json.dumps({"step": step, "header": header, "lanes": lanes}, indent=2, ensure_ascii=False))
        return 0
    size = len(state["header"]) + sum(map(len, state["lanes"].values()))
    print(f"step {step} of {', '.join(map(str, steps))}")
    print(f"fingerprint {header['fingerprint']}")
    print(f"written by {', '.join(f'{name} {version}' for name, version in header['versions'].items())}")
    print(f"round {header['round']}, slot {header['slot']}; {header['lanes']} lanes; {size:,} bytes")
    print(f"operators: {', '.join(operator['name'] for operator in header['spec']['operators'])}")
    for name, identity in header["spec"]["datasets"].items():
        print(f"dataset {name}: {_rows(identity)}")
    print("\nlane   position  delivered  since cut      bytes  held")
    for lane in lanes:
        print(
            f"{lane['lane']:>5} {lane['position']:>9} {lane['delivered']:>10} {lane['since_cut']:>10} "
            f"{lane['bytes']:>10,}  {_held(lane['stages'])}"
        )
    return 0


def _rows(identity: dict[str, Any]) -> str:
    return f"{identity['rows']:,} rows in {identity['shards']:,} shards, {identity['bytes']:,} bytes"


def _held(stages: list[dict[str, Any]]) -> str:
    held = [f"{name} by {kind}" for stage in stages for name, (kind, *_) in stage["blocks"].items()]
    held += [name for stage in stages for name in stage["tables"]]
    return ", ".join(held) or "-"
