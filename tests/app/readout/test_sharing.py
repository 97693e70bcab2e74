"""Many tabs, one comparison: the sessions of a process share measurements, and wait for the session that measures.

Simulated engines answer on request, on a simulated clock; the labs compute the answers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from app.readout import comparison as module
from app.readout.comparison import CALM, HOLD, LONGEST_JOB, REST, RETRY, Comparison
from compute.engine import benchmark_target
from compute.engine.messages import EngineBroken, LabClosed, Refused
from compute.labs.diffusion import Diffusion
from compute.labs.diffusion.benchmark import RULES
from compute.measure import verdict as verdicts
from compute.measure.agreement import Agreement
from compute.measure.verdict import MOST_ENTRIES, MOST_RIGHT, ResultCache, Variant

TABS = 40
VALUES = {
    "backend": "cpu_numba", "variant": "", "device_index": 0, "ny": 20, "nx": 30, "dtype": "float32",
    "edges": "zero-flux", "r": 0.2, "unstable": False, "preset": "ring", "probe_x": 0.5,
}  # fmt: skip


@pytest.fixture(autouse=True)
def two_quiet_backends(monkeypatch):
    """Use two backends that are always available, with times that settle immediately on any machine."""
    monkeypatch.setattr(verdicts, "cpu_count", lambda: 2)
    monkeypatch.setattr(module, "AGAIN", math.inf)
    monkeypatch.setattr(module, "settled", lambda times: len(times) >= 10)
    monkeypatch.setattr(module, "TELLING", 0.0)  # every sample counts, however fast this machine is
    monkeypatch.setattr(module, "PACED", math.inf)
    monkeypatch.setattr(verdicts, "BACKENDS", [b for b in verdicts.BACKENDS if b.device == "host"])


class Job:
    """A lab opened by a comparison, and its request."""

    def __init__(self, hall: Hall, values: dict[str, Any], on_event: Callable[[Any], None]) -> None:
        self.hall, self.values, self.on_event, self.asked, self.work = hall, values, on_event, "", None

    def sample(self, steps: int, repeat: int, roof: str = "", dtype: str = "") -> None:
        self.asked = "sample"
        self.work = benchmark_target.sample(Diffusion, self.values, steps, repeat)

    def solve(self, steps: int, seed: int) -> None:
        self.asked, self.work = "solve", benchmark_target.solve(Diffusion, self.values, steps, seed)

    def answer(self) -> None:
        try:
            while True:
                next(self.work)
        except StopIteration as stop:
            self.on_event(stop.value)

    def close(self) -> None:
        self.hall.open.remove(self)


class Hall:
    """Tabs with a comparison each, all with the same values by default."""

    def __init__(self, tabs: int = TABS) -> None:
        self.now, self.results = 0.0, ResultCache()
        self.open: list[Job] = []
        self.asked: list[tuple[str, str, float]] = []
        self.most = 0
        self.tabs = [Comparison("diffusion", RULES, self.opener, self.results, lambda: self.now) for _ in range(tabs)]
        for tab in self.tabs:
            tab.follow(VALUES)
        self.now += CALM + 0.01

    def opener(self, engine: str, values: dict[str, Any], on_event: Callable[[Any], None]) -> Job:
        self.open.append(Job(self, values, on_event))
        self.most = max(self.most, len(self.open))
        return self.open[-1]

    def tick(self, *, answer: bool = True) -> None:
        """Call every tab's tick, starting with another tab each time, then let every engine answer."""
        self.tabs.append(self.tabs.pop(0))
        for tab in self.tabs:
            before = list(self.open)
            tab.tick()
            self.asked += [
                (job.asked, job.values["backend"], job.values["r"]) for job in self.open if job not in before
            ]
        for job in list(self.open) if answer else ():
            if job.work is not None:
                job.answer()
                job.work = None
        self.now += REST + 0.01

    def run(self, ticks: int = 60) -> None:
        for _ in range(ticks):
            self.tick()

    @property
    def states(self) -> set[str]:
        """Return the states of all tabs' comparisons."""
        return {tab.verdict().state for tab in self.tabs}

    def agrees_in_the_end(self) -> bool:
        """Return whether all tabs agree after failed requests have been retried."""
        self.now += RETRY
        self.run()
        return self.states == {"agree"}


def test_forty_tabs_ask_for_no_more_than_one_and_one_at_a_time():
    alone, hall = Hall(1), Hall()
    alone.run()
    hall.run()
    assert Counter(hall.asked) == Counter(alone.asked)
    assert Counter(asked for asked, *_ in hall.asked)["solve"] == 3  # the reference field, Numba's and NumPy's
    assert hall.most == 1
    assert hall.open == []
    hall.tick()  # no session keeps a claim on parameters that others may need
    assert hall.results.claim([hall.tabs[0]._shared], "another", hall.now, hall.now + 1)


