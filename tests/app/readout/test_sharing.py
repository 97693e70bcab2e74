"""Many tabs, one comparison: the sessions of a process share measurements, and wait for the session that measures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from app.readout.comparison import CALM, HOLD, LONGEST_JOB, REST, RETRY, Comparison
from compute.engine.messages import EngineBroken, LabClosed, Refused
from compute.labs.diffusion.benchmark import RULES
from compute.measure.verdict import MOST_ENTRIES, MOST_RIGHT, ResultCache
from tests.app.readout.benches import VALUES, Engines

pytestmark = pytest.mark.usefixtures("host_only")


class Hall:
    """Tabs with a comparison each, all with the same values by default, on engines that answer after each tick."""

    def __init__(self, tabs: int = 40) -> None:
        self.now, self.results, self.engines = 0.0, ResultCache(), Engines(answers=False)
        self.tabs: list[Comparison] = []
        self.most_open = 0  # jobs at a time
        for _ in range(tabs):
            self.tabs.append(Comparison("diffusion", RULES, self.engines.open, self.results, lambda: self.now))
            self.tabs[-1].follow(VALUES)

    @property
    def open(self) -> list[Any]:
        return self.engines.open_jobs

    @property
    def asked(self) -> Counter[tuple[str, str, float]]:
        """The requests: what, backend and r."""
        return Counter((job.asked, job.values["backend"], job.values["r"]) for job in self.engines.jobs)

    def tick(self, *, answer: bool = True) -> None:
        """Call every tab's tick, starting with another tab each time, then let every engine answer."""
        self.tabs.append(self.tabs.pop(0))
        for tab in self.tabs:
            tab.tick()
            self.most_open = max(self.most_open, len(self.open))
        for job in self.open if answer else ():
            job.answer()
        self.now += REST + 0.01

    def run(self, ticks: int = 60) -> None:
        for _ in range(ticks):
            self.tick()

    @property
    def states(self) -> set[str]:
        """The states of all tabs' comparisons."""
        return {tab.verdict().state for tab in self.tabs}

    def agrees_in_the_end(self) -> bool:
        """Return whether all tabs agree after failed requests have been retried."""
        self.now += RETRY
        self.run()
        return self.states == {"agree"}


def test_forty_tabs_make_the_requests_of_one_and_show_the_verdict_together():
    alone, hall = Hall(1), Hall()
    alone.run()
    while hall.states == {"measuring"}:
        hall.tick()
        assert len(hall.states) == 1
    hall.run()
    assert hall.states == {"agree"}
    assert len({tab.verdict().speed_up for tab in hall.tabs}) == 1
    assert hall.asked == alone.asked
    assert Counter(job.asked for job in hall.engines.jobs)["solve"] == 3  # the reference field, Numba's and NumPy's
    assert (hall.open, hall.most_open) == ([], 1)


@pytest.mark.parametrize("jobs", range(6))
def test_another_tab_continues_when_the_one_that_measures_is_closed(jobs):
    hall = Hall(3)
    while len(hall.engines.jobs) <= jobs:
        hall.tick(answer=len(hall.engines.jobs) < jobs)
    (job,) = hall.open
    holder = next(tab for tab in hall.tabs if tab._handle is job)
    holder.close()
    assert hall.open == []
    hall.tabs.remove(holder)
    hall.run()
    assert (hall.states, hall.most_open) == ({"agree"}, 1)


@pytest.mark.parametrize(
    "event",
    [Refused("planted"), EngineBroken("planted"), LabClosed()],
    ids=["refused", "engine broken", "closed by the engine"],
)
def test_a_job_that_fails_is_reported_until_it_is_tried_again(event):
    hall = Hall(3)
    hall.tick(answer=False)
    hall.open[0].tell(event)
    hall.tick(answer=False)
    assert hall.open == []
    assert hall.states == {"unavailable"}
    hall.now += RETRY
    assert hall.states == {"measuring"}
    assert hall.agrees_in_the_end()


def test_an_engine_that_cannot_open_a_lab_does_not_delay_other_tabs():
    hall = Hall(2)

    def refuse(*_: Any) -> Any:
        raise RuntimeError("the engine pool is closed")

    hall.tabs[1]._open = refuse
    hall.tick()
    refused, other = hall.tabs
    assert "pool is closed" in other.verdict().standings[0].note
    hall.tabs.remove(refused)
    assert hall.agrees_in_the_end()


def test_a_missing_answer_delays_other_tabs_until_its_deadline():
    hall = Hall(2)
    hall.tick(answer=False)
    end = hall.now + LONGEST_JOB
    while hall.now < end - 1:
        hall.tick(answer=False)
        assert len(hall.engines.jobs) == 1
    hall.now = end + 1
    hall.tick(answer=False)
    assert hall.states == {"unavailable"}
    assert hall.agrees_in_the_end()


def test_a_tab_that_does_not_tick_loses_its_claim_and_its_late_answer_has_no_effect():
    hall = Hall(3)
    hall.tick(answer=False)
    (late,) = hall.open
    hidden = next(tab for tab in hall.tabs if tab._handle is late)
    hall.tabs.remove(hidden)
    late.open = False  # it may stay open as long as the tab is hidden
    hall.now += HOLD - 2
    hall.tick(answer=False)
    assert len(hall.engines.jobs) == 1
    hall.now += 2
    hall.run()
    assert hall.states == {"agree"}
    late.answer()
    hall.tabs.append(hidden)
    hall.run(5)
    assert hidden.verdict().state == "agree"
    assert hall.open == []


def test_tabs_with_other_values_are_measured_too_and_share_what_is_equal():
    hall, alone = Hall(4), Hall(1)
    for tab in hall.tabs[2:]:
        tab.follow({**VALUES, "r": 0.1})
    hall.now += CALM
    hall.run(80)
    alone.run()
    assert hall.states == {"agree"}
    assert sum(hall.asked.values()) == sum(alone.asked.values()) + 3  # r affects the results, but no time


def test_no_more_claims_and_right_fields_are_kept_than_a_bound():
    results = ResultCache()
    for k in range(3 * MOST_ENTRIES):
        assert results.claim([("job", k)], "a", float(k), k + 1.0)
        results.release([("job", k)], "a", k + 1.0)
    assert len(results._claims) <= MOST_ENTRIES + 1
    for k in range(2 * MOST_RIGHT):
        results.put_right(("right", k), k)
    assert [k for k in range(2 * MOST_RIGHT) if results.right(("right", k)) is not None] == [
        *range(MOST_RIGHT, 2 * MOST_RIGHT)
    ]


def test_a_claim_belongs_to_one_owner_until_it_is_released_or_expires():
    results = ResultCache()
    both = [("a",), ("b",)]
    assert results.claim(both, "one", 0.0, 10.0)
    assert results.claim(both, "one", 5.0, 15.0)  # renewed
    assert not results.claim([("b",), ("c",)], "other", 12.0, 20.0)
    assert results.claim([("c",)], "third", 12.0, 20.0)  # a claim that failed in part claimed nothing
    results.release(both, "other", 0.0)  # only the owner can release
    assert not results.claim(both, "other", 12.0, 20.0)
    results.release(both, "one", 12.5)
    assert not results.claim(both, "other", 12.4, 20.0)
    assert results.claim(both, "other", 12.5, 20.0)
    assert results.claim(both, "one", 20.0, 30.0)
