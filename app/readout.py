"""CPU against GPU, live: one large number, then the evidence for it.

What is compared and when a speed-up may be shown is decided by compute.comparison; here it is asked for, four times a
second, and drawn. Recorded and cited figures have blocks of their own and never meet a measured median.
"""

from __future__ import annotations

import time
from functools import cache
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import panel as pn
import panel_material_ui as pmui

from app import readout_view as view
from app.readout_chart import chart
from app.readout_plots import History
from app.saving import FORMATS, Saves
from app.session_limiter import session_limiter
from app.theme import ASSETS, stylesheet
from compute.backends import backend
from compute.bench.roof import roof
from compute.bench.workload import has_workload
from compute.comparison.contest import Verdict, shared_book
from compute.comparison.live import Comparison
from compute.comparison.saved import Shown
from compute.comparison.slower import why_slower
from compute.frames import Frame
from compute.record import Recorded, library
from compute.timings import Spread, Window

if TYPE_CHECKING:
    from app.session import Session
    from compute.engine import LabHandle

REDRAW = 1.0  # seconds between two versions of the text: numbers that flicker cannot be read
AT_WORK = ("running", "paused")  # states of a session in which something may be measured for it


class Readout:
    """The right column of one session. `frame`, `tick`, `event` and `close` belong to the document's loop.

    A lab whose folder has no benchmark.py is not compared: then the parts of a live frame are all there is.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        name = session.lab.LAB
        self._comparison = Comparison(name, self._open, shared_book()) if has_workload(name) else None
        self._window = Window()
        self._fresh: list[float] = []  # seconds of the frames since the last tick, a step or in all
        self._setting: tuple[Any, ...] = ()
        self._drawn_at = -REDRAW
        self._state = ""
        self._stepwise = self._comparison is not None and self._comparison.rules.rate.step == "step"
        self.history = History() if self._stepwise else History("ms/frame", 1e-3)
        sheets = [stylesheet(), (ASSETS / "readout.css").read_text(encoding="utf-8")]
        self._text = pn.pane.HTML("", stylesheets=sheets, sizing_mode="stretch_width", margin=0)
        plot = pn.pane.Bokeh(self.history.figure, sizing_mode="stretch_width", margin=0)
        self.shown = Shown(name, {}, "")  # what the text says now, for those who save it
        self._saves = Saves(FORMATS, lambda: self.shown)
        self.panel = pmui.Column(self._text, plot, self._saves.panel, sizing_mode="stretch_width", margin=(8, 16))
        self._draw(None)

    # -- what the page calls

    def on_frame(self, frame: Frame) -> None:
        """One painted frame, its timing complete with the delivery."""
        self._window.add(frame.timing)
        if self._comparison:
            self._comparison.witness(frame.timing)
        if not frame.timing.first_call:
            self._fresh.append(frame.timing.step_seconds if self._stepwise else frame.timing.compute)

    def tick(self) -> None:
        """Four times a second: go on comparing, add to the history, and every REDRAW seconds write the text."""
        session, now = self._session, time.monotonic()
        if session.latest is None or session.phase not in AT_WORK:
            return
        roof().start()
        if self._comparison:
            self._comparison.follow(session.values)
            self._comparison.tick()
        self._follow()
        self.history.add(now, Spread.of(self._fresh).median)
        if not session.playing:
            self.history.rest(now)
        self._fresh.clear()
        self.history.draw(now, self._kind)
        verdict = self._comparison.verdict() if self._comparison else None
        state = verdict.state if verdict else ""
        if state != self._state or now - self._drawn_at >= REDRAW:
            self._state, self._drawn_at = state, now
            self._draw(verdict)

    def on_event(self, event: Any) -> None:
        """An engine event of the live lab: nothing here depends on it, the comparison has labs of its own."""

    def set_theme(self, dark: bool) -> None:
        """Colour the history for the dark or the light scheme; all else follows the page's variables."""
        self.history.set_theme(dark)

    def close(self) -> None:
        """The session is over: end what is being measured for it."""
        if self._comparison:
            self._comparison.close()

    # -- inside

    @property
    def _kind(self) -> str:
        return "cpu" if backend(self._session.values["backend"]).device == "host" else "gpu"

    def _open(self, engine: str, values: dict[str, Any], on_event: Any) -> LabHandle:
        return session_limiter().engines.get(engine).open(self._session.lab.LAB, values, on_event)

    def _follow(self) -> None:
        """Start the history and the window afresh when they are about something else."""
        values = self._session.values
        names = self._comparison.rules.timed if self._comparison else ("ny", "nx", "dtype")
        setting = tuple(values.get(name) for name in ("backend", "variant", *names))
        if setting != self._setting:
            self._setting = setting
            self._window.clear()
            self._fresh.clear()
            self.history.clear()

    def _draw(self, verdict: Verdict | None) -> None:
        session, rules = self._session, self._comparison.rules if self._comparison else None
        self.shown = Shown(
            session.lab.LAB, dict(session.values), session.engine, rules.rate if rules else None, verdict,
            self._window.timings, session.gate.rate,
        )  # fmt: skip
        self._saves.allow(not self.shown.empty)
        live = self._window.measurement()
        evidence = self._evidence(verdict) if self._comparison else ""
        parts = view.parts(live, self._kind, self._session.gate.rate)
        text = f"<div class='readout'>{evidence}<h3>Parts of a live frame</h3>{parts}</div>"
        if text != self._text.object:
            self._text.object = text

    def _roof(self, engine: str, dtype: str) -> float:
        """What rates there are compared with: as sampled in turn with the ways, until then as measured at the start."""
        if self._comparison is None:
            return nan
        beside = self._comparison.roof(engine, dtype)
        return beside if isfinite(beside) else roof().rate(engine, self._comparison.rules.rate.roof, dtype)

    def _evidence(self, verdict: Verdict | None) -> str:
        """The headline, the live picture's facts, and the ways with their bars."""
        if self._comparison is None:
            return ""
        rules, values, latest = self._comparison.rules, self._session.values, self._session.latest
        dtype, step = rules.dtype(values), rules.rate.step
        names = {"cpu": "host", "gpu": f"cuda:{values.get('device_index', 0)}"}
        rates = {kind: self._roof(name, dtype) for kind, name in names.items()}
        caches = {kind: roof().caches(name) for kind, name in names.items()}
        roofs = view.Roofs(rates, caches, rules.held(values))
        told = rules.facts(values, latest, rates[self._kind]) if latest else ()
        facts = view.facts(told, rules.rate, roofs, self._kind)
        drawing = rules.chart(values, recorded_figures())
        standings = verdict.standings if verdict else ()
        blocks = ""
        if drawing is None or drawing.beside:
            blocks = f"<h3>{rules.rate.unit}, logarithmic</h3>{view.ways(standings, rules.rate, dtype, roofs)}"
            if standings and all(standing.contestant.kind == "cpu" for standing in standings):
                blocks += view.others(rules.elsewhere(values, recorded_figures()))
        if drawing is not None:
            blocks += chart(drawing, standings, step)
        why = why_slower(verdict, roof().waking) if verdict else ""
        return f"{view.headline(verdict, why)}{facts}{blocks}{view.first_calls(standings)}"


@cache
def recorded_figures() -> tuple[Recorded, ...]:
    """The figures in assets/timings, read once a process; a broken file is named in the log and left out."""
    figures, problems = library()
    for problem in problems:
        pn.state.log(problem, level="warning")
    return tuple(figures)
