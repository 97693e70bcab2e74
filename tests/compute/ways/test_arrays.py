"""Many sweeps in one process: only one has large arrays at a time, the others wait for the lease and continue later."""

from __future__ import annotations

import time
import weakref
from contextlib import closing
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from compute.devices.devices import Host
from compute.engine.compiling import KernelJobs
from compute.engine.lab_host import LabHost
from compute.engine.messages import Run
from compute.engine.shared_memory import FrameRing
from compute.labs.crossover import Crossover
from compute.labs.crossover.trap import traps
from compute.ways import arrays
from compute.ways.arrays import IDLE, IN_VAIN, ArrayLease, SweepArrays
from compute.ways.plan import SweepPlan
from compute.ways.sweep import WAITING, Sweep
from compute.ways.workload import Case
from tests.compute.engine.faulty import QuietSender
from tests.compute.ways.test_sweep import give_roofs, plan, planted

LITTLE = {"backend": "cpu_numba", "ways": ["cpu_numpy"], "least": 100, "most": 1000, "per_decade": 1, "budget": 0.1}


class Memory:
    """Weak references to the inputs that sweeps have made."""

    def __init__(self) -> None:
        self.made: list[list[weakref.ref[np.ndarray]]] = []

    @property
    def held(self) -> int:
        """Return the number of cases whose inputs are in memory."""
        return sum(any(ref() is not None for ref in refs) for refs in self.made)


@pytest.fixture(autouse=True)
def no_roofs(monkeypatch):
    """Skip the roofs, which take seconds and have separate tests."""
    give_roofs(monkeypatch)


@pytest.fixture
def now(monkeypatch):
    """Install a lease for arrays of any size, with a simulated clock; return the clock."""
    clock = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(arrays, "SMALL", 0)
    monkeypatch.setattr(arrays, "LEASE", ArrayLease(lambda: clock.seconds))
    return clock


@pytest.fixture
def holder(now):
    """Return a lab whose sweep has its arrays in memory."""
    with closing(Crossover(**LITTLE)) as lab:
        while not lab.progress.doing.startswith("checking"):
            lab.advance()
        yield lab


@pytest.fixture
def other(holder):
    """Return a lab whose sweep waits for the arrays of `holder`."""
    with closing(Crossover(**LITTLE)) as lab:
        while not lab.progress.waits:  # a busy machine does one slice per call
            lab.advance(100)
        yield lab


@pytest.fixture
def memory(monkeypatch):
    found, inputs = Memory(), Case.inputs

    def made(case: Case, seed: int) -> tuple[object, ...]:
        arrays_ = inputs(case, seed)
        found.made.append([weakref.ref(value) for value in arrays_ if isinstance(value, np.ndarray)])
        return arrays_

    monkeypatch.setattr(Case, "inputs", made)
    return found


def add(a):
    a += 1


def a_plan(**values) -> SweepPlan:
    return plan(planted("a", add), planted("b", add), sizes=(10, 100), **{"budget": 0.02, **values})


def until(work, holds):
    """Advance until `holds` is true of the progress; return the progress."""
    return next(progress for progress in work if holds(progress))


def statuses(sweep):
    return {point.status for point in sweep.points.values()}


def test_sweeps_that_are_advanced_in_turn_hold_the_arrays_of_one(now, memory):
    sweeps = [Sweep(a_plan()) for _ in range(5)]
    works = [sweep.measure() for sweep in sweeps]
    waited, going = set(), list(works)
    while going:
        for work in list(going):
            progress = next(work, None)
            if progress is None:
                going.remove(work)
            elif progress.waits:
                waited.add(work)
                assert progress.doing == WAITING
            assert memory.held <= 1
    assert waited == set(works)
    assert all(statuses(sweep) == {"measured"} for sweep in sweeps)
    assert memory.held == 0


def test_small_arrays_need_no_lease(now, monkeypatch):
    monkeypatch.setattr(arrays, "SMALL", 2**20)
    first, second = Sweep(a_plan()).measure(), Sweep(a_plan()).measure()
    until(first, lambda progress: progress.doing.startswith("checking"))
    assert not any(progress.waits for progress in second)


@pytest.mark.parametrize("doing", ["checking", "timing"])
def test_a_sweep_that_is_not_advanced_loses_its_arrays_and_goes_on_later(now, memory, doing):
    paused, other = Sweep(a_plan()), Sweep(a_plan())
    works = paused.measure(), other.measure()
    until(works[0], lambda progress: progress.doing.startswith(doing))
    interrupted = next(works[0]).point  # interrupted in the middle of this point
    assert memory.held == 1
    made = len(memory.made)
    until(works[1], lambda progress: progress.waits)
    for _ in range(2 * IN_VAIN):  # the owner may only be slow
        assert next(works[1]).waits
    now.seconds += IDLE
    assert not until(works[1], lambda progress: not progress.waits).waits
    assert memory.held == 1
    assert len(memory.made) == made + 1
    assert until(works[0], lambda progress: progress.waits).doing == WAITING
    works[1].close()
    assert until(works[0], lambda progress: progress.point is not None).point is interrupted
    assert not any(progress.waits for progress in works[0])
    assert statuses(paused) == {"measured"}


