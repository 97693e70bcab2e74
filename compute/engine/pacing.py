"""Scheduling in the worker's loop: which lab runs next and for how long, its steps, and when a frame is due.

Pure arithmetic; the clock is passed in.

`Turns` divides time, not turns: of the labs with work, the one that has used the least time runs next. A lab whose step
takes 50 ms has turns less often than one with steps of 0.1 ms, and neither starves. A lab that resumes after a pause
does not get the missed time.

Work that a client waits for comes first (Urgency). The more labs have a waiting client, the shorter their turns, so
that a round of all of them takes about ROUND, as long as no turn is shorter than SHORTEST. The duration of a round is
the time that each client waits for the next frame or for the answer to a control.

`FramePacer` fills the turn of a lab with as many steps as fit before its next frame, which must be due and permitted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf, nan
from operator import attrgetter
from typing import Protocol

from compute.measure.timing import MOST_SPANS, Span, Timing

ROUND = 0.05  # seconds for a turn of every awaited lab: 20 frames a second of each, if the device is fast enough
SHORTEST = 0.003  # minimum seconds of a turn: some ten steps of 512 x 512 cells, compared with 0.3 ms to begin one
RECENT = 0.25  # seconds after an awaited turn for which its lab counts as awaited: a slow browser paints four a second
MANY = 4  # awaited labs from which on a core of the host is left to the server (worker.py)
BETWEEN = 0.2  # part of the time for due work without a waiting client, while awaited labs want all of it
SAVED = 0.005  # seconds of that part that are saved up before such a turn: about one turn
CLAIM = 0.01  # seconds that a lab that resumes after a pause may be behind the others
UNUSUAL = 4.0  # times the usual turn up to which a turn counts: garbage collection or CUDA's allocation may add to it
NEWEST = 0.2  # weight of the last turn in the usual one: steadily long turns are charged in full a few turns later
LONGEST = 1.0  # maximum seconds that a turn counts for: the machine may have been suspended in it


class Urgency(Enum):
    """Priority of a lab's work: awaited by a client, due at some time, or only computed ahead."""

    AWAITED = 1
    DUE = 2
    AHEAD = 3


class TurnTaker(Protocol):
    """An object that has turns: a lab, or the queue of measurements."""

    @property
    def number(self) -> int:
        """The number of the lab that its turn is for."""

    def wakes_at(self, now: float) -> float:
        """Return the time of the next turn: `now` or earlier for immediately, inf without work."""

    def urgency(self) -> Urgency:
        """Return the priority of its next turn."""

    def turn(self, now: float, seconds: float) -> None:
        """Work for about `seconds` seconds."""


@dataclass(eq=False)
class Share:
    """The time that `taker` has used.

    used: seconds in awaited turns, of which the last began at `awaited_at`; left_over: seconds in other turns; usual:
    moving mean of an awaited turn's seconds, 0 before the first.
    """

    taker: TurnTaker
    used: float = 0.0
    left_over: float = 0.0
    awaited_at: float = -inf
    usual: float = 0.0


@dataclass(frozen=True, eq=False)
class Turn:
    """The next turn: its share, its seconds, and flags for an awaited turn and for one between awaited ones.

    labs: number of labs that are awaited, or were so up to RECENT ago.
    """

    share: Share
    seconds: float
    awaited: bool
    between: bool
    labs: int

    @property
    def crowded(self) -> bool:
        """Whether at least MANY labs are awaited."""
        return self.labs >= MANY


