"""The rooms that are open: each has a code by which phones find it, and the windows of lecturers, each with a token.

A code is six letters that cannot be mistaken for each other, and no vowel, so that no code is a word. It is drawn by
`secrets`, as is a token. Who guesses codes is slowed down: so many wrong ones a process, then every newcomer is asked
to come again in a moment. Nothing is kept or logged of who follows but how many they are.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import cache
from typing import Protocol

from app.audience.broadcast import BUSY, ENDED, FULL, UNKNOWN, Broadcast, Counts, Viewer
from compute import settings

MOST_ROOMS = 16  # of a process
MOST_WINDOWS = 4  # of one lecturer
LETTERS, LENGTH = "BCDFGHJKMNPQRSTVWXYZ", 6  # of a code: 64 million
GUESSES, PER_SECOND = 120, 2.0  # wrong codes at once, and for as long as one likes
NO_ROOM = "There is no room with this code, or it is over."
NO_WINDOW = "This window's page is closed. Open the window from the lab's page again."
OVER = "The lecturer has ended the room. Thank you for following."
TRY_AGAIN = "Many codes are being tried just now. This page tries again by itself."
ROOM_FULL = "The room has as many followers as it may have. This page tries again by itself."
WINDOWS_FULL = "This page has as many windows as it may have. Close one of them."


class RoomError(RuntimeError):
    """A room that cannot be opened; the text says why."""


class ViewerRefused(Exception):
    """A viewer who is not let in; `code` and `why` as of Viewer.dismiss."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


class Budget:
    """So many at once, and `rate` a second for as long as one likes."""

    def __init__(self, most: int, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._rate, self._clock = most, rate, clock
        self._left, self._since = float(most), clock()

    def left(self) -> bool:
        """Whether there is one left."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._since) * self._rate)
        self._since = now
        return self._left >= 1

    def spend(self) -> None:
        """Take one."""
        self._left = max(0.0, self._left - 1)


class Feed(Protocol):
    """What feeds a page's viewers; see app.audience.feed."""

    followers: Broadcast
    windows: Broadcast

    def wake(self) -> None:
        """Somebody has come."""

    def act(self, name: str) -> None:
        """A lecturer's window asks for one of app.audience.feed.ACTS."""


class Rooms:
    """The rooms and windows of this process, by code and by token. most: followers of one room."""

    def __init__(self, most: int = 300, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.counts = most, Counts()
        self._rooms: dict[str, Feed] = {}
        self._windows: dict[str, Feed] = {}
        self._guesses = Budget(GUESSES, PER_SECOND, clock)

    @property
    def open_rooms(self) -> int:
        """How many there are."""
        return len(self._rooms)

    @property
    def followers(self) -> int:
        """How many follow, in all rooms."""
        return sum(len(feed.followers) for feed in self._rooms.values())

    # -- the lecturer's side

    def open(self, feed: Feed) -> str:
        """Return the code of a new room for `feed`; RoomError if there are too many, or none may be."""
        if not self.most:
            raise RoomError("this server's setting followers is 0")
        if len(self._rooms) >= MOST_ROOMS:
            raise RoomError(f"this server has {MOST_ROOMS} rooms at most, and as many are open; end one of them")
        code = next(code for code in iter(new_code, "") if code not in self._rooms)
        self._rooms[code] = feed
        return code

    def end(self, code: str) -> None:
        """End the room of that code, and say so to its followers. Harmless if there is none."""
        if feed := self._rooms.pop(code, None):
            feed.followers.end(ENDED, OVER)

    def window(self, feed: Feed) -> str:
        """Return a token by which a window of the lecturer finds `feed`."""
        token = secrets.token_urlsafe(24)
        self._windows[token] = feed
        return token

    def end_window(self, token: str) -> None:
        """The page of that token is gone. Harmless if there is none."""
        if feed := self._windows.pop(token, None):
            feed.windows.end(ENDED, NO_WINDOW)

    # -- the viewers' side

    def follow(self, code: str, viewer: Viewer) -> Feed:
        """Let `viewer` into the room of that code; ViewerRefused if there is none, or no place in it."""
        feed = self._find(self._rooms, code, NO_ROOM)
        if len(feed.followers) >= self.most:
            raise ViewerRefused(FULL, ROOM_FULL)
        feed.followers.join(viewer)
        feed.wake()
        return feed

    def look_on(self, token: str, viewer: Viewer) -> Feed:
        """Let a lecturer's window in; ViewerRefused for a token that no page has, or for one window too many."""
        feed = self._find(self._windows, token, NO_WINDOW)
        if len(feed.windows) >= MOST_WINDOWS:
            raise ViewerRefused(FULL, WINDOWS_FULL)
        feed.windows.join(viewer)
        feed.wake()
        return feed

    def _find(self, known: dict[str, Feed], name: str, why: str) -> Feed:
        if not self._guesses.left():
            raise ViewerRefused(BUSY, TRY_AGAIN)
        if name not in known:
            self._guesses.spend()
            raise ViewerRefused(UNKNOWN, why)
        return known[name]


def new_code() -> str:
    """Return a random code."""
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


@cache
def rooms() -> Rooms:
    """This process's rooms."""
    return Rooms(settings.current().followers)
