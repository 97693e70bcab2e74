"""The number of steps of a slice, and when a frame is due. Clocks are numbers."""

from __future__ import annotations

import pytest

from compute.engine.pacing import GRACE, LEAST, SLICE, FramePacer
from compute.measure.timing import Timing


def done(steps: int, compute: float = 0.001, *, first_call: bool = False) -> Timing:
    return Timing("cpu_numpy", "one-step", steps, 16, 0.0, compute, first_call=first_call)


class TestFramePacer:
    def test_the_first_frame_does_not_wait_for_the_steps(self):
        pacer = FramePacer(steps=10**6, running=True)
        assert pacer.next_steps(0.0) == 0
        assert not pacer.frame_due()
        pacer.permit(2, 0.0)
        assert pacer.frame_due()
        pacer.frame_shown()
        assert not pacer.frame_due()

    def test_a_frame_is_split_into_slices_and_its_steps_add_up(self):
        pacer, slices, now = FramePacer(steps=1000, running=True, seen=True), [], 0.0
        pacer.permit(1, now)
        while not pacer.frame_due():
            slices.append(pacer.next_steps(now))
            pacer.slice_done(done(slices[-1]), slices[-1] * 1e-4)
        assert slices[0] == 1
        assert max(slices) <= SLICE / 1e-4 + 1
        assert sum(slices) == 1000
        total = pacer.frame_shown().total(done(0))
        assert total.steps == 1000
        assert total.compute == pytest.approx(0.001 * len(slices))
        assert not pacer.may_show
        assert pacer.next_steps(now) == 0

    def test_as_fast_as_it_goes_goes_on_for_a_second_after_the_last_permission(self):
        pacer = FramePacer(steps=None, running=True, seen=True)
        pacer.permit(1, 10.0)
        pacer.slice_done(done(1), 0.001)
        pacer.frame_shown()
        assert pacer.next_steps(10.0 + 0.9 * GRACE) > 0
        assert not pacer.frame_due()
        assert pacer.next_steps(10.0 + 1.1 * GRACE) == 0
        assert pacer.unwatched_at() == 10.0 + GRACE
        assert pacer.next_steps(10.0 + 0.9 * GRACE, recorded=True) > 0
        assert pacer.next_steps(10.0 + 1.1 * GRACE, recorded=True) > 0  # a recording needs no permission

    def test_single_steps_pause_and_are_shown_when_all_are_done(self):
        pacer = FramePacer(running=True, cost=SLICE / 2)
        pacer.add_single_steps(5)
        pacer.permit(2, 0.0)
        seen = []
        while steps := pacer.next_steps(0.0):
            assert not pacer.frame_due()
            pacer.slice_done(done(steps), steps * SLICE / 2)
            seen.append(steps)
        assert seen == [2, 2, 1]
        assert pacer.frame_due()
        assert pacer.frame_shown().steps == 5

    def test_pausing_shows_the_unfinished_frame(self):
        pacer = FramePacer(steps=100, running=True, dirty=False)
        pacer.permit(1, 0.0)
        pacer.slice_done(done(7), 0.008)
        pacer.stop()
        assert pacer.next_steps(0.0) == 0
        assert pacer.frame_due()
        assert pacer.frame_shown().steps == 7

    def test_a_first_call_does_not_spoil_the_estimate(self):
        pacer = FramePacer(steps=None, running=True, seen=True)
        pacer.permit(1, 0.0)
        pacer.slice_done(done(1, first_call=True), 30.0)
        assert pacer.cost == 0.0
        assert pacer.tally.first_call

    def test_steps_that_cost_nothing_still_make_a_slice_of_bounded_length(self):
        pacer = FramePacer(steps=None, running=True, seen=True)
        pacer.permit(1, 0.0)
        for _ in range(1000):
            steps = pacer.next_steps(0.0)
            pacer.slice_done(done(steps), 0.0)
        assert 1000 < steps <= 100_000

    def test_a_slice_is_shorter_where_a_frame_must_fit_into_the_turn_as_well(self):
        pacer = FramePacer(steps=None, running=True, seen=True, cost=1e-5)
        pacer.permit(9, 0.0)
        assert pacer.next_steps(0.0) == pytest.approx(SLICE / 1e-5, abs=1)
        pacer.frame_shown(0.001)
        pacer.turn = 0.003
        assert pacer.next_steps(0.0) == pytest.approx(0.002 / 1e-5, abs=1)
        pacer.turn = 0.001  # no time is left, but a part of the turn is computed nevertheless
        assert pacer.next_steps(0.0) == pytest.approx(LEAST * 0.001 / 1e-5, abs=1)
        pacer.cost = 10.0
        assert pacer.next_steps(0.0) == 1

    def test_somebody_waits_for_frames_that_may_be_shown_and_for_single_steps(self):
        pacer = FramePacer(steps=None, running=True, dirty=False)
        assert not pacer.waited_for
        pacer.permit(1, 0.0)
        assert pacer.waited_for
        pacer.frame_shown()
        assert not pacer.waited_for
        assert pacer.next_steps(0.1) > 0
        pacer.add_single_steps(1)
        assert pacer.waited_for
        paused = FramePacer(dirty=True, frames_through=1)
        assert paused.waited_for
        paused.dirty = False
        assert not paused.waited_for
