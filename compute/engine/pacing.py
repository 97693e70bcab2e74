"""How many steps a lab does next, and when a frame of it is due. Pure arithmetic on a clock that is passed in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, nan

from compute.measure.timing import MOST_SPANS, Span, Timing

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
        self.frames_through = number
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
