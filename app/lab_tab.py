"""One lab in one tab: view, controls, readout and status bar around a session, alive between `start` and `close`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import panel as pn
from bokeh.document import Document

from app.address import LabAddress
from app.admission import session_limiter
from app.bokeh_messages import changed_together
from app.explain import label_html, term
from app.export.restore import Restorer
from app.lab_view import ReadoutPanel, Size, StatusFact, first_values, parts_of, questions
from app.lean_plots import lighten
from app.markup import filled, plain
from app.notices import Notices
from app.plot_words import PlotWords, name_plots
from app.readout import Fold, Readout
from app.session import Session
from app.stream import Delivered, ignore
from app.theme import html_pane
from app.upstream.plot_pane import PlotPane
from compute.frames import Frame
from compute.lab import Lab

ACROSS = {"position": "fixed", "left": "0", "width": "100%", "bottom": "0", "z-index": "1250"}  # a bar over the page
WORDS = {
    "starting": "Starting",
    "running": "Running",
    "paused": "Paused",
    "moving": "Moving",
    "restarting": "Engine restarting",
    "broken": "Engine stopped",
    "failed": "Stopped",
    "closed": "Closed",
}
COMPLETE = "Complete"  # running, with nothing left to do until a value changes
UNTRIED = "Not run yet: press Run"  # paused, of a lab that does nothing before it is asked to


class StatusBar:
    """One line at the bottom of the main area, refreshed by `tick`; `facts` gives the lab's own numbers of a frame."""

    def __init__(self, session: Session, facts: Callable[[Frame], Sequence[StatusFact]]) -> None:
        self.session, self._facts = session, facts
        self.panel = html_pane("", styles=ACROSS, sizing_mode=None)
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
        said = filled("{words}", words=words)
        if session.detail and session.detail != words:
            said = term(said, plain(f"{words}: {session.detail}"), "state")
        head = filled("<span class='state {state}' role='status'>", state=state)
        items = [f"{head}{said}</span>"]
        fact = "<b class='{kind}'>{text}</b></span>"
        items += [
            f"<span>{label_html(label)} {filled(fact, text=text, kind=kind)}" for label, text, kind in self._numbers()
        ]
        self.panel.object = f"<div class='status'>{''.join(items)}</div>"

    def _numbers(self) -> list[StatusFact]:
        frame = self.session.latest
        return list(self._facts(frame)) if frame is not None else []

    def _untried(self) -> bool:
        """Whether the lab says that it has not begun."""
        return self.session.latest is not None and self.session.latest.facts.get("begun") == 0

    def _complete(self) -> bool:
        """Whether the lab says that nothing is left to do."""
        frame = self.session.latest
        return frame is not None and self.session.answered and frame.facts.get("finished") == 1


SIDEBAR, READOUT, HEADER, STATUS, PADDING = 280, 320, 57, 40, 24  # px
LEAST_VIEW = (200, 160)  # px of width and height of a view: what is cut off in a smaller window can be scrolled to
QUESTIONS = "Questions to try"
QUESTIONS_STYLE = """
.article { color: var(--ink); font-size: var(--small, 14px); line-height: 1.35; }
.article ol { margin: 0; padding-left: 20px; }
.article li { margin: 0 0 4px; }
"""
TICK = 250  # ms between refreshes of status, curves and readout


def questions_fold(lab: type[Lab]) -> list[Fold]:
    """Return the questions of the lab's README.md for the right column, unfolded; none without any."""
    text = questions(lab)
    return [Fold(QUESTIONS, html_pane(text, QUESTIONS_STYLE), unfolded=True, margin=(8, 0))] if text else []


