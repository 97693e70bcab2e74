"""HTML of the readout: factors, bars of rates and times, the details of each measurement, the parts of a live frame.

Bars are full if measured here, hollow if recorded elsewhere, hatched if cited. Text from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from math import isfinite, log10, nan
from typing import NamedTuple

from app.page.explain import WORDS, term
from compute.devices.backends import backend
from compute.measure.agreement import Agreement
from compute.measure.rates import Cache, Rate, spaced, why_above_roof
from compute.measure.reasons import RoofShare
from compute.measure.records import Recorded
from compute.measure.rules import Chart, Fact
from compute.measure.statistics import COVERAGE, Measurement, SpeedUp
from compute.measure.timing import PARTS
from compute.measure.verdict import Standing, threads

LOWEST, HIGHEST = 1e7, 1e13  # cells or iterations per second at the two ends of the bars
PART_NAMES = {"launch": "launch", "compute": "compute", "levels": "levels", "transfer": "copy", "delivery": "delivery"}
INCLUDED = (
    "Compute is the time between two events of a GPU around the kernels, and wall time on the host; where it is "
    "launch-bound, that of launching them. Launch is the host's time to enqueue them, levels the reduction to screen "
    "size and one byte a pixel, copy device to host, delivery from the server's write to the browser's paint."
)
ROOFS = {"copy": "copy", "fma": "FMA"}
COUNTED = {"bytes": ("GB/s", 1e9), "instructions": ("Ginstr/s", 1e9)}  # a roof's quantity: unit, size
NEEDS = {
    "bytes": "The least that the kernel moves: a pass through memory counts once where it makes several steps or "
    "serves two products. What fits in a cache can exceed 100 % of the copy bandwidth.",
    "instructions": "Four instructions an iteration, three of them fused multiply-adds, against as many fused "
    "multiply-adds as the device does at most, measured now or within a week before; three where the kernel doubles by "
    "an integer addition. Only iterations that were done count.",
}
INTERVAL = (
    f"the {100 * COVERAGE:.0f} % confidence interval of the ratio of the two medians, from the order of the samples; "
    "there is none for fewer than six samples."
)
NO_INTERVAL = "no interval yet: fewer than six samples"
ALIKE = 1.02  # ratio below which two ways count as equally fast


def slower(speed: SpeedUp) -> bool:
    """Return True if the factor is a slow-down."""
    return not undecided(speed) and speed.ratio < 1


def undecided(speed: SpeedUp) -> bool:
    """Return True if neither side is faster: the interval contains 1, or the ratio is close to 1."""
    return speed.undecided or 1 / ALIKE < speed.ratio < ALIKE


def factor(speed: SpeedUp) -> str:
    """Return the factor as HTML: "104×", "2.62× slower", "≈47×" without an interval, words if neither is faster."""
    if undecided(speed):
        return "<b class='words'>About as fast</b>"
    ratio = max(speed.ratio, 1 / speed.ratio)
    marks = [name for name, marked in (("slower", slower(speed)), ("estimate", not speed.bounded)) if marked]
    figures = times(ratio) if speed.bounded else f"<small>≈</small>{approximate(ratio)}"
    small = "<small> slower</small>" if slower(speed) else ""
    tag = f"<b class='{' '.join(marks)}'>" if marks else "<b>"
    return f"{tag}{figures}×{small}</b>"


def compared(speed: SpeedUp, fast: str, slow: str) -> str:
    """Return both names with the preposition of the factor: "GPU over CPU", "GPU than CPU", "GPU and CPU"."""
    between = "and" if undecided(speed) else "than" if slower(speed) else "over"
    return f"{fast} {between} {slow}"


def approximate(ratio: float) -> str:
    """Return a ratio with two figures."""
    rounded = float(f"{ratio:.2g}")
    return spaced(rounded) if rounded >= 10 else f"{rounded:.1f}"


def allowed(speed: SpeedUp) -> str:
    """Return the confidence interval of the ratio, in the same words."""
    if not speed.bounded:
        return NO_INTERVAL
    ends = speed.low, speed.high
    low, high = (f"{times(ratio)}×" if ratio >= 1 else f"{times(1 / ratio)}× slower" for ratio in ends)
    if low == high:
        return low
    if speed.high < 1:
        return f"{times(1 / speed.high)} to {low}"
    return f"{times(speed.low)} to {high}" if speed.low >= 1 else f"{low} to {high} faster"


@dataclass(frozen=True)
class Roofs:
    """The roofs that rates are compared with, by "cpu" and "gpu", and the caches that explain rates above a roof.

    rates: the roofs; held: bytes that the work reads repeatedly; kept: the day of an earlier measurement of a roof.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    caches: Mapping[str, tuple[Cache, ...]] = field(default_factory=dict)
    held: float = nan
    kept: Mapping[str, str] = field(default_factory=dict)

    def percent(self, standing: Standing, rate: Rate, dtype: str) -> float:
        """Return the percentage of its device's roof that a way reaches, by its kernel's real cost; nan if unknown."""
        measurement = standing.measurement
        if measurement is None:
            return nan
        roof = self.rates.get(standing.variant.kind, nan)
        return _needed(standing, rate, dtype) * rate.percent(measurement.cells_per_second, dtype, roof)

    def reached(self, standing: Standing, rate: Rate, dtype: str) -> RoofShare:
        """Return a way's share of its device's roof, with the size of the device's last-level cache."""
        caches = self.caches.get(standing.variant.kind, ())
        return RoofShare(self.percent(standing, rate, dtype), caches[-1].size if caches else nan)

    def share(self, percent_: float, kind: str, rate: Rate) -> str:
        """Return `percent_` of the roof with its note, as HTML."""
        return f"{percent(percent_)} of {ROOFS[rate.roof]}{self.note(percent_, kind, rate)}"

    def note(self, percent_: float, kind: str, rate: Rate) -> str:
        """Return the note on `percent_`: why it exceeds 100, and the day of a roof that was measured earlier."""
        why = why_above_roof(percent_, self.held, self.caches.get(kind, ()), rate.saves)
        since = f"roof measured {self.kept[kind]}" if self.kept.get(kind) else ""
        words = "; ".join(filter(None, (why, since)))
        return f" ({escape(words)})" if words else ""


