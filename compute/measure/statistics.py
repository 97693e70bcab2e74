"""Many timings as one measurement: median, quartiles, confidence interval, sample count, and when to stop sampling.

A measurement is a median with its quartiles, the sample count and a confidence interval of the median; the first call,
which may include compilation, is stored separately. A speed-up is a ratio of two medians with a confidence interval.

The interval of a median lies between two order statistics and assumes no distribution. The depth k, counted from either
end of the sorted samples, is interpolated to cover exactly COVERAGE (T. P. Hettmansperger and S. J. Sheather,
"Confidence intervals based on interpolated order statistics", Stat. Probab. Lett. 4, 1986). The interval of the ratio
combines both in logarithms (MOVER: G. Y. Zou and A. Donner, Stat. Med. 27, 2008): its coverage is 95 % for many samples
and up to 98 % for six of each. Samples must be independent: slowness of the machine during a whole run is not covered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import comb, exp, hypot, isfinite, isnan, log, nan
from statistics import quantiles

from compute.measure.timing import PARTS, Timing

NOISY = 0.10  # interquartile range over median from which a spread is labelled noisy
COVERAGE = 0.95  # of confidence intervals
FEWEST = 6  # samples for such an interval: the extremes of five enclose the median with probability 0.9375 only
FEW = FEWEST  # fewer samples than this are labelled noisy too: their quartiles mean little
LOW_CLOCK = 0.6  # of the highest clock of a GPU: below, power saving; under load, heat and power leave more
LAUNCH_BOUND = 0.9  # launch time over the kernels' time from which a measurement is launch-bound
SETTLED = 0.02  # quartiles have settled when the last third of the samples moves them by less than this x median


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of `n` samples, all in the samples' unit; nan when n is 0.

    low, high: confidence interval of the median; nan below FEWEST samples, and where a record keeps quartiles only.
    """

    median: float
    q1: float
    q3: float
    n: int
    low: float = field(default=nan, compare=False)
    high: float = field(default=nan, compare=False)

    @classmethod
    def of(cls, samples: Iterable[float]) -> Spread:
        """Return the spread of the finite `samples` (quartiles by linear interpolation between order statistics)."""
        kept = [sample for sample in samples if isfinite(sample)]
        if not kept:
            return cls(nan, nan, nan, 0)
        # NumPy's quantile takes 50 µs for so few; with 40 tabs that was a tenth of the server's time.
        q1, median, q3 = quantiles(kept, n=4, method="inclusive") if len(kept) > 1 else 3 * kept
        return cls(median, q1, q3, len(kept), *median_interval(kept))

    @property
    def bounded(self) -> bool:
        """Whether the confidence interval of the median is known."""
        return isfinite(self.low) and isfinite(self.high)

    @property
    def noisy(self) -> bool:
        """Whether the middle half is wider than NOISY x median, or there are fewer than FEW samples."""
        return self.n < FEW or not (self.q3 - self.q1) <= NOISY * abs(self.median)


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return the confidence interval (low, high) of the samples' median; (nan, nan) below FEWEST samples."""
    count = len(samples)
    if count < FEWEST:
        return nan, nan
    ordered, (depth, part) = sorted(samples), _depth(count)
    low = (1 - part) * ordered[depth - 1] + part * ordered[depth]
    return low, (1 - part) * ordered[-depth] + part * ordered[-depth - 1]


