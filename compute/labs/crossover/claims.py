"""The conclusions that tutorials drew from their figures, as tests that measured curves pass or fail.

Each claim is stored with its workload. Its test looks up the times it needs in the curves of one machine and reports
the result; the verdict follows from the quartiles, never from a text.
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

from compute.measure.statistics import SpeedUp, Spread
from compute.ways import recorded
from compute.ways.catalogue import workload, workloads
from compute.ways.recorded import RecordedCurve
from compute.ways.workload import Claim, Workload

NEAR = 10**0.5  # a measured n may differ from the cited one by this factor
EQUAL = 1.05  # two ways are called equally fast up to this ratio
HALF = 2.0  # a ratio is confirmed if at least 1/HALF of it is reached: machines differ

ClaimVerdict = Literal["holds", "does not hold", "undecided", "not measured yet"]
Curves = Sequence[RecordedCurve]  # of one workload and machine


@dataclass(frozen=True)
class Found:
    """The result of a test. ours: a sentence on this project's measurement."""

    ours: str
    verdict: ClaimVerdict


@dataclass(frozen=True)
class MeasuredWay:
    """A way, and the settings it was measured with if they are not the defaults."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


class Judgement(ABC):
    """A test of a conclusion that was drawn from numbers of `dtype`."""

    dtype: str

    @abstractmethod
    def judge(self, curves: Curves) -> Found | None:
        """Return the verdict of these curves, or None if the required times were not measured."""


@dataclass(frozen=True)
class Ratio(Judgement):
    """`fast` is `factor` times as fast as `slow` at n: factor / HALF suffices; below 1, `fast` must be slower."""

    slow: MeasuredWay
    fast: MeasuredWay
    n: int
    dtype: str
    factor: float

    def judge(self, curves: Curves) -> Found | None:
        """Judge by the range of ratios that the quartiles allow, as most records store only quartiles."""
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
    """The ratio of `slow` to `fast` is due to the machine: half of it remains if both machines use the same method.

    fair: the method of `fast` on the machine of `slow`.
    """

    slow: MeasuredWay
    fast: MeasuredWay
    fair: MeasuredWay
    n: int
    dtype: str

    def judge(self, curves: Curves) -> Found | None:
        """Judge by the ratio that remains against the fair opponent."""
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
    """No way in `ways` takes more than `within` times as long as another, at the largest n common to all."""

    ways: tuple[MeasuredWay, ...]
    dtype: str
    within: float

    def judge(self, curves: Curves) -> Found | None:
        """Judge by the pair with the largest ratio."""
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
    """n elements took `seconds`: the implied bytes per second must not exceed HALF times the fastest way here."""

    n: int
    dtype: str
    seconds: float

    def judge(self, curves: Curves) -> Found | None:
        """Judge by the highest rate that any way reached at its largest n."""
        timed = [curve for curve in curves if curve.dtype == self.dtype and curve.series]
        if not any(curve.kind == "gpu" for curve in timed):
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
class Conclusion:
    """One claim and the measurements that test it.

    cited: the tutorial's figure and its source; ours: the measured result as text, "" if not measured; where: (machine,
    date), ("", "") if not measured; outdated: not judged, since some ways were recorded with older revisions.
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
    """Return the verdict on every claim of every workload. curves: those of assets/timings if None.

    The latest run that contains the required times counts. The verdicts on assets/timings are cached until one of its
    records changes, since a page requests them several times per second.
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
    """Return (n, speed-up of `fast`) at the common n closest to `n`, or at the largest common n for None.

    Return None if no n within a factor of NEAR was measured for both.
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
    """Return whether the interval from low to high is above `wanted`, below it, or contains it."""
    if low >= wanted:
        return "holds"
    return "does not hold" if high < wanted else "undecided"


def _times(ratio: SpeedUp) -> str:
    high = "" if ratio.high == inf else f" to {ratio.high:,.3g}"
    return f"{ratio.ratio:,.3g} times ({ratio.low:,.3g}{high})"
