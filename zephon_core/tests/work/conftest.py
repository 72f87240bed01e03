"""Datasets for tests, and slow definitions that are obviously right."""

from __future__ import annotations

import heapq
from fractions import Fraction
from math import gcd

import attrs
import numpy as np
import pytest

from zephon import random


@attrs.frozen
class Rows:
    """A dataset that counts how often its shards are looked at."""

    name: str
    rows: tuple[int, ...]
    looks: list[str] = attrs.field(factory=list)

    @property
    def shard_rows(self) -> np.ndarray:
        self.looks.append(self.name)
        return np.array(self.rows, dtype=np.int64)


class Slow:
    """One draw after the other, one row after the other, with Python numbers."""

    @staticmethod
    def draws(weights: dict[str, int], credits: dict[str, int], length: int) -> list[str]:
        """Names drawn at the positions of one phase: walk down the Huffman tree, counting draws at every node."""
        names = sorted(weights)
        heap = [(weights[name], i, name, credits.get(name, 0)) for i, name in enumerate(names)]
        heapq.heapify(heap)
        number = len(names)
        while len(heap) > 1:
            a, b = heapq.heappop(heap), heapq.heappop(heap)
            n, owed = a[0] + b[0], a[3] + b[3]
            moved = Fraction(a[3], 2**20) - Fraction(owed * a[0], n * 2**20)
            offset = min(max(n // 2 + (moved * n).__floor__(), 0), n - 1)
            heapq.heappush(heap, (n, number, ([0], a[0], n, offset, a[2], b[2]), owed))
            number += 1
        root, drawn = heap[0][2], []
        for _ in range(length):
            node = root
            while not isinstance(node, str):
                count, light, n, offset, left, right = node
                x = count[0]
                count[0] += 1
                goes_left = ((x + 1) * light + offset) // n > (x * light + offset) // n
                node = left if goes_left else right
            drawn.append(node)
        return drawn

    @staticmethod
    def course(schedule, rows, policies, bound):
        """Draw by draw: names drawn, starts of phases, and whether the run ended before ``bound`` draws."""
        names: list[str] = []
        starts: list[int] = []
        drawn = dict.fromkeys(rows, 0)
        owed: dict[str, int] = {}

        def at_limit(name):
            limit = policies[name].limit
            return limit is not None and drawn[name] >= limit * rows[name]

        def gone(name):
            return policies[name].leaves and at_limit(name)

        while len(names) < bound:
            now = max(i for i, (start, _) in enumerate(schedule) if start <= len(names))
            until = schedule[now + 1][0] if now + 1 < len(schedule) else bound
            weights = {name: w for name, w in sorted(schedule[now][1].items()) if not gone(name)}
            waited = {n for _, later in schedule[now + 1 :] for n in later if not gone(n)} | {*weights}

            def waits(waited=waited):
                goals = {name: p.goal for name, p in policies.items() if p.goal is not None}
                return not goals or any(drawn[n] < g * rows[n] for n, g in goals.items() if n in waited)

            if not weights or not waits():
                return names, starts, True
            common = gcd(*weights.values())
            weights = {name: w // common for name, w in weights.items()}
            first = len(names)
            for name in Slow.draws(weights, owed, until - first):
                if at_limit(name) and policies[name].leaves:
                    break
                if at_limit(name) or not waits():
                    return names, starts + ([first] if len(names) > first else []), True
                names.append(name)
                drawn[name] += 1
            if len(names) > first:
                starts.append(first)
            for name, weight in weights.items():
                length, count = len(names) - first, names[first:].count(name)
                target = (length * weight << 20) // sum(weights.values())
                owed[name] = owed.get(name, 0) + target - (count << 20)
        return names, starts, False

    @staticmethod
    def permutation(key: int, number: int, size: int) -> list[int]:
        """Where each element goes."""
        key = int(random.words(key, number)[()])
        if size < 4096:
            hashes = random.words(key, np.arange(size)).tolist()
            return sorted(range(size), key=lambda i: (hashes[i] >> 12, i))
        a = next(a for a in range(1, size) if a * a >= size)
        b = -(-size // a)
        keys = random.words(key, np.arange(4)).tolist()
        mask = 2**64 - 1

        def once(x: int) -> int:
            halves = list(divmod(x, b))
            for turn in range(4):
                h = (halves[1 - turn % 2] + keys[turn]) * 0xBF58476D1CE4E5B9 & mask
                h = (h ^ h >> 32) * 0x94D049BB133111EB & mask
                modulus = (a, b)[turn % 2]
                halves[turn % 2] = (halves[turn % 2] + ((h >> 32) * modulus >> 32)) % modulus
            return halves[0] * b + halves[1]

        out = []
        for element in range(size):
            x = once(element)
            while x >= size:
                x = once(x)
            out.append(x)
        return out

    @staticmethod
    def epoch(name, shard_rows, epoch, *, seed=0, shards=True, within=False, block=None, reshuffle=True):
        """All (shard, row) of one pass, in order."""
        turn = epoch if reshuffle else 0
        shards_key, windows_key, rows_key = (
            random.derive_key("curriculum", seed, name, level) for level in ("shards", "windows", "rows")
        )
        order = [i for i, rows in enumerate(shard_rows) if rows]
        total = sum(shard_rows)
        window = {None: 1, "auto": 8 * max(shard_rows), "global": total}.get(block, block)
        window = min(window, total)
        if shards:
            order = [order[i] for i in Slow.permutation(shards_key, turn, len(order))]
        places = []
        for shard in order:
            rows = list(range(shard_rows[shard]))
            cut = len(places) // window != (len(places) + len(rows) - 1) // window
            if within and cut:
                number = sum(1 for rows in shard_rows[:shard] if rows)
                rows = Slow.permutation(rows_key, turn * len(order) + number, len(rows))
            places += [(shard, row) for row in rows]
        if window == 1:
            return places
        out = []
        for number in range(-(-total // window)):
            part = places[number * window : (number + 1) * window]
            key = turn * -(-total // window) + number
            out += [part[i] for i in Slow.permutation(windows_key, key, len(part))]
        return out

    @staticmethod
    def deal(phases: list[tuple[int, int, int]], lanes: int, seed: int) -> list[list[int]]:
        """Positions read by each lane. A phase is (start, length, chunk)."""
        deal_key, offset_key = (random.derive_key("curriculum", seed, what) for what in ("deal", "offset"))
        read: list[list[int]] = [[] for _ in range(lanes)]
        extra = 0
        for start, length, chunk in phases:
            left, at = length, start
            while left:
                if left >= lanes * chunk:
                    sizes = [chunk] * lanes
                else:
                    sizes = [left // lanes] * lanes
                    for i in range(left % lanes):
                        sizes[(extra + i) % lanes] += 1
                slots = Slow.permutation(deal_key, at, lanes)
                begin = at
                for slot in range(lanes):
                    lane = slots.index(slot)
                    size = sizes[lane]
                    if size:
                        offset = int(random.below(random.words(offset_key, [begin]), size)[0])
                        read[lane] += [begin + (offset + i) % size for i in range(size)]
                    begin += size
                left -= sum(sizes)
                if left == 0:
                    extra += length % lanes
                at = begin
        return read


@pytest.fixture(scope="session")
def slow() -> type[Slow]:
    return Slow


@pytest.fixture(scope="session")
def dataset():
    """``dataset("web", 10, 20)``: two shards."""
    return lambda name, *rows: Rows(name, rows)
