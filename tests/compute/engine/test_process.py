"""The takeover by the spare process, restarts, and complete cleanup."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest

from compute.engine import EngineRestarted, Event, LabClosed, Paused, Refused, Supervisor
from compute.engine.process import MAX_RESTARTS, CircuitBreaker, WorkerProcess
from tests.compute.engine.faulty import Client, running
from tests.waiting import until

pytestmark = pytest.mark.extended

PROC = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of its processes in /proc")


def test_the_breaker_opens_after_three_restarts_in_a_minute_and_not_in_an_hour():
    quick, slow = CircuitBreaker(), CircuitBreaker()
    assert [quick.died(float(i)) for i in range(MAX_RESTARTS + 1)] == [False] * MAX_RESTARTS + [True]
    assert not any(slow.died(25.0 * i) for i in range(20))
    quick.reset()
    assert not quick.died(10.0)


@pytest.fixture
def engine() -> Iterator[Supervisor]:
    yield from running(deadline=30.0, spare=0.0)


def spare(engine: Supervisor) -> int:
    """Return the spare's process id, after its preparation has ended."""
    until(lambda: engine.spare_pid and engine._standby._spares._idle[0][0].channel.waiting(0.0))
    assert engine.spare_pid
    return engine.spare_pid


def end(pid: int | None, how: signal.Signals = signal.SIGKILL) -> None:
    assert pid
    os.kill(pid, how)


def at_work(engine: Supervisor) -> Client:
    """Return a running lab with a checkpoint."""
    client = Client(engine, eager=True, cost=0.001)
    client.handle.run()
    until(lambda: client.handle.last_checkpoint)
    return client


def goes_on(client: Client, restarts: int = 1) -> None:
    """Check that a lab received that many restarts, and advances from a consistent state."""
    client.wait(EngineRestarted, restarts)
    last = client.frames[-1].number
    frame = client.wait_frame(lambda frame: frame.number > last + 3 and frame.facts["step"] > 0)
    assert frame.facts["value"] == frame.facts["step"]


def test_the_spare_takes_over_with_the_state_and_gets_a_successor(engine):
    client = at_work(engine)
    first, second = engine.pid, spare(engine)
    assert first != second
    end(first)
    goes_on(client)
    assert engine.pid == second
    assert spare(engine) not in {first, second}
    assert engine.restarts == 1


@PROC
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_spare_that_dies_with_the_engine_or_is_stopped_is_not_taken(engine, how):
    client = at_work(engine)
    lost = spare(engine)
    end(lost, how)
    end(engine.pid)
    goes_on(client)
    assert engine.pid != lost
    assert not psutil.pid_exists(lost)
    assert engine.restarts == 1


def test_two_deaths_in_a_row(engine):
    """The second death occurs while the former spare opens the lab, when there is no other spare."""
    client = at_work(engine)
    first, second = engine.pid, spare(engine)
    end(first)
    until(lambda: engine.pid == second)
    end(second)
    goes_on(client)
    assert engine.pid not in {first, second}
    assert engine.restarts in {1, 2}  # one, if the second process died before it was ready and does not count
    assert 1 <= len(client.of(EngineRestarted)) <= engine.restarts


@PROC
def test_a_stopped_engine_is_replaced_long_before_the_deadline_and_no_lab_is_blamed():
    for engine in running(deadline=60.0, spare=0.0):
        client = at_work(engine)
        for i in range(2):
            spare(engine)
            end(engine.pid, signal.SIGSTOP)
            assert "SIGSTOP" in client.wait(EngineRestarted, i + 1).reason
            goes_on(client, i + 1)
        assert client.of(Paused) == []


@PROC
def test_the_system_reports_the_state_of_a_process():
    process = WorkerProcess("host")
    try:
        assert process.channel.waiting(120.0)
        assert process.usable
        assert all(seconds >= 0 for seconds in process.state.processor_waits().values())
        assert process.state.processor_seconds() > 0
        end(process.pid, signal.SIGSTOP)
        until(lambda: process.state.status == psutil.STATUS_STOPPED)
        assert not process.usable
    finally:
        process.close()
    assert process.exited
    assert process.state.status == psutil.STATUS_DEAD
    assert process.state.processor_waits() == {}
    assert process.state.processor_seconds() == 0


@PROC
def test_nothing_is_left_of_labs_that_are_opened_refused_killed_and_closed(engine):
    witness = Client(engine)

    def cycle(restarts: int) -> None:
        labs = [Client(engine) for _ in range(3)]
        refused = [Client(engine, level=7.0), Client(engine, text="huge"), Client(engine, "unknown")]
        for lab in refused:
            lab.wait(Refused)
            lab.wait(LabClosed)
        for lab in labs:
            lab.handle.step(2)
            until(lambda lab=lab: lab.handle.last_checkpoint)
        events: list[Event] = []
        engine.open("faulty", {"level": 7.0}, events.append, (8, 8), labs[0].handle.last_checkpoint)
        until(lambda: any(isinstance(event, LabClosed) for event in events))
        spare(engine)
        end(engine.pid)
        for lab in labs:
            lab.wait(EngineRestarted)
            lab.close()
        witness.wait(EngineRestarted, restarts)
        engine._breaker.reset()
        spare(engine)

    def engines() -> int:
        children = psutil.Process().children(recursive=True)
        return sum("compute.engine" in " ".join(child.cmdline()) for child in children if child.is_running())

    def held() -> dict[str, int]:
        witness.barrier()
        witness.events = [event for event in witness.events if isinstance(event, EngineRestarted)]
        gc.collect()  # snapshots are shared memory, each with a descriptor
        return {
            "descriptors here": psutil.Process().num_fds(),
            "descriptors there": psutil.Process(engine.pid).num_fds(),
            "threads here": threading.active_count(),
        }

    cycle(1)
    before = held()
    for i in range(2):
        cycle(i + 2)
    # one more descriptor at either end during the transfer of a state; one thread less, left by another test
    until(lambda: all(n <= before[name] for name, n in held().items()))
    assert engines() == 2  # the engine and its spare
