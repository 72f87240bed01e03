"""Digests side by side, and the figures of both runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from zephon.cli.demo.run import Progress
from zephon.cli.rounds import round_digest


def compare(calm: Progress, stormy: Progress, rounds: int) -> int:
    """Print the digest of every round of both runs; 1 if any differs or is missing."""
    expected = _digests(calm.lines())
    found = _digests(stormy.lines())
    print("\nround  calm              stormy")
    wrong = 0
    for number in range(rounds):
        one, other = expected.get(number, set()), found.get(number, set())
        same = len(one) == 1 and one == other
        wrong += not same
        if not same or number % max(1, rounds // 12) == 0 or number == rounds - 1:
            verdict = "same" if same else "DIFFERENT"
            print(f"{number:>5}  {_text(one):<16}  {_text(other):<16}  {verdict}")
    redone = sum(len(lines) > 1 for lines in _by_round_and_lane(stormy.lines()).values())
    print(f"\n{rounds - wrong} of {rounds} rounds are identical; {redone} microbatches were made again after a kill")
    return int(wrong > 0)


def figures(calm: Progress, stormy: Progress, recipe: Path, seconds: float) -> None:
    """Print mixture, density, speed, checkpoint size and restore time."""
    lines = calm.lines()
    tokens = sum(line["tokens"] for line in lines)
    room = sum(line["room"] for line in lines)
    rows: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    for line in lines:
        if line["stats"]:
            rows.update(line["stats"]["rows"])
            counted.update(line["stats"]["tokens"])
    print(f"mixture    rows   {_shares(rows)}")
    print(f"           tokens {_shares(counted)}")
    print(f"density    {tokens / room:.2%} of the packed positions hold a token")
    print(f"speed      {tokens / seconds:,.0f} tokens/s with 4 processes, their start included")
    states: dict[int, int] = defaultdict(int)
    for line in lines:
        states[line["round"]] += line["bytes"] or 0
    sizes = [size for size in states.values() if size]
    saves = [line["save_seconds"] for line in lines if line["save_seconds"] is not None]
    print(f"checkpoint {median(sizes):,.0f} bytes for all lanes; checkpoint() {1000 * median(saves):.1f} ms per group")
    fresh = [line["restore_seconds"] for line in lines if line["restore_seconds"] is not None]
    again = [
        line["restore_seconds"] for line in stormy.lines() if line["restore_seconds"] is not None and line["round"]
    ]
    print(f"restore    first batch after {median(again):.2f} s; of a fresh start after {median(fresh):.2f} s (medians)")


def _by_round_and_lane(lines: list[dict[str, Any]]) -> dict[tuple[int, str], list[list[str]]]:
    found: dict[tuple[int, str], list[list[str]]] = defaultdict(list)
    for line in lines:
        for lane, rows in line["lanes"].items():
            found[line["round"], lane].append(rows)
    return found


def _digests(lines: list[dict[str, Any]]) -> dict[int, set[str]]:
    """Per round its digests: one, unless a lane was delivered differently when it was made again."""
    lanes: dict[int, dict[int, list[list[str]]]] = defaultdict(dict)
    for (number, lane), versions in _by_round_and_lane(lines).items():
        lanes[number][int(lane)] = versions
    digests = {}
    for number, by_lane in lanes.items():
        most = max(map(len, by_lane.values()))
        digests[number] = {
            round_digest({lane: versions[min(i, len(versions) - 1)] for lane, versions in by_lane.items()})
            for i in range(most)
        }
    return digests


def _text(digests: set[str]) -> str:
    return " / ".join(sorted(digests)) or "missing"


def _shares(counts: Counter[str]) -> str:
    total = sum(counts.values()) or 1
    return ", ".join(f"{name} {count / total:.4f} ({count:,})" for name, count in sorted(counts.items()))
