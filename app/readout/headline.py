"""The headline of the readout: one factor, the names of both sides, and one sentence with the rates.

Both sides of the factor do the same work. Of these comparisons, the first possible one is shown:

1. this computer's GPU over its CPU;
2. a recorded GPU over this computer, if the recorded work is the work on the screen;
3. a recorded GPU over the CPU of the same record, naming the recorded work;
4. the fastest CPU backend of this computer over another one.

The factor is a ratio of medians. It is bold if its confidence interval excludes 1; without an interval it is a rounded
estimate in normal weight. compute.measure.reasons decides whether a reason follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isclose, isfinite, nan

from app.page.explain import term
from app.page.markup import filled, plain
from app.readout.readout_html import INTERVAL, allowed, compared, factor, giga, named, percent_text, undecided
from compute.measure.rates import spaced
from compute.measure.reasons import UNKNOWN, RoofShare, why_faster
from compute.measure.records import Recorded, RecordedPair
from compute.measure.rules import ComparisonRules
from compute.measure.statistics import SpeedUp
from compute.measure.verdict import Standing, Verdict, reason_slower, why_slower

ESTIMATE = "first estimate"
SAME_WORK = 0.01  # largest relative difference of the work of two timings of the same picture
RECORDED = "recorded earlier with fieldlab bench on that machine, not measured here."
UNRECORDED = "the record does not state its limit"
AT_THE_ROOF = 85.0  # percent of a roof from which the roof is named as the limit
ROOFS = {"copy": "its copy bandwidth", "fma": "its peak multiply-add rate"}


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


@dataclass(frozen=True)
class Headline:
    """number: the factor and both names; sentence: the rates, the interval and the reason; both as HTML."""

    number: str
    sentence: str


@dataclass(frozen=True)
class Compared:
    """One comparison.

    fast, slow: names of both sides, as text; kind: "cpu" or "gpu", which selects the colour of the factor; recorded:
    whether one of the sides is recorded; rates: the rates of both sides, as HTML; faster, slower: the reason for either
    result, as the end of a sentence; estimate: whether more samples follow.
    """

    speed: SpeedUp
    fast: str
    slow: str
    kind: str
    rates: str
    recorded: bool = False
    faster: str = ""
    slower: str = ""
    estimate: bool = False


def headline(
    verdict: Verdict | None, fastest: Fastest, rules: ComparisonRules, pair: RecordedPair | None, waking: float = nan
) -> Headline:
    """Return the headline. pair: recorded times; waking: seconds that starting all threads takes, nan if unknown."""
    if verdict is not None and verdict.state == "disagree":
        said = verdict.agreement.said if verdict.agreement else "not compared"
        words = filled("<p class='first'>{title}: {said}.</p>", title=verdict.title, said=said)
        return Headline(_words("Results disagree", bad=True), words)
    found = (
        _own(fastest, rules, verdict)
        or _recorded_over_here(fastest, rules, pair)
        or _recorded_pair(fastest, rules, pair)
    )
    if found is not None:
        return Headline(_number(found), _sentence(found))
    recorded = _recorded_rate(pair, rules, _unlike(fastest, rules, pair))
    if (here := _here(verdict, rules, waking)) is not None:
        return Headline(_number(here), _sentence(here, recorded))
    known = " ".join(filter(None, (_this_computer(fastest, rules), recorded)))
    sentence = f"<p class='first'>{known}</p>" if known else ""
    if verdict is None:
        return Headline(_words("Starting"), sentence)
    words = "No comparison" if verdict.state == "unavailable" else "Measuring"
    return Headline(_words(words, verdict.title), sentence)


def recorded_headline(rules: ComparisonRules, pair: RecordedPair | None, machine: str) -> Headline:
    """Return the headline of a page that shows only the records of `machine`, with their date."""
    if pair is None:
        sentence = filled("<p class='first'>This lab has no record of {machine}.</p>", machine=machine)
        return Headline(_words("No record"), sentence)
    only = filled(
        "<p class='only'>Recorded numbers only: {machine}, {date}. Nothing is measured now.</p>",
        machine=machine, date=pair.gpu.date,
    )  # fmt: skip
    if (found := _both_recorded(rules, pair)) is not None:
        return Headline(_number(found), _sentence(found) + only)
    rate = f"<b class='gpu recorded'>{giga(pair.gpu.rate)}</b> {rules.rate.spelled}"
    words = filled("Recorded with {words}", words=pair.words)
    number = f"<b>{giga(pair.gpu.rate)}</b><span>{rules.rate.spelled} (recorded)</span>"
    unpaired = f"; {filled('{why}', why=pair.unpaired)}" if pair.unpaired else ""
    sentence = f"<p class='first'>{words}: {_machine(pair)} {rate}{unpaired}.</p>"
    return Headline(f"<div class='headline gpu recorded'>{number}</div>", sentence + only)


def rate_of(standing: Standing) -> float:
    """Return the work per second of a measured way, otherwise nan."""
    return standing.measurement.cells_per_second if standing.measurement else nan


def seconds_of(standing: Standing) -> float:
    """Return the seconds of a step, a picture or a curve of a measured way, otherwise nan."""
    return standing.measurement.step.median if standing.measurement else nan


# -- the comparisons


def _own(fastest: Fastest, rules: ComparisonRules, verdict: Verdict | None) -> Compared | None:
    """Compare this computer's GPU with its CPU."""
    gpu, cpu = fastest.gpu, fastest.cpu
    if gpu is None or gpu.measurement is None or cpu is None or cpu.measurement is None:
        return None
    fast, slow, unit = giga(rate_of(gpu)), giga(rate_of(cpu)), rules.rate.spelled
    rates = f"This computer's GPU: <b class='gpu'>{fast}</b> {unit}, its CPU: <b class='cpu'>{slow}</b>"
    if rules.rate.step != "step":  # one way may do more work for the same result
        rates += f"; time of one {rules.rate.step}"
    return Compared(
        SpeedUp.of(cpu.measurement.step, gpu.measurement.step), gpu.variant.label, named(cpu), "gpu", rates,
        faster=why_faster(rules.rate.roof, fastest.gpu_share, fastest.cpu_share, fastest.held),
        slower=f"; {reason_slower(gpu, cpu)}",
        estimate=_few(gpu) or _few(cpu) or (verdict is not None and verdict.early),
    )  # fmt: skip


