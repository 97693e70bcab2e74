"""Conclusions from the times of a file's ways, with their intervals, and an estimate for an absent GPU.

The estimate uses roofs recorded on a GPU: no kernel can be faster than its bytes over the GPU's copy bandwidth, its
operations over the rate of multiply-adds, or a launch. They yield the n below which a GPU cannot pay, whatever the
kernel; a real one pays from a larger n.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite, nan
from time import perf_counter

import numpy as np

from compute.measure import records
from compute.measure.statistics import Spread
from compute.own.exercises import Exercise
from compute.ways import recorded
from compute.ways.crossing import crossing
from compute.ways.finding import FLAT, Finding, TimeCurve, commas, time_in_words
from compute.ways.roofline import FLOPS_OF_FMA, Roof

NEAR = 60.0  # percent of a roof from which it counts as the limit


@dataclass(frozen=True)
class AskedWork:
    """The minimum work for one n. moved: bytes; flops: operations, nan if the file does not count them."""

    moved: float
    flops: float = nan


def verdict_of(
    curves: Sequence[TimeCurve], finding: Finding | None, roofs: Mapping[str, Roof], work: Mapping[int, AskedWork]
) -> list[str]:
    """Return sentences: the winner and its n, the ratio, the cost below that n, the limit. roofs: by "cpu", "gpu"."""
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
    ends = f" ({ratio.low:.3g} to {ratio.high:.3g})" if ratio.bounded else ""
    return [f"At n = {commas(finding.n)} it is {times}{ends}."]


def _below(finding: Finding) -> list[str]:
    """Return the reason why small n do not pay, if the time of a call hardly depends on n."""
    found, series = finding.crossing, finding.fast.series
    if found is None or found.n is None:
        return [f"{said[0].upper()}{said[1:]}."] if (said := finding.reason_slower()) else []
    small = [n for n in sorted(series) if n < found.n]
    if len(small) < 2 or series[small[-1]].median > FLAT * series[small[0]].median:
        return []
    cost = "the launch" if finding.fast.kind == "gpu" else "the call itself"
    return [f"Below that {cost} is nearly all: {time_in_words(series[small[0]].median)} at n = {commas(small[0])}."]


def _limits(curves: Sequence[TimeCurve], roofs: Mapping[str, Roof], work: Mapping[int, AskedWork]) -> list[str]:
    """Return a sentence on the limit of each device's fastest way at its largest n."""
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
    """Return median and quartiles as text."""
    return f"{time_in_words(spread.median)} ({time_in_words(spread.q1)} to {time_in_words(spread.q3)})"


def limit(spread: Spread, roof: Roof, asked: AskedWork) -> str:
    """Return the percentages of the roofs that a time reaches, and the limit; the text begins with a comma."""
    memory = 100 * asked.moved / spread.median / roof.bandwidth
    arithmetic = 100 * asked.flops / spread.median / roof.flops if isfinite(roof.flops) else nan
    both = f", {memory:.0f} % of the copy roof"
    if isfinite(arithmetic):
        both += f" and {arithmetic:.0f} % of the multiply-add roof"
    if arithmetic >= NEAR:
        return f"{both}: bound by arithmetic, and near the limit of the device"
    if memory > 100.5:
        return f"{both}: {roof.why_above(memory, 0.0, asked.moved)}"
    if memory >= NEAR:
        return f"{both}: memory-bound, and only moving fewer bytes helps (fusing, a smaller type)"
    if isfinite(arithmetic):
        return f"{both}: far from both, so something else limits it (latency, few threads, a pattern of access)"
    return f"{both}; the file counts no operations (flops=), so nothing is said of arithmetic"


# -- the best possible times of an absent GPU

GPU = "cuda:0"
SMALLEST = "add_one"  # workload with the launch time as its fastest GPU call


@dataclass(frozen=True)
class RecordedRoofs:
    """Roofs of one GPU. bandwidth: bytes/s of copies; flops: operations/s by dtype; launch: s of one launch."""

    machine: str
    bandwidth: float
    flops: Mapping[str, float]
    launch: float

    def seconds(self, asked: AskedWork, dtype: str) -> float:
        """Return the minimum seconds for `asked`."""
        arithmetic = asked.flops / self.flops.get(dtype, inf) if isfinite(asked.flops) else 0.0
        return max(self.launch, asked.moved / self.bandwidth, arithmetic)


