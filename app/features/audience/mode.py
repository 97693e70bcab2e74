"""Audience mode of one page: its room, the card with code and QR code, and the lecturer's second window.

It is off until the lecturer opens a room. The browser builds the room's link from the URL of the page; for a page
opened as localhost, the card explains which address to use instead.

The page's text is sent to viewers as plain text, and viewers display it as text: HTML of the server (a headline, a
story's step) is converted here, and no markup is sent.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.features.audience.feed import PageFeed, Picture
from app.features.audience.handlers import delegate
from app.features.audience.rooms import RoomError, rooms
from app.page.feature import Feature, FeaturePage, HelpRow
from app.page.markup import plain
from app.page.qr_code import is_local, qr
from app.page.widgets import Card, card_script
from app.server import operations, routes
from app.server.hosts import is_host
from app.tab.lab_tab import WORDS
from app.tab.lab_view import SaysHeadline
from app.tab.open_lab import OpenLab
from app.tab.restore import beginning
from compute.devices.backends import backend
from compute.export.link import NAME, RUN, link_in_query, packed, unpacked
from compute.stories import Story, StoryStep
from compute.votes import Vote, VoteRefused

TICK = 500  # ms between two updates of the number of followers
LONGEST_ADDRESS = 300  # characters
BASE = re.compile(r"https?://([^/?#]+)/(?:[\w.~%@+-]+/)*follow/", re.ASCII)  # URL without markup
STYLE = Path(__file__).with_name("audience.css").read_text(encoding="utf-8")


@runtime_checkable
class StorySource(Protocol):
    """The feature that presents stories, as far as viewers see it."""

    story: Story | None
    number: int  # index of the current step
    open: bool

    @property
    def step(self) -> StoryStep | None:
        """The current step."""

    @property
    def vote(self) -> Vote | None:
        """The vote of the current step."""

    def go(self, number: int) -> None:
        """Go to step `number`, if it exists."""

    def turn_vote(self) -> None:
        """Close the vote, or begin it again."""

    def close_vote(self) -> None:
        """Close the vote if it is open."""


@runtime_checkable
class Freezer(Protocol):
    """The feature that can freeze the pictures on the screen, and shows the room's code in presenter mode."""

    @property
    def frozen(self) -> bool:
        """Whether the pictures are frozen."""

    def freeze(self) -> None:
        """Freeze or unfreeze the pictures, in presenter mode only."""

    def watch_frozen(self, changed: Callable[[bool], object]) -> None:
        """Call changed(frozen) whenever the pictures are frozen or released."""

    def show_room(self, words: str) -> None:
        """Show a room's code and its number of followers; "" for none."""


