"""What the times of a file's ways say, in words with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan

from compute.labs.crossover.finding import Finding, TimeCurve, commas
from compute.labs.crossover.results import time_in_words
from compute.labs.crossover.roofline import Roof
from compute.measure.statistics import Spread

NEAR = 60.0  # percent of a roof from which on it is what limits
FLAT = 1.5  # as finding.FLAT


@dataclass(frozen=True)
class AskedWork:
    """What n asks for at least: bytes moved, and operations, nan where the file does not count them."""

    moved: float
    flops: float = nan


def verdict_of(
    curves: Sequence[TimeCurve], finding: Finding | None, roofs: Mapping[str, Roof], work: Mapping[int, AskedWork]
) -> list[str]:
    """Sentences: who wins from which n on, by how much, what it costs below, what limits it. roofs: by "cpu", "gpu"."""
    if not curves:
        return ["No times were taken."]
    said = []
    if finding is not None and finding.n:
        doubt = finding.uncertainty()
        said.append(f"{finding.sentence}{f' ({doubt})' if doubt else ''}.")
        said += _ratio(finding)
        said += _below(finding)
    elif len(curves) == 1:
        said.append(f"Only {curves[0].way.name} was timed: nothing to compare it with.")
    said += _limits(curves, roofs, work)
    noisy = [curve.way.name for curve in curves if len(curve.noisy) > len(curve.series) / 2]
    if noisy:
        said.append(f"The times of {', '.join(noisy)} scatter by more than 10 %: run it again on a quiet machine.")
    return said


def _ratio(finding: Finding) -> list[str]:
    ratio = finding.ratio
    if ratio is None:
        return []
    times = f"{ratio.ratio:.2g} times as fast" if ratio.ratio < 100 else f"{ratio.ratio:.0f} times as fast"
    return [f"At n = {commas(finding.n)} it is {times} ({ratio.low:.3g} to {ratio.high:.3g})."]


def _below(finding: Finding) -> list[str]:
    """Why small n do not pay, where a call takes nearly the same whatever n is."""
    found, series = finding.crossing, finding.fast.series
    if found is None or found.n is None:
        return [f"{said[0].upper()}{said[1:]}."] if (said := finding.reason_slower()) else []
    small = [n for n in sorted(series) if n < found.n]
    if len(small) < 2 or series[small[-1]].median > FLAT * series[small[0]].median:
        return []
    cost = "the launch" if finding.fast.kind == "gpu" else "the call itself"
    return [f"Below that {cost} is nearly all: {time_in_words(series[small[0]].median)} at n = {commas(small[0])}."]


def _limits(curves: Sequence[TimeCurve], roofs: Mapping[str, Roof], work: Mapping[int, AskedWork]) -> list[str]:
    """What limits the fastest way of each device at its largest n."""
    said = []
    for kind in ("cpu", "gpu"):
        mine = [curve for curve in curves if curve.kind == kind and curve.series]
        if not mine:
            continue
        n = max(max(curve.series) for curve in mine)
        best = min((c for c in mine if n in c.series), key=lambda c: c.series[n].median)
        spread = best.series[n]
        took = f"At n = {commas(n)} {best.way.name} takes {in_words(spread)}"
        roof = roofs.get(kind)
        said.append(f"{took}{limit(spread, roof, work[n]) if roof and n in work else ''}.")
    return said


def in_words(spread: Spread) -> str:
    """Median and quartiles."""
    return f"{time_in_words(spread.median)} ({time_in_words(spread.q1)} to {time_in_words(spread.q3)})"


def limit(spread: Spread, roof: Roof, asked: AskedWork) -> str:
    """Of which roof that is how much, and what follows; begins with a comma."""
    memory = 100 * asked.moved / spread.median / roof.bandwidth
    arithmetic = 100 * asked.flops / spread.median / roof.flops if isfinite(roof.flops) else nan
    both = f", {memory:.0f} % of the copy roof"
    if isfinite(arithmetic):
        both += f" and {arithmetic:.0f} % of the multiply-add roof"
    if arithmetic >= NEAR:
        return f"{both}: bound by arithmetic, and near what the device can do"
    if memory > 100.5:
        return f"{both}: {roof.why_above(memory, 0.0, asked.moved)}"
    if memory >= NEAR:
        return f"{both}: memory-bound, and only moving fewer bytes helps (fusing, a smaller type)"
    if isfinite(arithmetic):
        return f"{both}: far from both, so something else limits it (latency, few threads, a pattern of access)"
    return f"{both}; the file counts no operations (flops=), so nothing is said of arithmetic"
