"""The right column: the factor at the largest n, the compared ways and their times, with more under "Details".

The export card offers a finished sweep in the file formats of `fieldlab bench crossover`, including every sample.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from math import isfinite, log10
from pathlib import Path
from typing import Any

import panel as pn

from app.labs.crossover.findings import both_times, finding_html
from app.labs.crossover.labels import duration, quartiles
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.page.markup import filled
from app.page.theme import ASSETS, stylesheet
from app.readout.readout import Fold, SaveButtons, TimingFormat, show_html
from app.readout.readout_html import allowed, compared, factor, marks, slower
from app.tab.session import Session
from compute.engine.messages import SnapshotTaken
from compute.labs.crossover.benchmark import record_of
from compute.labs.crossover.results import results_of
from compute.machine import machine
from compute.measure import exports
from compute.measure.case import Results
from compute.measure.exports import Series, series_of_bench
from compute.measure.rates import spaced
from compute.measure.statistics import Spread
from compute.measure.timing import Timing
from compute.ways.finding import FAR, Finding, TimeCurve

DECADES = 6.0  # range of the bars
TITLE = "Not measured yet"
UNKNOWN = "its limit is not measured"
CHECKED_FIRST = "Each implementation is first compared with the reference; only those that agree are timed."


class CrossoverReadout:
    """The right column of one session; the session's view keeps `model` up to date."""

    def __init__(self, session: Session, model: SweepViewModel) -> None:
        self._session, self._model = session, model
        self.headline = self.sentence = ""  # HTML for the presenter bar when this column is closed
        sheets = [stylesheet(), (ASSETS / "readout.css").read_text(encoding="utf-8")]
        self._text = pn.pane.HTML("", stylesheets=sheets, sizing_mode="stretch_width", margin=0)
        self._sweep = SweepSaves(session)
        self.saves = self._sweep.buttons
        self._details = pn.pane.HTML("", stylesheets=sheets, sizing_mode="stretch_width", margin=0)
        self._fold = Fold("Details", self._details, on_unfold=self.tick)
        self.panel = pn.Column(self._text, self._fold, sizing_mode="stretch_width", margin=(8, 16))
        self.tick()

    def on_painted(self, timing: Timing) -> None:
        """Do nothing: `tick` shows the content of frames."""

    def on_event(self, event: Any) -> None:
        """Handle an engine event, which may contain the sweep to save."""
        self._sweep.on_event(event)

    def set_theme(self, dark: bool) -> None:
        """Do nothing: all colours are CSS variables of the page."""

    def hide(self) -> None:
        """Do nothing: the readout runs no measurement besides the lab."""

    def close(self) -> None:
        """Do nothing: no resource needs to be released."""

    def tick(self) -> None:
        """Update the texts if they have changed."""
        self._sweep.tick()
        self.headline, self.sentence = head(self._model), sentence(self._model)
        show_html(self._text, readout_html(self._model))
        if self._fold.unfolded:  # a folded pane is not sent
            show_html(self._details, details(self._model))


def readout_html(model: SweepViewModel) -> str:
    """Return the text of the column as HTML."""
    finding = model.finding
    if not finding.n or finding.ratio is None:
        title = f"<p><b>{TITLE} on this computer.</b></p>" if model.elsewhere.n else ""
        least, most = model.sizes
        budget = duration(float(model.session.values["budget"]))
        press = f"Press Run for n = {spaced(least)} to {spaced(most)}, about {budget}. {CHECKED_FIRST}"
        return f"{head(model)}{_interval(model.elsewhere)}{title}<p class='quiet'>{press}</p>"
    known = [line for line in model.lines if finding.n in line.series]
    ranked = sorted(known, key=lambda line: line.series[finding.n].median)
    longest = ranked[-1].series[finding.n].median
    ways = "".join(_way(line, line.series[finding.n], longest, finding.n) for line in ranked)
    title = f"<h3>time of a call at n = {spaced(finding.n)}, logarithmic</h3>"
    return f"{head(model)}{_interval(finding)}{reason(finding)}{title}{ways}"


