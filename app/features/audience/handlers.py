"""HTTP routes of followers and of the lecturer's windows: small static pages and their WebSockets.

The routes are under the server's prefix, next to /app: /follow/CODE and /lecturer/TOKEN are pages, each with a
WebSocket at …/ws and with scripts and style sheets in the same folder. The HTML is the same for every code; only the
WebSocket reports whether the room exists. Viewers send messages of a few bytes in a fixed format; any other message
closes the connection. A follower votes by "vote NUMBER CHOICE TOKEN", with one token per connection, and receives an
answer in words. app/server/access.py checks Host and Origin before; cookies and other credentials are not used.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from bokeh.server.tornado import BokehTornado
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler
from tornado.websocket import WebSocketHandler

from app.features.audience.broadcast import BROKEN, BUSY, ENDED, packed
from app.features.audience.feed import ACTS
from app.features.audience.rooms import OVER, TOO_MANY_VOTES, Feed, GuessBudget, ViewerRefused, rooms
from app.page.explain import LABELS, WORDS
from app.page.theme import DARK, LIGHT
from app.server.hosts import socket_sources
from app.tab.frame_channel import write_at_once
from compute.votes import VoteRefused

HERE = Path(__file__).parent
SHARED = {"explain.js": HERE.parents[1] / "static"}  # folders of the files that the page uses as well
WORDS_FILE = "words.js"  # the texts of app/page/explain.py, generated rather than stored
FILES = {
    "follow.js": "text/javascript",
    "lecturer.js": "text/javascript",
    "viewer.js": "text/javascript",
    "explain.js": "text/javascript",
    WORDS_FILE: "text/javascript",
    "follow.css": "text/css",
}
FOLLOW = re.compile(r"/follow/([A-Za-z]{0,12})(/ws)?", re.ASCII)
LECTURER = re.compile(r"/lecturer/([\w-]{1,64})(/ws)?", re.ASCII)
FILE = re.compile(r"/(?:follow|lecturer)/([a-z]+\.(?:js|css))", re.ASCII)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'{sockets}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
CONFIRMED = re.compile(r"ok (\d{1,15})", re.ASCII)
ACT = re.compile(rf"do ({'|'.join(ACTS)})", re.ASCII)
VOTE = re.compile(r"vote (\d{1,5}) (\d) ([\w-]{16})", re.ASCII)  # number of the vote, choice, token: 96 random bits
VOTES = 20, 2.0  # per connection: (burst, rate per second), as in app/features/audience/rooms.py
MOST_MESSAGE = 32  # bytes
NOT_OURS = "That is no message of this page."
PING = 20.0  # s between pings that detect dead connections
UNREAD = 2**20  # bytes buffered per viewer besides the current message: viewers can confirm without reading


class PageHandler(RequestHandler):
    """GET handler of a page; the HTML is the same for every code and token."""

    def initialize(self, name: str) -> None:
        """Set the name of the file in this folder."""
        self._name = name

    def get(self) -> None:
        """Send the page with a policy that restricts connections to this host."""
        sockets = socket_sources(self.request.host)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", POLICY.format(sockets=sockets))
        self.set_header("Referrer-Policy", "no-referrer")  # the URL of a lecturer's window is a secret
        self.set_header("Cache-Control", "no-cache")
        self.finish((HERE / self._name).read_bytes())


class ShellFile(RequestHandler):
    """GET handler of a page's scripts and style sheets."""

    def initialize(self, name: str) -> None:
        """Set the name of the file, one of FILES."""
        self._name = name

    def get(self) -> None:
        """Send the file; the browser revalidates it on each load."""
        self.set_header("Content-Type", f"{FILES[self._name]}; charset=utf-8")
        self.set_header("Cache-Control", "no-cache")
        self.finish(file_text(self._name))


@cache
def file_text(name: str) -> str:
    """Return a script or style sheet; prepend the colours of both schemes to a style sheet, and generate WORDS_FILE."""
    if name == WORDS_FILE:
        return f"export const WORDS = {json.dumps(WORDS)};\nexport const LABELS = {json.dumps(LABELS)};\n"
    text = (SHARED.get(name, HERE) / name).read_text(encoding="utf-8")
    if not name.endswith(".css"):
        return text
    light, dark = ("".join(f"--{key}: {value}; " for key, value in scheme.items()) for scheme in (LIGHT, DARK))
    return f":root {{ {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{text}"


