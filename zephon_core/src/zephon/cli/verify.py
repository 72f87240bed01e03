"""``zephon verify``: the promise as a command, on the user's own pipeline.

The recipe is run plainly once, then under other numbers of groups, runners, block sizes and chains of restarts, all in
this process. Every round of every variant must have the digest of the plain run. A row operator that is not pure, or a
fold that depends on where blocks end, shows up here.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable
from typing import Any, Final

import attrs

from zephon import random
from zephon.cli.rounds import Fleet

HINT: Final = (
    "look for an operator whose result depends on more than its row: on what it keeps between calls, on other rows,\n"
    "on the time, on random numbers without an address, on the order of a set"
)

#: What a round delivers: the digests of its rows, by lane.
Round = dict[int, list[str]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("recipe", help="path of a recipe in TOML")
    parser.add_argument("--rounds", type=int, default=50, help="rounds to compare (default 50)")
    parser.add_argument("--variants", type=int, default=8, help="ways to run it (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="which variants are drawn")


@attrs.frozen(slots=True, kw_only=True)
class Stretch:
    """Part of a variant: a number of groups and execution settings, for some rounds."""

    rounds: int
    degree: int
    parallelism: int
    block_rows: int | None

    def describe(self) -> str:
        """One phrase for people."""
        runner = f"{self.parallelism} threads" if self.parallelism else "inline"
        blocks = f"blocks of {self.block_rows}" if self.block_rows else "adaptive blocks"
        return f"{self.rounds} rounds on {self.degree} groups, {runner}, {blocks}"


def run(args: argparse.Namespace) -> int:
    """Run plain and variants; 1 at the first difference."""
    from zephon import Pipeline

    def make() -> Pipeline:
        pipeline = Pipeline.from_spec(args.recipe)
        if pipeline._options().on_error.action == "quarantine":
            # What is set aside is counted, but the files belong to the real run.
            pipeline.options(on_error="skip")
        return pipeline

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the plain run has told them already
        plain = Fleet(make, 1, parallelism=0)
        expected = plain.rounds(args.rounds)
        lanes = plain.pipelines[0].lanes
        plain.close()
        print(f"plain run: {len(expected)} rounds of {lanes} lanes")
        for number in range(args.variants):
            stretches = draw_variant(args.seed, number, len(expected), lanes)
            print(f"variant {number + 1}: {'; then '.join(s.describe() for s in stretches)}")
            found = run_variant(make, stretches, args.rounds)
            different = difference(expected, found)
            if different:
                print(f"  {different}")
                print(HINT)
                return 1
            print(f"  {len(found)} rounds identical")
    return 0


def difference(expected: list[Round], found: list[Round]) -> str:
    """The first round that is another one, and which lanes make it so; "" if there is none."""
    for number, (want, have) in enumerate(zip(expected, found, strict=False)):
        lanes = [lane for lane in sorted({*want, *have}) if want.get(lane, []) != have.get(lane, [])]
        if lanes:
            pairs = itertools.zip_longest(want.get(lanes[0], []), have.get(lanes[0], []))
            row = next(i for i, (a, b) in enumerate(pairs) if a != b)
            return f"round {number} DIFFERS in lane {', '.join(map(str, lanes))}, from row {row} of lane {lanes[0]} on"
    return "" if len(expected) == len(found) else f"{len(found)} rounds instead of {len(expected)}"


def draw_variant(seed: int, number: int, rounds: int, lanes: int) -> list[Stretch]:
    """A chain of one to four stretches, addressed by seed and number."""

    def draw(*address: int) -> Callable[[int], int]:
        word = random.word(random.derive_key("verify", seed), number, *address)
        return lambda limit: word % limit

    cuts = sorted({draw(0, i)(max(1, rounds)) for i in range(draw(1)(4))} - {0})
    edges = [0, *cuts, rounds]
    degrees = [1, 2, 3, 5, 7, lanes, lanes + 1, 2 * lanes]
    blocks = [None, 1, 7, 64, 1000]
    return [
        Stretch(
            rounds=stop - start,
            degree=min(64, degrees[draw(2, i)(len(degrees))]),
            parallelism=[0, 1, 4][draw(3, i)(3)],
            block_rows=blocks[draw(4, i)(len(blocks))],
        )
        for i, (start, stop) in enumerate(itertools.pairwise(edges))
    ]


def run_variant(make: Callable[[], Any], stretches: list[Stretch], limit: int) -> list[Round]:
    """The rounds of one variant, up to ``limit`` of them or its end."""
    found: list[Round] = []
    states = None
    for i, stretch in enumerate(stretches):
        options: dict[str, Any] = {"parallelism": stretch.parallelism, "uneven": "pad"}
        if stretch.block_rows is not None:
            options["block_rows"] = stretch.block_rows
        fleet = Fleet(make, stretch.degree, agree=stretch.degree > 1, **options)
        try:
            if states is not None:
                fleet.restore(states)
            last = i == len(stretches) - 1
            found += fleet.rounds(limit - len(found) if last else stretch.rounds)
            states = fleet.states()
        finally:
            fleet.close()
    return found