def _recorded_over_here(fastest: Fastest, rules: ComparisonRules, pair: RecordedPair | None) -> Compared | None:
    """Compare a recorded GPU with this computer's CPU, if both did the work that is on the screen."""
    cpu = fastest.cpu
    if pair is None or not pair.same or cpu is None or cpu.measurement is None or _unlike(fastest, rules, pair):
        return None
    gpu, unit = pair.gpu, rules.rate.spelled
    rates = f"{_machine(pair)}, recorded: <b class='gpu recorded'>{giga(gpu.rate)}</b> {unit}. "
    rates += f"This computer: <b class='cpu'>{giga(rate_of(cpu))}</b>{_spread(cpu)}"
    return Compared(
        SpeedUp.of(cpu.measurement.step, gpu.times), f"{gpu.machine} (recorded)", "this computer", "gpu",
        rates, recorded=True, faster=why_faster(rules.rate.roof, gpu.share, fastest.cpu_share, pair.held),
        slower=f"; {_recorded_reason(gpu, rules)}", estimate=_few(cpu),
    )  # fmt: skip


def _recorded_pair(fastest: Fastest, rules: ComparisonRules, pair: RecordedPair | None) -> Compared | None:
    """Compare a recorded GPU with the CPU of the same record, if the recorded work is not the work on the screen."""
    if pair is None or (pair.same and not _unlike(fastest, rules, pair)):
        return None
    return _both_recorded(rules, pair)


def _both_recorded(rules: ComparisonRules, pair: RecordedPair) -> Compared | None:
    """Compare a recorded GPU with the CPU of the same record, if it has one."""
    if pair.cpu is None:
        return None
    gpu, cpu, unit = pair.gpu, pair.cpu, rules.rate.spelled
    rates = f"{filled('Recorded with {words}', words=pair.words)}: {_machine(pair)} "
    rates += f"<b class='gpu recorded'>{giga(gpu.rate)}</b> {unit}, "
    rates += f"its CPU <b class='cpu recorded'>{giga(cpu.rate)}</b>"
    return Compared(
        SpeedUp.of(cpu.times, gpu.times), gpu.machine, "its CPU (both recorded)", "gpu", rates,
        recorded=True, faster=why_faster(rules.rate.roof, gpu.share, cpu.share, pair.held),
        slower=f"; {_recorded_reason(gpu, rules)}",
    )  # fmt: skip


def _here(verdict: Verdict | None, rules: ComparisonRules, waking: float) -> Compared | None:
    """Compare two CPU backends of this computer."""
    if verdict is None or verdict.opponent is None or verdict.speed_up is None:
        return None
    by_name = {one.variant: one for one in verdict.standings}
    fast, slow = by_name[verdict.challenger], by_name[verdict.opponent]
    first = f"<b class='{fast.variant.kind}'>{giga(rate_of(fast))}</b> {rules.rate.spelled} with {fast.variant.label}"
    rates = f"This computer: {first}{_spread(fast)}, {giga(rate_of(slow))} with {slow.variant.label}"
    return Compared(
        verdict.speed_up, fast.variant.label, slow.variant.label, fast.variant.kind, rates,
        slower=f"; {why_slower(verdict, waking)}", estimate=verdict.early,
    )  # fmt: skip


# -- parts of the comparisons


