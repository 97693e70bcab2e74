"""One lab in one tab: stage, controls, readout and status bar around a session, alive between `start` and `close`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import panel as pn
from bokeh.document import Document

from app.export.restore import Restorer
from app.notices import Notices
from app.readout import Readout
from app.session import Session
from app.status import StatusBar
from app.stream import Delivered
from app.views import Column, first_values, view_of
from compute.lab import Lab

SIDEBAR, READOUT, HEADER, STATUS, PADDING = 280, 320, 57, 40, 24  # px
TICK = 250  # ms between refreshes of status, curves and readout


class LabTab:
    """Builds the parts and passes events between them. `main`, `controls` and `readout` are what the page shows.

    drawn: whether the browser has drawn the plots; frames come from then on. listeners hear every engine event.
    """

    def __init__(self, lab: type[Lab], document: Document, window: tuple[int, int]) -> None:
        self.parts = parts = view_of(lab)
        self.session = session = Session(lab, document, first_values(lab, parts), parts.pace)
        self.stage = parts.stage(session, room(window))
        self.stage.on_ready = self._stream
        self.notices = Notices(document)
        self.controls = parts.controls(session, self.stage, self.notices)
        self.status = StatusBar(session, parts.facts)
        self.readout: Column = parts.readout(session, self.stage) if parts.readout else Readout(session)
        self.main = pn.Column(
            self.stage.panel, self.status.panel, self.notices.panel, margin=0, sizing_mode="stretch_both"
        )
        session.on_delivered = self._delivered
        session.on_event = self._event
        session.on_values = self.controls.follow
        self.restorer = Restorer(self, self.notices.tell)
        self.listeners: list[Callable[[Any], None]] = []
        self.on_drawn: Callable[[], object] = _ignore
        self.drawn = self._closed = False
        self._shown = True  # whether this is the lab that the page shows
        self._scheme = (False, False)  # dark and presenter: as plots are made
        self._warning = ""

    def start(self) -> None:
        """Open the lab, and let it run if it is one that plays by itself."""
        self.session.start()
        self.session.play(self.parts.plays)

    def _stream(self) -> None:
        """The browser has drawn the plots: send it frames."""
        if self._closed:
            return
        self.drawn = True
        if self._scheme != (False, False):
            self._colour()
        self.session.later(self.on_drawn)
        self.session.ready()
        self.session.document.add_periodic_callback(self._tick, TICK)

    def show(self, shown: bool) -> None:
        """A lab that is not shown computes nothing, streams nothing, and keeps its state."""
        self._shown = shown
        self.session.show(shown)

    def close(self) -> None:
        """Give everything back."""
        self._closed = True
        self.restorer.close()
        self.session.close()
        self.readout.close()

    def fit(self, window: tuple[int, int], sidebar: bool, readout: bool) -> None:
        """Lay the stage out in a window of that many px, with or without the bars beside it."""
        self.session.later(lambda: self.stage.fit(*room(window, sidebar, readout)))

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size; plots that the browser has not drawn yet must not change, and follow
        once it has.
        """
        if (dark, presenter) != self._scheme:
            self._scheme = dark, presenter
            if self.drawn:
                self._colour()

    def _colour(self) -> None:
        self.session.later(lambda: self.stage.dress(*self._scheme))
        self.session.later(lambda: self.readout.dress(self._scheme[0]))

    def press(self, key: str) -> None:
        """Do what this lab's key stands for; others are the page's."""
        if key in self.parts.keys:
            self.controls.press(self.parts.keys[key])

    def present(self, on: bool, cramped: bool) -> None:
        """Presenter mode goes on or off; `cramped`: in a low window."""
        self.controls.present(on, cramped)

    def _tick(self) -> None:
        if not self._shown:
            return
        for part in (self.stage, self.controls, self.status, self.readout, self.restorer):
            part.tick()
        self._warn()

    def _warn(self) -> None:
        """A frame may say that it is not what it seems: said when that begins, not whenever a number in it changes."""
        warning = self.session.latest.notes.get("warning", "") if self.session.latest else ""
        kind = re.sub(r"[-\d.]+", "", warning)
        if warning and kind != self._warning:
            self.notices.tell("warning", warning)
        self._warning = kind

    def _delivered(self, delivered: Delivered) -> None:
        self.readout.frame(delivered.timed)

    def _event(self, event: Any) -> None:
        if not self.controls.hear(event):
            self.notices.announce(event)
        self.readout.event(event)
        for listener in self.listeners:
            listener(event)


def _ignore() -> None:
    """Nobody waits."""


def room(window: tuple[int, int], sidebar: bool = True, readout: bool = True) -> tuple[int, int]:
    """(width, height) in px that a window of that size leaves to the stage."""
    width = window[0] - SIDEBAR * sidebar - READOUT * readout - PADDING
    return width, window[1] - HEADER - STATUS - PADDING
