"""Format the result of `fieldlab try` for the terminal, as JSON, and as one HTML file that needs no network.

Strings from the user's file (its name, the names of its ways, its error messages) are escaped, never used as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import inf, isfinite, log10
from typing import Any

from compute.machine.machine import machine
from compute.measure.statistics import Spread
from compute.own.faults import KINDS
from compute.own.trial import TrialReport, WayReport
from compute.own.verdict import in_words
from compute.ways.finding import commas, time_in_words

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 420, 70, 46, 16, 180  # of the drawing, in SVG units
COLOURS = {  # of the page and its lines, by CSS variable: for light and dark colour schemes
    "ink": ("#1c2733", "#e6edf3"), "paper": ("#ffffff", "#0f1720"), "line": ("#c5ced6", "#3b4956"),
    "grid": ("#dde3e8", "#2a3641"), "bad": ("#a01818", "#ff9a94"), "muted": ("#5b6770", "#a3b1bd"),
    "ground": ("#f3f5f7", "#1a2530"),
    "cpu0": ("#1f6fb4", "#5aa9e6"), "cpu1": ("#5aa9e6", "#2f7fc4"), "cpu2": ("#0b3c5d", "#b7d8f2"),
    "cpu3": ("#8ab6d6", "#7c93a8"),
    "gpu0": ("#c8501e", "#f08a5d"), "gpu1": ("#f08a5d", "#d0592a"), "gpu2": ("#7d2a08", "#ffd0b8"),
    "gpu3": ("#e6b49a", "#a88475"),
}  # fmt: skip
NAME = 16  # height of a way's name at the end of its line, in SVG units


def lines(report: TrialReport) -> Iterator[str]:
    """Yield the report as lines of text for a terminal."""
    if report.refused:
        yield f"{_sentence(report.refused)}"
        return
    for one in report.ways:
        yield one.sentence
        yield from (f"  {note}" for note in dict.fromkeys(one.notes))
        if one.unmeasured and one.status != "failed" and one.places:
            yield f"  not measured: {one.unmeasured}"
    for dtype, said in report.verdict.items():
        yield ""
        yield f"{dtype}: {' '.join(said)}"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def as_json(report: TrialReport) -> dict[str, Any]:
    """Return the report as plain values, with None for unknown numbers."""
    return {
        "file": report.path.name, "date": report.date, "machine": machine(), "refused": report.refused,
        "right": report.right, "unfinished": report.unfinished, "sizes": list(report.sizes),
        "ways": [_way(one) for one in report.ways],
        "roofs": {
            key: {"bytes_per_second": _number(roof.bandwidth), "flops_per_second": _number(roof.flops)}
            for key, roof in report.roofs.items()
        },
        "crossovers": {dtype: _crossover(report, dtype) for dtype in report.findings},
        "verdict": report.verdict,
    }  # fmt: skip


def _way(one: WayReport) -> dict[str, Any]:
    return {
        "name": one.way.name, "line": one.way.line, "reference": one.way.is_reference, "status": one.status,
        "fault": one.kind, "text": one.text, "checked": {place: list(asked) for place, asked in one.places.items()},
        "notes": one.notes, "unmeasured": one.unmeasured, "left": one.left, "unwatched": one.unwatched,
        "first_call": _number(one.first_call),
        "seconds": {
            dtype: {str(n): {"median": s.median, "q1": s.q1, "q3": s.q3, "samples": s.n} for n, s in series.items()}
            for dtype, series in one.series.items()
        },
    }  # fmt: skip


def _crossover(report: TrialReport, dtype: str) -> dict[str, Any]:
    finding = report.findings[dtype]
    found = finding.crossing
    return {
        "slow": finding.names[1], "fast": finding.names[0], "sentence": finding.sentence,
        "n": found.n if found else None, "low": found.low if found else None, "high": found.high if found else None,
        "always": bool(found and found.always),
    }  # fmt: skip


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


# -- one HTML file

LIGHT, DARK = ("".join(f"--{name}:{both[i]};" for name, both in COLOURS.items()) for i in (0, 1))
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:var(--ink);
background:var(--paper)}
table{border-collapse:collapse;display:block;overflow-x:auto}
td,th{border:1px solid var(--line);padding:.25rem .6rem;text-align:right}
td:first-child,th:first-child{text-align:left}.wrong,.failed{color:var(--bad)}.missing{color:var(--muted)}
svg{max-width:100%;height:auto}svg text{font:14px system-ui,sans-serif;fill:var(--ink)}
pre{overflow:auto;background:var(--ground);padding:1rem}"""
SCHEMES = f":root{{color-scheme:light dark;{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}\n"
Timed = Sequence[tuple[WayReport, Mapping[int, Spread]]]
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def as_html(report: TrialReport, source: str) -> str:
    """Return the report with the drawing and the file's text as one page without scripts and links."""
    name, parts = escape(report.path.name), []
    if report.refused:
        parts.append(f'<p class="failed">{escape(_sentence(report.refused))}</p>')
    for dtype, said in report.verdict.items():
        parts.append(f"<h2>{escape(dtype)}</h2><p>{escape(' '.join(said))}</p>")
        series = [(one, one.series[dtype]) for one in report.ways if one.series.get(dtype)]
        if series:
            parts += [_drawing(series), _table(series)]
    if report.ways:
        parts.append("<h2>Ways</h2><ul>")
        for one in report.ways:
            checked = "right" if one.status == "right" else "not fully checked"
            label = KINDS.get(one.kind, checked if one.places else "not checked")
            notes = "".join(f"<br>{escape(text)}" for text in (*one.notes, one.unmeasured) if text)
            parts.append(f'<li class="{escape(one.status)}"><b>{escape(label)}</b>: {escape(one.sentence)}{notes}</li>')
        parts.append("</ul>")
    facts = "; ".join(f"{key}: {value}" for key, value in machine().items() if value)
    parts.append(f"<h2>Machine</h2><p>{escape(facts)}; {escape(report.date)}</p>")
    parts.append(f"<h2>{name}</h2><pre>{escape(source)}</pre>")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{name}</title><style>{SCHEMES}{STYLE}</style></head>\n<body><h1>{name}</h1>\n"
        + "\n".join(parts)
        + "</body></html>\n"
    )


