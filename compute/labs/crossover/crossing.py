"""Where one curve of time against n goes below another, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from compute.timings import Spread

Series = Mapping[int, Spread]  # seconds by n


@dataclass(frozen=True)
class Crossing:
    """From which n on the challenger is faster than the other.

    least, most: the n that both were measured at. n: where the medians cross for the last time; None if the challenger
    is slower at `most`, or faster at every n (`always`). low, high: where the curves most and least in its favour that
    the quartiles allow cross, None if they do not. times: how often the medians cross. sure: whether the quartiles
    allow no other answer where there is no crossing.
    """

    least: int
    most: int
    n: float | None = None
    low: float | None = None
    high: float | None = None
    always: bool = False
    times: int = 0
    sure: bool = True

    @property
    def words(self) -> str:
        """The finding in a sentence."""
        if self.n is None:
            how = (
                "faster at every n" if self.always else "slower at the largest n" if self.times else "slower at every n"
            )
            doubt = "" if self.sure else " (within the quartiles it may be the other way)"
            return f"no crossover in this range: {how}, n = {self.least:,} to {self.most:,}{doubt}"
        low = f"{self.low:,.0f}" if self.low is not None else f"below {self.least:,}"
        high = f"{self.high:,.0f}" if self.high is not None else f"above {self.most:,}"
        often = f"; the curves cross {self.times} times, this is the last" if self.times > 1 else ""
        return f"faster from n = {self.n:,.0f} on ({low} to {high}){often}"


def crossing(slow: Series, fast: Series) -> Crossing:
    """Where `fast` goes below `slow` for good, on straight lines between the points in log-log.

    The interval is that of the most and the least favourable curves that the quartiles allow. ValueError unless two n
    are common to both.
    """
    sizes = sorted(set(slow) & set(fast))
    if len(sizes) < 2:
        raise ValueError(f"a crossing needs two n at which both were measured, not {len(sizes)}")
    gain = _gain(slow, fast, sizes, "median", "median")
    best, worst = _gain(slow, fast, sizes, "q3", "q1"), _gain(slow, fast, sizes, "q1", "q3")
    return Crossing(
        least=sizes[0],
        most=sizes[-1],
        n=_last_crossing(sizes, gain),
        low=_last_crossing(sizes, best),
        high=_last_crossing(sizes, worst),
        always=bool((gain > 0).all()),
        times=int(np.count_nonzero(np.diff(gain > 0))),
        sure=bool((np.sign(best) == np.sign(worst)).all()),
    )


def _gain(slow: Series, fast: Series, sizes: list[int], of_slow: str, of_fast: str) -> NDArray[np.float64]:
    """log(slow / fast) at each n: positive where `fast` is faster."""
    return np.array([log(getattr(slow[n], of_slow) / getattr(fast[n], of_fast)) for n in sizes])


def _last_crossing(sizes: list[int], gain: NDArray[np.float64]) -> float | None:
    """Where the gain becomes positive for good; None if it is so from the start, or not at the end."""
    if gain[-1] <= 0 or (gain > 0).all():
        return None
    points = list(zip(sizes, gain, strict=True))
    (n0, g0), (n1, g1) = [pair for pair in pairwise(points) if pair[0][1] <= 0 < pair[1][1]][-1]
    return exp(log(n0) + (log(n1) - log(n0)) * -g0 / (g1 - g0))
