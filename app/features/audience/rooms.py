"""Registry of open rooms: codes for followers' phones and tokens for the lecturer's windows.

A code has six letters. Letters that look alike are excluded, as are vowels, so that no code is a word. Codes and tokens
come from `secrets`; a token has 192 random bits and cannot be guessed.

Guessing codes is rate-limited: after a number of wrong codes from one address, or a larger number from all addresses,
further attempts must be repeated later, even with a correct code; otherwise a correct guess would be free. A lecture
hall may share one address, and one of its students may try codes continuously. Therefore a code that has already
admitted a follower from an address still admits others from that address: it is no secret there. A guesser at that
address can only confirm this one room, and is rate-limited as well, with higher limits. The first follower from such an
address gets in by chance: phones retry automatically, and some of 200 phones hit one of the two moments per second at
which another attempt is allowed.

Logs contain the number of followers but no addresses. Addresses are stored as long as their room exists, and are never
displayed.
"""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Callable
from functools import cache
from typing import Protocol

from app.features.audience.broadcast import BUSY, ENDED, FULL, UNKNOWN, Broadcast, Counts, Viewer
from compute.cli import settings

MOST_ROOMS = 16  # per process
MOST_WINDOWS = 4  # per lecturer
LETTERS, LENGTH = "BCDFGHJKMNPQRSTVWXYZ", 6  # of a code: 64 million combinations
# Token buckets for wrong codes: (burst, rate per second). In two hours, 20 attempts per second find a given room among
# 64 million codes with a probability of 0.2 %, 50 per second with 0.6 %.
GUESSES = 120, 2.0  # per address: in a hall behind one address some tens of phones mistype
ALL_GUESSES = 1200, 20.0  # of all addresses: ten addresses at full rate
INSIDE_GUESSES = 600, 50.0  # per address with a follower inside, about that room only, in addition
MOST_ADDRESSES = 4096  # stored buckets: by ALL_GUESSES some 2,400 addresses can have one
NO_ROOM = "There is no room with this code, or it is over."
NO_WINDOW = "This window's page is closed. Open the window from the lab's page again."
OVER = "The lecturer has ended the room. Thank you for following."
TOO_MANY_VOTES = "Too many votes at once. This page reconnects in a few seconds."
TRY_AGAIN = "Too many codes are being tried. This page retries in a few seconds."
ROOM_FULL = "The room is full. This page retries in a few seconds."
WINDOWS_FULL = "This page has as many windows as it may have. Close one of them."


class RoomError(RuntimeError):
    """Raised if a room cannot be opened; the message is the reason."""


class ViewerRefused(Exception):
    """Raised if a viewer is not admitted; `code` and `why` as in Viewer.dismiss."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


class GuessBudget:
    """A token bucket: `most` tokens, refilled with `rate` tokens per second."""

    def __init__(self, most: int, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._rate, self._clock = most, rate, clock
        self._left, self._since = float(most), clock()

    def left(self) -> bool:
        """Return whether a token is left."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._since) * self._rate)
        self._since = now
        return self._left >= 1

    @property
    def whole(self) -> bool:
        """Whether the bucket is full."""
        self.left()
        return self._left >= self._most

    def spend(self) -> None:
        """Remove one token."""
        self._left = max(0.0, self._left - 1)


class GuessBudgets:
    """A token bucket per address. Full buckets are removed when MOST_ADDRESSES is reached, then the oldest."""

    def __init__(self, most: int, rate: float, clock: Callable[[], float]) -> None:
        self._most, self._rate, self._clock = most, rate, clock
        self._spent: dict[str, GuessBudget] = {}

    def __len__(self) -> int:
        return len(self._spent)

    def left(self, address: str) -> bool:
        """Return whether `address` has a token left."""
        return address not in self._spent or self._spent[address].left()

    def spend(self, address: str) -> None:
        """Remove one token from the bucket of `address`."""
        if address not in self._spent:
            if len(self._spent) >= MOST_ADDRESSES:
                self._spent = {known: budget for known, budget in self._spent.items() if not budget.whole}
            if len(self._spent) >= MOST_ADDRESSES:
                self._spent.pop(next(iter(self._spent)))
            self._spent[address] = GuessBudget(self._most, self._rate, self._clock)
        self._spent[address].spend()


