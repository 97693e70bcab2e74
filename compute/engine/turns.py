"""Whose turn it is in the worker's loop, and how long it may be. Pure arithmetic on a clock that is passed in.

What is shared is time, not turns: of those with work the one that has used the least is next. A lab whose step takes
50 ms has its turn more rarely than one whose step takes 0.1 ms, and neither starves. Who comes back after a pause does
not get the time that it let pass.

What somebody waits for comes first (Urgency). The more labs are waited for, the shorter are their turns, so that all of
them together take about ROUND, as long as no turn is shorter than SHORTEST: that is what each waits for its next frame,
and for the answer to a control.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import inf
from operator import attrgetter
from typing import Protocol

ROUND = 0.05  # seconds for a turn of every lab that is waited for: 20 frames a second of each, if the device can
SHORTEST = 0.003  # seconds of a turn at least: some ten steps of 512 x 512 cells, beside 0.3 ms to begin one
RECENT = 0.25  # seconds after such a turn for which a lab counts as one of them: a slow browser paints four a second
CROWD = 4  # labs that are waited for, from which on a core of the host is left to the server (worker.py)
BETWEEN = 0.2  # part of the time for what is due without being waited for, where those that are waited for leave none
SAVED = 0.005  # seconds of that part that are saved up before it comes between the others: about one turn
CLAIM = 0.01  # seconds that somebody who comes back after a pause may be behind the others
UNUSUAL = 4.0  # times the usual turn, up to which a turn counts: Python may have tidied up in it, or CUDA made room
NEWEST = 0.2  # weight of the newest turn in the usual one: whose steps are that long pays for them a few turns later
LONGEST = 1.0  # seconds that a turn counts for at most: the machine may have slept in it


class Urgency(Enum):
    """Why somebody has work: who looks on waits for it; it is due some time; or there is nothing better to do."""

    AWAITED = 1
    DUE = 2
    AHEAD = 3


class TurnTaker(Protocol):
    """Who has turns: a lab, or the queue of measurements."""

    @property
    def number(self) -> int:
        """The number of the lab that its turn is for."""

    def wakes_at(self, now: float) -> float:
        """Return when it wants its next turn: not after `now` for at once, inf if it has no work."""

    def urgency(self) -> Urgency:
        """Return why it wants a turn at once."""

    def turn(self, now: float, seconds: float) -> None:
        """Work for about `seconds` seconds."""


@dataclass(eq=False)
class Share:
    """What `who` has had. used: seconds in turns that were waited for, of which the last began `awaited_at`; left_over:
    seconds in others; usual: what a turn takes, a moving mean, 0 before the first.
    """

    who: TurnTaker
    used: float = 0.0
    left_over: float = 0.0
    awaited_at: float = -inf
    usual: float = 0.0


@dataclass(frozen=True, eq=False)
class Turn:
    """The next turn: whose, how many seconds it may take, whether it is waited for or comes between those that are.

    crowded: whether CROWD labs or more are waited for.
    """

    share: Share
    seconds: float
    awaited: bool
    between: bool
    crowded: bool


class Turns:
    """Everybody who has turns. `next` says whose it is; `done` counts what it took."""

    def __init__(self) -> None:
        self._shares: list[Share] = []
        self._used = self._left_over = 0.0  # of whoever had the last turn of a kind: nobody who works has had less
        self._saved = 0.0  # seconds for what is due and not waited for

    def join(self, who: TurnTaker) -> None:
        """Let `who` have turns from now on."""
        self._shares.append(Share(who))

    def leave(self, who: TurnTaker) -> None:
        """Let `who` have no further turn."""
        self._shares = [share for share in self._shares if share.who is not who]

    def wakes_at(self, now: float) -> float:
        """Return when somebody wants a turn; inf if nobody does."""
        return min((share.who.wakes_at(now) for share in self._shares), default=inf)

    def next(self, now: float) -> Turn | None:
        """Return the next turn; None if nobody has work."""
        saved_up = self._saved >= SAVED
        first = self._first(now, everybody=saved_up)
        awaited, due, ahead = (first.get(urgency) for urgency in Urgency)
        if awaited and not (due and saved_up):
            self._saved = 0.0 if saved_up else self._saved
            self._used = max(self._used, awaited.used)
            awaited.used, awaited.awaited_at = max(awaited.used, self._used - CLAIM), now
            return self._turn(awaited, now, awaited=True)
        unwatched = due if awaited else min(filter(None, (due, ahead)), key=attrgetter("left_over"), default=None)
        if unwatched is None:
            return None
        self._left_over = max(self._left_over, unwatched.left_over)
        unwatched.left_over = max(unwatched.left_over, self._left_over - CLAIM)
        return self._turn(unwatched, now, between=awaited is not None)

    def _first(self, now: float, *, everybody: bool) -> dict[Urgency, Share]:
        """Return who is first of each urgency; unless `everybody` is wanted, the first that is waited for is enough."""
        first: dict[Urgency, Share] = {}
        for share in sorted(self._shares, key=attrgetter("used")):
            if share.who.wakes_at(now) > now:
                continue
            urgency = share.who.urgency()
            if urgency not in first or (urgency is not Urgency.AWAITED and share.left_over < first[urgency].left_over):
                first[urgency] = share
            if urgency is Urgency.AWAITED and not everybody:
                break
        return first

    def _turn(self, share: Share, now: float, *, awaited: bool = False, between: bool = False) -> Turn:
        """Return a turn so long that all who are waited for have one within ROUND, but no shorter than SHORTEST."""
        labs = sum(now - other.awaited_at < RECENT for other in self._shares)
        return Turn(share, max(ROUND / max(1, labs), SHORTEST), awaited, between, crowded=labs >= CROWD)

    def done(self, turn: Turn, seconds: float) -> None:
        """Count the `seconds` that a turn has taken.

        Of one that is waited for and took far longer than usual only what is usual counts. Measurements, whose turns
        differ by what they measure, pay for all of it.
        """
        seconds, share = min(seconds, LONGEST), turn.share
        if turn.awaited:
            usual = share.usual or turn.seconds
            share.usual = usual + NEWEST * (seconds - usual)
            share.used += min(seconds, UNUSUAL * usual)
            self._saved += seconds * BETWEEN / (1 - BETWEEN)
        else:
            share.left_over += seconds
            self._saved -= seconds if turn.between else 0.0
