"""The first sentence of the readout: how fast this computer is, and how fast a GPU is at the same work.

The figures come from the comparison. Before the first comparison the rate of the live picture appears without a factor,
marked as a first estimate. Without a GPU the sentence compares a recorded GPU: with this computer, if grid, precision
and method agree; otherwise with the CPU of the same record, naming the recorded work. A factor is a ratio of medians,
followed by its confidence interval; compute.measure.reasons decides whether a reason follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, nan

from app.explain import term
from app.markup import filled, plain
from app.readout_html import giga, percent_text, times
from compute.measure.rates import spaced
from compute.measure.reasons import UNKNOWN, RoofShare, why_faster
from compute.measure.records import Recorded, RecordedPair
from compute.measure.rules import ComparisonRules
from compute.measure.statistics import SpeedUp
from compute.measure.verdict import Standing, Verdict, reason_slower

ESTIMATE = "first estimate"
ALIKE = 1.02  # ratio below which two ways are called equally fast
RECORDED = "an earlier run of fieldlab bench on that machine, kept with this program; not measured here."
UNRECORDED = "what held it back is not in that record"
AT_THE_ROOF = 85.0  # percent of a roof from which the roof is what holds it back
ROOFS = {"copy": "the rate at which it copies its memory", "fma": "the multiply-adds that it can do"}


@dataclass(frozen=True)
class Fastest:
    """The fastest right ways of this computer; None before the first one is measured.

    live: rate of the live picture; gpu_share, cpu_share: shares of their devices' roofs; held: bytes that the work
    reads repeatedly, nan if unknown.
    """

    cpu: Standing | None = None
    gpu: Standing | None = None
    live: float = nan
    gpu_share: RoofShare = UNKNOWN
    cpu_share: RoofShare = UNKNOWN
    held: float = nan

    @classmethod
    def of(
        cls, verdict: Verdict | None, live: float, share: Callable[[Standing], RoofShare], held: float = nan
    ) -> Fastest:
        """Return the fastest ways of `verdict`. share(way): its share of its device's roof."""
        known = [one for one in verdict.standings if one.right and one.measurement] if verdict else []
        cpu, gpu = (
            min((one for one in known if one.variant.kind == kind), key=seconds_of, default=None)
            for kind in ("cpu", "gpu")
        )
        return cls(cpu, gpu, live, share(gpu) if gpu else UNKNOWN, share(cpu) if cpu else UNKNOWN, held)


def rate_of(standing: Standing) -> float:
    """Return the work a second of a way that was measured; nan else."""
    return standing.measurement.cells_per_second if standing.measurement else nan


def seconds_of(standing: Standing) -> float:
    """Return the seconds of a step, a picture or a curve of a way that was measured; nan else."""
    return standing.measurement.step.median if standing.measurement else nan


def sentence(fastest: Fastest, rules: ComparisonRules, pair: RecordedPair | None) -> str:
    """Return the sentence as HTML, "" before the first figure."""
    words = _own(fastest, rules) if fastest.gpu else _beside(fastest, rules, pair)
    return f"<p class='first'>{words}</p>" if words else ""


def _own(fastest: Fastest, rules: ComparisonRules) -> str:
    """This computer has a GPU."""
    gpu, cpu = fastest.gpu, fastest.cpu
    if gpu is None or gpu.measurement is None:
        return ""
    unit = rules.rate.unit
    words = filled("This computer's GPU: <b class='gpu'>{rate} {unit}</b>", rate=giga(rate_of(gpu)), unit=unit)
    if cpu is None or cpu.measurement is None:
        return f"{words}."
    words += filled(", its processor <b class='cpu'>{rate}</b>: ", rate=giga(rate_of(cpu)))
    speed = SpeedUp.of(cpu.measurement.step, gpu.measurement.step)  # of times: one way may do more for the same curve
    same = "" if rules.rate.step == "step" else filled(" for the same {step}", step=rules.rate.step)
    why = why_faster(rules.rate.roof, fastest.gpu_share, fastest.cpu_share, fastest.held)
    return words + _factor(speed, why, reason_slower(gpu, cpu), same) + _estimate(gpu, cpu)


