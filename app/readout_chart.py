"""A problem that everybody solves, as bars of time: measured here, recorded elsewhere (hollow), cited (hatched)."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import log10

from app.readout_view import duration, named, span
from compute.backends import backend
from compute.comparison.contest import Standing
from compute.comparison.rules import Chart
from compute.record import Recorded

SHORTEST, LONGEST = 1e-5, 100.0  # seconds at the two ends of the axis
USUAL = "float64"  # dtype that is not worth a word
TICKS = {1e-5: "10 µs", 1e-3: "1 ms", 1e-1: "0.1 s", 10.0: "10 s"}


def chart(what: Chart, standings: Iterable[Standing], step: str) -> str:
    """The bars, longest time last; a way that is not right, or not measured yet, has words in place of a bar."""
    mine = [standing for standing in standings if standing.contestant in what.ways]
    known = [standing for standing in mine if standing.measurement is not None]
    bars = [(_seconds(standing), _measured(standing, what.reasons.get(standing.contestant, ""))) for standing in known]
    bars += [(figure.step, _figure(figure, what)) for figure in what.figures]
    waiting = "".join(_waiting(standing) for standing in mine if standing.measurement is None)
    rows = "".join(row for _, row in sorted(bars, key=lambda bar: bar[0]))
    head = f"<h3>{escape(what.title)}: time of one {escape(step)}, logarithmic</h3>"
    return f"{head}{_axis()}{rows}{waiting}<p class='quiet'>{escape(_legend(what.figures))}</p>"


def place(seconds: float) -> float:
    """Where a time lies on the axis, in percent of its length; never outside."""
    inside = min(max(seconds, SHORTEST), LONGEST)
    return 100 * log10(inside / SHORTEST) / log10(LONGEST / SHORTEST)


def _seconds(standing: Standing) -> float:
    return standing.measurement.step.median if standing.measurement else 0.0


def _measured(standing: Standing, reason: str) -> str:
    step = standing.measurement.step if standing.measurement else None
    if step is None:
        return ""
    start, end = place(step.q1), place(step.q3)
    whisker = f"<u style='left:{start:.2f}%;width:{end - start:.2f}%'></u>"
    noisy = " <span class='noisy'>noisy</span>" if standing.measurement and standing.measurement.noisy else ""
    title = f"{span(step.q1, step.q3)}, n {step.n}".replace("&nbsp;", " ")
    return _row(named(standing), standing.contestant.kind, "measured", step.median, title, reason, whisker, noisy)


def _figure(figure: Recorded, what: Chart) -> str:
    if figure.cited:
        return _row(f"{figure.variant}, cited", _kind(figure), "cited", figure.step, figure.cited)
    name = f"{backend(figure.backend).label}, {figure.variant}" + (f", {figure.dtype}" if figure.dtype != USUAL else "")
    reasons = {(way.backend, way.variant): text for way, text in what.reasons.items()}
    title = f"recorded {figure.date} on {figure.machine}, not measured here"
    reason = reasons.get((figure.backend, figure.variant), "")
    return _row(name, _kind(figure), "recorded", figure.step, title, reason)


def _waiting(standing: Standing) -> str:
    words = standing.note or ("results disagree" if standing.agreement and not standing.right else "measuring")
    text = f"<b>{escape(named(standing))}</b><span>{escape(words)}</span>"
    return f"<div class='race {standing.contestant.kind}'><div class='line'>{text}</div></div>"


def _row(
    name: str, kind: str, bar: str, seconds: float, title: str, reason: str = "", whisker: str = "", mark: str = ""
) -> str:
    line = f"<div class='line'><span>{escape(name)}{mark}</span><b>{duration(seconds)}</b></div>"
    track = f"<div class='track'><i class='{bar}' style='width:{place(seconds):.2f}%'></i>{whisker}</div>"
    why = f"<p class='quiet'>{escape(reason)}</p>" if reason else ""
    return f"<div class='race {kind}' title='{escape(title)}'>{line}{track}{why}</div>"


def _axis() -> str:
    ticks = "".join(f"<span style='left:{place(seconds):.2f}%'>{text}</span>" for seconds, text in TICKS.items())
    return f"<div class='axis'>{ticks}</div>"


def _legend(figures: Iterable[Recorded]) -> str:
    """What the bars mean, and where the hollow ones are from."""
    places = dict.fromkeys(f"{figure.machine}, {figure.date}" for figure in figures if not figure.cited)
    hollow = f" Hollow: recorded on {'; '.join(places)}." if places else ""
    cited = dict.fromkeys(figure.cited for figure in figures if figure.cited)
    hatched = f" Hatched: cited. {'; '.join(cited)}." if cited else ""
    return f"Full: measured here.{hollow}{hatched}"


def _kind(figure: Recorded) -> str:
    return "cpu" if backend(figure.backend).device == "host" else "gpu"
