"""Where one curve of time against n goes below another, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, exp, floor, inf, isfinite, log

import numpy as np
from numpy.typing import NDArray

from compute.measure.statistics import Spread

TimesByN = Mapping[int, Spread]  # seconds by n
Rounds = Mapping[int, Sequence[float]]  # seconds by n, a sample a round
Quantity = Callable[[Spread], float]  # one of a spread
TAIL, LEAST_ROUNDS = 0.1, 4  # part of the rounds that is left out at either end; fewer rounds say nothing
FIGURES, MOST_FIGURES = 2, 6  # significant figures of a crossing: none is known better; where two would say too much


@dataclass(frozen=True)
class Crossing:
    """From which n on the challenger is faster than the other, up to `most`.

    least, most: the smallest and the largest n that both were measured at; nothing is said of any n outside. n: where
    the medians cross for the last time; None if the challenger is not faster at `most`, or faster at every n
    (`always`). between: the n on both sides of that crossing at which one of the two at least was measured. low, high:
    where the curves most and least in its favour that the quartiles allow cross, None if they do not. times: how often
    the medians cross. sure: whether the quartiles allow no other answer where there is no crossing. by: what the
    interval is made of, in words.
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
        """n to FIGURES figures, or to as many as keep it between the two that it lies between: else the rounded one
        might name an n at which the challenger was measured and is slower.
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
    """Where `fast` goes below `slow` for good, on straight lines between the points in log-log, as they are drawn.

    Compared from the smallest to the largest n that both were measured at, and nowhere else; where one of them was not
    measured in between, its line stands in. The interval is that of the most and the least favourable curves that the
    quartiles allow. ValueError unless two n are common to both.
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
    """`found` with an interval that holds the crossings of most rounds, too, each of one sample at every n.

    A machine that is slower for seconds makes all samples of a round alike: quartiles at each n do not show by how much
    the curves move against each other, and are too narrow then. Left out at either end: TAIL of the rounds.
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
    """One sample at every n."""
    return {n: Spread(samples[number], samples[number], samples[number], 1) for n, samples in series.items()}


def _place(found: Crossing) -> float:
    """Where a round crosses: -inf if the challenger is faster at every n, inf if it is not at the largest."""
    return found.n if found.n is not None else -inf if found.always else inf


def _gain(
    slow: TimesByN, fast: TimesByN, sizes: list[int], of_slow: Quantity, of_fast: Quantity
) -> NDArray[np.float64]:
    """log(slow / fast) at each n: positive where `fast` is faster."""
    return _logs(slow, sizes, of_slow) - _logs(fast, sizes, of_fast)


def _logs(series: TimesByN, sizes: list[int], quantity: Quantity) -> NDArray[np.float64]:
    """log of the seconds at each n: as measured where it was, else on the straight line between its neighbours."""
    known = sorted(series)
    logs = [log(quantity(series[n])) for n in known]
    return np.interp(np.log(np.array(sizes, np.float64)), np.log(np.array(known, np.float64)), logs)


def _last_crossing(sizes: list[int], gain: NDArray[np.float64]) -> tuple[float | None, tuple[int, int] | None]:
    """Where the gain becomes positive for good, and the n around; (None, None) if it is so from the start, or not at
    the end.
    """
    if gain[-1] <= 0 or (gain > 0).all():
        return None, None
    points = list(zip(sizes, gain, strict=True))
    (n0, g0), (n1, g1) = [pair for pair in pairwise(points) if pair[0][1] <= 0 < pair[1][1]][-1]
    return exp(log(n0) + (log(n1) - log(n0)) * -g0 / (g1 - g0)), (n0, n1)
