"""Many timings as one measurement: median, quartiles, sample count, and when enough samples were taken.

A measurement is never one number: it is a median with its quartiles and the sample count, the first call (which may
hold compilation) kept apart. A speed-up is a ratio of two medians with the interval its quartiles allow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from statistics import quantiles

from compute.measure.timing import PARTS, Timing

NOISY = 0.10  # interquartile range over median from which a spread is labelled noisy
FEW = 5  # fewer samples than this are labelled noisy too: their quartiles mean little
LAUNCH_BOUND = 0.9  # part of the kernels' time from which launching them takes as long
SETTLED = 0.02  # quartiles have settled when the last third of the samples moves them by less than this x median


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of `n` samples, all in the samples' unit; nan when n is 0."""

    median: float
    q1: float
    q3: float
    n: int

    @classmethod
    def of(cls, samples: Iterable[float]) -> Spread:
        """The spread of the finite `samples` (quartiles by linear interpolation between order statistics)."""
        kept = [sample for sample in samples if isfinite(sample)]
        if not kept:
            return cls(nan, nan, nan, 0)
        # NumPy's quantile takes 50 µs for so few; with 40 tabs that was a tenth of the server's time.
        q1, median, q3 = quantiles(kept, n=4, method="inclusive") if len(kept) > 1 else 3 * kept
        return cls(median, q1, q3, len(kept))

    @property
    def noisy(self) -> bool:
        """Whether the middle half is wider than NOISY x median, or there are fewer than FEW samples."""
        return self.n < FEW or not (self.q3 - self.q1) <= NOISY * abs(self.median)


@dataclass(frozen=True)
class SpeedUp:
    """How many times faster one way is than another: `ratio` of the medians, and the interval [low, high].

    The interval is the lowest and highest ratio that the quartiles allow: slow q1 / fast q3 to slow q3 / fast q1.
    """

    ratio: float
    low: float
    high: float
    noisy: bool

    @classmethod
    def of(cls, slow: Spread, fast: Spread) -> SpeedUp:
        """The speed-up of `fast` over `slow`, both spreads of seconds for the same work."""
        noisy = slow.noisy or fast.noisy
        return cls(slow.median / fast.median, slow.q1 / fast.q3, slow.q3 / fast.q1, noisy)


@dataclass(frozen=True)
class Measurement:
    """Many timings of one way to compute the same thing.

    step: spread of compute seconds a step; cells: updated by one step; first_call: seconds of the very first call,
    compilation included (nan if not seen); parts: median seconds a frame of each of PARTS, nan if not measured.
    """

    backend: str
    variant: str
    cells: int
    step: Spread
    first_call: float = nan
    parts: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, timings: Sequence[Timing]) -> Measurement:
        """Summarise `timings`, all of one backend, variant and grid; ValueError if they are none or mixed."""
        kinds = {(timing.backend, timing.variant, timing.cells) for timing in timings}
        if len(kinds) != 1:
            raise ValueError(f"a measurement takes timings of one backend, variant and grid, not of {sorted(kinds)}")
        ((backend, variant, cells),) = kinds
        warm = [timing for timing in timings if not timing.first_call]
        cold = [timing.compute for timing in timings if timing.first_call]
        parts = {name: Spread.of(getattr(timing, name) for timing in warm).median for name in PARTS}
        step = Spread.of(timing.step_seconds for timing in warm)
        return cls(backend, variant, cells, step, cold[0] if cold else nan, parts)

    @property
    def noisy(self) -> bool:
        """Whether the seconds a step scatter too much, or are too few, to be quoted without saying so."""
        return self.step.noisy

    @property
    def launch_bound(self) -> bool:
        """Whether launching the kernels takes as long as they do: the time is then the launches', not the kernels'."""
        return self.parts.get("launch", nan) >= LAUNCH_BOUND * self.parts.get("compute", nan)

    @property
    def steps_per_second(self) -> float:
        """Steps a second of compute time."""
        return 1.0 / self.step.median

    @property
    def cells_per_second(self) -> float:
        """Cell updates a second of compute time."""
        return self.cells / self.step.median


class Window:
    """The newest timings of one way, and its first call for as long as it is the same way."""

    def __init__(self, length: int = 120) -> None:
        self._warm: deque[Timing] = deque(maxlen=length)
        self._first: Timing | None = None

    def add(self, timing: Timing) -> None:
        """Take one timing; another backend, variant or grid starts afresh."""
        newest = self._warm[-1] if self._warm else self._first
        if newest is not None and _kind(newest) != _kind(timing):
            self.clear()
        if not timing.first_call:
            self._warm.append(timing)
        elif self._first is None:
            self._first = timing

    @property
    def timings(self) -> tuple[Timing, ...]:
        """What is in it, the first call first."""
        return (*([self._first] if self._first else []), *self._warm)

    def clear(self) -> None:
        """Forget everything."""
        self._warm.clear()
        self._first = None

    def measurement(self) -> Measurement | None:
        """The window as a measurement; None before the first timing."""
        return Measurement.of(self.timings) if self.timings else None


def _kind(timing: Timing) -> tuple[str, str, int]:
    return timing.backend, timing.variant, timing.cells


def settled(samples: Sequence[float], least: int = 9) -> bool:
    """Whether enough is known: the last third of the samples moved no quartile by SETTLED x median.

    `least` samples are needed for that, three times as many as long as they are noisy.
    """
    if len(samples) < least:
        return False
    now, before = Spread.of(samples), Spread.of(samples[: -(len(samples) // 3)])
    if now.noisy and len(samples) < 3 * least:
        return False
    moved = max(abs(now.q1 - before.q1), abs(now.median - before.median), abs(now.q3 - before.q3))
    return moved <= SETTLED * now.median
