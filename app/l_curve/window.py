"""What a logarithmic axis shows: it grows with the curve at once, and tightens only when much of it is empty."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.l_curve.linked import decades

SLACK, LEAST, SHRINK = 0.06, 0.6, 0.6  # part of the span left free; decades at least; share below which it tightens
FARTHEST = 30.0  # decades above and below 1 that are drawn at all


class LogWindow:
    """The range of one logarithmic axis, in decades."""

    def __init__(self, range_: Any, axis: Any, most: int) -> None:
        self._range, self._axis, self._most = range_, axis, most
        self._shown: tuple[float, float] | None = None

    def forget(self) -> None:
        """What comes next has nothing to do with what was shown."""
        self._shown = None

    @property
    def shown(self) -> tuple[float, float]:
        """(lowest, highest) decade."""
        return self._shown or (0.0, 1.0)

    def fit(self, values: NDArray[np.float64]) -> bool:
        """Show all positive `values`; whether the range changed."""
        usable = values[np.isfinite(values) & (values > 10.0**-FARTHEST) & (values < 10.0**FARTHEST)]
        if not usable.size:
            return False
        low, high = float(np.log10(usable.min())), float(np.log10(usable.max()))
        lack = max(0.0, LEAST - (high - low)) / 2
        low, high = low - lack, high + lack
        if self._shown is not None and not self._outgrown(low, high):
            return False
        slack = SLACK * (high - low)
        self._shown = low - slack, high + slack
        self._range.update(start=10.0 ** self._shown[0], end=10.0 ** self._shown[1])
        decades(self._axis, *self._shown, self._most)
        return True

    def _outgrown(self, low: float, high: float) -> bool:
        first, last = self.shown
        return low < first or high > last or (high - low) < SHRINK * (last - first)

    def ticks(self, most: int) -> None:
        """Label at most that many powers of ten: the axis has another length now."""
        if most != self._most:
            self._most = most
            decades(self._axis, *self.shown, most)

    def clipped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`values`, those far outside at a place that is outside too, where a logarithmic scale can draw them."""
        low, high = self.shown
        span = high - low
        return np.clip(np.nan_to_num(values, nan=0.0, posinf=np.inf), 10.0 ** (low - span), 10.0 ** (high + span))

    def part(self, value: float) -> float:
        """Where `value` lies on the axis: 0 at its start, 1 at its end."""
        low, high = self.shown
        return (float(np.log10(value)) - low) / (high - low)

    def value(self, part: float) -> float:
        """What lies at that part of the axis."""
        low, high = self.shown
        return float(10.0 ** (low + part * (high - low)))