def network(address: str) -> str:
    """Return the network that is rate-limited as one visitor: the /64 network of an IPv6 address, else the address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address  # a socket without an address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


class Feed(Protocol):
    """Interface of a page's feed; see app.features.audience.feed."""

    followers: Broadcast
    windows: Broadcast

    def wake(self) -> None:
        """Start polling for a new viewer."""

    def act(self, name: str) -> None:
        """Run a command of app.features.audience.feed.ACTS for a lecturer's window."""

    def vote(self, number: int, token: str, choice: int) -> str:
        """Count a follower's choice in vote `number`; return the confirmation, or raise VoteRefused."""


class Rooms:
    """The rooms of this process by code, and its lecturers' windows by token. most: maximum of followers per room."""

    def __init__(self, most: int = 300, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.counts = most, Counts()
        self._rooms: dict[str, Feed] = {}
        self._windows: dict[str, Feed] = {}
        self._inside: dict[str, set[str]] = {}  # code -> networks from which a follower has joined
        self._guesses, self._all_guesses = GuessBudgets(*GUESSES, clock), GuessBudget(*ALL_GUESSES, clock)
        self._inside_guesses = GuessBudgets(*INSIDE_GUESSES, clock)

    @property
    def open_rooms(self) -> int:
        """The number of open rooms."""
        return len(self._rooms)

    @property
    def followers(self) -> int:
        """The number of followers in all rooms."""
        return sum(len(feed.followers) for feed in self._rooms.values())

    # -- for the lecturer's page

    def open(self, feed: Feed) -> str:
        """Return the code of a new room for `feed`; raise RoomError if rooms are disabled or MOST_ROOMS are open."""
        if not self.most:
            raise RoomError("this server's setting followers is 0")
        if len(self._rooms) >= MOST_ROOMS:
            raise RoomError(f"this server has {MOST_ROOMS} rooms at most, and as many are open; end one of them")
        code = next(code for code in iter(new_code, "") if code not in self._rooms)
        self._rooms[code], self._inside[code] = feed, set()
        return code

    def end(self, code: str) -> None:
        """End a room and notify its followers; unknown codes are ignored."""
        self._inside.pop(code, None)
        if feed := self._rooms.pop(code, None):
            feed.followers.end(ENDED, OVER)

    def window(self, feed: Feed) -> str:
        """Return a token for the lecturer's windows of `feed`."""
        token = secrets.token_urlsafe(24)
        self._windows[token] = feed
        return token

    def end_window(self, token: str) -> None:
        """Close the windows of a page that was closed; unknown tokens are ignored."""
        if feed := self._windows.pop(token, None):
            feed.windows.end(ENDED, NO_WINDOW)

    # -- for viewers

    def follow(self, code: str, viewer: Viewer, address: str = "") -> Feed:
        """Add `viewer` to the room with this code; raise ViewerRefused if the room does not exist or is full.

        address: remote address of the viewer, "" if unknown.
        """
        feed = self._find(code, network(address))
        if len(feed.followers) >= self.most:
            raise ViewerRefused(FULL, ROOM_FULL)
        feed.followers.join(viewer)
        feed.wake()
        return feed

    def look_on(self, token: str, viewer: Viewer) -> Feed:
        """Add a lecturer's window; raise ViewerRefused for an unknown token or if the page has MOST_WINDOWS windows."""
        if token not in self._windows:
            raise ViewerRefused(UNKNOWN, NO_WINDOW)
        feed = self._windows[token]
        if len(feed.windows) >= MOST_WINDOWS:
            raise ViewerRefused(FULL, WINDOWS_FULL)
        feed.windows.join(viewer)
        feed.wake()
        return feed

    def _find(self, code: str, whose: str) -> Feed:
        """Return the feed of a room; raise ViewerRefused for an unknown code or too many attempts.

        whose: network of the viewer.
        """
        if self._all_guesses.left() and self._guesses.left(whose):
            if code not in self._rooms:
                self._all_guesses.spend()
                self._guesses.spend(whose)
                raise ViewerRefused(UNKNOWN, NO_ROOM)
        elif whose not in self._inside.get(code, ()) or not self._inside_guesses.left(whose):
            if any(whose in inside for inside in self._inside.values()) and self._inside_guesses.left(whose):
                self._inside_guesses.spend(whose)  # the refusal reveals that the code is not right
            raise ViewerRefused(BUSY, TRY_AGAIN)
        if len(self._inside[code]) < MOST_ADDRESSES:
            self._inside[code].add(whose)
        return self._rooms[code]


def new_code() -> str:
    """Return a random code."""
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


@cache
def rooms() -> Rooms:
    """Return the rooms of this process."""
    return Rooms(settings.current().followers)
