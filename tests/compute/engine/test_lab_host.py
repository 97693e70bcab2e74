"""Parts of a lab in the worker: which values fit its engine, and which states are kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, nan

import numpy as np
import pytest

from compute.devices.devices import Host
from compute.engine.benchmark_target import BenchmarkQueue
from compute.engine.checkpoints import Checkpointer, all_finite
from compute.engine.compiling import KernelJobs
from compute.engine.lab_host import MOST_WAITING, LabHost, check_device
from compute.engine.messages import (
    Act,
    CheckpointMessage,
    MeasurementQueued,
    Record,
    RecordingProgress,
    Solve,
    Solved,
    Step,
    StopRecording,
    TakeSample,
    Update,
)
from compute.engine.shared_memory import FrameRing
from compute.labs.crossover import Crossover
from tests.compute.engine.faulty import Faulty, QuietSender


def test_only_finite_states_are_good():
    good = {"field": np.ones((3, 3), np.float32), "steps": 3, "image": None, "mask": np.zeros(3, bool)}
    assert all_finite({**good, "second_run": good})
    for bad in (nan, inf, -inf):
        field = np.ones((3, 3), np.float32)
        field[1, 2] = bad
        assert not all_finite({**good, "field": field})
        assert not all_finite({**good, "second_run": {"field": field}})
    assert not all_finite({"field": np.array([inf, -inf])})


def test_no_state_is_kept_where_memory_is_short(monkeypatch, caplog):
    sender, lab = QuietSender(), Faulty(backend="cpu_numpy")
    checkpointer = Checkpointer(1, lab, sender)
    assert checkpointer.wakes_at() == inf
    with monkeypatch.context() as patch:
        patch.setattr(Host, "free_bytes", lambda _: 300)
        checkpointer.touch(by_hand=True)
        checkpointer.turn()
    assert "128 bytes for a copy are too much where 300 are free" in caplog.text
    checkpointer.touch(by_hand=True)
    assert checkpointer.wakes_at() > time.monotonic() + 10
    checkpointer.turn()
    checkpointer.turn()
    assert [type(report) for report in sender.said] == [CheckpointMessage]
    checkpointer.close()
    lab.close()


@pytest.mark.parametrize(("labs", "rest"), [(1, 0.5 / 0.02), (40, 0.5 * 40 / 0.05)])
def test_all_labs_together_leave_the_engine_most_of_its_time(monkeypatch, labs, rest):
    now = [100.0]
    monkeypatch.setattr("compute.engine.checkpoints.time.monotonic", lambda: now[0])
    lab = Faulty(backend="cpu_numpy")
    checkpointer = Checkpointer(1, lab, QuietSender())
    checkpointer.labs = labs
    checkpointer.touch(by_hand=True)
    take = lab.snapshot

    def slowly() -> dict[str, object]:
        now[0] += 0.5
        return take()

    monkeypatch.setattr(lab, "snapshot", slowly)
    checkpointer.turn()
    checkpointer.turn()  # writes the state
    checkpointer.touch(by_hand=True)
    assert checkpointer.wakes_at() == pytest.approx(now[0] + rest)
    checkpointer.close()
    lab.close()


@pytest.mark.parametrize(
    ("engine", "values", "fits"),
    [
        ("host", {"backend": "cpu_numba", "device_index": 0, "r": 0.1}, True),
        ("host", {"backend": "gpu_cupy"}, False),
        ("cuda:1", {"backend": "gpu_cupy", "device_index": 1}, True),
        ("cuda:1", {"backend": "gpu_numba"}, True),
        ("cuda:1", {"device_index": 0}, False),
    ],
)
def test_an_engine_takes_what_runs_on_its_device(engine, values, fits):
    if fits:
        check_device(engine, values)
    else:
        with pytest.raises(ValueError, match=engine):
            check_device(engine, values)


def test_a_recording_begins_and_ends_however_many_acts_wait(tmp_path):
    sender, lab = QuietSender(), Faulty(backend="cpu_numpy")
    host = LabHost(1, lab, sender, FrameRing(FrameRing.create()), "host", KernelJobs())
    ends = []
    for request in (Record(1, str(tmp_path), 5, (8, 8), 100, None), StopRecording(1)):
        for _ in range(MOST_WAITING):
            host.handle(Act(1, "reset", {}))
        with pytest.raises(ValueError, match="64 requests of this lab wait already; nothing was done"):
            host.handle(Act(1, "reset", {}))
        for _ in range(3):  # pressed repeatedly, while no reaction is visible
            host.handle(request)
        assert host.wakes_at(0.0) == 0.0
        host.turn(time.monotonic(), 60.0)
        ends.append([one.ended for one in sender.said if isinstance(one, RecordingProgress) and one.ended])
    assert ends == [[], ["stopped"]]
    host.close()


class AnnouncingSender(QuietSender):
    """A sender that keeps the current extension of the deadline in seconds, 0 for none."""

    seconds = 0.0

    @contextmanager
    def extended_deadline(self, lab: int, what: str, seconds: float) -> Iterator[None]:
        self.seconds = seconds
        yield
        self.seconds = 0.0


def test_a_long_call_of_a_sweep_is_announced_while_it_times():
    sender, allowed = AnnouncingSender(), []

    class Watched(Crossover):
        """Records the extension of the deadline while no compilation is possible."""

        def advance(self, steps=1):
            if not self.status.cold:
                allowed.append(sender.seconds)
            return super().advance(steps)

    lab = Watched(backend="cpu_numpy", ways=["cpu_numpy"], least=10, most=10, longest=0.05)
    host = LabHost(1, lab, sender, FrameRing(FrameRing.create()), "host", KernelJobs())
    for longest in (0.05, 10.0):  # not structural: the host must follow it
        host.handle(Update(1, 1, {"longest": longest}))
        allowed.clear()
        while len(allowed) < 2:  # the very first call may compile
            host.handle(Step(1, 1))
            host.turn(time.monotonic(), 60.0)
    assert allowed[-1] >= 10
    host.close()


@pytest.mark.parametrize("beside_live", [True, False])
def test_a_measurement_rests_beside_watched_labs(beside_live):
    queue = BenchmarkQueue(QuietSender())
    queue.add(TakeSample(1, 100, 5), Faulty(backend="cpu_numpy", cost=0.01))
    queue.beside_live = beside_live
    for _ in range(3):  # opening the lab, the first step, and two warm-up steps with a timed one
        queue.turn(0.0, 0.0)
    assert (queue.wakes_at(0.0) - time.monotonic() > 0.03) == beside_live
    queue.drop(1)


def test_who_measures_hears_how_many_are_before_and_when_it_begins():
    events: list[object] = []

    class Sender(QuietSender):
        """A sender that records each event with its receiver."""

        def send_event(self, lab: int, event: object) -> None:
            events.append((lab, event))

        def send_large_event(self, lab: int, event: object) -> None:
            events.append((lab, type(event)))

    def news() -> list[object]:
        found = list(events)
        events.clear()
        return found

    queue, lab = BenchmarkQueue(Sender()), Faulty(backend="cpu_numpy")
    for number in (1, 2, 3, 4):
        queue.add(Solve(number, 1, 0), lab)
    assert news() == [(2, MeasurementQueued(1)), (3, MeasurementQueued(2)), (4, MeasurementQueued(3))]
    while (1, Solved) not in events:
        queue.turn(0.0, 0.0)
    assert news() == [(1, MeasurementQueued(0)), (3, MeasurementQueued(1)), (4, MeasurementQueued(2)), (1, Solved)]
    queue.turn(0.0, 0.0)
    queue.drop(2)  # closed before the end
    queue.turn(0.0, 0.0)
    assert news() == [(2, MeasurementQueued(0)), (4, MeasurementQueued(1)), (3, MeasurementQueued(0))]
    for number in (3, 4, 5):
        queue.drop(number)
    assert queue.wakes_at(0.0) == inf
