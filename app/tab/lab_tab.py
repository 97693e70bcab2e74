"""One lab in one tab: view, controls, readout and status bar around a session, from `start` to `close`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import panel as pn
from bokeh.document import Document

from app.page.address import LabAddress
from app.page.explain import label_html, term
from app.page.markup import filled, plain
from app.page.notices import Notices
from app.page.theme import html_pane
from app.readout.numbers import Numbers
from app.readout.readout import Fold, Readout
from app.server.admission import session_limiter
from app.tab.lab_view import ReadoutPanel, Size, StatusFact, first_values, parts_of, questions
from app.tab.lean_plots import lighten
from app.tab.plot_words import PlotWords, name_plots
from app.tab.publisher import Publisher
from app.tab.restore import Restorer
from app.tab.session import Session
from app.tab.stream import ignore
from app.upstream.document_changes import changed_together
from app.upstream.plot_pane import PlotPane
from compute.devices.backends import backend
from compute.lab.frames import Frame
from compute.lab.lab import Lab

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
COMPLETE = "Complete"  # running, but idle until a value changes
UNTRIED = "Not run yet: press Run"  # paused, in a lab that waits for the user to run it
ONLY_RECORDED = "Recorded numbers only"  # instead, while the page shows those


class StatusBar:
    """A line at the bottom of the main area, updated by `tick`; `facts` returns the lab's entries for a frame.

    untried(): returns the words for a lab that waits for the user to run it.
    """

    def __init__(
        self,
        session: Session,
        facts: Callable[[Frame], Sequence[StatusFact]],
        untried: Callable[[], str] = lambda: UNTRIED,
    ) -> None:
        self.session, self._facts, self._untried_words = session, facts, untried
        self.panel = html_pane("", styles=ACROSS, sizing_mode=None)
        session.param.watch(lambda *events: self.tick(), ["state", "busy", "playing"])
        self.tick()

    def tick(self) -> None:
        """Update the numbers to the latest frame."""
        session = self.session
        state = session.phase
        words = session.detail if session.busy else WORDS[state]
        if state == "running" and self._complete():
            state, words = "complete", COMPLETE
        if state == "paused" and not session.busy and self._untried():
            words = self._untried_words()
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
        """Return True if the lab reports that it has not begun."""
        return self.session.latest is not None and self.session.latest.facts.get("begun") == 0

    def _complete(self) -> bool:
        """Return True if the lab reports that its work is complete."""
        frame = self.session.latest
        return frame is not None and self.session.answered and frame.facts.get("finished") == 1


SIDEBAR, READOUT, HEADER, STATUS, PADDING = 280, 320, 57, 40, 24  # px
LEAST_VIEW = (200, 160)  # px of width and height of a view: a smaller window scrolls to the rest
QUESTIONS = "Questions to try"
QUESTIONS_STYLE = """
.article { color: var(--ink); font-size: var(--small, 14px); line-height: 1.35; }
.article ol { margin: 0; padding-left: 20px; }
.article li { margin: 0 0 4px; }
"""
TICK = 250  # ms between refreshes of status, curves and readout


def questions_fold(lab: type[Lab]) -> list[Fold]:
    """Return the questions of the lab's README.md for the right column, unfolded; an empty list without questions."""
    text = questions(lab)
    return [Fold(QUESTIONS, html_pane(text, QUESTIONS_STYLE), unfolded=True, margin=(8, 0))] if text else []


