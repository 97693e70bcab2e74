"""The status bar: the state in a word, then the numbers that a lecturer looks for."""

from __future__ import annotations

from html import escape
from math import isfinite

import panel as pn

from app.session import Session
from app.theme import stylesheet

ACROSS = {"position": "fixed", "left": "0", "width": "100%", "bottom": "0", "z-index": "1250"}  # a bar over the page
WORDS = {
    "starting": "Starting",
    "running": "Running",
    "paused": "Paused",
    "moving": "Moving",
    "restarting": "Engine restarting",
    "broken": "Engine stopped",
}


class StatusBar:
    """One line at the bottom of the main area, refreshed by `tick`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.panel = pn.pane.HTML("", stylesheets=[stylesheet()], styles=ACROSS, margin=0)
        session.param.watch(lambda *events: self.tick(), ["state", "detail"])
        self.tick()

    def tick(self) -> None:
        """Write the newest numbers."""
        session = self.session
        state = "restarting" if session.restarting else session.state
        words = session.detail if session.busy else WORDS[state]
        detail = escape(session.detail, quote=True)
        items = [f"<span class='state {state}' role='status' title=\"{detail}\">{escape(words)}</span>"]
        items += [f"<span>{label} <b class='{kind}'>{escape(text)}</b></span>" for label, text, kind in self._facts()]
        self.panel.object = f"<div class='status'>{''.join(items)}</div>"

    def _facts(self) -> list[tuple[str, str, str]]:
        frame, gate = self.session.latest, self.session.gate
        if frame is None:
            return []
        facts = frame.facts
        r, limit = facts["r"], facts["limit"]
        kind = "bad" if r > limit else "warn" if r == limit else ""
        latency = f"{gate.latency * 1e3:.0f} ms" if isfinite(gate.latency) else "–"
        items = [
            ("step", f"{facts['step']:,.0f}".replace(",", " "), ""),
            ("r", f"{r:.3f} of {limit:g}", kind),
            ("heat", f"{facts['heat']:.5g}", ""),
            ("drift", f"{facts['heat_drift']:+.1e}", ""),
        ]
        if "exact_error" in facts:
            items.append(("error against exact", f"{facts['exact_error']:.1e}", ""))
        if "racing_error" in facts:
            items.append(("error of the race", f"{facts['racing_error']:.1e}", "bad"))
        if facts["nonfinite"]:
            items.append(("not finite", f"{facts['nonfinite']:.0f} cells", "bad"))
        items += [("frames/s", f"{gate.rate:.0f}", ""), ("dropped", f"{gate.dropped}", ""), ("latency", latency, "")]
        return items