@cache
def recorded_roofs() -> RecordedRoofs | None:
    """Return the roofs of the recorded GPU; None if the records lack its bandwidth or a launch."""
    bandwidth, flops, machine = nan, dict[str, float](), ""
    for path in sorted(records.timings_folder().glob("*.json")):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            copy = found.get("copy_bandwidth", {}).get(GPU)
            if copy:
                bandwidth, machine = float(copy["q3"]), records.machine_name(found["machine"])
            for name, rate in found.get("fma", {}).items():
                if name.startswith(GPU):
                    flops[name.removeprefix(GPU).strip()] = FLOPS_OF_FMA * float(rate["q3"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    calls = [
        spread.median
        for curve in recorded.curves(SMALLEST)
        if curve.machine == machine and curve.kind == "gpu"
        for spread in curve.series.values()
    ]
    if not isfinite(bandwidth) or not calls:
        return None
    return RecordedRoofs(machine, bandwidth, flops, min(calls))


def estimate_of(
    curves: Sequence[TimeCurve], work: Mapping[int, AskedWork], dtype: str, roofs: RecordedRoofs | None
) -> list[str]:
    """Return one sentence that compares the GPU of `roofs` with the fastest timed way; all ways are on the CPU."""
    sizes = sorted(set(work) & {n for curve in curves for n in curve.series})
    if roofs is None:
        return []
    best = min((c for c in curves if sizes[-1] in c.series), key=lambda c: c.series[sizes[-1]].median, default=None)
    series = {n: best.series[n] for n in sizes if n in best.series} if best else {}
    if best is None or len(series) < 2:
        return []
    counted = "" if isfinite(work[sizes[-1]].flops) else ", operations not counted"
    return [f"Estimate, not measured: {_against(best.way.name, series, work, dtype, roofs)}{counted}."]


def _against(
    name: str, series: Mapping[int, Spread], work: Mapping[int, AskedWork], dtype: str, roofs: RecordedRoofs
) -> str:
    """Return the n below which the GPU cannot pay against these times, and its minimum time for the largest n."""
    least = {n: Spread(s, s, s, 1) for n in series for s in [roofs.seconds(work[n], dtype)]}
    found, n = crossing(series, least), max(series)
    where = (
        "could pay at every n" if found.always
        else f"cannot pay below n \N{ALMOST EQUAL TO} {commas(found.rounded)}" if found.n is not None
        else f"cannot pay up to n = {commas(n)}"
    )  # fmt: skip
    said = f"by the roofs recorded on {roofs.machine}, data on the GPU, it {where} against {name}"
    return f"{said}; n = {commas(n)} takes it {time_in_words(least[n].median)} at least"


# -- the reward of an exercise

REWARD_SIZES = (100, 300, 1000, 3000, 10_000, 100_000, 1_000_000, 10_000_000)
MOST_BYTES, TIMES = 64 * 2**20, 3  # bytes of inputs; calls, of which the fastest counts
DTYPE = "float32"  # of all exercises


def reward(of: Exercise, roofs: RecordedRoofs | None, clock: Callable[[], float] = perf_counter) -> str:
    """Return the gain of a right answer over NumPy, timed here, as text; "" without an estimate."""
    if roofs is None or of.on == "host":  # the roofs do not cover copies over the bus
        return ""
    series, work = dict[int, Spread](), dict[int, AskedWork]()
    for n in REWARD_SIZES:
        inputs = of.inputs(n, np.random.default_rng(n))
        given = sum(one.nbytes for one in inputs)
        if given > MOST_BYTES:
            break
        seconds, result = [], None
        for _ in range(TIMES):
            arrays = tuple(one.copy() for one in inputs)
            start = clock()
            result = of.reference(*arrays)
            seconds.append(clock() - start)
        work[n] = AskedWork(float(given + (given if result is None else result.nbytes)))
        series[n] = Spread(min(seconds), min(seconds), min(seconds), TIMES)
    said = _against("NumPy", series, work, DTYPE, roofs)
    return f"What for? An estimate, not measured: {said}; NumPy takes {time_in_words(series[max(series)].median)} here."
