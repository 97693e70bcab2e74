"""Logarithmic axes: ticks at powers of ten; a range grows with its curve, and tightens when much of it is empty."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import CustomJSTickFormatter, FixedTicker
from numpy.typing import NDArray

SLACK, LEAST, SHRINK = 0.06, 0.6, 0.6  # part of the span left free; decades at least; share below which it tightens
FARTHEST = 30.0  # decades above and below 1 that are drawn at all

POWER = """
const power = Math.log10(tick), raised = (n) => String(n).replace(/./g, (c) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] ?? '⁻');
return Math.abs(power - Math.round(power)) < 1e-9 ? '10' + raised(Math.round(power)) : '';
"""
PLAIN = "return String(Number(tick.toPrecision(2)));"
MINOR = (1.0, 2.0, 5.0)  # of a decade, where an axis has few


def decades(axis: Any, low: float, high: float, most: int, words: str = "") -> None:
    """Ticks of an axis that spans `low` to `high` decades: every k-th, at most `most`; a short one gets 2 and 5 too.

    words: JavaScript that writes a `tick`; otherwise it is a power of ten.
    """
    first, last = -int(-low // 1), int(high // 1)
    if last - first < 1:
        ticks = [m * 10.0**n for n in range(int(low // 1), last + 1) for m in MINOR]
        inside = [tick for tick in ticks if 10**low <= tick <= 10**high]
        axis.update(ticker=FixedTicker(ticks=inside), formatter=CustomJSTickFormatter(code=words or PLAIN))
        return
    stride = max(1, -(-(last - first + 1) // most))
    ticks = [10.0**n for n in range(first + (-first) % stride, last + 1, stride)]
    axis.update(ticker=FixedTicker(ticks=ticks), formatter=CustomJSTickFormatter(code=words or POWER))


class LogWindow:
    """The range of one logarithmic axis, in decades.

    most: labels at most; words: as in `decades`; room: part of the axis at its end that stays free.
    """

    def __init__(self, range_: Any, axis: Any, most: int, words: str = "", room: float = 0.0) -> None:
        self._range, self._axis, self._most, self._words, self.room = range_, axis, most, words, room
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
        self._range.update(start=10.0 ** self._shown[0], end=10.0**self._end)
        decades(self._axis, *self._shown, self._most, self._words)
        return True

    @property
    def _end(self) -> float:
        """The decade at the end of the axis, beyond what it shows if there is `room`."""
        low, high = self.shown
        return low + (high - low) / (1 - self.room)

    def _outgrown(self, low: float, high: float) -> bool:
        first, last = self.shown
        return low < first or high > last or (high - low) < SHRINK * (last - first)

    def ticks(self, most: int) -> None:
        """Label at most that many powers of ten: the axis has another length now."""
        if most != self._most:
            self._most = most
            decades(self._axis, *self.shown, most, self._words)

    def clipped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`values`, those far outside at a place that is outside too, where a logarithmic scale can draw them."""
        low, high = self.shown
        span = high - low
        return np.clip(np.nan_to_num(values, nan=0.0, posinf=np.inf), 10.0 ** (low - span), 10.0 ** (high + span))

    def part(self, value: float) -> float:
        """Where `value` lies on the axis: 0 at its start, 1 at its end."""
        low = self.shown[0]
        return (float(np.log10(value)) - low) / (self._end - low)

    def value(self, part: float) -> float:
        """What lies at that part of the axis."""
        low = self.shown[0]
        return float(10.0 ** (low + part * (self._end - low)))
