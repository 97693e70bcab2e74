"""The addresses of followers and of the lecturer's windows: light pages of our own, and their WebSockets.

Beside the page at /app, under the same prefix: /follow/CODE and /lecturer/TOKEN are pages, each with its WebSocket at
…/ws; their scripts and styles lie beside them. A page is the same for every code, whether there is a room or not: its
WebSocket alone says so. What a viewer may send is a few bytes of a fixed form; anything else closes its connection.
The Host and the Origin are asked for before (app/access.py), and no cookie or other sign of who it is plays a part.
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

from app.audience.broadcast import BROKEN
from app.audience.feed import ACTS
from app.audience.rooms import Feed, ViewerRefused, rooms
from app.explain import LABELS, WORDS
from app.frame_channel import write_at_once
from app.server.hosts import socket_sources
from app.theme import DARK, LIGHT

STATIC = Path(__file__).parent.parent / "static"
WORDS_FILE = "words.js"  # the words of app/explain.py, which lie in no file of static/
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
MOST_MESSAGE = 32  # bytes
PING = 20.0  # seconds between two looks whether a silent viewer is there
UNREAD = 2**20  # bytes that may wait for a viewer besides the message under way: he confirmed what he had not read
MARK = "fieldlab_audience"


class Shell(RequestHandler):
    """GET of a page: the same HTML for everybody."""

    def initialize(self, name: str) -> None:
        """name: of the file in static/."""
        self._name = name

    def get(self) -> None:
        """Send the page, with a policy that lets it talk to this host alone."""
        sockets = socket_sources(self.request.host)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", POLICY.format(sockets=sockets))
        self.set_header("Referrer-Policy", "no-referrer")  # the address of a lecturer's window is a secret
        self.set_header("Cache-Control", "no-cache")
        self.finish((STATIC / self._name).read_bytes())


class ShellFile(RequestHandler):
    """GET of what a page loads."""

    def initialize(self, name: str) -> None:
        """name: one of FILES."""
        self._name = name

    def get(self) -> None:
        """Send it; the browser asks whether it is still the same."""
        self.set_header("Content-Type", f"{FILES[self._name]}; charset=utf-8")
        self.set_header("Cache-Control", "no-cache")
        self.finish(file_text(self._name))


@cache
def file_text(name: str) -> str:
    """Return a file of static/, a style sheet with the colours of both schemes before it; or the words to explain."""
    if name == WORDS_FILE:
        return f"export const WORDS = {json.dumps(WORDS)};\nexport const LABELS = {json.dumps(LABELS)};\n"
    text = (STATIC / name).read_text(encoding="utf-8")
    if not name.endswith(".css"):
        return text
    light, dark = ("".join(f"--{key}: {value}; " for key, value in scheme.items()) for scheme in (LIGHT, DARK))
    return f":root {{ {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{text}"


class ViewerSocket(WebSocketHandler):
    """The WebSocket of a viewer, which confirms what it has painted."""

    def initialize(self, name: str) -> None:
        """name: the code, or the token, in the address."""
        self._name, self._feed = name, None  # type: str, Feed | None

    max_message_size = MOST_MESSAGE  # type: ignore[assignment] # Tornado reads it as a property
    ping_interval = PING  # type: ignore[assignment]

    def check_origin(self, origin: str) -> bool:
        """The Origin was on the allow-list, or the request would not have come here (app/access.py)."""
        return True

    def open(self, *args: str, **kwargs: str) -> None:
        """Come in, if there is such a room and a place in it."""
        self.set_nodelay(True)
        try:
            self._feed = self.enter()
        except ViewerRefused as refused:
            self.dismiss(refused.code, refused.why)

    def enter(self) -> Feed:
        """Join the viewers; ViewerRefused says why not."""
        raise NotImplementedError

    def go(self, feed: Feed) -> None:
        """Leave the viewers of `feed`."""
        raise NotImplementedError

    def take(self, feed: Feed, message: str) -> bool:
        """Do what a message asks for; False if it is none that a viewer sends."""
        raise NotImplementedError

    def on_message(self, message: str | bytes) -> None:
        """Take a message; whoever sends another than a page of ours loses the connection."""
        feed = self._feed
        if feed is not None and not (isinstance(message, str) and self.take(feed, message)):
            self.on_close()
            self.dismiss(BROKEN, "That is no message of this page.")

    def on_close(self) -> None:
        """Leave. Harmless if it never came in."""
        feed, self._feed = self._feed, None
        if feed is not None:
            self.go(feed)

    def deliver(self, message: bytes) -> None:
        """Send `message` at once."""
        protocol: Any = self.ws_connection
        if protocol is None or protocol.is_closing():
            return
        write_at_once(protocol, message, UNREAD + 2 * len(message))

    def dismiss(self, code: int, why: str) -> None:
        """Close the connection with `code`, and say why."""
        self.close(code, why)


class FollowSocket(ViewerSocket):
    """The WebSocket of a follower's page."""

    def enter(self) -> Feed:
        """Join the followers of the room whose code is in the address; ViewerRefused says why not."""
        return rooms().follow(self._name.upper(), self, self.request.remote_ip or "")

    def go(self, feed: Feed) -> None:
        """Leave the followers of `feed`."""
        feed.followers.leave(self)

    def take(self, feed: Feed, message: str) -> bool:
        """Note a confirmation; False for any other message."""
        found = CONFIRMED.fullmatch(message)
        return found is not None and feed.followers.confirm(self, int(found[1]))


class LecturerSocket(ViewerSocket):
    """That of a lecturer's window, which may ask for acts as well."""

    def enter(self) -> Feed:
        """Join the windows of the page whose token is in the address; ViewerRefused says why not."""
        return rooms().look_on(self._name, self)

    def go(self, feed: Feed) -> None:
        """Leave the windows of `feed`."""
        feed.windows.leave(self)

    def take(self, feed: Feed, message: str) -> bool:
        """Do an act, or note a confirmation; False for any other message."""
        if act := ACT.fullmatch(message):
            feed.act(act[1])
            return True
        found = CONFIRMED.fullmatch(message)
        return found is not None and feed.windows.confirm(self, int(found[1]))


def delegate(server: BokehTornado, request: HTTPServerRequest) -> Any:
    """Return what answers a request for one of these addresses; None for any other."""
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
            return server.get_handler_delegate(request, Shell, {"name": page})
    return None


def install() -> None:
    """Answer these addresses, under the server's prefix; harmless if called twice."""
    rooms()  # a setting that is none is said now
    if getattr(BokehTornado, MARK, False):
        return
    find = BokehTornado.find_handler

    def find_handler(server: BokehTornado, request: HTTPServerRequest, **options: Any) -> Any:
        """Bokeh's find_handler, but for these addresses."""
        return delegate(server, request) or find(server, request, **options)

    BokehTornado.find_handler = find_handler
    setattr(BokehTornado, MARK, True)
