"""Whose turn it is in the worker's loop and how long it may be; how many steps come next, and when a frame is due.

Pure arithmetic on a clock that is passed in.

`Turns` shares time, not turns: of those with work the one that has used the least is next. A lab whose step takes 50 ms
has its turn more rarely than one whose step takes 0.1 ms, and neither starves. Who comes back after a pause does not
get the time that it let pass.

What somebody waits for comes first (Urgency). The more labs are waited for, the shorter are their turns, so that all of
them together take about ROUND, as long as no turn is shorter than SHORTEST: that is what each waits for its next frame,
and for the answer to a control.

`FramePacer` fills the turn of a lab: with so many steps that a frame is shown when it is due and may be.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf, nan
from operator import attrgetter
from typing import Protocol

from compute.measure.timing import MOST_SPANS, Span, Timing

ROUND = 0.05  # seconds for a turn of every lab that is waited for: 20 frames a second of each, if the device can
SHORTEST = 0.003  # seconds of a turn at least: some ten steps of 512 x 512 cells, beside 0.3 ms to begin one
RECENT = 0.25  # seconds after such a turn for which a lab counts as one of them: a slow browser paints four a second
MANY = 4  # labs that are waited for, from which on a core of the host is left to the server (worker.py)
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

    labs: how many are waited for, or were so up to RECENT ago.
    """

    share: Share
    seconds: float
    awaited: bool
    between: bool
    labs: int

    @property
    def crowded(self) -> bool:
        """Whether MANY labs or more are waited for."""
        return self.labs >= MANY


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
        self._shares.sort(key=attrgetter("used"))  # nearly sorted, as one of them had a turn since the last time
        for share in self._shares:
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
        labs = sum([now - other.awaited_at < RECENT for other in self._shares])
        return Turn(share, max(ROUND / max(1, labs), SHORTEST), awaited, between, labs)

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


SLICE = 0.008  # seconds of one slice: short against a frame at 30 a second, long against the cost of a switch
LEAST = 0.25  # part of a turn that is computed, however long the frame takes that belongs to it
CHEAPEST = 1e-7  # seconds of a step at least, as far as slices go: no slice has more than 80 000 steps
GRACE = 1.0  # seconds after the last permission for which "as fast as it goes" goes on without a frame
SLOWER, FASTER = 0.2, 0.7  # weight of the newest slice in the mean cost of a step: one disturbed slice counts little


@dataclass
class Tally:
    """Sums of the slices of one frame: steps, and the host and device seconds they took; spans: the newest MOST."""

    steps: int = 0
    launch: float = nan
    compute: float = nan
    first_call: bool = False
    spans: tuple[Span, ...] = ()

    def add(self, timing: Timing) -> None:
        """Count one slice."""
        first = self.steps == 0
        self.launch = timing.launch if first else self.launch + timing.launch
        self.compute = timing.compute if first else self.compute + timing.compute
        self.steps += timing.steps
        self.first_call = self.first_call or timing.first_call
        self.spans = (*self.spans, *timing.spans)[-MOST_SPANS:]

    def total(self, timing: Timing) -> Timing:
        """Return `timing`, a frame's own, with steps, launch and compute of all its slices."""
        first_call, spans = self.first_call or timing.first_call, (*self.spans, *timing.spans)
        return replace(
            timing, steps=self.steps, launch=self.launch, compute=self.compute, first_call=first_call, spans=spans
        )


