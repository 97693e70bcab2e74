"""The right column: one large number, GPU over CPU at the largest n with evidence, and the times behind it."""

from __future__ import annotations

from html import escape
from math import isfinite, log10
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.labs.crossover.kept import Keeper
from app.labs.crossover.sight import Sight
from app.labs.crossover.times import count, duration
from app.readout_view import allowed, factor, slower
from app.session import Session
from app.theme import ASSETS, stylesheet
from compute.frames import Frame
from compute.labs.crossover.finding import Finding, Line
from compute.labs.crossover.report import INCLUDED
from compute.timings import Spread

DECADES = 6.0  # of the bars
TITLE = "Not measured yet"
ADVICE = "Press Run. Every way is first compared with the reference; only those that agree are timed."


class CrossoverReadout:
    """Of one session, whose stage keeps `sight` up to date."""

    def __init__(self, session: Session, sight: Sight) -> None:
        self._session, self._sight = session, sight
        sheets = [stylesheet(), (ASSETS / "readout.css").read_text(encoding="utf-8")]
        self._text = pn.pane.HTML("", stylesheets=sheets, sizing_mode="stretch_width", margin=0)
        self._keeper = Keeper(session)
        self.panel = pmui.Column(self._text, self._keeper.saves.panel, sizing_mode="stretch_width", margin=(8, 16))
        self.tick()

    def frame(self, frame: Frame) -> None:
        """A painted frame: `tick` writes what it says."""

    def event(self, event: Any) -> None:
        """An engine event: it may bring what is saved."""
        self._keeper.event(event)

    def dress(self, dark: bool) -> None:
        """All colours follow the page's variables."""

    def close(self) -> None:
        """Nothing is held."""

    def tick(self) -> None:
        """Write what is known, if it is something else."""
        self._keeper.tick()
        html = f"<div class='readout'>{readout(self._sight)}</div>"
        if html != self._text.object:
            self._text.object = html


def readout(sight: Sight) -> str:
    """The text, as HTML."""
    finding = sight.finding
    if not finding.n or finding.ratio is None:
        return f"<div class='headline'><b class='words'>{TITLE}</b></div><p class='quiet'>{ADVICE}</p>"
    known = [line for line in sight.lines if finding.n in line.series]
    ranked = sorted(known, key=lambda line: line.series[finding.n].median)
    longest = ranked[-1].series[finding.n].median
    ways = "".join(_way(line, line.series[finding.n], longest, finding.n) for line in ranked)
    head = f"<h3>time of a call at n = {count(finding.n)}, logarithmic</h3>"
    return f"{_headline(finding)}{head}{ways}{_agreement(sight)}{_firsts(sight, finding.n)}{_included(sight)}"


def _headline(finding: Finding) -> str:
    ratio, (fast, slow) = finding.ratio, finding.names
    if ratio is None:
        return ""
    number = f"{factor(ratio)}<span>{escape(fast)} {'than' if slower(ratio) else 'over'} {escape(slow)}</span>"
    reason = f"<p>{escape(finding.why(count))}</p>" if slower(ratio) else ""
    noisy = " <span class='noisy'>noisy</span>" if ratio.noisy else ""
    place = f"<p class='quiet'>{escape(finding.place)}</p>" if finding.place else ""
    interval = f"<p>{allowed(ratio)}{noisy} at n = {count(finding.n)}</p>"
    hollow = " recorded" if finding.place else ""  # as everything that was not measured here
    return f"<div class='headline {finding.fast.kind}{hollow}'>{number}</div>{reason}{interval}{place}"


def _way(line: Line, spread: Spread, longest: float, n: int) -> str:
    width = 100 * (1 + log10(spread.median / longest) / DECADES)
    bar = f"<i class='{'recorded' if line.machine else 'measured'}' style='width:{max(1.0, width):.1f}%'></i>"
    noisy = " <span class='noisy'>noisy</span>" if n in line.noisy else ""
    name = f"<div class='line'><b>{escape(line.label)}{noisy}</b><b>{duration(spread.median)}</b></div>"
    samples = f", {spread.n} samples" if spread.n else ""
    note = line.place or f"{duration(spread.q1)} to {duration(spread.q3)}{samples}"
    return f"<div class='way {line.kind}'>{name}<div class='track'>{bar}</div><p class='quiet'>{escape(note)}</p></div>"


def _agreement(sight: Sight) -> str:
    """How far the results are from the reference at most, and what is allowed."""
    known = [spot.difference for line in sight.measured.values() for spot in line.points
             if spot.step is not None and isfinite(spot.difference)]  # fmt: skip
    if not known:
        return ""
    tolerance = escape(sight.frame.notes.get("tolerance", "")) if sight.frame else ""
    allowed = f", {tolerance} allowed" if tolerance else ""
    if not max(known):
        return "<p>results equal to the reference</p>"
    return f"<p>results within {max(known):.1e} of the reference{allowed}</p>"


def _firsts(sight: Sight, n: int) -> str:
    """First calls apart from everything else."""
    known = [f"{escape(line.label)} {duration(spot.first_call)}" for line in sight.measured.values()
             for spot in line.points if spot.n == n and isfinite(spot.first_call)]  # fmt: skip
    return f"<p class='quiet'>First call: {', '.join(known)}</p>" if known else ""


def _included(sight: Sight) -> str:
    return f"<h3>What is in a time</h3><p class='quiet'>{escape(INCLUDED[sight.workload.folder.ON])}</p>"