def test_all_show_the_verdict_as_soon_as_it_is_there():
    hall = Hall()
    states = set()
    while hall.now < 60 and states != {"agree"}:
        hall.tick()
        states = hall.states
        assert len(states) == 1
    assert states == {"agree"}
    assert len({tab.verdict().speed_up for tab in hall.tabs}) == 1


@pytest.mark.parametrize("jobs", range(6))
def test_another_goes_on_when_the_one_that_measures_is_closed(jobs):
    hall = Hall(3)
    while len(hall.asked) <= jobs:
        hall.tick(answer=len(hall.asked) < jobs)
    (job,) = hall.open
    holder = next(tab for tab in hall.tabs if tab._handle is job)
    holder.close()
    assert hall.open == []
    hall.tabs.remove(holder)
    hall.run()
    assert hall.states == {"agree"}
    assert hall.most == 1


@pytest.mark.parametrize(
    "event",
    [Refused("planted"), EngineBroken("planted"), LabClosed()],
    ids=["refused", "engine broken", "closed by the engine"],
)
def test_a_job_that_fails_holds_nobody_up(event):
    hall = Hall(3)
    hall.tick(answer=False)
    hall.open[0].on_event(event)
    hall.tick(answer=False)
    assert hall.open == []
    assert hall.states == {"unavailable"}
    assert hall.agrees_in_the_end()


def test_an_engine_that_refuses_at_once_holds_nobody_up():
    hall = Hall(2)

    def refuse(*_: Any) -> Job:
        raise RuntimeError("the engine pool is closed")

    hall.tabs[1]._open = refuse
    hall.tick()
    refused, other = hall.tabs
    assert "pool is closed" in other.verdict().standings[0].note
    hall.tabs.remove(refused)
    assert hall.agrees_in_the_end()


def test_no_answer_until_the_deadline_holds_the_others_up_no_longer_than_that():
    hall = Hall(2)
    hall.tick(answer=False)
    hall.open[0].work = None
    end = hall.now + LONGEST_JOB
    while hall.now < end - 1:
        hall.tick(answer=False)
        assert len(hall.asked) == 1
    hall.now = end + 1
    hall.tick()
    assert hall.states == {"unavailable"}
    assert hall.agrees_in_the_end()


def test_a_tab_that_ticks_no_longer_loses_its_claim_and_its_late_answer_harms_nothing():
    hall = Hall(3)
    hall.tick(answer=False)
    hidden = next(tab for tab in hall.tabs if tab._handle)
    late = hall.open[0]
    hall.tabs.remove(hidden)
    hall.now += HOLD - 2
    hall.tick(answer=False)
    assert len(hall.asked) == 1
    hall.now += 2
    hall.run()
    assert hall.states == {"agree"}
    assert not late.work
    hall.tabs.append(hidden)
    hall.run(5)
    assert hidden.verdict().state == "agree"
    assert hall.open == []


def test_tabs_with_other_parameters_are_measured_too_and_share_what_is_the_same():
    hall = Hall(4)
    for tab in hall.tabs[2:]:
        tab.follow({**VALUES, "r": 0.1})
    hall.now += CALM
    hall.run(80)
    assert hall.states == {"agree"}
    alone = Hall(1)
    alone.run()
    samples = Counter(asked for asked, *_ in alone.asked)["sample"]
    assert Counter(asked for asked, *_ in hall.asked) == {"solve": 6, "sample": samples}  # r changes no time


def test_a_verdict_is_made_anew_only_when_something_is_known_anew(monkeypatch):
    hall = Hall(2)
    hall.run()
    count = Counter[str]()
    monkeypatch.setattr(module, "judge", lambda *args: count.update(["judge"]) or verdicts.judge(*args))
    monkeypatch.setattr(Comparison, "_next", lambda self, now: count.update(["next"]))
    tab, other = hall.tabs
    verdict = tab.verdict()
    count.clear()
    for _ in range(100):
        tab.follow(VALUES)
        tab.tick()
        assert tab.verdict() is verdict
    assert count["judge"] == 0
    assert count["next"] <= 1
    key = tab._checked_key(Variant("cpu_numba"))
    hall.results.put(key, Agreement(1.0, 1e-6, "", ""))
    assert tab.verdict().state == other.verdict().state == "disagree"
    tab.follow({**VALUES, "r": 0.1})
    assert tab.verdict().state == "measuring"


def test_a_failure_is_told_until_it_is_tried_again_and_no_longer():
    hall = Hall(1)
    hall.tick(answer=False)
    hall.open[0].on_event(Refused("planted"))
    hall.tick(answer=False)
    (tab,) = hall.tabs
    assert tab.verdict().state == "unavailable"
    hall.now += RETRY
    assert tab.verdict().state == "measuring"


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


def test_a_claim_is_had_by_one_until_it_is_given_back_or_over():
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