def _table(series: Timed) -> str:
    sizes = sorted({n for _, one in series for n in one})
    head = "".join(f"<th>{escape(one.way.name)}</th>" for one, _ in series)
    rows = "".join(
        f"<tr><td>{commas(n)}</td>"
        + "".join(f"<td>{escape(in_words(one[n])) if n in one else ''}</td>" for _, one in series)
        + "</tr>"
        for n in sizes
    )
    return f"<table><tr><th>n</th>{head}</tr>{rows}</table>"


@dataclass(frozen=True)
class LogAxes:
    """Map n and seconds to SVG coordinates; the fields are the log10 of the axes' ends."""

    left: float
    right: float
    low: float
    high: float

    @classmethod
    def around(cls, series: Timed) -> LogAxes:
        """Return axes from the smallest to the largest n that contain all quartiles."""
        every = [(n, spread) for _, one in series for n, spread in one.items()]
        numbers = log10(min(n for n, _ in every)), log10(max(n for n, _ in every))
        return cls(*numbers, log10(min(s.q1 for _, s in every)), log10(max(s.q3 for _, s in every)))

    def x(self, n: float) -> float:
        """Return the horizontal coordinate of n."""
        return LEFT + (log10(n) - self.left) / max(self.right - self.left, 1e-9) * (WIDTH - LEFT - RIGHT)

    def y(self, seconds: float) -> float:
        """Return the vertical coordinate of a time."""
        part = (log10(seconds) - self.low) / max(self.high - self.low, 1e-9)
        return HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)


def _drawing(series: Timed) -> str:
    """Return an SVG of time against n, both logarithmic: medians as lines, quartiles as bars."""
    axes = LogAxes.around(series)
    used, names = {"cpu": 0, "gpu": 0}, []
    drawn = [*_grid(axes)]
    for one, points in series:
        colour = f"var(--{one.way.kind}{used[one.way.kind] % 4})"
        used[one.way.kind] += 1
        drawn += _curve(axes, points, colour)
        last = max(points)
        names.append((axes.y(points[last].median) + 4, axes.x(last) + 8, one.way.name))
    drawn += _names(names)
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawn.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">n</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">{"".join(drawn)}</svg>'


def _grid(axes: LogAxes) -> Iterator[str]:
    """Yield a line with its label at each power of ten."""
    for power in range(-10, 4):
        if axes.low <= power <= axes.high:
            at = axes.y(10.0**power)
            yield f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="var(--grid)"/>'
            yield f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{time_in_words(10.0**power)}</text>'
    for power in range(10):
        if axes.left <= power <= axes.right:
            at = axes.x(10**power)
            yield f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="var(--grid)"/>'
            yield f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">1e{power}</text>'


def _curve(axes: LogAxes, points: Mapping[int, Spread], colour: str) -> Iterator[str]:
    """Yield the medians of one way as a line and its quartiles as bars."""
    places = [(axes.x(n), points[n]) for n in sorted(points)]
    path = " ".join(f"{at:.1f},{axes.y(spread.median):.1f}" for at, spread in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for at, spread in places:
        ends = f"{axes.y(spread.q1):.1f}V{axes.y(spread.q3):.1f}"
        yield f'<path d="M{at:.1f} {ends}" stroke="{colour}" stroke-width="4"/>'


def _names(names: Sequence[tuple[float, float, str]]) -> Iterator[str]:
    """Yield the names (y, x, name) at the ends of their lines, moved down where they would overlap."""
    lowest = HEIGHT - BOTTOM - NAME * (len(names) - 1)
    label_y = -inf
    for number, (wanted, at, name) in enumerate(sorted(names)):
        label_y = max(min(wanted, lowest + NAME * number), label_y + NAME)
        yield f'<text x="{at:.1f}" y="{label_y:.1f}">{escape(name)}</text>'