@cache
def _depth(count: int) -> tuple[int, float]:
    """Return (k, part): the interval starts at the k-th order statistic, or `part` of the way to the next one."""
    coverages = [1 - 2 * sum(comb(count, i) for i in range(k)) / 2**count for k in range(count // 2 + 2)]
    depth = max(k for k in range(1, count // 2 + 1) if coverages[k] >= COVERAGE)
    excess = (coverages[depth] - COVERAGE) / (coverages[depth] - coverages[depth + 1])
    return depth, (count - depth) * excess / (depth + (count - 2 * depth) * excess)


@dataclass(frozen=True)
class SpeedUp:
    """How many times as fast one way is as another: `ratio` of the medians, confidence interval [low, high].

    low and high are nan where one of the medians has no interval.
    """

    ratio: float
    low: float
    high: float
    noisy: bool

    @classmethod
    def of(cls, slow: Spread, fast: Spread) -> SpeedUp:
        """Return the speed-up of `fast` over `slow`, both spreads of seconds for the same work."""
        ratio, noisy = slow.median / fast.median, slow.noisy or fast.noisy
        if not (slow.bounded and fast.bounded and min(slow.low, fast.low) > 0):
            return cls(ratio, nan, nan, noisy)
        down = hypot(log(slow.median / slow.low), log(fast.high / fast.median))
        up = hypot(log(slow.high / slow.median), log(fast.median / fast.low))
        return cls(ratio, ratio * exp(-down), ratio * exp(up), noisy)

    @classmethod
    def between_quartiles(cls, slow: Spread, fast: Spread) -> SpeedUp:
        """Return the speed-up with the range of ratios that the quartiles allow: no confidence interval.

        It is for records that keep quartiles only.
        """
        noisy = slow.noisy or fast.noisy
        return cls(slow.median / fast.median, slow.q1 / fast.q3, slow.q3 / fast.q1, noisy)

    @property
    def bounded(self) -> bool:
        """Whether the interval is known."""
        return not (isnan(self.low) or isnan(self.high))

    @property
    def undecided(self) -> bool:
        """Whether the interval contains 1, so that either of the two may be the faster one."""
        return self.low <= 1 <= self.high


@dataclass(frozen=True)
class Measurement:
    """Many timings of one way to compute the same result.

    step: spread of compute seconds a step; cells: updated by one step; first_call: seconds of the very first call,
    including compilation (nan if not seen); parts: median seconds a frame of each of PARTS, nan if not measured;
    clock_rate: median clock of a GPU over its highest one, nan if unknown.
    """

    backend: str
    variant: str
    cells: int
    step: Spread
    first_call: float = nan
    parts: dict[str, float] = field(default_factory=dict)
    clock_rate: float = nan

    @classmethod
    def of(cls, timings: Sequence[Timing]) -> Measurement:
        """Summarise `timings`, all of one backend, variant and grid; ValueError if they are empty or mixed."""
        kinds = {(timing.backend, timing.variant, timing.cells) for timing in timings}
        if len(kinds) != 1:
            raise ValueError(f"a measurement takes timings of one backend, variant and grid, not of {sorted(kinds)}")
        ((backend, variant, cells),) = kinds
        warm = [timing for timing in timings if not timing.first_call]
        cold = [timing.compute for timing in timings if timing.first_call]
        parts = {name: Spread.of(getattr(timing, name) for timing in warm).median for name in PARTS}
        step = Spread.of(timing.step_seconds for timing in warm)
        clock_rate = Spread.of(timing.clock_rate for timing in warm).median
        return cls(backend, variant, cells, step, cold[0] if cold else nan, parts, clock_rate)

    @property
    def noisy(self) -> bool:
        """Whether the seconds a step scatter too much, or are too few, to be quoted without a warning."""
        return self.step.noisy

    @property
    def launch_bound(self) -> bool:
        """Whether launching the kernels takes as long as running them, so that the time is that of the launches."""
        return self.parts.get("launch", nan) >= LAUNCH_BOUND * self.parts.get("compute", nan)

    @property
    def low_clock(self) -> bool:
        """Whether a GPU ran far below its highest clock, so that it may be faster under continuous load."""
        return self.clock_rate < LOW_CLOCK

    @property
    def steps_per_second(self) -> float:
        """Steps a second of compute time."""
        return 1.0 / self.step.median

    @property
    def cells_per_second(self) -> float:
        """Cell updates a second of compute time."""
        return self.cells / self.step.median


class Window:
    """The latest timings of one way, and its first call until the way changes."""

    def __init__(self, length: int = 120) -> None:
        self._warm: deque[Timing] = deque(maxlen=length)
        self._first: Timing | None = None

    def add(self, timing: Timing) -> None:
        """Add one timing; another backend, variant or grid clears the window first."""
        newest = self._warm[-1] if self._warm else self._first
        if newest is not None and _kind(newest) != _kind(timing):
            self.clear()
        if not timing.first_call:
            self._warm.append(timing)
        elif self._first is None:
            self._first = timing

    @property
    def timings(self) -> tuple[Timing, ...]:
        """The timings in the window, the first call first."""
        return (*([self._first] if self._first else []), *self._warm)

    def clear(self) -> None:
        """Remove all timings."""
        self._warm.clear()
        self._first = None

    def measurement(self) -> Measurement | None:
        """Return the window as a measurement; None before the first timing."""
        return Measurement.of(self.timings) if self.timings else None


def _kind(timing: Timing) -> tuple[str, str, int]:
    return timing.backend, timing.variant, timing.cells


def settled(samples: Sequence[float], least: int = 9) -> bool:
    """Whether sampling may stop: the last third of the samples moved no quartile by more than SETTLED x median.

    This requires `least` samples, or three times as many noisy ones.
    """
    if len(samples) < least:
        return False
    now, before = Spread.of(samples), Spread.of(samples[: -(len(samples) // 3)])
    if now.noisy and len(samples) < 3 * least:
        return False
    moved = max(abs(now.q1 - before.q1), abs(now.median - before.median), abs(now.q3 - before.q3))
    return moved <= SETTLED * now.median
