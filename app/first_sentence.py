"""The sentence that a room reads first: how fast this computer is here, and what a GPU does with the same work.

The figures are those of the comparison; until there is one, that of the live picture, marked as a first estimate.
Where there is no GPU, recorded figures stand in for it: at the very values that run now if there are some, with the
factor between this computer and that GPU; else two recorded ones of the same machine, with the factor between them. A
factor is only given between figures of the same work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, nan

from app.explain import term
from app.markup import filled, plain
from app.readout_html import giga, percent_text, times
from compute.measure.records import BEFORE, Recorded, RecordedPair
from compute.measure.rules import ComparisonRules
from compute.measure.verdict import Standing, Verdict, reason_slower

ESTIMATE = "first estimate"
ALIKE = 1.02  # times as fast, up to which nobody calls it faster: "1.00× slower" was said
RECORDED = "an earlier run of fieldlab bench on that machine, kept with this program; not measured here."
UNRECORDED = "what held it back is not in that record"
AT_THE_ROOF = 85.0  # percent of a roof from which the roof is what holds it back
ROOFS = {"copy": "the rate at which it copies its memory", "fma": "the multiply-adds that it can do"}


@dataclass(frozen=True)
class Fastest:
    """The fastest right ways of this computer, None where there is none yet.

    live: the rate of the live picture; percent: what the GPU's way reaches of its device's roof, nan if not known.
    """

    cpu: Standing | None = None
    gpu: Standing | None = None
    live: float = nan
    percent: float = nan

    @classmethod
    def of(cls, verdict: Verdict | None, live: float, percent: Callable[[Standing], float]) -> Fastest:
        """Those that are known. percent(way): of its device's roof."""
        known = [one for one in verdict.standings if one.right and one.measurement] if verdict else []
        best = {
            kind: min((one for one in known if one.variant.kind == kind), key=seconds_of, default=None)
            for kind in ("cpu", "gpu")
        }
        return cls(best["cpu"], best["gpu"], live, percent(best["gpu"]) if best["gpu"] else nan)


def rate_of(standing: Standing) -> float:
    """Work a second of a way that was measured; nan else."""
    return standing.measurement.cells_per_second if standing.measurement else nan


def seconds_of(standing: Standing) -> float:
    """Seconds of a step, a picture or a curve of a way that was measured; nan else."""
    return standing.measurement.step.median if standing.measurement else nan


def sentence(fastest: Fastest, rules: ComparisonRules, pair: RecordedPair | None) -> str:
    """Return the sentence as HTML, "" before anything is known. Who is slower is told with the reason."""
    words = _own(fastest, rules) if fastest.gpu else _beside(fastest, rules, pair)
    return f"<p class='first'>{words}</p>" if words else ""


def _own(fastest: Fastest, rules: ComparisonRules) -> str:
    """This computer has a GPU."""
    gpu, cpu = fastest.gpu, fastest.cpu
    if gpu is None:
        return ""
    unit = rules.rate.unit
    words = filled("This computer's GPU: <b class='gpu'>{rate} {unit}</b>", rate=giga(rate_of(gpu)), unit=unit)
    if cpu is None:
        return f"{words}."
    words += filled(", its processor <b class='cpu'>{rate}</b>: ", rate=giga(rate_of(cpu)))
    ratio = seconds_of(cpu) / seconds_of(gpu)  # of rates it would be another: one may do more for the same curve
    same = "" if rules.rate.step == "step" else filled(" for the same {step}", step=rules.rate.step)
    return words + _factor(ratio, rules, fastest.percent, reason_slower(gpu, cpu), same) + _estimate(gpu, cpu)


def _beside(fastest: Fastest, rules: ComparisonRules, pair: RecordedPair | None) -> str:
    """This computer has none, or it is not measured yet."""
    here, unit = (rate_of(fastest.cpu), rules.rate.unit) if fastest.cpu else (fastest.live, rules.rate.unit)
    estimate = f" ({ESTIMATE})" if fastest.cpu is None or _few(fastest.cpu) else ""
    words = ""
    if isfinite(here):
        words = filled("This computer: <b class='cpu'>{rate} {unit}</b>", rate=giga(here), unit=unit) + f"{estimate}. "
    if pair is None:
        return words
    gpu, about = pair.gpu, f"{pair.gpu.machine}: {RECORDED} {pair.gpu.date}, {pair.words}"
    name = term(filled("{machine}", machine=gpu.machine), plain(about), "machine")
    rate = filled("<b class='gpu recorded'>{rate}</b>", rate=giga(gpu.rate))
    if pair.same:
        reason = _recorded_reason(gpu, rules)
        factor = _factor(gpu.rate / here, rules, gpu.percent, reason) if isfinite(here) else f"{unit}."
        return f"{words}{name}, recorded: {rate}{', ' if isfinite(here) else ' '}{factor}"
    where = filled(", recorded on {words}", words=pair.words)
    if pair.cpu is None:
        beside = f" The processor beside it was {BEFORE}." if pair.outdated else ""
        return f"{words}{name}{where}: {rate} {unit}.{beside}"
    beside = filled(", the processor beside it {rate}: ", rate=giga(pair.cpu.rate))
    factor = _factor(gpu.rate / pair.cpu.rate, rules, gpu.percent, _recorded_reason(gpu, rules))
    return f"{words}{name}{where}: {rate}{filled(' {unit}', unit=unit)}{beside}{factor}"


def _recorded_reason(gpu: Recorded, rules: ComparisonRules) -> str:
    """Why a recorded GPU is slower, as far as its record tells."""
    if not isfinite(gpu.percent):
        return "why is not in that record"
    reached = f"it reached {percent_text(gpu.percent)} of {ROOFS[rules.rate.roof]}"
    return f"{reached}, which is its limit" if gpu.percent >= AT_THE_ROOF else f"{reached}, and {UNRECORDED}"


def _factor(ratio: float, rules: ComparisonRules, percent: float, why: str, same: str = "") -> str:
    """The GPU's words. percent: of its roof; why: it is slower, where it is; same: of what, as HTML."""
    if 1 / ALIKE < ratio < ALIKE:
        return f"<b>about as fast</b>{same}."
    if ratio < 1:
        return filled("<b>{ratio}× slower</b>: {why}.", ratio=times(1 / ratio), why=why)
    return filled("<b>{ratio}× as fast</b>", ratio=times(ratio)) + same + filled("{why}.", why=_why(rules, percent))


def _why(rules: ComparisonRules, percent: float) -> str:
    """The lab's reason where the GPU does what that needs; that it is not the reason, where it does much less."""
    if not rules.because or (rules.because_from and not isfinite(percent)):
        return ""
    if percent < rules.because_from:
        return f"; why was not measured: it reaches only {percent_text(percent)} of {ROOFS[rules.rate.roof]}"
    return f", because {rules.because}"


def _estimate(*standings: Standing) -> str:
    return f" ({ESTIMATE})" if any(map(_few, standings)) else ""


def _few(standing: Standing) -> bool:
    """Whether a single timing is all there is."""
    return standing.measurement is not None and standing.measurement.step.n < 2
