"""The n at which one curve of time against n falls below another, and its uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, exp, floor, inf, isfinite, log

import numpy as np
from numpy.typing import NDArray

from compute.measure.statistics import Spread

TimesByN = Mapping[int, Spread]  # seconds by n
Rounds = Mapping[int, Sequence[float]]  # seconds by n, one sample per round
Quantity = Callable[[Spread], float]  # a quantity of a spread
TAIL, LEAST_ROUNDS = 0.1, 4  # fraction of the rounds left out at either end; fewer rounds give no estimate
FIGURES, MOST_FIGURES = 2, 6  # significant figures of a crossing: two, or more to stay between the neighbours


@dataclass(frozen=True)
class Crossing:
    """The n from which the challenger is faster than the other curve, up to `most`.

    least, most: the smallest and largest n measured for both; the result says nothing about n outside. n: the last n at
    which the medians cross; None if the challenger is not faster at `most`, or is faster at every n (`always`).
    between: the neighbouring n of that crossing at which at least one of the two was measured. low, high: the crossings
    of the most and the least favourable curves that the quartiles allow, None if these do not cross. times: number of
    crossings of the medians. sure: without a crossing, whether the quartiles rule out the opposite result. by: text
    that names the source of the interval.
    """

    least: int
    most: int
    n: float | None = None
    between: tuple[int, int] | None = None
    low: float | None = None
    high: float | None = None
    always: bool = False
    times: int = 0
    sure: bool = True
    by: str = "the quartiles"

    @property
    def rounded(self) -> int:
        """`n` to FIGURES figures, or to as many as keep it within `between`.

        A value rounded further might name an n at which the challenger was measured to be slower.
        """
        if self.n is None or self.between is None:
            raise ValueError("curves that do not cross have no n to round")
        lower, upper = self.between
        for figures in range(FIGURES, MOST_FIGURES + 1):
            rounded = round(float(f"{self.n:.{figures}g}"))
            if lower < rounded <= upper:
                return rounded
        return lower + 1


def crossing(slow: TimesByN, fast: TimesByN) -> Crossing:
    """Find where `fast` falls below `slow` for good, with straight lines between the points in log-log as in the plot.

    The curves are compared between the smallest and the largest n measured for both; where only one of them was
    measured in between, the other is interpolated. The interval comes from the most and least favourable curves that
    the quartiles allow. Raise ValueError unless at least two n are common to both.
    """
    common = sorted(set(slow) & set(fast))
    if len(common) < 2:
        raise ValueError(f"a crossing needs two n at which both were measured, not {len(common)}")
    least, most = common[0], common[-1]
    sizes = [n for n in sorted(set(slow) | set(fast)) if least <= n <= most]
    median, q1, q3 = (lambda s: s.median), (lambda s: s.q1), (lambda s: s.q3)
    gain = _gain(slow, fast, sizes, median, median)
    best, worst = _gain(slow, fast, sizes, q3, q1), _gain(slow, fast, sizes, q1, q3)
    (n, between), (low, _), (high, _) = (_last_crossing(sizes, one) for one in (gain, best, worst))
    return Crossing(
        least=least,
        most=most,
        n=n,
        between=between,
        low=low,
        high=high,
        always=bool((gain > 0).all()),
        times=int(np.count_nonzero(np.diff(gain > 0))),
        sure=bool((np.sign(best) == np.sign(worst)).all()),
    )


def with_rounds(found: Crossing, slow: Rounds, fast: Rounds) -> Crossing:
    """Return `found` with its interval widened to the crossings of most rounds, each of one sample at every n.

    A machine that is slower for seconds affects all samples of a round alike: quartiles at each n do not show how much
    the curves move against each other, and are then too narrow. TAIL of the rounds is left out at either end.
    """
    rounds = min((len(samples) for series in (slow, fast) for samples in series.values()), default=0)
    if found.n is None or rounds < LEAST_ROUNDS:
        return found
    places = sorted(_place(crossing(_round(slow, k), _round(fast, k))) for k in range(rounds))
    low, high = places[floor(TAIL * (rounds - 1))], places[ceil((1 - TAIL) * (rounds - 1))]
    return replace(
        found,
        low=min(low, found.low) if isfinite(low) and found.low is not None else None,
        high=max(high, found.high) if isfinite(high) and found.high is not None else None,
        by=f"the quartiles and {rounds} rounds",
    )


def _round(series: Rounds, number: int) -> TimesByN:
    """Return the sample of one round at every n."""
    return {n: Spread(samples[number], samples[number], samples[number], 1) for n, samples in series.items()}


def _place(found: Crossing) -> float:
    """Return the n at which a round crosses: -inf if always faster, inf if not faster at the largest n."""
    return found.n if found.n is not None else -inf if found.always else inf


def _gain(
    slow: TimesByN, fast: TimesByN, sizes: list[int], of_slow: Quantity, of_fast: Quantity
) -> NDArray[np.float64]:
    """Return log(slow / fast) at each n: positive where `fast` is faster."""
    return _logs(slow, sizes, of_slow) - _logs(fast, sizes, of_fast)


def _logs(series: TimesByN, sizes: list[int], quantity: Quantity) -> NDArray[np.float64]:
    """Return the log of the seconds at each n: measured, or interpolated linearly between the neighbouring n."""
    known = sorted(series)
    logs = [log(quantity(series[n])) for n in known]
    return np.interp(np.log(np.array(sizes, np.float64)), np.log(np.array(known, np.float64)), logs)


def _last_crossing(sizes: list[int], gain: NDArray[np.float64]) -> tuple[float | None, tuple[int, int] | None]:
    """Return the n at which the gain becomes positive for good, and its neighbours.

    Return (None, None) if the gain is positive from the start, or not positive at the end.
    """
    if gain[-1] <= 0 or (gain > 0).all():
        return None, None
    points = list(zip(sizes, gain, strict=True))
    (n0, g0), (n1, g1) = [pair for pair in pairwise(points) if pair[0][1] <= 0 < pair[1][1]][-1]
    return exp(log(n0) + (log(n1) - log(n0)) * -g0 / (g1 - g0)), (n0, n1)
