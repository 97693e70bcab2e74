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


def test_a_measurement_serves_clients_that_come_soon_and_is_forgotten_later(measured):
    first = Somebody()
    shared = measured.ask("race", FakeJob, first)
    assert measured.ask("race", FakeJob, Somebody()) is shared
    shared.job.end(ago=50)
    assert measured.ask("race", FakeJob, Somebody()) is shared
    shared.job.end(ago=70)
    assert measured.ask("race", FakeJob, Somebody()) is not shared
    alone = measured.ask("alone", FakeJob, first)
    alone.job.end()
    measured.leave(alone, first)
    held = measured.held
    alone.job.end(ago=70)
    measured.leave(measured.ask("other", FakeJob, first), first)
    assert measured.held == held - len(b"result")


def test_a_client_that_has_had_a_measurement_gets_another_but_not_a_computed_state(measured):
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
    states = SharedJobs(len, 100)
    state = states.ask("state", FakeJob, first)
    state.job.end(ago=1e6)
    states.leave(state, first)
    assert states.ask("state", FakeJob, first) is state


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
