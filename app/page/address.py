"""The address bar as a copy of the state: a link to the current state of the shown lab, as the card "Export" copies it.

A reload, a bookmark and the browser's Back button therefore restore the state. Each tab has a LabAddress. It compares
its lab with the last link on each refresh and writes a new link once a change has settled; for a running lab, every
PERIOD seconds. The engine reports the history that led to a field (`Session.request_history`), so the field itself is
not copied. If a link cannot contain everything, for example an image that is too large, one notice says so.

An action that deserves a "back" (another lab, a preset, a place: `Controls.landmark`) adds an entry to the browser's
history; every other change replaces the current entry.

`ui` in the address selects how much of the page is shown in a frame on a slide or a course page: `none` shows only the
lab's main picture, `minimal` adds the main controls, one slider and the headline, `full` shows everything. Keys work
the same at every level; cards that they open overlay the picture.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast
from urllib.parse import quote_plus

from bokeh.document import Document
from msgspec import structs

from app.tab.open_lab import OpenLab
from app.tab.restore import scene_of_lab
from compute.engine import messages
from compute.export.link import DISPLAY, LONGEST, NAME, PACE, RUN, packed
from compute.export.scene import LONGEST_WORDS, Scene, SceneError, Style

CALM = 0.3  # s without a change before the address is updated
PERIOD = 2.0  # s between two addresses of a running lab, and between two requests to the engine
MOST_PACKED = 8 * LONGEST  # characters of a history; longer ones are too long for any link
AT_WORK = ("running", "paused")  # states of a session that have an address


class LabAddress:
    """Update the address of one tab's lab. text: the link that was written last, "" before the first.

    write(query, push) is called with the query that belongs into the page's address and with whether it becomes a new
    entry of the browser's history.
    """

    def __init__(
        self, tab: OpenLab, write: Callable[[str, bool], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tab, self._write_query, self._clock = tab, write, clock
        self.text = ""
        self._push = False  # the next address becomes a new entry of the browser's history
        self._landmark: Any = None  # the landmark of the last address; None: a changed landmark is no action
        self._seen: Any = None  # the state at the last tick; `_since` is the time of its last change
        self._since = self._asked = -PERIOD
        self._asking: Any = None  # the state whose address is being made
        self._question = 0  # number of the last request; answers to earlier ones may arrive late, with an older state
        self._held: Any = None  # the state in the address; None if no tick has seen that state
        self._sure = False  # whether a second answer confirmed it: the first may predate the last change
        self._query = self._missing = ""  # the query in the bar; the parts that the last link left out

    def enter(self, push: bool) -> None:
        """Start to show the lab. push: the user chose it instead of another one."""
        self._push = push
        self.left()
        if self.text:
            self._write()

    def tick(self) -> None:
        """Follow the lab; called a few times a second."""
        session, now = self._tab.session, self._clock()
        if self._tab.restorer.busy or session.phase not in AT_WORK or session.latest is None:
            self._landmark = self._held = self._seen = None
            return
        state = self._state()
        if state == self._held and (self._sure or now - self._asked < PERIOD):
            return
        if state != self._seen:
            self._seen, self._since = state, now
        act = self._landmark is not None and self._tab.controls.landmark() != self._landmark
        waiting = self._asking is not None and now - self._asked < PERIOD
        due = now - self._since >= CALM or now - self._asked >= PERIOD or act
        if due and not waiting:
            self._asked, self._asking = now, state
            if session.lab.ENDS:  # the values of such a lab are its state
                self._follow({})
            else:
                self._question += 1
                session.request_history(self._question)

    def on_event(self, event: Any) -> None:
        """Write the address when the engine has answered with the history."""
        if not isinstance(event, messages.HistoryTold) or event.number != self._question:
            return
        if self._asking is not None and not self._tab.restorer.busy:
            self._follow(event.origin)

    def left(self) -> None:
        """Record that the bar now shows another address."""
        self._query = ""

    def forget(self) -> None:
        """Discard the link: another state is about to be loaded, and the link would not match it."""
        self.text = ""

    # -- inside

    def _state(self) -> tuple[Any, ...]:
        """Return the state that an address describes, for comparison."""
        session = self._tab.session
        frame = None if session.lab.ENDS or session.latest is None else session.latest.number
        controls = self._tab.controls
        shown = controls.style(self._part()), controls.pace, controls.display_text
        return dict(session.values), session.view, shown, session.playing, frame

    def _part(self) -> str:
        frame = self._tab.session.latest
        return next(iter(frame.rasters), "") if frame is not None else ""

    def _follow(self, origin: Mapping[str, Any]) -> None:
        """Write the address of the lab's current state. origin: its history, as the engine reports it.

        If the state has changed since the request, the address matches neither the old nor the new state.
        """
        asked, self._asking = self._asking, None
        again, before = asked is not None and asked == self._held, self.text
        self._held = asked if asked == self._state() else None
        session, part = self._tab.session, self._part()
        style = self._tab.controls.style(part)
        self.text, missing = self._linked(origin, part, style)
        self._sure = session.lab.ENDS or (again and self.text == before)
        landmark = self._tab.controls.landmark()
        self._push |= self._landmark is not None and landmark != self._landmark
        self._landmark = landmark
        if missing and not self._missing:
            words = f"The link in the address bar does not include everything: {missing}. A reload loses it."
            self._tab.notices.tell("info", words)
        self._missing = missing
        self._write()

    def _linked(self, origin: Mapping[str, Any], part: str, style: Style) -> tuple[str, str]:
        """Return a link and, as text, the parts of the state that it leaves out.

        The view, which the browser sets, is left out if it exceeds the bounds of a scene; if the rest exceeds them too,
        the link leads to the lab's initial state.
        """
        session, words = self._tab.session, ""
        for view in dict.fromkeys((session.view, None)):
            try:
                scene = scene_of_lab(session.lab, dict(session.values), origin, part, style, view)
            except SceneError as error:
                words = words or str(error)
                continue
            text, missing = link_of(structs.replace(scene, missing=words[:LONGEST_WORDS]) if words else scene)
            return text, words or missing
        return packed(Scene(session.lab.LAB, {}, missing=words[:LONGEST_WORDS])), words

    @property
    def query(self) -> str:
        """Return the address query that shows the lab's state at its speed, running if it runs; "" before a link."""
        session, controls = self._tab.session, self._tab.controls
        runs = session.playing and not session.lab.ENDS
        texts = {PACE: controls.pace, DISPLAY: controls.display_text}
        more = f"&{RUN}=1" * runs + "".join(f"&{name}={quote_plus(text)}" for name, text in texts.items() if text)
        return f"{NAME}={self.text}{more}" if self.text else ""

    def _write(self) -> None:
        query = self.query
        if query != self._query or self._push:
            push, self._query, self._push = self._push, query, False
            self._write_query(query, push)