def details(model: SweepViewModel) -> str:
    """Return the details as HTML: both times, quartiles, agreement, first calls, and the contents of a time."""
    finding, blocks = model.finding, []
    if finding.n:
        known = [line for line in model.lines if finding.n in line.series]
        spreads = [(line.label, line.place or quartiles(line.series[finding.n])) for line in known]
        rows = "".join(filled("<li><span>{name}</span><b>{said}</b></li>", name=one, said=two) for one, two in spreads)
        blocks = [f"<h3>Quartiles</h3><ul class='facts'>{rows}</ul>", f"<h3>Results</h3>{_agreement(model)}"]
        blocks += [_first_calls(model, finding.n)]
    if times_html := both_times(model):
        blocks.insert(0, f"<p class='quiet'>{times_html}</p>")
    return "".join([*blocks, f"<h3>Included in the times</h3><p class='quiet'>{escape(model.workload.included)}</p>"])


def head(model: SweepViewModel) -> str:
    """Return the factor and the compared ways as HTML, measured here or else recorded."""
    return number(_shown(model))


def number(finding: Finding) -> str:
    """Return the factor of a finding and the compared ways as HTML."""
    if finding.ratio is None:
        return f"<div class='headline'><b class='words'>{TITLE}</b></div>"
    names = escape(compared(finding.ratio, *finding.names_at_n))
    hollow = " recorded" if finding.place else ""  # hollow, as for all recorded values
    said = f"{factor(finding.ratio)}<span>{names} at n = {spaced(finding.n)}</span>"
    return f"<div class='headline {finding.fast.kind}{hollow}'>{said}</div>"


def sentence(model: SweepViewModel) -> str:
    """Return the finding as HTML for the presenter bar; "" without a finding."""
    finding = _shown(model)
    return f"<p class='first'>{finding_html(finding)}</p>" if finding.n else ""


def _shown(model: SweepViewModel) -> Finding:
    """Return the finding of this computer, else the recorded one."""
    return model.finding if model.finding.n and model.finding.ratio is not None else model.elsewhere


def _interval(finding: Finding) -> str:
    if finding.ratio is None:
        return ""
    at_n = (*finding.slow.lines[:1], *finding.fast.lines[:1])
    marked = marks(finding.ratio.noisy, low_clock=any(finding.n in line.low_clock for line in at_n))
    known = allowed(finding.ratio) if finding.ratio.bounded or not finding.place else "no interval in this record"
    place = f"<p class='quiet'>{escape(finding.place)}</p>" if finding.place else ""
    return f"<p>{known}{marked}</p>{place}"


def reason(finding: Finding) -> str:
    """Return the reason why the GPU is slower as HTML; "" if it is faster."""
    if finding.ratio is None or not slower(finding.ratio):
        return ""
    known = finding.reason_slower(spaced)
    if not known:
        grows = any(n * FAR <= finding.n for n in finding.fast.series)
        known = f"its time grows with n, so the cost of a call is not the reason; {UNKNOWN}" if grows else UNKNOWN
    return f"<p class='reason'>{escape(known)}</p>"


def _way(line: TimeCurve, spread: Spread, longest: float, n: int) -> str:
    width = 100 * (1 + log10(spread.median / longest) / DECADES)
    bar = f"<i class='{'recorded' if line.machine else 'measured'}' style='width:{max(1.0, width):.1f}%'></i>"
    marked = marks(n in line.noisy, n in line.launch_bound, n in line.low_clock)
    name = f"<div class='line'><b>{escape(line.label)}{marked}</b><b>{duration(spread.median)}</b></div>"
    note = f"<p class='quiet'>{escape(line.place)}</p>" if line.place else ""
    return f"<div class='way {line.kind}'>{name}<div class='track'>{bar}</div>{note}</div>"