def _beside(fastest: Fastest, rules: ComparisonRules, pair: RecordedPair | None) -> str:
    """This computer has none, or it is not measured yet."""
    words, unlike = _here(fastest, rules), _unlike(fastest, rules, pair)
    words += ". " if words else ""
    if pair is None:
        return words
    gpu, about, unit = pair.gpu, f"{pair.gpu.machine}: {RECORDED} {pair.gpu.date}, {pair.words}", rules.rate.unit
    name = term(filled("{machine}", machine=gpu.machine), plain(about), "machine")
    rate = filled("<b class='gpu recorded'>{rate}</b>", rate=giga(gpu.rate))
    cpu = fastest.cpu
    if pair.same and not unlike:
        if cpu is None or cpu.measurement is None:
            return f"{words}{name}, recorded: {rate} {plain(unit)}."
        speed = SpeedUp.of(cpu.measurement.step, gpu.times)
        why = why_faster(rules.rate.roof, gpu.share, fastest.cpu_share, pair.held)
        return f"{words}{name}, recorded: {rate}, {_factor(speed, why, _recorded_reason(gpu, rules))}"
    different = words and not pair.same
    where = filled(f", {'not comparable: ' if different else ''}recorded with {{words}}: ", words=pair.words)
    if pair.same:
        return f"{words}{name}, not comparable: recorded with {plain(unlike)}: {rate} {plain(unit)}."
    if pair.cpu is None:
        alone = filled("; {why}", why=pair.unpaired) if pair.unpaired else ""
        return f"{words}{name}{where}{rate} {plain(unit)}{alone}."
    beside = filled(" {unit}, the processor beside it {rate}: ", unit=unit, rate=giga(pair.cpu.rate))
    why = why_faster(rules.rate.roof, gpu.share, pair.cpu.share, pair.held)
    factor = _factor(SpeedUp.of(pair.cpu.times, gpu.times), why, _recorded_reason(gpu, rules))
    return f"{words}{name}{where}{rate}{beside}{factor}"


def _here(fastest: Fastest, rules: ComparisonRules) -> str:
    """Format this computer's rate with its confidence interval, as HTML without a full stop; "" if unknown."""
    cpu, unit = fastest.cpu, rules.rate.unit
    rate = rate_of(cpu) if cpu else fastest.live
    if not isfinite(rate):
        return ""
    words = filled("This computer: <b class='cpu'>{rate} {unit}</b>", rate=giga(rate), unit=unit)
    if cpu is None or cpu.measurement is None or _few(cpu):
        return f"{words} ({ESTIMATE})"
    step, cells = cpu.measurement.step, cpu.measurement.cells
    ends = f"{giga(cells / step.high)}–{giga(cells / step.low)}" if step.bounded and step.high > step.low else ""
    said = ", ".join(filter(None, (ends, "noisy" if step.noisy else "")))
    return f"{words} ({said})" if said else words


def _unlike(fastest: Fastest, rules: ComparisonRules, pair: RecordedPair | None) -> str:
    """Say how the recorded method differs from this computer's; "" if both agree or one is unknown."""
    cpu = fastest.cpu
    if pair is None or not pair.method or cpu is None or not cpu.timings:
        return ""
    here = rules.method(cpu.variant.backend, cpu.timings[-1].variant)
    return "" if here == pair.method else f"{pair.method}, here {here}"


def _recorded_reason(gpu: Recorded, rules: ComparisonRules) -> str:
    """Why a recorded GPU is slower, as far as its record tells."""
    if not isfinite(gpu.percent):
        return "why is not in that record"
    reached = f"it reached {percent_text(gpu.percent)} of {ROOFS[rules.rate.roof]}"
    return f"{reached}, which is its limit" if gpu.percent >= AT_THE_ROOF else f"{reached}, and {UNRECORDED}"


def _factor(speed: SpeedUp, faster: str, slower: str, same: str = "") -> str:
    """Return the factor with its interval, as HTML. faster, slower: why it is so; same: at the same what, as HTML."""
    if speed.undecided or 1 / ALIKE < speed.ratio < ALIKE:
        ends = f" ({times(speed.low)} to {times(speed.high)}×)" if times(speed.low) != times(speed.high) else ""
        return f"about as fast{same}{ends}."
    quick = speed.ratio > 1
    ratio, low, high = speed.ratio, speed.low, speed.high
    if not quick:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    number = times(ratio) if speed.bounded else f"about {approximate(ratio)}"
    words = filled("<b>{number}× {how}</b>", number=number, how="as fast" if quick else "slower") + same
    ends = f"{times(low)} to {times(high)}" if times(low) != times(high) else ""
    if ends and speed.bounded:
        words += f" ({ends}{', noisy' if speed.noisy else ''})"
    return words + filled("{why}.", why=faster if quick else f": {slower}")


def approximate(ratio: float) -> str:
    """Return a ratio with two figures."""
    rounded = float(f"{ratio:.2g}")
    return spaced(rounded) if rounded >= 10 else f"{rounded:.1f}"


def _estimate(*standings: Standing) -> str:
    return f" ({ESTIMATE})" if any(map(_few, standings)) else ""


def _few(standing: Standing) -> bool:
    """Whether a single timing is all there is."""
    return standing.measurement is not None and standing.measurement.step.n < 2
