"""Jobs requested by several pages: which pages share one, and how long a result is reused."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from compute.export.shared_jobs import SharedJobs


@dataclass(eq=False)
class FakeJob:
    """A job that ends on request."""

    state: str = "waiting"
    result: bytes = b""
    ended: float = 0.0

    @property
    def over(self):
        return self.state in ("done", "failed", "cancelled")

    def cancel(self):
        self.state = self.state if self.over else "cancelled"

    def end(self, state="done", ago=0.0, result=b"result"):
        self.state, self.ended, self.result = state, time.monotonic() - ago, result


class Somebody:
    """A client of jobs."""


@pytest.fixture
def measured():
    """Return the jobs of measurements, each reused for a minute."""
    return SharedJobs(len, 100, fresh=60.0)


def test_a_measurement_serves_who_comes_soon_and_not_who_comes_late(measured):
    first, soon, late = Somebody(), Somebody(), Somebody()
    shared = measured.ask("race", FakeJob, first)
    assert measured.ask("race", FakeJob, soon) is shared
    shared.job.end(ago=50)
    assert measured.ask("race", FakeJob, Somebody()) is shared
    shared.job.end(ago=70)
    assert measured.ask("race", FakeJob, late) is not shared


def test_who_has_had_a_measurement_and_asks_again_gets_another(measured):
    first, other = Somebody(), Somebody()
    shared = measured.ask("race", FakeJob, first)
    assert measured.ask("race", FakeJob, first) is shared  # still running
    shared.job.end()
    measured.leave(shared, first)
    assert measured.ask("race", FakeJob, other) is shared
    again = measured.ask("race", FakeJob, first)
    assert again is not shared
    measured.leave(shared, other)
    assert measured.ask("race", FakeJob, other) is again  # the latest


def test_what_is_no_measurement_serves_also_who_asks_again():
    states, first = SharedJobs(len, 100), Somebody()
    shared = states.ask("state", FakeJob, first)
    shared.job.end(ago=1e6)
    states.leave(shared, first)
    assert states.ask("state", FakeJob, first) is shared


def test_a_measurement_that_serves_nobody_any_more_is_forgotten(measured):
    shared = measured.ask("race", FakeJob, first := Somebody())
    shared.job.end()
    measured.leave(shared, first)
    assert measured.held == len(b"result")
    shared.job.end(ago=70)
    measured.leave(measured.ask("other", FakeJob, first), first)
    assert measured.held == 0


def test_results_that_nobody_shows_are_kept_up_to_a_bound(measured):
    shown = measured.ask("shown", FakeJob, Somebody())
    shown.job.end(result=bytes(1000))
    for key in "abc":
        shared = measured.ask(key, FakeJob, first := Somebody())
        shared.job.end(result=bytes(40))
        measured.leave(shared, first)
    assert measured.held == 1000 + 80
    assert measured.ask("c", FakeJob, Somebody()) is shared


def test_what_failed_serves_nobody_who_asks_later(measured):
    shared = measured.ask("race", FakeJob, Somebody())
    shared.job.end("failed")
    assert measured.ask("race", FakeJob, Somebody()) is not shared


def test_what_one_leaves_goes_on_for_the_others(measured):
    first, second = Somebody(), Somebody()
    shared = measured.ask("race", FakeJob, first)
    measured.ask("race", FakeJob, second)
    measured.leave(shared, first)
    assert shared.job.state == "waiting"
    measured.leave(shared, second)
    assert shared.job.state == "cancelled"
    assert measured.ask("race", FakeJob, first) is not shared
