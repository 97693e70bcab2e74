"""CPU against GPU, live: one large number, then the evidence for it.

What is compared and when a speed-up may be shown is decided by compute.comparison; here it is asked for, four times a
second, and drawn. Recorded and cited figures have blocks of their own and never meet a measured median.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import panel as pn
import panel_material_ui as pmui

from app import readout_view as view
from app.lobby import lobby
from app.readout_plots import History
from app.theme import ASSETS, stylesheet
from compute.backends import backend
from compute.bench.roof import roof
from compute.comparison.contest import Verdict, shared_book
from compute.comparison.live import Comparison
from compute.frames import Frame
from compute.record import CITED, Recorded, library, nearest
from compute.timings import Spread, Window

if TYPE_CHECKING:
    from app.session import Session
    from compute.engine import LabHandle

REDRAW = 1.0  # seconds between two versions of the text: numbers that flicker cannot be read
AT_WORK = ("running", "paused")  # states of a session in which something may be measured for it


class Readout:
    """The right column of one session. `frame`, `tick`, `event` and `close` belong to the document's loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._comparison = Comparison(session.lab.LAB, self._open, shared_book())
        self._window = Window()
        self._fresh: list[float] = []  # step seconds of the frames since the last tick
        self._setting: tuple[Any, ...] = ()
        self._drawn_at = -REDRAW
        self._state = ""
        self.history = History()
        sheets = [stylesheet(), (ASSETS / "readout.css").read_text(encoding="utf-8")]
        self._text = pn.pane.HTML("", stylesheets=sheets, sizing_mode="stretch_width", margin=0)
        plot = pn.pane.Bokeh(self.history.figure, sizing_mode="stretch_width", margin=0)
        self.panel = pmui.Column(self._text, plot, sizing_mode="stretch_width", margin=(8, 16))
        self._draw(None)

    # -- what the page calls

    def frame(self, frame: Frame) -> None:
        """One painted frame, its timing complete with the delivery."""
        self._window.add(frame.timing)
        self._comparison.witness(frame.timing)
        if not frame.timing.first_call:
            self._fresh.append(frame.timing.step_seconds)

    def tick(self) -> None:
        """Four times a second: go on comparing, add to the history, and every REDRAW seconds write the text."""
        session, now = self._session, time.monotonic()
        if session.latest is None or session.state not in AT_WORK:
            return
        roof().start()
        self._comparison.follow(session.values)
        self._comparison.tick()
        self._follow()
        self.history.add(now, Spread.of(self._fresh).median)
        self._fresh.clear()
        self.history.draw(now, self._kind)
        verdict = self._comparison.verdict()
        state = verdict.state if verdict else ""
        if state != self._state or now - self._drawn_at >= REDRAW:
            self._state, self._drawn_at = state, now
            self._draw(verdict)

    def event(self, event: Any) -> None:
        """An engine event of the live lab: nothing here depends on it, the comparison has labs of its own."""

    def dress(self, dark: bool) -> None:
        """Colour the history for the dark or the light scheme; all else follows the page's variables."""
        self.history.dress(dark)

    def close(self) -> None:
        """The session is over: end what is being measured for it."""
        self._comparison.close()

    # -- inside

    @property
    def _kind(self) -> str:
        return "cpu" if backend(self._session.values["backend"]).device == "host" else "gpu"

    def _open(self, engine: str, values: dict[str, Any], on_event: Any) -> LabHandle:
        return lobby().engines.get(engine).open(self._session.lab.LAB, values, on_event)

    def _follow(self) -> None:
        """Start the history and the window afresh when they are about something else."""
        values = self._session.values
        setting = tuple(values.get(name) for name in ("backend", "variant", "ny", "nx", "dtype", "edges"))
        if setting != self._setting:
            self._setting = setting
            self._window.clear()
            self._fresh.clear()
            self.history.clear()

    def _draw(self, verdict: Verdict | None) -> None:
        values = self._session.values
        cell_bytes = 2 * np.dtype(values["dtype"]).itemsize
        roofs = {"cpu": roof().rate("host"), "gpu": roof().rate(f"cuda:{values.get('device_index', 0)}")}
        live = self._window.measurement()
        blocks = view.ways(verdict.standings, cell_bytes, roofs) if verdict else ""
        if verdict and all(standing.contestant.kind == "cpu" for standing in verdict.standings):
            blocks += view.others(self._elsewhere())
        blocks += view.first_calls(verdict.standings) if verdict else ""
        html = (
            f"{view.headline(verdict)}<h3>Gcell/s, logarithmic</h3>{blocks}"
            f"<h3>Parts of a live frame</h3>{view.parts(live, self._kind, self._session.gate.rate)}"
        )
        text = f"<div class='readout'>{html}</div>"
        if text != self._text.object:
            self._text.object = text

    def _elsewhere(self) -> list[Recorded]:
        """GPU figures for a machine without one: the recorded one nearest to this grid, and the cited one."""
        values = self._session.values
        figure = nearest(recorded_figures(), values["ny"], values["nx"], values["dtype"])
        return [*([figure] if figure else []), *CITED]


@cache
def recorded_figures() -> tuple[Recorded, ...]:
    """The figures in assets/timings, read once a process; a broken file is named in the log and left out."""
    figures, problems = library()
    for problem in problems:
        pn.state.log(problem, level="warning")
    return tuple(figures)