def link_of(scene: Scene) -> tuple[str, str]:
    """Return the text of a link to `scene`, and a description of the parts that it leaves out.

    A history that is too long for a link is left out: the link then leads to the initial field.
    """
    why = f"the changes of the field are too long for a link of {LONGEST} characters"
    if sum(len(str(entry)) for entry in scene.history) <= MOST_PACKED:
        try:
            return packed(scene), scene.missing
        except SceneError as error:
            why = str(error)
    try:
        return packed(structs.replace(scene, history=(), steps=0, missing=why[:200])), why
    except SceneError as error:
        return packed(Scene(scene.lab, {}, missing=str(error)[:200])), str(error)


def asked_to_run(document: Document) -> bool:
    """Return True if the address of the page requests that the lab runs."""
    request = document.session_context.request if document.session_context else None
    return request is not None and request.arguments.get(RUN) == [b"1"]


def asked_text(document: Document, name: str) -> str:
    """Return the parameter `name` of the page's address, PACE or DISPLAY, as text; "" without it."""
    request = document.session_context.request if document.session_context else None
    given = request.arguments.get(name, []) if request else []
    return given[0].decode("utf-8", "replace") if given else ""


# -- how much of the page is shown

LEVEL_NAME = "ui"  # of the entry in the address
Level = Literal["none", "minimal", "full"]
FULL: Level = "full"
LEVELS: tuple[Level, ...] = ("none", "minimal", FULL)
WITHOUT_HEADER = ":root { --header: 0px; }"
CSS: dict[Level, str] = {  # of the page: hidden parts occupy no space
    "none": WITHOUT_HEADER + ":root { --status-bar: hidden; }",
    "minimal": WITHOUT_HEADER,
    FULL: "",
}
MOST_TOLD = 40  # characters of an unknown value that the message quotes


def asked_level(document: Document) -> Level:
    """Return the level that the page's address requests, `full` by default; ValueError names the permitted ones."""
    request = document.session_context.request if document.session_context else None
    given = request.arguments.get(LEVEL_NAME, []) if request else []
    if not given:
        return FULL
    text = given[0].decode("utf-8", "replace")
    if text not in LEVELS:
        raise ValueError(f"{LEVEL_NAME} must be one of {', '.join(LEVELS)}, not {text[:MOST_TOLD]!r}")
    return cast(Level, text)
