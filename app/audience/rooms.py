"""The rooms that are open: each has a code by which phones find it, and the windows of lecturers, each with a token.

A code is six letters that cannot be mistaken for each other, and no vowel, so that no code is a word. It is drawn by
`secrets`, as is a token. A token is 192 random bits, which nobody guesses however many he tries.

Who guesses codes is slowed down: so many wrong ones of an address, and some more of all addresses, then newcomers are
asked to come again in a moment, with a right code, too: else a right guess would cost nothing. A lecture hall may share
one address, and one of its students may try codes all the time. So a code by which somebody of an address has come in
lets others of that address in even then, as it is no secret there; he who tries codes there learns of that one room
alone, and is slowed down, too, if less. The first of the hall gets in by luck: phones try again by themselves, and some
of 200 meet one of the two moments a second in which one more may try.

Nothing is logged of who follows but how many they are; addresses are kept as long as the room, and shown to nobody.
"""

from __future__ import annotations

import ipaddress
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
# Wrong codes at once, and a second for as long as one likes. In two hours who tries 20 a second, of 64 million, finds a
# certain room with a chance of 0.2 %, with 50 a second of 0.6 %.
GUESSES = 120, 2.0  # of an address: a hall that shares one mistypes some tens
ALL_GUESSES = 1200, 20.0  # of all addresses: ten that try as fast as they may
INSIDE_GUESSES = 600, 50.0  # of one from which somebody is inside, for that room alone, beside the others
MOST_ADDRESSES = 4096  # that are kept at once: ALL_GUESSES let some 2,400 have a wrong code that still counts
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

    @property
    def whole(self) -> bool:
        """Whether none is missing."""
        self.left()
        return self._left >= self._most

    def spend(self) -> None:
        """Take one."""
        self._left = max(0.0, self._left - 1)


class Budgets:
    """A budget for each of many addresses. One that is whole again is forgotten, and so is the oldest of too many."""

    def __init__(self, most: int, rate: float, clock: Callable[[], float]) -> None:
        self._most, self._rate, self._clock = most, rate, clock
        self._spent: dict[str, Budget] = {}

    def __len__(self) -> int:
        return len(self._spent)

    def left(self, address: str) -> bool:
        """Whether `address` has one left."""
        return address not in self._spent or self._spent[address].left()

    def spend(self, address: str) -> None:
        """Take one of those of `address`."""
        if address not in self._spent:
            if len(self._spent) >= MOST_ADDRESSES:
                self._spent = {known: budget for known, budget in self._spent.items() if not budget.whole}
            if len(self._spent) >= MOST_ADDRESSES:
                self._spent.pop(next(iter(self._spent)))
            self._spent[address] = Budget(self._most, self._rate, self._clock)
        self._spent[address].spend()


def network(address: str) -> str:
    """Return what one visitor has of addresses: of IPv6 a network of 2**64 of them, else one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address  # of a socket that has none
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


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
        self._inside: dict[str, set[str]] = {}  # code -> networks from which somebody has come in by it
        self._guesses, self._all_guesses = Budgets(*GUESSES, clock), Budget(*ALL_GUESSES, clock)
        self._inside_guesses = Budgets(*INSIDE_GUESSES, clock)

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
        self._rooms[code], self._inside[code] = feed, set()
        return code

    def end(self, code: str) -> None:
        """End the room of that code, and say so to its followers. Harmless if there is none."""
        self._inside.pop(code, None)
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

    def follow(self, code: str, viewer: Viewer, address: str = "") -> Feed:
        """Let `viewer` into the room of that code; ViewerRefused if there is none, or no place in it.

        address: that he comes from, "" if it is not known.
        """
        feed = self._find(code, network(address))
        if len(feed.followers) >= self.most:
            raise ViewerRefused(FULL, ROOM_FULL)
        feed.followers.join(viewer)
        feed.wake()
        return feed

    def look_on(self, token: str, viewer: Viewer) -> Feed:
        """Let a lecturer's window in; ViewerRefused for a token that no page has, or for one window too many."""
        if token not in self._windows:
            raise ViewerRefused(UNKNOWN, NO_WINDOW)
        feed = self._windows[token]
        if len(feed.windows) >= MOST_WINDOWS:
            raise ViewerRefused(FULL, WINDOWS_FULL)
        feed.windows.join(viewer)
        feed.wake()
        return feed

    def _find(self, code: str, whose: str) -> Feed:
        """Return the feed of the room; ViewerRefused for none, or if too many codes were tried. whose: network."""
        if self._all_guesses.left() and self._guesses.left(whose):
            if code not in self._rooms:
                self._all_guesses.spend()
                self._guesses.spend(whose)
                raise ViewerRefused(UNKNOWN, NO_ROOM)
        elif whose not in self._inside.get(code, ()) or not self._inside_guesses.left(whose):
            if any(whose in inside for inside in self._inside.values()) and self._inside_guesses.left(whose):
                self._inside_guesses.spend(whose)  # who is not told that it is wrong still learns that it is not right
            raise ViewerRefused(BUSY, TRY_AGAIN)
        if len(self._inside[code]) < MOST_ADDRESSES:
            self._inside[code].add(whose)
        return self._rooms[code]


def new_code() -> str:
    """Return a random code."""
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


@cache
def rooms() -> Rooms:
    """This process's rooms."""
    return Rooms(settings.current().followers)
