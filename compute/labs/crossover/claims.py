"""What tutorials concluded from their figures, as tests that measured curves pass or fail.

A claim stands in its workload. Its test looks for the times it needs in the curves of one machine
and says what it found; the verdict follows from the quartiles, never from a text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations
from math import inf, log
from pathlib import Path
from typing import Any, Literal

from compute.labs.crossover import recorded
from compute.labs.crossover.catalogue import workload, workloads
from compute.labs.crossover.recorded import RecordedCurve
from compute.labs.crossover.workload import Workload
from compute.measure.statistics import SpeedUp, Spread

NEAR = 10**0.5  # a measured n may be so many times larger or smaller than the one cited
EQUAL = 1.05  # ratio up to which two ways are called equally fast
HALF = 2.0  # a ratio holds if at least half of it is reached: machines differ

ClaimVerdict = Literal["holds", "does not hold", "undecided", "not measured yet"]
Curves = Sequence[RecordedCurve]  # of one workload and machine


@dataclass(frozen=True)
class Found:
    """What the curves say. ours: in words."""

    ours: str
    verdict: ClaimVerdict


@dataclass(frozen=True)
class MeasuredWay:
    """A way and the settings it was measured with, where these are not the defaults."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


class Judgement(ABC):
    """Whether a conclusion holds, which was drawn from numbers of `dtype`."""

    dtype: str

    @abstractmethod
    def judge(self, curves: Curves) -> Found | None:
        """What these curves say; None if what is needed was not measured."""


@dataclass(frozen=True)
class Ratio(Judgement):
    """`fast` is `factor` times as fast as `slow` at n: half of that is asked for; below 1, that it is slower."""

    slow: MeasuredWay
    fast: MeasuredWay
    n: int
    dtype: str
    factor: float

    def judge(self, curves: Curves) -> Found | None:
        """Judge by the range of ratios that the quartiles allow: most records keep nothing else."""
        found = speed_up(curves, self.slow, self.fast, self.n, self.dtype)
        if found is None:
            return None
        n, ratio = found
        ours = f"{_times(ratio)} at n = {n:,}, {self.dtype}"
        if self.factor < 1:
            return Found(ours, _verdict(-ratio.high, -ratio.low, -1.0))
        return Found(ours, _verdict(ratio.low, ratio.high, max(1.0, self.factor / HALF)))


@dataclass(frozen=True)
class LikeForLike(Judgement):
    """The ratio of `slow` to `fast` is the machine's merit: the same method on the other machine leaves half of it.

    fair: the method of `fast` where `slow` runs.
    """

    slow: MeasuredWay
    fast: MeasuredWay
    fair: MeasuredWay
    n: int
    dtype: str

    def judge(self, curves: Curves) -> Found | None:
        """By what remains of the ratio against the fair opponent."""
        whole = speed_up(curves, self.slow, self.fast, self.n, self.dtype)
        left = speed_up(curves, self.fair, self.fast, self.n, self.dtype)
        if whole is None or left is None or whole[0] != left[0]:
            return None
        n, all_of_it, remains = whole[0], whole[1], left[1]
        ours = f"{all_of_it.ratio:,.3g} times, of which {_times(remains)} remain against the same method, at n = {n:,}"
        ours = f"{ours}, {self.dtype}"
        wanted = all_of_it.ratio / HALF
        return Found(ours, _verdict(remains.low, remains.high, wanted))


@dataclass(frozen=True)
class Alike(Judgement):
    """No way of `ways` takes more than `within` times what another takes, at the largest n that all have."""

    ways: tuple[MeasuredWay, ...]
    dtype: str
    within: float

    def judge(self, curves: Curves) -> Found | None:
        """By the worst pair."""
        pairs = [speed_up(curves, a, b, None, self.dtype) for a, b in permutations(self.ways, 2)]
        known = [pair for pair in pairs if pair is not None]
        if len(known) < len(pairs) or len({n for n, _ in known}) > 1:
            return None
        n, worst = max(known, key=lambda pair: pair[1].ratio)
        apart = f"largest ratio of two ways {worst.ratio:.3g} ({worst.low:.3g} to {worst.high:.3g})"
        ours = f"{'equally fast' if worst.ratio < EQUAL else apart}, n = {n:,}"
        return Found(ours, _verdict(-worst.high, -worst.low, -self.within))


