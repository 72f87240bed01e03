"""Mixtures: weights as written become integers, integers become a tree that interleaves components.

The tree is a Huffman tree of two-way splits (Huffman, "A method for the construction of minimum-redundancy
codes", 1952). At a node of weight ``n`` whose left child weighs ``l``, the first ``x`` draws hold
``floor((x * l + offset) / n)`` left ones. ``offset`` is ``n // 2``, moved by what the subtrees are owed from
earlier phases. Each split alone is off its target by at most half a draw, and because a Huffman tree is never
much deeper than it is heavy, the errors met on the way to a leaf sum to less than 2 draws in every prefix.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from zephon.errors import ConfigError

IntArray = npt.NDArray[np.int64]
Weight = int | float | str | Decimal | Fraction

#: Largest sum of integer weights: products of two numbers below it fit into int64 with room to spare.
MAX_PERIOD: Final = 1 << 30

#: Credits are integers in units of 2**-CREDIT_BITS draws.
CREDIT_BITS: Final = 20

#: Positions, ordinals and lengths stay below this, so that sums of two of them fit into int64.
MAX_POSITION: Final = 1 << 62

# Up to so many components a walk goes node by node, beyond that level by level.
_FEW: Final = 16

# A decimal exponent beyond that of any float is a mistake, and would cost a number with that many digits.
_MAX_EXPONENT: Final = 400


def exact(value: Any, what: str, code: str) -> Fraction:
    """The positive number as it is written: ``0.7`` is 7/10, not the nearest binary fraction.

    Args:
        value: int, float, Decimal, Fraction, a numpy number, or a string such as ``"0.7"`` or ``"1/3"``.
        what: the name of the number in an error.
        code: the code of an error.

    Raises:
        ConfigError: the number is not finite, not positive, or no number at all.
    """
    try:
        number = _parse(value)
    except (ValueError, ArithmeticError, TypeError):
        number = None
    if number is None or number <= 0:
        raise ConfigError(
            f"{what} has to be a positive number",
            found=repr(value),
            fix='write an int, a float or a string such as "0.7" or "1/3"; leave out what shall not be drawn',
            code=code,
        )
    return number


def _parse(value: Any) -> Fraction | None:
    if isinstance(value, np.generic):
        # A float32 prints the decimals it was written with; its exact binary value is not what was meant.
        value = str(value) if isinstance(value, np.floating) else value.item()
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, Fraction)):
        return Fraction(value)
    if isinstance(value, float):
        value = repr(value)
    if isinstance(value, str) and "/" in value:
        return Fraction(value)
    if isinstance(value, (str, Decimal)):
        decimal = Decimal(value)
        return Fraction(decimal) if decimal.is_finite() and abs(decimal.adjusted()) <= _MAX_EXPONENT else None
    return None


def _weights(value: Mapping[str, Weight]) -> dict[str, Weight]:
    if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value):
        raise ConfigError(
            "a mixture maps dataset names to weights",
            found=repr(value)[:200],
            fix='write e.g. MixtureSpec({"web": 0.7, "code": 0.3})',
            code="bad-mixture",
        )
    for name, weight in value.items():
        exact(weight, f"the weight of {name!r}", "bad-weight")
    return dict(value)


@attrs.frozen(slots=True)
class MixtureSpec:
    """How often each dataset is drawn.

    Attributes:
        weights: positive weight by dataset name, of any sum. Floats are read as the decimals written, strings may be
            decimals or fractions (``"1/3"``).

    Raises:
        ConfigError: ``bad-mixture`` for what is not a mapping from names or is empty; ``bad-weight`` for a weight
            that is not a positive finite number.
    """

    weights: Mapping[str, Weight] = attrs.field(converter=_weights)

    def shares(self) -> dict[str, Fraction]:
        """The weights as exact numbers, by name in order of names."""
        return {name: exact(self.weights[name], name, "bad-weight") for name in sorted(self.weights)}


def integer_weights(shares: Mapping[str, Fraction]) -> tuple[dict[str, int], Fraction]:
    """Reduce positive numbers to integers of the same proportions.

    Args:
        shares: positive numbers by name.

    Returns:
        Positive integers by name without a common factor and with a sum of at most :data:`MAX_PERIOD`, and the
        largest error of a component's share of the whole: 0 unless the exact integers had a larger sum.
    """
    scale = lcm(*(share.denominator for share in shares.values()))
    exact_weights = {name: int(share * scale) for name, share in shares.items()}
    total = sum(exact_weights.values())
    common = gcd(*exact_weights.values())
    if total // common <= MAX_PERIOD:
        return {name: weight // common for name, weight in exact_weights.items()}, Fraction(0)
    # Each rounds up by at most one, so leaving room for one per component keeps the sum within bounds.
    room = MAX_PERIOD - len(exact_weights)
    rounded = {name: max(1, round(Fraction(weight * room, total))) for name, weight in exact_weights.items()}
    common = gcd(*rounded.values())
    rounded = {name: weight // common for name, weight in rounded.items()}
    period = sum(rounded.values())
    error = max(abs(Fraction(rounded[name], period) - Fraction(exact_weights[name], total)) for name in rounded)
    return rounded, error


@attrs.frozen(slots=True, eq=False)
class MixtureTree:
    """The order in which components are drawn, in both directions; build it with :meth:`build`.

    Positions and ordinals count from the start of the tree's phase. The order has period ``period``: position
    ``x + period`` draws the component of position ``x``, its ordinal being larger by the component's weight.

    Attributes:
        weights: int64 ``[components]``.
        period: their sum.
    """

    weights: IntArray
    period: int
    # Inner nodes come after the leaves and children before their parents, so the root is last. Arrays have an entry
    # for every node; those of leaves are never used but for ``_parent``.
    _weight: IntArray
    _left_weight: IntArray
    _offset: IntArray
    _left: IntArray
    _right: IntArray
    _parent: IntArray

    @staticmethod
    def build(weights: Sequence[int], credits: Sequence[int] | None = None) -> MixtureTree:
        """Build the tree of components in the order given, which settles all ties.

        Args:
            weights: positive integers with a sum of at most :data:`MAX_PERIOD`.
            credits: what each component is owed, in 2**-20 draws; nothing by default.
        """
        leaves = len(weights)
        weight = [*weights]
        owed = [*credits] if credits is not None else [0] * leaves
        left = [-1] * leaves
        right = [-1] * leaves
        offset = [0] * leaves
        parent = [-1] * (2 * leaves - 1)
        heap = [(w, node) for node, w in enumerate(weight)]
        heapq.heapify(heap)
        while len(heap) > 1:
            (light, a), (heavy, b) = heapq.heappop(heap), heapq.heappop(heap)
            node, n = len(weight), light + heavy
            parent[a] = parent[b] = node
            weight.append(n)
            left.append(a)
            right.append(b)
            owed.append(owed[a] + owed[b])
            # What the left child is owed beyond its share of what the node is owed. A split repays up to half a draw;
            # more would mean a run of draws from one side, at the cost of the other. The rest waits for later phases.
            extra = (owed[a] * n - owed[node] * light) >> CREDIT_BITS
            offset.append(min(max(n // 2 + extra, 0), n - 1))
            heapq.heappush(heap, (n, node))
        to_left = [weight[a] if a >= 0 else 0 for a in left]
        columns = (weight, to_left, offset, left, right, parent)
        return MixtureTree(
            np.array(weights, dtype=np.int64), sum(weights), *(np.array(c, dtype=np.int64) for c in columns)
        )

    def down(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """From positions to draws.

        Args:
            positions: int64 ``[n]``, from 0.

        Returns:
            Component index and ordinal within that component, int64 ``[n]`` each.
        """
        if len(self.weights) == 1:
            return np.zeros(len(positions), dtype=np.int64), positions
        turns = positions // self.period
        # Within one period all products stay below 2**61.
        x = positions - turns * self.period
        component, ordinal = self._down_by_node(x) if len(self.weights) <= _FEW else self._down_by_level(x)
        ordinal += turns * self.weights[component]
        return component, ordinal

    def _down_by_node(self, x: IntArray) -> tuple[IntArray, IntArray]:
        """Split by split, each with scalars, which numpy divides by faster than by arrays."""
        component, ordinal = np.empty_like(x), np.empty_like(x)
        waiting: list[tuple[int, npt.NDArray[np.intp], IntArray]] = [(len(self._weight) - 1, np.arange(len(x)), x)]
        while waiting:
            node, rows, x = waiting.pop()
            if node < len(self.weights):
                component[rows], ordinal[rows] = node, x
                continue
            n, light = int(self._weight[node]), int(self._left_weight[node])
            scaled = x * light + int(self._offset[node])
            before = scaled // n
            # The next prefix holds one more left draw than this one.
            goes_left = scaled - before * n >= n - light
            here, there = np.flatnonzero(goes_left), np.flatnonzero(~goes_left)
            waiting.append((int(self._left[node]), rows[here], before[here]))
            waiting.append((int(self._right[node]), rows[there], x[there] - before[there]))
        return component, ordinal

    def _down_by_level(self, x: IntArray) -> tuple[IntArray, IntArray]:
        """Level by level, all nodes of a level at once."""
        component, ordinal = np.empty_like(x), np.empty_like(x)
        rows = np.arange(len(x))
        node = np.full(len(x), len(self._weight) - 1)
        while len(rows):
            n, light = self._weight[node], self._left_weight[node]
            scaled = x * light + self._offset[node]
            before = scaled // n
            goes_left = scaled - before * n >= n - light
            x = np.where(goes_left, before, x - before)
            node = np.where(goes_left, self._left[node], self._right[node])
            done = node < len(self.weights)
            arrived, going = np.flatnonzero(done), np.flatnonzero(~done)
            component[rows[arrived]], ordinal[rows[arrived]] = node[arrived], x[arrived]
            rows, x, node = rows[going], x[going], node[going]
        return component, ordinal

    def up(self, components: IntArray, ordinals: IntArray) -> IntArray:
        """From draws to positions: the inverse of :meth:`down`.

        Args:
            components: int64 ``[n]``, component indices.
            ordinals: int64 ``[n]``, from 0, the draw's number among those of its component.

        Returns:
            int64 ``[n]``.
        """
        turns, x = np.divmod(ordinals, self.weights[components])
        node = components.astype(np.int64)
        live = np.arange(len(node)) if len(self.weights) > 1 else np.empty(0, dtype=np.intp)
        while len(live):
            child, k = node[live], x[live]
            parent = self._parent[child]
            n, light, offset = self._weight[parent], self._left_weight[parent], self._offset[parent]
            # The k-th left draw is the last x whose prefix holds no more than k left ones; likewise on the right.
            as_left = -((offset - (k + 1) * n) // light) - 1
            as_right = (k * n + offset) // (n - light)
            x[live] = np.where(self._left[parent] == child, as_left, as_right)
            node[live] = parent
            live = live[parent != len(self._weight) - 1]
        return turns * self.period + x

    def counts(self, length: int) -> list[int]:
        """How often each component is drawn in the first ``length`` positions, in integers of any size."""
        turns, rest = divmod(length, self.period)
        draws = [0] * len(self._weight)
        draws[-1] = rest
        for node in range(len(draws) - 1, len(self.weights) - 1, -1):
            a, b = int(self._left[node]), int(self._right[node])
            draws[a] = (draws[node] * int(self._left_weight[node]) + int(self._offset[node])) // int(self._weight[node])
            draws[b] = draws[node] - draws[a]
        return [turns * int(w) + d for w, d in zip(self.weights, draws, strict=False)]

    def position(self, draws: Sequence[int]) -> list[int]:
        """The position of one draw of each component, in integers of any size.

        Args:
            draws: ordinal by component, from 0.
        """
        turns = [divmod(draw, int(w)) for draw, w in zip(draws, self.weights, strict=True)]
        rest = self.up(np.arange(len(turns)), np.array([r for _, r in turns], dtype=np.int64))
        return [q * self.period + int(x) for (q, _), x in zip(turns, rest, strict=True)]
