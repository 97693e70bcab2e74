"""Deaths of the engine that are charged to a lab: the lab is closed at the second one, other labs are restored."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count
from math import isnan

import pytest

from compute.engine import (
    Busy,
    EngineBroken,
    EngineRestarted,
    FrameReady,
    LabClosed,
    LabFailed,
    Paused,
    Refused,
    Supervisor,
    process,
)
from compute.engine.process import (
    FIRST_PAUSE,
    MAX_RESTARTS,
    MOST_PAUSE,
    REMEMBERED,
    TOGETHER,
    CircuitBreaker,
    WorkerExit,
)
from compute.engine.registry import CRASH_WINDOW, LabRegistry
from compute.engine.shared_memory import FrameRing, duplicate
from compute.engine.supervisor import WAITING
from compute.process import child
from tests.compute.engine.faulty import BROKEN_DEVICE, Client, at_work, running
from tests.waiting import until

pytestmark = pytest.mark.extended

HASTY = 3.0  # s of silence after which an engine counts as hung


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """An engine with negligible delays; tests of the delays set their own."""
    monkeypatch.setattr(process, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(process, "MOST_PAUSE", 0.05)
    yield from running(deadline=60.0)


def go_on(clients: Sequence[Client], restarts: int) -> None:
    """Check that the labs were restored that many times, still show frames, and received no other fault event."""
    for client in clients:
        client.wait(EngineRestarted, restarts)
        client.wait(FrameReady, len(client.frames) + 5)
        assert client.of(EngineBroken) == client.of(Paused) == client.of(Refused) == client.of(LabFailed) == []
        assert len(client.of(EngineRestarted)) == restarts


def crash_twice(engine: Supervisor) -> Client:
    """Return a closed lab that has crashed the engine twice."""
    killer = Client(engine, eager=True, trap="crash")
    killer.handle.run()
    killer.wait(LabFailed)
    killer.wait(LabClosed)
    return killer


def test_a_lab_that_crashes_the_engine_twice_is_closed_and_the_others_go_on(engine):
    others = at_work(engine, 3)
    client = Client(engine, eager=True)
    client.handle.run()
    until(lambda: client.handle.last_checkpoint)
    client.handle.update(trap="crash")
    assert "failed twice while it worked for this lab (it was ended by SIGABRT" in client.wait(LabFailed).reason
    client.wait(LabClosed)
    go_on(others, 2)
    assert client.handle.closed
    assert client.handle.last_checkpoint is not None  # for a lab on another engine
    assert (engine.restarts, engine.open_labs, engine.state) == (2, 3, "ready")
    at_work(engine, 1)  # the engine accepts new labs
    client.handle.close()
    assert client.handle.last_checkpoint is None


@pytest.mark.parametrize("how", ["while opening", "in an action", "in a measurement", "context lost"])
def test_a_death_during_any_work_for_a_lab_is_charged_to_it(engine, how):
    others = at_work(engine, 1)
    client = Client(engine, text="deadly" if how == "while opening" else "")
    for restarts in (1, 2):
        match how:
            case "in an action":
                client.handle.act("crash")
            case "in a measurement":
                client.handle.update(trap="crash")
                client.handle.solve(3, 1)
            case "context lost":
                client.handle.act("poison")
        others[0].wait(EngineRestarted, restarts)
    client.wait(LabFailed)
    client.wait(LabClosed)
    go_on(others, 2)


def test_a_lab_that_hangs_the_engine_twice_is_closed_and_the_others_go_on():
    for engine in running(deadline=HASTY):
        others = at_work(engine, 1)
        client = Client(engine)
        for _ in range(2):
            client.handle.act("hang")
            others[0].wait(EngineRestarted, len(others[0].of(EngineRestarted)) + 1)
        assert "no sign of life" in client.wait(LabFailed).reason
        go_on(others, 2)


def test_an_engine_killed_from_outside_is_charged_to_no_lab_unless_memory_ran_out(engine, monkeypatch):
    others = at_work(engine, 3)
    client = Client(engine)
    client.handle.update(trap="kill")
    client.handle.step(1)
    others[0].wait(EngineRestarted, 1)
    assert client.of(LabFailed) == []
    ran_out = count(10**9)
    monkeypatch.setattr(child, "oom_kills", lambda: next(ran_out))
    engine._breaker.reset()
    other = Client(engine, trap="kill")
    for _ in range(2):
        n = len(others[0].of(EngineRestarted))
        other.handle.step(1)
        others[0].wait(EngineRestarted, n + 1)
    assert "SIGKILL, for lack of memory" in other.wait(LabFailed).reason


def test_six_killers_one_after_the_other_do_not_open_the_breaker(engine):
    others = at_work(engine, 3)
    for _ in range(6):
        crash_twice(engine)
    go_on(others, 12)
    assert (engine.restarts, engine.open_labs, engine.state) == (12, 3, "ready")


def test_frames_of_paused_labs_count_as_work_of_the_device(engine):
    """After a restart each paused lab shows its frame again."""
    others = [Client(engine, eager=True) for _ in range(2)]
    for client in others:
        client.wait(FrameReady)
    for _ in range(5):
        crash_twice(engine)
    for client in others:
        client.wait(EngineRestarted, 10)
        assert client.of(EngineBroken) == []


def test_a_device_that_kills_every_lab_opens_the_breaker(engine, monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    engine.close()
    monkeypatch.setenv(BROKEN_DEVICE, str(broken))
    for own in running(deadline=60.0):
        labs = at_work(own, 6)
        broken.touch()
        for client in labs:
            client.wait(EngineBroken if not client.of(LabFailed) else LabFailed)
        assert own.state == "broken"
        assert own.restarts <= 2 * MAX_RESTARTS
        broken.unlink()
        own.retry()
        for client in labs:
            if not client.of(LabFailed):
                client.wait(FrameReady, len(client.frames) + 5)


def test_unproven_labs_wait_after_charged_deaths_and_proven_ones_do_not(engine, monkeypatch):
    """Their requests are stored in order, also over a further restart."""
    others = at_work(engine, 1)
    crash_twice(engine)
    monkeypatch.setattr(process, "FIRST_PAUSE", 3600.0)
    monkeypatch.setattr(process, "MOST_PAUSE", 3600.0)
    new, closed = Client(engine, eager=True), Client(engine)
    assert new.wait(Busy).what == closed.wait(Busy).what == WAITING
    new.handle.act("spoil")
    new.handle.snapshot()
    for _ in range(70):
        closed.handle.act("spoil")
    assert "wait until this lab is opened" in closed.wait(Refused, 6).text
    closed.close()
    os.kill(engine.pid, signal.SIGKILL)
    go_on(others, 3)
    new.handle.act("reset")
    new.handle.act("fail")
    assert new.frames == []
    monkeypatch.setattr(process, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(process, "MOST_PAUSE", 0.0)
    assert "planted" in new.wait(Refused).text
    new.barrier()
    assert new.frames[-1].facts["value"] == 0.0
    assert len(new.of(Refused)) == 1


class TestCharges:
    """The breaker and the registry with a simulated clock."""

    def test_a_lab_is_charged_twice_within_the_window(self):
        lab = LabRegistry().add("faulty", {}, print, (8, 8))
        assert [lab.charge(0.0), lab.charge(CRASH_WINDOW), lab.charge(CRASH_WINDOW + 1)] == [False, False, True]
        lab.worked_at = CRASH_WINDOW
        assert not lab.proven
        lab.worked_at = CRASH_WINDOW + 2
        assert lab.proven

    def test_charged_deaths_open_the_breaker_only_where_no_other_lab_works(self):
        for works in (False, True):
            breaker = CircuitBreaker()
            opened = [breaker.charged(lab, float(lab), lambda labs, since: works) for lab in range(1, 12)]  # noqa: B023
            assert opened == [False] * MAX_RESTARTS + [not works] * (11 - MAX_RESTARTS)
            assert not breaker.died(12.0)
        breaker = CircuitBreaker()  # deaths of one lab, and deaths far apart, do not suggest a broken device
        assert not any(breaker.charged(1, float(i), lambda labs, since: False) for i in range(20))
        assert not any(breaker.charged(i, 100.0 + TOGETHER * i, lambda labs, since: False) for i in range(20))

    def test_the_others_must_have_worked_since_the_first_of_the_deaths(self):
        asked = []
        breaker = CircuitBreaker()
        for lab in range(1, 5):
            breaker.charged(lab, 10.0 * lab, lambda labs, since: asked.append((set(labs), since)))
        assert asked == [({1, 2, 3, 4}, 10.0)]

    def test_labs_that_are_opened_only_to_crash_get_one_death_a_pause(self):
        breaker, now, deaths = CircuitBreaker(), 0.0, []
        while now < 900.0:
            if now >= breaker.unproven_from(now):
                breaker.charged(len(deaths), now, lambda labs, since: True)
                deaths.append(now)
            now += 0.5
        assert deaths[:3] == [0.0, 0.5, 0.5 + FIRST_PAUSE]  # no delay after one death
        assert len([moment for moment in deaths if moment < 60.0]) <= 7
        assert len([moment for moment in deaths if 300.0 <= moment < 360.0]) <= 60.0 / MOST_PAUSE + 1
        quiet = deaths[-1] + REMEMBERED + 1
        assert breaker.unproven_from(quiet) < quiet - REMEMBERED
        breaker.reset()
        assert breaker.unproven_from(now) < now

    def test_proven_and_harmless_labs_are_opened_first(self):
        registry = LabRegistry()
        labs = [registry.add("faulty", {}, print, (8, 8)) for _ in range(4)]
        labs[0].charge(1.0)
        labs[2].running = True
        labs[3].worked_at = 1.0
        assert [lab.number for lab in registry.due(2.0, 0.0)] == [3, 2, 4, 1]
        assert [lab.number for lab in registry.due(2.0, 9.0)] == [4]

    def test_the_culprit_is_the_reported_lab_or_the_one_whose_ring_is_marked(self):
        """An external kill has none; the mark of a process that has ended is not read again."""
        registry = LabRegistry()
        lab = registry.add("faulty", {}, print, (8, 8))
        items = registry.opening(lab, 0.0)
        killed, crashed = WorkerExit("killed", 0.0, natural=False, lab=lab.number), WorkerExit("crashed", 0.0)
        assert registry.culprit(WorkerExit("lost", 0.0, lab=lab.number)) is lab
        with closing(FrameRing(duplicate(items[0].descriptors[0]))) as workers, workers.at_work():
            assert registry.culprit(killed) is None
            assert registry.culprit(crashed) is lab
            registry.on_worker_exit(killed)
            assert registry.culprit(crashed) is None
        for item in items:
            item.drop()


def test_oom_kills_are_read_from_the_kernel(monkeypatch, tmp_path):
    monkeypatch.setattr(child, "PROC", tmp_path)
    assert isnan(child.oom_kills())
    (tmp_path / "vmstat").write_text("oom_killer 9\nnr_free 3\noom_kill 17\n")
    assert child.oom_kills() == 17
