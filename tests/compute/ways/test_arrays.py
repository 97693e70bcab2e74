"""Many sweeps in one process: only one has large arrays at a time, the others wait for the lease and continue later."""

from __future__ import annotations

import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from compute.devices.devices import Host
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
from tests.compute.engine.test_lab_host import Quiet
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


def one_that_holds():
    """Return a lab whose sweep has its arrays in memory."""
    made = Crossover(**LITTLE)
    while not made.progress.doing.startswith("checking"):
        made.advance()
    return made


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


def test_small_arrays_wait_for_nobody(now, monkeypatch):
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


def test_they_get_the_place_in_the_order_in_which_they_asked(now):
    lease = arrays.LEASE
    first, second, third, gone = (SweepArrays() for _ in range(4))
    assert list(first.wait(1)) == []
    for one in (gone, second, third):
        assert one.held_up
    first.close()
    assert second.held_up  # `gone` is first in the queue, but has been idle
    now.seconds += IDLE
    assert lease.take(second)
    now.seconds += 0.1
    assert third.held_up
    second.close()
    assert not third.held_up
    assert not lease.take(first)
    assert lease.take(third)


def test_a_sweep_that_raises_leaves_the_lease(now, monkeypatch):
    def broken(*_):
        raise MemoryError

    work = Sweep(a_plan()).measure()
    with monkeypatch.context() as patch:
        patch.setattr(Case, "reference", broken)
        with pytest.raises(MemoryError):
            list(work)
    assert arrays.LEASE.free_for(SweepArrays())


@pytest.mark.parametrize(
    "leave",
    [Crossover.close, Crossover.cancel, Crossover.reset, lambda lab: lab.update(budget=0.2),
     lambda lab: lab.restore({**lab.snapshot(), "resting": True})],
    ids=["closed", "cancelled", "reset", "updated", "restored"],
)  # fmt: skip
def test_a_lab_that_ends_its_sweep_leaves_the_place_to_one_that_waits(now, leave):
    holder, other = one_that_holds(), Crossover(**LITTLE)
    for _ in range(100):  # a busy machine does one slice per call
        if not other.blocked():
            other.advance(100)
    assert other.progress.doing == WAITING
    assert other.blocked()
    leave(holder)
    assert not other.blocked()
    other.run()
    assert other.finished
    holder.close()
    other.close()


def test_a_lab_that_waits_has_no_work_and_takes_no_time(now):
    holder, other = one_that_holds(), Crossover(**LITTLE)
    host = LabHost(1, other, Quiet(), FrameRing(FrameRing.create()), "host")  # type: ignore[arg-type]
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


def test_a_lab_keeps_its_arrays_while_its_engine_has_no_turn_for_it_and_loses_them_once_it_is_paused(now):
    """Two sweeps among many labs took the lease from each other forever, each before its next turn."""
    holder, other = one_that_holds(), Crossover(**LITTLE)
    while not other.progress.waits:  # a busy machine does one slice per call
        other.advance(100)
    for _ in range(20):
        now.seconds += IDLE
        assert not holder.blocked()  # the engine asks, because the lab has steps to do
        assert all(other.blocked() for _ in range(2 * IN_VAIN))
    now.seconds += IDLE  # the engine does not ask
    assert not all(other.blocked() for _ in range(2 * IN_VAIN))
    holder.close()
    other.close()


def test_a_trap_waits_for_no_sweep(now):
    holder, other = one_that_holds(), Crossover(**LITTLE)
    other.advance()
    while not other.blocked():
        other.advance()
    other.try_trap(traps()[0].name)
    assert not other.blocked()
    holder.close()
    other.close()


@pytest.mark.parametrize(("doing", "found"), [("reference, n = 100", "skipped"), ("between two rounds", "measured")])
def test_memory_is_looked_at_again_before_it_is_taken(memory, monkeypatch, doing, found):
    sweep = Sweep(a_plan())
    work = sweep.measure()
    until(work, lambda progress: progress.doing == doing)
    monkeypatch.setattr(Host, "free_bytes", lambda _: 1)
    made = len(memory.made)
    list(work)
    assert len(memory.made) == made
    assert {point.status for (_, n), point in sweep.points.items() if n == 100} == {found}


def test_a_point_whose_memory_is_gone_before_its_first_time_says_so(monkeypatch):
    sweep = Sweep(a_plan())
    work = sweep.measure()
    until(work, lambda _: statuses(sweep) == {"checked"})
    monkeypatch.setattr(Host, "free_bytes", lambda _: 1)
    list(work)
    (last, *_) = (point for point in sweep.points.values() if not point.samples)
    assert last.status == "skipped"
    assert "GiB are free" in last.reason