@dataclass
class FramePacer:
    """Decides for one lab how many steps it does next, and when a frame of it is due.

    steps: per frame, None for as fast as it goes; frames: number of the last frame shown; frames_through: number of the
    last frame that it may show; single_steps: asked for and not done yet; dirty: something changed that a paused lab
    has not shown yet; seen: whether there was any frame yet; cost, frame_cost: seconds of one step and of one frame,
    moving means, 0 if not known; turn: seconds of a slice and a frame together, where others wait too.
    """

    steps: int | None = 1
    running: bool = False
    frames: int = 0
    frames_through: int = 0
    single_steps: int = 0
    dirty: bool = True
    seen: bool = False
    cost: float = 0.0
    frame_cost: float = 0.0
    turn: float = inf
    last_permission: float = -inf
    tally: Tally = field(default_factory=Tally)

    @property
    def may_show(self) -> bool:
        """Whether another frame is permitted."""
        return self.frames < self.frames_through

    @property
    def waited_for(self) -> bool:
        """Whether somebody waits for what the lab does next: a frame that may be shown, or single steps."""
        return self.single_steps > 0 or (self.may_show and (self.running or self.dirty))

    def permit(self, number: int, now: float) -> None:
        """Permit all frames up to `number`; the same again, or less, permits nothing new."""
        self.frames_through = max(self.frames_through, number)
        self.last_permission = now

    def stop(self) -> None:
        """Pause. What was computed of an unfinished frame is still shown."""
        self.dirty = self.dirty or self.tally.steps > 0
        self.running, self.single_steps = False, 0

    def fail(self) -> None:
        """Pause after an error: nothing half done is shown, so that the error is not repeated by itself."""
        self.running, self.single_steps, self.dirty, self.tally = False, 0, False, Tally()

    def add_single_steps(self, n: int) -> None:
        """Pause and do `n` single steps."""
        self.running = False
        self.single_steps += n

    def next_steps(self, now: float, *, recorded: bool = False) -> int:
        """Return the steps for the slice that starts `now`; 0 if the lab has nothing to compute.

        A lab that is recorded goes on, as fast as it goes, when nobody has looked at it for GRACE.
        """
        seconds = min(SLICE, max(self.turn - self.frame_cost, LEAST * self.turn))
        fit = max(1, int(seconds / self.cost)) if self.cost else 1
        if self.single_steps:
            return min(self.single_steps, fit)
        if not self.running:
            return 0
        if recorded and now >= self.unwatched_at():
            return fit
        if self.steps is None:
            return fit if self.may_show or now - self.last_permission < GRACE else 0
        return min(max(0, self.steps - self.tally.steps), fit) if self.may_show else 0

    def unwatched_at(self) -> float:
        """Return from when on nobody looks at the lab; inf while it may send a frame, or is paused."""
        return self.last_permission + GRACE if self.running and not self.may_show else inf

    def slice_done(self, timing: Timing, seconds: float) -> None:
        """Account for a slice that took `seconds` of wall time. A first call does not count: it compiled."""
        self.tally.add(timing)
        if self.single_steps:
            self.single_steps = max(0, self.single_steps - timing.steps)
            self.dirty = True
        if timing.first_call:
            return
        self.cost = newer_mean(self.cost, max(seconds / timing.steps, CHEAPEST))

    def rest(self) -> None:
        """Note that the lab has nothing left to do: single steps are done, and what there is can be shown."""
        self.dirty = self.dirty or self.tally.steps > 0 or self.single_steps > 0
        self.single_steps = 0

    def frame_due(self, resting: bool = False) -> bool:
        """Whether the lab should show its state now; `resting`: it has nothing left to do."""
        if not self.may_show or self.single_steps:
            return False
        if resting or not (self.running and self.seen):
            return self.dirty
        return self.tally.steps >= max(1, self.steps or 1)

    def frame_shown(self, seconds: float = 0.0) -> Tally:
        """Count a frame that took `seconds` of wall time, and return what led to it."""
        self.frame_cost = newer_mean(self.frame_cost, seconds)
        tally, self.tally = self.tally, Tally()
        self.frames += 1
        self.dirty, self.seen = False, True
        return tally


def newer_mean(mean: float, newest: float) -> float:
    """Return the moving mean of what something costs, after the `newest` one; 0 is not known."""
    return mean + (SLOWER if newest > mean else FASTER) * (newest - mean) if mean else newest
