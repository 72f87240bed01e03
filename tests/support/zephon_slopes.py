"""Whether something grows: the slope of a line through measurements, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Slope(NamedTuple):
    """Growth per step.

    Attributes:
        value: per step, by least squares.
        margin: half the width of the interval in which the true slope lies with 95 % confidence, if errors of the
            measurements are independent; where they are not, ``slopes_of_halves`` tells more.
    """

    value: float
    margin: float

    @property
    def is_positive(self) -> bool:
        """Whether zero lies below the interval."""
        return self.value - self.margin > 0


def slope(values: Sequence[float]) -> Slope:
    """The slope over equally spaced measurements."""
    n = len(values)
    if n < 3:
        raise ValueError(f"{n} measurements make no slope; at least 3 do")
    middle, mean = (n - 1) / 2, sum(values) / n
    spread = sum((i - middle) ** 2 for i in range(n))
    value = sum((i - middle) * (v - mean) for i, v in enumerate(values)) / spread
    rest = sum((v - mean - value * (i - middle)) ** 2 for i, v in enumerate(values))
    return Slope(value, 1.96 * math.sqrt(rest / (n - 2) / spread))