class AudienceCard(Card):
    """The card with the room's code, drawn by audience.js; closed, a button with the number of followers."""

    _esm = card_script(Path(__file__).with_name("audience.js"))

    def __init__(self, received: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(received, width=0, height=0, stylesheets=[STYLE])


class AudienceMode(Feature):
    """The room and windows of one page.

    away: whether the page's browser has lost its connection. Implements Subject of app/features/audience/feed.py.
    """

    name, order, key = "audience", 60, "q"
    symbol, tip = "qr_code_2", "Audience: phones follow this page; the lecturer's second window (Q)"
    help = (
        HelpRow(90, "**Q**", "audience: a room that phones follow, by a QR code"),
        HelpRow(100, "**W**", "the lecturer's second window: notes, the next step, a clock"),
    )

    def __init__(self, page: FeaturePage) -> None:
        super().__init__(page)
        self._feed = PageFeed(self, rooms().counts)
        self.code = self._token = self._problem = ""
        self.open = self.away = False
        self.tries = True  # whether followers get the link "Try it yourself"
        self._tried = ("", "")  # the latest address, and the link for followers made from it
        self._base = ""  # URL to which the room's code is appended, sent by the browser
        self._windows = 0  # number of requests to open a window
        self._held: Picture | None = None  # picture shown to viewers while the picture is frozen
        self._ticking: Any = None
        self.card = AudienceCard(self.receive)
        self.parts = (self.card,)

    @property
    def _story_source(self) -> StorySource | None:
        return next((each for each in self.page.features if isinstance(each, StorySource)), None)

    @property
    def _freezer(self) -> Freezer | None:
        return next((each for each in self.page.features if isinstance(each, Freezer)), None)

    def ready(self) -> None:
        """Freeze the viewers' picture while the pictures on the screen are frozen."""
        if self._freezer is not None:
            self._freezer.watch_frozen(self._hold)

    @property
    def keys(self) -> Mapping[str, Callable[[], None]]:
        """The keys of the card and of the lecturer's window."""
        return {**super().keys, "w": self.open_window}

    def connected(self, on: bool) -> None:
        """Tell viewers whether the page's browser is connected."""
        self.away = not on

    @classmethod
    def install(cls) -> None:
        """Add the viewers' routes and the metrics of the rooms to the server."""
        rooms()  # an invalid setting raises its error at startup
        routes.add("audience", delegate)
        operations.add_metrics("audience", room_metrics)

    # -- commands of the lecturer

    def toggle(self) -> None:
        """Open or close the card; the room is not affected."""
        self.open = not self.open
        self._show()

    def begin(self) -> None:
        """Open a room unless the page has one."""
        self._problem = ""
        try:
            self.code = self.code or rooms().open(self._feed)
        except RoomError as error:
            self._problem = f"No room can be opened: {error}."
        self._show()

    def end(self) -> None:
        """End the room."""
        if self.code and self._story_source is not None:
            self._story_source.close_vote()  # deletes the phones' tokens
        rooms().end(self.code)
        self.code = self._problem = ""
        self._show()

    @property
    def viewed(self) -> bool:
        """Whether at least one follower or lecturer's window is connected."""
        return self._feed.viewed

    def open_window(self) -> None:
        """Open the lecturer's second window in the browser."""
        self._token = self._token or rooms().window(self._feed)
        self._windows += 1
        self._show()

    def ended(self) -> None:
        """End the room and windows of a closed page."""
        rooms().end(self.code)
        rooms().end_window(self._token)

    def receive(self, data: dict[str, Any]) -> None:
        """Handle a message from the browser; its content is not trusted."""
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
        """Update the card; while a room is open, update it every TICK ms."""
        if self.code and self._ticking is None:
            self._ticking = self.page.document.add_periodic_callback(self._show, TICK)
        elif not self.code and self._ticking is not None:
            self.page.document.remove_periodic_callback(self._ticking)
            self._ticking = None
        content = self._content()
        if self._freezer is not None:
            self._freezer.show_room(f"{self.code} · {content['followers']}" if self.code else "")
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
        """Return the room's link with its QR code, or, if the link is local, with the computer's network address."""
        link = f"{self._base}{self.code}"
        local = is_local(link)
        return {"link": link, "local": local} | ({"network": network_address()} if local else {"qr": qr(link)})

    # -- content for viewers; see app.features.audience.feed.Subject

    def picture(self) -> Picture | None:
        """Return the main picture of the visible lab; while frozen, the picture from the time of freezing.

        The browser confirms no frames while its tab is hidden, so each poll then releases the next frames.
        """
        if not self.page.visible and self.page.current is not None:
            self.page.current.session.pass_on()
        if self._freezer is None or not self._freezer.frozen:
            return self._now()
        self._held = self._held or self._now()  # the picture may have been frozen before the first frame
        return self._held

    def _hold(self, frozen: bool) -> None:
        """Store the frozen picture, with or without viewers, or release it."""
        self._held = self._now() if frozen else None

    def _now(self) -> Picture | None:
        """Return the main picture of the latest frame; None before the first frame."""
        tab = self.page.current
        frame = tab.session.latest if tab is not None else None
        if tab is None or frame is None:
            return None
        part = next(iter(frame.rasters), "")
        return Picture(tab.session.lab, frame, part, tab.controls.style(part))

    def words(self) -> dict[str, Any]:
        """Return the page's text and values for followers."""
        tab, stories = self.page.current, self._story_source
        if tab is None:
            return {"lab": "", "away": self.away}
        waits = tab.session.latest is None  # the picture still belongs to another lab
        words = {**lab_words(tab), "link": self._try(tab.address.query), "away": self.away, "waits": waits}
        step, vote = step_words(stories, 0), self._vote
        return words | ({"story": step} if step else {}) | ({"vote": vote.shown()} if vote else {})

    @property
    def _vote(self) -> Vote | None:
        """The vote of the story's step that the page shows."""
        stories = self._story_source
        return stories.vote if stories is not None and stories.open else None

    def vote(self, number: int, token: str, choice: int) -> str:
        """Count a follower's choice in vote `number`; return the confirmation, or raise VoteRefused."""
        vote = self._vote
        if vote is None or vote.number != number:
            raise VoteRefused("This vote is over.")
        return vote.cast(token, choice)

    def _try(self, query: str) -> str:
        """Return the link "Try it yourself" for the address `query`; "" without an address or if switched off.

        A state that is expensive to compute is replaced by the initial state with the current values: the server
        would compute it for each follower.
        """
        if not query or not self.tries:
            return ""
        if self._tried[0] != query:
            text, plays = link_in_query(query)
            scene = unpacked(text)
            first = beginning(scene)
            link = query if first is scene else f"{NAME}={packed(first)}" + f"&{RUN}=1" * plays
            self._tried = query, link
        return self._tried[1]

    def notes(self) -> dict[str, Any]:
        """Return the data that only the lecturer sees."""
        stories, freezer, vote = self._story_source, self._freezer, self._vote
        step = stories.step if stories is not None and stories.open else None
        return {
            "notes": paragraphs(step.notes) if step else [],
            "next": step_words(stories, 1),
            "votes": vote.counts if vote else None,
            "followers": len(self._feed.followers) if self.code else None,
            "code": self.code,
            "frozen": freezer is not None and freezer.frozen,
            "presenting": self.page.presenting,
        }

    def acts(self) -> Mapping[str, Callable[[], object]]:
        """Return the commands of a lecturer's window. They run with the document's lock, as they change its models."""
        stories, freezer = self._story_source, self._freezer

        def soon(act: Callable[[], object]) -> Callable[[], object]:
            """Return a function that schedules `act` with the document's lock."""
            return lambda: self.page.document.add_next_tick_callback(act)

        def turn(steps: int) -> None:
            """Move by `steps` steps in the story if still open."""
            if stories is not None and stories.open:
                stories.go(stories.number + steps)

        def turn_vote() -> None:
            """Close or begin the vote of the story's step if still open."""
            if stories is not None and stories.open:
                stories.turn_vote()

        return {
            "next": soon(lambda: turn(1)),
            "previous": soon(lambda: turn(-1)),
            "freeze": soon(freezer.freeze if freezer is not None else lambda: None),
            "vote": soon(turn_vote),
        }


def network_address() -> str:
    """Return this computer's address in its network, "" without a network. Sends no packet: UDP has no handshake."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # documentation address (RFC 5737); connect only selects a route
            found = str(probe.getsockname()[0])
    except OSError:
        return ""
    return "" if found.startswith("127.") or found == "0.0.0.0" else found  # noqa: S104 compared, not bound to


def is_base(text: str) -> bool:
    """Return whether `text`, sent by a browser, is a valid base URL of rooms on this server."""
    found = BASE.fullmatch(text) if len(text) <= LONGEST_ADDRESS else None
    return found is not None and is_host(found[1])


# -- the page's text

HEADINGS, PARAGRAPHS = ("h1", "h2", "h3", "h4"), ("p", "div", "tr", "br", "pre")
BLOCKS = dict.fromkeys(HEADINGS, "h") | dict.fromkeys(PARAGRAPHS, "p") | {"li": "li"}
MOST_BLOCKS = 60  # paragraphs per text
MOST_VALUES = 12  # values and facts shown


class _Blocks(HTMLParser):
    """Collect the paragraphs of an HTML text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = [["p", ""]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start a paragraph at a block element; separate table cells by a space."""
        if tag in BLOCKS:
            self.found.append([BLOCKS[tag], ""])
        elif tag in {"td", "th"}:
            self.found[-1][1] += " "

    def handle_endtag(self, tag: str) -> None:
        """Start a paragraph after a block element."""
        if tag in BLOCKS:
            self.found.append(["p", ""])

    def handle_data(self, data: str) -> None:
        """Append text to the current paragraph."""
        self.found[-1][1] += data


def paragraphs(html: str) -> list[list[str]]:
    """Return the text of trusted HTML as one [kind, text] per paragraph; kind: "h", "p" or "li"."""
    parser = _Blocks()
    parser.feed(html)
    parser.close()
    found = [[kind, plain(re.sub(r"[ \t\r\n]+", " ", text).strip(), 3000)] for kind, text in parser.found]
    return [one for one in found if one[1]][:MOST_BLOCKS]


def line(html: str) -> str:
    """Return the text of trusted HTML as one line: the headline, a colon, and its reason."""
    return ": ".join(text for _, text in paragraphs(html.replace("><", "> <")))  # separates adjacent elements


def lab_words(tab: OpenLab) -> dict[str, Any]:
    """Return a lab's text for viewers: lab, phase, headline, sentence, and values and facts, each [name, text]."""
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


def step_words(stories: StorySource | None, ahead: int) -> dict[str, Any] | None:
    """Return title, number, number of steps, and text of a step of the open story; None without such a step.

    ahead: 0 for the current step, 1 for the next one; the number in the result counts from 1.
    """
    if stories is None or not stories.open or stories.story is None:
        return None
    story, number = stories.story, stories.number + ahead
    if not 0 <= number < len(story.steps):
        return None
    text = paragraphs(story.steps[number].html)
    return {"title": story.title, "number": number + 1, "of": len(story.steps), "text": text}


def room_metrics() -> Iterator[Metric]:
    """Return the number of open rooms and followers, and of the pictures sent; no data about persons."""
    found = rooms()
    yield GaugeMetricFamily("fieldlab_rooms_open", "Open audience rooms.", found.open_rooms)
    yield GaugeMetricFamily("fieldlab_followers", "Followers in all rooms.", found.followers)
    words = "Pictures sent to followers."
    yield CounterMetricFamily("fieldlab_follower_frames_sent", words, found.counts.sent)
    words = "Pictures that followers skipped because newer ones had arrived."
    yield CounterMetricFamily("fieldlab_follower_frames_dropped", words, found.counts.dropped)