def ways(standings: Iterable[Standing]) -> str:
    """Return a line for each backend with its rate and bar, or with the reason why it has none."""
    return "".join(_way(standing) for standing in standings)


def details(standings: Iterable[Standing], rate: Rate, dtype: str, roofs: Roofs) -> str:
    """Return the times, samples, counted work and share of the roof of each measured backend."""
    return "".join(_detail(standing, rate, dtype, roofs) for standing in standings if standing.measurement)


class ComputedCase(NamedTuple):
    """The work of a computation. case: edges or scene, "" for neither."""

    ny: int
    nx: int
    dtype: str
    case: str = ""

    @property
    def words(self) -> str:
        """Size, dtype and case as text."""
        size = f"{self.nx}²" if self.nx == self.ny else f"{self.nx} × {self.ny}"
        return ", ".join(filter(None, (size, self.dtype, self.case)))


def recorded(figure: Recorded) -> str:
    """Return the hollow bar of a recorded rate, its work and date as an explanation of its name.

    A CPU is named as that of its machine, which has the GPU's name.
    """
    work = ComputedCase(figure.ny, figure.nx, figure.dtype, figure.case)
    about = f"{figure.machine}: recorded {figure.date} with {work.words}, {figure.backend} {figure.variant}".strip()
    called = figure.machine if figure.kind == "gpu" else f"CPU of {figure.machine}"
    name = term(escape(called), f"{about}; not measured here", f"bar of {called}")
    line = f"<div class='line'><b>{name} recorded</b><b>{giga(figure.rate)}</b></div>"
    return f"<div class='way {figure.kind}'>{line}{_bar(figure.rate, kind='recorded')}</div>"


def others(figures: Iterable[Recorded], here: ComputedCase | None = None) -> str:
    """Return recorded figures hollow and cited ones hatched, each with its machine, work, and date or source.

    here: the work of the live picture; figures of other work are marked.
    """
    blocks = []
    for figure in figures:
        kind = "cited" if figure.cited else "recorded"
        work = ComputedCase(figure.ny, figure.nx, figure.dtype, figure.case)
        note = f"{kind}{'' if figure.cited else f' {figure.date}'}: {work.words}"
        if here and work != here:
            note += f"; other work than here: {here.words}"
        source = figure.cited or f"{figure.backend} {figure.variant}, {figure.case}; not measured here"
        about = term(escape(note), f"{WORDS[kind]} {source}", f"{kind} {figure.machine}")
        blocks.append(
            f"<div class='way gpu'>{_line(figure.machine, giga(figure.rate))}"
            f"{_bar(figure.rate, kind=kind)}<p class='quiet'>{about}</p></div>"
        )
    return "".join(blocks)


