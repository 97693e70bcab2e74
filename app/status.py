"""The status bar: the state in a word, then the numbers that a lecturer looks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

import panel as pn

from app.lab_view import StatusFact
from app.markup import filled
from app.session import Session
from app.theme import stylesheet
from compute.frames import Frame

ACROSS = {"position": "fixed", "left": "0", "width": "100%", "bottom": "0", "z-index": "1250"}  # a bar over the page
WORDS = {
    "starting": "Starting",
    "running": "Running",
    "paused": "Paused",
    "moving": "Moving",
    "restarting": "Engine restarting",
    "broken": "Engine stopped",
    "closed": "Closed",
}
COMPLETE = "Complete"  # running, with nothing left to do until a value changes
UNTRIED = "Not run yet: press Run"  # paused, of a lab that does nothing before it is asked to


class StatusBar:
    """One line at the bottom of the main area, refreshed by `tick`; `facts` gives the lab's own numbers of a frame."""

    def __init__(self, session: Session, facts: Callable[[Frame], Sequence[StatusFact]]) -> None:
        self.session, self._facts = session, facts
        self.panel = pn.pane.HTML("", stylesheets=[stylesheet()], styles=ACROSS, margin=0)
        session.param.watch(lambda *events: self.tick(), ["state", "busy", "playing"])
        self.tick()

    def tick(self) -> None:
        """Write the newest numbers."""
        session = self.session
        state = session.phase
        words = session.detail if session.busy else WORDS[state]
        if state == "running" and self._complete():
            state, words = "complete", COMPLETE
        if state == "paused" and not session.busy and self._untried():
            words = UNTRIED
        said = "<span class='state {state}' role='status' title='{detail}'>{words}</span>"
        items = [filled(said, state=state, detail=session.detail, words=words)]
        fact = "<span>{label} <b class='{kind}'>{text}</b></span>"
        items += [filled(fact, label=label, text=text, kind=kind) for label, text, kind in self._numbers()]
        self.panel.object = f"<div class='status'>{''.join(items)}</div>"

    def _numbers(self) -> list[StatusFact]:
        frame, gate = self.session.latest, self.session.gate
        if frame is None:
            return []
        latency = f"{gate.latency * 1e3:.0f} ms" if isfinite(gate.latency) else "–"
        stream = [("frames/s", f"{gate.rate:.0f}", ""), ("dropped", f"{gate.dropped}", ""), ("latency", latency, "")]
        return [*self._facts(frame), *stream]

    def _untried(self) -> bool:
        """Whether the lab says that it has not begun."""
        return self.session.latest is not None and self.session.latest.facts.get("begun") == 0

    def _complete(self) -> bool:
        """Whether the lab says that nothing is left to do."""
        frame = self.session.latest
        return frame is not None and self.session.answered and frame.facts.get("finished") == 1