def _agreement(model: SweepViewModel) -> str:
    """Return the largest difference of the results from the reference and the tolerance as HTML."""
    known = [spot.difference for line in model.measured.values() for spot in line.points
             if spot.step is not None and isfinite(spot.difference)]  # fmt: skip
    if not known:
        return ""
    if not max(known):
        return "<p>results equal to the reference</p>"
    tolerance, unit = model.frame.notes.get("tolerance", "") if model.frame else "", model.workload.difference_in
    bound = filled("; up to {tolerance} accepted", tolerance=tolerance) if tolerance else ""
    apart = f"{max(known):.2g} {unit} off" if unit else f"within {max(known):.1e} of the reference"
    return f"<p>results {apart}{bound}</p>"


def _first_calls(model: SweepViewModel, n: int) -> str:
    """Return the times of first calls, which are excluded elsewhere, as HTML."""
    known = [f"{escape(line.label)} {duration(spot.first_call)}" for line in model.measured.values()
             for spot in line.points if spot.n == n and isfinite(spot.first_call)]  # fmt: skip
    return f"<p class='quiet'>First call: {', '.join(known)}</p>" if known else ""


COMMAND = "fieldlab, live in the page"


@dataclass(frozen=True)
class SavedSweep:
    """A finished sweep. snapshot: of the lab that measured it."""

    snapshot: Mapping[str, Any]
    lab: str = "crossover"
    date: str = field(default_factory=machine.now)

    @cached_property
    def record(self) -> dict[str, Any]:
        """The sweep in the schema of `fieldlab bench --save`."""
        return record_of(self.snapshot, COMMAND) | {"date": self.date}

    @cached_property
    def series(self) -> list[Series]:
        """Every sample of every way, as series of calls."""
        found: Results = results_of(self.snapshot)
        return list(series_of_bench(self.lab, found, "call"))


def as_csv(sweep: SavedSweep) -> str:
    """Return CSV with a line for each way at each n."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        exports.write_csv(sweep.record, path)
        return path.read_text(encoding="utf-8")


def as_json(sweep: SavedSweep) -> str:
    """Return the record as JSON."""
    return json.dumps(sweep.record, indent=1, ensure_ascii=False, allow_nan=False)


def as_pyperf(sweep: SavedSweep) -> str:
    """Return JSON for `python -m pyperf`."""
    return json.dumps(exports.pyperf_document(sweep.series, sweep.record), ensure_ascii=False, allow_nan=False)


def as_trace(sweep: SavedSweep) -> str:
    """Return a trace for Perfetto as JSON."""
    out = io.StringIO()
    exports.write_trace(exports.trace_document(sweep.series, sweep.record), out)
    return out.getvalue()


TIMING_FORMATS = (
    TimingFormat("CSV", ".csv", "table", as_csv),
    TimingFormat("JSON", ".json", "a record", as_json),
    TimingFormat("pyperf", ".pyperf.json", "every sample", as_pyperf),
    TimingFormat("Trace", ".trace.json", "ui.perfetto.dev", as_trace),
)


class SweepSaves:
    """Requests the snapshot of a finished sweep from the engine once, and offers it for saving."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sweep: SavedSweep | None = None
        self._requested = False
        self.buttons = SaveButtons(TIMING_FORMATS, lambda: self._sweep)

    def tick(self) -> None:
        """Request the snapshot of a finished sweep; discard it when another begins. Called a few times a second."""
        frame = self._session.latest
        finished = frame is not None and self._session.answered and frame.facts.get("finished") == 1
        if finished and not self._requested:
            self._requested = True
            self._session.request_snapshot()
        elif not finished:
            self._requested, self._sweep = False, None
        self.buttons.allow(self._sweep is not None)

    def on_event(self, event: Any) -> None:
        """Store the engine's answer, if `event` is one."""
        if isinstance(event, SnapshotTaken) and self._requested:
            self._sweep = SavedSweep(event.snapshot)