def facts(lines: Iterable[Fact], rate: Rate, roofs: Roofs | None = None, kind: str = "cpu") -> str:
    """Return a lab's facts of its latest frame as a list, without unknown ones. kind: of the live device."""
    known = roofs or Roofs()
    items = "".join(
        f"<li><span>{term(escape(fact.name), f'{fact.name}: {fact.about}') if fact.about else escape(fact.name)}"
        f"{_why(fact, rate, known, kind)}</span><b>{_value(fact, rate)}</b></li>"
        for fact in lines if isinstance(fact.value, str) or isfinite(fact.value)
    )  # fmt: skip
    return f"<ul class='facts'>{items}</ul>" if items else ""


def _why(fact: Fact, rate: Rate, roofs: Roofs, kind: str) -> str:
    """Return the note on a share of a roof; "" for other facts."""
    if fact.kind != "percent" or isinstance(fact.value, str):
        return ""
    return roofs.note(fact.value, kind, rate)


def parts(
    measurement: Measurement | None, kind: str, frames_per_second: float, dropped: int = 0, latency: float = nan
) -> str:
    """Return the stacked bar of a live frame's time and its legend; parts that were not measured are left out.

    dropped: frames that were computed and never painted; latency: seconds from computing to painting, nan if unknown.
    """
    if measurement is None:
        return "<p class='quiet'>no frame yet</p>"
    known = {name: measurement.parts[name] for name in PARTS if isfinite(measurement.parts.get(name, nan))}
    total = sum(known.values())
    if total <= 0:
        return "<p class='quiet'>no step yet</p>"
    bar = "".join(f"<i class='{name}' style='width:{100 * value / total:.2f}%'></i>" for name, value in known.items())
    items = "".join(f"<li class='{name}'>{PART_NAMES[name]} {duration(value)}</li>" for name, value in known.items())
    items += f"<li class='plain'>{frames_per_second:.0f} frames/s</li><li class='plain'>dropped {dropped}</li>"
    items += f"<li class='plain'>latency {duration(latency)}</li>" if isfinite(latency) else ""
    body = (
        f"<div class='parts'>{bar}</div><ul class='legend'>{items}</ul>{marks(launch_bound=measurement.launch_bound)}"
    )
    return f"<div class='{kind}'>{body}</div>"


def marks(noisy: bool = False, launch_bound: bool = False, low_clock: bool = False) -> str:
    """Return the marks of a time as HTML, each after a space; "" without any."""
    marked = {"noisy": noisy, "launch-bound": launch_bound, "low clock": low_clock}
    return "".join(f" <span class='noisy'>{name}</span>" for name, applies in marked.items() if applies)


def first_calls(standings: Iterable[Standing]) -> str:
    """Return the times of the first calls, which no other figure includes."""
    known = [
        f"{escape(standing.variant.label)} {duration(standing.measurement.first_call)}"
        for standing in standings
        if standing.measurement is not None and isfinite(standing.measurement.first_call)
    ]
    return f"<p class='quiet'>First call: {', '.join(known)}</p>" if known else ""


def _way(standing: Standing) -> str:
    variant, measurement = standing.variant, standing.measurement
    if measurement is None:
        waiting = f"<p class='quiet'>{escape(standing.waiting)}</p>"
        return f"<div class='way {variant.kind}'>{_line(named(standing), '')}{waiting}</div>"
    step, cells, speed = measurement.step, measurement.cells, measurement.cells_per_second
    bar = _bar(speed, cells / step.q3, cells / step.q1)
    return f"<div class='way {variant.kind}'>{_line(named(standing), giga(speed), _marks(measurement))}{bar}</div>"


def _marks(measurement: Measurement) -> str:
    return marks(measurement.noisy, measurement.launch_bound, measurement.low_clock)


def _detail(standing: Standing, rate: Rate, dtype: str, roofs: Roofs) -> str:
    variant, measurement = standing.variant, standing.measurement
    if measurement is None:
        return ""
    step, speed = measurement.step, measurement.cells_per_second
    spread = f"{duration(step.median)} a {rate.step} ({span(step.q1, step.q3)}), n&nbsp;{step.n}{_marks(measurement)}"
    reached = roofs.percent(standing, rate, dtype)
    share = f", {roofs.share(reached, variant.kind, rate)}" if isfinite(reached) else ""
    unit, size = COUNTED[rate.counted]
    moved = f"{figure(_needed(standing, rate, dtype) * rate.counted_per_second(speed, dtype) / size)}&nbsp;"
    counted = f"{moved}{term(unit, f'{WORDS[unit]} {NEEDS[rate.counted]}')}{share}"
    rates = f"{thousands(measurement.steps_per_second)}&nbsp;{rate.step}s/s, {counted}"
    name = f"<p><b>{escape(named(standing))}</b></p>"
    return f"<div class='way {variant.kind}'>{name}<p>{spread}</p><p class='quiet'>{rates}</p></div>"


