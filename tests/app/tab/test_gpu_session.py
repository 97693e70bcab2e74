"""Moves of a tab's lab between the host and a real GPU: completed, refused, and back to the host after a failure."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.tab import session as module
from app.tab.session import Session
from app.tab.session_states import FellBack, Live
from compute.devices.backends import backend
from compute.engine import EnginePool, Refused, SnapshotTaken
from compute.lab.lab import variants
from compute.labs.diffusion import Diffusion

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(backend("gpu_cupy").missing), reason="gpu_cupy is missing here")]


class Tab:
    """A page with a manual loop, and a browser that confirms frames immediately."""

    def __init__(self, engines: EnginePool, **values: Any) -> None:
        self.engines = engines
        self.jobs: deque[Callable[[], object]] = deque()
        self.told: list[Any] = []
        document: Any = SimpleNamespace(add_next_tick_callback=self.jobs.append)
        self.session = Session(Diffusion, document, values)
        self.session.events.subscribe(self.told.append)
        self.session.frames.subscribe(lambda frame: self.session.gate.acknowledge(frame.number, 0.0))
        self.session.start()
        self.session.ready()

    def until(self, good: Callable[[], object], seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while not good():
            assert time.monotonic() < end, (self.session.state, self.told[-5:])
            if self.jobs:
                self.jobs.popleft()()
            else:
                time.sleep(0.001)

    def rests(self) -> bool:
        return isinstance(self.session.state, Live)

    def snapshot(self) -> dict[str, Any]:
        before = self.count(SnapshotTaken)
        self.session.request_snapshot()
        self.until(lambda: self.count(SnapshotTaken) > before)
        return dict(next(event for event in reversed(self.told) if isinstance(event, SnapshotTaken)).snapshot)

    def count(self, kind: type[Any]) -> int:
        return sum(isinstance(event, kind) for event in self.told)


@pytest.fixture(scope="module")
def engines() -> Iterator[EnginePool]:
    room = EnginePool()
    yield room
    room.close()


@pytest.fixture
def tab(engines, monkeypatch) -> Iterator[Tab]:
    monkeypatch.setattr(module, "session_limiter", lambda: SimpleNamespace(engines=engines))
    tab = Tab(engines, backend="cpu_numba", ny=300, nx=200, r=0.2)
    tab.until(lambda: tab.session.latest)
    yield tab
    tab.session.close()


def test_a_field_goes_to_the_gpu_and_back(tab):
    tab.session.play(True)
    tab.until(lambda: tab.session.latest.facts["step"] > 20)
    tab.session.act("checkpoint")
    tab.session.play(False)
    start = tab.snapshot()
    for name, r in (("gpu_cupy", 0.1), ("gpu_numba", 0.15), ("cpu_numpy", 0.2)):
        tab.session.change(backend=name, variant="", r=r)
        tab.until(tab.rests)
        tab.until(lambda name=name: tab.session.latest.timing.backend == name)
    end = tab.snapshot()
    assert end["steps"] == start["steps"]
    np.testing.assert_array_equal(end["field"], start["field"])
    tab.session.step()
    tab.session.act("rollback")  # the checkpoint has moved along
    tab.until(lambda: tab.session.latest.facts["step"] == start["saved"]["steps"])
    assert tab.count(Refused) == 0


def test_a_link_s_size_and_state_arrive_on_the_gpu(tab):
    tab.session.change(backend="gpu_cupy", variant="", ny=2048, nx=2048)
    field = np.random.default_rng(1).random((2048, 2048), np.float32)
    truth = Diffusion(backend="cpu_numba", ny=2048, nx=2048)
    truth.load(field)
    tab.session.restore(truth.snapshot())
    tab.until(tab.rests)
    tab.until(lambda: tab.session.latest.timing.cells == 2048**2)
    np.testing.assert_array_equal(tab.snapshot()["field"], field)
    assert tab.count(Refused) == 0


def test_what_the_gpu_refuses_leaves_the_lab_on_the_host(tab):
    tab.session.step()
    tab.until(lambda: tab.session.latest.facts["step"] == 1)
    before = tab.snapshot()
    tab.session.change(backend="gpu_cupy", variant="", device_index=63)
    tab.until(lambda: tab.count(Refused))
    tab.until(tab.rests)
    assert (tab.session.engine, tab.session.values["device_index"]) == ("host", 0)
    np.testing.assert_array_equal(tab.snapshot()["field"], before["field"])


def test_where_the_gpu_s_engine_gives_up_the_host_goes_on(tab):
    tab.session.change(backend="gpu_cupy", variant=variants(Diffusion, "gpu_cupy")[-1])
    tab.until(tab.rests)
    tab.session.step()
    tab.until(lambda: tab.session.latest.facts["step"] == 1)
    tab.until(lambda: tab.session.shown.handle.last_checkpoint is not None)
    time.sleep(1.5)  # a checkpoint is made about once a second
    steps = tab.snapshot()["steps"]
    engine = tab.engines.get("cuda:0")
    end = time.monotonic() + 120
    while engine.state != "broken":
        assert time.monotonic() < end
        if engine.state in ("ready", "busy") and engine.pid:
            os.kill(engine.pid, signal.SIGKILL)
        time.sleep(0.1)
    tab.until(lambda: tab.count(FellBack))
    tab.until(tab.rests)
    assert tab.session.values["backend"] == "cpu_numba"
    assert tab.snapshot()["steps"] == steps