@dataclass(frozen=True)
class Plausible(Judgement):
    """n elements took `seconds`: no machine moves many times more bytes a second than the fastest way here."""

    n: int
    dtype: str
    seconds: float

    def judge(self, curves: Curves) -> Found | None:
        """By the highest rate that any way reached at its largest n."""
        timed = [curve for curve in curves if curve.dtype == self.dtype and curve.series]
        if not any(curve.way.startswith("gpu_") for curve in timed):
            return None
        rates = []
        for curve in timed:
            n = max(curve.series)
            case = workload(curve.workload).case(n, curve.dtype, **curve.settings)
            rates.append((case.work().moved / curve.series[n].median, curve.label))
        best, label = max(rates)
        claimed = workload(curves[0].workload).work(self.n, self.dtype).moved / self.seconds
        ours = f"that would be {claimed / 1e12:.3g} TB/s; the fastest here, {label}, moves {best / 1e12:.3g} TB/s"
        return Found(ours, "holds" if claimed <= HALF * best else "does not hold")


@dataclass(frozen=True)
class Claim:
    """What a tutorial concluded, from what, and how to see whether it holds."""

    claim: str
    cited: str
    test: Judgement


@dataclass(frozen=True)
class Conclusion:
    """One claim beside what was measured.

    cited: the tutorial's figure and its source; ours: in words, "" if not measured; where: (machine, date), ("", "") if
    not measured; outdated: it was not judged because some of the ways were recorded before their kernels.
    """

    workload: str
    title: str
    claim: str
    cited: str
    ours: str
    verdict: ClaimVerdict
    where: tuple[str, str]
    outdated: bool = False


def conclusions(curves: Iterable[RecordedCurve] | None = None) -> list[Conclusion]:
    """Every claim of every workload; curves: those of assets/timings if None. The newest that say something count.

    Those of assets/timings are judged again once a record there has changed: a page asks several times a second.
    """
    return list(_of_records(recorded.files()) if curves is None else _judged(curves))


@lru_cache(maxsize=1)
def _of_records(_files: tuple[tuple[Path, int], ...]) -> tuple[Conclusion, ...]:
    return _judged(recorded.library())


def _judged(curves: Iterable[RecordedCurve]) -> tuple[Conclusion, ...]:
    known = list(curves)
    return tuple(_conclusion(w, claim, known) for w in workloads() for claim in w.claims)


def _conclusion(of: Workload, claim: Claim, known: list[RecordedCurve]) -> Conclusion:
    mine = [curve for curve in known if curve.workload == of.name]
    for machine, date, run in dict.fromkeys((curve.machine, curve.date, curve.run) for curve in mine):
        together = [curve for curve in mine if (curve.machine, curve.date, curve.run) == (machine, date, run)]
        if found := claim.test.judge(together):
            return Conclusion(of.name, of.title, claim.claim, claim.cited, found.ours, found.verdict, (machine, date))
    older = any(curve.outdated for curve in mine)
    return Conclusion(of.name, of.title, claim.claim, claim.cited, "", "not measured yet", ("", ""), older)


def speed_up(
    curves: Curves, slow: MeasuredWay, fast: MeasuredWay, n: int | None, dtype: str
) -> tuple[int, SpeedUp] | None:
    """(n, how many times faster `fast` is) at the n nearest to the one asked for, the largest for None.

    None if there is no n within NEAR at which both were measured.
    """
    of_slow, of_fast = _series(curves, slow, dtype), _series(curves, fast, dtype)
    common = set(of_slow) & set(of_fast)
    if not common:
        return None
    at = max(common) if n is None else min(common, key=lambda size: abs(log(size / n)))
    if n is not None and not 1 / NEAR <= at / n <= NEAR:
        return None
    return at, SpeedUp.between_quartiles(of_slow[at], of_fast[at])


def _series(curves: Curves, way: MeasuredWay, dtype: str) -> Mapping[int, Spread]:
    for curve in curves:
        chosen = workload(curve.workload).choices()[0] | dict(way.settings)
        if (curve.way, curve.dtype, dict(curve.settings), curve.evict) == (way.name, dtype, chosen, False):
            return curve.series
    return {}


def _verdict(low: float, high: float, wanted: float) -> ClaimVerdict:
    """Whether the interval from low to high lies above `wanted`, below it, or around it."""
    if low >= wanted:
        return "holds"
    return "does not hold" if high < wanted else "undecided"


def _times(ratio: SpeedUp) -> str:
    high = "" if ratio.high == inf else f" to {ratio.high:,.3g}"
    return f"{ratio.ratio:,.3g} times ({ratio.low:,.3g}{high})"