def _needed(standing: Standing, rate: Rate, dtype: str) -> float:
    """Return the ratio of this kernel's real cost to the minimum cost of a step."""
    variant, timings = standing.variant, standing.timings
    steps, share = (timings[-1].steps, timings[-1].share) if timings else (1, 1.0)
    return share * rate.share(variant.backend, variant.name, dtype, steps)


def named(standing: Standing) -> str:
    """Return a variant's label with the number of its threads."""
    count = threads(standing)
    return standing.variant.label + (f", {count} thread{'s' * (count != 1)}" if count else "")


def agreement(agreement: Agreement | None) -> str:
    """Return the difference of the results as HTML."""
    if agreement is None:
        return "<p class='quiet'>results not yet compared</p>"
    said = escape(agreement.said)
    return f"<p>{term(said, f'{agreement.said}: {agreement.about}', 'agreement') if agreement.about else said}</p>"


def _value(fact: Fact, rate: Rate) -> str:
    if isinstance(fact.value, str):
        return escape(fact.value)
    if fact.kind == "rate":
        return f"{giga(fact.value)}&nbsp;{rate.unit}"
    written = {"percent": percent, "seconds": duration, "count": counted}
    return written[fact.kind](fact.value)


def _line(name: str, value: str, marks: str = "") -> str:
    return f"<div class='line'><b>{escape(name)}{marks}</b><b>{value}</b></div>"


def _bar(value: float, low: float = nan, high: float = nan, kind: str = "measured") -> str:
    """Return a bar on the logarithmic scale, with the quartiles as a dark line at its end."""
    whisker = ""
    if isfinite(low) and isfinite(high):
        start, end = rate_place(low), rate_place(high)
        whisker = f"<u style='left:{start:.2f}%;width:{end - start:.2f}%'></u>"
    return f"<div class='track'><i class='{kind}' style='width:{rate_place(value):.2f}%'></i>{whisker}</div>"


def rate_place(rate: float) -> float:
    """Return the position of a rate on the bars, in percent of their length."""
    part = log10(max(rate, LOWEST) / LOWEST) / log10(HIGHEST / LOWEST)
    return 100 * min(part, 1.0)


def giga(rate: float) -> str:
    """Return cell updates or iterations per second, in 1e9."""
    return figure(rate / 1e9)


def percent(value: float) -> str:
    """Return a percentage as HTML, with two figures below 10."""
    return percent_text(value).replace(" ", "&nbsp;")


def percent_text(value: float) -> str:
    """Return a percentage as text, with two figures below 10."""
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"


def counted(value: float) -> str:
    """Return a count, in multiples of 10⁶ or 10⁹ for large values."""
    for name, size in (("·10⁹", 1e9), ("·10⁶", 1e6)):
        if value >= size:
            return f"{figure(value / size)}{name}"
    return spaced(value)


def times(ratio: float) -> str:
    """Return a ratio with three figures."""
    return figure(ratio)


def figure(value: float) -> str:
    """Return a number with three figures, without exponent, thousands separated; "–" for a non-finite value."""
    if not isfinite(value):
        return "–"
    if value >= 1000:
        return spaced(float(f"{value:.3g}"))
    return f"{value:#.3g}".rstrip(".")


def thousands(value: float) -> str:
    """Return a number with three figures, in thousands from 10 000 on."""
    return f"{figure(value / 1000)}&nbsp;k" if value >= 10_000 else figure(value)


def duration(seconds: float) -> str:
    """Return a time with three figures in µs, ms or s; "–" for a non-finite value."""
    if not isfinite(seconds):
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{figure(seconds / size)}&nbsp;{unit}"
    return f"{figure(seconds / 1e-6)}&nbsp;µs" if seconds > 0 else "0&nbsp;µs"


def span(low: float, high: float) -> str:
    """Return two times as a range, with the unit once if both have the same."""
    first, last = duration(low), duration(high)
    number, _, unit = first.partition("&nbsp;")
    return f"{number}–{last}" if last.endswith(unit) and last.partition("&nbsp;")[2] == unit else f"{first}–{last}"


