"""The address bar holds the state: a link, as the card "Export" copies it, to what the shown lab shows now.

So a reload, a bookmark and the browser's Back bring it back. A LabAddress, one a tab, looks at its lab with each
refresh and, when something has changed and has come to rest, writes the link anew; of a lab that runs, every PERIOD
seconds. How a field came about the engine tells as its history (`Session.tell_history`): no field is copied for it.
What a link cannot hold, an image that is too large for one, say, is said in words once.

An act that is worth a "back" (another lab, a preset, a place: `Controls.landmark`) adds an entry to the browser's
history; everything else replaces the present one.

`ui` in the address says how much of the page is shown, for a frame on a slide or on a course's page: `none` the lab's
main picture alone, `minimal` the main controls, one slider and the headline below it, `full` everything. Keys do in all
of them what they do otherwise; cards that they open lie over the picture.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from bokeh.document import Document
from msgspec import structs

from app.export.source import scene_of_lab
from app.stream import ignore
from compute.engine import messages
from compute.export.link import LONGEST, NAME, RUN, packed
from compute.export.scene import LONGEST_WORDS, Scene, SceneError, Style

if TYPE_CHECKING:
    from app.lab_tab import LabTab


CALM = 0.3  # s without a change after which the address follows
PERIOD = 2.0  # s between two addresses of a lab that runs, and until the engine is asked once more
MOST_PACKED = 8 * LONGEST  # characters of a history up to which it is worth trying whether a link holds it
AT_WORK = ("running", "paused")  # states of a session that have an address


class LabAddress:
    """Keeps the address of one tab's lab up to date. text: the link that was written last, "" before the first.

    on_written(query, push) is called with what is to follow the page's address, and with whether it is worth a "back".
    """

    def __init__(self, tab: LabTab, clock: Callable[[], float] = time.monotonic) -> None:
        self._tab, self._clock = tab, clock
        self.text = ""
        self.on_written: Callable[[str, bool], object] = ignore
        self._push = False  # the next address is worth a "back"
        self._landmark: Any = None  # when the last address was written; None: whatever comes is no act
        self._seen: Any = None  # the state at the last look, and since when it has been like that
        self._since = self._asked = -PERIOD
        self._asking: Any = None  # the state whose address is being made
        self._question = 0  # number of the last one: the answer to an older one may come late, and tell an older state
        self._held: Any = None  # the state that the address holds, None if no state that was seen
        self._sure = False  # whether the engine has said so twice: its first answer may be of before the last change
        self._query = self._missing = ""  # what is in the bar; what the last link did not hold

    def enter(self, push: bool) -> None:
        """The lab is shown from now on. push: instead of another one, by somebody's choice."""
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
            if session.lab.ENDS:  # its values are its state
                self._follow({})
            else:
                self._question += 1
                session.tell_history(self._question)

    def on_event(self, event: Any) -> None:
        """Take the engine's answer."""
        if not isinstance(event, messages.HistoryTold) or event.number != self._question:
            return
        if self._asking is not None and not self._tab.restorer.busy:
            self._follow(event.origin)

    def left(self) -> None:
        """Another address is in the bar now."""
        self._query = ""

    def forget(self) -> None:
        """Another state is on its way, so that no link that was written holds what is shown."""
        self.text = ""

    # -- inside

    def _state(self) -> tuple[Any, ...]:
        """What an address tells of, to be compared."""
        session = self._tab.session
        frame = None if session.lab.ENDS or session.latest is None else session.latest.number
        return dict(session.values), session.view, self._tab.controls.style(self._part()), session.playing, frame

    def _part(self) -> str:
        frame = self._tab.session.latest
        return next(iter(frame.rasters), "") if frame is not None else ""

    def _follow(self, origin: Mapping[str, Any]) -> None:
        """Write the address of the lab as it is, which came about as `origin` says.

        Where it has changed since that was asked for, the address holds neither this state nor that one.
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
        """Return a link, and what it does not hold; without the view where that, which a browser sets, is in no scene's
        bounds, and to the lab's beginning where more is not.
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
        """What follows the page's address to show what the lab shows, running if it does; "" before it is known."""
        session = self._tab.session
        runs = session.playing and not session.lab.ENDS
        return f"{NAME}={self.text}" + f"&{RUN}=1" * runs if self.text else ""

    def _write(self) -> None:
        query = self.query
        if query != self._query or self._push:
            push, self._query, self._push = self._push, query, False
            self.on_written(query, push)


def link_of(scene: Scene) -> tuple[str, str]:
    """Return the text of a link to `scene`, and in words what it does not hold.

    A history that is too long for a link stays out of it: the link leads to the beginning then.
    """
    why = f"what was done to the field is too long for a link of {LONGEST} characters"
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
    """Whether the address by which the page was reached says that the lab runs."""
    request = document.session_context.request if document.session_context else None
    return request is not None and request.arguments.get(RUN) == [b"1"]


# -- how much of the page is shown

LEVEL_NAME = "ui"  # of the entry in the address
Level = Literal["none", "minimal", "full"]
FULL: Level = "full"
LEVELS: tuple[Level, ...] = ("none", "minimal", FULL)
WITHOUT_HEADER = ":root { --header: 0px; }"
CSS: dict[Level, str] = {  # of the page: what is not there takes no room
    "none": WITHOUT_HEADER + ":root { --status-bar: hidden; }",
    "minimal": WITHOUT_HEADER,
    FULL: "",
}
MOST_TOLD = 40  # characters of an unknown value that are told


def asked_level(document: Document) -> Level:
    """Return how much the page's address asks for, `full` if it says nothing; ValueError names what it may be."""
    request = document.session_context.request if document.session_context else None
    given = request.arguments.get(LEVEL_NAME, []) if request else []
    if not given:
        return FULL
    text = given[0].decode("utf-8", "replace")
    if text not in LEVELS:
        raise ValueError(f"{LEVEL_NAME} must be one of {', '.join(LEVELS)}, not {text[:MOST_TOLD]!r}")
    return cast(Level, text)