class LabTab:
    """Build the parts of a lab's tab and pass events between them. The page shows `main`, `controls` and `readout`.

    alone: show only the main picture; write_address: see app.page.address.LabAddress; followed(): returns whether
    followers watch this page, which then is refreshed while hidden; numbers: the source of the page's timings.

    started: whether the lab was opened; drawn: whether the browser has drawn the plots, after which frames are sent;
    first_drawn: published then; refreshed: published a few times a second while the tab is shown.
    """

    def __init__(
        self,
        lab: type[Lab],
        document: Document,
        window: Size,
        alone: bool = False,
        write_address: Callable[[str, bool], object] = ignore,
        followed: Callable[[], bool] = lambda: False,
        numbers: Numbers | None = None,
    ) -> None:
        self.parts = parts = parts_of(lab)
        self.session = session = Session(lab, document, first_values(lab, parts), parts.pace)
        self.lab_view = parts.view(session, view_size(window))
        self.lab_view.ready.subscribe(lambda _: self._stream())
        self.lab_view.alone = alone
        self.notices = Notices(document)
        # Set before the run button is built: a browser that is still rendering the button would miss the change.
        session.playing = parts.plays
        self.controls = parts.controls(session, self.lab_view, self.notices)
        self._numbers = numbers or Numbers()
        self.status = StatusBar(session, parts.facts, lambda: ONLY_RECORDED if self._numbers.chip else UNTRIED)
        self.readout: ReadoutPanel = (
            parts.readout(session, self.lab_view) if parts.readout else Readout(session, numbers)
        )
        self._numbers_watcher = self._numbers.param.watch(lambda event: session.later(self._follow_numbers), "chip")
        self._follow_numbers()
        self.questions = questions_fold(lab)
        panels = self.lab_view.panel, self.readout.panel
        plots = [pane.object for panel in panels for pane in panel.select(PlotPane)]
        lighten(plots)
        name_plots(plots)
        self.words = PlotWords(session)
        below = self.status.panel, self.notices.panel, self.words.panel, *self.controls.dialogs
        self.main = pn.Column(self.lab_view.panel, *below, margin=0, sizing_mode="stretch_both")
        session.delivered.subscribe(lambda delivered: self.readout.on_painted(delivered.timing))
        session.events.subscribe(self._event)
        session.value_changes.subscribe(self.controls.show_values)
        session.param.watch(lambda event: session.later(self._settle), "state")
        self.restorer = Restorer(self, self.notices.tell)
        self.address = LabAddress(self, write_address)
        session.events.subscribe(self.address.on_event)
        self.first_drawn: Publisher[None] = Publisher()
        self.refreshed: Publisher[None] = Publisher()
        self._followed = followed
        self.started = self.drawn = self._closed = False
        self.awaits_scene = False  # whether the lab runs only after its scene is restored
        self._shown = True  # whether the page shows this lab
        self._visible = True  # whether the browser tab is visible
        self._passed = 0  # TICKs since the last refresh
        self._warning = self._interim = ""

    def start(self, awaits_scene: bool = False) -> None:
        """Open the lab and run it if it plays by default; awaits_scene: run it only after a scene was restored."""
        self.started = True
        self.session.start()
        self.session.play(self.parts.plays and not awaits_scene)
        self.awaits_scene = awaits_scene

    def expect_no_scene(self) -> None:
        """Run as usual if no scene arrives, unless the lab has begun."""
        if self.awaits_scene:
            self.awaits_scene = False
            self.session.play(self.parts.plays)

    def _follow_numbers(self) -> None:
        self.controls.show_only_recorded(bool(self._numbers.chip))

    def _stream(self) -> None:
        """Start to send frames after the browser has drawn the plots."""
        if self._closed or self.drawn:
            return
        self.drawn = True
        self.notices.seen()
        self.session.later(lambda: self.first_drawn.publish(None))
        self.session.ready()
        self.session.document.add_periodic_callback(self._tick, TICK)

    def show(self, shown: bool) -> None:
        """Show or hide the lab. A hidden lab keeps its state, computes nothing and streams nothing."""
        self._shown = shown
        self.session.show(shown)
        if not shown:
            self.readout.hide()

    def close(self) -> None:
        """Release all resources."""
        self._closed = True
        self._numbers.param.unwatch(self._numbers_watcher)
        self.restorer.close()
        self.controls.close()
        self.session.close()
        self.readout.close()
        for publisher in (self.lab_view.ready, self.first_drawn, self.refreshed):
            publisher.close()

    def fit(self, room: Size, dark: bool, presenter: bool) -> None:
        """Follow the page's main area (px), colour scheme and type size.

        The change is applied immediately: a tab that is about to be shown is in no document yet, and its plots are sent
        whole. A later change could reach the browser before its plots and be lost.
        """
        self.lab_view.fit(room, dark, presenter)
        self.readout.set_theme(dark)

    def press(self, key: str) -> None:
        """Run the lab's action for `key`, if any; the page handles the other keys."""
        if key in self.controls.keys:
            self.controls.keys[key]()

    def look(self, visible: bool) -> None:
        """Record whether the browser tab is visible. Frames stop automatically when none is painted."""
        self._visible = visible
        if not visible:
            self.readout.hide()

    def _tick(self) -> None:
        """Refresh the parts that do not follow each frame; less often with many open pages, never while hidden."""
        if not self._shown or not (self._visible or self._followed()):
            return
        self._passed += 1
        if self._passed < session_limiter().crowding:
            return
        self._passed = 0
        with changed_together(self.session.document):
            for part in (self.lab_view, self.controls, self.status, self.restorer, self.address):
                part.tick()
            if not self.restorer.busy:  # the readout would compare a state that is about to change
                self.readout.tick()
            self.words.tick()
            self.refreshed.publish(None)
            self._warn()
            self._announce_backend()

    def _announce_backend(self) -> None:
        """Announce the backend that computes during the compilation of the chosen one, and the end of that."""
        notes = self.session.latest.notes if self.session.latest else {}
        interim, before = notes.get("interim", ""), self._interim
        self._interim = interim
        if interim and interim != before:
            self.notices.tell("info", f"{interim} …", about="backend")
        elif before and not interim and not notes.get("warning"):
            label = backend(self.session.confirmed["backend"]).label
            self.notices.tell("success", f"{label} is compiled and computes.", about="backend")

    def _warn(self) -> None:
        """Show a frame's warning when it begins, but not for each change of a number in it."""
        warning = self.session.latest.notes.get("warning", "") if self.session.latest else ""
        kind = re.sub(r"[-\d.]+", "", warning)
        if warning and kind != self._warning:
            self.notices.tell("warning", warning)
        self._warning = kind

    def _settle(self) -> None:
        """Remove the notes about a pause that has ended."""
        if not self.session.detail:
            self.notices.resumed()

    def _event(self, event: Any) -> None:
        if not self.controls.on_event(event):
            self.notices.announce(event)
        self.readout.on_event(event)


def view_size(
    window: Size, sidebar: bool = True, readout: bool = True, below: int = STATUS, above: int = HEADER
) -> Size:
    """Return the (width, height) in px that a window leaves to the view; above, below: px of the bars there.

    Both are at least LEAST_VIEW, whatever sizes a browser reports: plots reject negative sizes.
    """
    width = window[0] - SIDEBAR * sidebar - READOUT * readout - PADDING
    return max(LEAST_VIEW[0], width), max(LEAST_VIEW[1], window[1] - above - below - PADDING)