def test_a_sweep_that_is_advanced_keeps_its_arrays_however_long_others_ask(now, memory):
    works = Sweep(a_plan()).measure(), Sweep(a_plan()).measure()
    until(works[0], lambda progress: progress.doing.startswith("checking"))
    until(works[1], lambda progress: progress.waits)
    now.seconds += 10 * IDLE  # a slice of another lab, or of the sweep itself
    for _ in range(3):
        assert next(works[1]).waits
    next(works[0])
    for _ in range(3 * IN_VAIN):
        assert next(works[1]).waits
    next(works[0])
    now.seconds += IDLE
    for _ in range(3):
        assert next(works[1]).waits


def test_sweeps_get_the_lease_in_the_order_of_their_first_requests(now):
    lease = arrays.LEASE
    first, second, third, idle = (SweepArrays() for _ in range(4))
    assert list(first.wait(1)) == []
    for one in (idle, second, third):
        assert one.held_up
    first.close()
    assert second.held_up  # `idle` is first in the queue
    now.seconds += IDLE
    assert lease.take(second)
    now.seconds += 0.1
    assert third.held_up
    second.close()
    assert not third.held_up
    assert not lease.take(first)
    assert lease.take(third)


def test_a_sweep_that_raises_releases_the_lease(now, monkeypatch):
    monkeypatch.setattr(Case, "reference", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        list(Sweep(a_plan()).measure())
    assert arrays.LEASE.free_for(SweepArrays())


@pytest.mark.parametrize(
    "leave",
    [Crossover.close, Crossover.cancel, Crossover.reset, lambda lab: lab.update(budget=0.2),
     lambda lab: lab.restore({**lab.snapshot(), "resting": True})],
    ids=["closed", "cancelled", "reset", "updated", "restored"],
)  # fmt: skip
def test_a_lab_that_ends_its_sweep_releases_the_lease_to_the_next_one(holder, other, leave):
    assert other.progress.doing == WAITING
    assert other.blocked()
    leave(holder)
    assert not other.blocked()
    other.run()
    assert other.finished


def test_a_trap_needs_no_lease(holder, other):
    assert other.blocked()
    other.try_trap(traps()[0].name)
    assert not other.blocked()


def test_a_waiting_lab_has_no_work_and_takes_no_time(holder):
    other = Crossover(**LITTLE)
    host = LabHost(1, other, QuietSender(), FrameRing(FrameRing.create()), "host", KernelJobs())  # type: ignore[arg-type]
    host.handle(Run(1))
    host.pacer.steps = None
    host.pacer.permit(0, time.monotonic() + 60.0)  # the lab continues without a frame
    for _ in range(100):
        if host.wakes_at(time.monotonic()) > 0.0:
            break
        host.turn(time.monotonic(), 1.0)
    assert other.blocked()
    assert host.wakes_at(time.monotonic()) > 0.0
    assert other.advance(10**6).steps == 1
    holder.close()
    assert host.wakes_at(time.monotonic()) == 0.0
    host.close()


def test_a_lab_keeps_its_arrays_while_its_engine_has_no_turn_for_it_and_loses_them_once_paused(now, holder, other):
    """Two sweeps among many labs took the lease from each other forever, each before its next turn."""
    for _ in range(20):
        now.seconds += IDLE
        assert not holder.blocked()  # the engine asks, because the lab has steps to do
        assert all(other.blocked() for _ in range(2 * IN_VAIN))
    now.seconds += IDLE  # the engine does not ask
    assert not all(other.blocked() for _ in range(2 * IN_VAIN))


@pytest.mark.parametrize(("doing", "status"), [("reference, n = 100", "skipped"), ("between two rounds", "measured")])
def test_free_memory_is_read_again_before_arrays_are_made(memory, monkeypatch, doing, status):
    sweep = Sweep(a_plan())
    work = sweep.measure()
    until(work, lambda progress: progress.doing == doing)
    monkeypatch.setattr(Host, "free_bytes", lambda _: 1)
    made = len(memory.made)
    list(work)
    assert len(memory.made) == made
    assert {point.status for (_, n), point in sweep.points.items() if n == 100} == {status}


def test_a_point_without_memory_for_its_first_time_is_skipped_with_the_reason(monkeypatch):
    sweep = Sweep(a_plan())
    work = sweep.measure()
    until(work, lambda _: statuses(sweep) == {"checked"})
    monkeypatch.setattr(Host, "free_bytes", lambda _: 1)
    list(work)
    (last, *_) = (point for point in sweep.points.values() if not point.samples)
    assert last.status == "skipped"
    assert "GiB are free" in last.reason