class Turns:
    """The scheduler of all TurnTakers. `next` selects one; `done` counts the time that its turn used."""

    def __init__(self) -> None:
        self._shares: list[Share] = []
        self._used = self._left_over = 0.0  # of the last turn of each kind: no lab with work has used less
        self._saved = 0.0  # seconds for due work without a waiting client

    def join(self, taker: TurnTaker) -> None:
        """Add `taker` to the turns."""
        self._shares.append(Share(taker))

    def leave(self, taker: TurnTaker) -> None:
        """Remove `taker` from the turns."""
        self._shares = [share for share in self._shares if share.taker is not taker]

    def wakes_at(self, now: float) -> float:
        """Return the time of the earliest next turn; inf without any."""
        return min((share.taker.wakes_at(now) for share in self._shares), default=inf)

    def next(self, now: float) -> Turn | None:
        """Return the next turn; None if no lab has work."""
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
        """Return the first share of each urgency; unless `everybody`, stop at the first awaited one."""
        first: dict[Urgency, Share] = {}
        self._shares.sort(key=attrgetter("used"))  # nearly sorted: only one of them had a turn since the last call
        for share in self._shares:
            if share.taker.wakes_at(now) > now:
                continue
            urgency = share.taker.urgency()
            if urgency not in first or (urgency is not Urgency.AWAITED and share.left_over < first[urgency].left_over):
                first[urgency] = share
            if urgency is Urgency.AWAITED and not everybody:
                break
        return first

    def _turn(self, share: Share, now: float, *, awaited: bool = False, between: bool = False) -> Turn:
        """Return a turn of `share`, such that all awaited labs have one within ROUND, but at least SHORTEST long."""
        labs = sum([now - other.awaited_at < RECENT for other in self._shares])
        return Turn(share, max(ROUND / max(1, labs), SHORTEST), awaited, between, labs)

    def done(self, turn: Turn, seconds: float) -> None:
        """Count the `seconds` of a finished turn.

        An awaited turn that took far longer than usual counts as UNUSUAL times the usual one. Measurements, whose
        turns differ in length by nature, are charged in full.
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


SLICE = 0.008  # seconds of one slice: short compared with a frame at 30 a second, long compared with a switch
LEAST = 0.25  # minimum part of a turn for computing, regardless of the duration of the frame in the same turn
CHEAPEST = 1e-7  # minimum seconds of a step in the size of slices: no slice has more than 80 000 steps
GRACE = 1.0  # seconds after the last permission during which an unlimited lab computes on without a frame
SLOWER, FASTER = 0.2, 0.7  # weight of the last slice in the mean cost of a step: one disturbed slice counts little


@dataclass
class Tally:
    """Sums over the slices of one frame: steps, and their host and device seconds; spans: the last MOST_SPANS."""

    steps: int = 0
    launch: float = nan
    compute: float = nan
    first_call: bool = False
    spans: tuple[Span, ...] = ()

    def add(self, timing: Timing) -> None:
        """Add one slice."""
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
    """Decides for one lab how many steps come next, and when a frame is due.

    steps: per frame, None for as many as possible; frames: number of the last frame shown; frames_through: number of
    the last permitted frame; single_steps: requested and still to do; dirty: a paused lab has changed since its last
    frame; seen: whether any frame was shown; cost, frame_cost: seconds of one step and of one frame, moving means, 0 if
    unknown; turn: seconds for a slice and a frame together, if other labs wait too.
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
        """Whether a client waits for the lab's next work: a permitted frame or single steps."""
        return self.single_steps > 0 or (self.may_show and (self.running or self.dirty))

    def permit(self, number: int, now: float) -> None:
        """Permit all frames up to `number`; an equal or smaller number changes nothing."""
        self.frames_through = max(self.frames_through, number)
        self.last_permission = now

    def stop(self) -> None:
        """Pause. The computed part of an unfinished frame is still shown."""
        self.dirty = self.dirty or self.tally.steps > 0
        self.running, self.single_steps = False, 0

    def fail(self) -> None:
        """Pause after an error. An unfinished frame is not shown, which could repeat the error."""
        self.running, self.single_steps, self.dirty, self.tally = False, 0, False, Tally()

    def begin_anew(self) -> None:
        """Forget the costs, and the steps of the unfinished frame: another backend continues."""
        self.cost = self.frame_cost = 0.0
        self.tally = Tally()

    def add_single_steps(self, n: int) -> None:
        """Pause and do `n` single steps."""
        self.running = False
        self.single_steps += n

    def next_steps(self, now: float, *, recorded: bool = False) -> int:
        """Return the steps of the slice that starts `now`; 0 if the lab has no work.

        A recorded lab computes as fast as possible after GRACE seconds without a client.
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
        """Return the time from which on no client watches the lab; inf while it may send a frame or is paused."""
        return self.last_permission + GRACE if self.running and not self.may_show else inf

    def slice_done(self, timing: Timing, seconds: float) -> None:
        """Count a slice that took `seconds` of wall time. The cost of a first call is ignored, because it compiled."""
        self.tally.add(timing)
        if self.single_steps:
            self.single_steps = max(0, self.single_steps - timing.steps)
            self.dirty = True
        if timing.first_call:
            return
        self.cost = newer_mean(self.cost, max(seconds / timing.steps, CHEAPEST))

    def rest(self) -> None:
        """Note that the lab has finished its work: drop single steps and show the current state."""
        self.dirty = self.dirty or self.tally.steps > 0 or self.single_steps > 0
        self.single_steps = 0

    def frame_due(self, resting: bool = False) -> bool:
        """Return whether to show the lab's state now; `resting`: the lab has finished its work."""
        if not self.may_show or self.single_steps:
            return False
        if resting or not (self.running and self.seen):
            return self.dirty
        return self.tally.steps >= max(1, self.steps or 1)

    def frame_shown(self, seconds: float = 0.0) -> Tally:
        """Count a frame that took `seconds` of wall time, and return the tally of its slices."""
        self.frame_cost = newer_mean(self.frame_cost, seconds)
        tally, self.tally = self.tally, Tally()
        self.frames += 1
        self.dirty, self.seen = False, True
        return tally


def newer_mean(mean: float, newest: float) -> float:
    """Return the moving mean of a cost after the value `newest`; a mean of 0 means unknown."""
    return mean + (SLOWER if newest > mean else FASTER) * (newest - mean) if mean else newest
