"""Engines that are killed, hang, lose their device or die repeatedly; and servers that die."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from compute.engine import (
    Busy,
    CheckpointTaken,
    EngineBroken,
    EngineRestarted,
    Event,
    FrameReady,
    LabClosed,
    LabFailed,
    Paused,
    Sampled,
    SnapshotTaken,
    Solved,
    Supervisor,
    process,
)
from tests.browser.serving import slack
from tests.compute.engine.faulty import Client, at_work, running
from tests.waiting import until

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[3]


@pytest.fixture
def engine() -> Iterator[Supervisor]:
    yield from running(deadline=60.0)


HASTY = 3.0  # s without a sign of life after which an engine counts as hung


@pytest.fixture
def hasty() -> Iterator[Supervisor]:
    yield from running(deadline=HASTY)


def kill(engine: Supervisor) -> None:
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)


def test_of_a_lab_that_was_told_of_a_killed_engine_and_closed_nothing_is_held(engine):
    client = Client(engine, eager=True)
    client.wait(FrameReady)
    kill(engine)
    client.wait(EngineRestarted)
    client.close()
    asked = weakref.ref(client)
    del client
    gc.collect()
    assert asked() is None


def test_a_killed_engine_goes_on_from_the_last_good_state(engine):
    client = Client(engine, eager=True, cost=0.001)
    paused = Client(engine, eager=True)
    client.handle.pace(7)
    client.handle.run()
    paused.handle.set_view((0.0, 0.0, 2.0, 2.0), (5, 6))
    paused.handle.update(level=0.125)
    paused.handle.step(11)
    paused.wait_frame(lambda frame: frame.facts["step"] == 11)
    client.wait_frame(lambda frame: frame.facts["step"] >= 7 * 20)
    until(lambda: client.handle.last_checkpoint and paused.handle.last_checkpoint)
    before = client.frames[-1]
    kill(engine)
    killed = time.monotonic()
    restarted = client.wait(EngineRestarted)
    after = client.wait_frame(lambda frame: frame.number > before.number + 5)
    assert time.monotonic() - killed < 5 * slack()
    assert "SIGKILL" in restarted.reason
    assert 0 < restarted.seconds < 5 * slack()
    assert after.facts["step"] > 7
    assert after.facts["value"] == after.facts["step"]  # the state is consistent with its count
    assert after.timing.steps == 7
    paused.wait(EngineRestarted)
    again = paused.wait_frame(lambda frame: frame.number > 1 and frame.facts["step"] == 11)
    assert again.facts["level"] == 0.125
    assert paused.frames[-1].rasters["field"].levels.shape == (5, 6)
    numbers = [frame.number for frame in client.frames]
    assert numbers == sorted(set(numbers))
    assert len(client.of(EngineRestarted)) == engine.restarts == 1


def test_permissions_and_values_of_the_time_without_an_engine_hold_for_the_next(engine):
    client = Client(engine)
    client.credit(2)
    client.handle.run()
    client.wait(FrameReady, 2)
    kill(engine)
    client.handle.update(level=0.75)
    client.wait(EngineRestarted)
    client.barrier()
    assert len(client.frames) == 2
    client.credit()
    assert client.wait(FrameReady, 3).frame.facts["level"] == 0.75


def test_a_bad_state_is_never_the_one_to_go_on_from(engine):
    client = Client(engine)
    client.handle.step(3)
    until(lambda: client.handle.last_checkpoint)
    client.handle.act("spoil")  # without a permission, no frame checks the state
    time.sleep(0.5)
    client.barrier()
    kill(engine)
    client.wait(EngineRestarted)
    client.credit()
    assert client.wait(FrameReady).frame.facts["value"] == 3.0


def test_a_hang_ends_at_the_deadline_and_the_others_go_on(hasty):
    client, (other,) = Client(hasty), at_work(hasty)
    client.handle.act("hang")
    started = time.monotonic()
    assert "no sign of life" in client.wait(EngineRestarted).reason
    assert time.monotonic() - started >= HASTY - 0.1
    other.wait(EngineRestarted)
    other.wait(FrameReady, len(other.frames) + 5)
    client.credit()
    client.wait(FrameReady)


@pytest.mark.parametrize("text", ["cold", "warm"])
def test_a_compilation_is_no_hang_in_the_first_call_or_if_the_lab_expects_one(hasty, text):
    client = Client(hasty, eager=True, cost=HASTY + 1 if text == "warm" else 0.0)
    client.handle.step(1)
    client.wait_frame(lambda frame: frame.facts["step"] == 1)
    assert not client.of(EngineRestarted)
    client.handle.update(cost=HASTY + 1 if text == "cold" else 10.0, text=text)  # a pause of the machine is forgiven
    client.handle.step(1)
    if text == "cold":
        client.wait_frame(lambda frame: frame.facts["step"] == 2)
        assert not client.of(EngineRestarted)
    else:
        assert client.of(Busy)
        assert "no sign of life" in client.wait(EngineRestarted).reason


def test_a_kernel_that_must_be_built_later_is_no_hang_and_its_frame_is_marked(hasty):
    client = Client(hasty, eager=True)
    client.handle.step(1)
    client.wait_frame(lambda frame: frame.facts["step"] == 1)
    client.handle.update(trap="build")  # a value that the lab cannot foresee, after the first frame
    client.handle.step(1)
    frame = client.wait_frame(lambda frame: frame.facts["step"] == 2)
    assert frame.timing.first_call
    assert not client.of(EngineRestarted)
    assert "compiling (a few seconds)" in [event.what for event in client.of(Busy)]
    client.handle.update(trap="")
    client.handle.step(1)
    assert not client.wait_frame(lambda frame: frame.facts["step"] == 3).timing.first_call


def test_ctrl_c_is_the_servers_business(engine):
    client = Client(engine)
    client.barrier()
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGINT)
    client.barrier()
    assert engine.restarts == 0


def test_a_lost_device_context_restarts_the_engine(engine):
    client = Client(engine)
    client.handle.act("poison")
    assert "only a restart cures" in client.wait(EngineRestarted).reason


def test_values_that_kill_are_given_up(engine, monkeypatch):
    monkeypatch.setattr(process, "WITHIN", 3600.0)  # s: a slow machine takes a minute for the restarts
    client = Client(engine, eager=True)
    client.wait(FrameReady)
    client.handle.run()
    client.handle.update(trap="kill")
    client.wait(EngineBroken)
    assert engine.state == "broken"
    assert engine.restarts == 3
    late = Client(engine)
    assert "SIGKILL" in late.wait(EngineBroken).reason
    late.close()
    client.close()
    fresh = Client(engine, eager=True)
    fresh.wait(EngineBroken)
    engine.retry()
    fresh.wait(FrameReady)
    assert engine.state == "ready"


def test_a_device_that_comes_back_is_found_without_being_asked_for(engine, monkeypatch):
    """Its clients have moved to other engines; the delay before the next attempt grows with each failure."""
    monkeypatch.setattr(process, "BACK_OFF", 0.5)
    monkeypatch.setattr(process, "WITHIN", 3600.0)  # s: a slow machine takes a minute for the restarts
    client = Client(engine, eager=True)
    client.handle.run()
    client.handle.update(trap="kill")
    client.wait(EngineBroken)
    restarts = engine.restarts
    time.sleep(1.0)
    assert (engine.state, engine.restarts) == ("broken", restarts)  # while a client is connected, the client decides
    client.close()
    until(lambda: engine.state == "ready")
    (back,) = at_work(engine)
    assert not back.of(EngineBroken)


def test_a_device_that_stays_away_is_tried_more_and_more_rarely():
    breaker, now = process.CircuitBreaker(), 0.0
    waits = []
    for _ in range(7):
        waits.append(breaker.back_off(now))
        now += waits[-1]
    assert waits == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    assert breaker.back_off(now + 3601) == 30.0


def test_memory_that_somebody_else_takes_pauses_the_lab_that_needs_it_and_nobody_else(engine):
    """Out of memory needs no restart: the engine is not restarted, and the lab can continue later."""
    client, other = at_work(engine, 2)
    before = client.frames[-1].facts["step"]
    client.handle.update(trap="no memory")
    assert "out of memory" in client.wait(Paused).reason
    went_on = other.frames[-1].number
    other.wait_frame(lambda frame: frame.number > went_on + 5)
    client.handle.update(trap="")
    client.handle.run()
    client.wait_frame(lambda frame: frame.facts["step"] > before + 3)
    assert engine.restarts == 0
    assert not other.of(Paused)


def test_a_state_that_crashes_the_engine_is_kept_for_no_other_lab(engine):
    client = Client(engine, eager=True)
    client.handle.act("plant")
    client.handle.step(1)
    until(lambda: client.handle.last_checkpoint)
    kill(engine)
    client.wait(LabFailed)
    client.wait(LabClosed)
    assert client.handle.last_checkpoint is None
    assert engine.restarts == 3  # the kill, which is charged to no lab, and two crashes


def test_questions_are_asked_again_after_a_restart(engine):
    client = Client(engine, cost=0.01)
    client.barrier()
    client.handle.sample(10, 2)
    client.handle.solve(7, 1)
    time.sleep(0.2)
    kill(engine)
    client.handle.snapshot()
    assert len(client.wait(Sampled).timings) == 3
    assert client.wait(Solved).field.shape == (4, 4)
    client.wait(SnapshotTaken, 5)
    client.barrier()
    assert [len(client.of(kind)) for kind in (Sampled, Solved, SnapshotTaken, EngineRestarted)] == [1, 1, 9, 1]


def test_a_state_and_a_checkpoint_move_to_another_engine(engine):
    first = Client(engine, eager=True)
    first.handle.step(9)
    first.wait_frame(lambda frame: frame.facts["step"] == 9)
    first.handle.take_checkpoint()
    taken = first.wait(CheckpointTaken).checkpoint
    assert (taken.values["level"], taken.recording_offset) == (0.5, None)
    for other in running("host:other"):
        events: list[Event] = []
        handle = other.open("faulty", taken.values, events.append, (8, 8), taken, frames=7)
        handle.frames_through(8)
        until(lambda events=events: any(isinstance(event, FrameReady) for event in events))
        (shown,) = [event.frame for event in events if isinstance(event, FrameReady)]
        assert (shown.number, shown.facts["step"], shown.facts["value"]) == (8, 9.0, 9.0)
        second = Client(other, eager=True)
        second.handle.restore(first.snapshot())
        assert second.wait_frame(lambda frame: frame.facts["step"] == 9).facts["value"] == 9.0


def test_nobody_is_left_behind_when_the_engine_closes_while_it_hangs():
    for engine in running(deadline=60.0):
        client = Client(engine)
        client.barrier()
        client.handle.act("hang")
        time.sleep(0.2)
        pid = engine.pid
    client.wait(LabClosed)
    assert pid is not None
    assert not psutil.pid_exists(pid)


def test_closing_is_possible_at_any_moment():
    for pause in (0.0, 0.05, 0.3):
        for engine in running():
            client = Client(engine)
            time.sleep(pause)
        client.wait(LabClosed)


SERVER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have had it ignored
from compute.engine import EnginePool
from tests.compute.engine.faulty import LABS, Client
pool = EnginePool(labs=LABS, spare=0.0)
engine = pool.get("host")
client = Client(engine)
client.barrier()
while not engine.spare_pid: time.sleep(0.01)
if {hang}: client.handle.act("hang")
print(engine.pid, engine.spare_pid, flush=True)
{then}
"""


@pytest.mark.parametrize(
    ("ended", "hang"),
    [(signal.SIGKILL, True), (signal.SIGTERM, False), (signal.SIGINT, False), (None, False), (None, True)],
)
def test_a_server_that_ends_leaves_no_process(ended, hang):
    by_itself = "time.sleep(0.2)" if hang else "sys.stdin.read()"  # until the processes have been checked
    code = SERVER.format(hang=hang, then="time.sleep(60)" if ended else by_itself)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, **pipes) as server:
        assert server.stdout is not None
        pids = [int(pid) for pid in server.stdout.readline().split()]
        assert all(psutil.pid_exists(pid) for pid in pids)
        if ended:
            time.sleep(0.2)
            server.send_signal(ended)
        _, errors = server.communicate(timeout=300)
    until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    assert b"leaked" not in errors
    assert b"ResourceWarning" not in errors
    if ended is None:
        assert server.returncode == 0
        assert errors == b""
