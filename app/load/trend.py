"""Whether what was counted again and again grows: a line through it, its slope, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from scipy.special import stdtrit

SURE = 0.95  # of the interval
ROUNDING = 16 * np.finfo(float).eps  # of a value: residuals that are no larger tell of the sums, not of the series


@dataclass(frozen=True)
class Trend:
    """The slope of a line through a series, and the interval [low, high] in which it lies with the probability SURE."""

    slope: float
    low: float
    high: float

    @classmethod
    def of(cls, times: Sequence[float], values: Sequence[float]) -> Trend:
        """The trend of `values` (least squares), a unit of time; the interval is infinite where they are too few.

        What a server holds after one round is much what it held after the one before, so n values say less than n
        independent ones: the interval is that of n (1 - r) / (1 + r) values, where r is the correlation of each
        residual with the next (Santer et al., J. Geophys. Res. 105, 7337 (2000), equations 4 to 6).
        """
        x, y = np.array(times, float), np.array(values, float)
        if len(x) < 3 or np.ptp(x) == 0:
            return cls(0.0, -inf, inf)
        x -= x.mean()
        slope = float(x @ y / (x @ x))
        residuals = y - y.mean() - slope * x
        squares = float(residuals @ residuals)
        if squares <= len(x) * (ROUNDING * float(np.abs(y).max())) ** 2:
            return cls(slope, slope, slope)
        alike = min(max(float(residuals[:-1] @ residuals[1:]) / squares, 0.0), 1.0)
        free = len(x) * (1 - alike) / (1 + alike) - 2
        if free <= 0:
            return cls(slope, -inf, inf)
        error = sqrt(squares / free / float(x @ x)) * float(stdtrit(free, (1 + SURE) / 2))
        return cls(slope, slope - error, slope + error)

    def times(self, span: float) -> Trend:
        """The same for another unit of time, `span` times as long."""
        return Trend(span * self.slope, span * self.low, span * self.high)

    def verdict(self, allowed: float) -> str:
        """Return "flat" if the slope is surely at most `allowed`, "grows" if it surely is not, or "undecided"."""
        return "flat" if self.high <= allowed else "grows" if self.low > allowed else "undecided"
