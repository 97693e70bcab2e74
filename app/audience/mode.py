"""Audience mode of one page: the room that follows it, the card with code and QR, the lecturer's second window.

Off until the lecturer opens a room. Phones find it by a link that the browser makes of the page's own address, as it
was reached; one that was reached as localhost says what to do instead.

What the page says goes to viewers as words, and whoever shows them shows them as text: HTML of ours (a headline, a
story's step) is taken apart here, and none leaves.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Protocol

import param
from bokeh.document import Document

from app.audience.feed import PageFeed, Picture
from app.audience.rooms import RoomError, rooms
from app.export.restore import beginning
from app.lab_tab import WORDS
from app.lab_view import SaysHeadline
from app.markup import plain
from app.presenter import PresenterBar
from app.qr_code import is_local, qr
from app.server.hosts import is_host
from app.theme import ASSETS
from app.widgets import Card, card_script, icon
from compute.backends import backend
from compute.export.link import NAME, RUN, asked_in, packed, unpacked

if TYPE_CHECKING:
    from app.lab_tab import LabTab
    from app.stories import StoryTeller


TICK = 500  # ms between two looks at how many follow
BUTTON_WORDS = "Audience: phones follow this page; the lecturer's second window (Q)"
LONGEST_ADDRESS = 300  # characters
BASE = re.compile(r"https?://([^/?#]+)/(?:[\w.~%@+-]+/)*follow/", re.ASCII)  # no markup
STYLE = (ASSETS / "audience.css").read_text(encoding="utf-8")


class AudiencePage(Protocol):
    """What audience mode needs of the page."""

    document: Document
    current: LabTab | None
    stories: StoryTeller
    bar: PresenterBar
    visible: bool  # whether the browser's tab can be seen


class AudienceCard(Card):
    """The card with the room's code, as static/audience.js draws it; while it is closed, a button with the number."""

    _esm = card_script("audience.js")

    def __init__(self, told: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(told, width=0, height=0, stylesheets=[STYLE])


class AudienceMode:
    """The room and the windows of one page. `button` belongs into its header, `card` into its body.

    away: whether the page's browser has lost its connection. It is the feed's Subject.
    """

    def __init__(self, page: AudiencePage) -> None:
        self._page = page
        self._feed = PageFeed(self, rooms().counts)
        self.code = self._token = self._problem = ""
        self.open = self.away = False
        self.tries = True  # whether followers can open the lab for themselves
        self._tried = ("", "")  # the newest address, and what followers open
        self._base = ""  # what the room's code follows in its link, as the browser says
        self._windows = 0  # how often a window was asked for
        self._held: Picture | None = None  # what viewers get while the pictures are frozen
        page.bar.param.watch(self._hold, "frozen")
        self._ticking: Any = None
        self.card = AudienceCard(self._told)
        self.button = icon("qr_code_2", BUTTON_WORDS, self.toggle, color="default", align="center")

    # -- what the lecturer does

    def toggle(self) -> None:
        """Show the card, or close it; the room stays as it is."""
        self.open = not self.open
        self._show()

    def begin(self) -> None:
        """Open a room, unless there is one."""
        self._problem = ""
        try:
            self.code = self.code or rooms().open(self._feed)
        except RoomError as error:
            self._problem = f"No room can be opened: {error}."
        self._show()

    def end(self) -> None:
        """End the room."""
        rooms().end(self.code)
        self.code = self._problem = ""
        self._show()

    @property
    def viewed(self) -> bool:
        """Whether somebody follows, or a window of the lecturer is open."""
        return self._feed.viewed

    def open_window(self) -> None:
        """Have the browser open the lecturer's second window."""
        self._token = self._token or rooms().window(self._feed)
        self._windows += 1
        self._show()

    def close(self) -> None:
        """The page is gone, and its room and windows with it."""
        rooms().end(self.code)
        rooms().end_window(self._token)

    def _told(self, data: dict[str, Any]) -> None:
        """A message of the browser, which may be anybody's."""
        match data:
            case {"base": str(base)} if is_base(base):
                self._base = base
                self._show()
            case {"do": "begin"}:
                self.begin()
            case {"do": "end"}:
                self.end()
            case {"do": "window"}:
                self.open_window()
            case {"tries": bool(tries)}:
                self.tries = tries
                self._show()
            case {"do": "toggle"}:
                self.toggle()

    # -- the card

    def _show(self) -> None:
        """Bring the card up to date, and keep it so while there is a room."""
        if self.code and self._ticking is None:
            self._ticking = self._page.document.add_periodic_callback(self._show, TICK)
        elif not self.code and self._ticking is not None:
            self._page.document.remove_periodic_callback(self._ticking)
            self._ticking = None
        content, bar = self._content(), self._page.bar
        room = f"{self.code} · {content['followers']}" if self.code else ""
        if room != bar.room:
            bar.room = room
        if content != self.card.content:
            self.card.content = content

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {"open": self.open, "code": self.code}
        if self._token:
            content |= {"window": f"lecturer/{self._token}", "windows": self._windows}
        if self._problem:
            content["problem"] = self._problem
        if self.code:
            content |= {"followers": len(self._feed.followers), "tries": self.tries}
            content |= self._link() if self._base else {}
        return content

    def _link(self) -> dict[str, Any]:
        """Return the room's link, and its QR code: none for a link that no phone could open."""
        link = f"{self._base}{self.code}"
        local = is_local(link)
        return {"link": link, "local": local} | ({"network": network_address()} if local else {"qr": qr(link)})

    # -- what viewers get; see app.audience.feed.Subject

    def picture(self) -> Picture | None:
        """Return the main picture of the lab that is shown; while the pictures are frozen, the one that was shown then.

        The browser confirms no frames while its tab is hidden: then each look here lets the next ones come.
        """
        if not self._page.visible and self._page.current is not None:
            self._page.current.session.pass_on()
        if not self._page.bar.frozen:
            return self._now()
        self._held = self._held or self._now()  # they may have been frozen before there was one
        return self._held

    def _hold(self, event: param.parameterized.Event) -> None:
        """The pictures are frozen from now on, whether anybody views them or not, or no longer: as for another lab."""
        self._held = self._now() if event.new else None

    def _now(self) -> Picture | None:
        """The main picture of the newest frame; None before there is one."""
        tab = self._page.current
        frame = tab.session.latest if tab is not None else None
        if tab is None or frame is None:
            return None
        part = next(iter(frame.rasters), "")
        return Picture(tab.session.lab, frame, part, tab.controls.style(part))

    def words(self) -> dict[str, Any]:
        """What the page says."""
        tab, teller = self._page.current, self._page.stories
        if tab is None:
            return {"lab": "", "away": self.away}
        waits = tab.session.latest is None  # the picture is still that of another lab
        words = {**lab_words(tab), "link": self._try(tab.address.query), "away": self.away, "waits": waits}
        step = step_words(teller, teller.number)
        return words | ({"story": step} if step else {})

    def _try(self, query: str) -> str:
        """Return the link of "Try it yourself" for the address `query`: "" without one, or if it is switched off.

        A state that takes a while is not computed for each follower: they begin with the present values.
        """
        if not query or not self.tries:
            return ""
        if self._tried[0] != query:
            text, plays = asked_in(query)
            scene = unpacked(text)
            first = beginning(scene)
            link = query if first is scene else f"{NAME}={packed(first)}" + f"&{RUN}=1" * plays
            self._tried = query, link
        return self._tried[1]

    def notes(self) -> dict[str, Any]:
        """What only the lecturer reads."""
        teller, bar = self._page.stories, self._page.bar
        step = teller.step if teller.open else None
        return {
            "notes": paragraphs(step.notes) if step else [],
            "next": step_words(teller, teller.number + 1),
            "followers": len(self._feed.followers) if self.code else None,
            "code": self.code,
            "frozen": bar.frozen,
            "presenting": bar.presenting,
        }

    def acts(self) -> Mapping[str, Callable[[], object]]:
        """What a lecturer's window may ask for. With the lock of the document, whose models it changes."""
        teller, bar = self._page.stories, self._page.bar

        def soon(act: Callable[[], object]) -> Callable[[], object]:
            """`act`, as soon as the document is free."""
            return lambda: self._page.document.add_next_tick_callback(act)

        def turn(steps: int) -> None:
            """Go on by so many steps, unless the story was closed meanwhile."""
            if teller.open:
                teller.go(teller.number + steps)

        return {
            "next": soon(lambda: turn(1)),
            "previous": soon(lambda: turn(-1)),
            "freeze": soon(bar.freeze),
        }


def network_address() -> str:
    """Return the address of this computer in its network, "" if it has none. Sends nothing: UDP has no handshake."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # an address for documentation (RFC 5737); only the route is looked up
            found = str(probe.getsockname()[0])
    except OSError:
        return ""
    return "" if found.startswith("127.") or found == "0.0.0.0" else found  # noqa: S104 compared, not bound to


def is_base(text: str) -> bool:
    """Return whether `text`, which a browser sends, is an address under which rooms of this server can lie."""
    found = BASE.fullmatch(text) if len(text) <= LONGEST_ADDRESS else None
    return found is not None and is_host(found[1])


# -- what the page says

HEADINGS, PARAGRAPHS = ("h1", "h2", "h3", "h4"), ("p", "div", "tr", "br", "pre")
BLOCKS = dict.fromkeys(HEADINGS, "h") | dict.fromkeys(PARAGRAPHS, "p") | {"li": "li"}
MOST_BLOCKS = 60  # paragraphs of a text
MOST_VALUES = 12  # values, and numbers, that are shown


class _Blocks(HTMLParser):
    """Collects paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = [["p", ""]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A block begins a paragraph; a cell stands apart from the one before."""
        if tag in BLOCKS:
            self.found.append([BLOCKS[tag], ""])
        elif tag in {"td", "th"}:
            self.found[-1][1] += " "

    def handle_endtag(self, tag: str) -> None:
        """What follows a block is a paragraph of its own."""
        if tag in BLOCKS:
            self.found.append(["p", ""])

    def handle_data(self, data: str) -> None:
        """Text goes to the paragraph that is open."""
        self.found[-1][1] += data


def paragraphs(html: str) -> list[list[str]]:
    """Return the text of HTML of ours as [kind, text] of each paragraph; kind: "h", "p" or "li"."""
    parser = _Blocks()
    parser.feed(html)
    parser.close()
    found = [[kind, plain(re.sub(r"[ \t\r\n]+", " ", text).strip(), 3000)] for kind, text in parser.found]
    return [one for one in found if one[1]][:MOST_BLOCKS]


def line(html: str) -> str:
    """Return the text of HTML of ours as one line: a headline, and its reason behind a colon."""
    return ": ".join(text for _, text in paragraphs(html.replace("><", "> <")))  # what stands side by side there


def lab_words(tab: LabTab) -> dict[str, Any]:
    """Return what a tab says of its lab: lab, phase, headline, sentence, values and facts, each [name, text]."""
    session, readout = tab.session, tab.readout
    values = [[plain(dial.label), plain(dial.words())] for dial in tab.controls.dials()]
    values.append(["Computed by", plain(backend(session.values["backend"]).label)])
    facts = tab.parts.facts(session.latest) if session.latest is not None else []
    return {
        "lab": session.lab.TITLE,
        "phase": WORDS.get(session.phase, session.phase),
        "headline": line(readout.headline) if isinstance(readout, SaysHeadline) else "",
        "sentence": line(readout.sentence) if isinstance(readout, SaysHeadline) else "",
        "values": values[:MOST_VALUES],
        "facts": [[plain(label), plain(text)] for label, text, _ in facts[:MOST_VALUES]],
    }


def step_words(teller: StoryTeller, number: int) -> dict[str, Any] | None:
    """Return the title of the story that is told, its step `number` (given from 0, returned from 1), of how many, and
    the step's text; None if there is none.
    """
    story = teller.story
    if not teller.open or story is None or not 0 <= number < len(story.steps):
        return None
    text = paragraphs(story.steps[number].html)
    return {"title": story.title, "number": number + 1, "of": len(story.steps), "text": text}