SHORTEST, LONGEST = 1e-5, 100.0  # seconds at the two ends of the axis
USUAL = "float64"  # dtype that is not mentioned
TICKS = {1e-5: "10 µs", 1e-3: "1 ms", 1e-1: "0.1 s", 10.0: "10 s"}


def chart(what: Chart, standings: Iterable[Standing], step: str) -> str:
    """Return the bars in ascending order of time; a way without a right measurement has text instead of a bar."""
    mine = [standing for standing in standings if standing.variant in what.ways]
    known = [standing for standing in mine if standing.measurement is not None]
    bars = [(_seconds(standing), _measured(standing, what.reasons.get(standing.variant, ""))) for standing in known]
    bars += [(figure.step, _figure(figure, what)) for figure in what.figures]
    waiting = "".join(_waiting(standing) for standing in mine if standing.measurement is None)
    rows = "".join(row for _, row in sorted(bars, key=lambda bar: bar[0]))
    head = f"<h3>{escape(what.title)}: time of one {escape(step)}, logarithmic</h3>"
    return f"{head}{_axis()}{rows}{waiting}<p class='quiet'>{escape(_legend(what.figures))}</p>"


def time_place(seconds: float) -> float:
    """Return the position of a time on the axis, in percent of its length, limited to 0 … 100."""
    inside = min(max(seconds, SHORTEST), LONGEST)
    return 100 * log10(inside / SHORTEST) / log10(LONGEST / SHORTEST)


def _seconds(standing: Standing) -> float:
    return standing.measurement.step.median if standing.measurement else 0.0


def _measured(standing: Standing, reason: str) -> str:
    step = standing.measurement.step if standing.measurement else None
    if step is None:
        return ""
    start, end = time_place(step.q1), time_place(step.q3)
    whisker = f"<u style='left:{start:.2f}%;width:{end - start:.2f}%'></u>"
    noisy = " <span class='noisy'>noisy</span>" if standing.measurement and standing.measurement.noisy else ""
    title = f"{span(step.q1, step.q3)}, half of the {step.n} times lie between these"
    return _row(named(standing), standing.variant.kind, "measured", step.median, title, reason, whisker, noisy)


def _figure(figure: Recorded, what: Chart) -> str:
    if figure.cited:
        return _row(f"{figure.variant}, cited", _kind(figure), "cited", figure.step, figure.cited)
    name = f"{backend(figure.backend).label}, {figure.variant}" + (f", {figure.dtype}" if figure.dtype != USUAL else "")
    reasons = {(way.backend, way.name): text for way, text in what.reasons.items()}
    title = f"recorded {figure.date} on {figure.machine}, not measured here"
    reason = reasons.get((figure.backend, figure.variant), "")
    return _row(name, _kind(figure), "recorded", figure.step, title, reason)


def _waiting(standing: Standing) -> str:
    text = f"<b>{escape(named(standing))}</b><span>{escape(standing.waiting)}</span>"
    return f"<div class='race {standing.variant.kind}'><div class='line'>{text}</div></div>"


def _row(
    name: str, kind: str, bar: str, seconds: float, title: str, reason: str = "", whisker: str = "", mark: str = ""
) -> str:
    time = duration(seconds)
    about = term(time, f"{time}: {title}".replace("&nbsp;", " "), name)
    called = term(escape(name), f"{name}: {reason}", f"why {name}") if reason else escape(name)
    line = f"<div class='line'><span>{called}{mark}</span><b>{about}</b></div>"
    track = f"<div class='track'><i class='{bar}' style='width:{time_place(seconds):.2f}%'></i>{whisker}</div>"
    return f"<div class='race {kind}'>{line}{track}</div>"


def _axis() -> str:
    ticks = "".join(f"<span style='left:{time_place(seconds):.2f}%'>{text}</span>" for seconds, text in TICKS.items())
    return f"<div class='axis'>{ticks}</div>"


def _legend(figures: Iterable[Recorded]) -> str:
    """Return the legend of the bars, with the machines of the hollow ones."""
    places = dict.fromkeys(f"{figure.machine}, {figure.date}" for figure in figures if not figure.cited)
    hollow = f" Hollow: recorded on {'; '.join(places)}." if places else ""
    cited = dict.fromkeys(figure.cited for figure in figures if figure.cited)
    hatched = f" Hatched: cited. {'; '.join(cited)}." if cited else ""
    return f"Full: measured here.{hollow}{hatched}"


def _kind(figure: Recorded) -> str:
    return backend(figure.backend).kind
