"""When a child counts as lost: limits of an engine's worker and of a task, with a planted clock and process."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import psutil
import pytest

from compute.engine.process import HALTED, MOST_WAITS, STARTUP, worker_watchdog
from compute.process.watchdog import BASELINE, SLEPT, Deadlines, Loss, ProcessState, Watchdog


class PlantedProcess(ProcessState):
    """A process as the operating system reports it. waited: seconds of waiting for a processor, by thread."""

    status = psutil.STATUS_SLEEPING

    def __init__(self) -> None:
        self.waited = {"1": 100.0, "2": 0.0}
        self.used = 1.0

    def processor_waits(self) -> Mapping[str, float]:
        return dict(self.waited)

    def processor_seconds(self) -> float:
        return self.used


@pytest.fixture
def child() -> PlantedProcess:
    return PlantedProcess()


def look(dog: Watchdog, start: float, end: float) -> Loss | None:
    """Return the watchdog's first verdict, at ten checks per second."""
    times = (start + 0.1 * i for i in range(round((end - start) / 0.1) + 1))
    return next((loss for now in times if (loss := dog.lost(now))), None)


def test_a_start_has_its_own_limit_and_then_the_deadline_holds(child):
    dog = worker_watchdog(child, 5.0, 0.0)
    assert not look(dog, 0.0, STARTUP)
    dog.sign_of_life(STARTUP)
    assert not look(dog, STARTUP, STARTUP + 4.9)
    loss = look(dog, STARTUP + 4.9, STARTUP + 5.3)
    assert loss is not None
    assert loss.kind == "late"
    assert "no sign of life" in loss.text
    assert dog.last == STARTUP


def test_announced_work_may_take_longer(child):
    dog = worker_watchdog(child, 5.0, 0.0)
    dog.sign_of_life(0.0, extra=115.0)
    assert not look(dog, 0.0, 119.0)
    assert look(dog, 119.0, 121.0)


def test_a_parent_that_slept_itself_gives_another_deadline(child):
    dog = worker_watchdog(child, 5.0, 0.0)
    dog.sign_of_life(0.0)
    assert not dog.lost(3600.0)
    assert not look(dog, 3600.0, 3604.0)
    assert look(dog, 3604.0, 3606.0)


def test_waiting_for_a_processor_is_no_hang_unless_it_never_ends(child):
    dog = worker_watchdog(child, 3.0, 0.0)
    dog.sign_of_life(0.0)
    for i in range(1, 101):  # the worker runs a fifth of the time
        child.waited["2"] += 0.08
        assert not dog.lost(0.1 * i)
    dog.sign_of_life(10.0)
    for i in range(1, 300):  # never
        child.waited["2"] += 0.1
        if dog.lost(10.0 + 0.1 * i):
            break
    assert 3.0 * (1 + MOST_WAITS) <= 0.1 * i < 3.0 * (1 + MOST_WAITS) + 1.0


def test_waiting_before_the_last_sign_of_life_does_not_count(child):
    dog = worker_watchdog(child, 3.0, 0.0)
    for i in range(20):
        child.waited["1"] += 10.0
        dog.sign_of_life(float(i))
    assert not look(dog, 19.1, 21.9)
    assert look(dog, 22.0, 22.5)


def test_a_worker_is_lost_when_it_stays_stopped_although_long_work_was_announced(child):
    dog = worker_watchdog(child, 3.0, 0.0)
    dog.sign_of_life(0.0, extra=115.0)
    for i in range(300):
        child.status = psutil.STATUS_STOPPED if i % 10 else psutil.STATUS_SLEEPING
        assert not dog.lost(0.1 * i)
    child.status = psutil.STATUS_SLEEPING
    assert not dog.lost(30.0)
    child.status = psutil.STATUS_STOPPED
    assert not look(dog, 30.1, 30.0 + HALTED)
    loss = look(dog, 30.0 + HALTED, 31.0 + HALTED)
    assert loss is not None
    assert loss.kind == "stopped"
    assert "SIGSTOP" in loss.text


def test_a_deadline_of_a_task_is_not_renewed_by_signs_of_life(child):
    dog = Watchdog(child, Deadlines(2.0), 0.0)
    for i in range(1, 20):
        dog.sign_of_life(0.1 * i)
        assert not dog.lost(0.1 * i)
    dog.sign_of_life(2.05)
    loss = dog.lost(2.05)
    assert loss == Loss("late", "it took longer than the allowed 2 s")


def test_a_pause_and_a_sleep_of_the_parent_do_not_count_for_a_task(child):
    dog = Watchdog(child, Deadlines(10.0), 0.0)
    look(dog, 0.1, 1.0)
    assert not dog.lost(500.0, paused=True)
    assert dog.seconds == pytest.approx(1.0)
    assert not dog.lost(1000.0)
    assert dog.seconds == pytest.approx(1.0 + SLEPT)


def test_a_task_of_low_priority_has_more_time_within_a_bound(child):
    dog = Watchdog(child, Deadlines(2.0, most_wait=3.0), 0.0)
    assert not look(dog, 0.1, BASELINE + 0.1)
    child.waited["2"] += 1e6
    assert not look(dog, BASELINE + 0.2, 4.9)
    assert look(dog, 5.0, 5.3)


def test_a_silent_child_that_uses_a_processor_is_not_idle(child):
    dog = Watchdog(child, Deadlines(idle=3.0, quiet=0.0), 0.0)
    for i in range(1, 200):
        child.used += 0.01
        assert not dog.lost(0.1 * i)
    loss = look(dog, 20.0, 25.0)
    assert loss == Loss("idle", "it did nothing for more than 3 s")


def test_a_stopped_child_is_found_by_a_parent_that_is_always_late(child):
    """A film's main process may encode for seconds between two checks."""
    child.status = psutil.STATUS_STOPPED
    dog = Watchdog(child, Deadlines(stopped=3.0, quiet=0.0), 0.0)
    assert [dog.lost(5.0 * i) is None for i in range(1, 5)] == [True, True, True, False]


def test_without_limits_nothing_is_lost(child):
    child.status = psutil.STATUS_STOPPED
    dog = Watchdog(child, Deadlines(), 0.0)
    assert dog.limits.deadline == inf
    assert not look(dog, 0.0, 100.0)
