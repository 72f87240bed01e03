"""``zephon demo``: real text through a run that is killed and resumed on other numbers of groups.

One run goes through uninterrupted on 4 groups, each a process of its own. The other is SIGKILLed in mid-run, resumed
from its last checkpoint on 2 groups, killed again, and goes on with 3, 5 (padded) and 12. Every round is digested;
exit status 1 if any differs.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from zephon.cli.demo import corpus, report
from zephon.cli.demo.run import Leg, Progress, run_leg

LANES = 12
MICROBATCH = 4
ROUNDS = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--data", help="where the corpus is kept (default: the user's cache directory)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds to compare (default {ROUNDS})")
    parser.add_argument("--keep", action="store_true", help="keep checkpoints and digests, and print where they are")


def run(args: argparse.Namespace) -> int:
    """Prepare the corpus once, run both ways, compare."""
    data = Path(args.data) if args.data else corpus.default_folder()
    facts = corpus.prepare(data)
    print(f"corpus     {facts.describe()}")
    work = Path(tempfile.mkdtemp(prefix="zephon-demo-"))
    try:
        recipe = corpus.write_recipe(data, work / "recipe.toml", lanes=LANES, microbatch=MICROBATCH)
        print(f"recipe     {LANES} lanes, mixture 0.7/0.3, shuffle, tokenize, pack to {corpus.PACK_LENGTH}, ", end="")
        print(f"microbatches of {MICROBATCH}, {args.rounds} rounds")
        begun = time.monotonic()
        calm = Progress(work / "calm")
        run_leg(recipe, Leg(degree=4, until=args.rounds), calm)
        calm_seconds = time.monotonic() - begun
        print(f"calm run   4 groups, {args.rounds} rounds, {calm_seconds:.1f} s")
        stormy = Progress(work / "stormy")
        legs = stormy_legs(args.rounds)
        for leg in legs:
            outcome = run_leg(recipe, leg, stormy)
            print(f"stormy run {leg.describe():<28} {outcome}")
        status = report.compare(calm, stormy, args.rounds)
        report.figures(calm, stormy, recipe, calm_seconds)
        return status
    finally:
        if args.keep:
            print(f"kept       {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def stormy_legs(rounds: int) -> list[Leg]:
    """Killed twice, on five numbers of groups."""
    fifth = max(2, rounds // 5)
    return [
        Leg(degree=4, kill_at=fifth, until=rounds),
        Leg(degree=2, kill_at=2 * fifth, until=rounds),
        Leg(degree=3, until=3 * fifth),
        Leg(degree=5, until=4 * fifth, uneven="pad"),
        Leg(degree=12, until=rounds),
    ]