class ViewerSocket(WebSocketHandler):
    """Base class of viewers' WebSockets; the client confirms each message after painting it."""

    def initialize(self, name: str) -> None:
        """Set the room code or token in the URL."""
        self._name, self._feed = name, None  # type: str, Feed | None

    max_message_size = MOST_MESSAGE  # type: ignore[assignment] # Tornado reads it as a property
    ping_interval = PING  # type: ignore[assignment]

    def check_origin(self, origin: str) -> bool:
        """Return True: app/server/access.py has already checked the Origin."""
        return True

    def open(self, *args: str, **kwargs: str) -> None:
        """Join the viewers, or close the connection if the room does not exist or is full."""
        self.set_nodelay(True)
        try:
            self._feed = self.enter()
        except ViewerRefused as refused:
            self.dismiss(refused.code, refused.why)

    def enter(self) -> Feed:
        """Join the viewers; raise ViewerRefused with the reason for a refusal."""
        raise NotImplementedError

    def go(self, feed: Feed) -> None:
        """Remove this socket from the viewers of `feed`."""
        raise NotImplementedError

    def take(self, feed: Feed, message: str) -> bool:
        """Handle a viewer's message; return False if invalid. Raise ViewerRefused to close the connection."""
        raise NotImplementedError

    def on_message(self, message: str | bytes) -> None:
        """Handle a message; close the connection if invalid."""
        feed = self._feed
        if feed is None:
            return
        try:
            if not (isinstance(message, str) and self.take(feed, message)):
                raise ViewerRefused(BROKEN, NOT_OURS)  # noqa: TRY301 - as in `take`
        except ViewerRefused as refused:
            self.on_close()
            self.dismiss(refused.code, refused.why)

    def on_close(self) -> None:
        """Remove this socket from its feed, if it joined one."""
        feed, self._feed = self._feed, None
        if feed is not None:
            self.go(feed)

    def deliver(self, message: bytes) -> None:
        """Send `message` immediately."""
        protocol: Any = self.ws_connection
        if protocol is None or protocol.is_closing():
            return
        write_at_once(protocol, message, UNREAD + 2 * len(message))

    def dismiss(self, code: int, why: str) -> None:
        """Close the connection with `code` and the reason `why`."""
        self.close(code, why)


class FollowSocket(ViewerSocket):
    """WebSocket of a follower's page."""

    def initialize(self, name: str) -> None:
        """Set the room code in the URL."""
        super().initialize(name)
        self._token, self._votes = "", GuessBudget(*VOTES)

    def enter(self) -> Feed:
        """Join the followers of the room in the URL; raise ViewerRefused if it does not exist or is full."""
        return rooms().follow(self._name.upper(), self, self.request.remote_ip or "")

    def go(self, feed: Feed) -> None:
        """Remove this socket from the followers of `feed`."""
        feed.followers.leave(self)

    def take(self, feed: Feed, message: str) -> bool:
        """Handle a vote or a confirmation; return False for any other message."""
        if vote := VOTE.fullmatch(message):
            return self._vote(feed, int(vote[1]), vote[3], int(vote[2]))
        found = CONFIRMED.fullmatch(message)
        return found is not None and feed.followers.confirm(self, int(found[1]))

    def _vote(self, feed: Feed, number: int, token: str, choice: int) -> bool:
        """Count a vote and answer it; return False if this connection has voted with another token."""
        if self not in feed.followers:
            raise ViewerRefused(ENDED, OVER)
        if not self._votes.left():
            raise ViewerRefused(BUSY, TOO_MANY_VOTES)
        self._votes.spend()
        self._token = self._token or token
        if token != self._token:
            return False
        try:
            answer = {"vote": number, "choice": choice, "said": feed.vote(number, token, choice)}
        except VoteRefused as refused:
            answer = {"vote": number, "choice": 0, "said": str(refused)}
        self.deliver(packed({"answer": answer}))
        return True


class LecturerSocket(ViewerSocket):
    """WebSocket of a lecturer's window, which may also send commands."""

    def enter(self) -> Feed:
        """Join the windows of the page in the URL; raise ViewerRefused for an unknown token or too many windows."""
        return rooms().look_on(self._name, self)

    def go(self, feed: Feed) -> None:
        """Remove this socket from the windows of `feed`."""
        feed.windows.leave(self)

    def take(self, feed: Feed, message: str) -> bool:
        """Run a command or handle a confirmation; return False for any other message."""
        if act := ACT.fullmatch(message):
            feed.act(act[1])
            return True
        found = CONFIRMED.fullmatch(message)
        return found is not None and feed.windows.confirm(self, int(found[1]))


def delegate(server: BokehTornado, request: HTTPServerRequest) -> Any:
    """Return the handler of a request for one of these routes; None for other routes."""
    path = request.path
    if not path.startswith(server.prefix):
        return None
    path = path.removeprefix(server.prefix)
    if found := FILE.fullmatch(path):
        return server.get_handler_delegate(request, ShellFile, {"name": found[1]}) if found[1] in FILES else None
    for pattern, page, socket in ((FOLLOW, "follow.html", FollowSocket), (LECTURER, "lecturer.html", LecturerSocket)):
        if found := pattern.fullmatch(path):
            if found[2]:
                return server.get_handler_delegate(request, socket, {"name": found[1]})
            return server.get_handler_delegate(request, PageHandler, {"name": page})
    return None