class LabTab:
    """Builds the parts and passes events between them. `main`, `controls` and `readout` are what the page shows.

    started: whether the lab was opened; drawn: whether the browser has drawn the plots; frames come from then on.
    listeners: called with each engine event; on_tick: a few times a second, while it is shown.
    """

    def __init__(self, lab: type[Lab], document: Document, window: Size, alone: bool = False) -> None:
        """alone: whether only the main picture is shown."""
        self.parts = parts = parts_of(lab)
        self.session = session = Session(lab, document, first_values(lab, parts), parts.pace)
        self.lab_view = parts.view(session, view_size(window))
        self.lab_view.on_ready = self._stream
        self.lab_view.alone = alone
        self.notices = Notices(document)
        session.playing = parts.plays  # a button that changes while a browser still makes it would show what it was
        self.controls = parts.controls(session, self.lab_view, self.notices)
        self.status = StatusBar(session, parts.facts)
        self.readout: ReadoutPanel = parts.readout(session, self.lab_view) if parts.readout else Readout(session)
        self.questions = questions_fold(lab)
        panels = self.lab_view.panel, self.readout.panel
        plots = [pane.object for panel in panels for pane in panel.select(PlotPane)]
        lighten(plots)
        name_plots(plots)
        self.words = PlotWords(session)
        below = self.status.panel, self.notices.panel, self.words.panel, *self.controls.dialogs
        self.main = pn.Column(self.lab_view.panel, *below, margin=0, sizing_mode="stretch_both")
        session.on_delivered = self._delivered
        session.on_event = self._event
        session.on_values = self.controls.show_values
        session.param.watch(lambda event: session.later(self._settle), "state")
        self.restorer = Restorer(self, self.notices.tell)
        self.address = LabAddress(self)
        self.listeners: list[Callable[[Any], None]] = [self.address.on_event]
        self.on_drawn: Callable[[], object] = ignore
        self.on_tick: Callable[[], object] = ignore
        self.followed: Callable[[], bool] = lambda: False  # whether others look on, though the tab may be hidden
        self.started = self.drawn = self._closed = False
        self.awaits_scene = False  # for its scene, before it runs
        self._shown = True  # whether this is the lab that the page shows
        self._visible = True  # whether the browser's tab can be seen
        self._passed = 0  # TICKs since the last refresh
        self._warning = ""

    def start(self, awaits_scene: bool = False) -> None:
        """Open the lab, and let it run if it is one that plays by itself; awaits_scene: not before that is restored."""
        self.started = True
        self.session.start()
        self.session.play(self.parts.plays and not awaits_scene)
        self.awaits_scene = awaits_scene

    def wait_no_longer(self) -> None:
        """There is no scene to wait for: begin as usual, unless the lab has begun."""
        if self.awaits_scene:
            self.awaits_scene = False
            self.session.play(self.parts.plays)

    def _stream(self) -> None:
        """The browser has drawn the plots: send it frames."""
        if self._closed or self.drawn:
            return
        self.drawn = True
        self.notices.seen()
        self.session.later(self.on_drawn)
        self.session.ready()
        self.session.document.add_periodic_callback(self._tick, TICK)

    def show(self, shown: bool) -> None:
        """A lab that is not shown computes nothing, streams nothing, and keeps its state."""
        self._shown = shown
        self.session.show(shown)
        if not shown:
            self.readout.hide()

    def close(self) -> None:
        """Give everything back."""
        self._closed = True
        self.restorer.close()
        self.controls.close()
        self.session.close()
        self.readout.close()

    def fit(self, room: Size, dark: bool, presenter: bool) -> None:
        """Follow the page's main area (px), scheme and type size.

        At once: a tab that is about to be shown is in no document yet, and its plots are sent whole. A change that is
        made after that can come to the browser before them, and be lost.
        """
        self.lab_view.fit(room, dark, presenter)
        self.readout.set_theme(dark)

    def press(self, key: str) -> None:
        """Do what this lab's key stands for; others are the page's."""
        if key in self.controls.keys:
            self.controls.keys[key]()

    def look(self, visible: bool) -> None:
        """The browser's tab was hidden, or is seen again. Frames stop by themselves where none is painted."""
        self._visible = visible
        if not visible:
            self.readout.hide()

    def _tick(self) -> None:
        """Refresh what does not follow each frame: more seldom the more pages share the loop, never for nobody."""
        if not self._shown or not (self._visible or self.followed()):
            return
        self._passed += 1
        if self._passed < session_limiter().crowding:
            return
        self._passed = 0
        with changed_together(self.session.document):
            for part in (self.lab_view, self.controls, self.status, self.restorer, self.address):
                part.tick()
            if not self.restorer.busy:  # it would compare what is about to change
                self.readout.tick()
            self.words.tick()
            self.on_tick()
            self._warn()

    def _warn(self) -> None:
        """A frame may say that it is not what it seems: said when that begins, not whenever a number in it changes."""
        warning = self.session.latest.notes.get("warning", "") if self.session.latest else ""
        kind = re.sub(r"[-\d.]+", "", warning)
        if warning and kind != self._warning:
            self.notices.tell("warning", warning)
        self._warning = kind

    def _settle(self) -> None:
        """Drop the notes on a pause that is over."""
        if not self.session.detail:
            self.notices.resumed()

    def _delivered(self, delivered: Delivered) -> None:
        self.readout.on_painted(delivered.timing)

    def _event(self, event: Any) -> None:
        if not self.controls.on_event(event):
            self.notices.announce(event)
        self.readout.on_event(event)
        for listener in self.listeners:
            listener(event)


def view_size(
    window: Size, sidebar: bool = True, readout: bool = True, below: int = STATUS, above: int = HEADER
) -> Size:
    """(width, height) in px that a window of that size leaves to the view; above, below: px of the bars there.

    Both are at least LEAST_VIEW, whatever a browser says of its window and its bars: plots refuse sizes below 0.
    """
    width = window[0] - SIDEBAR * sidebar - READOUT * readout - PADDING
    return max(LEAST_VIEW[0], width), max(LEAST_VIEW[1], window[1] - above - below - PADDING)