def _unlike(fastest: Fastest, rules: ComparisonRules, pair: RecordedPair | None) -> str:
    """Return why a record of the same settings is not of the same work as this computer's timing; "" for the same work.

    A way that a user chose by name is compared with the same method only. The default way of a backend is its fastest,
    regardless of its method.
    """
    cpu = fastest.cpu
    if pair is None or cpu is None or cpu.measurement is None:
        return ""
    if pair.method and cpu.timings and cpu.variant.name:
        here = rules.method(cpu.variant.backend, cpu.timings[-1].variant)
        if here != pair.method:
            return f"{pair.method}, here {here}"
    work = pair.gpu.rate * pair.gpu.step
    if rules.rate.step != "curve" and not isclose(cpu.measurement.cells, work, rel_tol=SAME_WORK):
        here = spaced(round(cpu.measurement.cells))
        return f"{spaced(round(work))} {rules.rate.work} a {rules.rate.step}, here {here}"
    return ""


def _this_computer(fastest: Fastest, rules: ComparisonRules) -> str:
    """Return this computer's rate as a sentence in HTML; "" if unknown."""
    cpu = fastest.cpu
    rate = rate_of(cpu) if cpu else fastest.live
    if not isfinite(rate):
        return ""
    spread = _spread(cpu) if cpu and cpu.measurement else f" ({ESTIMATE})"
    return f"This computer: <b class='cpu'>{giga(rate)}</b> {rules.rate.spelled}{spread}."


def _recorded_rate(pair: RecordedPair | None, rules: ComparisonRules, unlike: str) -> str:
    """Return the rate of a recorded GPU without a counterpart here, as a sentence in HTML; "" if unknown."""
    if pair is None:
        return ""
    rate = f"<b class='gpu recorded'>{giga(pair.gpu.rate)}</b> {rules.rate.spelled}"
    if pair.same and not unlike:
        return f"{_machine(pair)}, recorded: {rate}."
    words = filled("{words}", words=unlike if pair.same else pair.words)
    return f"Not comparable: {_machine(pair)}, recorded with {words}: {rate}."


def _machine(pair: RecordedPair) -> str:
    """Return the name of the recorded machine as HTML, explained by the date and the work of its record."""
    alone = f"; {pair.unpaired}" if pair.unpaired else ""
    about = f"{pair.gpu.machine}: {RECORDED} {pair.gpu.date}, {pair.words}{alone}"
    return term(filled("{machine}", machine=pair.gpu.machine), plain(about), "machine")


def _spread(cpu: Standing) -> str:
    """Return the interval of a rate in brackets, with "noisy" if it applies; "" for neither."""
    if cpu.measurement is None or _few(cpu):
        return f" ({ESTIMATE})"
    step, cells = cpu.measurement.step, cpu.measurement.cells
    ends = f"{giga(cells / step.high)}–{giga(cells / step.low)}" if step.bounded and step.high > step.low else ""
    said = ", ".join(filter(None, (ends, "noisy" if step.noisy else "")))
    return f" ({said})" if said else ""


def _recorded_reason(gpu: Recorded, rules: ComparisonRules) -> str:
    """Return the reason why a recorded GPU is slower, from the data of its record."""
    if not isfinite(gpu.percent):
        return "the record does not state why"
    reached = f"it reached {percent_text(gpu.percent)} of {ROOFS[rules.rate.roof]}"
    return f"{reached}, which is its limit" if gpu.percent >= AT_THE_ROOF else f"{reached}, and {UNRECORDED}"


def _few(standing: Standing) -> bool:
    """Return True if there is only a single timing."""
    return standing.measurement is not None and standing.measurement.step.n < 2


# -- HTML


def _words(words: str, about: str = "", bad: bool = False) -> str:
    """Return text in place of the factor."""
    extra = filled("<span>{about}</span>", about=about) if about else ""
    return f"<div class='headline'><b class='words{' bad' if bad else ''}'>{words}</b>{extra}</div>"


def _number(one: Compared) -> str:
    """Return the factor and both names."""
    kind = one.kind + (" recorded" if one.recorded else "")
    title = filled("<span>{names}</span>", names=compared(one.speed, one.fast, one.slow))
    return f"<div class='headline {kind}'>{factor(one.speed)}{title}</div>"


def _sentence(one: Compared, recorded: str = "") -> str:
    """Return the rates, the interval and the reason; small windows hide elements of the class "why".

    recorded: a further sentence, as HTML.
    """
    speed = one.speed
    if speed.bounded:
        said = allowed(speed)
        interval = f"factor {term(said, f'{said}: {INTERVAL}', 'interval')}{', noisy' if speed.noisy else ''}"
    else:
        interval = "no interval in this record" if one.recorded and not one.estimate else allowed(speed)
    if one.estimate and speed.bounded:
        interval += f", {ESTIMATE}"
    why = "" if undecided(speed) else filled("{why}", why=one.faster if speed.ratio > 1 else one.slower)
    more = f"<span class='why'> {recorded}</span>" if recorded else ""
    return f"<p class='first'>{one.rates}<span class='why'>; {interval}{why}</span>.{more}</p>"
